/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RC requester makes of responses, good and bad (transport.md 5 and 15,
 * IBA 9.9.2), packet by packet, and of requests that fail before anything is
 * sent.
 */
#include <stdlib.h>

#include "emu/transport/destination.h"
#include "net/newer_verbs.h"
#include "peer.h"

#define BAD_KEY 0xdead0001
#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void respond(struct peer *peer, uint8_t operation, uint32_t psn, uint8_t syndrome,
		    uint32_t length)
{
	struct peer_packet p = {.opcode = WIRE_RC | operation,
				.psn = psn & PSN_MASK,
				.no_ack_request = true,
				.syndrome = syndrome,
				.length = length};

	peer_send(peer, &p);
}

static void acknowledge(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	respond(peer, WIRE_ACKNOWLEDGE, psn, syndrome, 0);
}

/* The QP sends @count packets, with PSNs from @psn on. */
static void expect_requests(struct peer *peer, uint32_t psn, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(peer_see(peer).psn, (psn + i) & PSN_MASK);
}

/* The oldest request ends with @status; the rest and the receives are flushed; all is over. */
static void expect_failure(struct peer *peer, uint64_t first, uint64_t count,
			   enum ibv_wc_status status)
{
	world_expect(peer->node, first, status);
	for (uint64_t i = first + 1; i < count; i++)
		world_expect(peer->node, i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 100; i < 103; i++)
		world_expect(peer->node, i, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(peer->qp->state, IBV_QPS_ERR);
	/* IBA 10.3.1.7: what is posted now is flushed too. */
	peer_post(peer, IBV_WR_SEND, 8, 50);
	world_expect(peer->node, 50, IBV_WC_WR_FLUSH_ERR);
	peer_receive(peer, 8, 51);
	world_expect(peer->node, 51, IBV_WC_WR_FLUSH_ERR);
	world_expect_none(peer->node, SECOND);
}

static void create(struct peer *peer, const struct connection *c)
{
	peer_create(peer, IBV_QPT_RC, c);
	for (uint64_t i = 100; i < 103; i++)
		peer_receive(peer, 100, i);
}

/* --- acknowledgements ------------------------------------------------------------ */

START_TEST(one_ack_for_many)
{
	struct peer peer;

	create(&peer, NULL);
	for (uint64_t i = 0; i < 5; i++)
		peer_post(&peer, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 8, i);
	expect_requests(&peer, FIRST_PSN, 5);
	acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	world_expect_none(peer.node, MS);
	acknowledge(&peer, FIRST_PSN + 4, 0x00); /* whatever credits it gives */
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	world_expect(peer.node, 4, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* All is acknowledged, and the peer has sent nothing since: hca.peer_awaited. */
START_TEST(it_is_the_peers_turn)
{
	struct peer_packet write = {.opcode = WIRE_RC | WIRE_WRITE_ONLY};
	_Atomic bool *awaited;
	struct peer peer;

	create(&peer, NULL);
	awaited = &peer.node->hca->peer_awaited;
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	expect_requests(&peer, FIRST_PSN, 2);
	acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert(!*awaited);
	acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	ck_assert(*awaited);

	write.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &write);
	peer_see_ack(&peer, write.psn, 0x1f);
	ck_assert(!*awaited);

	/* The peer's next message comes before the acknowledgement: nothing is waited for. */
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	expect_requests(&peer, FIRST_PSN + 2, 1);
	write.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &write);
	acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	ck_assert(!*awaited);
	peer_destroy(&peer);
}
END_TEST

/* A part of a message that is acknowledged completes nothing. */
START_TEST(ack_of_a_part)
{
	struct peer peer;

	create(&peer, NULL);
	peer_post(&peer, IBV_WR_SEND, 3 * PEER_MTU, 0);
	expect_requests(&peer, FIRST_PSN, 3);
	acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	world_expect_none(peer.node, MS);
	acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* Of PSNs never sent, or acknowledged long ago, reserved types and codes: all are ignored. */
START_TEST(ghosts)
{
	static const uint8_t reserved[] = {0x64, 0x65, 0x70, 0x7f, 0x40, 0x5f, 0x9f, 0xe1};
	struct peer peer;

	create(&peer, NULL);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	expect_requests(&peer, FIRST_PSN, 1);
	acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);

	peer_post(&peer, IBV_WR_SEND, 8, 1);
	expect_requests(&peer, FIRST_PSN + 1, 1);
	acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	acknowledge(&peer, FIRST_PSN + 2, 0x60);
	acknowledge(&peer, FIRST_PSN + 0x7fffff, 0x61);
	acknowledge(&peer, FIRST_PSN, 0x1f);
	acknowledge(&peer, FIRST_PSN, 0x63);
	acknowledge(&peer, FIRST_PSN - 1, 0x60);
	for (int i = 0; i < LENGTH(reserved); i++)
		acknowledge(&peer, FIRST_PSN + 1, reserved[i]);
	peer_see_none(&peer, 100000);
	world_expect_none(peer.node, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* The fatal NAKs: what was before the PSN has arrived, what is after it is flushed. */
START_TEST(fatal_nak)
{
	static const enum ibv_wc_status status[] = {IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
						    IBV_WC_REM_OP_ERR};
	struct peer peer;

	create(&peer, NULL);
	for (uint64_t i = 0; i < 5; i++)
		peer_post(&peer, i == 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 8, i);
	expect_requests(&peer, FIRST_PSN, 5);
	acknowledge(&peer, FIRST_PSN + 2, 0x61 + _i);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	expect_failure(&peer, 2, 5, status[_i]);
	acknowledge(&peer, FIRST_PSN + 4, 0x1f);
	world_expect_none(peer.node, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* --- responses --------------------------------------------------------------------- */

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

	create(&peer, NULL);
	peer.node->hca->behaviour.drops_out_of_order = drops;
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_post(&peer, opcode, 8, 1);
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	expect_requests(&peer, FIRST_PSN, 3);
	acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	acknowledge(&peer, FIRST_PSN + 2, 0x1f); /* says so again: that isn't another loss */
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	expect_requests(&peer, FIRST_PSN + 1, drops ? 2 : 1);
	peer_see_none(&peer, 10000);
	ck_assert_uint_eq(peer.node->hca->counters->completer_retry_err, 1);
	respond(&peer, response, FIRST_PSN + 1, 0x1f, atomic ? 0 : 8);
	if (drops)
		acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* The next packet is a READ request at @psn for @length bytes from packet @first of the memory on.
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

	create(&peer, NULL);
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

	create(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, (RESPONSES - 1) * PEER_MTU + 10, 0);
	expect_read_request(&peer, FIRST_PSN, 0, (RESPONSES - 1) * PEER_MTU + 10);
	respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 6, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 7, 0x1f, 10);
	expect_read_request(&peer, FIRST_PSN + 1, 1, 5 * PEER_MTU);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 6, 0x1f, PEER_MTU); /* doubled */
	respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 1, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 5, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 1);
	expect_requests(&peer, FIRST_PSN + 8, 1);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 8, 0x1f, 10);
	expect_read_request(&peer, FIRST_PSN + 2, 2, 3 * PEER_MTU);
	ck_assert(!world_poll(peer.node, &(struct ibv_wc){0}));
	respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 2, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 4, 0x1f, PEER_MTU);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	check_read(&peer, RESPONSES, 10);
	ck_assert_uint_eq(peer.qp->shown->done.losses.packets_kept, 5);
	ck_assert(peer.qp->missing.kept.count == 0 && !peer.qp->missing.any);
	peer_destroy(&peer);
}
END_TEST

/* The response number @index to a READ request for @count whole packets, two at least. */
static void respond_to(struct peer *peer, uint32_t psn, uint32_t count, uint32_t index)
{
	respond(peer,
		index == 0	     ? WIRE_READ_RESPONSE_FIRST
		: index == count - 1 ? WIRE_READ_RESPONSE_LAST
				     : WIRE_READ_RESPONSE_MIDDLE,
		psn + index, 0x1f, PEER_MTU);
}

/* The same of each request that a long READ is. */
START_TEST(read_what_is_missing_of_each_request)
{
	enum { PART = READ_CHUNK_LEAST };
	struct peer peer;

	create(&peer, NULL);
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
		respond(&peer, WIRE_READ_RESPONSE_FIRST, psn, 0x1f, PEER_MTU);
		respond(&peer, WIRE_READ_RESPONSE_LAST, psn + 3, 0x1f, PEER_MTU);
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
	create(&peer, &c);
	peer.qp->recovery.destination->cwnd.size.limit =
		PARTS * PART * (PEER_MTU + CWND_PACKET_OVERHEAD);
	peer_post(&peer, IBV_WR_RDMA_READ, PARTS * PART * PEER_MTU, 0);
	for (uint32_t part = 0; part < PARTS; part++)
		expect_requests(&peer, FIRST_PSN + part * PART, 1);
	for (uint32_t i = 0; i < PARTS * PART; i++) {
		if (i % PART != 2)
			respond_to(&peer, FIRST_PSN + i / PART * PART, PART, i % PART);
		if (i % PART == PART - 1)
			expect_requests(&peer, FIRST_PSN + i - PART + 3, 1);
	}
	ck_assert(peer_wait(&peer, &packet, 10000000));
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 2) & PSN_MASK);
	ck_assert_uint_eq(peer.node->hca->counters->timeouts, 1);
	for (uint32_t i = 0; i < PART - 2; i++)
		respond_to(&peer, FIRST_PSN + 2, PART - 2, i);
	for (uint32_t part = 1; part < PARTS; part++)
		expect_read_request(&peer, FIRST_PSN + part * PART + 2, part * PART + 2, PEER_MTU);
	for (uint32_t part = 1; part < PARTS; part++)
		respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + part * PART + 2, 0x1f,
			PEER_MTU);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->recovery.member.in_flight, 0);
	peer_destroy(&peer);
}
END_TEST

/* One that is known to keep them is asked for all at once; for what is lost again, when the
 * response to a later request comes. */
START_TEST(read_all_that_is_missing)
{
	struct peer peer;

	create(&peer, NULL);
	destination_note_kept(peer.qp->recovery.destination);
	peer_post(&peer, IBV_WR_RDMA_READ, 6 * PEER_MTU, 0);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 1);
	peer_post(&peer, IBV_WR_SEND, 10, 2);
	expect_requests(&peer, FIRST_PSN, 1);
	expect_requests(&peer, FIRST_PSN + 6, 2);
	respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 4, 0x1f, PEER_MTU);
	acknowledge(&peer, FIRST_PSN + 7, 0x1f);
	expect_read_request(&peer, FIRST_PSN + 1, 1, PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + 3, 3, PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + 5, 5, PEER_MTU);
	expect_requests(&peer, FIRST_PSN + 6, 1);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 3, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 6, 0x1f, 10);
	peer_see_none(&peer, 10000);
	peer_post(&peer, IBV_WR_SEND, 10, 3);
	expect_requests(&peer, FIRST_PSN + 8, 1);
	acknowledge(&peer, FIRST_PSN + 8, 0x1f);
	expect_read_request(&peer, FIRST_PSN + 1, 1, PEER_MTU);
	expect_read_request(&peer, FIRST_PSN + 5, 5, PEER_MTU);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 5, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 1, 0x1f, PEER_MTU);
	for (uint64_t i = 0; i < 4; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->recovery.member.in_flight, 0);
	peer_destroy(&peer);
}
END_TEST

/* A NAK that comes before a missing response counts when that has come. */
START_TEST(nak_behind_a_missing_response)
{
	struct peer peer;

	create(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, 10, 0);
	peer_post(&peer, IBV_WR_SEND, 10, 1);
	peer_post(&peer, IBV_WR_SEND, 10, 2);
	expect_requests(&peer, FIRST_PSN, 3);
	acknowledge(&peer, FIRST_PSN + 2, _i ? 0x61 : 0x60);
	expect_requests(&peer, FIRST_PSN, 1);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN, 0x1f, 10);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	if (_i) {
		world_expect(peer.node, 2, IBV_WC_REM_INV_REQ_ERR);
	} else {
		expect_requests(&peer, FIRST_PSN + 2, 1);
		acknowledge(&peer, FIRST_PSN + 2, 0x1f);
		world_expect(peer.node, 2, IBV_WC_SUCCESS);
	}
	peer_destroy(&peer);
}
END_TEST

/* An HCA that keeps nothing asks again from the gap on, for what is left. */
START_TEST(read_again_from_the_gap)
{
	const struct reth *reth;
	struct packet request;
	struct peer peer;

	create(&peer, NULL);
	peer.node->hca->behaviour.drops_out_of_order = true;
	peer_post(&peer, IBV_WR_RDMA_READ, 4 * PEER_MTU + 10, 0);
	expect_requests(&peer, FIRST_PSN, 1);
	respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	request = peer_see(&peer);
	reth = packet_reth(&request);
	ck_assert_uint_eq(request.psn, (FIRST_PSN + 1) & PSN_MASK);
	ck_assert_uint_eq(be64toh(reth->va), 0x1000 + PEER_MTU);
	ck_assert_uint_eq(be32toh(reth->length), 3 * PEER_MTU + 10);
	ck_assert_uint_eq(be32toh(reth->rkey), 0x42);
	peer_see_none(&peer, 10000);
	/* The answer to that begins anew with FIRST (transport.md 4), or goes on (Linux rxe). */
	respond(&peer, _i ? WIRE_READ_RESPONSE_FIRST : WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 1,
		0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 2, 0x1f, PEER_MTU);
	respond(&peer, WIRE_READ_RESPONSE_MIDDLE, FIRST_PSN + 3, 0x1f, PEER_MTU);
	world_expect_none(peer.node, MS);
	respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 4, 0x1f, 10);
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

	create(&peer, NULL);
	peer_post(&peer, bad_responses[_i].opcode, bad_responses[_i].length, 0);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	peer_see(&peer);
	peer_see(&peer);
	respond(&peer, bad_responses[_i].operation, FIRST_PSN, bad_responses[_i].syndrome,
		bad_responses[_i].response_length);
	expect_failure(&peer, 0, 2, bad_responses[_i].status);
	ck_assert_uint_eq(peer.memory[0], 0);
	peer_destroy(&peer);
}
END_TEST

/* --- local errors, transport.md 15 --------------------------------------------------- */

enum bad_memory { UNKNOWN_KEY, OTHER_DOMAIN, TOO_FAR, TOO_EARLY, NO_LOCAL_WRITE };

struct memory {
	struct pd *other;
	struct mr *foreign, *fixed;
};

static struct ibv_sge bad_sge(struct peer *peer, struct memory *memory, enum bad_memory kind)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory, .length = 8, .lkey = peer->mr->ibv.lkey};

	ck_assert_int_eq(pd_alloc(peer->node->hca, &memory->other), 0);
	ck_assert_int_eq(mr_register(memory->other, peer->memory, 1000, (uintptr_t)peer->memory,
				     IBV_ACCESS_LOCAL_WRITE, &memory->foreign),
			 0);
	memory->fixed = world_mr(peer->node, peer->memory, 1000, 0);
	if (kind == UNKNOWN_KEY)
		sge.lkey = BAD_KEY;
	if (kind == OTHER_DOMAIN)
		sge.lkey = memory->foreign->ibv.lkey;
	if (kind == TOO_FAR)
		sge.addr += PEER_MEMORY - 7;
	if (kind == TOO_EARLY)
		sge.addr--;
	if (kind == NO_LOCAL_WRITE)
		sge.lkey = memory->fixed->ibv.lkey;
	return sge;
}

static void release(struct memory *memory)
{
	mr_deregister(memory->foreign);
	mr_deregister(memory->fixed);
	pd_dealloc(memory->other);
}

static void post_sge(struct peer *peer, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t id)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = opcode, .sg_list = sge, .num_sge = 1};

	/* Unsignaled: an error is reported all the same, IBA 10.7.3.1. */
	wr.wr.rdma.remote_addr = 0x1000;
	wr.wr.rdma.rkey = 0x42;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0x42;
	}
	ck_assert_int_eq(world_post_send(peer->qp, &wr), 0);
}

/* The gather of SEND and WRITE is looked at before anything is sent. What is before it completes.
 */
START_TEST(bad_gather)
{
	struct memory memory;
	struct ibv_sge sge;
	struct peer peer;

	create(&peer, NULL);
	sge = bad_sge(&peer, &memory, _i / 2);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	post_sge(&peer, _i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, &sge, 1);
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	expect_requests(&peer, FIRST_PSN, 1);
	peer_see_none(&peer, 10000);
	world_expect_none(peer.node, MS / 10);
	acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	expect_failure(&peer, 1, 3, IBV_WC_LOC_PROT_ERR);
	peer_see_none(&peer, 10000);
	release(&memory);
	peer_destroy(&peer);
}
END_TEST

/* The sink of READ and atomics is looked at when the response comes. */
START_TEST(bad_sink)
{
	struct peer_packet response = {.psn = FIRST_PSN, .syndrome = 0x1f};
	bool atomic = _i % 2;
	struct memory memory;
	struct ibv_sge sge;
	struct peer peer;

	create(&peer, NULL);
	sge = bad_sge(&peer, &memory, _i / 2);
	post_sge(&peer, atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, &sge, 0);
	expect_requests(&peer, FIRST_PSN, 1);
	response.opcode = atomic ? WIRE_ATOMIC_ACKNOWLEDGE : WIRE_READ_RESPONSE_ONLY;
	response.length = atomic ? 0 : 8;
	response.original = 0x1111;
	peer_send(&peer, &response);
	expect_failure(&peer, 0, 1, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_eq(peer.memory[0], 0);
	release(&memory);
	peer_destroy(&peer);
}
END_TEST

/* ... so that a bad R_Key is what is reported when both are bad. */
START_TEST(bad_sink_and_key)
{
	struct memory memory;
	struct ibv_sge sge;
	struct peer peer;

	create(&peer, NULL);
	sge = bad_sge(&peer, &memory, UNKNOWN_KEY);
	post_sge(&peer, IBV_WR_RDMA_READ, &sge, 0);
	expect_requests(&peer, FIRST_PSN, 1);
	acknowledge(&peer, FIRST_PSN, 0x62);
	expect_failure(&peer, 0, 1, IBV_WC_REM_ACCESS_ERR);
	release(&memory);
	peer_destroy(&peer);
}
END_TEST

/* transport.md 10: without max_rd_atomic there are no READs and no atomics. */
START_TEST(no_rd_atomic)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_WRITE};
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = 0;
	create(&peer, &c);
	if (_i < LENGTH(opcodes))
		peer_post(&peer, opcodes[_i], 8, 0);
	else
		peer_flush(&peer, FLUSH_RANGE, 8, 0);
	expect_failure(&peer, 0, 1, IBV_WC_LOC_QP_OP_ERR);
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

static void check_reth(const struct packet *packet, uint32_t length)
{
	const struct reth *reth = packet_reth(packet);

	ck_assert_uint_eq(be64toh(reth->va), 0x1000);
	ck_assert_uint_eq(be32toh(reth->rkey), 0x42);
	ck_assert_uint_eq(be32toh(reth->length), length);
	ck_assert(packet->ack_request);
}

/*
 * Annex A19: a packet each, with consecutive PSNs; answered by READ responses without payload,
 * each of which acknowledges itself and of the requests before it those that are not answered so.
 */
START_TEST(atomic_write_and_flush)
{
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;
	struct ibv_wc wc;

	c.rd_atomic = 3;
	create(&peer, &c);
	memset(peer.memory, 0x5a, 8);
	peer_post(&peer, IBV_WR_ATOMIC_WRITE, 8, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	peer_flush(&peer, FLUSH_RANGE, 1 << 30, 2);
	peer_flush(&peer, FLUSH_MR, 0, 3);
	peer_flush(&peer, FLUSH_RANGE, 1, 4); /* one more than max_rd_atomic */

	packet = peer_see_op(&peer, "RC_ATOMIC_WRITE");
	check_reth(&packet, 8);
	ck_assert_mem_eq(packet.payload, peer.memory, 8);
	ck_assert_uint_eq(packet.payload_length, 8);
	peer_see_op(&peer, "RC_RDMA_WRITE_ONLY");
	packet = peer_see_op(&peer, "RC_FLUSH");
	check_reth(&packet, 1 << 30);
	ck_assert_uint_eq(packet_flush_placement(&packet), FETH_PLACEMENT_GLOBAL);
	ck_assert_uint_eq(packet_flush_selectivity(&packet), FETH_SELECTIVITY_RANGE);
	ck_assert_uint_eq(packet.psn, (c.psn + 2) & PSN_MASK);
	packet = peer_see_op(&peer, "RC_FLUSH");
	check_reth(&packet, 0);
	ck_assert_uint_eq(packet_flush_selectivity(&packet), FETH_SELECTIVITY_MR);
	peer_see_none(&peer, 10000);

	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn, 0x1f, 0);
	wc = world_completion(peer.node, MS);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_ATOMIC_WRITE);
	expect_requests(&peer, c.psn + 4, 1);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 2, 0x1f, 0);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	wc = world_completion(peer.node, MS);
	ck_assert_uint_eq(wc.wr_id, 2);
	ck_assert_int_eq(wc.opcode, WC_FLUSH);
	/* Its answer was lost: it is asked for again. */
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 4, 0x1f, 0);
	packet = peer_see_op(&peer, "RC_FLUSH");
	ck_assert_uint_eq(packet.psn, (c.psn + 3) & PSN_MASK);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 3, 0x1f, 0);
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	world_expect(peer.node, 4, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

START_TEST(bad_answer_to_flush)
{
	static const struct {
		uint8_t operation;
		uint8_t syndrome;
		uint32_t length;
		enum ibv_wc_status status;
	} answers[] = {
		{WIRE_READ_RESPONSE_ONLY, 0x1f, 8, IBV_WC_LOC_LEN_ERR},
		{WIRE_ATOMIC_ACKNOWLEDGE, 0x1f, 0, IBV_WC_BAD_RESP_ERR},
		{WIRE_ACKNOWLEDGE, 0x61, 0, IBV_WC_REM_INV_REQ_ERR},
		{WIRE_ACKNOWLEDGE, 0x62, 0, IBV_WC_REM_ACCESS_ERR},
	};
	struct peer peer;

	create(&peer, NULL);
	peer_flush(&peer, FLUSH_RANGE, 8, 0);
	expect_requests(&peer, FIRST_PSN, 1);
	respond(&peer, answers[_i].operation, FIRST_PSN, answers[_i].syndrome, answers[_i].length);
	expect_failure(&peer, 0, 1, answers[_i].status);
	peer_destroy(&peer);
}
END_TEST

/* max_rd_atomic of them at a time; the next one holds up all that is behind it. */
START_TEST(rd_atomic_limit)
{
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = 2;
	create(&peer, &c);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 0);
	peer_post(&peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 2);
	peer_post(&peer, IBV_WR_SEND, 8, 3);
	expect_requests(&peer, c.psn, 2);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn, 0x1f, 8);
	expect_requests(&peer, c.psn + 2, 2);
	respond(&peer, WIRE_ATOMIC_ACKNOWLEDGE, c.psn + 1, 0x1f, 0);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 2, 0x1f, 8);
	acknowledge(&peer, c.psn + 3, 0x1f);
	for (uint64_t i = 0; i < 4; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* In the window is what is in flight: @small messages of 8 bytes, and a READ of as many. */
static void expect_in_flight(const struct peer *peer, uint64_t small, uint64_t reads)
{
	const struct recovery *recovery = &peer->qp->recovery;

	ck_assert_uint_eq(recovery->member.in_flight, (small + reads) * (8 + CWND_PACKET_OVERHEAD));
	ck_assert_uint_eq(recovery->destination->cwnd.in_flight, recovery->member.in_flight);
}

/* The window is asked for the whole list at once; what the list can't use goes back. */
START_TEST(a_list_takes_no_more_than_it_sends)
{
	struct connection c = world_connection;
	struct ibv_send_wr wrs[6];
	struct ibv_sge sge;
	struct peer peer;

	c.rd_atomic = 1;
	create(&peer, &c);
	sge = (struct ibv_sge){(uintptr_t)peer.memory, 8, peer.mr->ibv.lkey};
	for (int i = 0; i < LENGTH(wrs); i++)
		wrs[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < LENGTH(wrs) ? &wrs[i + 1] : NULL,
			.opcode = i == 2 || i == 4 ? IBV_WR_RDMA_READ : IBV_WR_SEND,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = 0x1000, .rkey = 0x42},
		};
	ck_assert_int_eq(world_post_send(peer.qp, wrs), 0);
	expect_requests(&peer, c.psn, 4); /* the second READ waits for the first */
	expect_in_flight(&peer, 3, 1);
	acknowledge(&peer, c.psn + 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	expect_in_flight(&peer, 1, 1);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 2, 0x1f, 8);
	expect_requests(&peer, c.psn + 4, 2);
	expect_in_flight(&peer, 2, 1);
	respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 4, 0x1f, 8);
	acknowledge(&peer, c.psn + 5, 0x1f);
	for (uint64_t i = 2; i < 6; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	expect_in_flight(&peer, 0, 0);
	peer_destroy(&peer);
}
END_TEST

/* IBA 10.8.3.3: a fenced request waits for the READs and atomics before it, not for others. */
START_TEST(fence)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED};
	struct peer peer;

	create(&peer, NULL);
	sge = (struct ibv_sge){(uintptr_t)peer.memory, 8, peer.mr->ibv.lkey};
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	wr.wr_id = 1;
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	expect_requests(&peer, FIRST_PSN, 2);
	peer_post(&peer, IBV_WR_RDMA_READ, 2 * PEER_MTU, 2);
	wr.wr_id = 3;
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	peer_post(&peer, IBV_WR_SEND, 8, 4);
	expect_requests(&peer, FIRST_PSN + 2, 1);
	acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 3, 0x1f, PEER_MTU);
	expect_requests(&peer, FIRST_PSN + 4, 2);
	acknowledge(&peer, FIRST_PSN + 5, 0x1f);
	for (uint64_t i = 0; i < 5; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.2.3, transport.md 12: SE is on the last packet of what completes a receive, and only there.
 */
START_TEST(solicited)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint32_t length;
		int packets, marked; /* which one, or -1 */
	} tests[] = {
		{IBV_WR_SEND, 8, 1, 0},
		{IBV_WR_SEND, 3000, 3, 2},
		{IBV_WR_SEND_WITH_IMM, 2000, 2, 1},
		{IBV_WR_RDMA_WRITE, 2000, 2, -1},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 8, 1, 0},
		{IBV_WR_RDMA_WRITE_WITH_IMM, 2000, 2, 1},
		{IBV_WR_RDMA_READ, 8, 1, -1},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1, -1},
	};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = tests[_i].opcode,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SOLICITED};
	struct peer peer;

	create(&peer, NULL);
	sge = (struct ibv_sge){(uintptr_t)peer.memory, tests[_i].length, peer.mr->ibv.lkey};
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	for (int i = 0; i < tests[_i].packets; i++) {
		struct packet packet = peer_see(&peer);

		ck_assert_int_eq(packet.solicited, i == tests[_i].marked);
		/* transport.md 3: the last packet of every message asks for its acknowledgement. */
		if (i + 1 == tests[_i].packets)
			ck_assert(packet.ack_request);
	}
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

/*
 * transport.md 3: a long message asks for acknowledgements on its way; and what
 * goes last before the window is full does, since only that opens it again.
 */
START_TEST(acks_on_the_way)
{
	uint32_t sent = 0, asked = 0, more = 0;
	struct packet packet, last = {0};
	struct peer peer;

	create(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_WRITE, PEER_MEMORY, 0);
	while (peer_wait(&peer, &packet, 10000)) {
		last = packet;
		sent++;
		asked += packet.ack_request;
	}
	ck_assert_uint_lt(sent, PEER_MEMORY / PEER_MTU);
	ck_assert_uint_ge(asked, 2);
	ck_assert(last.ack_request);
	acknowledge(&peer, last.psn, 0x1f);
	while (peer_wait(&peer, &packet, 10000))
		more++;
	ck_assert_uint_eq(sent + more, PEER_MEMORY / PEER_MTU);
	acknowledge(&peer, last.psn + more, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

static const struct {
	uint64_t window;
	uint32_t interval; /* packets */
} requests_for_acks[] = {
	{CWND_INITIAL, ACK_REQUEST_LEAST},
	{1u << 20, 1 + (1u << 20) / ACK_REQUEST_FRACTION / (PEER_MTU + CWND_PACKET_OVERHEAD)},
	{CWND_LAN, ACK_BYTES / PEER_MTU},
};

/* Of a long message, as often as an ACK is worth it, or the window has to be opened. */
START_TEST(the_window_says_how_often)
{
	const uint32_t interval = requests_for_acks[_i].interval;
	struct ibv_sge sges[4];
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = sges, .num_sge = LENGTH(sges)};
	uint32_t most = LENGTH(sges) * PEER_MEMORY / PEER_MTU;
	uint32_t fit = requests_for_acks[_i].window / (PEER_MTU + CWND_PACKET_OVERHEAD);
	uint32_t number = 0;
	struct packet packet;
	struct peer peer;

	create(&peer, NULL);
	for (int i = 0; i < LENGTH(sges); i++)
		sges[i] = (struct ibv_sge){(uintptr_t)peer.memory, PEER_MEMORY, peer.mr->ibv.lkey};
	peer.qp->recovery.destination->cwnd.size.limit = requests_for_acks[_i].window;
	if (most > fit)
		most = fit;
	ck_assert_uint_ge(most, 2 * interval);
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	while (number < most && peer_wait(&peer, &packet, 10000)) {
		number++;
		ck_assert_msg(packet.ack_request == (number % interval == 0 || number == most),
			      "packet %u of %u", number, most);
	}
	ck_assert_uint_eq(number, most);
	peer_destroy(&peer);
}
END_TEST

/* verbs.md 3: only from RTS on. */
START_TEST(post_by_state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr receive = {.wr_id = 9}, *bad_receive;
	const struct connection *c = &world_connection;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	ck_assert_int_eq(qp_post_send(peer.qp, &wr, &bad, false, LAZY_TIME(0)), EINVAL);
	ck_assert_ptr_eq(bad, &wr);
	ck_assert_int_eq(qp_post_recv(peer.qp, &receive, &bad_receive), EINVAL);
	world_modify_init(peer.qp, c);
	ck_assert_int_eq(qp_post_send(peer.qp, &wr, &bad, false, LAZY_TIME(0)), EINVAL);
	ck_assert_int_eq(qp_post_recv(peer.qp, &receive, &bad_receive), 0);
	world_modify_rtr_to(peer.qp, &peer.path.source, PEER_QPN, c);
	ck_assert_int_eq(qp_post_send(peer.qp, &wr, &bad, false, LAZY_TIME(0)), EINVAL);
	ck_assert_int_eq(qp_post_recv(peer.qp, &receive, &bad_receive), 0);
	world_modify_rts(peer.qp, c);
	/* An ibv_send_wr can't say what is to be flushed. */
	wr.opcode = WR_FLUSH;
	ck_assert_int_eq(qp_post_send(peer.qp, &wr, &bad, false, LAZY_TIME(0)), EINVAL);
	wr.opcode = IBV_WR_SEND;
	ck_assert_int_eq(qp_post_send(peer.qp, &wr, &bad, false, LAZY_TIME(0)), 0);
	expect_requests(&peer, c->psn, 1);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("requester");

	tcase_add_test(tcase, one_ack_for_many);
	tcase_add_test(tcase, it_is_the_peers_turn);
	tcase_add_test(tcase, ack_of_a_part);
	tcase_add_test(tcase, ghosts);
	tcase_add_loop_test(tcase, fatal_nak, 0, 3);
	tcase_add_loop_test(tcase, implied_nak, 0, 4);
	tcase_add_loop_test(tcase, long_reads_are_whole_trains, READ_CHUNKS, 6 * READ_CHUNKS);
	tcase_add_test(tcase, read_what_is_missing);
	tcase_add_test(tcase, read_what_is_missing_of_each_request);
	tcase_add_test(tcase, read_what_is_lost_again);
	tcase_add_test(tcase, read_all_that_is_missing);
	tcase_add_loop_test(tcase, nak_behind_a_missing_response, 0, 2);
	tcase_add_loop_test(tcase, read_again_from_the_gap, 0, 2);
	tcase_add_loop_test(tcase, bad_response, 0, LENGTH(bad_responses));
	tcase_add_loop_test(tcase, bad_gather, 0, 8);
	tcase_add_loop_test(tcase, bad_sink, 0, 10);
	tcase_add_test(tcase, bad_sink_and_key);
	tcase_add_loop_test(tcase, no_rd_atomic, 0, 4);
	tcase_add_test(tcase, atomic_write_and_flush);
	tcase_add_loop_test(tcase, bad_answer_to_flush, 0, 4);
	tcase_add_test(tcase, rd_atomic_limit);
	tcase_add_test(tcase, a_list_takes_no_more_than_it_sends);
	tcase_add_test(tcase, fence);
	tcase_add_loop_test(tcase, solicited, 0, 8);
	tcase_add_test(tcase, acks_on_the_way);
	tcase_add_loop_test(tcase, the_window_says_how_often, 0, LENGTH(requests_for_acks));
	tcase_add_test(tcase, post_by_state);
	return world_main("requester", (TCase *const[]){tcase, NULL});
}
