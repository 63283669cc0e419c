/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of the C library that a program or a preloaded library has in its place, as newer
 * librspreload.so have epoll: urxe calls none of them for itself.
 */
#include <check.h>
#include <errno.h>
#include <sys/epoll.h>

#include "fixture.h"
#include "tests/run_suite.h"

#define INTERPOSED __attribute__((visibility("default")))

static atomic_uint calls;

static int refuse_call(void)
{
	atomic_fetch_add(&calls, 1);
	errno = ENOSYS;
	return -1;
}

INTERPOSED int epoll_create(int size)
{
	(void)size;
	return refuse_call();
}

INTERPOSED int epoll_create1(int flags)
{
	(void)flags;
	return refuse_call();
}

INTERPOSED int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	(void)epoll_fd, (void)operation, (void)fd, (void)event;
	return refuse_call();
}

INTERPOSED int epoll_wait(int epoll_fd, struct epoll_event *events, int max, int timeout)
{
	(void)epoll_fd, (void)events, (void)max, (void)timeout;
	return refuse_call();
}

static void wait_for_event(struct pair *pair)
{
	struct ibv_cq *cq;
	void *context;

	ck_assert_int_eq(ibv_req_notify_cq(pair->recv_cq, 0), 0);
	post_receive(pair, 1);
	ck_assert_int_eq(ibv_post_send(pair->sender,
				       &(struct ibv_send_wr){.opcode = IBV_WR_SEND,
							     .send_flags = IBV_SEND_SIGNALED},
				       &(struct ibv_send_wr *){NULL}),
			 0);
	ck_assert_int_eq(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	ck_assert_int_eq(wait_completion(pair->recv_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wait_completion(pair->send_cq).status, IBV_WC_SUCCESS);
}

START_TEST(epoll_is_not_called)
{
	const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	wait_for_event(&pair);
	wait_for_event(&pair);
	pair_close(&pair);
	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
	ck_assert_uint_eq(calls, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("interposed");
	TCase *tests = tcase_create("interposed");

	fixture_environment();
	tcase_add_test(tests, epoll_is_not_called);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
