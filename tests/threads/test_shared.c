/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects used by several threads at once: QPs that several threads post to, a
 * shared receive queue that several threads fill, CQs that several threads poll
 * or sleep on. Every message tells its number and has a pattern of its own, so
 * that it can be seen to arrive once and whole.
 */
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "net/random.h"
#include "node.h"
#include "tests/run_suite.h"

#define SENDERS 4
#define RECEIVERS 3
#define QPS 3
#define MESSAGES 6000 /* of each sender */
#define TOTAL (SENDERS * MESSAGES)
#define OUTSTANDING 8 /* of each sender */
#define BUFFERS 96
#define MESSAGE_MAX 3000
#define BUFFER_SIZE (MESSAGE_MAX + GRH_LENGTH)
#define QKEY 0x1234

struct sender {
	struct shared *shared;
	pthread_t thread;
	unsigned int index;
	_Atomic unsigned int completed; /* counted by the thread that polls them */
};

struct shared {
	enum ibv_qp_type type;
	struct progress *progress;
	struct node from, to;
	struct qp *from_qps[QPS], *to_qps[QPS];
	struct srq *srq;
	struct ah *ah;
	struct sender senders[SENDERS];
	uint8_t *memory_from, *memory_to;
	struct mr *mr_from, *mr_to;

	_Atomic bool over;
	_Atomic unsigned int received;
	_Atomic uint8_t seen[TOTAL];
};

static uint32_t message_length(const struct shared *shared, uint32_t number)
{
	/* A datagram is one packet. */
	uint32_t most = shared->type == IBV_QPT_UD ? 1024 : MESSAGE_MAX;

	return sizeof(number) + number * 31 % (most - sizeof(number));
}

/* --- senders -------------------------------------------------------------------------- */

static void poll_sent(struct shared *shared)
{
	struct completion completions[8];
	int count = node_poll(&shared->from, shared->from.cq, completions, 8);

	for (int i = 0; i < count; i++) {
		must(completions[i].wc.status == IBV_WC_SUCCESS);
		atomic_fetch_add(&shared->senders[completions[i].wc.wr_id].completed, 1);
	}
}

/* Whether it was posted; a queue that other threads use too may be full. */
static bool post(struct sender *sender, unsigned int message, uint8_t *buffer)
{
	struct shared *shared = sender->shared;
	uint32_t number = sender->index * MESSAGES + message;
	uint32_t length = message_length(shared, number);
	struct ibv_sge sge = {(uintptr_t)buffer, length, shared->mr_from->ibv.lkey};
	struct qp *qp = shared->from_qps[number % QPS];
	struct ibv_send_wr *bad, wr = {
					 .wr_id = sender->index,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
				 };
	int error;

	memcpy(buffer, &number, sizeof(number));
	fill_pattern(buffer + sizeof(number), length - sizeof(number), number);
	if (shared->type == IBV_QPT_UD) {
		wr.wr.ud.ah = &shared->ah->ibv;
		wr.wr.ud.remote_qpn = shared->to_qps[number % QPS]->number;
		wr.wr.ud.remote_qkey = QKEY;
	}
	error = qp_post_send(qp, &wr, &bad, false, LAZY_TIME(clock_now()));
	must(error == 0 || error == ENOMEM);
	event_deliver(&shared->from.hca->events);
	return error == 0;
}

/*
 * Completions of one QP come in order, but a sender uses several: a buffer is
 * free for sure when all that was sent before is complete.
 */
static void *send_all(void *argument)
{
	struct sender *sender = argument;
	struct shared *shared = sender->shared;
	uint8_t *buffers = shared->memory_from + (size_t)sender->index * OUTSTANDING * BUFFER_SIZE;

	for (unsigned int i = 0; i < MESSAGES; i++) {
		while (i % OUTSTANDING == 0 && atomic_load(&sender->completed) < i)
			poll_sent(shared);
		while (!post(sender, i, buffers + i % OUTSTANDING * BUFFER_SIZE))
			poll_sent(shared);
	}
	while (atomic_load(&sender->completed) < MESSAGES)
		poll_sent(shared);
	return NULL;
}

/* --- receivers ------------------------------------------------------------------------- */

static void post_receive(struct shared *shared, uint64_t buffer)
{
	struct ibv_sge sge = {(uintptr_t)shared->memory_to + buffer * BUFFER_SIZE, BUFFER_SIZE,
			      shared->mr_to->ibv.lkey};
	struct ibv_recv_wr wr = {.wr_id = buffer, .sg_list = &sge, .num_sge = 1};
	const struct ibv_recv_wr *bad;

	must(srq_post(shared->srq, &wr, &bad) == 0);
}

static void check_message(struct shared *shared, const struct ibv_wc *wc)
{
	uint32_t skipped = shared->type == IBV_QPT_UD ? GRH_LENGTH : 0, number, length;
	const uint8_t *message = shared->memory_to + wc->wr_id * BUFFER_SIZE + skipped;

	must(wc->status == IBV_WC_SUCCESS);
	memcpy(&number, message, sizeof(number));
	must(number < TOTAL);
	length = message_length(shared, number);
	must(wc->byte_len == length + skipped);
	must(has_pattern(message + sizeof(number), length - sizeof(number), number));
	must(atomic_exchange(&shared->seen[number], 1) == 0);
	atomic_fetch_add(&shared->received, 1);
}

static void *receive_all(void *argument)
{
	struct shared *shared = argument;
	struct completion completions[8];
	bool over;
	int count;

	do {
		over = atomic_load(&shared->over); /* before the poll that finds nothing */
		count = node_poll(&shared->to, shared->to.cq, completions, 8);
		for (int i = 0; i < count; i++) {
			check_message(shared, &completions[i].wc);
			post_receive(shared, completions[i].wc.wr_id);
		}
	} while (count || !over);
	return NULL;
}

/* --- the thread that changes the queues under them ------------------------------------------ */

static void *change(void *argument)
{
	struct shared *shared = argument;
	struct ibv_srq_attr attr = {.max_wr = BUFFERS};

	for (unsigned int i = 0; !atomic_load(&shared->over); i++) {
		attr.max_wr = BUFFERS + i % 64;
		attr.srq_limit = i % BUFFERS;
		must(srq_modify(shared->srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == 0);
		srq_query(shared->srq, &attr);
		must(attr.max_wr == BUFFERS + i % 64);
		must(cq_resize(shared->to.cq, 4096 + i % 512) == 0);
		cq_arm(shared->to.cq, false);
		sched_yield();
	}
	return NULL;
}

/* ------------------------------------------------------------------------------------------- */

static void create(struct shared *shared, enum ibv_qp_type type)
{
	struct ibv_srq_attr attr = {.max_wr = BUFFERS, .max_sge = 1};
	struct ibv_ah_attr address = {.is_global = 1, .port_num = 1};

	*shared = (struct shared){.type = type};
	must(progress_create(&shared->progress) == 0);
	node_create(&shared->from, shared->progress, 0, NULL);
	node_create(&shared->to, shared->progress, 1, NULL);
	must(srq_create(shared->to.pd, &attr, &shared->srq) == 0);
	address.grh.dgid = shared->to.gids.entries[0].gid;
	must(ah_create(shared->from.pd, &address, &shared->ah) == 0);
	shared->memory_from = calloc(SENDERS * OUTSTANDING, BUFFER_SIZE);
	shared->memory_to = calloc(BUFFERS, BUFFER_SIZE);
	shared->mr_from =
		node_mr(&shared->from, shared->memory_from, SENDERS * OUTSTANDING * BUFFER_SIZE);
	shared->mr_to = node_mr(&shared->to, shared->memory_to, BUFFERS * BUFFER_SIZE);
	for (unsigned int i = 0; i < BUFFERS; i++)
		post_receive(shared, i);
	for (unsigned int i = 0; i < QPS; i++) {
		struct qp *a = node_qp(&shared->from, type, shared->from.cq, NULL);
		struct qp *b = node_qp(&shared->to, type, shared->to.cq, shared->srq);

		shared->from_qps[i] = a;
		shared->to_qps[i] = b;
		node_connect(&shared->to, b, &shared->from, a->number, 0);
		node_connect(&shared->from, a, &shared->to, b->number, 0);
	}
}

static void destroy(struct shared *shared)
{
	for (unsigned int i = 0; i < QPS; i++) {
		must(qp_destroy(shared->from_qps[i]) == 0);
		must(qp_destroy(shared->to_qps[i]) == 0);
	}
	must(srq_destroy(shared->srq) == 0);
	ah_destroy(shared->ah);
	must(mr_deregister(shared->mr_from) == 0);
	must(mr_deregister(shared->mr_to) == 0);
	free(shared->memory_from);
	free(shared->memory_to);
	node_destroy(&shared->from);
	node_destroy(&shared->to);
	progress_destroy(shared->progress);
}

static void run(struct shared *shared)
{
	pthread_t receivers[RECEIVERS], changer;

	for (unsigned int i = 0; i < RECEIVERS; i++)
		must(pthread_create(&receivers[i], NULL, receive_all, shared) == 0);
	must(pthread_create(&changer, NULL, change, shared) == 0);
	for (unsigned int i = 0; i < SENDERS; i++) {
		shared->senders[i].shared = shared;
		shared->senders[i].index = i;
		must(pthread_create(&shared->senders[i].thread, NULL, send_all,
				    &shared->senders[i]) == 0);
	}
	for (unsigned int i = 0; i < SENDERS; i++)
		pthread_join(shared->senders[i].thread, NULL);
	/* All is complete at the senders: RC has delivered it, and what UD has lost is lost. */
	atomic_store(&shared->over, true);
	for (unsigned int i = 0; i < RECEIVERS; i++)
		pthread_join(receivers[i], NULL);
	pthread_join(changer, NULL);
}

static struct shared shared;

START_TEST(queues_of_rc)
{
	create(&shared, IBV_QPT_RC);
	run(&shared);
	ck_assert_uint_eq(shared.received, TOTAL);
	ck_assert_uint_gt(shared.to.async_events[IBV_EVENT_SRQ_LIMIT_REACHED], 0);
	destroy(&shared);
}
END_TEST

START_TEST(queues_of_ud)
{
	create(&shared, IBV_QPT_UD);
	run(&shared);
	ck_assert_uint_gt(shared.received, 0);
	destroy(&shared);
}
END_TEST

/* --- an SRQ that one thread resizes while others make QPs with it ----------------------------- */

#define RESIZES 400
#define MAKERS 2

struct resized {
	struct node node;
	struct srq *srq;
	_Atomic unsigned int resizes, made; /* each side goes on until the other has done enough */
};

/* Relaxed: else TSan would take what the threads do for ordered by their counting. */
static unsigned int counted(_Atomic unsigned int *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static void count_one(_Atomic unsigned int *count)
{
	atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static bool both_have_done_enough(struct resized *resized)
{
	return counted(&resized->resizes) >= RESIZES && counted(&resized->made) >= RESIZES;
}

static void *make_qps(void *argument)
{
	struct resized *resized = argument;

	while (!both_have_done_enough(resized)) {
		struct qp *qp = node_qp(&resized->node, IBV_QPT_RC, resized->node.cq, resized->srq);

		must(qp_destroy(qp) == 0);
		count_one(&resized->made);
	}
	return NULL;
}

static void resize(struct resized *resized, uint32_t max_wr)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr};

	must(srq_modify(resized->srq, &attr, IBV_SRQ_MAX_WR) == 0);
	srq_query(resized->srq, &attr);
	must(attr.max_wr == max_wr && attr.max_sge == 2);
	count_one(&resized->resizes);
}

/* Its receives stay as they are. */
START_TEST(queue_pairs_beside_a_resize)
{
	static struct resized resized;
	struct ibv_srq_attr attr = {.max_wr = 8, .max_sge = 2};
	struct ibv_recv_wr wr = {.num_sge = 0};
	const struct ibv_recv_wr *bad;
	struct progress *progress;
	pthread_t makers[MAKERS];

	must(progress_create(&progress) == 0);
	node_create(&resized.node, progress, 0, NULL);
	must(srq_create(resized.node.pd, &attr, &resized.srq) == 0);
	for (; wr.wr_id < 8; wr.wr_id++)
		must(srq_post(resized.srq, &wr, &bad) == 0);
	for (unsigned int i = 0; i < MAKERS; i++)
		must(pthread_create(&makers[i], NULL, make_qps, &resized) == 0);
	while (!both_have_done_enough(&resized))
		resize(&resized, 8 + counted(&resized.resizes) % 2);
	for (unsigned int i = 0; i < MAKERS; i++)
		pthread_join(makers[i], NULL);
	resize(&resized, 8);
	ck_assert_int_eq(srq_post(resized.srq, &wr, &bad), ENOMEM);
	must(srq_destroy(resized.srq) == 0);
	node_destroy(&resized.node);
	progress_destroy(progress);
}
END_TEST

/* --- threads that sleep: only the progress thread is left to drive the HCAs ------------------ */

#define SLEEPERS 3
#define ECHOES 5000

struct sleeper {
	struct node *node;
	struct cq *cq;
	struct qp *qp;
	uint64_t memory[2]; /* received, sent */
	struct mr *mr;
	bool begins;
	unsigned int sent, received;
	pthread_t thread;
};

static void sleep_until(struct sleeper *sleeper, unsigned int sent, unsigned int received)
{
	struct completion completion;

	while (sleeper->sent < sent || sleeper->received < received) {
		uint64_t seen = node_completion_events(sleeper->node);

		cq_arm(sleeper->cq, false);
		progress_app_sleeping(sleeper->node->client);
		if (!cq_poll(sleeper->cq, &completion, 1)) {
			node_sleep(sleeper->node, seen);
			continue;
		}
		must(completion.wc.status == IBV_WC_SUCCESS);
		if (completion.wc.opcode & IBV_WC_RECV)
			sleeper->received++;
		else
			sleeper->sent++;
	}
}

static void sleeper_receive(struct sleeper *sleeper)
{
	struct ibv_sge sge = {(uintptr_t)&sleeper->memory[0], 8, sleeper->mr->ibv.lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	must(qp_post_recv(sleeper->qp, &wr, &bad) == 0);
}

static void sleeper_send(struct sleeper *sleeper, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)&sleeper->memory[1], 8, sleeper->mr->ibv.lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
				 };

	sleeper->memory[1] = number;
	must(qp_post_send(sleeper->qp, &wr, &bad, false, LAZY_TIME(clock_now())) == 0);
	event_deliver(&sleeper->node->hca->events);
}

static void *echo(void *argument)
{
	struct sleeper *sleeper = argument;

	for (unsigned int i = 0; i < ECHOES; i++) {
		if (sleeper->begins)
			sleeper_send(sleeper, 2 * i);
		sleep_until(sleeper, sleeper->begins ? i + 1 : i, i + 1);
		must(sleeper->memory[0] == 2 * i + sleeper->begins);
		sleeper_receive(sleeper);
		if (!sleeper->begins)
			sleeper_send(sleeper, 2 * i + 1);
	}
	sleep_until(sleeper, ECHOES, ECHOES);
	return NULL;
}

static void sleeper_create(struct sleeper *sleeper, struct node *node)
{
	*sleeper = (struct sleeper){.node = node};
	must(cq_create(node->hca, 16, &sleeper->cq) == 0);
	sleeper->qp = node_qp(node, IBV_QPT_RC, sleeper->cq, NULL);
	sleeper->mr = node_mr(node, sleeper->memory, sizeof(sleeper->memory));
}

static void sleeper_destroy(struct sleeper *sleeper)
{
	must(qp_destroy(sleeper->qp) == 0);
	must(cq_destroy(sleeper->cq) == 0);
	must(mr_deregister(sleeper->mr) == 0);
}

START_TEST(sleepers)
{
	static struct sleeper sleepers[SLEEPERS][2];
	struct progress *progress;
	struct node nodes[2];

	must(progress_create(&progress) == 0);
	for (unsigned int i = 0; i < 2; i++)
		node_create(&nodes[i], progress, i, NULL);
	for (unsigned int i = 0; i < SLEEPERS; i++) {
		struct sleeper *a = &sleepers[i][0], *b = &sleepers[i][1];

		sleeper_create(a, &nodes[0]);
		sleeper_create(b, &nodes[1]);
		node_connect(&nodes[0], a->qp, &nodes[1], b->qp->number, i);
		node_connect(&nodes[1], b->qp, &nodes[0], a->qp->number, i);
		sleeper_receive(a);
		sleeper_receive(b);
		a->begins = true;
		must(pthread_create(&b->thread, NULL, echo, b) == 0);
		must(pthread_create(&a->thread, NULL, echo, a) == 0);
	}
	for (unsigned int i = 0; i < SLEEPERS; i++) {
		pthread_join(sleepers[i][0].thread, NULL);
		pthread_join(sleepers[i][1].thread, NULL);
		ck_assert_uint_eq(sleepers[i][0].received, ECHOES);
		sleeper_destroy(&sleepers[i][0]);
		sleeper_destroy(&sleepers[i][1]);
	}
	for (unsigned int i = 0; i < 2; i++)
		node_destroy(&nodes[i]);
	progress_destroy(progress);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shared");
	TCase *tcase = tcase_create("shared");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, queues_of_rc);
	tcase_add_test(tcase, queues_of_ud);
	tcase_add_test(tcase, queue_pairs_beside_a_resize);
	tcase_add_test(tcase, sleepers);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
