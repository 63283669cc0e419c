/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP whose peer is the test itself, packet by packet: what a well-behaved
 * requester or responder never sends can be sent, and every packet that the
 * QP sends can be seen.
 */
#ifndef URXE_TESTS_SIM_PEER_H
#define URXE_TESTS_SIM_PEER_H

#include "world.h"

#define PEER_QPN 0x4711
#define PEER_MEMORY 65536
#define PEER_MTU 1024 /* world_connection.mtu */

#define FIRST_PSN (world_connection.psn)

/* The beginning of a struct peer_packet. */
#define RC(operation) .opcode = WIRE_RC | (operation)

struct peer {
	struct world world;
	struct node *node;
	struct qp *qp;
	uint8_t *memory; /* the node's */
	struct mr *mr;
	struct xrcd *xrcd; /* XRC_RECV; then srq is of XRC */
	struct srq *srq;   /* or NULL */

	struct link *link;
	struct path path;
	uint32_t psn;			/* of the next request from the peer */
	uint8_t bytes[WIRE_PACKET_MAX]; /* of the packet seen last */
	uint8_t traffic_class;		/* likewise */
	union ibv_gid from, to;		/* likewise */
};

void peer_create(struct peer *peer, enum ibv_qp_type type, const struct connection *c);
/* The same with another device state: an SRQ, or max_dest_rd_atomic and so on in @c. */
void peer_create_srq(struct peer *peer, enum ibv_qp_type type, const struct connection *c,
		     uint32_t entries);
void peer_destroy(struct peer *peer);
/* The QP from RESET to RTS, as it was created. */
void peer_connect(struct peer *peer, const struct connection *c);

/* A packet in host order; what isn't set is 0, and headers that the opcode lacks are left out. */
struct peer_packet {
	uint8_t opcode;
	uint32_t psn;
	bool no_ack_request, solicited, migrated, bad_icrc;
	uint32_t length; /* of the payload: bytes 0, 1, 2, ... */
	const void *payload;
	bool unpadded;		 /* no pad, although the length asks for one */
	uint8_t padding;	 /* more of it; 3 at the most in all */
	uint8_t version;	 /* of the transport */
	uint16_t pkey;		 /* 0: the default */
	uint32_t qpn;		 /* 0: the QP's */
	uint32_t srqn;		 /* 0: that of the peer's SRQ */
	const struct path *path; /* NULL: the peer's */

	uint64_t va;
	uint32_t rkey, dma_length;
	uint32_t feth;
	uint64_t swap_or_add, compare;
	uint32_t qkey, source_qp;
	uint32_t immediate, invalidate;
	uint8_t syndrome;
	uint32_t msn;
	uint64_t original;
};

/* Put it on the wire; several arrive together until the world runs. */
void peer_send(struct peer *peer, const struct peer_packet *packet);

/* The next packet that the QP sent; fails the test when there is none by now + 10 us. */
struct packet peer_see(struct peer *peer);
/* The same within @limit, a hundredth of it exact. False: there was none. */
bool peer_wait(struct peer *peer, struct packet *packet, uint64_t limit);
void peer_see_none(struct peer *peer, uint64_t limit);
/* It must be of the opcode with this name. */
struct packet peer_see_op(struct peer *peer, const char *name);
/* It must be a bare acknowledgement. */
void peer_see_ack(struct peer *peer, uint32_t psn, uint8_t syndrome);

/* Requests of the QP to the peer, and its receives (or its SRQ's), from the start of its memory. */
void peer_flush(struct peer *peer, uint8_t selectivity, uint32_t length, uint64_t id);
void peer_post(struct peer *peer, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id);
void peer_receive(struct peer *peer, uint32_t length, uint64_t id);

/* --- the peer of a requester ------------------------------------------------------------ */

/* A QP of RC with three receives, whose ids are 100 to 102. */
void peer_create_requester(struct peer *peer, const struct connection *c);
/* The peer answers. */
void peer_respond(struct peer *peer, uint8_t operation, uint32_t psn, uint8_t syndrome,
		  uint32_t length);
void peer_acknowledge(struct peer *peer, uint32_t psn, uint8_t syndrome);
/* The QP sends @count packets, with PSNs from @psn on. */
void peer_see_requests(struct peer *peer, uint32_t psn, uint32_t count);
/*
 * Of the requests @first to @count - 1 the oldest ends with @status; the rest and the receives are
 * flushed; all is over.
 */
void peer_expect_failure(struct peer *peer, uint64_t first, uint64_t count,
			 enum ibv_wc_status status);

#endif
