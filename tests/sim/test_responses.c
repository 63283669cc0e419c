/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RC requester makes of the responses to READs and atomics, and of those that are missing
 * (IBA 9.9.2), packet by packet.
 */
#include <stdlib.h>

#include "emu/transport/destination.h"
#include "peer.h"

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/*
 * IBA 9.9.2.3: an ACK beyond a READ or an atomic says that its response was lost. What it
 * acknowledges isn't sent again, unless the HCA drops what comes behind a gap.
 */
START_TEST(implied_nak)
{
	bool atomic = _i & 1, drops = _i & 2;
	enum ibv_wr_opcode opcode = atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ;
	uint8_t response = atomic ? WIRE_ATOMIC_ACKNOWLEDGE : WIRE_READ_RESPONSE_ONLY;
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer.node->hca->behaviour.drops_out_of_order = drops;
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_post(&peer, opcode, 8, 1);
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	peer_see_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f); /* says so again: that isn't another loss */
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_see_requests(&peer, FIRST_PSN + 1, drops ? 2 : 1);
	peer_see_none(&peer, 10000);
	ck_assert_uint_eq(peer.node->hca->counters->completer_retry_err, 1);
	peer_respond(&peer, response, FIRST_PSN + 1, 0x1f, atomic ? 0 : 8);
	if (drops)
		peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/*
 * The next packet is a READ request at @psn for @length bytes from packet @first of the memory on.
 */
static void expect_read_request(struct peer *peer, uint32_t psn, uint32_t first, uint32_t length)
{
	struct packet request = peer_see_op(peer, "RC_RDMA_READ_REQUEST");
	const struct reth *reth = packet_reth(&request);

	ck_assert_uint_eq(request.psn, psn & PSN_MASK);
	ck_assert_uint_eq(be64toh(reth->va), 0x1000 + first * PEER_MTU);
	ck_assert_uint_eq(be32toh(reth->length), length);
	ck_assert_uint_eq(be32toh(reth->rkey), 0x42);
}

/*
 * A long READ is asked for in parts that are whole GSO trains for the responder but for three
 * packets: the LAST of the part before, the FIRST and a MIDDLE are a train of their own. So many
 * trains as let the window, of @_i trains, have space for READ_CHUNKS parts.
 */
START_TEST(long_reads_are_whole_trains)
{
	uint32_t train = link_train_packets(sizeof(struct bth) + PEER_MTU + ICRC_LENGTH);
	uint32_t trains =
		_i / READ_CHUNKS < READ_CHUNK_TRAINS ? _i / READ_CHUNKS : READ_CHUNK_TRAINS;
	uint32_t part = (3 + trains * train) * PEER_MTU;
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer.qp->recovery.destination->cwnd.size.limit =
		(3 * READ_CHUNKS + _i * train) * (PEER_MTU + CWND_PACKET_OVERHEAD);
	peer_post(&peer, IBV_WR_RDMA_READ, 2 * part, 0);
	expect_read_request(&peer, FIRST_PSN, 0, part);
	peer_destroy(&peer);
}
END_TEST

/* Bytes 0, 1, 2, ... in each of @packets packets, of which the last one has @rest. */
static void check_read(const struct peer *peer, uint32_t packets, uint32_t rest)
{
	for (uint32_t i = 0; i < (packets - 1) * PEER_MTU + rest; i++)
		must(peer->memory[i] == (uint8_t)(i % PEER_MTU));
}

/*
 * Of a READ's responses some are missing. A peer that isn't known to keep requests is asked for all
 * from the first to the last of them, as soon as the last response has come; for what is lost
 * again, when the response to a later request comes.
 */
START_TEST(read_what_is_missing)
{
	enum { RESPONSES = 8 };
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, (RESPONSES - 1) * PEER_MTU + 10, 0);
	expect_read_request(&peer, FIRST_PSN, 0, (RESPONSES - 1) * PEER_MTU + 10);
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 6, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 7, 0x1f, 10);
	expect_read_request(&peer, FIRST_PSN + 1, 1, 5 * PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 6, 0x1f, PEER_MTU); /* doubled */
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 1, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 5, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 1);
	peer_see_requests(&peer, FIRST_PSN + 8, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 8, 0x1f, 10);
	expect_read_request(&peer, FIRST_PSN + 2, 2, 3 * PEER_MTU);
	ck_assert(!world_poll(peer.node, &(struct ibv_wc){0}));
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 4, 0x1f, PEER_MTU);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	check_read(&peer, RESPONSES, 10);
	ck_assert_uint_eq(peer.qp->observed->done.losses.packets_kept, 5);
	ck_assert(peer.qp->missing.kept.count == 0 && !peer.qp->missing.any);
	peer_destroy(&peer);
}
END_TEST

/* The response number @index to a READ request for @count whole packets, two at least. */
static void respond_to(struct peer *peer, uint32_t psn, uint32_t count, uint32_t index)
{
	peer_respond(peer,
		     index == 0		  ? WIRE_READ_RESPONSE_FIRST
		     : index == count - 1 ? WIRE_READ_RESPONSE_LAST
					  : WIRE_READ_RESPONSE_MIDDLE,
		     psn + index, 0x1f, PEER_MTU);
}

/* The same of each request that a long READ is. */
START_TEST(read_what_is_missing_of_each_request)
{
	enum { PART = READ_CHUNK_LEAST };
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer.qp->recovery.destination->cwnd.size.limit =
		2 * PART * (PEER_MTU + CWND_PACKET_OVERHEAD);
	peer_post(&peer, IBV_WR_RDMA_READ, 2 * PART * PEER_MTU, 0);
	expect_read_request(&peer, FIRST_PSN, 0, PART * PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + PART, PART, PART * PEER_MTU);
	for (uint32_t i = 0; i < 2 * PART; i++) {
		if (i % PART == 2 || i % PART == 5)
			continue;
		peer_see_none(&peer, 1000);
		respond_to(&peer, FIRST_PSN + i / PART * PART, PART, i % PART);
		if (i % PART == PART - 1)
			expect_read_request(&peer, FIRST_PSN + i - PART + 3, i - PART + 3,
					    4 * PEER_MTU);
	}
	for (uint32_t part = 0; part < 2; part++) {
		uint32_t psn = FIRST_PSN + part * PART + 2;

		world_expect_none(peer.node, 1000);
		peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, psn, 0x1f, PEER_MTU);
		peer_respond(&peer, WIRE_READ_RESPONSE_LAST, psn + 3, 0x1f, PEER_MTU);
	}
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->recovery.member.in_flight, 0);
	peer_destroy(&peer);
}
END_TEST

/*
 * All that was asked for again is lost, and no later request shows it. After a timeout the oldest
 * one is asked for alone; its answer shows that the others are lost, too.
 */
START_TEST(read_what_is_lost_again)
{
	enum { PART = READ_CHUNK_LEAST, PARTS = 3 };
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;

	c.timeout = 8; /* which leaves no time for probes */
	peer_create_requester(&peer, &c);
	peer.qp->recovery.destination->cwnd.size.limit =
		PARTS * PART * (PEER_MTU + CWND_PACKET_OVERHEAD);
	peer_post(&peer, IBV_WR_RDMA_READ, PARTS * PART * PEER_MTU, 0);
	for (uint32_t part = 0; part < PARTS; part++)
		peer_see_requests(&peer, FIRST_PSN + part * PART, 1);
	for (uint32_t i = 0; i < PARTS * PART; i++) {
		if (i % PART != 2)
			respond_to(&peer, FIRST_PSN + i / PART * PART, PART, i % PART);
		if (i % PART == PART - 1)
			peer_see_requests(&peer, FIRST_PSN + i - PART + 3, 1);
	}
	ck_assert(peer_wait(&peer, &packet, 10000000));
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 2) & PSN_MASK);
	ck_assert_uint_eq(peer.node->hca->counters->timeouts, 1);
	for (uint32_t i = 0; i < PART - 2; i++)
		respond_to(&peer, FIRST_PSN + 2, PART - 2, i);
	for (uint32_t part = 1; part < PARTS; part++)
		expect_read_request(&peer, FIRST_PSN + part * PART + 2, part * PART + 2, PEER_MTU);
	for (uint32_t part = 1; part < PARTS; part++)
		peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + part * PART + 2, 0x1f,
			     PEER_MTU);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->recovery.member.in_flight, 0);
	peer_destroy(&peer);
}
END_TEST

/*
 * One that is known to keep them is asked for all at once; for what is lost again, when the
 * response to a later request comes.
 */
START_TEST(read_all_that_is_missing)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	destination_note_kept(peer.qp->recovery.destination);
	peer_post(&peer, IBV_WR_RDMA_READ, 6 * PEER_MTU, 0);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 1);
	peer_post(&peer, IBV_WR_SEND, 10, 2);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_see_requests(&peer, FIRST_PSN + 6, 2);
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 4, 0x1f, PEER_MTU);
	peer_acknowledge(&peer, FIRST_PSN + 7, 0x1f);
	expect_read_request(&peer, FIRST_PSN + 1, 1, PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + 3, 3, PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + 5, 5, PEER_MTU);
	peer_see_requests(&peer, FIRST_PSN + 6, 1);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 3, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 6, 0x1f, 10);
	peer_see_none(&peer, 10000);
	peer_post(&peer, IBV_WR_SEND, 10, 3);
	peer_see_requests(&peer, FIRST_PSN + 8, 1);
	peer_acknowledge(&peer, FIRST_PSN + 8, 0x1f);
	expect_read_request(&peer, FIRST_PSN + 1, 1, PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + 5, 5, PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 5, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 1, 0x1f, PEER_MTU);
	for (uint64_t i = 0; i < 4; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->recovery.member.in_flight, 0);
	peer_destroy(&peer);
}
END_TEST

/*
 * What comes no more of a READ is asked for again with all behind the gap: a responder that isn't
 * known to keep requests may have nothing of it any more.
 */
START_TEST(silence_behind_a_gap)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, 5 * PEER_MTU, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_see_none(&peer, MS);
	world_run(&peer.world, MS);
	expect_read_request(&peer, FIRST_PSN + 1, 1, 4 * PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 1, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 4, 0x1f, PEER_MTU);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* Three requests of 10 bytes are out, the first of which has a response. */
static void create_with_read_and_sends(struct peer *peer)
{
	peer_create_requester(peer, NULL);
	peer_post(peer, IBV_WR_RDMA_READ, 10, 0);
	peer_post(peer, IBV_WR_SEND, 10, 1);
	peer_post(peer, IBV_WR_SEND, 10, 2);
	peer_see_requests(peer, FIRST_PSN, 3);
}

/* A NAK that comes before a missing response counts when that has come. */
START_TEST(nak_behind_a_missing_response)
{
	struct peer peer;

	create_with_read_and_sends(&peer);
	peer_acknowledge(&peer, FIRST_PSN + 2, _i ? 0x61 : 0x60);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN, 0x1f, 10);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	if (_i) {
		world_expect(peer.node, 2, IBV_WC_REM_INV_REQ_ERR);
	} else {
		peer_see_requests(&peer, FIRST_PSN + 2, 1);
		peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
		world_expect(peer.node, 2, IBV_WC_SUCCESS);
	}
	peer_destroy(&peer);
}
END_TEST

/* An older NAK comes before a refusal, or the network delivers it behind: that is the last word. */
START_TEST(older_nak_with_a_refusal)
{
	static const struct {
		uint32_t request;
		uint8_t syndrome;
	} older[] = {{1, 0x60}, {2, 0x60}, {2, 0x25}};
	const int row = _i / 2;
	struct peer peer;

	create_with_read_and_sends(&peer);
	for (int i = 0; i < 2; i++) {
		if (i == _i % 2)
			peer_acknowledge(&peer, FIRST_PSN + older[row].request,
					 older[row].syndrome);
		else
			peer_acknowledge(&peer, FIRST_PSN + 2, 0x61);
	}
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN, 0x1f, 10);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_expect_failure(&peer, 2, 3, IBV_WC_REM_INV_REQ_ERR);
	peer_destroy(&peer);
}
END_TEST

/* A response of another kind than its request acknowledges what is before that, but not that. */
START_TEST(bad_response_behind_a_missing_one)
{
	struct peer peer;

	create_with_read_and_sends(&peer);
	peer_respond(&peer, _i ? WIRE_ATOMIC_ACKNOWLEDGE : WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 2,
		     0x1f, 0);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN, 0x1f, 10);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect_none(peer.node, 10000);
	peer_respond(&peer, _i ? WIRE_ATOMIC_ACKNOWLEDGE : WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 2,
		     0x1f, 0);
	peer_expect_failure(&peer, 2, 3, IBV_WC_BAD_RESP_ERR);
	peer_destroy(&peer);
}
END_TEST

/* What was kept behind a request that is refused is given up with its own. */
START_TEST(refused_before_what_was_kept)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 0);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 1);
	peer_see_requests(&peer, FIRST_PSN, 2);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 1, 0x1f, 10);
	peer_see_requests(&peer, FIRST_PSN, 1);
	ck_assert_uint_eq(peer.qp->missing.kept.count, 1);
	peer_acknowledge(&peer, FIRST_PSN, 0x62);
	peer_expect_failure(&peer, 0, 2, IBV_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(peer.qp->missing.kept.count, 0);
	peer_destroy(&peer);
}
END_TEST

/* It doesn't count if the same packet has been acknowledged meanwhile: it was only late. */
START_TEST(nak_behind_a_missing_response_is_over)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 0);
	for (uint64_t i = 1; i < 4; i++)
		peer_post(&peer, IBV_WR_SEND, 10, i);
	peer_see_requests(&peer, FIRST_PSN, 4);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x60);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN, 0x1f, 10);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	peer_see_none(&peer, 10000);
	peer_acknowledge(&peer, FIRST_PSN + 3, 0x1f);
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->hca->counters->rcvd_seq_err, 0);
	peer_destroy(&peer);
}
END_TEST

/* Nor does one of a connection that is over, though this one has the same PSNs. */
START_TEST(nak_of_the_connection_before)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&peer, i ? IBV_WR_SEND : IBV_WR_RDMA_READ, 10, i);
	peer_see_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x61);
	peer_see_requests(&peer, FIRST_PSN, 1);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	peer_connect(&peer, &world_connection);
	for (uint64_t i = 3; i < 6; i++)
		peer_post(&peer, i > 3 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 10, i);
	peer_see_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN, 0x1f, 10);
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	world_expect(peer.node, 4, IBV_WC_SUCCESS);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 5, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* An HCA that keeps nothing asks again from the gap on, for what is left. */
START_TEST(read_again_from_the_gap)
{
	const struct reth *reth;
	struct packet request;
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer.node->hca->behaviour.drops_out_of_order = true;
	peer_post(&peer, IBV_WR_RDMA_READ, 4 * PEER_MTU + 10, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	request = peer_see(&peer);
	reth = packet_reth(&request);
	ck_assert_uint_eq(request.psn, (FIRST_PSN + 1) & PSN_MASK);
	ck_assert_uint_eq(be64toh(reth->va), 0x1000 + PEER_MTU);
	ck_assert_uint_eq(be32toh(reth->length), 3 * PEER_MTU + 10);
	ck_assert_uint_eq(be32toh(reth->rkey), 0x42);
	peer_see_none(&peer, 10000);
	/* The answer to that begins anew with FIRST, or goes on (Linux rxe). */
	peer_respond(&peer, _i ? WIRE_READ_RESPONSE_FIRST : WIRE_READ_RESPONSE_MIDDLE,
		     FIRST_PSN + 1, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	world_expect_none(peer.node, MS);
	peer_respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 4, 0x1f, 10);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 4 * PEER_MTU + 10; i++)
		ck_assert_uint_eq(peer.memory[i], (uint8_t)i);
	ck_assert_uint_eq(peer.memory[4 * PEER_MTU + 10], 0);
	peer_destroy(&peer);
}
END_TEST

/* The request that was posted, then one response that doesn't fit it. */
static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	uint8_t operation, syndrome;
	uint32_t response_length;
	enum ibv_wc_status status;
} bad_responses[] = {
	{"READ response for SEND", IBV_WR_SEND, 8, WIRE_READ_RESPONSE_ONLY, 0x1f, 8,
	 IBV_WC_BAD_RESP_ERR},
	{"atomic response for SEND", IBV_WR_SEND, 8, WIRE_ATOMIC_ACKNOWLEDGE, 0x1f, 0,
	 IBV_WC_BAD_RESP_ERR},
	{"atomic response for READ", IBV_WR_RDMA_READ, 8, WIRE_ATOMIC_ACKNOWLEDGE, 0x1f, 0,
	 IBV_WC_BAD_RESP_ERR},
	{"READ response for atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, WIRE_READ_RESPONSE_ONLY, 0x1f,
	 8, IBV_WC_BAD_RESP_ERR},
	{"NAK in a READ response", IBV_WR_RDMA_READ, 8, WIRE_READ_RESPONSE_ONLY, 0x61, 8,
	 IBV_WC_BAD_RESP_ERR},
	{"NAK in an atomic response", IBV_WR_ATOMIC_CMP_AND_SWP, 8, WIRE_ATOMIC_ACKNOWLEDGE, 0x62,
	 0, IBV_WC_BAD_RESP_ERR},
	/* Lengths; an opcode that comes too early or too late is a bad response, IBA 9.9.2. */
	{"ONLY, too short", IBV_WR_RDMA_READ, 100, WIRE_READ_RESPONSE_ONLY, 0x1f, 96,
	 IBV_WC_LOC_LEN_ERR},
	{"ONLY, too long", IBV_WR_RDMA_READ, 100, WIRE_READ_RESPONSE_ONLY, 0x1f, 104,
	 IBV_WC_LOC_LEN_ERR},
	{"ONLY for two packets", IBV_WR_RDMA_READ, 2000, WIRE_READ_RESPONSE_ONLY, 0x1f, PEER_MTU,
	 IBV_WC_BAD_RESP_ERR},
	{"short FIRST", IBV_WR_RDMA_READ, 2000, WIRE_READ_RESPONSE_FIRST, 0x1f, 512,
	 IBV_WC_LOC_LEN_ERR},
	{"FIRST for one packet", IBV_WR_RDMA_READ, 100, WIRE_READ_RESPONSE_FIRST, 0x1f, PEER_MTU,
	 IBV_WC_BAD_RESP_ERR},
	{"payload for nothing", IBV_WR_RDMA_READ, 0, WIRE_READ_RESPONSE_ONLY, 0x1f, 4,
	 IBV_WC_LOC_LEN_ERR},
};

START_TEST(bad_response)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, bad_responses[_i].opcode, bad_responses[_i].length, 0);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	peer_see(&peer);
	peer_see(&peer);
	peer_respond(&peer, bad_responses[_i].operation, FIRST_PSN, bad_responses[_i].syndrome,
		     bad_responses[_i].response_length);
	peer_expect_failure(&peer, 0, 2, bad_responses[_i].status);
	ck_assert_uint_eq(peer.memory[0], 0);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("responses");

	tcase_add_loop_test(tcase, implied_nak, 0, 4);
	tcase_add_loop_test(tcase, long_reads_are_whole_trains, READ_CHUNKS, 6 * READ_CHUNKS);
	tcase_add_test(tcase, read_what_is_missing);
	tcase_add_test(tcase, read_what_is_missing_of_each_request);
	tcase_add_test(tcase, read_what_is_lost_again);
	tcase_add_test(tcase, read_all_that_is_missing);
	tcase_add_loop_test(tcase, nak_behind_a_missing_response, 0, 2);
	tcase_add_loop_test(tcase, older_nak_with_a_refusal, 0, 6);
	tcase_add_loop_test(tcase, bad_response_behind_a_missing_one, 0, 2);
	tcase_add_test(tcase, refused_before_what_was_kept);
	tcase_add_test(tcase, nak_behind_a_missing_response_is_over);
	tcase_add_test(tcase, nak_of_the_connection_before);
	tcase_add_test(tcase, silence_behind_a_gap);
	tcase_add_loop_test(tcase, read_again_from_the_gap, 0, 2);
	tcase_add_loop_test(tcase, bad_response, 0, LENGTH(bad_responses));
	return world_main("responses", (TCase *const[]){tcase, NULL});
}
