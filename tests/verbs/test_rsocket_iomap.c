/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers that the peer writes to directly: the client maps, the server writes.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

#define MAPPINGS 8 /* more than messages that are under way at a time */
#define LENGTH (1 << 20)

static int client, server;
static uint8_t *mapped, data[LENGTH];

static void set(int fd, int name, int value)
{
	must(rsetsockopt(fd, SOL_RDMA, name, &value, sizeof(value)) == 0);
}

/* The server maps @mappings at most, and has a send queue of @entries. */
static void open_both(int mappings, int entries)
{
	uint16_t port;
	int listener = open_listener(&port);

	set(listener, RDMA_IOMAPSIZE, MAPPINGS);
	set(listener, RDMA_SQSIZE, entries);
	client = rsocket(AF_INET, SOCK_STREAM, 0);
	set(client, RDMA_IOMAPSIZE, mappings);
	connect_to(listener, port, client, &server);
	must(rclose(listener) == 0);
}

static void close_both(void)
{
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}

static void setup(void)
{
	open_both(0, 384);
	mapped = calloc(1, LENGTH);
	must(mapped != NULL);
	fill(data, sizeof(data), 5);
}

static void teardown(void)
{
	close_both();
	free(mapped);
}

/* The server knows a mapping as soon as it has data that was sent after it. */
static void tell(void)
{
	char byte;

	send_all(client, "a", 1);
	receive_all(server, &byte, 1);
}

/* What was written before data is there when the data is. */
static void be_told(void)
{
	char byte;

	send_all(server, "a", 1);
	receive_all(client, &byte, 1);
}

static void *write_all(void *offset)
{
	must(riowrite(server, data, LENGTH, *(off_t *)offset, 0) == LENGTH);
	send_all(server, "a", 1);
	return NULL;
}

START_TEST(written)
{
	off_t offset = riomap(client, mapped, LENGTH, PROT_WRITE, 0, 4711);
	pthread_t thread;
	char byte;

	ck_assert_int_eq(offset, 4711);
	tell();
	must(pthread_create(&thread, NULL, write_all, &offset) == 0);
	receive_all(client, &byte, 1);
	must(pthread_join(thread, NULL) == 0);
	check_filled(mapped, LENGTH, 5);
}
END_TEST

START_TEST(offset_of_choice)
{
	off_t offset = riomap(client, mapped, 1000, PROT_WRITE, 0, -1);

	ck_assert_int_ne(offset, -1);
	tell();
	ck_assert_uint_eq(riowrite(server, "words", 5, offset + 100, 0), 5);
	be_told();
	ck_assert_mem_eq(mapped + 100, "words", 5);
	ck_assert_int_eq(mapped[99] | mapped[105], 0);
}
END_TEST

/* One write, from one mapping on into the next. */
START_TEST(several)
{
	for (int i = 0; i < MAPPINGS; i++)
		ck_assert_int_eq(riomap(client, mapped + 100 * i, 50, PROT_WRITE, 0, 50 * i),
				 50 * i);
	ck_fails(riomap(client, mapped + 900, 50, PROT_WRITE, 0, 50 * MAPPINGS), ENOMEM);
	tell();
	ck_assert_uint_eq(riowrite(server, data, 120, 10, 0), 120);
	be_told();
	ck_assert_mem_eq(mapped + 10, data, 40);
	ck_assert_mem_eq(mapped + 100, data + 40, 50);
	ck_assert_mem_eq(mapped + 200, data + 90, 30);
	ck_assert_int_eq(mapped[50] | mapped[230], 0);
	ck_assert_int_eq(riounmap(client, mapped, 50), 0);
	ck_assert_int_eq(riomap(client, mapped + 900, 50, PROT_WRITE, 0, 1000), 1000);
	tell();
	ck_assert_uint_eq(riowrite(server, "words", 5, 1000, 0), 5);
	be_told();
	ck_assert_mem_eq(mapped + 900, "words", 5);
}
END_TEST

enum { MANY = 700 };

static void *receive_byte(void *fd)
{
	char byte;

	receive_all(*(int *)fd, &byte, 1);
	return NULL;
}

/* A table of more entries than a hello can count one by one. */
START_TEST(many)
{
	int from = rsocket(AF_INET, SOCK_STREAM, 0), mappings = MANY, to, listener;
	socklen_t length = sizeof(mappings);
	pthread_t thread;
	uint16_t port;

	listener = open_listener(&port);
	ck_assert_int_eq(
		rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, sizeof(mappings)), 0);
	ck_assert_int_eq(rgetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &mappings, &length), 0);
	connect_to(listener, port, from, &to);
	for (int i = 0; i < mappings; i++)
		ck_assert_int_eq(riomap(from, mapped + 8 * i, 8, PROT_WRITE, 0, 8 * i), 8 * i);
	ck_fails(riomap(from, mapped + 8 * mappings, 8, PROT_WRITE, 0, 8 * mappings), ENOMEM);
	must(pthread_create(&thread, NULL, receive_byte, &to) == 0);
	send_all(from, "a", 1);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_uint_eq(riowrite(to, data, 8 * mappings, 0, 0), 8 * mappings);
	must(pthread_create(&thread, NULL, receive_byte, &from) == 0);
	send_all(to, "a", 1);
	must(pthread_join(thread, NULL) == 0);
	check_filled(mapped, 8 * mappings, 5);
	ck_assert_int_eq(rclose(from), 0);
	ck_assert_int_eq(rclose(to), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

enum { RECEIVES = 16, CROWD = 100 }; /* more messages of mappings than receives of all kinds */

/* The client has more mappings to tell of than the server has receives. */
static void open_with_crowd(void)
{
	uint16_t port;
	int listener;

	close_both();
	listener = open_listener(&port);
	set(listener, RDMA_IOMAPSIZE, CROWD);
	set(listener, RDMA_RQSIZE, RECEIVES);
	client = open_stream();
	connect_to(listener, port, client, &server);
	must(rclose(listener) == 0);
	for (int i = 0; i < CROWD; i++)
		ck_assert_int_eq(riomap(client, mapped + 8 * i, 8, PROT_WRITE, 0, 8 * i), 8 * i);
}

/*
 * A server that makes no calls posts no receives: some of the messages wait for these, and data
 * waits for the messages. Each POLLOUT has to be good for at least one of them.
 */
START_TEST(unreceived)
{
	struct pollfd polls[2] = {{.events = POLLOUT}, {.events = POLLIN}};
	int calls = 0;
	char byte;

	open_with_crowd();
	polls[0].fd = client;
	polls[1].fd = server;
	do {
		ck_fails(rsend(client, "a", 1, MSG_DONTWAIT), EAGAIN);
		ck_assert_int_lt(calls++, CROWD);
	} while (rpoll(polls, 1, 100) == 1);
	while (rrecv(server, &byte, 1, MSG_DONTWAIT) != 1) {
		must(errno == EAGAIN);
		must(rpoll(polls, 2, PATIENCE) > 0);
		if (!polls[0].revents)
			continue;
		if (rsend(client, "a", 1, MSG_DONTWAIT) == 1)
			polls[0].fd = -1;
		else
			must(errno == EAGAIN);
	}
	ck_assert_uint_eq(riowrite(server, data, 8 * CROWD, 0, 0), 8 * CROWD);
	be_told();
	check_filled(mapped, 8 * CROWD, 5);
}
END_TEST

static void *shut_down_client(void *unused)
{
	must(rshutdown(client, SHUT_WR) == 0);
	return NULL;
}

/* The client's end waits behind its mappings, and the server's comes meanwhile: both are told. */
START_TEST(ends_cross_behind_mappings)
{
	struct pollfd poll = {.events = POLLIN};
	pthread_t thread;
	ssize_t received;
	char byte;

	open_with_crowd();
	must(pthread_create(&thread, NULL, shut_down_client, NULL) == 0);
	do
		must(rsend(client, "a", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0);
	while (errno != EPIPE);
	must(rshutdown(server, SHUT_WR) == 0);
	poll.fd = server;
	do {
		must(rpoll(&poll, 1, PATIENCE) == 1);
		received = rrecv(server, &byte, 1, MSG_DONTWAIT);
	} while (received < 0 && errno == EAGAIN);
	ck_assert_int_eq(received, 0);
	must(pthread_join(thread, NULL) == 0);
}
END_TEST

/* As applications do it, which hear of such a write by nothing else. */
__attribute__((no_sanitize("thread"))) static bool is_set(const volatile uint8_t *flag)
{
	return *flag != 0;
}

/* A write, of which the peer's application hears nothing, tells of the mappings before it. */
START_TEST(told_by_write)
{
	static uint8_t flag;

	close_both();
	open_both(1, 384);
	ck_assert_int_eq(riomap(server, &flag, 1, PROT_WRITE, 0, 0), 0);
	be_told();
	for (int i = 0; i < MAPPINGS; i++)
		ck_assert_int_eq(riomap(client, mapped + i, 1, PROT_WRITE, 0, i), i);
	ck_assert_uint_eq(riowrite(client, "a", 1, 0, 0), 1);
	while (!is_set(&flag))
		usleep(100);
	ck_assert_uint_eq(riowrite(server, data, MAPPINGS, 0, 0), MAPPINGS);
	be_told();
	ck_assert_mem_eq(mapped, data, MAPPINGS);
}
END_TEST

/*
 * A write that finds the buffer full looks first what has been acknowledged: else a blocking one
 * would sleep though nothing is under way that could wake it. When that is can't be seen from
 * here: so a pause has to be long enough many times in a row.
 */
START_TEST(acknowledged_since)
{
	useconds_t pause = 1000;

	ck_assert_int_eq(riomap(client, mapped, LENGTH, PROT_WRITE, 0, 0), 0);
	tell();
	for (int found = 0; found < 20;) {
		while (riowrite(server, data, LENGTH, 0, MSG_DONTWAIT) != (size_t)-1)
			;
		must(errno == EAGAIN);
		usleep(pause);
		if (riowrite(server, data, 1, 0, MSG_DONTWAIT) == 1) {
			found++;
			continue;
		}
		must(errno == EAGAIN);
		found = 0;
		pause *= 2;
		must(pause < 10000000);
	}
}
END_TEST

/* As many writes are under way as the send queue has entries for; the others wait. */
START_TEST(short_queue)
{
	close_both();
	open_both(0, 16);
	ck_assert_int_eq(riomap(client, mapped, LENGTH, PROT_WRITE, 0, 0), 0);
	tell();
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(riowrite(server, data + i, 1, i, 0), 1);
	be_told();
	check_filled(mapped, 1000, 5);
}
END_TEST

/* What isn't mapped any more isn't written: the connection breaks. */
START_TEST(unmapped)
{
	char byte;

	ck_assert_int_eq(riomap(client, mapped, 100, PROT_WRITE, 0, 0), 0);
	tell();
	ck_assert_int_eq(riounmap(client, mapped, 100), 0);
	ck_assert_uint_eq(riowrite(server, "a", 1, 0, 0), 1);
	ck_fails(rrecv(server, &byte, 1, 0), ECONNRESET);
	ck_fails((ssize_t)riowrite(server, "a", 1, 0, 0), EPIPE);
	ck_assert_int_eq(mapped[0], 0);
}
END_TEST

/* As rsend() says it. */
START_TEST(why_unwritten)
{
	struct pollfd poll = {.fd = server};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	ck_fails((ssize_t)riowrite(fd, "a", 1, 0, 0), ENOTCONN);
	ck_fails(rconnect(fd, socket_address(NULL, 9), sizeof(struct sockaddr_in)), ECONNREFUSED);
	ck_fails((ssize_t)riowrite(fd, "a", 1, 0, 0), ENOTCONN);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(riomap(client, mapped, 100, PROT_WRITE, 0, 0), 0);
	tell();
	ck_assert_int_eq(riounmap(client, mapped, 100), 0);
	ck_assert_uint_eq(riowrite(server, "a", 1, 0, 0), 1);
	ck_assert_int_eq(rpoll(&poll, 1, PATIENCE), 1);
	ck_fails((ssize_t)riowrite(server, "a", 1, 0, 0), ECONNRESET);
	ck_fails((ssize_t)riowrite(server, "a", 1, 0, 0), EPIPE);
}
END_TEST

/* The peer can be told of 32 bits of length. */
START_TEST(too_long)
{
	const size_t most = UINT32_MAX;
	uint8_t *memory = mmap(NULL, most + 1, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(memory != MAP_FAILED);
	ck_fails(riomap(client, memory, most + 1, PROT_WRITE, 0, 0), EINVAL);
	ck_assert_int_eq(riomap(client, memory, most, PROT_WRITE, 0, 0), 0);
	tell();
	ck_assert_uint_eq(riowrite(server, "words", 5, most - 5, 0), 5);
	be_told();
	ck_assert_mem_eq(memory + most - 5, "words", 5);
	ck_assert_int_eq(riounmap(client, memory, most), 0);
	munmap(memory, most + 1);
}
END_TEST

START_TEST(refused)
{
	ck_assert_uint_eq(riowrite(server, "a", 1, 0, 0), 0); /* nothing is mapped */
	ck_fails(riomap(client, mapped, 0, PROT_WRITE, 0, 0), EINVAL);
	ck_fails(riomap(client, mapped, 1, PROT_EXEC, 0, 0), EINVAL);
	ck_fails(riomap(client, mapped, 1, PROT_WRITE, MAP_PRIVATE, 0), EINVAL);
	ck_fails(riounmap(client, mapped, 1), EINVAL);
	/* One of the application's own use isn't in the peer's table. */
	ck_assert_int_eq(riomap(client, mapped + 300, 100, PROT_NONE, 0, 0), 0);
	ck_assert_int_eq(riomap(client, mapped, 100, PROT_WRITE, 0, 0), 0);
	ck_fails(riomap(client, mapped + 200, 100, PROT_WRITE, 0, 99), EINVAL);
	/* The client's table has no entries. */
	ck_fails(riomap(server, mapped, 100, PROT_WRITE, 0, 0), ENOMEM);
	ck_assert_int_eq(riomap(server, mapped, 100, PROT_NONE, 0, 7), 7);
	ck_fails(riounmap(server, mapped, 99), EINVAL);
	ck_assert_int_eq(riounmap(server, mapped, 100), 0);
	tell();
	ck_assert_uint_eq(riowrite(server, "a", 1, 100, 0), 0);
	ck_assert_uint_eq(riowrite(server, "a", 1, 99, 0), 1);
	ck_assert_uint_eq(riowrite(server, data, 10, 95, 0), 5); /* up to the end */
}
END_TEST

/* Closing waits no longer than it lingers, though no further message may be under way. */
START_TEST(closed_behind_mappings)
{
	const struct linger linger = {.l_onoff = 1};
	static uint8_t bytes[MAPPINGS];

	setenv("URXE_FAULTS", "late(1000s)#1+/RDMA_WRITE_WITH_IMM", 1);
	open_both(0, 384);
	for (int i = 0; i < MAPPINGS; i++)
		must(riomap(client, bytes + i, 1, PROT_WRITE, 0, i) == i);
	ck_fails(rsend(client, "a", 1, MSG_DONTWAIT), EAGAIN);
	must(rsetsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	must(rsetsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	close_both();
}
END_TEST

int main(void)
{
	const TTest *const all[] = {written,	   offset_of_choice,   several,
				    many,	   unreceived,	       ends_cross_behind_mappings,
				    told_by_write, acknowledged_since, short_queue,
				    unmapped,	   why_unwritten,      too_long,
				    refused};

	/* What the environment says has to be there before the first socket is. */
	const TTest *const faulty[] = {closed_behind_mappings};
	int failed = run_rsocket_tests("rsocket_iomap", setup, teardown, all,
				       sizeof(all) / sizeof(*all));

	return failed | run_rsocket_tests("rsocket_iomap", NULL, NULL, faulty, 1);
}
