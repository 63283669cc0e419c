/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the payload of SENDs, RDMA WRITEs and READ responses goes that arrives behind a gap. */
#include <string.h>

#include "peer.h"

#define VALUE(i) (0x10 + (i)) /* of each byte of the packet FIRST_PSN + i */

struct write {
	uint8_t operation;
	uint32_t index; /* of its PSN */
	uint32_t place; /* FIRST: where the message goes, and how long it is, in packets */
	uint32_t packets;
	uint32_t length; /* 0: the path MTU */
};

static void send_write(struct peer *peer, const struct write *write)
{
	uint8_t data[PEER_MTU];
	struct peer_packet p = {RC(write->operation),
				.psn = (FIRST_PSN + write->index) & PSN_MASK,
				.length = write->length ? write->length : PEER_MTU,
				.payload = data,
				.va = (uintptr_t)peer->memory + write->place * PEER_MTU,
				.rkey = peer->mr->ibv.rkey,
				.dma_length = write->packets * PEER_MTU};

	memset(data, VALUE(write->index), sizeof(data));
	peer_send(peer, &p);
}

/* What the packet in the peer's memory at @place begins with. */
static uint8_t at(const struct peer *peer, uint32_t place)
{
	return peer->memory[place * PEER_MTU];
}

/* But the first packet of a message at place 1. */
static void expect_nothing_placed(const struct peer *peer)
{
	for (uint32_t place = 2; place < 16; place++)
		ck_assert_uint_eq(at(peer, place), 0);
}

/* Its memory has no packet's value. */
static void create_empty(struct peer *peer)
{
	peer_create(peer, IBV_QPT_RC, NULL);
	memset(peer->memory, 0, PEER_MEMORY);
}

static void peer_begin(struct peer *peer)
{
	create_empty(peer);
	send_write(peer, &(struct write){WIRE_WRITE_FIRST, 0, .place = 1, .packets = 4});
}

START_TEST(placed_before_its_turn)
{
	struct peer peer;

	peer_begin(&peer);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 2});
	send_write(&peer, &(struct write){WIRE_WRITE_LAST, 3});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	ck_assert_uint_eq(at(&peer, 1), VALUE(0));
	ck_assert_uint_eq(at(&peer, 2), 0);
	ck_assert_uint_eq(at(&peer, 3), VALUE(2));
	ck_assert_uint_eq(at(&peer, 4), 0); /* a program that waits for it to change has all */
	/* It isn't written again in its turn. */
	peer.memory[3 * PEER_MTU] = 99;
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 1});
	peer_see_ack(&peer, FIRST_PSN + 3, 0x1f);
	ck_assert_uint_eq(at(&peer, 2), VALUE(1));
	ck_assert_uint_eq(at(&peer, 3), 99);
	ck_assert_uint_eq(at(&peer, 4), VALUE(3));
	peer_destroy(&peer);
}
END_TEST

/* They keep what they bring until it is known where it belongs. */
START_TEST(of_the_next_message)
{
	struct peer peer;

	peer_begin(&peer);
	send_write(&peer, &(struct write){WIRE_WRITE_LAST, 3});
	send_write(&peer, &(struct write){WIRE_WRITE_FIRST, 4, .place = 10, .packets = 3});
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 5});
	send_write(&peer, &(struct write){WIRE_WRITE_LAST, 6});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	expect_nothing_placed(&peer);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 1});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x1f);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 2});
	peer_see_ack(&peer, FIRST_PSN + 6, 0x1f);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(at(&peer, 1 + i), VALUE(i));
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(at(&peer, 10 + i), VALUE(4 + i));
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.4.1.2 and 9.7.4.1.6: what can't be is found out in its turn, and nothing written. */
START_TEST(bad_ones_wait_for_their_turn)
{
	static const struct write bad[] = {
		{WIRE_WRITE_LAST, 2},
		{WIRE_WRITE_LAST, 3, .length = 8},
		{WIRE_WRITE_MIDDLE, 2, .length = 8},
		{WIRE_SEND_MIDDLE, 2},
	};
	struct peer peer;

	peer_begin(&peer);
	send_write(&peer, &bad[_i]);
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	ck_assert_uint_eq(at(&peer, 1 + bad[_i].index), 0);
	for (uint32_t i = 1; i < bad[_i].index; i++)
		send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, i});
	peer_see_ack(&peer, FIRST_PSN + bad[_i].index, 0x61);
	ck_assert_uint_eq(at(&peer, 1 + bad[_i].index), 0);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.4.1.5: each packet is checked in its turn, wherever its payload is. */
START_TEST(the_region_may_go)
{
	struct peer peer;

	peer_begin(&peer);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 2});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	ck_assert_uint_eq(at(&peer, 3), VALUE(2));
	ck_assert_int_eq(mr_deregister(peer.mr), 0);
	peer.mr = world_mr(peer.node, peer.memory, PEER_MEMORY, 0);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 1});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x62);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.4.1.3: the same of what the QP allows. */
START_TEST(the_right_may_go)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_LOCAL_WRITE};
	struct peer peer;

	peer_begin(&peer);
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	ck_assert_int_eq(qp_modify(peer.qp, &attr, IBV_QP_ACCESS_FLAGS, 0), 0);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 2});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	expect_nothing_placed(&peer);
	send_write(&peer, &(struct write){WIRE_WRITE_MIDDLE, 1});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x61);
	expect_nothing_placed(&peer);
	ck_assert_uint_eq(peer.qp->responder.kept.count, 0);
	peer_destroy(&peer);
}
END_TEST

static void send_response(struct peer *peer, uint8_t operation, uint32_t index)
{
	uint8_t data[PEER_MTU];
	struct peer_packet p = {RC(operation), .psn = (FIRST_PSN + index) & PSN_MASK,
				.length = PEER_MTU, .payload = data, .syndrome = 0x1f};

	memset(data, VALUE(index), sizeof(data));
	peer_send(peer, &p);
}

/* A READ of @packets, to memory from @offset on, of @count SGEs. */
static void post_read(struct peer *peer, uint64_t id, uint32_t offset, uint32_t packets,
		      uint32_t count)
{
	uint32_t part = packets * PEER_MTU / count;
	struct ibv_sge sges[2];
	struct ibv_send_wr wr = {
		.wr_id = id,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = sges,
		.num_sge = count,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = 0x1000, .rkey = 0x42},
	};

	for (uint32_t i = 0; i < count; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)peer->memory + offset + i * part, part,
					   peer->mr->ibv.lkey};
	ck_assert_int_eq(world_post_send(peer->qp, &wr), 0);
	peer_see_op(peer, "RC_RDMA_READ_REQUEST");
}

static void peer_read(struct peer *peer)
{
	create_empty(peer);
	post_read(peer, 0, 0, 4, 1);
	send_response(peer, WIRE_READ_RESPONSE_FIRST, 0);
}

START_TEST(read_responses)
{
	struct packet packet;
	struct peer peer;

	peer_read(&peer);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 2);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 3);
	packet = peer_see_op(&peer, "RC_RDMA_READ_REQUEST");
	ck_assert_uint_eq(packet.psn, FIRST_PSN + 1);
	ck_assert_uint_eq(at(&peer, 0), VALUE(0));
	ck_assert_uint_eq(at(&peer, 1), 0);
	ck_assert_uint_eq(at(&peer, 2), VALUE(2));
	ck_assert_uint_eq(at(&peer, 3), 0);
	world_expect_none(peer.node, 1000);
	peer.memory[2 * PEER_MTU] = 99;
	send_response(&peer, WIRE_READ_RESPONSE_ONLY, 1);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(at(&peer, 1), VALUE(1));
	ck_assert_uint_eq(at(&peer, 2), 99);
	ck_assert_uint_eq(at(&peer, 3), VALUE(3));
	peer_destroy(&peer);
}
END_TEST

/* Two READs to the same memory: what the second one brings stays, and waits where it has to. */
START_TEST(the_next_read_waits)
{
	struct peer peer;

	peer_read(&peer);
	post_read(&peer, 1, 0, 4, 1);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 2);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 3);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 4);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 5);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 6);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 7);
	peer_see_op(&peer, "RC_RDMA_READ_REQUEST");
	ck_assert_uint_eq(at(&peer, 0), VALUE(4));
	ck_assert_uint_eq(at(&peer, 1), 0);
	ck_assert_uint_eq(at(&peer, 2), VALUE(6));
	ck_assert_uint_eq(at(&peer, 3), 0);
	send_response(&peer, WIRE_READ_RESPONSE_ONLY, 1);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_uint_eq(at(&peer, i), VALUE(4 + i));
	peer_destroy(&peer);
}
END_TEST

/*
 * The second READ goes to @offset; where its FIRST packet is placed while the packet 1 is missing.
 */
static const struct second_read {
	uint32_t offset, sges;
	bool placed;
} second_reads[] = {
	{8 * PEER_MTU, 1, true},      /* not where the first one goes */
	{4 * PEER_MTU, 1, true},      /* just behind it */
	{8 * PEER_MTU, 2, false},     /* not looked at */
	{PEER_MTU, 1, false},	      /* on the missing packet */
	{PEER_MTU / 2, 1, false},     /* on half of it, */
	{3 * PEER_MTU / 2, 1, false}, /* on the other half */
	{2 * PEER_MTU, 1, true},      /* on one that is placed */
	{5 * PEER_MTU / 2, 1, false}, /* on half of the last one, which was kept */
	{3 * PEER_MTU, 1, false},     /* on all of it */
};

START_TEST(of_the_next_read)
{
	const struct second_read *second = &second_reads[_i];
	uint8_t before[PEER_MEMORY];
	struct peer peer;

	peer_read(&peer);
	post_read(&peer, 1, second->offset, 2, second->sges);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 2);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 3);
	peer_see_op(&peer, "RC_RDMA_READ_REQUEST");
	memcpy(before, peer.memory, sizeof(before));
	if (second->placed)
		memset(before + second->offset, VALUE(4), PEER_MTU);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 4);
	world_expect_none(peer.node, 1000);
	ck_assert_mem_eq(peer.memory, before, sizeof(before));
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 5);
	send_response(&peer, WIRE_READ_RESPONSE_ONLY, 1);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 2 * PEER_MTU; i++)
		ck_assert_uint_eq(peer.memory[second->offset + i], VALUE(4 + i / PEER_MTU));
	peer_destroy(&peer);
}
END_TEST

/* Of three READs the third one is where a packet of the second one waits for the first one's. */
START_TEST(of_the_third_read)
{
	struct peer peer;

	peer_read(&peer);
	post_read(&peer, 1, PEER_MTU, 2, 1);
	post_read(&peer, 2, PEER_MTU, 2, 1);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 4);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 5);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 6);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 7);
	world_expect_none(peer.node, 1000);
	ck_assert_uint_eq(at(&peer, 1), 0);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 1);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 2);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 3);
	for (uint64_t id = 0; id < 3; id++)
		world_expect(peer.node, id, IBV_WC_SUCCESS);
	ck_assert_uint_eq(at(&peer, 1), VALUE(6));
	ck_assert_uint_eq(at(&peer, 2), VALUE(7));
	peer_destroy(&peer);
}
END_TEST

/* The third one goes half to where the second one has been placed, half to what is missing. */
START_TEST(of_the_third_read_in_part)
{
	struct peer peer;

	peer_read(&peer);
	post_read(&peer, 1, 2 * PEER_MTU, 2, 1);
	post_read(&peer, 2, 3 * PEER_MTU / 2, 2, 1);
	send_response(&peer, WIRE_READ_RESPONSE_MIDDLE, 2);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 4);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 6);
	world_expect_none(peer.node, 1000);
	ck_assert_uint_eq(at(&peer, 2), VALUE(4));
	ck_assert_uint_eq(peer.memory[2 * PEER_MTU - 1], 0);
	peer_destroy(&peer);
}
END_TEST

/* It isn't known where the first one goes. */
START_TEST(behind_a_read_in_pieces)
{
	struct peer peer;

	create_empty(&peer);
	post_read(&peer, 0, 0, 4, 2);
	post_read(&peer, 1, 8 * PEER_MTU, 2, 1);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 4);
	world_expect_none(peer.node, 1000);
	ck_assert_uint_eq(at(&peer, 8), 0);
	peer_destroy(&peer);
}
END_TEST

/* What an atomic brings takes its turn, and a READ behind it does, too. */
START_TEST(behind_an_atomic)
{
	struct peer peer;

	peer_read(&peer);
	peer_post(&peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 1);
	peer_see_op(&peer, "RC_FETCH_ADD");
	post_read(&peer, 2, 0, 2, 1);
	send_response(&peer, WIRE_READ_RESPONSE_FIRST, 5);
	world_expect_none(peer.node, 1000);
	ck_assert_uint_eq(at(&peer, 0), VALUE(0));
	peer_destroy(&peer);
}
END_TEST

START_TEST(bad_read_responses)
{
	struct peer peer;

	peer_read(&peer);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 2);
	send_response(&peer, WIRE_READ_RESPONSE_LAST, 3);
	peer_see_op(&peer, "RC_RDMA_READ_REQUEST");
	ck_assert_uint_eq(at(&peer, 2), 0);
	world_expect_none(peer.node, 1000);
	peer_destroy(&peer);
}
END_TEST

/* Receives for messages of four packets: 1 at place 1, 2 at place 10. The first message begins. */
static void begin_send(struct peer *peer)
{
	create_empty(peer);
	for (uint32_t id = 1; id <= 2; id++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)peer->memory + (id == 1 ? 1 : 10) * PEER_MTU,
			.length = 4 * PEER_MTU,
			.lkey = peer->mr->ibv.lkey,
		};
		struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

		ck_assert_int_eq(qp_post_recv(peer->qp, &wr, &bad), 0);
	}
	send_write(peer, &(struct write){WIRE_SEND_FIRST, 0});
}

/* The message with @id is complete, is of packets from @first on, and lies at @place. */
static void expect_message(struct peer *peer, uint64_t id, uint32_t place, uint32_t first,
			   uint32_t packets)
{
	struct ibv_wc wc = world_completion(peer->node, SECOND);

	ck_assert_uint_eq(wc.wr_id, id);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, packets * PEER_MTU);
	for (uint32_t i = 0; i < packets; i++)
		ck_assert_uint_eq(at(peer, place + i), VALUE(first + i));
}

/* A single packet between two of the same message is of that, too. */
START_TEST(of_a_send)
{
	struct peer peer;

	begin_send(&peer);
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 2});
	send_write(&peer, &(struct write){WIRE_SEND_LAST, 3});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	ck_assert_uint_eq(at(&peer, 2), 0);
	ck_assert_uint_eq(at(&peer, 3), VALUE(2));
	ck_assert_uint_eq(at(&peer, 4), 0);
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 1});
	peer_see_ack(&peer, FIRST_PSN + 3, 0x1f);
	expect_message(&peer, 1, 1, 0, 4);
	peer_destroy(&peer);
}
END_TEST

/* Two that are missing may be the end of a message and the beginning of the next, and are. */
START_TEST(of_either_send)
{
	struct peer peer;

	begin_send(&peer);
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 3});
	send_write(&peer, &(struct write){WIRE_SEND_LAST, 4});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	expect_nothing_placed(&peer);
	send_write(&peer, &(struct write){WIRE_SEND_LAST, 1});
	send_write(&peer, &(struct write){WIRE_SEND_FIRST, 2});
	peer_see_ack(&peer, FIRST_PSN + 4, 0x1f);
	expect_message(&peer, 1, 1, 0, 2);
	expect_message(&peer, 2, 10, 2, 3);
	ck_assert_uint_eq(at(&peer, 3), 0);
	peer_destroy(&peer);
}
END_TEST

/* The missing packet is the end of the message: behind it there is the next one. */
START_TEST(of_the_next_send)
{
	struct peer peer;

	begin_send(&peer);
	send_write(&peer, &(struct write){WIRE_SEND_FIRST, 2});
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 3});
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 4});
	send_write(&peer, &(struct write){WIRE_SEND_LAST, 5});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	expect_nothing_placed(&peer);
	send_write(&peer, &(struct write){WIRE_SEND_LAST, 1});
	peer_see_ack(&peer, FIRST_PSN + 5, 0x1f);
	expect_message(&peer, 1, 1, 0, 2);
	expect_message(&peer, 2, 10, 2, 4);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.9.2, class C, in its turn: what is longer than its receive isn't placed beyond it. */
START_TEST(of_a_long_send)
{
	struct peer peer;

	begin_send(&peer);
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 2});
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 3});
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 4});
	peer_see_ack(&peer, FIRST_PSN + 1, 0x60);
	ck_assert_uint_eq(at(&peer, 4), VALUE(3));
	ck_assert_uint_eq(at(&peer, 5), 0);
	send_write(&peer, &(struct write){WIRE_SEND_MIDDLE, 1});
	world_expect(peer.node, 1, IBV_WC_LOC_LEN_ERR);
	ck_assert_uint_eq(at(&peer, 5), 0);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("placed_early");

	tcase_add_test(tests, placed_before_its_turn);
	tcase_add_test(tests, of_the_next_message);
	tcase_add_test(tests, of_a_send);
	tcase_add_test(tests, of_either_send);
	tcase_add_test(tests, of_the_next_send);
	tcase_add_test(tests, of_a_long_send);
	tcase_add_loop_test(tests, bad_ones_wait_for_their_turn, 0, 4);
	tcase_add_test(tests, the_region_may_go);
	tcase_add_test(tests, the_right_may_go);
	tcase_add_test(tests, read_responses);
	tcase_add_test(tests, the_next_read_waits);
	tcase_add_loop_test(tests, of_the_next_read, 0,
			    sizeof(second_reads) / sizeof(*second_reads));
	tcase_add_test(tests, of_the_third_read);
	tcase_add_test(tests, of_the_third_read_in_part);
	tcase_add_test(tests, behind_a_read_in_pieces);
	tcase_add_test(tests, behind_an_atomic);
	tcase_add_test(tests, bad_read_responses);
	return world_main("placed_early", (TCase *const[]){tests, NULL});
}
