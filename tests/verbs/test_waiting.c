/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait in ibv_get_cq_event(): where waits are short they make progress themselves
 * (verbs/channel.c), and what else may wait, and how, is told all the same.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

#define SHORT_WAITS 20

static struct pair pair;

static void drain_sends(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(pair.send_cq, 1, &wc) > 0)
		must(wc.status == IBV_WC_SUCCESS);
}

static void send_from(struct ibv_qp *qp)
{
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	must(ibv_post_send(qp, &wr, &bad) == 0);
}

/* Something is on its way that completes in recv_cq, which is armed. */
static void send_one(void)
{
	drain_sends();
	post_receive(&pair, 1);
	must(ibv_req_notify_cq(pair.recv_cq, 0) == 0);
	send_from(pair.sender);
}

static void take_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	must(ibv_get_cq_event(channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		must(wc.status == IBV_WC_SUCCESS);
}

static void wait_shortly(unsigned int times)
{
	while (times--) {
		send_one();
		take_event(pair.channel);
	}
}

/* --- a progress thread that gets no CPU ------------------------------------------------ */

static _Atomic bool held, asleep;

/* Which it alone calls. */
__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t count,
						 const struct timespec *timeout,
						 const sigset_t *mask)
{
	int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
		(typeof(real))dlsym(RTLD_NEXT, "ppoll");
	int ready;

	asleep = true;
	ready = real(fds, count, timeout, mask);
	while (held)
		usleep(100);
	asleep = false;
	return ready;
}

static void hold_progress_thread(void)
{
	held = true;
	while (!asleep)
		usleep(100);
}

/* --------------------------------------------------------------------------------------- */

static void set_up(void)
{
	pair_open(&pair, IBV_QPT_RC, 0);
}

static void tear_down(void)
{
	drain_sends();
	pair_close(&pair);
}

static long times_slept(void)
{
	struct rusage usage;

	must(getrusage(RUSAGE_THREAD, &usage) == 0);
	return usage.ru_nvcsw;
}

/* However busy the machine is, at last some waits in a row are without a sleep. */
static void wait_without_sleep(void)
{
	unsigned int in_a_row = 0;
	cpu_set_t cpus;

	must(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
	while (CPU_COUNT(&cpus) > 1 && in_a_row < SHORT_WAITS) {
		long before;

		send_one();
		before = times_slept();
		take_event(pair.channel);
		in_a_row = times_slept() == before ? in_a_row + 1 : 0;
	}
}

START_TEST(asking_again_and_again_is_polling)
{
	struct ibv_cq *cq;
	void *context;

	must(fcntl(pair.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	hold_progress_thread();
	send_one();
	while (ibv_get_cq_event(pair.channel, &cq, &context) != 0)
		must(errno == EAGAIN);
	ibv_ack_cq_events(cq, 1);
	must(wait_completion(pair.recv_cq).status == IBV_WC_SUCCESS);
	held = false;
}
END_TEST

START_TEST(short_waits_are_without_sleep)
{
	wait_without_sleep();
}
END_TEST

/* An application that waits with poll() after it has waited in calls. */
START_TEST(the_descriptor_tells_after_short_waits)
{
	struct pollfd readable = {.fd = pair.channel->fd, .events = POLLIN};

	for (unsigned int i = 0; i < SHORT_WAITS; i++) {
		wait_shortly(SHORT_WAITS);
		must(poll(&readable, 1, 0) == 0);
		send_one();
		must(poll(&readable, 1, -1) == 1);
		take_event(pair.channel);
		must(poll(&readable, 1, 0) == 0);
	}
}
END_TEST

START_TEST(a_descriptor_made_nonblocking_after_short_waits)
{
	struct ibv_cq *cq;
	void *context;

	wait_shortly(SHORT_WAITS);
	must(fcntl(pair.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	must(ibv_get_cq_event(pair.channel, &cq, &context) == -1 && errno == EAGAIN);
	must(fcntl(pair.channel->fd, F_SETFL, 0) == 0);
	wait_shortly(SHORT_WAITS);
}
END_TEST

static void *wait_on(void *channel)
{
	take_event(channel);
	return NULL;
}

/* One thread that waits for long must not be left without its events by one that waits shortly. */
START_TEST(one_waits_while_another_waits_shortly)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(pair.context);
	struct ibv_cq *cq = ibv_create_cq(pair.context, DEPTH, NULL, channel, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = pair.send_cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *other = ibv_create_qp(pair.pd, &init);
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad;

	must(channel && cq && other);
	connect_qp(other, other);
	for (unsigned int i = 0; i < SHORT_WAITS; i++) {
		pthread_t thread;

		must(ibv_post_recv(other, &receive, &bad) == 0);
		must(ibv_req_notify_cq(cq, 0) == 0);
		must(pthread_create(&thread, NULL, wait_on, channel) == 0);
		wait_shortly(i);
		send_from(other);
		wait_shortly(i % 2);
		must(pthread_join(thread, NULL) == 0);
	}
	must(ibv_destroy_qp(other) == 0);
	must(ibv_destroy_cq(cq) == 0);
	must(ibv_destroy_comp_channel(channel) == 0);
}
END_TEST

/* A cancelled thread waits no more: the next short waits are without sleep again. */
START_TEST(cancelled_waits)
{
	for (unsigned int i = 0; i < SHORT_WAITS; i++) {
		pthread_t thread;

		wait_shortly(3);
		must(pthread_create(&thread, NULL, wait_on, pair.channel) == 0);
		usleep(37 * i);
		must(pthread_cancel(thread) == 0);
		must(pthread_join(thread, NULL) == 0);
	}
	wait_without_sleep();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("waiting");
	TCase *tests = tcase_create("waiting");

	fixture_environment();
	tcase_set_timeout(tests, 300);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, asking_again_and_again_is_polling);
	tcase_add_test(tests, short_waits_are_without_sleep);
	tcase_add_test(tests, the_descriptor_tells_after_short_waits);
	tcase_add_test(tests, a_descriptor_made_nonblocking_after_short_waits);
	tcase_add_test(tests, one_waits_while_another_waits_shortly);
	tcase_add_test(tests, cancelled_waits);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
