/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets that aren't connected, and what isn't one; posts that are refused or fail; ends that
 * cross; forks.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/own_profile.h"
#include "tests/verbs/rsockets.h"

START_TEST(kinds)
{
	ck_fails(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	ck_fails(rsocket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT);
	ck_fails(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	ck_fails(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EPROTONOSUPPORT);
	for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
		int fd = rsocket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(rfcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
		ck_assert_int_eq(get_int(fd, SOL_SOCKET, SO_TYPE), type);
		ck_assert_int_eq(rclose(fd), 0);
	}
}
END_TEST

/*
 * librspreload leaves types with flags to TCP then: of a server that forks, whose children would
 * find its rsockets closed.
 */
START_TEST(kinds_of_servers_that_fork)
{
	static const int flags[] = {SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK};

	setenv("RDMAV_FORK_SAFE", "1", 1);
	for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
		int fd;

		for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
			ck_fails(rsocket(AF_INET, type | flags[i], 0), EPROTONOSUPPORT);
		fd = rsocket(AF_INET, type, 0);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(rclose(fd), 0);
	}
}
END_TEST

/* Neither what never was one, nor what was closed. */
START_TEST(bad_descriptors)
{
	int closed = open_stream(), pipes[2];
	char byte;

	must(pipe(pipes) == 0);
	ck_assert_int_eq(rclose(closed), 0);
	for (int fd = -1, i = 0; i < 4; i++, fd = i == 1 ? closed : i == 2 ? pipes[0] : 1 << 20) {
		socklen_t length = sizeof(fd);

		ck_fails(rclose(fd), EBADF);
		ck_fails(rbind(fd, socket_address(NULL, 0), sizeof(struct sockaddr_in)), EBADF);
		ck_fails(rlisten(fd, 1), EBADF);
		ck_fails(raccept(fd, NULL, NULL), EBADF);
		ck_fails(rconnect(fd, socket_address(NULL, 1), sizeof(struct sockaddr_in)), EBADF);
		ck_fails(rshutdown(fd, SHUT_WR), EBADF);
		ck_fails(rrecv(fd, &byte, 1, 0), EBADF);
		ck_fails(rsend(fd, &byte, 1, 0), EBADF);
		ck_fails(rfcntl(fd, F_GETFL), EBADF);
		ck_fails(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &byte, &length), EBADF);
		ck_fails(rgetsockname(fd, NULL, NULL), EBADF);
		ck_fails(rgetpeername(fd, NULL, NULL), EBADF);
		ck_fails(riomap(fd, &byte, 1, 0, 0, -1), EBADF);
		ck_fails((ssize_t)riowrite(fd, &byte, 1, 0, 0), EBADF);
	}
}
END_TEST

START_TEST(unconnected)
{
	int fd = open_stream();
	struct sockaddr_in name = {};
	socklen_t length = sizeof(name);
	char byte;

	ck_fails(rsend(fd, "a", 1, 0), ENOTCONN);
	ck_fails(rrecv(fd, &byte, 1, 0), ENOTCONN);
	ck_fails(rshutdown(fd, SHUT_RDWR), ENOTCONN);
	ck_fails(raccept(fd, NULL, NULL), EINVAL);
	ck_fails(rgetpeername(fd, (struct sockaddr *)&name, &length), ENOTCONN);
	ck_fails(riomap(fd, &byte, 1, 0, 0, -1), EINVAL);
	ck_fails((ssize_t)riowrite(fd, &byte, 1, 0, 0), ENOTCONN);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &length), 0);
	ck_assert_int_eq(name.sin_family, AF_INET);
	ck_assert_int_eq(name.sin_port, 0);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

START_TEST(bad_addresses)
{
	int fd = open_stream(), other = open_stream();
	struct sockaddr *address = socket_address(NULL, 0);
	struct sockaddr_in name;
	socklen_t length = sizeof(name);

	ck_fails(rbind(fd, address, 4), EINVAL);
	ck_fails(rbind(fd, NULL, 16), EFAULT);
	ck_fails(rconnect(fd, socket_address("::1", 5), sizeof(struct sockaddr_in6)), EAFNOSUPPORT);
	ck_fails(rbind(fd, socket_address("192.0.2.1", 0), sizeof(name)), EADDRNOTAVAIL);
	ck_assert_int_eq(rbind(fd, address, sizeof(name)), 0);
	ck_fails(rbind(fd, address, sizeof(name)), EINVAL);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &length), 0);
	ck_fails(rbind(other, (struct sockaddr *)&name, sizeof(name)), EADDRINUSE);
	ck_assert_int_eq(rclose(fd), 0);
	ck_assert_int_eq(rclose(other), 0);
}
END_TEST

START_TEST(names)
{
	struct sockaddr_in local, remote;
	socklen_t length = sizeof(local);
	int client, server;

	open_streams(&client, &server);
	ck_assert_int_eq(rgetsockname(client, (struct sockaddr *)&local, &length), 0);
	ck_assert_uint_eq(length, sizeof(local));
	ck_assert_int_eq(rgetpeername(server, (struct sockaddr *)&remote, &length), 0);
	ck_assert_int_eq(local.sin_addr.s_addr, remote.sin_addr.s_addr);
	ck_assert_int_eq(local.sin_port, remote.sin_port);
	ck_assert_int_ne(local.sin_port, 0);
	ck_assert_int_eq(rgetsockname(server, (struct sockaddr *)&local, &length), 0);
	ck_assert_int_eq(rgetpeername(client, (struct sockaddr *)&remote, &length), 0);
	ck_assert_int_eq(local.sin_addr.s_addr, remote.sin_addr.s_addr);
	ck_assert_int_eq(local.sin_port, remote.sin_port);
	length = 4; /* as much as there is space for, and how much there is */
	memset(&local, 0, sizeof(local));
	ck_assert_int_eq(rgetsockname(server, (struct sockaddr *)&local, &length), 0);
	ck_assert_uint_eq(length, sizeof(local));
	ck_assert_int_eq(local.sin_port, remote.sin_port);
	ck_assert_int_eq(local.sin_addr.s_addr, 0);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}
END_TEST

static void check_length(int (*call)(int, struct sockaddr *, socklen_t *), int fd, size_t expected)
{
	socklen_t length = 0;

	ck_assert_int_eq(call(fd, NULL, &length), 0);
	ck_assert_uint_eq(length, expected);
	length = 1;
	ck_fails(call(fd, NULL, &length), EFAULT);
	ck_assert_uint_eq(length, 1);
	ck_fails(call(fd, NULL, NULL), EFAULT);
}

/* Without space for a name its length is told alone, by which librspreload goes back to TCP. */
START_TEST(lengths_of_names)
{
	int client, server, other = rsocket(AF_INET6, SOCK_STREAM, 0);

	check_length(rgetsockname, other, sizeof(struct sockaddr_in6));
	ck_assert_int_eq(rclose(other), 0);
	other = open_stream();
	check_length(rgetsockname, other, sizeof(struct sockaddr_in));
	ck_assert_int_eq(rclose(other), 0);
	open_streams(&client, &server);
	for (int i = 0; i < 2; i++) {
		int fd = i ? server : client;

		check_length(rgetsockname, fd, sizeof(struct sockaddr_in));
		check_length(rgetpeername, fd, sizeof(struct sockaddr_in));
		ck_assert_int_eq(rclose(fd), 0);
	}
}
END_TEST

/* --- posts that are refused ------------------------------------------------------------------ */

/* The fifth is the first of so many bytes: none of them has been sent. */
START_TEST(posts_refused)
{
	uint8_t data[1000], got[1000];
	int client, server;

	setenv("URXE_FAULTS", "fail(ENOMEM)#5/ibv_post_send", 1);
	open_streams(&client, &server);
	settle(client, server);
	fill(data, sizeof(data), 7);
	ck_fails(rsend(client, data, sizeof(data), 0), ENOMEM);
	send_all(client, data, sizeof(data));
	receive_all(server, got, sizeof(got));
	check_filled(got, sizeof(got), 7);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}
END_TEST

/* Connected, with a first byte of the client's that fails with @status. */
static void break_off(int *client, int *server, const char *status)
{
	char fault[64];

	snprintf(fault, sizeof(fault), "complete(%s)#5/RDMA_WRITE_WITH_IMM", status);
	setenv("URXE_FAULTS", fault, 1);
	open_streams(client, server);
	settle(*client, *server);
	send_all(*client, "a", 1);
}

static void close_both(int client, int server)
{
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}

/* What was sent has failed: so says the first call that follows, and no other. */
START_TEST(sending_times_out)
{
	int client, server;
	char byte;

	break_off(&client, &server, "RETRY_EXC_ERR");
	ck_fails(rrecv(client, &byte, 1, 0), ETIMEDOUT);
	ck_assert_int_eq(rrecv(client, &byte, 1, 0), 0);
	ck_fails(rsend(client, "a", 1, 0), EPIPE);
	close_both(client, server);
}
END_TEST

START_TEST(sending_is_refused)
{
	int client, server;

	break_off(&client, &server, "REM_ACCESS_ERR");
	ck_assert(wait_for(client, POLLIN) & POLLERR);
	ck_fails(rsend(client, "a", 1, 0), ECONNRESET);
	ck_fails(rsend(client, "a", 1, 0), EPIPE);
	ck_assert_int_eq(get_int(client, SOL_SOCKET, SO_ERROR), 0);
	close_both(client, server);
}
END_TEST

/* Queues are as long as the device can have them, if more is asked for. */
START_TEST(long_queues)
{
	int client, listener, server;
	uint16_t port;

	own_profile("max_qp_wr = 1000\n");
	client = open_stream();
	ck_assert_int_eq(set_int(client, SOL_RDMA, RDMA_SQSIZE, 1 << 14), 0);
	ck_assert_int_eq(set_int(client, SOL_RDMA, RDMA_RQSIZE, 1 << 14), 0);
	listener = open_listener(&port);
	connect_to(listener, port, client, &server);
	settle(client, server);
	ck_assert_int_le(get_int(client, SOL_RDMA, RDMA_SQSIZE), 1000);
	ck_assert_int_le(get_int(client, SOL_RDMA, RDMA_RQSIZE), 1000);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* Too short for an rsocket: it isn't connected, and none waits for ever to send. */
START_TEST(short_queues)
{
	int client, listener;
	uint16_t port;

	own_profile("max_qp_wr = 20\n");
	client = open_stream();
	listener = open_listener(&port);
	ck_fails(rconnect(client, socket_address(NULL, port), sizeof(struct sockaddr_in)), EINVAL);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

/* --- ends that cross ------------------------------------------------------------------------- */

/*
 * Each side ends its direction before it hears of the other's end: it sees neither that nor the
 * data before it for a while. Behind both there is no connection. A machine that is busy for longer
 * makes ends that don't cross, which come to the same.
 */
START_TEST(ends_cross)
{
	int client, server;
	char text[8];

	setenv("URXE_FAULTS", "late(1s)#5+/RECV", 1);
	open_streams(&client, &server);
	settle(client, server);
	send_all(client, "words", 5);
	send_all(server, "names", 5);
	ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
	ck_assert_int_eq(rshutdown(server, SHUT_WR), 0);
	for (int i = 0; i < 2; i++) {
		int fd = i ? server : client;

		receive_all(fd, text, 5);
		ck_assert_mem_eq(text, i ? "words" : "names", 5);
		ck_assert_int_eq(rrecv(fd, text, 1, 0), 0);
		ck_assert_int_eq(wait_for(fd, POLLIN), POLLIN | POLLHUP);
		ck_assert_int_eq(wait_for(fd, 0), POLLHUP); /* which nobody has to ask for */
		ck_fails(rsend(fd, "a", 1, 0), EPIPE);
		ck_assert_int_eq(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	}
	close_both(client, server);
}
END_TEST

/* --- forks ----------------------------------------------------------------------------------- */

/* A child that asks whether its parent's are ready is told at once that they are closed. */
static void poll_inherited(int stream, int datagrams)
{
	struct pollfd fds[] = {{.fd = stream, .events = POLLIN | POLLPRI},
			       {.fd = datagrams, .events = POLLIN}};
	fd_set reading;

	must(rpoll(fds, 2, PATIENCE) == 2);
	must(fds[0].revents == (POLLNVAL | POLLIN) && fds[1].revents == (POLLNVAL | POLLIN));
	FD_ZERO(&reading);
	FD_SET(datagrams, &reading);
	must(rselect(datagrams + 1, &reading, NULL, NULL, NULL) == -1 && errno == EBADF);
}

/* A number that close(2) has freed is that of another file then. */
static void poll_reused(int datagrams)
{
	struct pollfd fd = {.fd = datagrams, .events = POLLOUT};
	int pipes[2];

	must(pipe(pipes) == 0 && dup2(pipes[1], datagrams) == datagrams);
	must(rpoll(&fd, 1, PATIENCE) == 1 && fd.revents == POLLOUT);
}

/* A child may close its parent's, and make its own. */
static void in_child(int client, int server, int datagrams)
{
	char byte;
	int fd;

	poll_inherited(server, datagrams);
	poll_reused(datagrams);
	must(rrecv(server, &byte, 1, MSG_DONTWAIT) == -1 && errno == EBADF);
	must(rsend(client, "a", 1, 0) == -1 && errno == EBADF);
	must(rclose(client) == 0 && rclose(server) == 0);
	must(rclose(server) == -1 && errno == EBADF);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	must(fd >= 0);
	must(rclose(fd) == 0);
	_exit(0);
}

START_TEST(forked)
{
	int client, server, datagrams, status;
	uint16_t port;
	char byte;
	pid_t pid;

	open_streams(&client, &server);
	datagrams = open_bound(SOCK_DGRAM, &port);
	pid = fork();
	if (pid == 0)
		in_child(client, server, datagrams);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	send_all(client, "a", 1);
	receive_all(server, &byte, 1);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(datagrams), 0);
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		kinds,
		bad_descriptors,
		unconnected,
		bad_addresses,
		names,
		posts_refused,
		sending_times_out,
		sending_is_refused,
		long_queues,
		short_queues,
		forked,
		kinds_of_servers_that_fork,
		lengths_of_names,
		ends_cross,
	};

	return run_rsocket_tests("rsocket_calls", NULL, NULL, all, sizeof(all) / sizeof(*all));
}
