/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What udp_send.c sends with one system call: datagrams of one packet, or super-packets, copied to
 * where they are all one piece, and sealed there. To copy what the kernel copies once more is
 * cheaper than to have it gather headers, payload and trailer of each packet: with that, a raw
 * stream of packets of 4 KiB is a fifth slower, of 1 KiB half as fast. And the application may
 * change its memory meanwhile: the ICRC is that of what is sent. Large super-packets may be made in
 * pages that are spliced (udp_splice.h).
 *
 * A batch is one thread's; with a connection, that one's lock is held.
 */
#ifndef URXE_NET_UDP_BATCH_H
#define URXE_NET_UDP_BATCH_H

#include <sys/socket.h>

#include "net/cache_line.h"
#include "net/tuning.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"

#define BATCH_DATAGRAMS 16
_Static_assert(SEND_BYTES >= LINK_TRAIN_BYTES, "any datagram");

/* A datagram: one packet, or a super-packet of several. */
struct datagram {
	struct link_packet *packets;
	unsigned int count;
	uint16_t ip_id; /* of the first */
	bool spliced;	/* its bytes are in pages (net/udp/udp_splice.h), and its message isn't sent
			 */
	uint8_t *bytes;
	struct iovec vector; /* of its message: all of @bytes */
	struct sockaddr_storage destination;
	uint8_t control[3 * CMSG_SPACE(sizeof(int))]
		__attribute__((aligned(__alignof__(struct cmsghdr))));
};

/*
 * Datagrams that leave through one socket with one system call. Too much for the
 * stack: a sending thread has one from the link's pool.
 */
struct batch {
	struct icrc_flows flows; /* of the batches before, too */
	struct udp_link *link;
	const struct path *path; /* that the latest packets take, or NULL */
	struct udp_address *address;
	struct udp_connection *connection; /* or NULL: through the address's own socket */
	unsigned int datagrams;
	unsigned int refused; /* packets, of all that the caller of udp_send() passed */
	uint64_t now;
	struct mmsghdr messages[BATCH_DATAGRAMS];
	struct datagram datagram[BATCH_DATAGRAMS];
	uint32_t used; /* of @bytes; what is beyond isn't touched */
	uint8_t bytes[SEND_BYTES] __attribute__((aligned(CACHE_LINE)));
};
_Static_assert(offsetof(struct batch, flows) + sizeof(struct icrc_flows) <= POOL_ZEROS,
	       "what stays from one call to the next");

/*
 * Add a datagram of @count packets of one path and, but for the last, one length; there is space
 * (batch_has_space()). Returns false when their memory can't be read: they are lost.
 */
bool batch_append(struct batch *batch, struct link_packet *packets, unsigned int count);
bool batch_has_space(const struct batch *batch, const struct link_packet *packets,
		     unsigned int count);

/*
 * Have @message send @count packets of @datagram, which has @message, from @first on, as a datagram
 * of their own from the address's own socket, as that numbers them. One after the other: bytes and
 * vector are those of the datagram.
 */
void batch_part(struct batch *batch, struct datagram *datagram, unsigned int first,
		unsigned int count, struct msghdr *message);

/* Nothing is in it any more. */
void batch_clear(struct batch *batch);

#endif
