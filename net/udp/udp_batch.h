/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What udp_send.c sends with one system call: datagrams of one packet, or super-packets, built and
 * sealed. Payload is gathered from where it is, the application's memory; between two payloads the
 * trailer of one packet and the headers of the next are one vector. Small packets are copied, and
 * large super-packets that are to be spliced (udp_splice.h).
 *
 * A batch is one thread's; with a connection, that one's lock is held.
 */
#ifndef URXE_NET_UDP_BATCH_H
#define URXE_NET_UDP_BATCH_H

#include <sys/socket.h>

#include "net/tuning.h"
#include "net/udp/udp_link.h"
#include "net/wire/icrc.h"

#define BATCH_DATAGRAMS 16
#define BATCH_VECTORS 512
#define BATCH_LINEAR (LINK_TRAIN_PACKETS * SEND_BOUNCE_MAX)
#define FRAME_MAX (WIRE_HEADERS_MAX + sizeof(((struct link_packet *)NULL)->trailer))
/* Two vectors a gathered packet at the least, and one that is sent on its own after all. */
#define BATCH_FRAMES ((BATCH_VECTORS / 2 + 1) * FRAME_MAX)
_Static_assert(BATCH_LINEAR >= LINK_TRAIN_BYTES, "copied packets, whatever their length");

/* A datagram: one packet, or a super-packet of several. */
struct datagram {
	struct link_packet *packets;
	unsigned int count;
	uint16_t ip_id; /* of the first */
	uint8_t *pages; /* to be spliced (net/udp/udp_splice.h), or NULL: its message is to be sent
			 */
	uint32_t length;
	struct sockaddr_storage destination;
	uint8_t control[3 * CMSG_SPACE(sizeof(int))]
		__attribute__((aligned(__alignof__(struct cmsghdr))));
};

/* Bytes of a batch's memory that are taken. */
struct batch_used {
	uint32_t linear, frames;
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
	unsigned int vectors_used;
	unsigned int refused; /* packets, of all that the caller of udp_send() passed */
	uint64_t now;
	struct mmsghdr messages[BATCH_DATAGRAMS];
	struct datagram datagram[BATCH_DATAGRAMS];
	struct iovec vectors[BATCH_VECTORS];
	struct iovec singly[BATCH_VECTORS]; /* of a packet that is sent on its own */
	/*
	 * The bounce buffer: packets up to @linear_max, copied, which is cheaper than two vectors
	 * each for the kernel to follow; and those that are to be copied at any length. Memory
	 * beyond @used.linear isn't touched.
	 */
	struct batch_used used;
	uint32_t linear_max;
	uint8_t linear[BATCH_LINEAR];
	/* Headers and trailers of packets whose payload is gathered, one after the other. */
	uint8_t frames[BATCH_FRAMES];
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

/* How many vectors it takes to gather them. */
unsigned int batch_vectors(const struct link_packet *packets, unsigned int count);

/* Have @message send a single packet from the address's own socket. False: as above. */
bool batch_single(struct batch *batch, struct link_packet *packet, struct msghdr *message);

/* Nothing is in it any more. */
void batch_clear(struct batch *batch);

#endif
