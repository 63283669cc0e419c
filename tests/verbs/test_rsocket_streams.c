/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected stream rsockets: what arrives and in which pieces, flags, the ends of both directions.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/clock.h"
#include "tests/must.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

#define LARGE (3 << 20)		/* bytes: many times the buffers */
#define SOON (5 * NS_PER_S / 2) /* half of what a thread sleeps at a time */

static int client, server;

static void setup(void)
{
	open_streams(&client, &server);
}

static void teardown(void)
{
	if (client >= 0)
		ck_assert_int_eq(rclose(client), 0);
	if (server >= 0)
		ck_assert_int_eq(rclose(server), 0);
}

/* --- bytes ----------------------------------------------------------------------------------- */

START_TEST(bytes_arrive)
{
	char text[32] = {0};

	send_all(client, "some words", 10);
	ck_assert_int_eq(rrecv(server, text, sizeof(text), 0), 10);
	ck_assert_str_eq(text, "some words");
	ck_assert_int_eq(rwrite(server, "some more", 9), 9);
	ck_assert_int_eq(rread(client, text, 4), 4);
	ck_assert_int_eq(rread(client, text + 4, sizeof(text) - 4), 5);
	ck_assert_mem_eq(text, "some more", 9);
}
END_TEST

static void await_bytes(int fd, size_t length)
{
	char text[64];

	while (rrecv(fd, text, length, MSG_PEEK) < (ssize_t)length)
		;
}

/*
 * What looks in vain meanwhile isn't the caller's: rstream takes EAGAIN that it finds at the end of
 * the stream for the call's.
 */
START_TEST(errno_stays)
{
	char text[8];

	errno = 0;
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(rsend(client, "words", 5, 0), 5);
		ck_assert_int_eq(errno, 0);
		ck_assert_int_eq(rrecv(server, text, 5, MSG_WAITALL), 5);
		ck_assert_int_eq(errno, 0);
	}
	ck_assert_int_eq(wait_for(client, POLLOUT), POLLOUT);
	ck_assert_int_eq(errno, 0);
	ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
	ck_assert_int_eq(rrecv(server, text, sizeof(text), 0), 0);
	ck_assert_int_eq(errno, 0);
}
END_TEST

/* A stream has no messages: what has arrived is read in one. */
START_TEST(boundaries_are_not_kept)
{
	struct iovec parts[] = {{"ab", 2}, {NULL, 0}, {"cde", 3}}, into[2];
	char first[2], second[8];

	ck_fails(rwritev(client, parts, -1), EINVAL);
	ck_fails(rreadv(server, into, -1), EINVAL);
	ck_assert_int_eq(rwritev(client, parts, 3), 5);
	send_all(client, "fg", 2);
	await_bytes(server, 7);
	into[0] = (struct iovec){first, sizeof(first)};
	into[1] = (struct iovec){second, 5};
	ck_assert_int_eq(rreadv(server, into, 2), 7);
	ck_assert_mem_eq(first, "ab", 2);
	ck_assert_mem_eq(second, "cdefg", 5);
}
END_TEST

START_TEST(messages)
{
	char into[8];
	struct sockaddr_storage name;
	struct iovec part = {"words", 5}, space = {into, sizeof(into)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	ck_assert_int_eq(rsendmsg(client, &message, 0), 5);
	message = (struct msghdr){.msg_iov = &space,
				  .msg_iovlen = 1,
				  .msg_name = &name,
				  .msg_namelen = sizeof(name),
				  .msg_control = &name,
				  .msg_controllen = sizeof(name),
				  .msg_flags = -1};
	ck_assert_int_eq(rrecvmsg(server, &message, 0), 5);
	ck_assert_mem_eq(into, "words", 5);
	ck_assert_int_eq(message.msg_namelen, 0);
	ck_assert_uint_eq(message.msg_controllen, 0);
	ck_assert_int_eq(message.msg_flags, 0);
	part.iov_len = 0;
	message = (struct msghdr){.msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = into,
				  .msg_controllen = sizeof(into)};
	ck_fails(rsendmsg(client, &message, 0), ENOTSUP);
}
END_TEST

/* As librdmacm has it, and Linux' sockets have not. */
START_TEST(sender_is_told)
{
	struct sockaddr_in source = {}, name;
	socklen_t length = sizeof(source);
	char text[8];

	send_all(client, "words", 5);
	ck_assert_int_eq(
		rrecvfrom(server, text, sizeof(text), 0, (struct sockaddr *)&source, &length), 5);
	ck_assert_uint_eq(length, sizeof(source));
	ck_assert_int_eq(rgetsockname(client, (struct sockaddr *)&name, &length), 0);
	ck_assert_int_eq(source.sin_addr.s_addr, name.sin_addr.s_addr);
	ck_assert_int_eq(source.sin_port, name.sin_port);
}
END_TEST

START_TEST(peeked_bytes_stay)
{
	char text[8];

	send_all(client, "word", 4);
	ck_assert_int_eq(rrecv(server, text, 2, MSG_PEEK), 2);
	await_bytes(server, 4);
	ck_assert_int_eq(rrecv(server, text, sizeof(text), MSG_PEEK), 4);
	ck_assert_int_eq(rrecv(server, text, sizeof(text), 0), 4);
	ck_assert_mem_eq(text, "word", 4);
	ck_fails(rrecv(server, text, 1, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
}
END_TEST

/* As tcp(7) has it: what is passed over needs no memory, and is counted by vectors all the same. */
START_TEST(truncated_bytes_are_passed_over)
{
	char text[8] = "", rest[8] = "";
	struct iovec vectors[] = {{text, 1}, {NULL, 0}, {text + 1, 3}};
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 3};

	send_all(client, "some words", 10);
	await_bytes(server, 10);
	ck_assert_int_eq(rrecv(server, NULL, 4, MSG_TRUNC | MSG_PEEK), 4);
	ck_assert_int_eq(rrecv(server, NULL, 1, MSG_TRUNC), 1);
	ck_assert_int_eq(rrecvmsg(server, &message, MSG_TRUNC), 4);
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(rrecv(server, rest, sizeof(rest), 0), 5);
	ck_assert_str_eq(rest, "words");
}
END_TEST

START_TEST(no_bytes)
{
	char byte;

	ck_assert_int_eq(rsend(client, NULL, 0, 0), 0);
	ck_assert_int_eq(rrecv(server, &byte, 0, 0), 0);
	ck_fails(rrecv(server, &byte, 1, MSG_DONTWAIT), EAGAIN);
}
END_TEST

START_TEST(no_urgent_bytes)
{
	char byte;

	ck_fails(rsend(client, "a", 1, MSG_OOB), EOPNOTSUPP);
	ck_fails(rrecv(server, &byte, 1, MSG_OOB), EINVAL);
}
END_TEST

/* --- large transfers ------------------------------------------------------------------------- */

/* Of a transfer in pieces of odd sizes, which end anywhere in the buffers. */
struct transfer {
	int fd;
	uint8_t *data;
	size_t piece;
};

static void *send_large(void *argument)
{
	const struct transfer *transfer = argument;

	for (size_t done = 0, part; done < LARGE; done += part) {
		part = LARGE - done < transfer->piece ? LARGE - done : transfer->piece;
		send_all(transfer->fd, transfer->data + done, part);
	}
	return NULL;
}

static void *receive_large(void *argument)
{
	const struct transfer *transfer = argument;
	ssize_t part;

	for (size_t done = 0; done < LARGE; done += part) {
		size_t most = LARGE - done < transfer->piece ? LARGE - done : transfer->piece;

		part = rrecv(transfer->fd, transfer->data + done, most, 0);
		must(part > 0);
	}
	return NULL;
}

/* Both directions at once, four threads. */
static void exchange(size_t sent, size_t received)
{
	struct transfer transfers[4] = {{client, NULL, sent},
					{server, NULL, sent + 1},
					{client, NULL, received},
					{server, NULL, received + 1}};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++) {
		transfers[i].data = malloc(LARGE);
		must(transfers[i].data != NULL);
		if (i < 2)
			fill(transfers[i].data, LARGE, i);
	}
	for (int i = 0; i < 4; i++)
		must(pthread_create(&threads[i], NULL, i < 2 ? send_large : receive_large,
				    &transfers[i]) == 0);
	for (int i = 0; i < 4; i++)
		must(pthread_join(threads[i], NULL) == 0);
	check_filled(transfers[2].data, LARGE, 1);
	check_filled(transfers[3].data, LARGE, 0);
	for (int i = 0; i < 4; i++)
		free(transfers[i].data);
}

START_TEST(large)
{
	exchange(100003, 70001);
}
END_TEST

/* Each send call is a message at least, of which so many may be under way. */
START_TEST(small_pieces)
{
	exchange(1013, 333333);
}
END_TEST

START_TEST(smallest_buffers)
{
	int listener, size = 1, messages = 16;
	uint16_t port;

	teardown();
	listener = open_listener(&port);
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	for (int i = 0; i < 2; i++) {
		int fd = i ? client : listener;

		must(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) == 0);
		must(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) == 0);
		must(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &messages, sizeof(messages)) == 0);
		must(rsetsockopt(fd, SOL_RDMA, RDMA_RQSIZE, &messages, sizeof(messages)) == 0);
		must(rsetsockopt(fd, SOL_RDMA, RDMA_INLINE, &messages, sizeof(messages)) == 0);
	}
	connect_to(listener, port, client, &server);
	ck_assert_int_eq(rclose(listener), 0);
	exchange(20001, 10001);
}
END_TEST

/* --- waiting --------------------------------------------------------------------------------- */

static _Atomic pid_t receiver;

static void *receive_ten(void *text)
{
	receiver = syscall(SYS_gettid);
	must(rrecv(server, text, 10, MSG_WAITALL) == 10);
	return NULL;
}

START_TEST(all_is_waited_for)
{
	char text[11] = {0};
	pthread_t thread;

	receiver = 0;
	must(pthread_create(&thread, NULL, receive_ten, text) == 0);
	wait_until_asleep(&receiver);
	send_all(client, "some", 4);
	wait_until_asleep(&receiver);
	send_all(client, " words", 6);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_str_eq(text, "some words");
}
END_TEST

START_TEST(nothing_is_waited_for)
{
	char byte;

	ck_fails(rrecv(server, &byte, 1, MSG_DONTWAIT), EAGAIN);
	ck_assert_int_eq(rfcntl(server, F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(rfcntl(server, F_GETFL), O_RDWR | O_NONBLOCK);
	ck_fails(rread(server, &byte, 1), EAGAIN);
	ck_fails(rrecv(server, &byte, 1, MSG_WAITALL), EAGAIN);
	send_all(client, "a", 1);
	ck_assert_int_eq(wait_for(server, POLLIN), POLLIN);
	ck_assert_int_eq(rread(server, &byte, 1), 1);
}
END_TEST

#define RECEIVES 16

/* Short messages don't fill the buffers, but take receives: there are only so many at once. */
START_TEST(unread_messages)
{
	int receives = RECEIVES, sent = 0, listener;
	struct pollfd poll = {.events = POLLOUT};
	char bytes[RECEIVES];
	uint16_t port;

	teardown();
	listener = open_listener(&port);
	must(rsetsockopt(listener, SOL_RDMA, RDMA_RQSIZE, &receives, sizeof(receives)) == 0);
	poll.fd = client = rsocket(AF_INET, SOCK_STREAM, 0);
	connect_to(listener, port, client, &server);
	ck_assert_int_eq(rclose(listener), 0);
	do {
		while (rsend(client, "a", 1, MSG_DONTWAIT) == 1)
			sent++;
		ck_assert_int_eq(errno, EAGAIN);
	} while (rpoll(&poll, 1, sent < RECEIVES ? PATIENCE : 100) == 1);
	ck_assert_int_eq(sent, RECEIVES);
	receive_all(server, bytes, RECEIVES);
	ck_assert_int_eq(wait_for(client, POLLOUT), POLLOUT);
	send_all(client, "b", 1);
	receive_all(server, bytes, 1);
	ck_assert_int_eq(bytes[0], 'b');
}
END_TEST

/* What isn't read takes both buffers, and no more; then as much may be sent as was read. */
START_TEST(full)
{
	const size_t both = 128 << 10;
	uint8_t data[9999], read[9999];
	struct pollfd poll = {.fd = client, .events = POLLOUT};
	size_t sent = 0, seen = 0;
	ssize_t part;

	wait_for(server, POLLOUT); /* it knows that it is connected, and grants all of its buffer */
	memset(data, 42, sizeof(data));
	do {
		while ((part = rsend(client, data, sizeof(data), MSG_DONTWAIT)) > 0)
			sent += part;
		ck_assert_int_eq(errno, EAGAIN);
		/* What is acknowledged makes room, however long that takes. */
	} while (rpoll(&poll, 1, sent < both ? PATIENCE : 100) == 1);
	ck_assert_uint_eq(sent, both);
	while (seen < sent) {
		part = rrecv(server, read, sizeof(read), 0);
		ck_assert_int_gt(part, 0);
		seen += part;
	}
	ck_fails(rrecv(server, read, 1, MSG_DONTWAIT), EAGAIN);
	ck_assert_int_eq(wait_for(client, POLLOUT), POLLOUT);
	send_all(client, data, 1);
	receive_all(server, read, 1);
}
END_TEST

/* --- ends ------------------------------------------------------------------------------------ */

START_TEST(half_closed)
{
	char text[8];

	send_all(client, "last", 4);
	ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
	ck_fails(rsend(client, "a", 1, 0), EPIPE);
	ck_fails(rsend(client, "", 0, 0), EPIPE); /* no bytes can't be sent, either */
	receive_all(server, text, 4);
	ck_assert_int_eq(rrecv(server, text, 1, 0), 0);
	ck_assert_int_eq(rrecv(server, text, 1, MSG_DONTWAIT), 0);
	ck_assert_int_eq(wait_for(server, POLLIN | POLLOUT), POLLIN | POLLOUT);
	ck_assert_int_eq(wait_for(server, POLLRDHUP), POLLRDHUP);
	send_all(server, "more", 4);
	receive_all(client, text, 4);
	ck_assert_mem_eq(text, "more", 4);
	ck_assert_int_eq(rshutdown(server, SHUT_WR), 0);
	ck_assert_int_eq(rrecv(client, text, 1, 0), 0);
	ck_assert_int_eq(wait_for(client, POLLIN) & (POLLIN | POLLHUP), POLLIN | POLLHUP);
}
END_TEST

START_TEST(reading_ended)
{
	char byte;

	ck_assert_int_eq(rshutdown(server, SHUT_RD), 0);
	ck_assert_int_eq(rrecv(server, &byte, 1, 0), 0);
	send_all(server, "a", 1);
	receive_all(client, &byte, 1);
	ck_assert_int_eq(rshutdown(server, SHUT_WR), 0);
	ck_assert_int_eq(rrecv(client, &byte, 1, 0), 0);
	wait_for(client, POLLHUP);
	ck_fails(rsend(client, "a", 1, 0), EPIPE);
	ck_fails(rshutdown(client, 3), EINVAL);
}
END_TEST

/* What was sent before is read first, and no hang-up is told meanwhile. */
START_TEST(closed)
{
	char text[8];

	send_all(client, "words", 5);
	ck_assert_int_eq(rclose(client), 0);
	client = -1;
	await_bytes(server, 5);
	ck_assert_int_eq(wait_for(server, POLLIN), POLLIN);
	receive_all(server, text, 5);
	ck_assert_int_eq(rrecv(server, text, 1, 0), 0);
	ck_assert_int_eq(wait_for(server, POLLIN), POLLIN | POLLHUP);
	ck_fails(rsend(server, "a", 1, 0), EPIPE);
	ck_assert_int_eq(rshutdown(server, SHUT_RDWR), 0);
}
END_TEST

/* Closing waits until the peer has all, or for as long as it is to linger. */
START_TEST(closed_with_much)
{
	static uint8_t data[128 << 10], read[sizeof(data)]; /* as much as its buffer takes */
	const struct linger linger = {.l_onoff = 1, .l_linger = 60};

	for (int lingers = 0; lingers < 2; lingers++) {
		teardown();
		setup();
		if (lingers)
			ck_assert_int_eq(
				rsetsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)),
				0);
		wait_for(server, POLLOUT); /* it knows of the connection, and grants all of it */
		fill(data, sizeof(data), 3);
		send_all(client, data, sizeof(data));
		ck_assert_int_eq(rclose(client), 0);
		client = -1;
		receive_all(server, read, sizeof(read));
		check_filled(read, sizeof(read), 3);
		ck_assert_int_eq(rrecv(server, read, 1, 0), 0);
	}
}
END_TEST

/* As soon as it is accepted, before the client's answer may have come. */
START_TEST(closed_at_once)
{
	char byte;

	for (int i = 0; i < 20; i++) {
		teardown();
		setup();
		ck_assert_int_eq(rclose(server), 0);
		server = -1;
		ck_assert_int_eq(rrecv(client, &byte, 1, 0), 0);
	}
}
END_TEST

static void *receive_end(void *unused)
{
	char byte;

	receiver = syscall(SYS_gettid);
	must(rrecv(server, &byte, 1, 0) == 0);
	return NULL;
}

START_TEST(reading_ended_by_another_thread)
{
	pthread_t thread;

	receiver = 0;
	must(pthread_create(&thread, NULL, receive_end, NULL) == 0);
	wait_until_asleep(&receiver);
	ck_assert_int_eq(rshutdown(server, SHUT_RD), 0);
	must(pthread_join(thread, NULL) == 0);
}
END_TEST

/* What another thread does is noticed before the peer is asked whether it is there. */
START_TEST(reading_ended_without_descriptors)
{
	uint64_t begin, end;
	pthread_t thread;

	receiver = 0;
	thread = start_unwoken(receive_end, NULL, &receiver);
	begin = clock_now();
	ck_assert_int_eq(rshutdown(server, SHUT_RD), 0);
	must(pthread_join(thread, NULL) == 0);
	end = clock_now();
	ck_assert_uint_lt(end - begin, SOON);
}
END_TEST

/* Linux' sockets don't wake a thread that waits for one which another thread closes; ours do. */
START_TEST(closed_by_another_thread)
{
	pthread_t thread;

	receiver = 0;
	must(pthread_create(&thread, NULL, receive_end, NULL) == 0);
	wait_until_asleep(&receiver);
	ck_assert_int_eq(rclose(server), 0);
	server = -1;
	must(pthread_join(thread, NULL) == 0);
}
END_TEST

/* Does not return. */
static void connect_and_hang(uint16_t port)
{
	const struct sockaddr *address = socket_address(NULL, port);
	int fd = rsocket(address->sa_family, SOCK_STREAM, 0);

	must(rconnect(fd, address, address_length(address)) == 0);
	send_all(fd, "words", 5);
	pause();
}

/* A stream whose peer is another process, *@child. */
static int open_with_child(pid_t *child)
{
	uint16_t port;
	int listener = open_listener(&port), fd;
	char text[8];

	*child = fork();
	if (*child == 0)
		connect_and_hang(port);
	fd = raccept(listener, NULL, NULL);
	must(fd >= 0);
	receive_all(fd, text, 5);
	must(rclose(listener) == 0);
	return fd;
}

static void kill_child(pid_t child)
{
	int status;

	must(kill(child, SIGKILL) == 0);
	must(waitpid(child, &status, 0) == child);
}

/* The stream of a peer that was killed. */
static int open_orphan(void)
{
	pid_t child;
	int fd = open_with_child(&child);

	kill_child(child);
	return fd;
}

/* A thread that never sleeps hears of its peer's end as well, though that says no word. */
START_TEST(peer_killed)
{
	int fd = open_orphan();
	char byte;

	while (rrecv(fd, &byte, 1, MSG_DONTWAIT) < 0)
		ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

START_TEST(peer_killed_and_polled)
{
	struct pollfd poll = {.fd = open_orphan(), .events = POLLIN};

	while (rpoll(&poll, 1, 0) == 0)
		;
	ck_assert_int_eq(poll.revents, POLLIN | POLLHUP);
	ck_assert_int_eq(rclose(poll.fd), 0);
}
END_TEST

/* Of several peers the one that was killed is missed, and no other. */
START_TEST(one_peer_killed)
{
	pid_t living, killed;
	int first = open_with_child(&living), second = open_with_child(&killed);
	char byte;

	kill_child(killed);
	ck_assert_int_eq(rrecv(second, &byte, 1, 0), 0);
	ck_assert_int_eq(errno, ECONNRESET); /* as librdmacm says it */
	ck_fails(rrecv(first, &byte, 1, MSG_DONTWAIT), EAGAIN);
	kill_child(living);
	ck_assert_int_eq(rrecv(first, &byte, 1, 0), 0);
	ck_assert_int_eq(rclose(first), 0);
	ck_assert_int_eq(rclose(second), 0);
}
END_TEST

/* --- many ------------------------------------------------------------------------------------ */

#define MANY 100

START_TEST(many)
{
	int clients[MANY], servers[MANY], number, listener;
	uint16_t port;

	listener = open_listener(&port);
	for (int i = 0; i < MANY; i++) {
		clients[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		connect_to(listener, port, clients[i], &servers[i]);
	}
	ck_assert_int_eq(rclose(listener), 0);
	for (int i = 0; i < MANY; i++)
		send_all(clients[i], &i, sizeof(i));
	for (int i = MANY - 1; i >= 0; i--) {
		receive_all(servers[i], &number, sizeof(number));
		ck_assert_int_eq(number, i);
	}
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(rclose(clients[i]), 0);
		ck_assert_int_eq(rclose(servers[i]), 0);
	}
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		bytes_arrive,
		errno_stays,
		boundaries_are_not_kept,
		messages,
		sender_is_told,
		peeked_bytes_stay,
		truncated_bytes_are_passed_over,
		no_bytes,
		no_urgent_bytes,
		large,
		small_pieces,
		smallest_buffers,
		all_is_waited_for,
		nothing_is_waited_for,
		full,
		unread_messages,
		half_closed,
		reading_ended,
		closed,
		closed_with_much,
		closed_at_once,
		reading_ended_by_another_thread,
		reading_ended_without_descriptors,
		closed_by_another_thread,
		many,
		/* These have children that allocate. */
		peer_killed,
		peer_killed_and_polled,
		one_peer_killed,
	};

	return run_rsocket_tests("rsocket_streams", setup, teardown, all,
				 sizeof(all) / sizeof(*all) - (CHILD_ALLOCATES ? 0 : 3));
}
