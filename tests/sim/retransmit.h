/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of what is sent again: the test is the responder, packet by packet. */
#ifndef URXE_TESTS_SIM_RETRANSMIT_H
#define URXE_TESTS_SIM_RETRANSMIT_H

#include "emu/transport/destination.h"
#include "peer.h"

#define ACK AETH_ACK_UNLIMITED
#define NAK AETH_NAK_PSN_SEQUENCE

/* This packet comes next, and wants an answer, and then no other. */
static inline void expect_repeated(struct peer *peer, uint32_t psn)
{
	struct packet packet = peer_see(peer);

	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
	ck_assert(packet.ack_request);
	peer_see_none(peer, 20000);
}

/* Whatever comes next, until nothing does. */
static inline void see_all(struct peer *peer)
{
	struct packet packet;

	while (peer_wait(peer, &packet, 20000))
		;
}

static inline uint64_t in_flight(const struct peer *peer)
{
	return peer->qp->recovery.destination->cwnd.in_flight;
}

/* Requests 0 to @count - 1, of a packet each. */
static inline void post(struct peer *peer, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		peer_post(peer, IBV_WR_RDMA_WRITE, 8, i);
	for (uint32_t i = 0; i < count; i++)
		peer_see(peer);
}

static inline void expect_completions(struct peer *peer, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		world_expect(peer->node, i, IBV_WC_SUCCESS);
}

/* All is done, nothing counts as in flight, nothing more is sent. */
static inline void expect_end(struct peer *peer)
{
	ck_assert_uint_eq(in_flight(peer), 0);
	ck_assert_uint_eq(peer->qp->recovery.member.in_flight, 0);
	ck_assert_int_eq(peer->qp->recovery.state, RECOVERY_SENDING);
	peer_see_none(peer, SECOND);
	peer_destroy(peer);
}

/* One request, which takes @time: what is measured first. */
static inline void answer_after(struct peer *peer, uint64_t time)
{
	post(peer, 1);
	peer_see_none(peer, time);
	peer_acknowledge(peer, peer->qp->requester.psn - 1, ACK);
	expect_completions(peer, 0, 1);
}

/* A gap at @lost of five, which is filled, by a responder that keeps the others. */
static inline void keep_behind(struct peer *peer, uint32_t lost)
{
	uint32_t psn = peer->qp->requester.psn;

	post(peer, 5);
	peer_acknowledge(peer, psn + lost, NAK);
	expect_repeated(peer, psn + lost);
	peer_acknowledge(peer, psn + 4, ACK);
	expect_completions(peer, 0, 5);
}

#endif
