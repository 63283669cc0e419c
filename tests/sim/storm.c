/* SPDX-License-Identifier: BSD-2-Clause */
#include "storm.h"

#include <stdlib.h>
#include <uthash.h>

#include "emu/objects/mw.h"
#include "emu/transport/cwnd.h"

/* What is posted and not yet completed. */
struct operation {
	uint64_t number; /* within the flow; the wr_id */
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool receives, signaled;
	uint64_t value; /* atomics: what they must find */
};

struct storm_qp {
	struct {
		struct node *node;
		uint32_t number;
	} key;
	struct qp *qp;
	unsigned int sends, receives; /* indices of the flow it sends in, and receives in */
	UT_hash_handle hh;
};

/*
 * Memory of a flow: STORM_DEPTH slots at the sender, as many at the receiver for
 * what is written and read, as many receives, and two counters for atomics.
 */
struct flow {
	struct node *from, *to;
	struct qp *sender, *receiver;
	uint8_t *local, *remote;
	struct mr *local_mr, *remote_mr;

	struct operation under_way[STORM_DEPTH]; /* by number % STORM_DEPTH */
	uint64_t posted, completed;
	uint64_t messages[STORM_DEPTH]; /* numbers of the operations that receives wait for */
	uint64_t receives_posted, receives_expected, receives_completed;
	uint64_t adds, swaps;
	struct mw *window; /* the sender's, type 2: bound, invalidated, bound, ... */
	uint32_t window_rkey;
	bool bound;
};

static uint64_t draw(struct storm *storm, uint64_t bound)
{
	return bound ? sim_random(storm->world->sim) % bound : 0;
}

static bool hit(struct storm *storm, double probability)
{
	return draw(storm, 1000000) < probability * 1000000;
}

static size_t slot_size(const struct storm *storm)
{
	return (storm->options.max_length + 64) & ~(size_t)7;
}

static uint8_t *slot(const struct storm *storm, uint8_t *memory, uint64_t number)
{
	return memory + number % STORM_DEPTH * slot_size(storm);
}

static uint8_t *receive_slot(const struct storm *storm, const struct flow *flow, uint64_t number)
{
	return slot(storm, flow->remote + STORM_DEPTH * slot_size(storm), number);
}

/* The counters for FETCH_ADD and CMP_SWP, at the receiver. */
static uint64_t *counters(const struct storm *storm, const struct flow *flow)
{
	return (uint64_t *)(flow->remote + 2 * STORM_DEPTH * slot_size(storm));
}

static void fill(uint8_t *memory, uint32_t length, uint64_t number)
{
	for (uint32_t i = 0; i < length; i++)
		memory[i] = number * 41 + i + (i >> 8);
}

static void check(const uint8_t *memory, uint32_t length, uint64_t number, const char *what)
{
	for (uint32_t i = 0; i < length; i++)
		must_msg(memory[i] == (uint8_t)(number * 41 + i + (i >> 8)),
			 "%s %llu: byte %u of %u is wrong", what, (unsigned long long)number, i,
			 length);
}

/* --- setting up --------------------------------------------------------------- */

void storm_create(struct storm *storm, struct world *world, const struct storm_options *options)
{
	*storm = (struct storm){.world = world, .options = *options};
}

static struct qp *make_qp(struct storm *storm, struct node *node, unsigned int sends,
			  unsigned int receives)
{
	struct qp_options options = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * STORM_DEPTH,
			.max_recv_wr = STORM_DEPTH,
			.max_send_sge = STORM_SGES,
			.max_recv_sge = STORM_SGES,
			.max_inline_data = 64},
	};
	struct storm_qp *entry = calloc(1, sizeof(*entry));

	entry->qp = world_qp(node, &options);
	entry->key.node = node;
	entry->key.number = entry->qp->number;
	entry->sends = sends;
	entry->receives = receives;
	HASH_ADD(hh, storm->qps, key, sizeof(entry->key), entry);
	return entry->qp;
}

static void make_flow(struct storm *storm, struct node *from, struct qp *sender, struct node *to,
		      struct qp *receiver)
{
	struct flow *flow = &storm->flows[storm->flow_count++];
	size_t slots = STORM_DEPTH * slot_size(storm);

	*flow = (struct flow){.from = from, .to = to, .sender = sender, .receiver = receiver};
	flow->local = calloc(1, slots);
	flow->remote = calloc(1, 2 * slots + 16);
	flow->local_mr =
		world_mr(from, flow->local, slots, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	must(mw_alloc(from->pd, IBV_MW_TYPE_2, &flow->window) == 0);
	flow->window_rkey = flow->window->ibv.rkey;
	flow->remote_mr = world_mr(to, flow->remote, 2 * slots + 16, world_connection.access);
}

static struct connection draw_connection(struct storm *storm)
{
	struct connection c = world_connection;

	c.mtu = IBV_MTU_256 + draw(storm, 5);
	c.timeout = 8 + draw(storm, 7);
	c.min_rnr_timer = 1 + draw(storm, 14);
	c.rd_atomic = 1 + draw(storm, 8);
	c.psn = hit(storm, 0.5) ? 0xffffff - draw(storm, 50) : draw(storm, 1 << 24);
	return c;
}

void storm_connect(struct storm *storm, struct node *a, struct node *b)
{
	struct connection c = storm->options.random_connection ? draw_connection(storm)
							       : storm->options.connection;
	unsigned int forth = storm->flow_count, back = forth + 1;
	struct qp *qa, *qb;

	if (storm->flow_count + 2 > storm->flow_capacity) {
		storm->flow_capacity = 2 * storm->flow_capacity + 2;
		storm->flows = realloc(storm->flows, storm->flow_capacity * sizeof(*storm->flows));
	}
	qa = make_qp(storm, a, forth, back);
	qb = make_qp(storm, b, back, forth);
	world_connect(a, qa, b, qb, &c);
	make_flow(storm, a, qa, b, qb);
	make_flow(storm, b, qb, a, qa);
}

/* --- posting -------------------------------------------------------------------- */

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_BIND_MW,
};

/* Cut @length bytes at @memory into up to STORM_SGES pieces, some of them empty. */
static int scatter(struct storm *storm, struct ibv_sge *sges, uint8_t *memory, uint32_t length,
		   uint32_t lkey)
{
	int count = length ? 1 + draw(storm, STORM_SGES) : draw(storm, 2);

	for (int i = 0; i < count; i++) {
		uint32_t piece = i + 1 == count ? length : draw(storm, length + 1);

		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)memory, .length = piece, .lkey = piece ? lkey : 0xbad};
		memory += piece;
		length -= piece;
	}
	return count;
}

static void prepare_atomic(struct storm *storm, struct flow *flow, struct operation *op,
			   struct ibv_send_wr *wr)
{
	uint64_t *counter = counters(storm, flow);
	bool add = op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	op->length = 8;
	op->value = add ? flow->adds : flow->swaps;
	wr->wr.atomic.remote_addr = (uintptr_t)(counter + !add);
	wr->wr.atomic.rkey = flow->remote_mr->ibv.rkey;
	wr->wr.atomic.compare_add = add ? 3 : op->value;
	wr->wr.atomic.swap = op->value + 1;
	flow->adds += add ? 3 : 0;
	flow->swaps += !add;
}

/* Executed here; twice in a row or out of order, it fails. */
static void prepare_local(struct flow *flow, struct operation *op, struct ibv_send_wr *wr)
{
	op->length = 0;
	if (flow->bound) {
		op->opcode = wr->opcode = IBV_WR_LOCAL_INV;
		wr->invalidate_rkey = flow->window_rkey;
	} else {
		flow->window_rkey = ibv_inc_rkey(flow->window_rkey);
		wr->bind_mw.mw = &flow->window->ibv;
		wr->bind_mw.rkey = flow->window_rkey;
		wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = &flow->local_mr->ibv,
			.addr = (uintptr_t)flow->local,
			.length = 8,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ,
		};
	}
	flow->bound = !flow->bound;
}

static void prepare(struct storm *storm, struct flow *flow, struct ibv_send_wr *wr,
		    struct ibv_sge *sges)
{
	uint64_t number = flow->posted++;
	struct operation *op = &flow->under_way[number % STORM_DEPTH];
	bool inlined;

	*op = (struct operation){
		.number = number,
		.opcode = opcodes[draw(storm, sizeof(opcodes) / sizeof(opcodes[0]))],
		.length = hit(storm, 0.1) ? 0 : draw(storm, storm->options.max_length + 1),
	};
	*wr = (struct ibv_send_wr){
		.wr_id = number, .opcode = op->opcode, .sg_list = sges, .imm_data = ~number};
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		prepare_atomic(storm, flow, op, wr);
	} else if (op->opcode == IBV_WR_BIND_MW) {
		prepare_local(flow, op, wr);
	} else {
		wr->wr.rdma.remote_addr = (uintptr_t)slot(storm, flow->remote, number);
		wr->wr.rdma.rkey = op->length ? flow->remote_mr->ibv.rkey : 0xbad;
	}
	op->receives = op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
		       op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	op->signaled = hit(storm, 0.6) || number + 1 == storm->options.operations ||
		       number % STORM_DEPTH == STORM_DEPTH - 1;
	inlined = op->length <= 64 && op->opcode <= IBV_WR_SEND_WITH_IMM && hit(storm, 0.5);
	wr->send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0) | (inlined ? IBV_SEND_INLINE : 0) |
			 (hit(storm, 0.1) ? IBV_SEND_FENCE : 0);
	wr->num_sge = scatter(storm, sges, slot(storm, flow->local, number), op->length,
			      flow->local_mr->ibv.lkey);
	if (op->opcode == IBV_WR_BIND_MW || op->opcode == IBV_WR_LOCAL_INV)
		wr->num_sge = 0;
	if (op->opcode == IBV_WR_RDMA_READ)
		fill(slot(storm, flow->remote, number), op->length, number);
	else
		fill(slot(storm, flow->local, number), op->length, number);
	if (op->receives)
		flow->messages[flow->receives_expected++ % STORM_DEPTH] = number;
}

static bool may_post(const struct storm *storm, const struct flow *flow)
{
	return flow->posted < storm->options.operations &&
	       flow->posted - flow->completed < STORM_DEPTH &&
	       flow->receives_expected - flow->receives_completed < STORM_DEPTH;
}

/* A list of random length. */
static void post_sends(struct storm *storm, struct flow *flow)
{
	struct ibv_sge sges[STORM_DEPTH][STORM_SGES];
	struct ibv_send_wr wrs[STORM_DEPTH];
	int count = 0, most = 1 + draw(storm, STORM_DEPTH);

	for (; count < most && may_post(storm, flow); count++) {
		prepare(storm, flow, &wrs[count], sges[count]);
		if (count)
			wrs[count - 1].next = &wrs[count];
	}
	if (!count)
		return;
	must(world_post_send(flow->sender, wrs) == 0);
	for (int i = 0; i < count; i++)
		if (wrs[i].send_flags & IBV_SEND_INLINE) /* free for other use at once */
			memset(slot(storm, flow->local, wrs[i].wr_id), 0xee, 64);
}

static void post_receives(struct storm *storm, struct flow *flow)
{
	while (flow->receives_posted - flow->receives_completed < STORM_DEPTH &&
	       !hit(storm, storm->options.late)) {
		uint64_t number = flow->receives_posted++;
		uint8_t *memory = receive_slot(storm, flow, number);
		struct ibv_sge sges[STORM_SGES];
		struct ibv_recv_wr wr = {.wr_id = number, .sg_list = sges}, *bad;

		memset(memory, 0, slot_size(storm));
		wr.num_sge = scatter(storm, sges, memory, storm->options.max_length,
				     flow->remote_mr->ibv.lkey);
		must(qp_post_recv(flow->receiver, &wr, &bad) == 0);
	}
}

/* --- completing --------------------------------------------------------------------- */

static void finish(struct storm *storm, struct flow *flow, struct operation *op)
{
	uint64_t value;

	switch (op->opcode) {
	case IBV_WR_RDMA_READ:
		check(slot(storm, flow->local, op->number), op->length, op->number, "READ");
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		check(slot(storm, flow->remote, op->number), op->length, op->number, "WRITE");
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		memcpy(&value, slot(storm, flow->local, op->number), sizeof(value));
		must(value == op->value);
		break;
	default:
		break;
	}
	flow->completed++;
}

/* A completion stands for all before it that are unsignaled. */
static void send_completed(struct storm *storm, struct flow *flow, const struct ibv_wc *wc)
{
	for (;;) {
		struct operation *op = &flow->under_way[flow->completed % STORM_DEPTH];

		must(flow->completed < flow->posted);
		finish(storm, flow, op);
		if (op->number == wc->wr_id)
			break;
		must_msg(!op->signaled, "send %llu has no completion",
			 (unsigned long long)op->number);
	}
	must(flow->under_way[wc->wr_id % STORM_DEPTH].signaled);
}

static void receive_completed(struct storm *storm, struct flow *flow, const struct ibv_wc *wc)
{
	uint64_t number = flow->messages[flow->receives_completed % STORM_DEPTH];
	const struct operation *op = &flow->under_way[number % STORM_DEPTH];
	bool write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;

	must(flow->receives_completed < flow->receives_expected);
	must(wc->wr_id == flow->receives_completed);
	must(op->number == number);
	must(write == (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM));
	must(wc->byte_len == op->length);
	if (op->opcode == IBV_WR_SEND) {
		must(wc->wc_flags == 0);
	} else {
		must(wc->wc_flags == IBV_WC_WITH_IMM);
		must(wc->imm_data == (uint32_t)~number);
	}
	if (!write)
		check(receive_slot(storm, flow, wc->wr_id), op->length, number, "receive");
	flow->receives_completed++;
}

static void poll(struct storm *storm, struct node *node)
{
	struct ibv_wc wc;

	while (world_poll(node, &wc)) {
		struct storm_qp *entry, key = {.key = {.node = node, .number = wc.qp_num}};

		HASH_FIND(hh, storm->qps, &key.key, sizeof(key.key), entry);
		must(entry);
		must_msg(wc.status == IBV_WC_SUCCESS, "QP %x: completion %llu has status %d",
			 wc.qp_num, (unsigned long long)wc.wr_id, wc.status);
		if (wc.opcode & IBV_WC_RECV)
			receive_completed(storm, &storm->flows[entry->receives], &wc);
		else
			send_completed(storm, &storm->flows[entry->sends], &wc);
	}
}

static bool flow_done(const struct storm *storm, const struct flow *flow)
{
	return flow->completed == storm->options.operations &&
	       flow->receives_completed == flow->receives_expected;
}

void storm_run(struct storm *storm, uint64_t limit)
{
	uint64_t end = world_now(storm->world) + limit;
	unsigned int idle = 0;
	bool done = false;

	while (!done) {
		done = true;
		for (unsigned int i = 0; i < storm->world->count; i++)
			poll(storm, &storm->world->nodes[i]);
		for (unsigned int i = 0; i < storm->flow_count; i++) {
			struct flow *flow = &storm->flows[i];

			post_receives(storm, flow);
			post_sends(storm, flow);
			done &= flow_done(storm, flow);
		}
		/* What completed in the last step of all lets more be posted in the next rounds. */
		idle = world_step(storm->world) ? 0 : idle + 1;
		must_msg(done || idle < 10, "nothing moves any more");
		must_msg(world_now(storm->world) < end, "too slow");
	}
}

/* --- at the end ----------------------------------------------------------------------- */

static void check_idle(struct qp *qp)
{
	must(qp->state == IBV_QPS_RTS);
	must(qp->sq.done == qp->sq.posted);
	must(qp->sq.next == qp->sq.posted);
	must(atomic_load(&qp->sq.polled) == qp->sq.posted);
	must(qp->requester.in_flight == 0);
	must(qp->requester.rd_atomic == 0);
	must(qp->requester.timeout_at == TIME_NEVER);
	must(qp->requester.cwnd->in_flight == 0);
	must(qp->requester.cwnd->waiting == 0);
}

void storm_destroy(struct storm *storm)
{
	struct storm_qp *entry, *next;

	world_run(storm->world, SECOND); /* the last duplicates and timers */
	for (unsigned int i = 0; i < storm->flow_count; i++) {
		struct flow *flow = &storm->flows[i];

		must(counters(storm, flow)[0] == flow->adds);
		must(counters(storm, flow)[1] == flow->swaps);
		mw_dealloc(flow->window);
		must(mr_deregister(flow->local_mr) == 0);
		must(mr_deregister(flow->remote_mr) == 0);
		free(flow->local);
		free(flow->remote);
	}
	for (unsigned int i = 0; i < storm->world->count; i++)
		poll(storm, &storm->world->nodes[i]);
	HASH_ITER (hh, storm->qps, entry, next) {
		check_idle(entry->qp);
		HASH_DEL(storm->qps, entry);
		must(qp_destroy(entry->qp) == 0);
		free(entry);
	}
	free(storm->flows);
	for (unsigned int i = 0; i < storm->world->count; i++) {
		struct hca *hca = storm->world->nodes[i].hca;

		must(!hca->cwnds);
		must(hca->qps.count == 0);
		must(hca->keys.count == 0);
		must(hca->timers.count == 0);
	}
}
