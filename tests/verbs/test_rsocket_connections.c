/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections of rsockets are made, refused, given up and closed, and peers that break the
 * protocol.
 */
#include <endian.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"

static int refused_port(void)
{
	uint16_t port;

	ck_assert_int_eq(rclose(open_listener(&port)), 0);
	return port;
}

START_TEST(refused)
{
	int fd = open_stream(), listener, server;
	struct sockaddr_in name;
	socklen_t length = sizeof(name);
	uint16_t port;

	ck_fails(rconnect(fd, socket_address(NULL, refused_port()), sizeof(struct sockaddr_in)),
		 ECONNREFUSED);
	ck_fails(rgetpeername(fd, (struct sockaddr *)&name, &length), ENOTCONN);
	ck_fails(rsend(fd, "a", 1, 0), ENOTCONN);
	/* Another one may be tried. */
	listener = open_listener(&port);
	connect_to(listener, port, fd, &server);
	send_all(fd, "a", 1);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/*
 * What was refused is a socket as before: it may be bound, and listen; the port that it was bound
 * to stays its own.
 */
START_TEST(refused_and_used_otherwise)
{
	const struct sockaddr_in refuses =
		*(struct sockaddr_in *)socket_address(NULL, refused_port());
	const struct sockaddr *nowhere = (const struct sockaddr *)&refuses;
	const socklen_t length = sizeof(struct sockaddr_in);
	int fd = open_stream(), client = open_stream(), listener, server;
	struct sockaddr_in name;
	socklen_t size = length;
	uint16_t port = refused_port(), other;

	ck_fails(rconnect(fd, nowhere, length), ECONNREFUSED);
	ck_assert_int_eq(rbind(fd, socket_address(NULL, port), length), 0);
	ck_fails(rconnect(fd, nowhere, length), ECONNREFUSED);
	ck_fails(rbind(fd, socket_address(NULL, 0), length), EINVAL);
	listener = open_listener(&other);
	connect_to(listener, other, fd, &server);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &size), 0);
	ck_assert_uint_eq(ntohs(name.sin_port), port);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
	ck_assert_int_eq(rclose(fd), 0);

	fd = open_stream();
	ck_fails(rconnect(fd, nowhere, length), ECONNREFUSED);
	ck_assert_int_eq(rlisten(fd, 1), 0);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &size), 0);
	connect_to(fd, ntohs(name.sin_port), client, &server);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* Another address of this node, which isn't its first; it becomes one when it is bound to. */
static const char *second_address(void)
{
	static char text[INET_ADDRSTRLEN];

	snprintf(text, sizeof(text), "127.87%s", strchr(strchr(fixture_address(), '.') + 1, '.'));
	return text;
}

static void check_source(int fd, const struct sockaddr *expected)
{
	struct sockaddr_in name;
	socklen_t length = sizeof(name);

	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &length), 0);
	ck_assert_int_eq(name.sin_addr.s_addr,
			 ((const struct sockaddr_in *)expected)->sin_addr.s_addr);
	ck_assert_int_ne(name.sin_port, 0);
}

/* A port that wasn't asked for is given back, but not the address, as Linux has it. */
START_TEST(refused_at_an_address)
{
	const socklen_t length = sizeof(struct sockaddr_in);
	const uint16_t refuses = refused_port();
	int listener, server;
	uint16_t port;

	listener = open_listener(&port);
	for (int listens = 0; listens < 2; listens++) {
		int fd = open_stream();

		ck_assert_int_eq(rbind(fd, socket_address(second_address(), 0), length), 0);
		for (int i = 0; i < 2; i++)
			ck_fails(rconnect(fd, socket_address(NULL, refuses), length), ECONNREFUSED);
		if (listens) {
			ck_assert_int_eq(rlisten(fd, 1), 0);
		} else {
			connect_to(listener, port, fd, &server);
			ck_assert_int_eq(rclose(server), 0);
		}
		check_source(fd, socket_address(second_address(), 0));
		ck_assert_int_eq(rclose(fd), 0);
	}
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* To which there is a route without a network, too. */
#define LOOPBACK_BROADCAST "127.255.255.255"

/* What a call has told itself neither another call nor SO_ERROR tells once more. */
START_TEST(refused_at_once)
{
	const socklen_t length = sizeof(struct sockaddr_in);
	int fd = open_stream(), listener, server;
	uint16_t port;

	listener = open_listener(&port);
	ck_fails(rconnect(fd, socket_address(LOOPBACK_BROADCAST, port), length), EACCES);
	ck_assert_int_eq(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	ck_fails(rconnect(fd, socket_address(LOOPBACK_BROADCAST, port), length), EACCES);
	connect_to(listener, port, fd, &server);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* There is no memory for another one, and then there is. */
START_TEST(refused_without_memory)
{
	const socklen_t length = sizeof(struct sockaddr_in);
	struct sockaddr_in name;
	socklen_t size = length;
	uint16_t port;
	int fd;

	setenv("URXE_FAULTS", "fail(ENOMEM)#3/rdma_create_id;fail(ENOMEM)#4/rdma_create_id", 1);
	fd = open_stream();
	port = refused_port(); /* the second */
	ck_fails(rconnect(fd, socket_address(NULL, port), length), ECONNREFUSED);
	for (int i = 0; i < 2; i++) {
		ck_fails(rconnect(fd, socket_address(NULL, port), length), ENOMEM);
		ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &size), 0);
	}
	ck_fails(rconnect(fd, socket_address(NULL, port), length), ECONNREFUSED);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

START_TEST(refused_later)
{
	int fd = open_stream();

	ck_assert_int_eq(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	ck_fails(rconnect(fd, socket_address(NULL, refused_port()), sizeof(struct sockaddr_in)),
		 EINPROGRESS);
	ck_assert_int_eq(wait_for(fd, POLLOUT) & (POLLOUT | POLLERR), POLLOUT | POLLERR);
	ck_assert_int_eq(get_int(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
	ck_assert_int_eq(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

START_TEST(connected_later)
{
	const socklen_t length = sizeof(struct sockaddr_in);
	struct sockaddr_in name;
	socklen_t size = length;
	int fd = open_stream(), listener, server;
	uint16_t port;

	listener = open_listener(&port);
	ck_assert_int_eq(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	ck_fails(raccept(listener, NULL, NULL), EAGAIN);
	ck_assert_int_eq(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	ck_fails(rconnect(fd, socket_address(NULL, port), length), EINPROGRESS);
	ck_fails(rconnect(fd, socket_address(NULL, port), length), EALREADY);
	ck_fails(rsend(fd, "a", 1, 0), EAGAIN);
	ck_fails(rgetpeername(fd, (struct sockaddr *)&name, &size), ENOTCONN);
	for (;;) {
		struct pollfd polls[] = {{.fd = listener, .events = POLLIN},
					 {.fd = fd, .events = POLLOUT}};

		ck_assert_int_gt(rpoll(polls, 2, PATIENCE), 0);
		if (polls[0].revents)
			break;
	}
	server = raccept(listener, NULL, NULL);
	ck_assert_int_ge(server, 0);
	ck_assert_int_eq(wait_for(fd, POLLOUT), POLLOUT);
	ck_assert_int_eq(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	/* As Linux has it for the first call after EINPROGRESS. */
	ck_assert_int_eq(rconnect(fd, socket_address(NULL, port), length), 0);
	ck_fails(rconnect(fd, socket_address(NULL, port), length), EISCONN);
	ck_fails(rconnect(server, socket_address(NULL, port), length), EISCONN);
	ck_fails(rconnect(listener, socket_address(NULL, port), length), EISCONN);
	ck_fails(rlisten(fd, 1), EINVAL);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

static void *connect_and_close(void *port)
{
	int fd = open_stream();

	must(rconnect(fd, socket_address(NULL, *(uint16_t *)port), sizeof(struct sockaddr_in)) ==
	     0);
	send_all(fd, "a", 1);
	must(rclose(fd) == 0);
	return NULL;
}

START_TEST(accepted)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof(peer);
	int listener, fd;
	pthread_t thread;
	uint16_t port;
	char byte;

	listener = open_listener(&port);
	ck_assert_int_eq(get_int(listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
	ck_assert_int_eq(rlisten(listener, 2), 0); /* once more */
	must(pthread_create(&thread, NULL, connect_and_close, &port) == 0);
	fd = raccept(listener, (struct sockaddr *)&peer, &length);
	ck_assert_int_ge(fd, 0);
	ck_assert_uint_eq(length, sizeof(peer));
	ck_assert_str_eq(inet_ntoa(peer.sin_addr), fixture_address());
	receive_all(fd, &byte, 1);
	ck_assert_int_eq(rrecv(fd, &byte, 1, 0), 0);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

static _Atomic pid_t waiting; /* the thread that waits for a request */

static void *accept_none(void *listener)
{
	waiting = gettid();
	must(raccept(*(int *)listener, NULL, NULL) == -1 && errno == EBADF);
	return NULL;
}

static void *poll_in_vain(void *listener)
{
	struct pollfd fd = {.fd = *(int *)listener, .events = POLLIN};

	waiting = gettid();
	must(rpoll(&fd, 1, PATIENCE) == 1 && fd.revents == POLLNVAL);
	return NULL;
}

/*
 * What a listener has accepted of @client, which hasn't heard of it yet: its events are taken by
 * its calls, and none is made.
 */
static int accept_silently(int client, int listener, uint16_t port)
{
	struct pollfd fd = {.fd = client, .events = POLLOUT};
	int server = -1;

	ck_assert_int_eq(rfcntl(client, F_SETFL, O_NONBLOCK), 0);
	ck_fails(rconnect(client, socket_address(NULL, port), sizeof(struct sockaddr_in)),
		 EINPROGRESS);
	ck_assert_int_eq(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	while (server < 0) {
		ck_assert_int_eq(rpoll(&fd, 1, 1), 0);
		server = raccept(listener, NULL, NULL);
	}
	return server;
}

START_TEST(accepted_is_connected)
{
	int client = open_stream(), listener, server;
	uint16_t port;

	listener = open_listener(&port);
	server = accept_silently(client, listener, port);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rfcntl(server, F_SETFL, i ? 0 : O_NONBLOCK), 0);
		ck_fails(rconnect(server, socket_address(NULL, port), sizeof(struct sockaddr_in)),
			 EISCONN);
	}
	ck_assert_int_eq(wait_for(client, POLLOUT), POLLOUT);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

static void *end_both_ways(void *fd)
{
	waiting = gettid();
	must(rshutdown(*(int *)fd, SHUT_RDWR) == 0);
	return NULL;
}

/* A connection that the peer's application hasn't heard of yet is ended when it has. */
START_TEST(accepted_and_shut_down)
{
	int client = open_stream(), listener, server;
	pthread_t thread;
	uint16_t port;
	char byte;

	listener = open_listener(&port);
	server = accept_silently(client, listener, port);
	waiting = 0;
	must(pthread_create(&thread, NULL, end_both_ways, &server) == 0);
	wait_until_asleep(&waiting);
	wait_for(client, POLLIN);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_int_eq(rrecv(client, &byte, 1, 0), 0);
	ck_assert_int_eq(get_int(client, SOL_SOCKET, SO_ERROR), 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* Closing waits for the peer's application no longer than it lingers. */
START_TEST(accepted_and_closed)
{
	const struct linger linger = {.l_onoff = 1};
	int client = open_stream(), listener, server, error;
	uint16_t port;

	listener = open_listener(&port);
	server = accept_silently(client, listener, port);
	ck_assert_int_eq(rsetsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	ck_assert_int_eq(rclose(server), 0);
	/* The client may be connected before it hears of the end. */
	do {
		wait_for(client, POLLOUT);
		error = get_int(client, SOL_SOCKET, SO_ERROR);
	} while (!error);
	ck_assert_int_eq(error, ECONNRESET);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* Whether there was a descriptor left to be woken by or not. */
START_TEST(closed_while_it_listens)
{
	void *(*const waits[])(void *) = {accept_none, poll_in_vain};

	for (unsigned int i = 0; i < 2 * sizeof(waits) / sizeof(*waits); i++) {
		pthread_t thread;
		uint16_t port;
		int listener = open_listener(&port);

		waiting = 0;
		if (i % 2) {
			thread = start_unwoken(waits[i / 2], &listener, &waiting);
		} else {
			must(pthread_create(&thread, NULL, waits[i / 2], &listener) == 0);
			wait_until_asleep(&waiting);
		}
		ck_assert_int_eq(rclose(listener), 0);
		must(pthread_join(thread, NULL) == 0);
	}
}
END_TEST

static void *accept_no_more(void *listener)
{
	waiting = gettid();
	must(raccept(*(int *)listener, NULL, NULL) == -1 && errno == EINVAL);
	return NULL;
}

/*
 * One that is shut down wakes a thread that waits for a request, refuses what comes, and may listen
 * again.
 */
START_TEST(shut_down_while_it_listens)
{
	const socklen_t length = sizeof(struct sockaddr_in);
	int client = open_stream(), listener, server;
	struct sockaddr_in name;
	socklen_t size = length;
	pthread_t thread;
	uint16_t port;

	listener = open_listener(&port);
	waiting = 0;
	must(pthread_create(&thread, NULL, accept_no_more, &listener) == 0);
	wait_until_asleep(&waiting);
	ck_assert_int_eq(rshutdown(listener, SHUT_WR), 0);
	ck_assert_int_eq(get_int(listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
	ck_assert_int_eq(rshutdown(listener, SHUT_RDWR), 0);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_int_eq(get_int(listener, SOL_SOCKET, SO_ACCEPTCONN), 0);
	ck_fails(raccept(listener, NULL, NULL), EINVAL);
	ck_fails(rshutdown(listener, SHUT_RDWR), ENOTCONN);
	ck_fails(rconnect(client, socket_address(NULL, port), length), ECONNREFUSED);
	/* The port was the system's choice, and is another one now. */
	ck_assert_int_eq(rlisten(listener, 1), 0);
	ck_assert_int_eq(rgetsockname(listener, (struct sockaddr *)&name, &size), 0);
	connect_to(listener, ntohs(name.sin_port), client, &server);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

static int connects; /* to @connects_to, in vain */
static uint16_t connects_to;

static void *connect_in_vain(void *unused)
{
	const struct sockaddr *address = socket_address(NULL, connects_to);

	waiting = gettid();
	must(rconnect(connects, address, sizeof(struct sockaddr_in)) == -1 &&
	     errno == ECONNABORTED);
	return NULL;
}

/* No one accepts: a connection that is being made is given up. */
START_TEST(shut_down_while_it_connects)
{
	int listener = open_listener(&connects_to), server;
	pthread_t thread;

	connects = open_stream();
	waiting = 0;
	must(pthread_create(&thread, NULL, connect_in_vain, NULL) == 0);
	wait_until_asleep(&waiting);
	ck_assert_int_eq(rshutdown(connects, SHUT_WR), 0);
	must(pthread_join(thread, NULL) == 0);
	ck_fails(rsend(connects, "a", 1, 0), ENOTCONN);
	connect_to(listener, connects_to, connects, &server);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(connects), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/*
 * As librdmacm has it: version, flags, credits, entries of a table of mappings, which isn't there
 * unless a flag says so, and where it has its memory.
 */
static const uint8_t hello[40] = {[0] = 1, [3] = 16, [7] = 8, [23] = 2};

/* An id of rdma_cm that says @data to @listener, at @port, is refused. */
static void refuse_hello(int listener, uint16_t port, const uint8_t *data)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(hello)};

	resolve(id, port);
	create_qp(id);
	ck_assert_int_eq(rdma_connect(id, &param), 0);
	wait_for(listener, POLLIN);
	ck_fails(raccept(listener, NULL, NULL), EAGAIN);
	rdma_ack_cm_event(next_event(channel, RDMA_CM_EVENT_REJECTED, 28));
	destroy(id);
	rdma_destroy_event_channel(channel);
}

/* Nor of a version that there isn't, nor one that has no place to be granted memory in. */
START_TEST(not_an_rsocket)
{
	static const uint8_t no_hello[sizeof(hello)] = "hello";
	uint8_t version[sizeof(hello)], targets[sizeof(hello)];
	uint16_t port;
	int listener = open_listener(&port);

	memcpy(version, hello, sizeof(hello));
	version[0]++;
	memcpy(targets, hello, sizeof(hello));
	targets[23] = 0;
	ck_assert_int_eq(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	refuse_hello(listener, port, no_hello);
	refuse_hello(listener, port, version);
	refuse_hello(listener, port, targets);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* --- peers that break the protocol ----------------------------------------------------------- */

#define MESSAGE(kind, value) ((uint32_t)(kind) << 29 | (value))
enum { DATA = 0, CREDIT = 4, MAPPED = 6, CONTROL = 7 };
enum { SHUTDOWN = 2 }; /* of CONTROL */

struct impostor {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t reply[40]; /* the server's hello */
};

/* What @listener accepts of it, which takes it for an rsocket. */
static int accept_impostor(struct impostor *impostor, int listener, uint16_t port)
{
	struct rdma_conn_param param = {.private_data = hello,
					.private_data_len = sizeof(hello),
					.retry_count = 7,
					.rnr_retry_count = 7};
	struct rdma_cm_event *event;
	int server;

	impostor->channel = open_channel();
	impostor->id = open_id(impostor->channel, RDMA_PS_TCP);
	resolve(impostor->id, port);
	create_qp(impostor->id);
	impostor->mr = rdma_reg_msgs(impostor->id, impostor->reply, sizeof(impostor->reply));
	must(impostor->mr);
	must(rdma_connect(impostor->id, &param) == 0);
	server = raccept(listener, NULL, NULL);
	must(server >= 0);
	event = next_event(impostor->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	memcpy(impostor->reply, event->param.conn.private_data, sizeof(impostor->reply));
	rdma_ack_cm_event(event);
	return server;
}

static void end_impostor(struct impostor *impostor)
{
	rdma_dereg_mr(impostor->mr);
	destroy(impostor->id);
	rdma_destroy_event_channel(impostor->channel);
}

/* With @length bytes that it writes to the server's target list. */
static void say(struct impostor *impostor, uint32_t message, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)impostor->reply, length, impostor->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = length ? 1 : 0,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htobe32(message)},
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = be64toh(*(__be64 *)(impostor->reply + 8));
	wr.wr.rdma.rkey = be32toh(*(__be32 *)(impostor->reply + 16));
	must(ibv_post_send(impostor->id->qp, &wr, &bad) == 0);
	must(rdma_get_send_comp(impostor->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

START_TEST(protocol_broken)
{
	static const struct {
		uint32_t message, written;
		int times;
	} errors[] = {
		{MESSAGE(DATA, (1 << 17) + 1), 0, 1}, /* more than the buffer takes */
		{MESSAGE(CREDIT, 16), 1, 1},	      /* and a target that is none */
		{MESSAGE(CREDIT, 16), 32, 3},	      /* and a third, of two that there are */
	};
	uint16_t port;
	int listener = open_listener(&port);
	char byte;

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		struct impostor impostor;
		int server = accept_impostor(&impostor, listener, port);

		ck_fails(riomap(server, &byte, 1, PROT_WRITE, 0, 0), ENOMEM);
		/* A mapping of a table that is shorter says nothing. */
		say(&impostor, MESSAGE(MAPPED, 1 << 28), 0);
		memset(impostor.reply + 20, 0, 4);
		for (int time = 0; time < errors[i].times; time++)
			say(&impostor, errors[i].message, errors[i].written);
		ck_assert_int_eq(wait_for(server, POLLIN), POLLIN | POLLHUP | POLLERR);
		ck_fails(rrecv(server, &byte, 1, 0), EPROTO);
		ck_assert_int_eq(rrecv(server, &byte, 1, 0), 0);
		ck_fails(rsend(server, "a", 1, 0), EPIPE);
		end_impostor(&impostor); /* it never takes what the server says */
		ck_assert_int_eq(rclose(server), 0);
	}
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/*
 * What two rshutdown() that cross look like from here: the peer ends its direction, and doesn't say
 * that it knows of our end. It says that there are bytes, too, which are read first.
 */
START_TEST(ends_cross)
{
	struct impostor impostor;
	uint16_t port;
	int listener = open_listener(&port), server = accept_impostor(&impostor, listener, port);
	char text[8];

	ck_assert_int_eq(rshutdown(server, SHUT_WR), 0);
	say(&impostor, MESSAGE(DATA, 5), 0);
	say(&impostor, MESSAGE(CONTROL, SHUTDOWN), 0);
	ck_assert_int_eq(wait_for(server, POLLRDHUP), POLLRDHUP);
	ck_assert_int_eq(wait_for(server, POLLIN), POLLIN);
	receive_all(server, text, 5);
	ck_assert_int_eq(wait_for(server, POLLIN), POLLIN | POLLHUP);
	ck_assert_int_eq(rrecv(server, text, 1, 0), 0);
	ck_fails(rsend(server, "a", 1, 0), EPIPE);
	ck_assert_int_eq(get_int(server, SOL_SOCKET, SO_ERROR), 0);
	end_impostor(&impostor);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* By a client that ends the connection, of which the server has never heard that it was made. */
START_TEST(accepted_and_disconnected)
{
	struct impostor impostor;
	int listener, server;
	uint16_t port;
	char byte;

	ck_assert_int_eq(setenv("URXE_FAULTS", "drop=100%/CM_RTU", 1), 0);
	listener = open_listener(&port);
	server = accept_impostor(&impostor, listener, port);
	end_impostor(&impostor);
	ck_fails(rrecv(server, &byte, 1, 0), ECONNRESET);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* Asks for a connection, and never looks at the answer. */
static void connect_and_hang(uint16_t port)
{
	struct rdma_conn_param param = {.private_data = hello, .private_data_len = sizeof(hello)};
	struct rdma_cm_id *id = open_id(open_channel(), RDMA_PS_TCP);

	resolve(id, port);
	create_qp(id);
	must(rdma_connect(id, &param) == 0);
	pause();
}

/* A client that is killed before the connection is made is no more waited for. */
START_TEST(accepted_and_killed)
{
	int listener, fd, status;
	uint16_t port;
	pid_t child;
	char byte;

	listener = open_listener(&port);
	child = fork();
	if (child == 0)
		connect_and_hang(port);
	fd = raccept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	must(kill(child, SIGKILL) == 0);
	must(waitpid(child, &status, 0) == child);
	ck_fails(rrecv(fd, &byte, 1, 0), ECONNRESET);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		refused,
		refused_and_used_otherwise,
		refused_at_an_address,
		refused_at_once,
		refused_without_memory,
		refused_later,
		connected_later,
		accepted,
		accepted_is_connected,
		accepted_and_shut_down,
		accepted_and_closed,
		closed_while_it_listens,
		shut_down_while_it_listens,
		shut_down_while_it_connects,
		not_an_rsocket,
		protocol_broken,
		ends_cross,
		accepted_and_disconnected,
		/* It has a child that allocates. */
		accepted_and_killed,
	};

	return run_rsocket_tests("rsocket_connections", NULL, NULL, all,
				 sizeof(all) / sizeof(*all) - (CHILD_ALLOCATES ? 0 : 1));
}
