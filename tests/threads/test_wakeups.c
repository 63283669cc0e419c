/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that sleep until a message comes through shared memory, having polled for a while or not
 * at all: the progress thread, which must be told of what arrives, is never left asleep, whichever
 * thread received what was to wake it. What a link does now and then anyway, which would hide that,
 * it doesn't do here (shm_options.check).
 *
 * That a message is waited for for ever shows by the test's timeout.
 */
#include <check.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/random.h"
#include "node.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"

#define FLOWS 3
#define MESSAGES (HAS_TSAN ? 500 : 3000) /* of each flow */
#define POLLS_MOST 16			 /* fewer and more than are taken for polling */
#define PAUSE_MOST 400000		 /* ns: more than the progress thread spins */
#define HOUR (UINT64_C(3600) * 1000000000)

/* Messages one after another, each sent when the one before was received. */
struct flow {
	struct node *from, *to;
	struct qp *sends, *receives;
	struct cq *sent, *received;
	struct mr *mr_from, *mr_to;
	uint64_t memory[2];
	pthread_t sender, receiver;
	sem_t done;
	uint64_t random[2]; /* of each thread */
};

/* Mostly not much longer or shorter than the progress thread spins; it may be asleep or not. */
static void pause_randomly(uint64_t *random)
{
	uint64_t end = clock_now() + random_next(random) % PAUSE_MOST;

	switch (random_next(random) % 4) {
	case 0:
		return;
	case 1:
		usleep(random_next(random) % 1000);
		return;
	default:
		while (clock_now() < end)
			sched_yield();
	}
}

static void *send_all(void *argument)
{
	struct flow *flow = argument;
	struct ibv_sge sge = {(uintptr_t)&flow->memory[0], 8, flow->mr_from->ibv.lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	struct completion completion;

	for (unsigned int i = 0; i < MESSAGES; i++) {
		pause_randomly(&flow->random[0]);
		flow->memory[0] = i;
		must(qp_post_send(flow->sends, &wr, &bad, false, LAZY_TIME(clock_now())) == 0);
		event_deliver(&flow->from->hca->events);
		sem_wait(&flow->done);
		while (!node_poll(flow->from, flow->sent, &completion, 1))
			;
		must(completion.wc.status == IBV_WC_SUCCESS);
	}
	return NULL;
}

static void post_receive(struct flow *flow)
{
	struct ibv_sge sge = {(uintptr_t)&flow->memory[1], 8, flow->mr_to->ibv.lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	must(qp_post_recv(flow->receives, &wr, &bad) == 0);
}

/* As an application does that spins for a while, then waits for an event. */
static void wait_for_message(struct flow *flow)
{
	unsigned int polls = random_next(&flow->random[1]) % POLLS_MOST;
	struct completion completion;
	int count = 0;

	for (unsigned int i = 0; i < polls && count == 0; i++)
		count = node_poll(flow->to, flow->received, &completion, 1);
	while (count == 0) {
		uint64_t seen = node_completion_events(flow->to);

		cq_arm(flow->received, false);
		progress_app_sleeping(flow->to->client);
		count = cq_poll(flow->received, &completion, 1);
		if (count == 0)
			node_sleep(flow->to, seen);
	}
	must(completion.wc.status == IBV_WC_SUCCESS);
}

static void *receive_all(void *argument)
{
	struct flow *flow = argument;

	for (unsigned int i = 0; i < MESSAGES; i++) {
		wait_for_message(flow);
		must(flow->memory[1] == i);
		post_receive(flow);
		sem_post(&flow->done);
	}
	return NULL;
}

static void flow_create(struct flow *flow, struct node *from, struct node *to,
			enum ibv_qp_type type)
{
	static uint64_t seed;

	*flow = (struct flow){.from = from, .to = to, .random = {seed + 1, seed + 2}};
	seed += 2;
	sem_init(&flow->done, 0, 0);
	must(cq_create(from->hca, 16, &flow->sent) == 0);
	must(cq_create(to->hca, 16, &flow->received) == 0);
	flow->sends = node_qp(from, type, flow->sent, NULL);
	flow->receives = node_qp(to, type, flow->received, NULL);
	flow->mr_from = node_mr(from, flow->memory, sizeof(flow->memory));
	flow->mr_to = node_mr(to, flow->memory, sizeof(flow->memory));
	node_connect(to, flow->receives, from, flow->sends->number, 0);
	node_connect(from, flow->sends, to, flow->receives->number, 0);
	post_receive(flow);
}

static void flow_destroy(struct flow *flow)
{
	must(qp_destroy(flow->sends) == 0);
	must(qp_destroy(flow->receives) == 0);
	must(mr_deregister(flow->mr_from) == 0);
	must(mr_deregister(flow->mr_to) == 0);
	must(cq_destroy(flow->sent) == 0);
	must(cq_destroy(flow->received) == 0);
	sem_destroy(&flow->done);
}

/* The senders' HCAs are of one progress thread, the receivers' of another: as two processes. */
static void run(unsigned int flows, enum ibv_qp_type type)
{
	const struct shm_options options = {.check = HOUR};
	struct progress *progress[2];
	struct node nodes[2];
	struct flow flow[FLOWS];

	for (unsigned int i = 0; i < 2; i++) {
		must(progress_create(&progress[i]) == 0);
		node_create_over(&nodes[i], progress[i], i, NULL, &options);
	}
	for (unsigned int i = 0; i < flows; i++)
		flow_create(&flow[i], &nodes[0], &nodes[1], type);
	for (unsigned int i = 0; i < flows; i++) {
		must(pthread_create(&flow[i].receiver, NULL, receive_all, &flow[i]) == 0);
		must(pthread_create(&flow[i].sender, NULL, send_all, &flow[i]) == 0);
	}
	for (unsigned int i = 0; i < flows; i++) {
		pthread_join(flow[i].sender, NULL);
		pthread_join(flow[i].receiver, NULL);
		flow_destroy(&flow[i]);
	}
	for (unsigned int i = 0; i < 2; i++) {
		node_destroy(&nodes[i]);
		progress_destroy(progress[i]);
	}
}

START_TEST(wakes_for_each_message)
{
	run(1, IBV_QPT_UC);
}
END_TEST

START_TEST(wakes_for_several_threads)
{
	run(FLOWS, IBV_QPT_UC);
}
END_TEST

START_TEST(wakes_for_rc)
{
	run(1, IBV_QPT_RC);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wakeups");
	TCase *tcase = tcase_create("wakeups");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, wakes_for_each_message);
	tcase_add_test(tcase, wakes_for_several_threads);
	tcase_add_test(tcase, wakes_for_rc);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
