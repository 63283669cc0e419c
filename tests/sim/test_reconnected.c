/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair that is reset and connected anew, to the same peer and with the same PSNs, as
 * programs do that set PSNs themselves: late packets of the connection before never take the place
 * of those of this one.
 */
#include "peer.h"

#define BYTES 8

/* What requests and responses carry: of the connection before, and of this one. */
static const uint8_t old[BYTES] = "before", new[BYTES] = "now";

static void reconnect(struct peer *peer)
{
	world_modify_state(peer->qp, IBV_QPS_RESET);
	peer_connect(peer, &world_connection);
}

static void give(struct peer *peer, uint8_t operation, uint32_t psn, const uint8_t *payload)
{
	peer_send(peer, &(struct peer_packet){.opcode = WIRE_RC | operation,
					      .psn = psn & PSN_MASK,
					      .syndrome = 0x1f,
					      .length = BYTES,
					      .payload = payload});
}

static void post_receive(struct peer *peer, uint64_t id)
{
	ck_assert_int_eq(
		world_post_recv(peer->qp, peer->memory + id * BYTES, BYTES, peer->mr->ibv.lkey, id),
		0);
}

static void expect_new(const struct peer *peer, unsigned int messages)
{
	for (unsigned int i = 0; i < messages; i++)
		ck_assert_mem_eq(peer->memory + i * BYTES, new, BYTES);
}

/* From then on none is taken for one of the connection before. */
static void wait_for_stale(struct peer *peer)
{
	sim_advance(peer->world.sim, world_now(&peer->world) + STALE_FOR);
}

/* SENDs. Some time later those that come early are kept as ever. */
START_TEST(requests)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	reconnect(&peer);
	for (uint64_t id = 0; id < 7; id++)
		post_receive(&peer, id);
	give(&peer, WIRE_SEND_ONLY, FIRST_PSN + 2, old);
	peer_see_ack(&peer, FIRST_PSN, AETH_NAK_PSN_SEQUENCE);
	for (uint32_t i = 0; i < 3; i++)
		give(&peer, WIRE_SEND_ONLY, FIRST_PSN + i, new);
	peer_see_ack(&peer, FIRST_PSN + 2, 0x1f);
	give(&peer, WIRE_SEND_ONLY, FIRST_PSN + 4, old);
	peer_see_ack(&peer, FIRST_PSN + 3, AETH_NAK_PSN_SEQUENCE);
	for (uint32_t i = 3; i < 5; i++)
		give(&peer, WIRE_SEND_ONLY, FIRST_PSN + i, new);
	peer_see_ack(&peer, FIRST_PSN + 4, 0x1f);
	wait_for_stale(&peer);
	give(&peer, WIRE_SEND_ONLY, FIRST_PSN + 6, new);
	peer_see_ack(&peer, FIRST_PSN + 5, AETH_NAK_PSN_SEQUENCE);
	give(&peer, WIRE_SEND_ONLY, FIRST_PSN + 5, new);
	peer_see_ack(&peer, FIRST_PSN + 6, 0x1f);
	for (uint64_t id = 0; id < 7; id++)
		world_expect(peer.node, id, IBV_WC_SUCCESS);
	expect_new(&peer, 7);
	peer_destroy(&peer);
}
END_TEST

/* A connection with other PSNs came between: it is as likely that a packet is of the first one. */
START_TEST(requests_of_the_first)
{
	struct connection between = world_connection;
	struct peer peer;

	between.psn = psn_add(FIRST_PSN, 0x400000);
	peer_create(&peer, IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	peer_connect(&peer, &between);
	reconnect(&peer);
	for (uint64_t id = 0; id < 3; id++)
		post_receive(&peer, id);
	give(&peer, WIRE_SEND_ONLY, FIRST_PSN + 2, old);
	peer_see_ack(&peer, FIRST_PSN, AETH_NAK_PSN_SEQUENCE);
	for (uint32_t i = 0; i < 3; i++)
		give(&peer, WIRE_SEND_ONLY, FIRST_PSN + i, new);
	for (uint64_t id = 0; id < 3; id++)
		world_expect(peer.node, id, IBV_WC_SUCCESS);
	expect_new(&peer, 3);
	peer_destroy(&peer);
}
END_TEST

static void post_read(struct peer *peer, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)peer->memory + id * BYTES, BYTES, peer->mr->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = id,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};

	ck_assert_int_eq(world_post_send(peer->qp, &wr), 0);
}

/* READ responses, and a NAK. */
START_TEST(responses)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	reconnect(&peer);
	for (uint64_t id = 0; id < 4; id++)
		post_read(&peer, id);
	peer_see_requests(&peer, FIRST_PSN, 4);
	give(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 1, old);
	peer_see_requests(&peer, FIRST_PSN, 4);
	peer_acknowledge(&peer, FIRST_PSN + 2, AETH_NAK_REMOTE_ACCESS);
	peer_see_none(&peer, 10000);
	for (uint32_t i = 0; i < 2; i++)
		give(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + i, new);
	give(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 3, old);
	peer_see_requests(&peer, FIRST_PSN + 2, 2);
	for (uint32_t i = 2; i < 4; i++)
		give(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + i, new);
	for (uint64_t id = 0; id < 4; id++)
		world_expect(peer.node, id, IBV_WC_SUCCESS);
	wait_for_stale(&peer);
	for (uint64_t id = 4; id < 6; id++)
		post_read(&peer, id);
	peer_see_requests(&peer, FIRST_PSN + 4, 2);
	give(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 5, new);
	peer_see_requests(&peer, FIRST_PSN + 4, 1);
	give(&peer, WIRE_READ_RESPONSE_ONLY, FIRST_PSN + 4, new);
	for (uint64_t id = 4; id < 6; id++)
		world_expect(peer.node, id, IBV_WC_SUCCESS);
	peer_see_none(&peer, 10000);
	expect_new(&peer, 6);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("reconnected");

	tcase_add_test(tcase, requests);
	tcase_add_test(tcase, requests_of_the_first);
	tcase_add_test(tcase, responses);
	return world_main("reconnected", (TCase *const[]){tcase, NULL});
}
