/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads against one stack. Every worker has a pair of QPs between two nodes;
 * all QPs of a node complete into one CQ, which all workers poll. Between
 * transfers with known data a worker breaks things under traffic: it moves QPs
 * to ERR or RESET, destroys them, and takes memory and memory windows away. Meanwhile a bystander
 * makes and destroys objects next door.
 *
 * What must hold: data arrives intact, every request completes exactly once
 * unless its QP was reset, and freed memory is not touched (which is for the
 * sanitizers to see).
 */
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "emu/objects/mw.h"
#include "net/clock.h"
#include "net/random.h"
#include "node.h"
#include "tests/run_suite.h"

#define WORKERS 4
#define ROUNDS 1500
#define SIZE 20000
#define BURST 12
/* Requests of one worker: sends, receives, binds and invalidations of both sides. */
#define SLOTS (2 * (2 * BURST + 2))

/*
 * The outcome of a request: its generation in the high half; then whether it
 * completed, its status, the bytes received. A completion that comes when the
 * request was given up (its QP was reset while another thread held the polled
 * completion) finds another generation.
 */
#define REQUEST_DONE (UINT64_C(1) << 31)

struct request {
	_Atomic uint64_t outcome;
};

struct side {
	struct node *node;
	struct qp *qp;
	uint8_t *memory;
	struct mr *mr;
	struct mw *window; /* bound for a while now and then */
};

struct worker {
	struct stress *stress;
	pthread_t thread;
	unsigned int index, used;
	uint64_t random;
	struct side sides[2];
	struct request requests[SLOTS];
	uint64_t transferred;
};

struct stress {
	struct progress *progress;
	struct node nodes[2];
	struct worker workers[WORKERS];
	_Atomic bool over;
};

/* --- requests and their completions ---------------------------------------------- */

static uint64_t request_begin(struct worker *worker)
{
	struct request *request = &worker->requests[worker->used];
	uint64_t generation = (atomic_load(&request->outcome) >> 32) + 1;

	must(worker->used < SLOTS);
	atomic_store(&request->outcome, generation << 32);
	return generation << 32 | worker->index << 16 | worker->used++;
}

static void request_complete(struct stress *stress, const struct ibv_wc *wc)
{
	struct worker *worker = &stress->workers[wc->wr_id >> 16 & 0xffff];
	struct request *request = &worker->requests[wc->wr_id & 0xffff];
	uint64_t pending = wc->wr_id >> 32 << 32;
	uint64_t found = pending;
	uint64_t outcome = pending | REQUEST_DONE | wc->status << 20;

	if (wc->status == IBV_WC_SUCCESS && wc->opcode & IBV_WC_RECV)
		outcome |= wc->byte_len;
	if (!atomic_compare_exchange_strong(&request->outcome, &found, outcome))
		must((found ^ pending) >> 32); /* else it completed twice */
}

static void poll_node(struct stress *stress, struct node *node)
{
	struct completion completions[4];
	int count = node_poll(node, node->cq, completions, 4);

	for (int i = 0; i < count; i++)
		request_complete(stress, &completions[i].wc);
}

static uint64_t await(struct worker *worker, uint64_t id)
{
	struct request *request = &worker->requests[id & 0xffff];
	uint64_t outcome;

	while (!((outcome = atomic_load(&request->outcome)) & REQUEST_DONE)) {
		poll_node(worker->stress, worker->sides[0].node);
		poll_node(worker->stress, worker->sides[1].node);
	}
	must(outcome >> 32 == id >> 32);
	return outcome & (REQUEST_DONE - 1);
}

static enum ibv_wc_status status_of(uint64_t outcome)
{
	return outcome >> 20;
}

static void must_succeed(uint64_t outcome)
{
	if (status_of(outcome) != IBV_WC_SUCCESS)
		fprintf(stderr, "status %d\n", status_of(outcome));
	must(status_of(outcome) == IBV_WC_SUCCESS);
}

/* --- posting -------------------------------------------------------------------------- */

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_WRITE,
};

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static bool has_eight_bytes(enum ibv_wr_opcode opcode)
{
	return is_atomic(opcode) || opcode == IBV_WR_ATOMIC_WRITE;
}

static uint64_t post(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	must(qp_post_send(side->qp, wr, &bad, false, LAZY_TIME(clock_now())) == 0);
	event_deliver(&side->node->hca->events);
	return wr->wr_id;
}

/* @rkey: of the peer's memory. */
static uint64_t post_send(struct worker *worker, unsigned int from, enum ibv_wr_opcode opcode,
			  uint32_t length, uint32_t rkey)
{
	struct side *side = &worker->sides[from], *peer = &worker->sides[!from];
	struct ibv_sge sge = {(uintptr_t)side->memory, has_eight_bytes(opcode) ? 8 : length,
			      side->mr->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = request_begin(worker),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (is_atomic(opcode)) {
		wr.wr.atomic.remote_addr = (uintptr_t)peer->memory;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)peer->memory;
		wr.wr.rdma.rkey = rkey;
	}
	return post(side, &wr);
}

static uint64_t post_bind(struct worker *worker, unsigned int at)
{
	struct side *side = &worker->sides[at];
	uint32_t rkey = side->window->ibv.rkey;
	struct ibv_send_wr wr = {
		.wr_id = request_begin(worker),
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = &side->window->ibv,
			    .rkey = (rkey & ~0xffu) | ((rkey + 1) & 0xff),
			    .bind_info = {.mr = &side->mr->ibv,
					  .addr = (uintptr_t)side->memory,
					  .length = SIZE,
					  .mw_access_flags = IBV_ACCESS_REMOTE_READ |
							     IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_ATOMIC}},
	};

	side->window->ibv.rkey = wr.bind_mw.rkey;
	return post(side, &wr);
}

static uint64_t post_invalidate(struct worker *worker, unsigned int at)
{
	struct side *side = &worker->sides[at];
	struct ibv_send_wr wr = {
		.wr_id = request_begin(worker),
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = side->window->ibv.rkey,
	};

	return post(side, &wr);
}

static uint64_t post_recv(struct worker *worker, unsigned int at)
{
	struct side *side = &worker->sides[at];
	struct ibv_sge sge = {(uintptr_t)side->memory, SIZE, side->mr->ibv.lkey};
	struct ibv_recv_wr *bad, wr = {
					 .wr_id = request_begin(worker),
					 .sg_list = &sge,
					 .num_sge = 1,
				 };

	must(qp_post_recv(side->qp, &wr, &bad) == 0);
	return wr.wr_id;
}

/* --- a worker's pair ------------------------------------------------------------------- */

static void take_memory(struct side *side)
{
	side->memory = calloc(1, SIZE);
	must(side->memory);
	side->mr = node_mr(side->node, side->memory, SIZE);
}

static void give_memory(struct side *side)
{
	must(mr_deregister(side->mr) == 0);
	free(side->memory);
	side->memory = NULL;
	side->mr = NULL;
}

static void take_window(struct side *side)
{
	must(mw_alloc(side->node->pd, IBV_MW_TYPE_2, &side->window) == 0);
}

/* An unbound one in place of what may be bound. */
static void change_window(struct side *side)
{
	mw_dealloc(side->window);
	take_window(side);
}

static void make_qp(struct side *side)
{
	side->qp = node_qp(side->node, IBV_QPT_RC, side->node->cq, NULL);
}

static void connect_pair(struct worker *worker)
{
	struct side *a = &worker->sides[0], *b = &worker->sides[1];
	uint32_t psn = random_below(&worker->random, PSN_MASK);

	node_connect(a->node, a->qp, b->node, b->qp->number, psn);
	node_connect(b->node, b->qp, a->node, a->qp->number, psn);
}

static void reset_pair(struct worker *worker)
{
	for (unsigned int i = 0; i < 2; i++)
		must(node_modify(worker->sides[i].qp, IBV_QPS_RESET) == 0);
	connect_pair(worker);
}

/* --- what a worker does ------------------------------------------------------------------ */

static void transfer(struct worker *worker)
{
	enum ibv_wr_opcode opcode =
		opcodes[random_below(&worker->random, sizeof(opcodes) / sizeof(opcodes[0]))];
	uint32_t length = 1 + random_below(&worker->random, SIZE);
	uint64_t seed = random_next(&worker->random), receive = 0, send, outcome;
	unsigned int from = seed & 1;
	bool windowed = seed & 2;
	struct side *source = &worker->sides[from], *target = &worker->sides[!from];

	if (opcode == IBV_WR_RDMA_READ) {
		source = &worker->sides[!from];
		target = &worker->sides[from];
	}
	if (has_eight_bytes(opcode))
		length = 8;
	fill_pattern(source->memory, length, seed);
	if (!is_atomic(opcode))
		memset(target->memory, 0, length);
	else
		memset(target->memory, 0x5a, length);
	if (takes_receive(opcode))
		receive = post_recv(worker, !from);
	if (windowed)
		must_succeed(await(worker, post_bind(worker, !from)));
	send = post_send(worker, from, opcode, length,
			 windowed ? worker->sides[!from].window->ibv.rkey
				  : worker->sides[!from].mr->ibv.rkey);
	must_succeed(await(worker, send));
	if (windowed)
		must_succeed(await(worker, post_invalidate(worker, !from)));
	if (takes_receive(opcode)) {
		outcome = await(worker, receive);
		must_succeed(outcome);
		must((outcome & 0xfffff) == length);
	}
	if (is_atomic(opcode))
		must(*(uint64_t *)source->memory == 0x5a5a5a5a5a5a5a5a);
	else
		must(has_pattern(target->memory, length, seed));
	worker->transferred++;
}

/* Traffic in both directions, nothing of which is waited for. */
static void burst(struct worker *worker)
{
	for (unsigned int i = 0; i < 2 * BURST; i++)
		post_recv(worker, i & 1);
	for (unsigned int i = 0; i < 2; i++)
		post_bind(worker, i);
	for (unsigned int i = 0; i < 2 * BURST; i++) {
		const struct side *peer = &worker->sides[!(i & 1)];

		post_send(worker, i & 1,
			  opcodes[random_below(&worker->random,
					       sizeof(opcodes) / sizeof(opcodes[0]))],
			  1 + random_below(&worker->random, SIZE),
			  i & 2 ? peer->window->ibv.rkey : peer->mr->ibv.rkey);
	}
	post_invalidate(worker, random_below(&worker->random, 2));
}

/* Let some of it happen. */
static void linger(struct worker *worker)
{
	for (uint64_t i = random_below(&worker->random, 8); i > 0; i--)
		poll_node(worker->stress, worker->sides[i & 1].node);
}

static void await_all(struct worker *worker)
{
	for (unsigned int i = 0; i < worker->used; i++) {
		uint64_t generation = atomic_load(&worker->requests[i].outcome) >> 32;

		await(worker, generation << 32 | i);
	}
}

static void break_by_error(struct worker *worker)
{
	unsigned int first = random_below(&worker->random, 2);

	burst(worker);
	linger(worker);
	must(node_modify(worker->sides[first].qp, IBV_QPS_ERR) == 0);
	linger(worker);
	must(node_modify(worker->sides[!first].qp, IBV_QPS_ERR) == 0);
	await_all(worker);
	reset_pair(worker);
}

static void break_by_reset(struct worker *worker)
{
	burst(worker);
	linger(worker);
	reset_pair(worker);
}

static void break_by_destruction(struct worker *worker)
{
	burst(worker);
	linger(worker);
	for (unsigned int i = 0; i < 2; i++) {
		must(qp_destroy(worker->sides[i].qp) == 0);
		make_qp(&worker->sides[i]);
	}
	connect_pair(worker);
}

static void break_memory(struct worker *worker)
{
	unsigned int first = random_below(&worker->random, 2);

	burst(worker);
	linger(worker);
	change_window(&worker->sides[first]); /* no region goes while a window is bound to it */
	give_memory(&worker->sides[first]);
	linger(worker);
	for (unsigned int i = 0; i < 2; i++)
		must(node_modify(worker->sides[i].qp, IBV_QPS_ERR) == 0);
	await_all(worker);
	take_memory(&worker->sides[first]);
	reset_pair(worker);
}

static void *work(void *argument)
{
	static void (*const breaks[])(struct worker *) = {
		break_by_error,
		break_by_reset,
		break_by_destruction,
		break_memory,
	};
	struct worker *worker = argument;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		worker->used = 0;
		transfer(worker);
		worker->used = 0;
		if (random_below(&worker->random, 3) != 0)
			continue;
		breaks[random_below(&worker->random, 4)](worker);
		for (unsigned int k = 0; k < 2; k++)
			change_window(&worker->sides[k]);
	}
	return NULL;
}

/* --- the bystander --------------------------------------------------------------------------- */

static void *stand_by(void *argument)
{
	struct stress *stress = argument;
	struct node *node = &stress->nodes[0];
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr state;
	struct ibv_recv_wr receive = {0}, *bad;
	uint32_t entries = 65536;
	unsigned int round = 0;
	uint8_t memory[64];

	attr.grh.dgid = stress->nodes[1].gids.entries[0].gid;
	while (!atomic_load(&stress->over)) {
		struct pd *pd;
		struct cq *cq;
		struct ah *ah;
		struct mr *mr = node_mr(node, memory, sizeof(memory));
		struct qp *qp;

		must(pd_alloc(node->hca, &pd) == 0);
		must(cq_create(node->hca, 16, &cq) == 0);
		must(ah_create(pd, &attr, &ah) == 0);
		qp = node_qp(node, IBV_QPT_UD, cq, NULL);
		node_connect(node, qp, NULL, 0, 0);
		qp_query(qp, &state, &init);
		must(cq_resize(node->cq, entries ^= 1 << 17) == 0);
		cq_arm(node->cq, entries & 1);
		must(cq_moderate(node->cq, round % 8, round % 100) == 0);
		/*
		 * An event that another thread may be delivering when its CQ is destroyed, or
		 * whose timer it may be looking at.
		 */
		must(cq_moderate(cq, 2, round++ % 20) == 0);
		cq_arm(cq, false);
		must(qp_post_recv(qp, &receive, &bad) == 0);
		must(node_modify(qp, IBV_QPS_ERR) == 0);
		must(qp_destroy(qp) == 0);
		ah_destroy(ah);
		must(cq_destroy(cq) == 0);
		must(pd_dealloc(pd) == 0);
		must(mr_deregister(mr) == 0);
		sched_yield();
	}
	return NULL;
}

/* --------------------------------------------------------------------------------------------- */

static void worker_create(struct stress *stress, unsigned int index)
{
	struct worker *worker = &stress->workers[index];

	worker->stress = stress;
	worker->index = index;
	worker->random = index + 1;
	for (unsigned int i = 0; i < 2; i++) {
		worker->sides[i].node = &stress->nodes[i];
		take_memory(&worker->sides[i]);
		take_window(&worker->sides[i]);
		make_qp(&worker->sides[i]);
	}
	connect_pair(worker);
	must(pthread_create(&worker->thread, NULL, work, worker) == 0);
}

static void worker_destroy(struct worker *worker)
{
	for (unsigned int i = 0; i < 2; i++) {
		must(qp_destroy(worker->sides[i].qp) == 0);
		mw_dealloc(worker->sides[i].window);
		give_memory(&worker->sides[i]);
	}
}

static void run(const char *faults)
{
	static struct stress stress;
	pthread_t bystander;

	stress = (struct stress){0};
	must(progress_create(&stress.progress) == 0);
	for (unsigned int i = 0; i < 2; i++)
		node_create(&stress.nodes[i], stress.progress, i, faults);
	for (unsigned int i = 0; i < WORKERS; i++)
		worker_create(&stress, i);
	must(pthread_create(&bystander, NULL, stand_by, &stress) == 0);
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(stress.workers[i].thread, NULL);
	atomic_store(&stress.over, true);
	pthread_join(bystander, NULL);
	for (unsigned int i = 0; i < WORKERS; i++) {
		ck_assert_uint_eq(stress.workers[i].transferred, ROUNDS);
		worker_destroy(&stress.workers[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		node_destroy(&stress.nodes[i]);
	progress_destroy(stress.progress);
}

START_TEST(on_a_good_network)
{
	run(NULL);
}
END_TEST

START_TEST(on_a_bad_network)
{
	run("seed=3;drop=0.5%;dup=0.5%;reorder=0.5%;corrupt=0.5%;delay(200us)=0.5%");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stress");
	TCase *tcase = tcase_create("stress");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, on_a_good_network);
	tcase_add_test(tcase, on_a_bad_network);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
