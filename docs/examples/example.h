/* SPDX-License-Identifier: BSD-2-Clause */
/* What the examples share: how they give up, and TCP for what two sides tell each other first. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A program of yours will do better than ending; but each call can fail, and must be looked at.
 * The call is made in here, so that the errno which is printed is its own.
 */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,         \
				errno ? strerror(errno) : "failed");                               \
			exit(EXIT_FAILURE);                                                        \
		}                                                                                  \
	} while (0)

/* Without @host: wait for a connection to @port. */
static inline int connect_tcp(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE},
			*info;
	int fd, connection, on = 1;

	CHECK(getaddrinfo(host, port, &hints, &info) == 0);
	CHECK((fd = socket(info->ai_family, info->ai_socktype, 0)) >= 0);
	if (host) {
		CHECK(connect(fd, info->ai_addr, info->ai_addrlen) == 0);
		connection = fd;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		CHECK(bind(fd, info->ai_addr, info->ai_addrlen) == 0);
		CHECK(listen(fd, 1) == 0);
		CHECK((connection = accept(fd, NULL, NULL)) >= 0);
		close(fd);
	}
	freeaddrinfo(info);
	return connection;
}

/* Send ours, get theirs. Also a way to wait until the other side is here, too. */
static inline void exchange(int tcp, const void *ours, void *theirs, size_t size)
{
	CHECK(write(tcp, ours, size) == (ssize_t)size);
	CHECK(recv(tcp, theirs, size, MSG_WAITALL) == (ssize_t)size);
}

static inline void wait_for_peer(int tcp)
{
	char ours = 0, theirs;

	exchange(tcp, &ours, &theirs, 1);
}

#endif
