/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the responder does with requests that come again or too early
 * (IBA 9.7.5.1, 9.7.5.2.3).
 */
#include <stdlib.h>
#include <string.h>

#include "emu/transport/outbox.h"
#include "peer.h"

static void write_to(struct peer *peer, uint32_t psn, uint8_t value)
{
	uint8_t data[8];
	struct peer_packet p = {RC(WIRE_WRITE_ONLY),	       .psn = psn & PSN_MASK,
				.length = sizeof(data),	       .payload = data,
				.va = (uintptr_t)peer->memory, .rkey = peer->mr->ibv.rkey,
				.dma_length = sizeof(data)};

	memset(data, value, sizeof(data));
	peer_send(peer, &p);
}

/* IBA 9.7.5.2.3: one NAK for a gap, then silence until what was expected comes. */
START_TEST(one_nak_a_gap)
{
	bool drops = _i;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer.node->hca->behaviour.drops_out_of_order = drops;
	write_to(&peer, FIRST_PSN, 1);
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	write_to(&peer, FIRST_PSN + 2, 2);
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	for (uint32_t i = 0; i < 5; i++) {
		write_to(&peer, FIRST_PSN + 2 + i, 2);
		peer_see_none(&peer, 10000);
	}
	ck_assert_uint_eq(peer.memory[0], 1);
	ck_assert_uint_eq(peer.node->hca->counters->out_of_seq_request, 6);
	ck_assert_uint_eq(peer.qp->observed->done.losses.packets_kept, drops ? 0 : 5);
	write_to(&peer, FIRST_PSN + 1, 3);
	peer_see_ack(&peer, FIRST_PSN + (drops ? 1 : 6), 0x1f);
	ck_assert_uint_eq(peer.memory[0], drops ? 3 : 2);
	write_to(&peer, FIRST_PSN + 8, 4);
	peer_see_ack(&peer, FIRST_PSN + (drops ? 2 : 7), 0x60);
	write_to(&peer, FIRST_PSN + 1 + 0x7fffff, 5); /* the farthest ahead */
	peer_see_none(&peer, 10000);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

static void request_acknowledge(struct peer *peer, uint32_t psn, uint8_t operation, bool asks)
{
	struct peer_packet p = {.opcode = WIRE_RC | operation,
				.psn = psn & PSN_MASK,
				.no_ack_request = !asks,
				.va = (uintptr_t)peer->memory,
				.rkey = peer->mr->ibv.rkey,
				.dma_length = 0};

	peer_send(peer, &p);
}

/*
 * A gap closes before its NAK has left. If there is one more the requester hasn't heard of any: it
 * is told of that one. If not it gets the acknowledgement that it had asked for.
 */
START_TEST(nak_that_is_not_sent)
{
	static const struct {
		uint32_t ahead;
		uint8_t operation;
		bool drops;
		uint8_t syndrome;
	} cases[] = {
		{2, WIRE_WRITE_ONLY, false, 0x1f},
		{2, WIRE_WRITE_ONLY, true, 0x60},
		{2, WIRE_FETCH_ADD, false, 0x60},
		{3, WIRE_WRITE_ONLY, false, 0x60},
	};
	bool kept = cases[_i].syndrome == 0x1f;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer.node->hca->behaviour.drops_out_of_order = cases[_i].drops;
	request_acknowledge(&peer, FIRST_PSN, WIRE_WRITE_ONLY, true);
	request_acknowledge(&peer, FIRST_PSN + cases[_i].ahead, cases[_i].operation, false);
	request_acknowledge(&peer, FIRST_PSN + 1, WIRE_WRITE_ONLY, false);
	peer_see_ack(&peer, FIRST_PSN + 2, cases[_i].syndrome);
	peer_see_none(&peer, 10000);
	for (uint32_t i = kept ? 3 : 2; i < 4; i++)
		request_acknowledge(&peer, FIRST_PSN + i, WIRE_WRITE_ONLY, true);
	peer_see_ack(&peer, FIRST_PSN + 3, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.5.1: not executed again; the latest PSN and MSN are acknowledged. */
START_TEST(duplicate_data)
{
	struct peer_packet send = {RC(WIRE_SEND_ONLY), .psn = FIRST_PSN, .length = 8};
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_receive(&peer, 100, 0);
	peer_send(&peer, &send);
	write_to(&peer, FIRST_PSN + 1, 7);
	peer_see_ack(&peer, FIRST_PSN + 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.memory[0], 7);
	memset(peer.memory, 99, 8);
	peer_receive(&peer, 100, 1);
	for (int i = 0; i < 4; i++) {
		/* An error in a duplicate isn't looked at: key, length, sequence. */
		send.opcode = i < 2 ? WIRE_SEND_ONLY : WIRE_SEND_LAST;
		if (i % 2)
			peer_send(&peer, &send);
		else
			write_to(&peer, FIRST_PSN + 1, 7);
		packet = peer_see(&peer);
		ck_assert_uint_eq(packet_syndrome(&packet), 0x1f);
		ck_assert_uint_eq(packet.psn, FIRST_PSN + 1);
		ck_assert_uint_eq(packet_msn(&packet), 2);
	}
	write_to(&peer, FIRST_PSN + 2 - 0x800000, 7); /* the farthest behind */
	peer_see_ack(&peer, FIRST_PSN + 1, 0x1f);
	ck_assert_uint_eq(peer.memory[0], 99);
	world_expect_none(peer.node, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* A duplicate that comes with what is behind a gap is answered by the gap's NAK (IBA 9.7.5.1.2). */
START_TEST(duplicate_behind_a_gap)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	write_to(&peer, FIRST_PSN, 1);
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	write_to(&peer, FIRST_PSN + 2, 2);
	write_to(&peer, FIRST_PSN, 1);
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

/* RNR is never the answer to a duplicate. */
START_TEST(duplicate_without_receive)
{
	struct peer_packet send = {RC(WIRE_SEND_ONLY), .psn = FIRST_PSN, .length = 8};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_receive(&peer, 100, 0);
	peer_send(&peer, &send);
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	peer_send(&peer, &send);
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	peer_destroy(&peer);
}
END_TEST

static struct peer_packet read_request(const struct peer *peer, uint32_t psn, uint32_t first,
				       uint32_t length)
{
	return (struct peer_packet){RC(WIRE_READ_REQUEST), .psn = psn & PSN_MASK,
				    .va = (uintptr_t)peer->memory + first * PEER_MTU,
				    .rkey = peer->mr->ibv.rkey, .dma_length = length};
}

/* Responses with PSNs from @psn on, @length bytes in all, each byte @value. */
static void expect_read(struct peer *peer, uint32_t psn, uint32_t length, uint8_t value)
{
	uint32_t packets = (length + PEER_MTU - 1) / PEER_MTU;

	for (uint32_t i = 0; i < packets; i++) {
		struct packet packet = peer_see(peer);
		uint32_t rest = length - i * PEER_MTU;

		ck_assert(packet.op->flags & OPCODE_READ);
		ck_assert_int_eq(!!(packet.op->flags & OPCODE_LAST), i + 1 == packets);
		ck_assert_uint_eq(packet.psn, (psn + i) & PSN_MASK);
		ck_assert_uint_eq(packet.payload_length, rest < PEER_MTU ? rest : PEER_MTU);
		for (uint32_t b = 0; b < packet.payload_length; b++)
			must(packet.payload[b] == value);
		if (packet.op->aeth)
			ck_assert_uint_eq(packet_syndrome(&packet), 0x1f);
	}
}

/* A READ is executed again, whole or from some packet on; what doesn't fit it is dropped. */
START_TEST(duplicate_read)
{
	struct ibv_qp_attr local = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
	struct ibv_qp_attr remote = {.qp_access_flags =
					     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
	struct peer_packet read, part;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	memset(peer.memory, 1, 5 * PEER_MTU);
	read = read_request(&peer, FIRST_PSN, 0, 3 * PEER_MTU + 100);
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN, 3 * PEER_MTU + 100, 1);
	memset(peer.memory, 2, 5 * PEER_MTU);
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN, 3 * PEER_MTU + 100, 2);
	part = read_request(&peer, FIRST_PSN + 2, 2, PEER_MTU + 100);
	peer_send(&peer, &part);
	expect_read(&peer, FIRST_PSN + 2, PEER_MTU + 100, 2);
	part = read_request(&peer, FIRST_PSN + 1, 1, PEER_MTU);
	peer_send(&peer, &part);
	expect_read(&peer, FIRST_PSN + 1, PEER_MTU, 2);

	part = read_request(&peer, FIRST_PSN + 1, 2, PEER_MTU); /* another address */
	peer_send(&peer, &part);
	part = read_request(&peer, FIRST_PSN + 1, 1, 3 * PEER_MTU); /* beyond the end */
	peer_send(&peer, &part);
	part = read_request(&peer, FIRST_PSN + 1, 1, 0); /* nothing */
	peer_send(&peer, &part);
	part = read_request(&peer, FIRST_PSN, 0, 3 * PEER_MTU + 100);
	part.rkey++;
	peer_send(&peer, &part);
	part = read_request(&peer, FIRST_PSN - 1, 0, PEER_MTU); /* of before */
	peer_send(&peer, &part);
	part = (struct peer_packet){RC(WIRE_FETCH_ADD), .psn = FIRST_PSN,
				    .va = (uintptr_t)peer.memory, .rkey = peer.mr->ibv.rkey,
				    .swap_or_add = 1};
	peer_send(&peer, &part);
	part = read;
	part.opcode = WIRE_RC | WIRE_FLUSH;
	part.feth = 1;
	peer_send(&peer, &part);
	peer_see_none(&peer, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(peer.memory[0], 2);

	/* So is what the QP allows. */
	ck_assert_int_eq(qp_modify(peer.qp, &local, IBV_QP_ACCESS_FLAGS, 0), 0);
	peer_send(&peer, &read);
	peer_see_none(&peer, MS);
	ck_assert_int_eq(qp_modify(peer.qp, &remote, IBV_QP_ACCESS_FLAGS, 0), 0);
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN, 3 * PEER_MTU + 100, 2);

	/* The key is looked at again; that it is gone is no error of a duplicate. */
	mr_deregister(peer.mr);
	peer_send(&peer, &read);
	peer_see_none(&peer, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_ACCESS_ERR], 0);
	peer.mr = world_mr(peer.node, peer.memory, PEER_MEMORY, world_connection.access);
	request_acknowledge(&peer, FIRST_PSN + 4, WIRE_WRITE_ONLY, true);
	peer_see_ack(&peer, FIRST_PSN + 4, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* Nor does it hold up what comes behind it: another READ is answered, then a bad one refused. */
START_TEST(duplicate_read_without_region)
{
	struct peer_packet read;
	struct peer peer;
	struct mr *mr;

	peer_create(&peer, IBV_QPT_RC, NULL);
	mr = world_mr(peer.node, peer.memory, PEER_MTU, IBV_ACCESS_REMOTE_READ);
	read = read_request(&peer, FIRST_PSN, 0, 100);
	read.rkey = mr->ibv.rkey;
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN, 100, 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	peer_send(&peer, &read);
	read = read_request(&peer, FIRST_PSN + 1, 0, 100);
	peer_send(&peer, &read);
	read = read_request(&peer, FIRST_PSN + 2, 0, PEER_MEMORY + 1);
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN + 1, 100, 0);
	peer_see_ack(&peer, FIRST_PSN + 2, 0x62);
	peer_see_none(&peer, MS);
	peer_destroy(&peer);
}
END_TEST

/* Parts of an answer that are asked for together are given in order, too many of them as one. */
START_TEST(duplicate_parts)
{
	enum { PACKETS = 40 };
	static const struct {
		uint32_t first, count;
	} asked[] = {{20, 2}, {5, 1}, {6, 1}, {4, 1}, {30, 3}, {1, 2}, {38, 2}, {21, 4}, {10, 1}},
	  few[] = {{1, 2}, {4, 3}, {10, 15}, {30, 10}};
	struct peer_packet part;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	part = read_request(&peer, FIRST_PSN, 0, PACKETS * PEER_MTU);
	peer_send(&peer, &part);
	expect_read(&peer, FIRST_PSN, PACKETS * PEER_MTU, 0);
	for (unsigned int i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		part = read_request(&peer, FIRST_PSN + asked[i].first, asked[i].first,
				    asked[i].count * PEER_MTU);
		peer_send(&peer, &part);
	}
	for (unsigned int i = 0; i < sizeof(few) / sizeof(few[0]); i++)
		expect_read(&peer, FIRST_PSN + few[i].first, few[i].count * PEER_MTU, 0);
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.5.2.4: what is wrong in an answer is told, though the READ came twice meanwhile. */
START_TEST(duplicate_within_answer)
{
	const uint32_t length = 16 * OUTBOX_PACKETS * PEER_MTU; /* more than is sent at once */
	uint8_t *memory = calloc(1, length);
	struct peer_packet read = {RC(WIRE_READ_REQUEST), .psn = FIRST_PSN, .va = (uintptr_t)memory,
				   .dma_length = length};
	struct peer peer;
	struct mr *mr;

	peer_create(&peer, IBV_QPT_RC, NULL);
	mr = world_mr(peer.node, memory, length, IBV_ACCESS_REMOTE_READ);
	read.rkey = mr->ibv.rkey;
	for (int i = 0; i < 2; i++) {
		peer_send(&peer, &read);
		sim_advance(peer.world.sim, world_now(&peer.world) + 1000);
		hca_progress(peer.node->hca, world_now(&peer.world));
	}
	ck_assert_int_eq(mr_deregister(mr), 0);
	world_run(&peer.world, MS);
	ck_assert_uint_lt(peer.node->hca->counters->sent_pkts, length / PEER_MTU);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_ACCESS_ERR], 1);
	peer_destroy(&peer);
	free(memory);
}
END_TEST

static struct peer_packet fetch_add(const struct peer *peer)
{
	return (struct peer_packet){RC(WIRE_FETCH_ADD), .psn = FIRST_PSN,
				    .va = (uintptr_t)peer->memory, .rkey = peer->mr->ibv.rkey,
				    .swap_or_add = 5};
}

static void expect_atomic(struct peer *peer, uint32_t psn, uint64_t original, uint32_t msn)
{
	struct packet packet = peer_see_op(peer, "RC_ATOMIC_ACKNOWLEDGE");
	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
	ck_assert_uint_eq(be64toh(packet_atomicacketh(&packet)->original), original);
	ck_assert_uint_eq(packet_msn(&packet), msn);
}

/* The first @count requests; only the last @answered of them have an answer. */
static void add_each(struct peer *peer, uint32_t count, uint32_t answered)
{
	struct peer_packet add = fetch_add(peer);

	for (uint32_t i = 0; i < count; i++) {
		add.psn = (FIRST_PSN + i) & PSN_MASK;
		peer_send(peer, &add);
		if (i + answered < count)
			peer_see_none(peer, 10000);
		else
			expect_atomic(peer, FIRST_PSN + i, 5 * i, i + 1);
	}
}

/* Atomics are executed once; the result is kept for max_dest_rd_atomic of them. */
START_TEST(duplicate_atomic)
{
	enum { KEPT = 4, DONE = 10 };
	struct connection c = world_connection;
	struct peer_packet add;
	struct peer peer;

	c.rd_atomic = KEPT;
	peer_create(&peer, IBV_QPT_RC, &c);
	add_each(&peer, DONE, DONE);
	add_each(&peer, DONE, KEPT);
	add = fetch_add(&peer);
	add.psn = (c.psn + DONE - 1) & PSN_MASK;
	add.opcode = WIRE_COMPARE_SWAP; /* that isn't what was asked */
	peer_send(&peer, &add);
	peer_see_none(&peer, 10000);
	peer_send(&peer, &(struct peer_packet){RC(WIRE_READ_REQUEST), .psn = add.psn});
	peer_see_none(&peer, 10000);
	ck_assert_uint_eq(*(uint64_t *)peer.memory, 5 * DONE);
	write_to(&peer, c.psn + DONE, 1);
	peer_see_ack(&peer, c.psn + DONE, 0x1f);
	add.opcode = WIRE_FETCH_ADD;
	add.psn = (c.psn + DONE) & PSN_MASK; /* that was no atomic */
	peer_send(&peer, &add);
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

/* Where max_dest_rd_atomic changes the latest of them stay, as many as it allows. */
START_TEST(duplicate_atomic_of_another_depth)
{
	enum { KEPT = 4, DONE = 10 };
	const struct ibv_qp_attr attr = {.max_dest_rd_atomic = _i};
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = KEPT;
	peer_create(&peer, IBV_QPT_RC, &c);
	add_each(&peer, DONE, DONE);
	world_modify_state(peer.qp, IBV_QPS_SQD);
	ck_assert_int_eq(world_modify(peer.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	add_each(&peer, DONE, _i < KEPT ? _i : KEPT);
	peer_destroy(&peer);
}
END_TEST

/* The PSNs have come round: of two atomics with the same one it is the latest that comes again. */
START_TEST(duplicate_of_the_latest)
{
	struct peer_packet add;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	add = fetch_add(&peer);
	for (uint64_t i = 0; i < 2; i++) {
		peer.qp->responder.expected_psn = FIRST_PSN;
		peer_send(&peer, &add);
		expect_atomic(&peer, FIRST_PSN, 5 * i, i + 1);
	}
	peer_send(&peer, &add);
	expect_atomic(&peer, FIRST_PSN, 5, 2);
	peer_destroy(&peer);
}
END_TEST

/* Annex A19: the answer comes again, and nothing is executed again. */
START_TEST(duplicate_atomic_write_and_flush)
{
	static const uint8_t value[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	struct peer_packet packets[] = {
		{RC(WIRE_ATOMIC_WRITE), .psn = FIRST_PSN, .length = 8, .dma_length = 8,
		 .payload = value, .va = (uintptr_t)peer.memory, .rkey = peer.mr->ibv.rkey},
		{RC(WIRE_FLUSH), .psn = FIRST_PSN + 1, .feth = 1, .dma_length = 8,
		 .va = (uintptr_t)peer.memory, .rkey = peer.mr->ibv.rkey},
	};

	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 2; i++) {
			struct packet packet;

			peer_send(&peer, &packets[i]);
			packet = peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
			ck_assert_uint_eq(packet.psn, (FIRST_PSN + i) & PSN_MASK);
			ck_assert_uint_eq(packet.payload_length, 0);
			ck_assert_uint_eq(packet_msn(&packet), i + 1);
		}
		ck_assert_uint_eq(peer.memory[0], round == 0 ? 1 : 7);
		memset(peer.memory, 7, 8);
		/* What is wrong in a duplicate isn't looked at. */
		packets[0].rkey = packets[1].rkey = 0xdead0001;
	}
	/* That isn't what was asked. */
	packets[0].opcode = WIRE_RC | WIRE_FETCH_ADD;
	packets[0].length = 0;
	peer_send(&peer, &packets[0]);
	peer_see_none(&peer, 10000);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.5.1.4: acknowledgements don't overtake responses, neither the first time nor again. */
START_TEST(responses_in_order)
{
	struct peer_packet read;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	read = read_request(&peer, FIRST_PSN, 1, 2 * PEER_MTU);
	for (int i = 0; i < 3; i++) {
		peer_send(&peer, &read);
		write_to(&peer, FIRST_PSN + 2, 1);
		expect_read(&peer, FIRST_PSN, 2 * PEER_MTU, 0);
		peer_see_ack(&peer, FIRST_PSN + 2, 0x1f);
	}
	/* A repeated answer doesn't stand for the acknowledgement of what came after. */
	write_to(&peer, FIRST_PSN + 3, 1);
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN, 2 * PEER_MTU, 0);
	peer_see_ack(&peer, FIRST_PSN + 3, 0x1f);
	peer_destroy(&peer);
}
END_TEST

/* Nor do they where an answer takes all of one turn, before another READ's, or several turns. */
START_TEST(long_responses_in_order)
{
	const bool several = _i;
	const uint32_t packets = several ? 3 * OUTBOX_PACKETS : OUTBOX_PACKETS;
	const uint32_t length = packets * PEER_MTU, next = FIRST_PSN + packets;
	uint8_t *memory = calloc(1, length);
	struct peer_packet read;
	struct peer peer;
	struct mr *mr;

	peer_create(&peer, IBV_QPT_RC, NULL);
	mr = world_mr(peer.node, memory, length, IBV_ACCESS_REMOTE_READ);
	peer_send(&peer, &(struct peer_packet){RC(WIRE_READ_REQUEST), .psn = FIRST_PSN,
					       .va = (uintptr_t)memory, .rkey = mr->ibv.rkey,
					       .dma_length = length});
	read = read_request(&peer, next, 0, 100);
	if (!several)
		peer_send(&peer, &read);
	/* There is no receive for it, which is told at once. */
	request_acknowledge(&peer, next + !several, WIRE_SEND_ONLY, true);
	expect_read(&peer, FIRST_PSN, length, 0);
	if (!several)
		expect_read(&peer, next, 100, 0);
	peer_see_ack(&peer, next + !several, AETH_RNR_NAK | world_connection.min_rnr_timer);
	ck_assert_int_eq(mr_deregister(mr), 0);
	peer_destroy(&peer);
	free(memory);
}
END_TEST

/*
 * One that comes between two turns of a long answer asks again for what was sent: a few packets, or
 * all. Then the region goes: the NAK is of what hasn't been sent, since the requester drops one
 * of a packet that was answered.
 */
START_TEST(duplicate_of_answer_that_fails)
{
	enum { PACKETS = 3 * OUTBOX_PACKETS, LENGTH = PACKETS * PEER_MTU };
	uint8_t *memory = calloc(1, LENGTH);
	struct peer_packet read;
	struct packet packet;
	struct peer peer;
	struct mr *mr;

	peer_create(&peer, IBV_QPT_RC, NULL);
	mr = world_mr(peer.node, memory, LENGTH, IBV_ACCESS_REMOTE_READ);
	read = (struct peer_packet){RC(WIRE_READ_REQUEST), .psn = FIRST_PSN,
				    .va = (uintptr_t)memory, .rkey = mr->ibv.rkey,
				    .dma_length = LENGTH};
	for (int turn = 0; turn < 2; turn++) {
		peer_send(&peer, &read);
		sim_advance(peer.world.sim, world_now(&peer.world) + 1000);
		if (turn)
			ck_assert_int_eq(mr_deregister(mr), 0);
		hca_progress(peer.node->hca, world_now(&peer.world));
		if (_i)
			read.dma_length = _i * PEER_MTU;
	}
	for (uint32_t i = 0; i < 2 * OUTBOX_PACKETS; i++)
		ck_assert_uint_eq(peer_see(&peer).psn, (FIRST_PSN + i) & PSN_MASK);
	packet = peer_see(&peer);
	ck_assert_uint_eq(packet_syndrome(&packet), AETH_NAK_REMOTE_ACCESS);
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 2 * OUTBOX_PACKETS) & PSN_MASK);
	peer_see_none(&peer, MS);
	peer_destroy(&peer);
	free(memory);
}
END_TEST

/* A duplicate of the oldest READ, just before the next new one, isn't one READ too many. */
START_TEST(duplicate_before_next_read)
{
	struct connection c = world_connection;
	struct peer_packet read;
	struct peer peer;

	c.rd_atomic = 1;
	peer_create(&peer, IBV_QPT_RC, &c);
	read = read_request(&peer, FIRST_PSN, 0, 100);
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN, 100, 0);
	peer_send(&peer, &read);
	read.psn++;
	peer_send(&peer, &read);
	expect_read(&peer, FIRST_PSN + 1, 100, 0);
	peer_see_none(&peer, 10000);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("duplicate");

	tcase_add_loop_test(tests, one_nak_a_gap, 0, 2);
	tcase_add_loop_test(tests, nak_that_is_not_sent, 0, 4);
	tcase_add_test(tests, duplicate_data);
	tcase_add_test(tests, duplicate_behind_a_gap);
	tcase_add_test(tests, duplicate_without_receive);
	tcase_add_test(tests, duplicate_read);
	tcase_add_test(tests, duplicate_read_without_region);
	tcase_add_test(tests, duplicate_parts);
	tcase_add_test(tests, duplicate_within_answer);
	tcase_add_test(tests, duplicate_atomic);
	tcase_add_loop_test(tests, duplicate_atomic_of_another_depth, 0, 6);
	tcase_add_test(tests, duplicate_of_the_latest);
	tcase_add_test(tests, duplicate_atomic_write_and_flush);
	tcase_add_test(tests, responses_in_order);
	tcase_add_loop_test(tests, long_responses_in_order, 0, 2);
	tcase_add_loop_test(tests, duplicate_of_answer_that_fails, 0, 3);
	tcase_add_test(tests, duplicate_before_next_read);
	return world_main("duplicate", (TCase *const[]){tests, NULL});
}
