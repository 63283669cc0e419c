/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/rsockets.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

socklen_t address_length(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

int open_stream(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP);

	must(fd >= 0);
	return fd;
}

int get_int(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	must(rgetsockopt(fd, level, name, &value, &length) == 0);
	must(length == sizeof(value));
	return value;
}

int set_int(int fd, int level, int name, int value)
{
	return rsetsockopt(fd, level, name, &value, sizeof(value));
}

int open_bound(int type, uint16_t *port)
{
	const struct sockaddr *address = socket_address(NULL, 0);
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	int fd = rsocket(address->sa_family, type, 0);

	must(fd >= 0);
	must(rbind(fd, address, address_length(address)) == 0);
	must(rgetsockname(fd, (struct sockaddr *)&name, &length) == 0);
	*port = ntohs(((struct sockaddr_in *)&name)->sin_port);
	must(*port != 0);
	return fd;
}

int open_listener(uint16_t *port)
{
	int fd = open_bound(SOCK_STREAM, port);

	must(rlisten(fd, 16) == 0);
	return fd;
}

short wait_for(int fd, short events)
{
	struct pollfd poll = {.fd = fd, .events = events};

	must(rpoll(&poll, 1, PATIENCE) == 1);
	return poll.revents;
}

void connect_to(int listener, uint16_t port, int client, int *server)
{
	const struct sockaddr *address = socket_address(NULL, port);
	struct pollfd polls[2] = {{.fd = listener, .events = POLLIN},
				  {.fd = client, .events = POLLOUT}};

	must(rfcntl(client, F_SETFL, O_NONBLOCK) == 0);
	must(rconnect(client, address, address_length(address)) == -1 && errno == EINPROGRESS);
	*server = -1;
	/* The client's part is done by calls with it, and this is the thread that makes them. */
	while (*server < 0 || !(polls[1].revents & POLLOUT)) {
		must(rpoll(polls, 2, PATIENCE) > 0);
		if (polls[0].revents)
			*server = raccept(listener, NULL, NULL);
	}
	must(polls[1].revents == POLLOUT);
	must(rfcntl(client, F_SETFL, 0) == 0);
}

void open_streams(int *client, int *server)
{
	uint16_t port;
	int listener = open_listener(&port);

	*client = rsocket(socket_address(NULL, 0)->sa_family, SOCK_STREAM, 0);
	must(*client >= 0);
	connect_to(listener, port, *client, server);
	must(rclose(listener) == 0);
}

void settle(int client, int server)
{
	char byte;

	send_all(client, "a", 1);
	receive_all(server, &byte, 1);
	send_all(server, "b", 1);
	receive_all(client, &byte, 1);
}

int open_bound_datagrams(struct sockaddr_in *name)
{
	socklen_t length = sizeof(*name);
	uint16_t port;
	int fd = open_bound(SOCK_DGRAM, &port);

	must(rgetsockname(fd, (struct sockaddr *)name, &length) == 0);
	return fd;
}

ssize_t send_to(int fd, const struct sockaddr_in *to, const void *data, size_t length)
{
	return rsendto(fd, data, length, 0, (const struct sockaddr *)to, sizeof(*to));
}

ssize_t receive_from(int fd, const struct sockaddr_in *from, void *data, size_t length)
{
	struct sockaddr_in source = {};
	socklen_t source_length = sizeof(source);
	ssize_t received =
		rrecvfrom(fd, data, length, 0, (struct sockaddr *)&source, &source_length);

	must(source_length == sizeof(source));
	must(source.sin_port == from->sin_port);
	must(source.sin_addr.s_addr == from->sin_addr.s_addr);
	return received;
}

#define SPIN 20000 /* us: many times as long as a call polls before it sleeps */

pthread_t start_unwoken(void *(*call)(void *), void *argument, const _Atomic pid_t *tid)
{
	const struct rlimit before = allow_no_descriptors();
	pthread_t thread;

	must(pthread_create(&thread, NULL, call, argument) == 0);
	while (!*tid)
		usleep(1000);
	usleep(SPIN);
	must(setrlimit(RLIMIT_NOFILE, &before) == 0);
	wait_until_asleep(tid);
	return thread;
}

void send_all(int fd, const void *data, size_t length)
{
	must(rsend(fd, data, length, 0) == (ssize_t)length);
}

void receive_all(int fd, void *data, size_t length)
{
	must(rrecv(fd, data, length, MSG_WAITALL) == (ssize_t)length);
}

void fill(uint8_t *data, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (i >> 8) * 31 + i * 7 + seed;
}

void check_filled(const uint8_t *data, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		must(data[i] == (uint8_t)((i >> 8) * 31 + i * 7 + seed));
}

int run_rsocket_tests(const char *name, void (*setup)(void), void (*teardown)(void),
		      const TTest *const *all, size_t count)
{
	Suite *suite = suite_create(name);
	TCase *tests = tcase_create(name);

	fixture_environment();
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, setup, teardown);
	for (size_t i = 0; i < count; i++)
		tcase_add_test(tests, all[i]);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
