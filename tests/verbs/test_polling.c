/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that polls in vain gives up its CPU now and then (verbs/poll_yield.h): what completes
 * meanwhile is returned by the same call.
 */
#include <check.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "tests/run_suite.h"

static struct pair pair;
static _Thread_local bool sends; /* with the next yield of this thread */
static _Thread_local struct timespec slow;

/*
 * Until then a microsecond a reading passes for this thread: with a sanitizer, and other load, a
 * poll takes so long that it isn't taken for one in a loop.
 */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!sends || clock != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, clock, now);
	slow.tv_nsec += 1000;
	if (slow.tv_nsec >= 1000000000) {
		slow.tv_nsec -= 1000000000;
		slow.tv_sec++;
	}
	*now = slow;
	return 0;
}

static void send_one(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
}

/* As if another thread had run on this CPU. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	if (sends) {
		sends = false;
		send_one();
	}
	return 0;
}

START_TEST(what_completes_during_a_yield_is_returned)
{
	struct ibv_wc wc;
	int polled;

	pair_open(&pair, IBV_QPT_RC, 0);
	post_receive(&pair, 1);
	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &slow), 0);
	sends = true;
	do
		polled = ibv_poll_cq(pair.recv_cq, 1, &wc);
	while (sends);
	ck_assert_int_eq(polled, 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("polling");
	TCase *tests = tcase_create("polling");

	fixture_environment();
	tcase_add_test(tests, what_completes_during_a_yield_is_returned);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
