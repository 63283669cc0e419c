/* SPDX-License-Identifier: BSD-2-Clause */
/* What the raw programs need: connected sockets on loopback, a partner, CPUs, and the clock. */
#ifndef URXE_TESTS_BENCH_LOOPBACK_H
#define URXE_TESTS_BENCH_LOOPBACK_H

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline int checked(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Of @type, bound to a port of its own, with as much buffer as an ordinary user may get. */
static inline int bound_socket(int type, struct sockaddr_in *address)
{
	int fd = checked(socket(AF_INET, type, 0), "socket"), size = 4 << 20;
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (type == SOCK_DGRAM) /* TCP sizes its own */
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	checked(bind(fd, (struct sockaddr *)address, length), "bind");
	checked(getsockname(fd, (struct sockaddr *)address, &length), "getsockname");
	return fd;
}

/* Two datagram sockets, each connected to the other. */
static inline void udp_pair(int fds[2])
{
	struct sockaddr_in address[2];

	for (int i = 0; i < 2; i++)
		fds[i] = bound_socket(SOCK_DGRAM, &address[i]);
	for (int i = 0; i < 2; i++)
		checked(connect(fds[i], (struct sockaddr *)&address[!i], sizeof(address[0])),
			"connect");
}

/* Both ends of a connection. */
static inline void tcp_pair(int fds[2])
{
	struct sockaddr_in address;
	int listener = bound_socket(SOCK_STREAM, &address), on = 1;

	checked(listen(listener, 1), "listen");
	fds[0] = checked(socket(AF_INET, SOCK_STREAM, 0), "socket");
	checked(connect(fds[0], (struct sockaddr *)&address, sizeof(address)), "connect");
	fds[1] = checked(accept(listener, NULL, NULL), "accept");
	close(listener);
	for (int i = 0; i < 2; i++)
		checked(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)),
			"TCP_NODELAY");
}

/* A child that doesn't outlive its parent. */
static inline pid_t fork_partner(void)
{
	pid_t child = checked(fork(), "fork");

	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

static inline void end_partner(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Bind this process to the @number-th of the CPUs that it may use. */
static inline void pin_to_cpu(int number)
{
	cpu_set_t usable, one;

	checked(sched_getaffinity(0, sizeof(usable), &usable), "sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &usable) || number-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		checked(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
		return;
	}
}

/* For qsort(). */
static inline int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

#endif
