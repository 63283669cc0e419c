/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected UDP sockets on loopback, and the clock: what both measurements need. */
#ifndef URXE_TESTS_BENCH_LOOPBACK_H
#define URXE_TESTS_BENCH_LOOPBACK_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline int must(int result, const char *what)
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

static inline int bound_socket(struct sockaddr_in *address)
{
	int fd = must(socket(AF_INET, SOCK_DGRAM, 0), "socket"), size = 4 << 20;
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	must(bind(fd, (struct sockaddr *)address, length), "bind");
	must(getsockname(fd, (struct sockaddr *)address, &length), "getsockname");
	return fd;
}

static inline void socket_pair(int fds[2])
{
	struct sockaddr_in address[2];

	for (int i = 0; i < 2; i++)
		fds[i] = bound_socket(&address[i]);
	for (int i = 0; i < 2; i++)
		must(connect(fds[i], (struct sockaddr *)&address[!i], sizeof(address[0])),
		     "connect");
}

/* A child that doesn't outlive its parent. */
static inline pid_t fork_partner(void)
{
	pid_t child = must(fork(), "fork");

	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

#endif
