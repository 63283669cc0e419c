/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBA 7.8.1, Annex A17.3.3): CRC-32 over a masked
 * IP header, UDP header, BTH and the rest. Called by links to seal what they
 * send, and by the core to check what it receives. No state, no locks.
 */
#ifndef URXE_NET_ICRC_H
#define URXE_NET_ICRC_H

#include "net/link.h"

/* What the packets of one flow and one length have in common. */
struct icrc_flow {
	union ibv_gid source, destination;
	uint16_t source_port;
	bool ipv4;
	uint32_t length; /* of the UDP payload */
	uint32_t crc;
};

void icrc_flow_init(struct icrc_flow *flow, const union ibv_gid *source,
		    const union ibv_gid *destination, uint16_t source_port, uint32_t length);

/* How a sender numbers its packets (the identification of IPv4), which the ICRC covers. */
struct icrc_numbering {
	union ibv_gid source;
	uint16_t source_port;
	uint16_t last; /* of the first packet of its latest super-packet */
	uint16_t step; /* to the first of the next one: 0, or 1 */
};

#define ICRC_FLOWS 8
#define ICRC_SENDERS 4

/*
 * A cache of the flows and senders that were met lately, each in a place that follows from what it
 * is; zeros: none yet. In a ping-pong messages and acknowledgements alternate, and to compute what
 * the packets of a flow have in common takes longer than the rest of their ICRCs. For one thread
 * at a time.
 */
struct icrc_flows {
	struct icrc_flow flow[ICRC_FLOWS];
	struct icrc_numbering sender[ICRC_SENDERS]; /* of packets that were checked */
};

/* Stays as it is until the next call with these @flows. */
const struct icrc_flow *icrc_flow(struct icrc_flows *flows, const union ibv_gid *source,
				  const union ibv_gid *destination, uint16_t source_port,
				  uint32_t length);

/*
 * Compute the ICRC of @packet as it will leave from @source_port with IPv4
 * identification @ip_id (don't-fragment set; ignored for IPv6), write it to the
 * end of the trailer, and apply packet->corrupt_bit. False when the payload can't be read
 * any more (net/guard.h).
 */
bool icrc_seal(struct link_packet *packet, uint16_t source_port, uint16_t ip_id);

/*
 * The same for one packet of many, @flow being its flow, and for what is sent of it, a linear
 * @copy; and for @length bytes from the BTH to the end of the ICRC, of which there is nothing else.
 * Returns the ICRC as on the wire.
 */
void icrc_seal_copy(struct link_packet *packet, const struct icrc_flow *flow, uint16_t ip_id,
		    uint8_t *copy);
uint32_t icrc_seal_bytes(const struct icrc_flow *flow, uint16_t ip_id, uint8_t *bth,
			 uint32_t length);

/*
 * Check the ICRC at the end of @frame. The IPv4 identification is covered by it
 * but invisible to a UDP socket: if it isn't frame->ip_id (0, where that is unknown), it is
 * solved for (CRC is linear: at most one 16-bit value fits). On success frame->ip_id is
 * the identification that was found. Returns whether the frame is intact.
 */
bool icrc_check(struct link_frame *frame);

/*
 * The same for one frame of many: frame->ip_id is its place in its super-packet, and is counted
 * from the identification that its sender is likely to have begun with.
 */
bool icrc_check_flow(struct link_frame *frame, struct icrc_flows *flows);

/* A bit to corrupt that is to be noticed, among @length bytes from the BTH on. */
uint32_t icrc_covered_bit(uint64_t *random, uint32_t length);

#endif
