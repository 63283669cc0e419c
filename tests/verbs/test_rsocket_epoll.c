/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repoll_create(), repoll_ctl() and repoll_wait(): what the kernel's epoll does with sockets, ours
 * does with rsockets, together with ordinary descriptors.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/newer_rsocket.h"
#include "tests/verbs/rsockets.h"

static int client, server, pipes[2], epoll;

static void setup(void)
{
	open_streams(&client, &server);
	settle(client, server);
	must(pipe(pipes) == 0);
	epoll = newer_repoll_create(EPOLL_CLOEXEC);
	ck_assert_int_ge(epoll, 0);
}

static void teardown(void)
{
	ck_assert_int_eq(rclose(epoll), 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	close(pipes[0]);
	close(pipes[1]);
}

static int change(int operation, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return newer_repoll_ctl(epoll, operation, fd, &event);
}

static void add(int fd, uint32_t events)
{
	ck_assert_int_eq(change(EPOLL_CTL_ADD, fd, events), 0);
}

/* One event. */
static void expect_event(int fd, uint32_t events)
{
	struct epoll_event told[2];

	ck_assert_int_eq(newer_repoll_wait(epoll, told, 2, PATIENCE), 1);
	ck_assert_int_eq(told[0].data.fd, fd);
	ck_assert_uint_eq(told[0].events, events);
}

static void expect_nothing(void)
{
	struct epoll_event told;

	ck_assert_int_eq(newer_repoll_wait(epoll, &told, 1, 20), 0);
}

/* Until its peer has to read before there is room again. */
static void fill_up(int fd)
{
	static const char bytes[4096];
	bool any;

	do {
		any = false;
		while (rsend(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			any = true;
		must(errno == EAGAIN);
		poll(NULL, 0, 10);
	} while (any);
}

static void drain(int fd)
{
	static char bytes[4096];

	while (rrecv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	must(errno == EAGAIN);
}

struct sleeper {
	_Atomic pid_t tid;
	int count, error;
	struct epoll_event told;
	pthread_t thread;
};

static void *sleep_in_wait(void *argument)
{
	struct sleeper *sleeper = argument;

	sleeper->tid = gettid();
	sleeper->count = newer_repoll_wait(epoll, &sleeper->told, 1, PATIENCE);
	sleeper->error = errno;
	return NULL;
}

static void start(struct sleeper *sleeper)
{
	*sleeper = (struct sleeper){};
	must(pthread_create(&sleeper->thread, NULL, sleep_in_wait, sleeper) == 0);
	wait_until_asleep(&sleeper->tid);
}

static void expect_woken(struct sleeper *sleeper, int fd)
{
	must(pthread_join(sleeper->thread, NULL) == 0);
	ck_assert_int_eq(sleeper->count, 1);
	ck_assert_int_eq(sleeper->told.data.fd, fd);
}

/* --- repoll_ctl() ---------------------------------------------------------------------------- */

START_TEST(bad_arguments)
{
	struct epoll_event event = {.events = EPOLLIN};
	int file = open("/proc/self/exe", O_RDONLY);

	ck_fails(newer_repoll_create(1), EINVAL);
	ck_fails(newer_repoll_wait(epoll, &event, 0, 0), EINVAL);
	ck_fails(newer_repoll_wait(epoll, &event, -1, 0), EINVAL);
	ck_fails(newer_repoll_wait(epoll, &event, INT_MAX, 0), EINVAL);
	ck_fails(newer_repoll_wait(999, &event, 1, 0), EBADF);
	ck_fails(newer_repoll_wait(pipes[0], &event, 1, 0), EINVAL);
	ck_fails(newer_repoll_ctl(epoll, EPOLL_CTL_ADD, server, NULL), EFAULT);
	ck_fails(newer_repoll_ctl(999, EPOLL_CTL_ADD, server, &event), EBADF);
	ck_fails(newer_repoll_ctl(pipes[0], EPOLL_CTL_ADD, server, &event), EINVAL);
	ck_fails(newer_repoll_ctl(server, EPOLL_CTL_ADD, server, &event), EINVAL);
	ck_fails(change(EPOLL_CTL_ADD, 999, EPOLLIN), EBADF);
	ck_fails(change(EPOLL_CTL_ADD, epoll, EPOLLIN), EINVAL);
	ck_fails(change(EPOLL_CTL_ADD, file, EPOLLIN), EPERM);
	close(file);
}
END_TEST

/* Whether it is in the list, and how; then what is done with it. */
START_TEST(errors_as_the_kernels)
{
	static const uint32_t events[] = {0,
					  EPOLLIN,
					  EPOLLIN | EPOLLEXCLUSIVE,
					  EPOLLIN | EPOLLEXCLUSIVE | EPOLLET,
					  EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT,
					  EPOLLRDHUP | EPOLLEXCLUSIVE,
					  UINT32_MAX};
	const unsigned int count = sizeof(events) / sizeof(*events);
	const int fds[] = {pipes[0], server};

	for (unsigned int i = 0; i < count * count; i++) {
		for (int operation = 0; operation < 5; operation++) {
			int errors[2];

			for (int k = 0; k < 2; k++) {
				if (events[i / count])
					change(EPOLL_CTL_ADD, fds[k], events[i / count]);
				errno = 0;
				change(operation, fds[k], events[i % count]);
				errors[k] = errno;
				change(EPOLL_CTL_DEL, fds[k], 0);
			}
			ck_assert_msg(errors[0] == errors[1], "%u, %d: %d, kernel %d", i, operation,
				      errors[1], errors[0]);
		}
	}
}
END_TEST

/* --- what is told ---------------------------------------------------------------------------- */

START_TEST(ordinary_alone)
{
	add(pipes[0], EPOLLIN);
	errno = 0;
	expect_nothing();
	ck_assert_int_eq(errno, 0);
	must(write(pipes[1], "a", 1) == 1);
	expect_event(pipes[0], EPOLLIN);
	ck_assert_int_eq(change(EPOLL_CTL_DEL, pipes[0], 0), 0);
	expect_nothing();
}
END_TEST

START_TEST(level_triggered)
{
	add(client, EPOLLIN | EPOLLOUT);
	add(server, EPOLLIN | EPOLLRDHUP);
	expect_event(client, EPOLLOUT);
	expect_event(client, EPOLLOUT);
	ck_assert_int_eq(change(EPOLL_CTL_MOD, client, 0), 0);
	expect_nothing();
	send_all(client, "a", 1);
	expect_event(server, EPOLLIN);
	expect_event(server, EPOLLIN);
	drain(server);
	expect_nothing();
	ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
	expect_event(server, EPOLLIN | EPOLLRDHUP);
	ck_assert_int_eq(rshutdown(server, SHUT_RDWR), 0);
	ck_assert_int_eq(change(EPOLL_CTL_DEL, server, 0), 0);
	expect_event(client, EPOLLHUP); /* told though it isn't asked for */
}
END_TEST

START_TEST(edge_triggered)
{
	add(server, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	expect_event(server, EPOLLOUT);
	expect_nothing();
	send_all(client, "a", 1);
	expect_event(server, EPOLLIN | EPOLLOUT);
	expect_nothing();
	send_all(client, "b", 1); /* more, though the first wasn't read */
	expect_event(server, EPOLLIN | EPOLLOUT);
	send_all(server, "c", 1); /* completes, which is no news */
	expect_nothing();
	drain(server);
	expect_nothing();
	fill_up(server);
	expect_nothing();
	drain(client);
	expect_event(server, EPOLLOUT);
	fill_up(server); /* what was refused is told of even if there is room again by now */
	drain(client);
	expect_event(server, EPOLLOUT);
	expect_nothing();
	ck_assert_int_eq(change(EPOLL_CTL_MOD, server, EPOLLOUT | EPOLLRDHUP | EPOLLET), 0);
	expect_event(server, EPOLLOUT);
	ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
	expect_event(server, EPOLLOUT | EPOLLRDHUP);
	expect_nothing();
}
END_TEST

/* The room that riowrite() found none of is there again as soon as the peer's node has answered. */
START_TEST(room_to_write)
{
	static char mapped[1 << 20], bytes[sizeof(mapped)];
	int fds[2], mappings = 1;
	uint16_t port;
	int listener = open_listener(&port);

	must(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof(mappings)) == 0);
	fds[0] = open_stream();
	connect_to(listener, port, fds[0], &fds[1]);
	must(riomap(fds[0], mapped, sizeof(mapped), PROT_WRITE, 0, 0) == 0);
	settle(fds[0], fds[1]);
	add(fds[1], EPOLLOUT | EPOLLET);
	expect_event(fds[1], EPOLLOUT);
	for (int i = 0; i < 10; i++) {
		size_t written;

		do
			written = riowrite(fds[1], bytes, sizeof(bytes), 0, MSG_DONTWAIT);
		while (written == sizeof(bytes));
		must(written != (size_t)-1 || errno == EAGAIN);
		expect_event(fds[1], EPOLLOUT);
	}
	ck_assert_int_eq(rclose(fds[0]), 0);
	ck_assert_int_eq(rclose(fds[1]), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

START_TEST(one_shot)
{
	add(server, EPOLLIN | EPOLLONESHOT);
	send_all(client, "a", 1);
	expect_event(server, EPOLLIN);
	expect_nothing();
	send_all(client, "b", 1);
	ck_assert_int_eq(rshutdown(client, SHUT_RDWR), 0);
	expect_nothing();
	ck_assert_int_eq(change(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLONESHOT), 0);
	expect_event(server, EPOLLIN);
	expect_nothing();
	/* Only once in both ways. */
	ck_assert_int_eq(change(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLONESHOT | EPOLLET), 0);
	expect_event(server, EPOLLIN);
	expect_nothing();
}
END_TEST

START_TEST(unconnected)
{
	uint16_t port;
	int fd = open_stream(), listener = open_listener(&port), accepted;

	add(fd, EPOLLIN | EPOLLOUT | EPOLLET);
	expect_event(fd, EPOLLOUT | EPOLLHUP);
	expect_nothing();
	connect_to(listener, port, fd, &accepted); /* whose room is another one */
	expect_event(fd, EPOLLOUT);
	expect_nothing();
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(accepted), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

static void *connect_to_port(void *port)
{
	const struct sockaddr *address = socket_address(NULL, *(uint16_t *)port);
	int fd = open_stream();

	must(rconnect(fd, address, address_length(address)) == 0);
	return (void *)(intptr_t)fd;
}

/*
 * What is left is told of after each raccept(), for nothing says how many requests there are; to a
 * thread that sleeps, too, though what was told doesn't end its sleep.
 */
START_TEST(listening)
{
	for (int edge = 0; edge < 2; edge++) {
		struct sleeper sleeper;
		int listener, accepted[4];
		pthread_t threads[4];
		uint16_t port;

		listener = open_listener(&port);

		must(rfcntl(listener, F_SETFL, O_NONBLOCK) == 0);
		add(listener, EPOLLIN | EPOLLOUT | (edge ? EPOLLET : 0));
		expect_nothing();
		for (int i = 0; i < 4; i++)
			must(pthread_create(&threads[i], NULL, connect_to_port, &port) == 0);
		for (int i = 0; i < 4; i++) {
			if (edge && i == 1)
				expect_woken(&sleeper, listener);
			else
				expect_event(listener, EPOLLIN);
			if (edge && i == 0)
				start(&sleeper);
			accepted[i] = raccept(listener, NULL, NULL);
			ck_assert_int_ge(accepted[i], 0);
		}
		ck_fails(raccept(listener, NULL, NULL), EAGAIN);
		expect_nothing();
		for (int i = 0; i < 4; i++) {
			void *connected;

			must(pthread_join(threads[i], &connected) == 0);
			ck_assert_int_eq(rclose((intptr_t)connected), 0);
			ck_assert_int_eq(rclose(accepted[i]), 0);
		}
		ck_assert_int_eq(rclose(listener), 0);
	}
}
END_TEST

START_TEST(datagrams)
{
	uint16_t port;
	int to = open_bound(SOCK_DGRAM, &port), from = rsocket(AF_INET, SOCK_DGRAM, 0);
	const struct sockaddr *address = socket_address(NULL, port);

	add(to, EPOLLIN | EPOLLET);
	expect_nothing();
	for (int i = 0; i < 3; i++) { /* by UDP, and by queue pairs */
		ck_assert_int_eq(rsendto(from, "a", 1, 0, address, address_length(address)), 1);
		expect_event(to, EPOLLIN);
		expect_nothing();
	}
	ck_assert_int_eq(change(EPOLL_CTL_MOD, to, EPOLLIN | EPOLLOUT), 0);
	expect_event(to, EPOLLIN | EPOLLOUT);
	drain(to);
	expect_event(to, EPOLLOUT);
	ck_assert_int_eq(rclose(from), 0);
	ck_assert_int_eq(rclose(to), 0);
}
END_TEST

#define PAIRS 4

/* With room for one event each of them is told of in turn. */
START_TEST(fair)
{
	int near[PAIRS], far[PAIRS], counts[2 * PAIRS] = {}, others[2][2];

	for (int i = 0; i < PAIRS; i++) {
		open_streams(&far[i], &near[i]);
		send_all(far[i], "a", 1);
		wait_for(near[i], POLLIN);
		ck_assert_int_eq(newer_repoll_ctl(epoll, EPOLL_CTL_ADD, near[i],
						  &(struct epoll_event){EPOLLIN, {.u32 = i}}),
				 0);
	}
	for (int i = 0; i < 2; i++) {
		must(pipe(others[i]) == 0);
		must(write(others[i][1], "a", 1) == 1);
		ck_assert_int_eq(
			newer_repoll_ctl(epoll, EPOLL_CTL_ADD, others[i][0],
					 &(struct epoll_event){EPOLLIN, {.u32 = PAIRS + i}}),
			0);
	}
	for (int i = 0; i < 4 * PAIRS; i++) {
		struct epoll_event told;

		ck_assert_int_eq(newer_repoll_wait(epoll, &told, 1, 0), 1);
		counts[told.data.u32]++;
	}
	for (int i = 0; i < PAIRS + 2; i++)
		ck_assert_int_ge(counts[i], i < PAIRS ? 2 : 4);
	for (int i = 0; i < PAIRS; i++) {
		ck_assert_int_eq(rclose(near[i]), 0);
		ck_assert_int_eq(rclose(far[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		close(others[i / 2][i % 2]);
}
END_TEST

/* --- threads --------------------------------------------------------------------------------- */

/* By data and by what another thread changes: one that sleeps looks after five seconds anyway. */
START_TEST(sleeping)
{
	struct sleeper sleeper;
	time_t before;

	add(server, EPOLLIN);
	start(&sleeper);
	send_all(client, "a", 1);
	expect_woken(&sleeper, server);
	drain(server);
	start(&sleeper);
	add(pipes[0], EPOLLIN);
	must(write(pipes[1], "a", 1) == 1);
	expect_woken(&sleeper, pipes[0]);
	ck_assert_int_eq(change(EPOLL_CTL_DEL, pipes[0], 0), 0);
	before = time(NULL);
	for (int i = 0; i < 2; i++) {
		start(&sleeper);
		add(client, EPOLLOUT);
		expect_woken(&sleeper, client);
		ck_assert_int_eq(change(EPOLL_CTL_DEL, client, 0), 0);
		ck_assert_int_eq(change(EPOLL_CTL_MOD, server, 0), 0);
		send_all(client, "a", 1);
		start(&sleeper);
		ck_assert_int_eq(change(EPOLL_CTL_MOD, server, EPOLLIN), 0);
		expect_woken(&sleeper, server);
		drain(server);
	}
	ck_assert_int_lt(time(NULL) - before, 3 * 5);
}
END_TEST

/* The thread that waits notices that its descriptor, and what it waited for, are closed. */
START_TEST(closed_meanwhile)
{
	struct sleeper sleeper;
	int other_client, other_server;

	open_streams(&other_client, &other_server);
	add(other_server, EPOLLIN);
	add(server, EPOLLIN);
	start(&sleeper);
	ck_assert_int_eq(rclose(other_server), 0);
	ck_assert_int_eq(rclose(other_client), 0);
	wait_until_asleep(&sleeper.tid);
	ck_assert_int_eq(rclose(epoll), 0);
	must(pthread_join(sleeper.thread, NULL) == 0);
	ck_assert_int_eq(sleeper.count, -1);
	ck_assert_int_eq(sleeper.error, EBADF);
	ck_fails(rclose(epoll), EBADF);
	epoll = newer_repoll_create(0);
}
END_TEST

#define WAITERS 4
#define MESSAGES 100

static _Atomic unsigned int told_of;

static void *count_edges(void *unused)
{
	struct epoll_event told;

	while (newer_repoll_wait(epoll, &told, 1, PATIENCE) == 1 && told.data.fd != pipes[0])
		told_of++;
	return NULL;
}

/* Each edge is told to one of the threads. */
START_TEST(many_threads)
{
	pthread_t threads[WAITERS];

	told_of = 0;
	add(server, EPOLLIN | EPOLLET);
	add(pipes[0], EPOLLIN);
	for (int i = 0; i < WAITERS; i++)
		must(pthread_create(&threads[i], NULL, count_edges, NULL) == 0);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		send_all(client, "a", 1);
		while (told_of < i)
			usleep(100);
	}
	must(write(pipes[1], "a", 1) == 1);
	for (int i = 0; i < WAITERS; i++)
		must(pthread_join(threads[i], NULL) == 0);
	ck_assert_uint_eq(told_of, MESSAGES);
}
END_TEST

/* While another thread changes the list, and closes what is in it. */
START_TEST(changed_all_the_time)
{
	pthread_t threads[2];

	add(pipes[0], EPOLLIN);
	for (int i = 0; i < 2; i++)
		must(pthread_create(&threads[i], NULL, count_edges, NULL) == 0);
	for (int i = 0; i < 30; i++) {
		int fds[2];

		open_streams(&fds[0], &fds[1]);
		add(fds[0], EPOLLIN | EPOLLET);
		add(fds[1], EPOLLIN | EPOLLOUT | EPOLLET);
		send_all(fds[0], "a", 1);
		ck_assert_int_eq(change(EPOLL_CTL_MOD, fds[1], EPOLLIN | EPOLLONESHOT), 0);
		if (i % 2)
			ck_assert_int_eq(change(EPOLL_CTL_DEL, fds[0], 0), 0);
		ck_assert_int_eq(rclose(fds[1]), 0);
		ck_assert_int_eq(rclose(fds[0]), 0);
	}
	must(write(pipes[1], "a", 1) == 1);
	for (int i = 0; i < 2; i++)
		must(pthread_join(threads[i], NULL) == 0);
}
END_TEST

START_TEST(cancelled)
{
	struct sleeper sleepers[2];

	/* The reasons are in test_signals.c. */
	if (HAS_TSAN || HAS_ASAN)
		return;
	add(server, EPOLLIN);
	start(&sleepers[0]);
	start(&sleepers[1]);
	must(pthread_cancel(sleepers[0].thread) == 0);
	must(pthread_join(sleepers[0].thread, NULL) == 0);
	send_all(client, "a", 1);
	expect_woken(&sleepers[1], server);
	expect_event(server, EPOLLIN);
}
END_TEST

static void do_nothing(int signal)
{
}

START_TEST(interrupted)
{
	/* As the kernel's, even so. */
	struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART}, before;
	/* Again and again: the first one may come before the thread waits. */
	const struct itimerval soon = {{.tv_usec = 20000}, {.tv_usec = 20000}}, never = {};
	struct epoll_event told;

	add(server, EPOLLIN);
	must(sigaction(SIGALRM, &action, &before) == 0);
	must(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	ck_fails(newer_repoll_wait(epoll, &told, 1, -1), EINTR);
	must(setitimer(ITIMER_REAL, &never, NULL) == 0);
	must(sigaction(SIGALRM, &before, NULL) == 0);
}
END_TEST

/* --- what ends ------------------------------------------------------------------------------- */

START_TEST(closed_rsocket)
{
	int second = newer_repoll_create(0), fds[2], again;
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT}, told;

	open_streams(&fds[0], &fds[1]);
	add(fds[1], EPOLLIN | EPOLLOUT);
	ck_assert_int_eq(newer_repoll_ctl(second, EPOLL_CTL_ADD, fds[1], &event), 0);
	expect_event(fds[1], EPOLLOUT);
	ck_assert_int_eq(rclose(fds[1]), 0);
	expect_nothing();
	ck_assert_int_eq(newer_repoll_wait(second, &told, 1, 0), 0);
	/* The progress thread may have that number for a moment: ENOENT then. */
	ck_assert_int_eq(change(EPOLL_CTL_DEL, fds[1], 0), -1);
	ck_assert(errno == EBADF || errno == ENOENT);
	again = rsocket(AF_INET, SOCK_STREAM, 0); /* with that number, most likely */
	expect_nothing();
	add(again, EPOLLIN);
	expect_event(again, EPOLLHUP);
	ck_assert_int_eq(rclose(again), 0);
	ck_assert_int_eq(rclose(fds[0]), 0);
	ck_assert_int_eq(rclose(second), 0);
}
END_TEST

/* Its number is another epoll's then, of ours or not. */
START_TEST(closed_by_number)
{
	const int number = epoll;

	for (int i = 0; i < 2; i++) {
		add(client, EPOLLOUT);
		expect_event(client, EPOLLOUT);
		must(close(epoll) == 0);
		ck_fails(change(EPOLL_CTL_ADD, client, EPOLLOUT), EBADF);
		epoll = i ? newer_repoll_create(0) : epoll_create1(0);
		ck_assert_int_eq(epoll, number);
		expect_nothing();
		ck_fails(change(EPOLL_CTL_DEL, client, 0), ENOENT);
		add(client, EPOLLOUT);
		expect_event(client, EPOLLOUT);
		ck_assert_int_eq(change(EPOLL_CTL_DEL, client, 0), 0);
	}
	must(close(epoll) == 0);
	ck_fails(rclose(epoll), EBADF);
	epoll = newer_repoll_create(0);
}
END_TEST

/* A descriptor that is in @epoll besides those of the application. */
static int find_marker(void)
{
	char name[64];
	FILE *file;
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", epoll);
	file = fopen(name, "r");
	must(file);
	while (fscanf(file, " tfd: %d", &fd) != 1)
		must(fscanf(file, "%*[^\n]") != EOF);
	fclose(file);
	return fd;
}

/* By an application that closes what it doesn't know, and opens others: it is told of those. */
START_TEST(closed_marker)
{
	const int number = find_marker(), event = eventfd(1, EFD_CLOEXEC);

	must(dup2(pipes[0], number) == number);
	add(number, EPOLLIN);
	expect_nothing();
	must(write(pipes[1], "a", 1) == 1);
	expect_event(number, EPOLLIN);
	ck_assert_int_eq(change(EPOLL_CTL_DEL, number, 0), 0);
	must(dup2(event, number) == number);
	add(number, EPOLLIN);
	expect_event(number, EPOLLIN);
	ck_assert_int_eq(change(EPOLL_CTL_DEL, number, 0), 0);
	must(close(event) == 0);
	must(close(number) == 0);
	add(server, EPOLLIN);
	send_all(client, "a", 1);
	expect_event(server, EPOLLIN);
}
END_TEST

static int wait_in_child(void)
{
	struct epoll_event told[4];
	int fd, count;

	if (change(EPOLL_CTL_DEL, client, 0) == 0 || errno != EBADF)
		return 1;
	if (newer_repoll_wait(epoll, told, 4, 0) != 0)
		return 2;
	if (write(pipes[1], "a", 1) != 1 || newer_repoll_wait(epoll, told, 4, PATIENCE) != 1)
		return 3;
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || change(EPOLL_CTL_ADD, fd, EPOLLIN) != 0)
		return 4;
	count = newer_repoll_wait(epoll, told, 4, PATIENCE);
	return count == 2 && rclose(fd) == 0 && rclose(epoll) == 0 ? 0 : 5;
}

/* The child finds its parent's rsockets closed, and ordinary descriptors as they were. */
START_TEST(forked)
{
	int status;
	pid_t pid;

	add(client, EPOLLOUT);
	add(pipes[0], EPOLLIN);
	pid = fork();
	must(pid >= 0);
	if (pid == 0)
		_exit(wait_in_child());
	must(waitpid(pid, &status, 0) == pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(change(EPOLL_CTL_DEL, pipes[0], 0), 0);
	expect_event(client, EPOLLOUT);
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		bad_arguments,
		errors_as_the_kernels,
		ordinary_alone,
		level_triggered,
		edge_triggered,
		room_to_write,
		one_shot,
		unconnected,
		listening,
		datagrams,
		fair,
		sleeping,
		closed_meanwhile,
		many_threads,
		changed_all_the_time,
		cancelled,
		interrupted,
		closed_rsocket,
		closed_by_number,
		closed_marker,
		forked,
	};

	return run_rsocket_tests("rsocket_epoll", setup, teardown, all, sizeof(all) / sizeof(*all));
}
