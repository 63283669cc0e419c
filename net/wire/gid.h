/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GIDs and IP addresses: a GID of RoCE v2 is an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d
 * (Annex A17.3.2). Called by all layers. No state, no locks.
 */
#ifndef URXE_NET_GID_H
#define URXE_NET_GID_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

bool gid_is_ipv4(const union ibv_gid *gid);
bool gid_is_multicast(const union ibv_gid *gid);
bool gid_is_loopback(const union ibv_gid *gid);	   /* 127.0.0.0/8 or ::1 */
bool gid_is_unspecified(const union ibv_gid *gid); /* :: or ::ffff:0.0.0.0 */
/* Several times a packet: a call of memcmp() would be most of it. */
static inline bool gid_equal(const union ibv_gid *a, const union ibv_gid *b)
{
	return a->global.subnet_prefix == b->global.subnet_prefix &&
	       a->global.interface_id == b->global.interface_id;
}

void gid_from_ipv4(union ibv_gid *gid, const struct in_addr *address);
/* Of the sockaddr of IPv4 or IPv6; 0: it is another family. */
socklen_t ip_sockaddr_length(int family);
/* Returns the length of the sockaddr written to @address. */
socklen_t gid_to_sockaddr(const union ibv_gid *gid, uint16_t port,
			  struct sockaddr_storage *address);
/* The same on an interface, which counts for link-local addresses alone. */
socklen_t gid_to_scoped_sockaddr(const union ibv_gid *gid, uint16_t port, unsigned int ifindex,
				 struct sockaddr_storage *address);
void gid_from_sockaddr(union ibv_gid *gid, const struct sockaddr *address);
/* Returns 0, or EINVAL for something that is no IP address. */
int gid_from_text(union ibv_gid *gid, const char *text);
/* The textual IP address, in @text of at least INET6_ADDRSTRLEN bytes. Returns @text. */
const char *gid_to_text(const union ibv_gid *gid, char *text);

#endif
