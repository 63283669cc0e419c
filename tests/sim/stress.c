/* SPDX-License-Identifier: BSD-2-Clause */
#include "stress.h"

#include <stdlib.h>
#include <uthash.h>

#include "emu/objects/mw.h"
#include "emu/transport/destination.h"
#include "net/newer_verbs.h"

/* What is posted and not yet completed. */
struct operation {
	uint64_t number; /* within the flow; the wr_id */
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool receives, signaled;
	uint64_t value; /* atomics: what they must find */
};

#define SRQ_DEPTH (4 * STRESS_DEPTH)

struct stress_srq {
	struct srq *srq;
	uint8_t *memory; /* a slot a receive */
	struct mr *mr;
	bool posted[SRQ_DEPTH];
};

struct stress_qp {
	struct {
		struct node *node;
		uint32_t number;
	} key;
	struct qp *qp;
	unsigned int sends, receives; /* indices of the flow it sends in, and receives in */
	UT_hash_handle hh;
};

/*
 * Memory of a flow: STRESS_DEPTH slots at the sender, as many at the receiver for
 * what is written and read, as many receives, and two counters for atomics.
 */
struct flow {
	struct node *from, *to;
	struct qp *sender, *receiver;
	uint8_t *local, *remote;
	struct mr *local_mr, *remote_mr;

	struct operation under_way[STRESS_DEPTH]; /* by number % STRESS_DEPTH */
	uint64_t posted, completed;
	uint64_t messages[STRESS_DEPTH]; /* numbers of the operations that receives wait for */
	uint64_t receives_posted, receives_expected, receives_completed;
	uint64_t adds, swaps; /* as counted when posted */
	struct mw *window;    /* the sender's, type 2: bound, invalidated, bound, ... */
	uint32_t window_rkey;
	bool bound;
};

static uint64_t draw(struct stress *stress, uint64_t bound)
{
	return bound ? sim_random(stress->world->sim) % bound : 0;
}

static bool hit(struct stress *stress, double probability)
{
	return draw(stress, 1000000) < probability * 1000000;
}

static size_t slot_size(const struct stress *stress)
{
	return (stress->options.max_length + 64) & ~(size_t)7;
}

static uint8_t *slot(const struct stress *stress, uint8_t *memory, uint64_t number)
{
	return memory + number % STRESS_DEPTH * slot_size(stress);
}

static uint8_t *receive_slot(const struct stress *stress, const struct flow *flow, uint64_t number)
{
	return slot(stress, flow->remote + STRESS_DEPTH * slot_size(stress), number);
}

/* The counters for FETCH_ADD and CMP_SWP, at the receiver. */
static uint64_t *counters(const struct stress *stress, const struct flow *flow)
{
	return (uint64_t *)(flow->remote + 2 * STRESS_DEPTH * slot_size(stress));
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

static struct stress_srq *srq_of(const struct stress *stress, const struct node *node)
{
	return &stress->srqs[node - stress->world->nodes];
}

static void make_srq(struct stress *stress, struct node *node)
{
	struct ibv_srq_attr attr = {.max_wr = SRQ_DEPTH, .max_sge = STRESS_SGES};
	struct stress_srq *srq = srq_of(stress, node);
	size_t length = SRQ_DEPTH * slot_size(stress);

	must(srq_create(node->pd, &attr, &srq->srq) == 0);
	srq->memory = calloc(1, length);
	srq->mr = world_mr(node, srq->memory, length, IBV_ACCESS_LOCAL_WRITE);
}

static void destroy_srqs(struct stress *stress)
{
	for (unsigned int i = 0; stress->srqs && i < stress->world->count; i++) {
		must(srq_destroy(stress->srqs[i].srq) == 0);
		must(mr_deregister(stress->srqs[i].mr) == 0);
		free(stress->srqs[i].memory);
	}
	free(stress->srqs);
}

void stress_create(struct stress *stress, struct world *world, const struct stress_options *options)
{
	*stress = (struct stress){.world = world, .options = *options};
	if (!options->srq)
		return;
	stress->srqs = calloc(world->count, sizeof(*stress->srqs));
	for (unsigned int i = 0; i < world->count; i++)
		make_srq(stress, &world->nodes[i]);
}

static struct qp *make_qp(struct stress *stress, struct node *node, unsigned int sends,
			  unsigned int receives)
{
	struct qp_options options = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * STRESS_DEPTH,
			.max_recv_wr = STRESS_DEPTH,
			.max_send_sge = STRESS_SGES,
			.max_recv_sge = STRESS_SGES,
			.max_inline_data = 64},
	};
	struct stress_qp *entry = calloc(1, sizeof(*entry));

	if (stress->srqs)
		options.srq = srq_of(stress, node)->srq;
	entry->qp = world_qp(node, &options);
	entry->key.node = node;
	entry->key.number = entry->qp->number;
	entry->sends = sends;
	entry->receives = receives;
	HASH_ADD(hh, stress->qps, key, sizeof(entry->key), entry);
	return entry->qp;
}

static void make_flow(struct stress *stress, struct node *from, struct qp *sender, struct node *to,
		      struct qp *receiver)
{
	struct flow *flow = &stress->flows[stress->flow_count++];
	size_t slots = STRESS_DEPTH * slot_size(stress);

	*flow = (struct flow){.from = from, .to = to, .sender = sender, .receiver = receiver};
	flow->local = calloc(1, slots);
	flow->remote = calloc(1, 2 * slots + 16);
	flow->local_mr =
		world_mr(from, flow->local, slots, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	must(mw_alloc(from->pd, IBV_MW_TYPE_2, &flow->window) == 0);
	flow->window_rkey = flow->window->ibv.rkey;
	flow->remote_mr = world_mr(to, flow->remote, 2 * slots + 16, world_connection.access);
}

static struct connection draw_connection(struct stress *stress)
{
	struct connection c = world_connection;

	c.mtu = IBV_MTU_256 + draw(stress, 5);
	c.timeout = (stress->options.least_timeout ? stress->options.least_timeout : 8) +
		    draw(stress, 7);
	c.min_rnr_timer = 1 + draw(stress, 14);
	c.rd_atomic = 1 + draw(stress, 8);
	c.psn = hit(stress, 0.5) ? 0xffffff - draw(stress, 50) : draw(stress, 1 << 24);
	return c;
}

static void connect_qps(struct stress *stress, struct node *a, struct qp *qa, struct node *b,
			struct qp *qb)
{
	struct connection c = stress->options.random_connection ? draw_connection(stress)
								: stress->options.connection;

	world_connect(a, qa, b, qb, &c);
	if (stress->connected) {
		stress->connected(stress, qa);
		stress->connected(stress, qb);
	}
}

void stress_connect(struct stress *stress, struct node *a, struct node *b)
{
	unsigned int forth = stress->flow_count, back = forth + 1;
	struct qp *qa, *qb;

	if (stress->flow_count + 2 > stress->flow_capacity) {
		stress->flow_capacity = 2 * stress->flow_capacity + 2;
		stress->flows =
			realloc(stress->flows, stress->flow_capacity * sizeof(*stress->flows));
	}
	qa = make_qp(stress, a, forth, back);
	qb = make_qp(stress, b, back, forth);
	connect_qps(stress, a, qa, b, qb);
	make_flow(stress, a, qa, b, qb);
	make_flow(stress, b, qb, a, qa);
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
	IBV_WR_ATOMIC_WRITE,
	WR_FLUSH,
	IBV_WR_BIND_MW,
};

/* Cut @length bytes at @memory into up to STRESS_SGES pieces, some of them empty. */
static int scatter(struct stress *stress, struct ibv_sge *sges, uint8_t *memory, uint32_t length,
		   uint32_t lkey)
{
	int count = length ? 1 + draw(stress, STRESS_SGES) : draw(stress, 2);

	for (int i = 0; i < count; i++) {
		uint32_t piece = i + 1 == count ? length : draw(stress, length + 1);

		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)memory, .length = piece, .lkey = piece ? lkey : 0xbad};
		memory += piece;
		length -= piece;
	}
	return count;
}

static void prepare_atomic(struct stress *stress, struct flow *flow, struct operation *op,
			   struct ibv_send_wr *wr)
{
	uint64_t *counter = counters(stress, flow);
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

/* Of a part of the flow's memory, or of all of it. */
static void prepare_flush(struct stress *stress, struct flow *flow, struct operation *op,
			  struct flush_wr *flush)
{
	op->length = 0;
	flush->wr.wr.rdma.remote_addr = (uintptr_t)slot(stress, flow->remote, op->number);
	flush->wr.wr.rdma.rkey = flow->remote_mr->ibv.rkey;
	flush->flush = (struct flush){
		.length = draw(stress, slot_size(stress) + 1),
		.placement = FLUSH_GLOBAL,
		.selectivity = draw(stress, 2) ? FLUSH_RANGE : FLUSH_MR,
	};
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

static void prepare(struct stress *stress, struct flow *flow, struct flush_wr *request,
		    struct ibv_sge *sges)
{
	struct ibv_send_wr *wr = &request->wr;
	uint64_t number = flow->posted++;
	struct operation *op = &flow->under_way[number % STRESS_DEPTH];
	bool inlined;

	*op = (struct operation){
		.number = number,
		.opcode = opcodes[draw(stress, sizeof(opcodes) / sizeof(opcodes[0]))],
		.length = hit(stress, 0.1) ? 0 : draw(stress, stress->options.max_length + 1),
	};
	*wr = (struct ibv_send_wr){
		.wr_id = number, .opcode = op->opcode, .sg_list = sges, .imm_data = ~number};
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		prepare_atomic(stress, flow, op, wr);
	} else if (op->opcode == IBV_WR_BIND_MW) {
		prepare_local(flow, op, wr);
	} else if (op->opcode == WR_FLUSH) {
		prepare_flush(stress, flow, op, request);
	} else {
		if (op->opcode == IBV_WR_ATOMIC_WRITE)
			op->length = ATOMIC_LENGTH;
		wr->wr.rdma.remote_addr = (uintptr_t)slot(stress, flow->remote, number);
		wr->wr.rdma.rkey = op->length ? flow->remote_mr->ibv.rkey : 0xbad;
	}
	op->receives = op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
		       op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	op->signaled = hit(stress, 0.6) || number + 1 == stress->options.operations ||
		       number % STRESS_DEPTH == STRESS_DEPTH - 1;
	inlined = op->length <= 64 &&
		  (op->opcode <= IBV_WR_SEND_WITH_IMM || op->opcode == IBV_WR_ATOMIC_WRITE) &&
		  hit(stress, 0.5);
	wr->send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0) | (inlined ? IBV_SEND_INLINE : 0) |
			 (hit(stress, 0.1) ? IBV_SEND_FENCE : 0);
	wr->num_sge = scatter(stress, sges, slot(stress, flow->local, number), op->length,
			      flow->local_mr->ibv.lkey);
	if (op->opcode == IBV_WR_BIND_MW || op->opcode == IBV_WR_LOCAL_INV ||
	    op->opcode == WR_FLUSH)
		wr->num_sge = 0;
	if (op->opcode == IBV_WR_RDMA_READ)
		fill(slot(stress, flow->remote, number), op->length, number);
	else
		fill(slot(stress, flow->local, number), op->length, number);
	if (op->receives)
		flow->messages[flow->receives_expected++ % STRESS_DEPTH] = number;
}

static bool may_post(const struct stress *stress, const struct flow *flow)
{
	return flow->posted < stress->options.operations &&
	       flow->posted - flow->completed < STRESS_DEPTH &&
	       flow->receives_expected - flow->receives_completed < STRESS_DEPTH;
}

/* A list of random length. */
static void post_sends(struct stress *stress, struct flow *flow)
{
	struct ibv_sge sges[STRESS_DEPTH][STRESS_SGES];
	struct flush_wr wrs[STRESS_DEPTH];
	int count = 0, most = 1 + draw(stress, STRESS_DEPTH);

	for (; count < most && may_post(stress, flow); count++) {
		prepare(stress, flow, &wrs[count], sges[count]);
		if (count)
			wrs[count - 1].wr.next = &wrs[count].wr;
	}
	if (!count)
		return;
	must(world_post_flush(flow->sender, wrs) == 0);
	for (int i = 0; i < count; i++)
		if (wrs[i].wr.send_flags & IBV_SEND_INLINE) /* free for other use at once */
			memset(slot(stress, flow->local, wrs[i].wr.wr_id), 0xee, 64);
}

static void post_shared_receives(struct stress *stress, struct node *node)
{
	struct stress_srq *srq = srq_of(stress, node);

	for (uint64_t i = 0; i < SRQ_DEPTH; i++) {
		uint8_t *memory = srq->memory + i * slot_size(stress);
		struct ibv_sge sges[STRESS_SGES];
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sges};
		const struct ibv_recv_wr *bad;

		if (srq->posted[i] || hit(stress, stress->options.late))
			continue;
		memset(memory, 0, slot_size(stress));
		wr.num_sge = scatter(stress, sges, memory, stress->options.max_length,
				     srq->mr->ibv.lkey);
		must(srq_post(srq->srq, &wr, &bad) == 0);
		srq->posted[i] = true;
	}
}

static void post_receives(struct stress *stress, struct flow *flow)
{
	if (stress->srqs) {
		post_shared_receives(stress, flow->to);
		return;
	}
	while (flow->receives_posted - flow->receives_completed < STRESS_DEPTH &&
	       !hit(stress, stress->options.late)) {
		uint64_t number = flow->receives_posted++;
		uint8_t *memory = receive_slot(stress, flow, number);
		struct ibv_sge sges[STRESS_SGES];
		struct ibv_recv_wr wr = {.wr_id = number, .sg_list = sges}, *bad;

		memset(memory, 0, slot_size(stress));
		wr.num_sge = scatter(stress, sges, memory, stress->options.max_length,
				     flow->remote_mr->ibv.lkey);
		must(qp_post_recv(flow->receiver, &wr, &bad) == 0);
	}
}

/* --- completing --------------------------------------------------------------------- */

static void finish(struct stress *stress, struct flow *flow, struct operation *op)
{
	uint64_t value;

	switch (op->opcode) {
	case IBV_WR_RDMA_READ:
		check(slot(stress, flow->local, op->number), op->length, op->number, "READ");
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_ATOMIC_WRITE:
		check(slot(stress, flow->remote, op->number), op->length, op->number, "WRITE");
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		memcpy(&value, slot(stress, flow->local, op->number), sizeof(value));
		must(value == op->value);
		break;
	default:
		break;
	}
	flow->completed++;
}

/* A completion stands for all before it that are unsignaled. */
static void send_completed(struct stress *stress, struct flow *flow, const struct ibv_wc *wc)
{
	for (;;) {
		struct operation *op = &flow->under_way[flow->completed % STRESS_DEPTH];

		must(flow->completed < flow->posted);
		finish(stress, flow, op);
		if (op->number == wc->wr_id)
			break;
		must_msg(!op->signaled, "send %llu has no completion",
			 (unsigned long long)op->number);
	}
	must(flow->under_way[wc->wr_id % STRESS_DEPTH].signaled);
}

static void receive_completed(struct stress *stress, struct flow *flow, const struct ibv_wc *wc)
{
	uint64_t number = flow->messages[flow->receives_completed % STRESS_DEPTH];
	const struct operation *op = &flow->under_way[number % STRESS_DEPTH];
	bool write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	uint8_t *memory = receive_slot(stress, flow, wc->wr_id);

	must(flow->receives_completed < flow->receives_expected);
	if (stress->srqs) {
		struct stress_srq *srq = srq_of(stress, flow->to);

		must(wc->wr_id < SRQ_DEPTH && srq->posted[wc->wr_id]);
		srq->posted[wc->wr_id] = false;
		memory = srq->memory + wc->wr_id * slot_size(stress);
	} else {
		must(wc->wr_id == flow->receives_completed);
	}
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
		check(memory, op->length, number, "receive");
	flow->receives_completed++;
}

static void poll(struct stress *stress, struct node *node)
{
	struct ibv_wc wc;

	while (world_poll(node, &wc)) {
		struct stress_qp *entry, key = {.key = {.node = node, .number = wc.qp_num}};

		HASH_FIND(hh, stress->qps, &key.key, sizeof(key.key), entry);
		must(entry);
		if (wc.status != IBV_WC_SUCCESS && stress->failed) {
			if (!stress->ended)
				stress->failed(stress, entry->qp, &wc);
			stress->ended = true;
		}
		if (stress->ended)
			continue;
		must_msg(wc.status == IBV_WC_SUCCESS, "QP %x: completion %llu has status %d",
			 wc.qp_num, (unsigned long long)wc.wr_id, wc.status);
		if (wc.opcode & IBV_WC_RECV)
			receive_completed(stress, &stress->flows[entry->receives], &wc);
		else
			send_completed(stress, &stress->flows[entry->sends], &wc);
	}
}

static bool flow_done(const struct stress *stress, const struct flow *flow)
{
	return flow->completed == stress->options.operations &&
	       flow->receives_completed == flow->receives_expected;
}

struct qp *stress_sender(const struct stress *stress, unsigned int number)
{
	return stress->flows[number].sender;
}

void stress_run(struct stress *stress, uint64_t limit)
{
	uint64_t end = world_now(stress->world) + limit;
	unsigned int idle = 0;
	bool done = false;

	while (!done) {
		done = true;
		for (unsigned int i = 0; i < stress->world->count; i++)
			poll(stress, &stress->world->nodes[i]);
		if (stress->ended)
			return;
		for (unsigned int i = 0; i < stress->flow_count; i++) {
			struct flow *flow = &stress->flows[i];

			post_receives(stress, flow);
			post_sends(stress, flow);
			done &= flow_done(stress, flow);
		}
		if (stress->step)
			stress->step(stress);
		/* What completed in the last step of all lets more be posted in the next rounds. */
		idle = world_step(stress->world) ? 0 : idle + 1;
		must_msg(done || idle < 10, "nothing moves any more");
		must_msg(world_now(stress->world) < end, "too slow");
	}
}

/* --- connecting anew ------------------------------------------------------------------ */

/*
 * What was posted and isn't known to be done never was; of atomics the memory says how many were.
 */
static void forget(struct stress *stress, struct flow *flow)
{
	uint64_t *counter = counters(stress, flow), adds = flow->adds, swaps = flow->swaps;

	for (uint64_t n = flow->completed; n < flow->posted; n++) {
		adds -= 3 *
			(flow->under_way[n % STRESS_DEPTH].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD);
		swaps -= flow->under_way[n % STRESS_DEPTH].opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	}
	must(counter[0] >= adds && counter[0] <= flow->adds);
	must(counter[1] >= swaps && counter[1] <= flow->swaps);
	flow->adds = counter[0];
	flow->swaps = counter[1];
	flow->posted = flow->completed;
	flow->receives_posted = flow->receives_expected = flow->receives_completed;
	mw_dealloc(flow->window);
	must(mw_alloc(flow->from->pd, IBV_MW_TYPE_2, &flow->window) == 0);
	flow->window_rkey = flow->window->ibv.rkey;
	flow->bound = false;
}

void stress_reconnect(struct stress *stress, unsigned int number, uint64_t rest)
{
	struct flow *forth = &stress->flows[number & ~1u], *back = forth + 1;

	poll(stress, forth->from);
	poll(stress, forth->to);
	if (stress->ended)
		return;
	world_modify_state(forth->sender, IBV_QPS_RESET);
	world_modify_state(back->sender, IBV_QPS_RESET);
	world_run(stress->world, rest);
	forget(stress, forth);
	forget(stress, back);
	connect_qps(stress, forth->from, forth->sender, back->from, back->sender);
}

/* --- at the end ----------------------------------------------------------------------- */

static void check_idle(struct qp *qp)
{
	must(qp->state == IBV_QPS_RTS);
	must(qp->sq.done == qp->sq.posted);
	must(qp->sq.next == qp->sq.posted);
	must(atomic_load(&qp->sq.polled) == qp->sq.posted);
	must(qp->recovery.member.in_flight == 0);
	must(qp->requester.rd_atomic == 0);
	must(qp->recovery.timeout_at == TIME_NEVER);
	must(qp->responder.kept.count == 0);
	must(qp->missing.kept.count == 0 && !qp->missing.any);
	must(qp->recovery.destination->cwnd.in_flight == 0);
	must(qp->recovery.destination->arbiter.waiting == 0);
}

void stress_destroy(struct stress *stress)
{
	struct stress_qp *entry, *next;

	world_run(stress->world, SECOND); /* the last duplicates and timers */
	for (unsigned int i = 0; i < stress->world->count; i++)
		poll(stress, &stress->world->nodes[i]);
	for (unsigned int i = 0; i < stress->flow_count; i++) {
		struct flow *flow = &stress->flows[i];

		if (!stress->ended) {
			must(counters(stress, flow)[0] == flow->adds);
			must(counters(stress, flow)[1] == flow->swaps);
		}
		mw_dealloc(flow->window);
		must(mr_deregister(flow->local_mr) == 0);
		must(mr_deregister(flow->remote_mr) == 0);
		free(flow->local);
		free(flow->remote);
	}
	HASH_ITER (hh, stress->qps, entry, next) {
		if (!stress->ended)
			check_idle(entry->qp);
		HASH_DEL(stress->qps, entry);
		must(qp_destroy(entry->qp) == 0);
		free(entry);
	}
	free(stress->flows);
	destroy_srqs(stress);
	for (unsigned int i = 0; i < stress->world->count; i++) {
		struct hca *hca = stress->world->nodes[i].hca;

		must(!hca->destinations);
		must(hca->packets.used_count == 0);
		must(hca->qps.count == 0);
		must(hca->keys.count == 0);
		must(hca->timers.count == 0);
	}
}
