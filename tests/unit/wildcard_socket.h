/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket that has RoCE's port everywhere, as Linux rxe has one, beside those of urxe: for what
 * comes to an address these share the port with their user's sockets (SO_REUSEPORT), for a group's
 * with all (SO_REUSEADDR), and other tests may run meanwhile.
 */
#ifndef URXE_TESTS_UNIT_WILDCARD_SOCKET_H
#define URXE_TESTS_UNIT_WILDCARD_SOCKET_H

#include <check.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "net/wire/wire.h"

static inline int wildcard_socket(void)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
					 .sin_port = htons(ROCE_V2_UDP_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

#endif
