/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pthread_cancel() of a thread that posts and polls: no call that a NIC's library makes without a
 * system call is a cancellation point, so no lock stays held.
 */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "net/tuning.h"
#include "tests/cancelled.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"

#define LAST 1000000

static void *post_and_poll(void *argument)
{
	struct pair *pair = argument;
	struct ibv_wc wc;

	for (uint64_t i = 0;; i++) {
		struct ibv_qp_attr attr = {.min_rnr_timer = 1};

		post_write(pair, i); /* or the queue is full */
		while (ibv_poll_cq(pair->send_cq, 1, &wc) > 0)
			must(wc.status == IBV_WC_SUCCESS);
		ibv_modify_qp(pair->receiver, &attr, IBV_QP_MIN_RNR_TIMER);
		pthread_testcancel();
	}
	return NULL;
}

START_TEST(leaves_no_lock_held)
{
	enum { ROUNDS = SANITIZED ? 50 : 300 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_RC, 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, post_and_poll, &pair) == 0);
		usleep(100 + 37 * (i % 32));
		must(pthread_cancel(thread) == 0);
		must(pthread_join(thread, NULL) == 0);

		must(ibv_query_qp(pair.receiver, &attr, IBV_QP_STATE, &init) == 0);
		while (post_write(&pair, LAST + i) != 0)
			ibv_poll_cq(pair.send_cq, 1, &wc);
		do
			wc = wait_completion(pair.send_cq);
		while (wc.wr_id != LAST + i);
		must(wc.status == IBV_WC_SUCCESS);
	}
	pair_close(&pair);
}
END_TEST

static enum ibv_wc_status write_and_wait(struct pair *pair)
{
	struct ibv_wc wc;
	int count;

	must(post_write(pair, 0) == 0);
	do
		count = ibv_poll_cq(pair->send_cq, 1, &wc);
	while (count == 0);
	must(count == 1);
	return wc.status;
}

static void write_until_connected(void *argument)
{
	for (int i = 0; i < 2 * UDP_CONNECT_AFTER; i++)
		must(write_and_wait(argument) == IBV_WC_SUCCESS);
}

static void write_in_vain(void *argument)
{
	must(write_and_wait(argument) == IBV_WC_RETRY_EXC_ERR);
}

/* What is done once only, and what when all retries are used up. */
START_TEST(no_call_is_a_cancellation_point)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert(returns_cancelled(write_until_connected, &pair));
	must(ibv_modify_qp(pair.receiver, &reset, IBV_QP_STATE) == 0);
	ck_assert(returns_cancelled(write_in_vain, &pair));
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cancel");
	TCase *tests = tcase_create("cancel");

	fixture_environment();
	tcase_set_timeout(tests, 300);
	tcase_add_test(tests, leaves_no_lock_held);
	tcase_add_test(tests, no_call_is_a_cancellation_point);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
