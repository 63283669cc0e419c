/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How full the socket of a receiver on this host is, by asking the kernel
 * (net/udp/sock_diag.h). Called by net/udp/udp to pace what no acknowledgement paces, and to tell a
 * process that doesn't read from packets that were lost; by net/udp/udp_splice to see what was
 * read. Thread-safe: one lock.
 */
#ifndef URXE_NET_BACKLOG_H
#define URXE_NET_BACKLOG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define BACKLOG_UNKNOWN UINT32_MAX

/*
 * The kernel charges a datagram's memory, not its length: about 8.5 KB for 4 KiB
 * in a datagram of its own, 4.2 KB in a super-packet. Small datagrams cost more
 * (832 bytes for 40), but then a window counts packets long before bytes.
 */
#define BACKLOG_CHARGE 4

struct backlog;
struct sock_diag;

/* Returns NULL without memory. @diag stays the caller's. */
struct backlog *backlog_create(struct sock_diag *diag);
void backlog_destroy(struct backlog *backlog);

/*
 * A receiver's: at @gid:4791; of several that share the port, the one with @cookie (SO_COOKIE), if
 * that isn't 0. @interface: by which it is sent to, if @gid is a link-local address.
 */
struct backlog_socket {
	const union ibv_gid *gid;
	unsigned int interface;
	uint64_t cookie;
};

/*
 * Payload bytes that @socket surely takes. BACKLOG_UNKNOWN if there is none here, or none to be
 * found.
 */
uint32_t backlog_rcvbuf_space(struct backlog *backlog, const struct backlog_socket *socket);

/*
 * What waits in that socket to be read, in the kernel's accounting; 0, too, if that isn't known.
 * *@read: by how much it was seen to have become less, in all, from one call to the next. What came
 * and was read in between isn't in it: it has been read no less than that.
 */
uint32_t backlog_unread(struct backlog *backlog, const struct backlog_socket *socket,
			uint64_t *read);

/* The same in *@unread alone. Returns false if it isn't known. */
bool backlog_received(struct backlog *backlog, const struct backlog_socket *socket,
		      uint32_t *unread);

#endif
