/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue of events and its descriptor, which says whether there are any to threads that sleep. */
#include "verbs/event_fd.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/run_suite.h"

static struct event_fd events;
static int element;
static unsigned int taken;

static void set_up(void)
{
	taken = 0;
	ck_assert_int_eq(event_fd_open(&events), 0);
}

static void tear_down(void)
{
	event_fd_close(&events);
	event_fd_destroy(&events);
}

static bool is_told(void)
{
	struct pollfd poll_fd = {.fd = events.readable.fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

static void count(const struct event_record *record)
{
	ck_assert_ptr_eq(record->element, &element);
	taken++;
}

static bool take(int type)
{
	struct event_record record;

	if (!event_fd_take(&events, count, &record))
		return false;
	ck_assert_int_eq(record.type, type);
	return true;
}

START_TEST(is_readable_while_there_are_events)
{
	ck_assert(!event_fd_any(&events) && !is_told() && !take(0));
	event_fd_push(&events, &element, 1);
	event_fd_push(&events, &element, 2);
	ck_assert(event_fd_any(&events) && is_told());
	ck_assert(take(1) && is_told());
	ck_assert(take(2) && !is_told() && !event_fd_any(&events) && !take(0));
	ck_assert_uint_eq(taken, 2);

	event_fd_push(&events, &element, 3);
	event_fd_drop(&events, &element);
	ck_assert(!is_told() && !event_fd_any(&events) && !take(0));
}
END_TEST

/* A thread that looks takes what comes without the descriptor; what it leaves others are told. */
START_TEST(one_that_looks_needs_no_descriptor)
{
	event_fd_look(&events, true);
	event_fd_push(&events, &element, 1);
	ck_assert(event_fd_any(&events) && !is_told());
	ck_assert(take(1));
	event_fd_look(&events, false);
	ck_assert(!event_fd_any(&events) && !is_told());

	event_fd_look(&events, true);
	event_fd_push(&events, &element, 2);
	event_fd_push(&events, &element, 3);
	ck_assert(take(2));
	event_fd_look(&events, false);
	ck_assert(is_told());

	/* It begins with what is there already, and there may be two. */
	event_fd_look(&events, true);
	event_fd_look(&events, true);
	ck_assert(!is_told() && event_fd_any(&events));
	event_fd_look(&events, false);
	ck_assert(!is_told());
	event_fd_look(&events, false);
	ck_assert(is_told() && take(3) && !is_told());
}
END_TEST

static bool has_edge(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 0) == 1;
}

/* As of the kernel's descriptors: one event is enough for each edge, even if two had one. */
START_TEST(each_event_is_an_edge)
{
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLET};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	ck_assert_int_ge(epoll, 0);
	ck_assert_int_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, events.readable.fd, &wanted), 0);
	ck_assert(!has_edge(epoll));
	event_fd_push(&events, &element, 1);
	event_fd_push(&events, &element, 2);
	ck_assert(has_edge(epoll) && !has_edge(epoll));
	ck_assert(take(1) && !has_edge(epoll));
	event_fd_push(&events, &element, 3);
	ck_assert(has_edge(epoll));
	ck_assert(take(2) && take(3) && !is_told());
	close(epoll);
}
END_TEST

START_TEST(one_that_must_not_wait_is_told)
{
	struct event_record record;

	ck_assert_int_eq(fcntl(events.readable.fd, F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(event_fd_pop(&events, count, &record), -1);
	ck_assert_int_eq(errno, EAGAIN);
	event_fd_push(&events, &element, 1);
	ck_assert_int_eq(event_fd_pop(&events, count, &record), 0);
	ck_assert_int_eq(record.type, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("event_fd");
	TCase *tests = tcase_create("event_fd");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, is_readable_while_there_are_events);
	tcase_add_test(tests, one_that_looks_needs_no_descriptor);
	tcase_add_test(tests, each_event_is_an_edge);
	tcase_add_test(tests, one_that_must_not_wait_is_told);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
