/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue of events and its descriptor, which says whether there are any to threads that sleep. */
#include "verbs/event_fd.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "open_descriptors.h"
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
	ck_assert(event_fd_destroy(&events));
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

/* --- threads that wait ------------------------------------------------------------------- */

static void *pop_of(void *queue)
{
	struct event_record record;

	return (void *)(intptr_t)(event_fd_pop(queue, count, &record) == 0 ? 0 : errno);
}

/* Those that are woken for two events take both, however few wake-ups that were. */
START_TEST(what_is_left_wakes_the_next_one)
{
	event_fd_push(&events, &element, 1);
	event_fd_push(&events, &element, 2);
	ck_assert_int_eq(sem_trywait(&events.readable.look), 0); /* as a thread that waited */
	ck_assert_int_eq(sem_trywait(&events.readable.look), -1);
	ck_assert(take(1));
	ck_assert_int_eq(sem_trywait(&events.readable.look), 0);
	ck_assert(take(2));
	ck_assert_int_eq(sem_trywait(&events.readable.look), -1);
}
END_TEST

#define WAITING 3

static void wait_until_all_wait(void)
{
	while (atomic_load(&events.readable.waiting) < WAITING)
		sched_yield();
}

/* All are told that nothing comes any more, and by the descriptor those that sleep on it. */
START_TEST(an_end_is_told_to_all)
{
	pthread_t threads[WAITING];
	struct event_record record;
	void *result;

	for (int i = 0; i < WAITING; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, pop_of, &events), 0);
	wait_until_all_wait();
	event_fd_end(&events);
	for (int i = 0; i < WAITING; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert_int_eq((intptr_t)result, EIO);
	}
	ck_assert(is_told());
	/* What came before is there, and doesn't take the end with it. */
	event_fd_push(&events, &element, 1);
	ck_assert(!event_fd_has_ended(&events) && take(1) && is_told());
	ck_assert_int_eq(event_fd_pop(&events, count, &record), -1);
	ck_assert_int_eq(errno, EIO);
	event_fd_push(&events, &element, 2);
	event_fd_drop(&events, &element);
	ck_assert(is_told() && event_fd_has_ended(&events));
}
END_TEST

/* A thread that waits in it keeps its memory; one that has waited doesn't. */
START_TEST(memory_stays_while_a_thread_waits)
{
	static struct event_fd other; /* no test reads it again */
	pthread_t thread;
	void *result;

	ck_assert_int_eq(event_fd_open(&other), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, pop_of, &other), 0);
	while (!atomic_load(&other.readable.waiting))
		sched_yield();
	event_fd_push(&other, &element, 1);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_int_eq((intptr_t)result, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, pop_of, &other), 0);
	while (!atomic_load(&other.readable.waiting))
		sched_yield();
	event_fd_close(&other);
	ck_assert(!event_fd_destroy(&other));
	ck_assert_int_eq(pthread_cancel(thread), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert(event_fd_destroy(&other));
}
END_TEST

/* --- life ------------------------------------------------------------------------------------ */

/* An object's own record, which it may have in the queue more than once. */
START_TEST(a_record_of_an_object)
{
	struct event_record record = {.element = &element, .type = 1, .embedded = true};

	event_fd_push_embedded(&events, &record);
	event_fd_push(&events, &element, 2);
	event_fd_push_embedded(&events, &record);
	ck_assert_uint_eq(record.count, 2);
	ck_assert(take(1) && take(2) && is_told() && take(1) && !is_told());
	event_fd_push_embedded(&events, &record);
	event_fd_push_embedded(&events, &record);
	event_fd_drop(&events, &element);
	ck_assert(!record.count && !is_told() && !take(0));
	event_fd_push_embedded(&events, &record);
	ck_assert(take(1) && !take(0));
}
END_TEST

/* What comes once it is closed is dropped, and what was in it. */
START_TEST(nothing_comes_once_it_is_closed)
{
	struct event_record record = {.element = &element, .type = 1, .embedded = true};

	event_fd_push_embedded(&events, &record);
	event_fd_close(&events);
	ck_assert_uint_eq(record.count, 0);
	event_fd_push(&events, &element, 2);
	event_fd_push_embedded(&events, &record);
	event_fd_end(&events);
	ck_assert(!record.count && !take(0) && !event_fd_has_ended(&events));
}
END_TEST

/* An event descriptor of the application's, in the place of the queue's. */
START_TEST(a_descriptor_of_the_application_is_left_alone)
{
	int fd = events.readable.fd, ends[2];
	char byte;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
	ck_assert_int_eq(write(ends[1], "", 1), 1);
	event_fd_push(&events, &element, 1);
	ck_assert_int_eq(dup2(ends[0], fd), fd);
	ck_assert(take(1)); /* which would be read */
	event_fd_push(&events, &element, 2);
	ck_assert(take(2));
	readable_inherit(&events.readable);
	event_fd_close(&events);
	ck_assert_int_eq(read(fd, &byte, 1), 1);
	ck_assert_int_eq(read(ends[1], &byte, 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

/* In a forked child it can be read for ever; the parent's is as it was. */
START_TEST(a_child_reads_for_ever)
{
	unsigned int before = open_descriptors();
	int status;
	pid_t child = fork();

	if (child == 0) {
		readable_inherit(&events.readable);
		_exit(is_told() && is_told() && open_descriptors() == before ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(!is_told());
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
	tcase_add_test(tests, what_is_left_wakes_the_next_one);
	tcase_add_test(tests, an_end_is_told_to_all);
	tcase_add_test(tests, memory_stays_while_a_thread_waits);
	tcase_add_test(tests, a_record_of_an_object);
	tcase_add_test(tests, nothing_comes_once_it_is_closed);
	tcase_add_test(tests, a_descriptor_of_the_application_is_left_alone);
	tcase_add_test(tests, a_child_reads_for_ever);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
