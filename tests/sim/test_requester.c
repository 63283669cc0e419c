/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RC requester sends and when, and what it makes of acknowledgements (IBA
 * 9.9.2), packet by packet. Responses with data are test_responses.c's, requests that fail before
 * anything is sent test_local_errors.c's.
 */
#include <stdlib.h>

#include "emu/transport/destination.h"
#include "net/newer_verbs.h"
#include "peer.h"

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* --- acknowledgements ------------------------------------------------------------ */

START_TEST(one_ack_for_many)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	for (uint64_t i = 0; i < 5; i++)
		peer_post(&peer, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 8, i);
	peer_see_requests(&peer, FIRST_PSN, 5);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	world_expect_none(peer.node, MS);
	peer_acknowledge(&peer, FIRST_PSN + 4, 0x00); /* whatever credits it gives */
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

	peer_create_requester(&peer, NULL);
	awaited = &peer.node->hca->peer_awaited;
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	peer_see_requests(&peer, FIRST_PSN, 2);
	peer_acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert(!*awaited);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	ck_assert(*awaited);

	write.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &write);
	peer_see_ack(&peer, write.psn, 0x1f);
	ck_assert(!*awaited);

	/* The peer's next message comes before the acknowledgement: nothing is waited for. */
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	peer_see_requests(&peer, FIRST_PSN + 2, 1);
	write.psn = peer.psn++ & PSN_MASK;
	peer_send(&peer, &write);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	ck_assert(!*awaited);
	peer_destroy(&peer);
}
END_TEST

/* A part of a message that is acknowledged completes nothing. */
START_TEST(ack_of_a_part)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_SEND, 3 * PEER_MTU, 0);
	peer_see_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	world_expect_none(peer.node, MS);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* PSNs have 24 bits (IBA 9.7.1): what an application gives above them means nothing. */
START_TEST(psns_of_32_bits)
{
	struct connection c = world_connection;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct peer peer;

	c.psn |= 0xff000000;
	peer_create_requester(&peer, &c);
	qp_query(peer.qp, &attr, &init);
	ck_assert_uint_eq(attr.sq_psn, FIRST_PSN);
	ck_assert_uint_eq(attr.rq_psn, FIRST_PSN);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_send(&peer, &(struct peer_packet){RC(WIRE_SEND_ONLY), .psn = FIRST_PSN, .length = 8});
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 100, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* Of PSNs never sent, or acknowledged long ago, reserved types and codes: all are ignored. */
START_TEST(ghosts)
{
	static const uint8_t reserved[] = {0x64, 0x65, 0x70, 0x7f, 0x40, 0x5f, 0x9f, 0xe1};
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);

	peer_post(&peer, IBV_WR_SEND, 8, 1);
	peer_see_requests(&peer, FIRST_PSN + 1, 1);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x60);
	peer_acknowledge(&peer, FIRST_PSN + 0x7fffff, 0x61);
	peer_acknowledge(&peer, FIRST_PSN, 0x1f);
	peer_acknowledge(&peer, FIRST_PSN, 0x63);
	peer_acknowledge(&peer, FIRST_PSN - 1, 0x60);
	for (int i = 0; i < LENGTH(reserved); i++)
		peer_acknowledge(&peer, FIRST_PSN + 1, reserved[i]);
	peer_see_none(&peer, 100000);
	world_expect_none(peer.node, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(peer.node->hca->counters->rcvd_rnr_err, 0);
	ck_assert_uint_eq(peer.node->hca->counters->rcvd_seq_err, 0);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x1f);
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

	peer_create_requester(&peer, NULL);
	for (uint64_t i = 0; i < 5; i++)
		peer_post(&peer, i == 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 8, i);
	peer_see_requests(&peer, FIRST_PSN, 5);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x61 + _i);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_expect_failure(&peer, 2, 5, status[_i]);
	peer_acknowledge(&peer, FIRST_PSN + 4, 0x1f);
	world_expect_none(peer.node, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* --- requests ------------------------------------------------------------------------ */

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
	peer_create_requester(&peer, &c);
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

	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn, 0x1f, 0);
	wc = world_completion(peer.node, MS);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_ATOMIC_WRITE);
	peer_see_requests(&peer, c.psn + 4, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 2, 0x1f, 0);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	wc = world_completion(peer.node, MS);
	ck_assert_uint_eq(wc.wr_id, 2);
	ck_assert_int_eq(wc.opcode, WC_FLUSH);
	/* Its answer was lost: it is asked for again. */
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 4, 0x1f, 0);
	packet = peer_see_op(&peer, "RC_FLUSH");
	ck_assert_uint_eq(packet.psn, (c.psn + 3) & PSN_MASK);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 3, 0x1f, 0);
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
		{WIRE_READ_RESPONSE_FIRST, 0x1f, 0, IBV_WC_BAD_RESP_ERR},
		{WIRE_ATOMIC_ACKNOWLEDGE, 0x1f, 0, IBV_WC_BAD_RESP_ERR},
		{WIRE_ACKNOWLEDGE, 0x61, 0, IBV_WC_REM_INV_REQ_ERR},
		{WIRE_ACKNOWLEDGE, 0x62, 0, IBV_WC_REM_ACCESS_ERR},
	};
	struct peer peer;

	peer_create_requester(&peer, NULL);
	/* Of a READ that had its place. */
	send_queue_at(&peer.qp->sq, 0)->read_in_parts = true;
	peer_flush(&peer, FLUSH_RANGE, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_respond(&peer, answers[_i].operation, FIRST_PSN, answers[_i].syndrome,
		     answers[_i].length);
	peer_expect_failure(&peer, 0, 1, answers[_i].status);
	peer_destroy(&peer);
}
END_TEST

/* max_rd_atomic of them at a time; the next one holds up all that is behind it. */
START_TEST(rd_atomic_limit)
{
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = 2;
	peer_create_requester(&peer, &c);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 0);
	peer_post(&peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 2);
	peer_post(&peer, IBV_WR_SEND, 8, 3);
	peer_see_requests(&peer, c.psn, 2);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn, 0x1f, 8);
	peer_see_requests(&peer, c.psn + 2, 2);
	peer_respond(&peer, WIRE_ATOMIC_ACKNOWLEDGE, c.psn + 1, 0x1f, 0);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 2, 0x1f, 8);
	peer_acknowledge(&peer, c.psn + 3, 0x1f);
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
	peer_create_requester(&peer, &c);
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
	peer_see_requests(&peer, c.psn, 4); /* the second READ waits for the first */
	expect_in_flight(&peer, 3, 1);
	peer_acknowledge(&peer, c.psn + 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	expect_in_flight(&peer, 1, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 2, 0x1f, 8);
	peer_see_requests(&peer, c.psn + 4, 2);
	expect_in_flight(&peer, 2, 1);
	peer_respond(&peer, WIRE_READ_RESPONSE_ONLY, c.psn + 4, 0x1f, 8);
	peer_acknowledge(&peer, c.psn + 5, 0x1f);
	for (uint64_t i = 2; i < 6; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	expect_in_flight(&peer, 0, 0);
	peer_destroy(&peer);
}
END_TEST

/* What is flushed leaves the window to the other queue pairs, though this one stays in ERR. */
START_TEST(an_error_gives_it_back)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&peer, IBV_WR_SEND, 8, i);
	peer_see_requests(&peer, FIRST_PSN, 3);
	expect_in_flight(&peer, 3, 0);
	world_modify_state(peer.qp, IBV_QPS_ERR);
	expect_in_flight(&peer, 0, 0);
	peer_destroy(&peer);
}
END_TEST

/*
 * IBA 9.7.2: no more than half of the PSNs are given out at a time. The longest READ alone takes
 * that many, where the path MTU is the smallest.
 */
START_TEST(half_of_the_psns)
{
	enum { MTU = 256 };
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;

	c.mtu = IBV_MTU_256;
	peer_create_requester(&peer, &c);
	if (_i) {
		peer_post(&peer, IBV_WR_SEND, 8, 0);
		peer_see_requests(&peer, c.psn, 1);
	}
	peer_post(&peer, IBV_WR_RDMA_READ, (UINT32_C(1) << 31) - _i * MTU, 1);
	if (_i) {
		peer_see_none(&peer, 10000);
		peer_acknowledge(&peer, c.psn, 0x1f);
	}
	packet = peer_see_op(&peer, "RC_RDMA_READ_REQUEST");
	ck_assert_uint_eq(packet.psn, (c.psn + _i) & PSN_MASK);
	peer_destroy(&peer);
}
END_TEST

/* Nor for a message of one packet, however large the window is. */
START_TEST(half_of_the_psns_and_one)
{
	struct connection c = world_connection;
	struct peer peer;

	c.mtu = IBV_MTU_256;
	c.rd_atomic = 1;
	peer_create_requester(&peer, &c);
	peer.qp->recovery.destination->cwnd.size.limit = UINT64_C(1) << 40;
	peer_post(&peer, IBV_WR_RDMA_READ, (UINT32_C(1) << 31) - 256, 0);
	peer_see_requests(&peer, c.psn, 1);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	peer_see_none(&peer, 10000);
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

	peer_create_requester(&peer, NULL);
	sge = (struct ibv_sge){(uintptr_t)peer.memory, 8, peer.mr->ibv.lkey};
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	wr.wr_id = 1;
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	peer_see_requests(&peer, FIRST_PSN, 2);
	peer_post(&peer, IBV_WR_RDMA_READ, 2 * PEER_MTU, 2);
	wr.wr_id = 3;
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	peer_post(&peer, IBV_WR_SEND, 8, 4);
	peer_see_requests(&peer, FIRST_PSN + 2, 1);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x1f);
	peer_respond(&peer, WIRE_READ_RESPONSE_FIRST, FIRST_PSN + 2, 0x1f, PEER_MTU);
	peer_see_none(&peer, 10000);
	peer_respond(&peer, WIRE_READ_RESPONSE_LAST, FIRST_PSN + 3, 0x1f, PEER_MTU);
	peer_see_requests(&peer, FIRST_PSN + 4, 2);
	peer_acknowledge(&peer, FIRST_PSN + 5, 0x1f);
	for (uint64_t i = 0; i < 5; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/*
 * IBA 9.2.3: SE is on the last packet of what completes a receive, and only there.
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
		{IBV_WR_RDMA_WRITE, 8, 1, -1},
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

	peer_create_requester(&peer, NULL);
	sge = (struct ibv_sge){(uintptr_t)peer.memory, tests[_i].length, peer.mr->ibv.lkey};
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	for (int i = 0; i < tests[_i].packets; i++) {
		struct packet packet = peer_see(&peer);

		ck_assert_int_eq(packet.solicited, i == tests[_i].marked);
		/* The last packet of every message asks for its acknowledgement. */
		if (i + 1 == tests[_i].packets)
			ck_assert(packet.ack_request);
	}
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

/*
 * A long message asks for acknowledgements on its way; and what
 * goes last before the window is full does, since only that opens it again.
 */
START_TEST(acks_on_the_way)
{
	uint32_t sent = 0, asked = 0, more = 0;
	struct packet packet, last = {0};
	struct peer peer;

	peer_create_requester(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_WRITE, PEER_MEMORY, 0);
	while (peer_wait(&peer, &packet, 10000)) {
		last = packet;
		sent++;
		asked += packet.ack_request;
	}
	ck_assert_uint_lt(sent, PEER_MEMORY / PEER_MTU);
	ck_assert_uint_ge(asked, 2);
	ck_assert(last.ack_request);
	peer_acknowledge(&peer, last.psn, 0x1f);
	while (peer_wait(&peer, &packet, 10000))
		more++;
	ck_assert_uint_eq(sent + more, PEER_MEMORY / PEER_MTU);
	peer_acknowledge(&peer, last.psn + more, 0x1f);
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

	peer_create_requester(&peer, NULL);
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

/* IBA 10.3.1.4: only from RTS on. */
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
	peer_see_requests(&peer, c->psn, 1);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("requester");

	tcase_add_test(tcase, one_ack_for_many);
	tcase_add_test(tcase, it_is_the_peers_turn);
	tcase_add_test(tcase, ack_of_a_part);
	tcase_add_test(tcase, psns_of_32_bits);
	tcase_add_test(tcase, ghosts);
	tcase_add_loop_test(tcase, fatal_nak, 0, 3);
	tcase_add_test(tcase, atomic_write_and_flush);
	tcase_add_loop_test(tcase, bad_answer_to_flush, 0, 5);
	tcase_add_test(tcase, rd_atomic_limit);
	tcase_add_test(tcase, a_list_takes_no_more_than_it_sends);
	tcase_add_test(tcase, an_error_gives_it_back);
	tcase_add_loop_test(tcase, half_of_the_psns, 0, 2);
	tcase_add_test(tcase, half_of_the_psns_and_one);
	tcase_add_test(tcase, fence);
	tcase_add_loop_test(tcase, solicited, 0, 9);
	tcase_add_test(tcase, acks_on_the_way);
	tcase_add_loop_test(tcase, the_window_says_how_often, 0, LENGTH(requests_for_acks));
	tcase_add_test(tcase, post_by_state);
	return world_main("requester", (TCase *const[]){tcase, NULL});
}
