/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large super-packets to a destination on this machine, without the kernel's copy: they are made
 * in pages that splice() hands to a connected socket, and the loopback device hands on to the
 * receiver.
 *
 * A super-packet has a block of pages to itself, and blocks are written one after the other, again
 * and again: each only when the receiver has read what was in it, which the kernel tells by how
 * much its socket holds. Where it hasn't, and where the kernel can't do it or has a queue before
 * that socket, super-packets are sent in the ordinary way; and where that is faster (net/choice.h):
 * it takes fewer system calls, and the kernel copies to pages that the sender's CPU freed last,
 * which are in its cache, while blocks take turns.
 *
 * Called by net/udp/udp_batch.c and udp_send.c with the lock of the connection that it belongs to,
 * and by udp_connection.c for its life.
 */
#ifndef URXE_NET_UDP_SPLICE_H
#define URXE_NET_UDP_SPLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/choice.h"
#include "net/descriptor.h"
#include "net/link.h"
#include "net/tuning.h"

struct udp_address;
struct udp_link;
struct udp_connection;

struct udp_splice {
	uint8_t *blocks; /* UDP_SPLICE_BLOCKS; NULL: there are none yet */
	/*
	 * Super-packets are numbered as they are sent, and number n is in block n modulo
	 * UDP_SPLICE_BLOCKS. Those from @oldest on may be unread.
	 */
	uint32_t oldest, next;
	uint32_t lengths[UDP_SPLICE_BLOCKS];
	uint32_t bytes;		  /* the sum of their lengths */
	uint32_t pauses;	  /* super-packets until it is looked again what was read */
	uint64_t cookie;	  /* of the receiver's socket that the latest ones were for */
	uint64_t passed_over;	  /* bytes for other sockets since then */
	bool refused;		  /* by the kernel, for good */
	struct choice stores;	  /* how the blocks are written */
	struct choice pays;	  /* whether they are used */
	struct choice_block span; /* super-packets of one way, of which so many bytes were sent: */
	uint32_t span_bytes;
	int pipe; /* both of its ends */
	struct descriptor_identity identity;
};

void udp_splice_init(struct udp_splice *splice);
void udp_splice_destroy(struct udp_splice *splice);
/* Whether its descriptor is ours (net/descriptor.h). */
bool udp_splice_verify(struct udp_splice *splice);
void udp_splice_after_fork_child(struct udp_splice *splice);

/*
 * Where to make a super-packet of @length bytes from @address for @qpn, or NULL: it isn't to be
 * spliced. The next one is made there, too, unless this one is sent.
 */
uint8_t *udp_splice_place(struct udp_link *link, const struct udp_address *address,
			  struct udp_connection *connection, uint32_t length, uint32_t qpn);

/*
 * Send it, from @place; then the next one has another. Returns 1, or -1 with errno, as sendmmsg()
 * would. *@earlier: what ICMP has brought of an earlier datagram, or 0.
 */
int udp_splice_send(struct udp_connection *connection, uint8_t *place, uint32_t length,
		    uint16_t segment_length, int *earlier);

#endif
