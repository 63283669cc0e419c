/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll() and rselect(): rsockets alone, together with ordinary descriptors, and these alone.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

static int client, server, pipes[2];

static void setup(void)
{
	open_streams(&client, &server);
	must(pipe(pipes) == 0);
}

static void teardown(void)
{
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	close(pipes[0]);
	close(pipes[1]);
}

START_TEST(ordinary_alone)
{
	struct pollfd polls[] = {{.fd = pipes[0], .events = POLLIN},
				 {.fd = pipes[1], .events = POLLOUT},
				 {.fd = -1, .events = POLLIN, .revents = -1}};

	errno = 0;
	ck_assert_int_eq(rpoll(polls, 1, 0), 0);
	ck_assert_int_eq(rpoll(polls, 1, 10), 0);
	ck_assert_int_eq(errno, 0);
	ck_assert_int_eq(rpoll(polls, 3, -1), 1);
	ck_assert_int_eq(polls[0].revents, 0);
	ck_assert_int_eq(polls[1].revents, POLLOUT);
	ck_assert_int_eq(polls[2].revents, 0);
	ck_assert_int_eq(write(pipes[1], "a", 1), 1);
	ck_assert_int_eq(rpoll(polls, 3, -1), 2);
	ck_assert_int_eq(polls[0].revents, POLLIN);
	ck_assert_int_eq(rpoll(NULL, 0, 1), 0);
	polls[0].fd = 999;
	ck_assert_int_eq(rpoll(polls, 1, -1), 1);
	ck_assert_int_eq(polls[0].revents, POLLNVAL);
}
END_TEST

START_TEST(rsockets_alone)
{
	struct pollfd polls[] = {{.fd = client, .events = POLLIN | POLLOUT},
				 {.fd = server, .events = POLLIN}};
	char byte;

	ck_assert_int_eq(rpoll(polls, 2, 10), 1);
	ck_assert_int_eq(polls[0].revents, POLLOUT);
	ck_assert_int_eq(polls[1].revents, 0);
	send_all(client, "a", 1);
	polls[0].events = POLLIN;
	ck_assert_int_eq(rpoll(polls, 2, PATIENCE), 1);
	ck_assert_int_eq(polls[0].revents, 0);
	ck_assert_int_eq(polls[1].revents, POLLIN);
	receive_all(server, &byte, 1);
	ck_assert_int_eq(rpoll(polls, 2, 0), 0);
	/* Nothing is asked for: nothing is told but hang-ups and errors. */
	polls[1].events = 0;
	send_all(client, "a", 1);
	ck_assert_int_eq(rpoll(polls, 2, 50), 0);
}
END_TEST

struct sleeper {
	struct pollfd polls[2];
	_Atomic pid_t tid;
	int result;
};

static void *sleep_in_poll(void *argument)
{
	struct sleeper *sleeper = argument;

	sleeper->tid = syscall(SYS_gettid);
	sleeper->result = rpoll(sleeper->polls, 2, PATIENCE);
	return NULL;
}

START_TEST(mixed)
{
	for (int woken = 0; woken < 2; woken++) {
		struct sleeper sleeper = {.polls = {{.fd = server, .events = POLLIN},
						    {.fd = pipes[0], .events = POLLIN}}};
		pthread_t thread;
		char byte;

		must(pthread_create(&thread, NULL, sleep_in_poll, &sleeper) == 0);
		wait_until_asleep(&sleeper.tid);
		if (woken == 0)
			ck_assert_int_eq(write(pipes[1], "a", 1), 1);
		else
			send_all(client, "a", 1);
		must(pthread_join(thread, NULL) == 0);
		ck_assert_int_eq(sleeper.result, 1);
		ck_assert_int_eq(sleeper.polls[0].revents, woken == 1 ? POLLIN : 0);
		ck_assert_int_eq(sleeper.polls[1].revents, woken == 0 ? POLLIN : 0);
		ck_assert_int_eq(woken == 0 ? read(pipes[0], &byte, 1) : rread(server, &byte, 1),
				 1);
	}
}
END_TEST

#define SLEEPERS 4

/* One of them has the descriptors, and tells the others what it found. */
START_TEST(many_threads)
{
	struct sleeper sleepers[SLEEPERS];
	pthread_t threads[SLEEPERS];

	for (int i = 0; i < SLEEPERS; i++) {
		sleepers[i] =
			(struct sleeper){.polls = {{.fd = server, .events = POLLIN}, {.fd = -1}}};
		must(pthread_create(&threads[i], NULL, sleep_in_poll, &sleepers[i]) == 0);
	}
	for (int i = 0; i < SLEEPERS; i++)
		wait_until_asleep(&sleepers[i].tid);
	send_all(client, "a", 1);
	for (int i = 0; i < SLEEPERS; i++) {
		must(pthread_join(threads[i], NULL) == 0);
		ck_assert_int_eq(sleepers[i].result, 1);
		ck_assert_int_eq(sleepers[i].polls[0].revents, POLLIN);
	}
}
END_TEST

/* The others of its threads make progress for the one that sleeps. */
START_TEST(while_another_thread_looks)
{
	for (int i = 0; i < 200; i++) {
		struct sleeper sleeper = {.polls = {{.fd = server, .events = POLLIN}, {.fd = -1}}};
		pthread_t thread;
		char byte;

		must(pthread_create(&thread, NULL, sleep_in_poll, &sleeper) == 0);
		send_all(client, "a", 1);
		while (rrecv(server, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0)
			must(errno == EAGAIN);
		must(pthread_join(thread, NULL) == 0);
		ck_assert_int_eq(sleeper.polls[0].revents, POLLIN);
		receive_all(server, &byte, 1);
	}
}
END_TEST

START_TEST(unconnected)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), listener;
	struct pollfd poll = {.fd = fd, .events = POLLIN};
	uint16_t port;

	ck_assert_int_eq(rpoll(&poll, 1, PATIENCE), 1);
	ck_assert_int_eq(poll.revents, POLLHUP);
	ck_assert_int_eq(rclose(fd), 0);
	listener = open_listener(&port);
	poll = (struct pollfd){.fd = listener, .events = POLLIN | POLLOUT};
	ck_assert_int_eq(rpoll(&poll, 1, 20), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* Two threads wait for a listener. A request wakes the one that asks for it, and that one alone. */
START_TEST(listening)
{
	struct sleeper sleepers[] = {{.polls = {{.events = POLLOUT}, {.fd = -1}}},
				     {.polls = {{.events = POLLIN}, {.fd = -1}}}};
	const struct sockaddr *address;
	pthread_t threads[2];
	uint16_t port;
	int listener = open_listener(&port), fd = open_stream();
	struct pollfd client_poll = {.fd = fd, .events = POLLIN};

	for (int i = 0; i < 2; i++) {
		sleepers[i].polls[0].fd = listener;
		must(pthread_create(&threads[i], NULL, sleep_in_poll, &sleepers[i]) == 0);
		wait_until_asleep(&sleepers[i].tid);
	}
	address = socket_address(NULL, port);
	must(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	ck_fails(rconnect(fd, address, address_length(address)), EINPROGRESS);
	while (pthread_tryjoin_np(threads[1], NULL) == EBUSY)
		ck_assert_int_eq(rpoll(&client_poll, 1, 1), 0); /* it has to be helped on */
	ck_assert_int_eq(sleepers[1].polls[0].revents, POLLIN);
	wait_until_asleep(&sleepers[0].tid);
	ck_assert_int_eq(rclose(listener), 0);
	must(pthread_join(threads[0], NULL) == 0);
	ck_assert_int_eq(sleepers[0].polls[0].revents, POLLNVAL);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* Whether the thread sleeps already, or is about to: it looks at what there is to sleep on. */
START_TEST(shut_down_meanwhile)
{
	for (int i = 0; i < 100; i++) {
		struct sleeper sleeper = {.polls = {{.events = POLLIN}, {.fd = -1}}};
		pthread_t thread;
		uint16_t port;
		int listener = open_listener(&port);

		sleeper.polls[0].fd = listener;
		must(pthread_create(&thread, NULL, sleep_in_poll, &sleeper) == 0);
		if (i % 2)
			wait_until_asleep(&sleeper.tid);
		ck_assert_int_eq(rshutdown(listener, SHUT_RDWR), 0);
		must(pthread_join(thread, NULL) == 0);
		ck_assert_int_eq(sleeper.polls[0].revents, POLLHUP);
		ck_assert_int_eq(rclose(listener), 0);
	}
}
END_TEST

static void do_nothing(int signal)
{
}

START_TEST(interrupted)
{
	struct sigaction action = {.sa_handler = do_nothing}, before;
	/* Again and again: the first one may come before the thread waits. */
	const struct itimerval soon = {{.tv_usec = 20000}, {.tv_usec = 20000}}, never = {};
	struct pollfd polls[] = {{.fd = server, .events = POLLIN},
				 {.fd = pipes[0], .events = POLLIN}};

	must(sigaction(SIGALRM, &action, &before) == 0);
	must(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	ck_fails(rpoll(polls, 2, PATIENCE), EINTR);
	must(setitimer(ITIMER_REAL, &never, NULL) == 0);
	must(sigaction(SIGALRM, &before, NULL) == 0);
}
END_TEST

START_TEST(selected)
{
	struct timeval soon = {.tv_usec = 1000}, negative = {.tv_sec = -1};
	int most = (client > pipes[1] ? client : pipes[1]) + 1;
	fd_set reading, writing;

	if (server >= most)
		most = server + 1;
	FD_ZERO(&reading);
	FD_ZERO(&writing);
	FD_SET(server, &reading);
	FD_SET(pipes[0], &reading);
	ck_assert_int_eq(rselect(most, &reading, NULL, NULL, &soon), 0);
	ck_assert(!FD_ISSET(server, &reading) && !FD_ISSET(pipes[0], &reading));
	FD_SET(server, &reading);
	FD_SET(pipes[0], &reading);
	FD_SET(client, &writing);
	FD_SET(pipes[1], &writing);
	ck_assert_int_eq(rselect(most, &reading, &writing, NULL, NULL), 2);
	ck_assert(FD_ISSET(client, &writing) && FD_ISSET(pipes[1], &writing));
	ck_assert(!FD_ISSET(server, &reading) && !FD_ISSET(pipes[0], &reading));
	send_all(client, "a", 1);
	FD_SET(server, &reading);
	FD_ZERO(&writing);
	ck_assert_int_eq(rselect(most, &reading, &writing, NULL, NULL), 1);
	ck_assert(FD_ISSET(server, &reading));
	FD_SET(999, &reading);
	FD_SET(client, &writing);
	ck_fails(rselect(1000, &reading, &writing, NULL, &soon), EBADF);
	/* The sets are as they were. */
	ck_assert(FD_ISSET(server, &reading) && FD_ISSET(999, &reading));
	ck_assert(FD_ISSET(client, &writing));
	ck_fails(rselect(-1, NULL, NULL, NULL, NULL), EINVAL);
	ck_fails(rselect(0, NULL, NULL, NULL, &negative), EINVAL);
}
END_TEST

/* As select(2) has it, what fails can be written, full or not. */
START_TEST(selected_without_a_reader)
{
	struct timeval soon = {.tv_usec = 1000};
	static const char page[4096];
	fd_set writing;
	int ends[2];

	must(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	while (write(ends[1], page, sizeof(page)) > 0)
		;
	FD_ZERO(&writing);
	FD_SET(ends[1], &writing);
	ck_assert_int_eq(rselect(ends[1] + 1, NULL, &writing, NULL, &soon), 0);
	close(ends[0]);
	FD_SET(ends[1], &writing);
	ck_assert_int_eq(rselect(ends[1] + 1, NULL, &writing, NULL, &soon), 1);
	ck_assert(FD_ISSET(ends[1], &writing));
	close(ends[1]);
}
END_TEST

static _Atomic pid_t selecting;

static void *send_late(void *fd)
{
	wait_until_asleep(&selecting);
	send_all(*(int *)fd, "a", 1);
	return NULL;
}

/* In microseconds alone, and as many nanoseconds as are more than a number can say. */
START_TEST(selected_for_ages)
{
	struct timeval ages[] = {{.tv_usec = PATIENCE * 1000}, {.tv_sec = (time_t)1 << 55}};
	pthread_t thread;
	fd_set reading;
	char byte;

	for (int i = 0; i < 2; i++) {
		FD_ZERO(&reading);
		FD_SET(server, &reading);
		selecting = 0;
		must(pthread_create(&thread, NULL, send_late, &client) == 0);
		selecting = gettid();
		ck_assert_int_eq(rselect(server + 1, &reading, NULL, NULL, &ages[i]), 1);
		must(pthread_join(thread, NULL) == 0);
		receive_all(server, &byte, 1);
	}
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		ordinary_alone,
		rsockets_alone,
		mixed,
		many_threads,
		while_another_thread_looks,
		unconnected,
		listening,
		shut_down_meanwhile,
		interrupted,
		selected,
		selected_without_a_reader,
		selected_for_ages,
	};

	return run_rsocket_tests("rsocket_poll", setup, teardown, all, sizeof(all) / sizeof(*all));
}
