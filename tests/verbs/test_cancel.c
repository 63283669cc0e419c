/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pthread_cancel() of a thread that posts and polls: no call that a NIC's library makes without a
 * system call is a cancellation point, so no lock stays held. Nor does one of those that take
 * system calls.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static const union ibv_gid group = {
	.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 86, [14] = 1, [15] = 1}};

static void attach(void *qp)
{
	must(ibv_attach_mcast(qp, &group, 0) == 0);
}

static void detach(void *qp)
{
	must(ibv_detach_mcast(qp, &group, 0) == 0);
}

START_TEST(groups_can_be_joined_afterwards)
{
	struct pair pair;

	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert(returns_cancelled(attach, pair.receiver));
	attach(pair.sender);
	detach(pair.receiver);
	ck_assert(returns_cancelled(detach, pair.sender));
	attach(pair.sender);
	detach(pair.sender);
	pair_close(&pair);
}
END_TEST

static struct ibv_context *context;

static void open_device(void *device)
{
	context = ibv_open_device(device);
	must(context != NULL);
}

static void close_device(void *unused)
{
	must(ibv_close_device(context) == 0);
}

static void look_at_device(void *path)
{
	struct stat status;

	must(stat(path, &status) == 0);
}

/* Nor does a fork() wait, which takes all locks. */
START_TEST(devices_can_be_opened_afterwards)
{
	char path[] = "/sys/class/infiniband/urxe0/node_guid";
	struct ibv_device **list = ibv_get_device_list(NULL);
	pid_t child;
	int status;

	ck_assert_ptr_nonnull(list);
	ck_assert(returns_cancelled(open_device, list[0]));
	ck_assert(returns_cancelled(close_device, NULL));
	ck_assert(returns_cancelled(look_at_device, path));
	open_device(list[0]);
	look_at_device(path);
	child = fork();
	if (child == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	close_device(NULL);
	ibv_free_device_list(list);
}
END_TEST

static _Atomic pid_t waiting;

static void *wait_for_async(void *argument)
{
	struct ibv_async_event event;

	waiting = gettid();
	ibv_get_async_event(argument, &event);
	must(!"an event");
	return NULL;
}

static void *wait_for_completion(void *channel)
{
	struct ibv_cq *cq;
	void *cq_context;

	waiting = gettid();
	ibv_get_cq_event(channel, &cq, &cq_context);
	must(!"an event");
	return NULL;
}

/* Once what it waits for is destroyed; whose memory is the application's by then. */
static void cancel_late(pthread_t thread)
{
	enum { BLOCKS = 8192, SIZES = 256 };
	static uint8_t *blocks[BLOCKS];

	for (unsigned int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc((i % SIZES + 1) * 16);
		must(blocks[i] != NULL);
		memset(blocks[i], 0xa5, (i % SIZES + 1) * 16);
	}
	must(pthread_cancel(thread) == 0);
	must(pthread_join(thread, NULL) == 0);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		for (unsigned int k = 0; k < (i % SIZES + 1) * 16; k++)
			must(blocks[i][k] == 0xa5);
		free(blocks[i]);
	}
}

static pthread_t start_waiting(void *(*wait)(void *argument), void *argument)
{
	pthread_t thread;

	waiting = 0;
	must(pthread_create(&thread, NULL, wait, argument) == 0);
	wait_until_asleep(&waiting);
	return thread;
}

/* As from a read() of the descriptors. */
START_TEST(from_waiting_for_what_is_closed)
{
	struct ibv_comp_channel *channel;
	pthread_t thread;

	context = fixture_open();
	channel = ibv_create_comp_channel(context);
	ck_assert_ptr_nonnull(channel);
	thread = start_waiting(wait_for_completion, channel);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	cancel_late(thread);
	thread = start_waiting(wait_for_async, context);
	ck_assert_int_eq(ibv_close_device(context), 0);
	cancel_late(thread);
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
	tcase_add_test(tests, groups_can_be_joined_afterwards);
	tcase_add_test(tests, devices_can_be_opened_afterwards);
	tcase_add_test(tests, from_waiting_for_what_is_closed);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
