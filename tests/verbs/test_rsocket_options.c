/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of rsockets: those of librdmacm and of sockets, routes, and keepalives.
 */
#include <fcntl.h>
#include <infiniband/sa.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/rsockets.h"
#include "urxe.h"

START_TEST(options)
{
	static const struct {
		int level, name, set, get;
	} numbers[] = {
		{SOL_SOCKET, SO_SNDBUF, 100000, 204800},
		{SOL_SOCKET, SO_RCVBUF, 65536, 131072},
		{SOL_SOCKET, SO_REUSEADDR, 1, 1},
		{SOL_SOCKET, SO_OOBINLINE, 5, 1},
		{IPPROTO_TCP, TCP_NODELAY, 1, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 30, 30},
		{SOL_RDMA, RDMA_SQSIZE, 100, 100},
		{SOL_RDMA, RDMA_RQSIZE, 200, 200},
		{SOL_RDMA, RDMA_INLINE, 128, 128},
		{SOL_RDMA, RDMA_IOMAPSIZE, 7, 7},
		{IPPROTO_IPV6, IPV6_V6ONLY, 1, 1},
		{IPPROTO_TCP, TCP_KEEPCNT, 9, 1},
		{IPPROTO_TCP, TCP_KEEPINTVL, 75, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 86400, 86400},
		{IPPROTO_TCP, TCP_MAXSEG, 1460, 2048},
		{SOL_RDMA, RDMA_IOMAPSIZE, 128, 128},
		{SOL_RDMA, RDMA_IOMAPSIZE, 255, 128},
		{SOL_RDMA, RDMA_IOMAPSIZE, 1000, 768},
		{SOL_RDMA, RDMA_IOMAPSIZE, 1 << 20, 32512},
		{SOL_SOCKET, SO_SNDBUF, INT_MAX, 1 << 30},
	};
	struct linger linger = {1, 2}, got = {0};
	socklen_t length = sizeof(got);
	int fd = open_stream();

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		ck_assert_int_eq(set_int(fd, numbers[i].level, numbers[i].name, numbers[i].set), 0);
		ck_assert_int_eq(get_int(fd, numbers[i].level, numbers[i].name), numbers[i].get);
	}
	ck_assert_int_eq(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	ck_assert_int_eq(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &length), 0);
	ck_assert_mem_eq(&got, &linger, sizeof(got));
	length = sizeof(got); /* more than a number has */
	ck_assert_int_eq(rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &length), 0);
	ck_assert_uint_eq(length, sizeof(int));
	ck_fails(set_int(fd, SOL_SOCKET, SO_BROADCAST, 1), ENOTSUP);
	ck_fails(set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL);
	ck_fails(set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, -1), EINVAL);
	ck_assert_int_eq(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 86400);
	ck_fails(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, NULL, 4), EFAULT);
	ck_fails(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &linger, 2), EINVAL);
	ck_fails(rgetsockopt(fd, SOL_SOCKET, SO_SNDBUF, NULL, &length), EFAULT);
	ck_fails(rgetsockopt(fd, IPPROTO_TCP, 999, &got, &length), ENOTSUP);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* What rdma_cm was told when the socket was bound it is told again. */
START_TEST(options_of_bound)
{
	int fd = rsocket(AF_INET6, SOCK_STREAM, 0), other = open_stream(), third = open_stream();
	struct sockaddr_in6 name = {.sin6_family = AF_INET6};
	const socklen_t length = sizeof(struct sockaddr_in);
	socklen_t size = sizeof(name);
	struct sockaddr *any;

	ck_assert_int_eq(rbind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&name, &size), 0);
	any = socket_address("0.0.0.0", ntohs(name.sin6_port));
	ck_fails(rbind(other, any, length), EADDRNOTAVAIL);
	ck_assert_int_eq(set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0);
	ck_assert_int_eq(rbind(other, any, length), 0);
	ck_assert_int_eq(set_int(third, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	ck_fails(rbind(third, any, length), EADDRNOTAVAIL);
	ck_assert_int_eq(set_int(other, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	ck_assert_int_eq(rbind(third, any, length), 0);
	ck_assert_int_eq(rlisten(fd, 1), 0);
	ck_fails(set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0), EINVAL);
	ck_assert_int_eq(get_int(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
	ck_assert_int_eq(set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	ck_assert_int_eq(rclose(third), 0);
	ck_assert_int_eq(rclose(other), 0);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* Of the same port: a socket of IPv6 has that of IPv4, too, unless it is for its own alone. */
START_TEST(one_version_only)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
	struct sockaddr_in any = {.sin_family = AF_INET};

	for (int only = 0; only < 2; only++) {
		int fd = rsocket(AF_INET6, SOCK_STREAM, 0), other = open_stream();
		socklen_t length = sizeof(any6);

		ck_assert_int_eq(set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, only), 0);
		any6.sin6_port = 0;
		ck_assert_int_eq(rbind(fd, (struct sockaddr *)&any6, sizeof(any6)), 0);
		ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&any6, &length), 0);
		any.sin_port = any6.sin6_port;
		if (only)
			ck_assert_int_eq(rbind(other, (struct sockaddr *)&any, sizeof(any)), 0);
		else
			ck_fails(rbind(other, (struct sockaddr *)&any, sizeof(any)), EADDRNOTAVAIL);
		ck_assert_int_eq(rclose(fd), 0);
		ck_assert_int_eq(rclose(other), 0);
	}
}
END_TEST

START_TEST(options_too_late)
{
	int client, server, size;

	open_streams(&client, &server);
	size = get_int(client, SOL_SOCKET, SO_SNDBUF);
	ck_assert_int_eq(set_int(client, SOL_SOCKET, SO_SNDBUF, 1 << 20), 0);
	ck_assert_int_eq(get_int(client, SOL_SOCKET, SO_SNDBUF), size);
	ck_fails(set_int(client, SOL_RDMA, RDMA_SQSIZE, 99), EINVAL);
	ck_assert_int_eq(set_int(client, IPPROTO_TCP, TCP_NODELAY, 1), 0);
	ck_assert_int_eq(set_int(client, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	ck_assert_int_eq(get_int(client, SOL_SOCKET, SO_REUSEADDR), 1);
	/* The loopback device has the largest MTU that there is. */
	ck_assert_int_eq(get_int(client, IPPROTO_TCP, TCP_MAXSEG), 4096);
	ck_assert_int_eq(rfcntl(client, F_SETFD, FD_CLOEXEC), 0);
	ck_assert_int_eq(rfcntl(client, F_GETFD), FD_CLOEXEC);
	ck_fails(rfcntl(client, F_DUPFD, 0), ENOTSUP);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}
END_TEST

static const struct ibv_path_data asked = {
	.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
	.path = {.mtu = IBV_MTU_512, .tclass = 0x20},
};

static struct ibv_path_data get_route(int fd, socklen_t expected)
{
	struct ibv_path_data got[2] = {};
	socklen_t length = sizeof(got);

	ck_assert_int_eq(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, got, &length), 0);
	ck_assert_uint_eq(length, expected);
	return got[0];
}

static int set_route(int fd, socklen_t length)
{
	return rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &asked, length);
}

/* A path is asked for before the connection is made, and is the one that it has then. */
START_TEST(route)
{
	int client = open_stream(), listener, server;
	uint8_t data[8 * 512]; /* packets that are full */
	struct ibv_path_data got;
	uint16_t port;

	get_route(client, 0);
	ck_assert_int_eq(set_route(client, sizeof(asked)), 0);
	got = get_route(client, sizeof(asked));
	ck_assert_mem_eq(&got, &asked, sizeof(asked));
	listener = open_listener(&port);
	connect_to(listener, port, client, &server);
	got = get_route(client, sizeof(asked));
	ck_assert_uint_eq(got.flags, asked.flags);
	ck_assert_uint_eq(got.path.mtu & 0x3f, IBV_MTU_512);
	ck_assert_uint_eq(got.path.tclass, 0x20);
	get_route(server, sizeof(asked));
	ck_assert_int_eq(get_int(client, IPPROTO_TCP, TCP_MAXSEG), 512);
	ck_assert_int_eq(get_int(server, IPPROTO_TCP, TCP_MAXSEG), 512);
	fill(data, sizeof(data), 1);
	send_all(client, data, sizeof(data));
	memset(data, 0, sizeof(data));
	receive_all(server, data, sizeof(data));
	check_filled(data, sizeof(data), 1);
	ck_fails(set_route(client, sizeof(asked)), EINVAL);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

START_TEST(bad_routes)
{
	const struct ibv_path_data not_primary = {};
	socklen_t length = sizeof(asked) - 1;
	struct ibv_path_data got;
	int fd = open_stream();

	ck_fails(set_route(fd, 0), EINVAL);
	ck_fails(set_route(fd, sizeof(asked) - 1), EINVAL);
	ck_fails(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, NULL, sizeof(asked)), EFAULT);
	ck_fails(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &got, &length), EINVAL);
	ck_fails(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &got, NULL), EFAULT);
	ck_assert_int_eq(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &not_primary, sizeof(asked)), 0);
	ck_fails(rconnect(fd, socket_address(NULL, 7471), sizeof(struct sockaddr_in)), EINVAL);
	ck_assert_int_eq(rclose(fd), 0);
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	ck_fails(set_route(fd, sizeof(asked)), ENOTSUP);
	length = sizeof(got);
	ck_fails(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &got, &length), ENOTSUP);
	ck_assert_int_eq(rclose(fd), 0);
}
END_TEST

/* A thread that the application knows nothing of doesn't get its signals. */
static void check_signals(void)
{
	sigset_t signals, pending, before;
	int number;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	must(pthread_sigmask(SIG_BLOCK, &signals, &before) == 0);
	must(kill(getpid(), SIGUSR1) == 0);
	must(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
	must(sigwait(&signals, &number) == 0);
	must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

/* How many messages have taken a receive, of all streams. */
static uint64_t messages(void)
{
	struct urxe_counter counters[64];
	int count = urxe_counters("urxe0", counters, 64);

	for (int i = 0; i < count; i++) {
		if (strcmp(counters[i].name, "rdma_recvs") == 0)
			return counters[i].value;
	}
	ck_abort_msg("there is no rdma_recvs");
}

static void await_keepalives(uint64_t number)
{
	uint64_t before = messages();

	while (messages() - before < number)
		usleep(10000);
}

/* A message without data every second: the peer's application sees nothing of it. */
static void keep_alive(int first, int second)
{
	const int names[] = {first, second};
	int client, server;
	char byte;

	open_streams(&client, &server);
	settle(client, server);
	for (int i = 0; i < 2; i++) {
		int level = names[i] == SO_KEEPALIVE ? SOL_SOCKET : IPPROTO_TCP;

		ck_assert_int_eq(set_int(client, level, names[i], 1), 0);
	}
	ck_assert_int_eq(get_int(client, SOL_SOCKET, SO_KEEPALIVE), 1);
	await_keepalives(2);
	check_signals();
	ck_fails(rrecv(server, &byte, 1, MSG_DONTWAIT), EAGAIN);
	ck_assert_int_eq(set_int(client, SOL_SOCKET, SO_KEEPALIVE, 0), 0);
	send_all(client, "a", 1);
	receive_all(server, &byte, 1);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
}

START_TEST(kept_alive)
{
	keep_alive(TCP_KEEPIDLE, SO_KEEPALIVE);
}
END_TEST

/* The time counts from when it is given. */
START_TEST(kept_alive_more_often)
{
	keep_alive(SO_KEEPALIVE, TCP_KEEPIDLE);
	usleep(1200000); /* the thread that did it looks each second whether it is needed */
	keep_alive(SO_KEEPALIVE, TCP_KEEPIDLE);
}
END_TEST

/* What is accepted has its listener's options, and does what they say. */
START_TEST(accepted_kept_alive)
{
	int client = open_stream(), listener, server;
	uint16_t port;

	listener = open_listener(&port);
	ck_assert_int_eq(set_int(listener, IPPROTO_TCP, TCP_KEEPIDLE, 1), 0);
	ck_assert_int_eq(set_int(listener, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	connect_to(listener, port, client, &server);
	ck_assert_int_eq(get_int(server, SOL_SOCKET, SO_KEEPALIVE), 1);
	ck_assert_int_eq(get_int(client, SOL_SOCKET, SO_KEEPALIVE), 0);
	settle(client, server);
	await_keepalives(1);
	ck_assert_int_eq(rclose(client), 0);
	ck_assert_int_eq(rclose(server), 0);
	ck_assert_int_eq(rclose(listener), 0);
}
END_TEST

int main(void)
{
	const TTest *const all[] = {
		options,    options_of_bound, one_version_only,	     options_too_late,	  route,
		bad_routes, kept_alive,	      kept_alive_more_often, accepted_kept_alive,
	};

	return run_rsocket_tests("rsocket_options", NULL, NULL, all, sizeof(all) / sizeof(*all));
}
