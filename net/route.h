/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's routing says of a destination. To connect a datagram socket asks it, and sends
 * nothing.
 *
 * Called by verbs/host.c for the core, by verbs/rdma and by verbs/rsocket. No state, no locks.
 */
#ifndef URXE_NET_ROUTE_H
#define URXE_NET_ROUTE_H

#include <stdint.h>
#include <sys/socket.h>

/*
 * From where packets of RoCE leave to @destination, of IPv4 or IPv6, and how long they may be, as
 * far as the kernel knows. *@source becomes the one, unless it is an address already, from which
 * they are to leave; *@mtu the other, unless that is NULL. Returns 0, or an errno of socket(2),
 * bind(2) or connect(2).
 */
int route_ask(const struct sockaddr *destination, struct sockaddr_storage *source, uint32_t *mtu);

#endif
