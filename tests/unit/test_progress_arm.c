/* SPDX-License-Identifier: BSD-2-Clause */
/* The epoll by which other threads end the progress thread's sleep, without that thread. */
#include "net/clock.h"
#include "net/link.h"
#include "tests/run_suite.h"
#include "verbs/progress_internal.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

static struct progress progress;
/* Of two descriptors each. */
static struct progress_client clients[2];
static int fds[2][2];

static void setup(void)
{
	progress = (struct progress){.lock = PTHREAD_MUTEX_INITIALIZER, .armed_set = -1};
	ck_assert_int_eq(wakeup_open(&progress.wakeup), 0);
	for (int i = 0; i < 2; i++) {
		fds[i][0] = eventfd(0, EFD_NONBLOCK);
		fds[i][1] = eventfd(0, EFD_NONBLOCK);
		clients[i] = (struct progress_client){.progress = &progress,
						      .neglected_until = TIME_NEVER,
						      .fds = fds[i],
						      .fd_count = 2};
		DL_APPEND(progress.clients, &clients[i]);
	}
}

static void teardown(void)
{
	progress_arming_close(&progress);
	wakeup_close(&progress.wakeup);
	for (int i = 0; i < 4; i++)
		close(fds[i / 2][i % 2]);
}

static void kick(int fd)
{
	ck_assert_int_eq(eventfd_write(fd, 1), 0);
}

static bool readable(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 1;
}

static int begin(void)
{
	int fd = progress_arming_begin(&progress, progress_neglected(&progress));

	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(what_is_armed_ends_the_sleep)
{
	int fd = begin();

	kick(fds[0][1]);
	kick(fds[1][0]);
	ck_assert(!readable(fd));
	ck_assert(progress_arm(&clients[0])); /* what has come before counts */
	ck_assert(readable(fd));
	progress_arming_end(&progress, POLLIN);
	ck_assert(clients[0].ready && !clients[1].ready);

	clients[0].ready = false;
	ck_assert_int_eq(begin(), fd);
	ck_assert(!readable(fd)); /* armed for one sleep */
	ck_assert(progress_arm(&clients[1]) && progress_arm(&clients[1]));
	ck_assert(readable(fd));
	progress_arming_end(&progress, POLLIN);
	ck_assert(clients[1].ready && !clients[0].ready);
}
END_TEST

START_TEST(what_comes_later_ends_it_too)
{
	int fd = begin();

	ck_assert(progress_arm(&clients[0]));
	ck_assert(!readable(fd));
	kick(fds[1][1]);
	ck_assert(!readable(fd));
	kick(fds[0][0]);
	ck_assert(readable(fd));
	progress_arming_end(&progress, POLLIN);

	/* A sleep that something else ends. */
	clients[0].ready = false;
	begin();
	ck_assert(progress_arm(&clients[1]));
	progress_arming_end(&progress, 0);
	ck_assert(!clients[0].ready && !clients[1].ready && !clients[1].armed);
	begin();
	ck_assert(!readable(fd));
	progress_arming_end(&progress, 0);
}
END_TEST

/* Then the thread has to be woken. */
START_TEST(only_a_thread_that_sleeps_is_armed_for)
{
	ck_assert(!progress_arm(&clients[0]));
	begin();
	clients[0].watched = true; /* the thread sleeps on the descriptors themselves */
	ck_assert(!progress_arm(&clients[0]));
	clients[0].watched = false;
	pthread_mutex_lock(&progress.lock);
	ck_assert(!progress_arm(&clients[0]));
	pthread_mutex_unlock(&progress.lock);
	progress_arming_end(&progress, 0);
	ck_assert(!progress_arm(&clients[0]));
}
END_TEST

START_TEST(there_is_none_without_need)
{
	int fd;

	clients[0].neglected_until = clients[1].neglected_until = 0;
	ck_assert_int_eq(progress_arming_begin(&progress, progress_neglected(&progress)), -1);
	progress_arming_end(&progress, 0);
	clients[1].neglected_until = TIME_NEVER;
	fd = begin();
	progress_arming_end(&progress, 0);
	clients[1].neglected_until = clock_now() - 1;
	ck_assert_int_eq(progress_arming_begin(&progress, progress_neglected(&progress)), -1);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	ck_assert(!progress_arm(&clients[1]));
	progress_arming_end(&progress, 0);
}
END_TEST

START_TEST(new_descriptors_are_armed)
{
	int other = eventfd(0, EFD_NONBLOCK), *before = clients[0].fds, fd;

	begin();
	progress_arming_end(&progress, 0);
	clients[0].fds = &other;
	clients[0].fd_count = 1;
	progress.armed_set_stale = true; /* as progress_refresh() says */
	fd = begin();
	ck_assert(progress_arm(&clients[0]));
	kick(other);
	ck_assert(readable(fd));
	progress_arming_end(&progress, POLLIN);
	clients[0].fds = before;
	close(other);
}
END_TEST

/* Of the parent's, which goes on with it. */
START_TEST(a_child_lets_go_of_it)
{
	int fd = begin(), status;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		progress_after_fork_child(&progress);
		_exit(fcntl(fd, F_GETFD) == -1 && progress.armed_set == -1 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(progress_arm(&clients[0]));
	kick(fds[0][0]);
	ck_assert(readable(fd));
	progress_arming_end(&progress, POLLIN);
	ck_assert(clients[0].ready);
}
END_TEST

/* The application has closed the epoll, and opened one of its own that has the number. */
START_TEST(an_epoll_of_the_application_is_left_alone)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = begin(), own = epoll_create1(0), ready = eventfd(1, EFD_NONBLOCK);

	ck_assert_int_eq(epoll_ctl(own, EPOLL_CTL_ADD, ready, &event), 0);
	ck_assert_int_eq(dup2(own, fd), fd);
	ck_assert(!progress_arm(&clients[0]));
	kick(fds[0][0]);
	progress_arming_end(&progress, POLLIN);
	ck_assert_int_ne(begin(), fd);
	progress_arming_end(&progress, 0);
	ck_assert_int_eq(epoll_wait(fd, &event, 1, 0), 1);

	/* Found where none had armed anything. */
	fd = begin();
	ck_assert_int_eq(dup2(own, fd), fd);
	progress_arming_end(&progress, POLLIN);
	ck_assert_int_ne(begin(), fd);
	progress_arming_end(&progress, 0);
	ck_assert_int_eq(epoll_wait(fd, &event, 1, 0), 1);
	close(fd);
	close(own);
	close(ready);
}
END_TEST

/* Errors are reported of descriptors that are disabled, too: but once. */
START_TEST(an_error_does_not_keep_the_thread_awake)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int udp = socket(AF_INET, SOCK_DGRAM, 0), port = socket(AF_INET, SOCK_DGRAM, 0), fd;
	socklen_t length = sizeof(address);
	int *before = clients[0].fds;

	ck_assert_int_eq(bind(port, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(getsockname(port, (struct sockaddr *)&address, &length), 0);
	ck_assert_int_eq(connect(udp, (struct sockaddr *)&address, length), 0);
	close(port);
	clients[0].fds = &udp;
	clients[0].fd_count = 1;
	fd = begin();
	ck_assert_int_eq(send(udp, "", 1, 0), 1);
	while (!readable(udp))
		;
	progress_arming_end(&progress, readable(fd) ? POLLIN : 0);
	ck_assert_int_eq(begin(), fd);
	ck_assert(!readable(fd));
	progress_arming_end(&progress, 0);
	clients[0].fds = before;
	close(udp);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("progress_arm");
	TCase *tests = tcase_create("progress_arm");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, what_is_armed_ends_the_sleep);
	tcase_add_test(tests, what_comes_later_ends_it_too);
	tcase_add_test(tests, only_a_thread_that_sleeps_is_armed_for);
	tcase_add_test(tests, there_is_none_without_need);
	tcase_add_test(tests, new_descriptors_are_armed);
	tcase_add_test(tests, a_child_lets_go_of_it);
	tcase_add_test(tests, an_epoll_of_the_application_is_left_alone);
	tcase_add_test(tests, an_error_does_not_keep_the_thread_awake);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
