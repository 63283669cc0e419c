/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel knows of the UDP sockets of this host's network namespace
 * (NETLINK_SOCK_DIAG, as ss(8) asks it; needs no privilege). Called by the other files
 * of net/udp. Thread-safe: one lock, under which a request gets its answer.
 */
#ifndef URXE_NET_SOCK_DIAG_H
#define URXE_NET_SOCK_DIAG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct sock_diag;

struct sock_diag_socket {
	uint64_t cookie;	 /* SO_COOKIE */
	uint32_t uid;		 /* that made it */
	uint32_t receive_buffer; /* SO_RCVBUF and what is charged to it, */
	uint32_t received;	 /* both 0 where the kernel doesn't say */
	bool wildcard;		 /* bound to no address */
};

/* Returns 0, or an errno: where the kernel lacks the interface, or what it takes for UDP, too. */
int sock_diag_create(struct sock_diag **created);
void sock_diag_destroy(struct sock_diag *diag);
/* Whether its descriptor still is ours (net/descriptor.h); if not, it knows nothing any more. */
bool sock_diag_verify(struct sock_diag *diag);

/*
 * The socket that would get a datagram for @local and @port from @remote (NULL: any address) and
 * @remote_port, which comes in by @interface: a link-local address needs it, others may have 0.
 * Returns 0, ENOENT when there is none, or another errno when the kernel doesn't answer.
 */
int sock_diag_find(struct sock_diag *diag, const union ibv_gid *local, uint16_t port,
		   const union ibv_gid *remote, uint16_t remote_port, unsigned int interface,
		   struct sock_diag_socket *found);

#endif
