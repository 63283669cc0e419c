/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where many packets are lost, towards a responder that keeps what comes behind a gap: what is
 * repeated with the packet that is missing, and when without being asked for. And how a responder
 * takes it. Packet by packet: the test is the other side. Where few are lost: test_retransmit.
 */
#include <stdlib.h>

#include "emu/transport/destination.h"
#include "net/tuning.h"
#include "peer.h"

#define ACK AETH_ACK_UNLIMITED
#define NAK AETH_NAK_PSN_SEQUENCE
#define REQUESTS 7 /* fewer than wait for others (COALESCE_UNDER_WAY) */

/* --- the requester ------------------------------------------------------------------------ */

static void respond(struct peer *peer, uint32_t psn)
{
	struct peer_packet p = {RC(WIRE_READ_RESPONSE_ONLY), .psn = psn & PSN_MASK, .syndrome = ACK,
				.length = 8};

	peer_send(peer, &p);
}

static void see(struct peer *peer, uint32_t psn)
{
	ck_assert_uint_eq(peer_see(peer).psn, psn & PSN_MASK);
}

static void post(struct peer *peer, enum ibv_wr_opcode opcode)
{
	uint32_t psn = peer->qp->requester.psn;

	for (uint32_t i = 0; i < REQUESTS; i++)
		peer_post(peer, opcode, 8, i);
	for (uint32_t i = 0; i < REQUESTS; i++)
		see(peer, psn + i);
}

static void expect_end(struct peer *peer)
{
	for (uint32_t i = 0; i < REQUESTS; i++)
		world_expect(peer->node, i, IBV_WC_SUCCESS);
	ck_assert_int_eq(peer->qp->recovery.state, RECOVERY_SENDING);
	ck_assert_uint_eq(peer->qp->recovery.destination->cwnd.in_flight, 0);
	peer_see_none(peer, SECOND);
	peer_destroy(peer);
}

/*
 * A peer that is known to keep, to which a packet is lost every @interval bytes. Returns the PSN
 * that comes next.
 */
static uint32_t lossy_peer(struct peer *peer, uint64_t interval)
{
	struct destination *destination;

	peer_create(peer, IBV_QPT_RC, NULL);
	post(peer, IBV_WR_RDMA_WRITE);
	peer_acknowledge(peer, FIRST_PSN, NAK);
	see(peer, FIRST_PSN);
	peer_acknowledge(peer, FIRST_PSN + REQUESTS - 1, ACK);
	for (uint32_t i = 0; i < REQUESTS; i++)
		world_expect(peer->node, i, IBV_WC_SUCCESS);
	destination = peer->qp->recovery.destination;
	ck_assert(destination_keeps(destination));
	destination->loss_interval = interval;
	return peer->qp->requester.psn;
}

/* It, or its answer, is lost as often as any other packet. */
START_TEST(repeated_twice)
{
	struct peer peer;
	uint32_t psn = lossy_peer(&peer, VERY_LOSSY_INTERVAL - 1);

	post(&peer, IBV_WR_RDMA_WRITE);
	peer_acknowledge(&peer, psn + 2, NAK);
	see(&peer, psn + 2);
	see(&peer, psn + 2);
	peer_see_none(&peer, 10000);
	peer_acknowledge(&peer, psn + 5, NAK);
	see(&peer, psn + 5);
	see(&peer, psn + 5);
	peer_see_none(&peer, 10000);
	peer_acknowledge(&peer, psn + REQUESTS - 1, ACK);
	expect_end(&peer);
}
END_TEST

/* One that drops is sent all from there on anyway; and a READ is answered each time. */
START_TEST(not_repeated_twice)
{
	enum ibv_wr_opcode opcode = _i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	struct peer peer;
	uint32_t psn = lossy_peer(&peer, _i ? 0 : 2 * VERY_LOSSY_INTERVAL);

	post(&peer, opcode);
	peer_acknowledge(&peer, psn, NAK);
	see(&peer, psn);
	peer_see_none(&peer, 10000);
	for (uint32_t i = 0; _i && i < REQUESTS; i++)
		respond(&peer, psn + i);
	if (!_i)
		peer_acknowledge(&peer, psn + REQUESTS - 1, ACK);
	expect_end(&peer);
}
END_TEST

/* Where many are lost: without the oldest response there is no progress, and few tries are left. */
START_TEST(asked_for_twice)
{
	bool very_lossy = _i;
	struct peer peer;
	uint32_t psn = lossy_peer(&peer, very_lossy ? 0 : 2 * VERY_LOSSY_INTERVAL);

	post(&peer, IBV_WR_RDMA_READ);
	respond(&peer, psn + 1);
	for (int i = 0; i < 1 + very_lossy; i++)
		see(&peer, psn);
	for (uint32_t i = 3; i < REQUESTS; i++)
		respond(&peer, psn + i);
	see(&peer, psn + 2); /* not the oldest one */
	peer_see_none(&peer, 10000);
	for (int i = 0; i < 1 + very_lossy; i++)
		respond(&peer, psn);
	respond(&peer, psn + 2);
	expect_end(&peer);
}
END_TEST

/*
 * And again soon, however long round trips are with all the answers that are under way: when those
 * have come.
 */
START_TEST(asked_again_in_silence)
{
	struct peer peer;
	struct packet packet;
	uint32_t psn = lossy_peer(&peer, 0);
	struct destination *destination = peer.qp->recovery.destination;
	uint64_t silence =
		later(2 * destination_least_round_trip(destination), PROBE_TIMEOUT_VERY_LOSSY);

	atomic_store(&destination->probe_timeout, 20 * MS);
	atomic_store(&destination->repair_timeout, 20 * MS);
	post(&peer, IBV_WR_RDMA_READ);
	for (uint32_t i = 1; i < REQUESTS; i++) {
		respond(&peer, psn + i);
		for (int asked = 0; i == 1 && asked < 2; asked++)
			see(&peer, psn);
		peer_see_none(&peer, silence * 3 / 4);
	}
	ck_assert(peer_wait(&peer, &packet, silence));
	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
	see(&peer, psn);
	respond(&peer, psn);
	expect_end(&peer);
}
END_TEST

/*
 * Nothing is heard, and the oldest packet is repeated soon, while sending goes on. What was sent
 * before and isn't acknowledged with it was lost, too; later packets aren't in doubt.
 */
START_TEST(repeated_early)
{
	struct peer peer;
	struct packet packet;
	uint32_t psn = lossy_peer(&peer, VERY_LOSSY_INTERVAL - 1);

	post(&peer, IBV_WR_RDMA_WRITE);
	ck_assert(peer_wait(&peer, &packet, MS));
	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
	see(&peer, psn);
	ck_assert_int_eq(peer.qp->recovery.state, RECOVERY_RETRANSMIT);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, REQUESTS);
	see(&peer, psn + REQUESTS);
	peer_acknowledge(&peer, psn + 3, ACK);
	see(&peer, psn + 4);
	see(&peer, psn + 4);
	peer_see_none(&peer, 10000);
	peer_acknowledge(&peer, psn + REQUESTS - 1, ACK);
	peer_see_none(&peer, 10000);
	ck_assert_uint_eq(peer.node->hca->counters->timeouts, 0);
	ck_assert_uint_eq(peer.qp->recovery.retries, world_connection.retry_cnt);
	peer_acknowledge(&peer, psn + REQUESTS, ACK);
	for (uint32_t i = 0; i < REQUESTS; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	world_expect(peer.node, REQUESTS, IBV_WC_SUCCESS);
	peer_see_none(&peer, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* Each early one is answered alone: all that was sent behind is lost, and isn't waited for. */
START_TEST(a_run_lost_in_silence)
{
	struct peer peer;
	struct packet packet;
	uint32_t psn = lossy_peer(&peer, VERY_LOSSY_INTERVAL - 1);

	post(&peer, IBV_WR_RDMA_WRITE);
	for (int i = 0; i < RETRANSMIT_RUN + 2; i++) {
		ck_assert(peer_wait(&peer, &packet, i < RETRANSMIT_RUN ? MS : 20 * MS));
		ck_assert_uint_eq(packet.psn, (psn + i) & PSN_MASK);
		if (i < RETRANSMIT_RUN)
			see(&peer, psn + i);
		peer_acknowledge(&peer, psn + i, ACK);
	}
	for (int i = RETRANSMIT_RUN + 2; i < REQUESTS; i++)
		see(&peer, psn + i);
	peer_acknowledge(&peer, psn + REQUESTS - 1, ACK);
	expect_end(&peer);
}
END_TEST

/* The NAK was only late: what it asks for is under way. */
START_TEST(a_nak_behind_an_early_one)
{
	struct peer peer;
	struct packet packet;
	uint32_t psn = lossy_peer(&peer, VERY_LOSSY_INTERVAL - 1);

	post(&peer, IBV_WR_RDMA_WRITE);
	ck_assert(peer_wait(&peer, &packet, MS));
	see(&peer, psn);
	peer_acknowledge(&peer, psn, NAK);
	peer_see_none(&peer, 10000);
	peer_acknowledge(&peer, psn + REQUESTS - 1, ACK);
	expect_end(&peer);
}
END_TEST

/* A peer that stays silent is asked by the oldest packet alone in the end. */
START_TEST(silence)
{
	struct peer peer;
	struct packet packet;
	uint32_t psn = lossy_peer(&peer, VERY_LOSSY_INTERVAL - 1);

	post(&peer, IBV_WR_RDMA_WRITE);
	for (int i = 0; i < RETRANSMIT_EARLY_COUNT; i++) {
		ck_assert(peer_wait(&peer, &packet, 20 * MS));
		see(&peer, psn);
		ck_assert_int_eq(peer.qp->recovery.state, RECOVERY_RETRANSMIT);
	}
	ck_assert(peer_wait(&peer, &packet, 100 * MS));
	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
	ck_assert_int_eq(peer.qp->recovery.state, RECOVERY_HEAD_PROBE);
	peer_acknowledge(&peer, psn + REQUESTS - 1, ACK);
	expect_end(&peer);
}
END_TEST

/* --- the responder ------------------------------------------------------------------------- */

static void write_to(struct peer *peer, uint32_t psn)
{
	struct peer_packet p = {RC(WIRE_WRITE_ONLY),
				.psn = (FIRST_PSN + psn) & PSN_MASK,
				.length = 8,
				.va = (uintptr_t)peer->memory,
				.rkey = peer->mr->ibv.rkey,
				.dma_length = 8};

	peer_send(peer, &p);
}

static void expect_answer(struct peer *peer, uint32_t psn, uint8_t syndrome)
{
	peer_see_ack(peer, (FIRST_PSN + psn) & PSN_MASK, syndrome);
}

/*
 * The requester has shown that it repeats what is missing, and is told of the next gap at once.
 * That stays so if it repeats a few others with it, and the same twice.
 */
START_TEST(a_few_come_again)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	write_to(&peer, 1);
	expect_answer(&peer, 0, NAK);
	write_to(&peer, 0);
	expect_answer(&peer, 1, ACK);
	write_to(&peer, 3);
	expect_answer(&peer, 2, NAK);
	write_to(&peer, 5);
	write_to(&peer, 7);
	peer_see_none(&peer, 10000);
	write_to(&peer, 2);
	expect_answer(&peer, 4, NAK);
	write_to(&peer, 3);
	write_to(&peer, 2);
	expect_answer(&peer, 3, ACK);
	write_to(&peer, 5); /* kept: nothing is said of it */
	write_to(&peer, 9);
	peer_see_none(&peer, 10000);
	write_to(&peer, 4);
	expect_answer(&peer, 6, NAK);
	peer_destroy(&peer);
}
END_TEST

/* One that goes back N sends the next gap by itself. */
START_TEST(many_come_again)
{
	uint32_t most = GO_BACK_N_SEEN + 2;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (uint32_t i = 1; i <= most; i++)
		write_to(&peer, i);
	expect_answer(&peer, 0, NAK);
	write_to(&peer, 0);
	expect_answer(&peer, most, ACK);
	for (uint32_t i = 1; i <= most; i++)
		write_to(&peer, i);
	expect_answer(&peer, most, ACK);
	write_to(&peer, most + 2);
	expect_answer(&peer, most + 1, NAK);
	write_to(&peer, most + 4);
	write_to(&peer, most + 1);
	expect_answer(&peer, most + 2, ACK);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *requester = tcase_create("requester"), *responder = tcase_create("responder");

	tcase_add_test(requester, repeated_twice);
	tcase_add_loop_test(requester, not_repeated_twice, 0, 2);
	tcase_add_loop_test(requester, asked_for_twice, 0, 2);
	tcase_add_test(requester, asked_again_in_silence);
	tcase_add_test(requester, repeated_early);
	tcase_add_test(requester, a_run_lost_in_silence);
	tcase_add_test(requester, a_nak_behind_an_early_one);
	tcase_add_test(requester, silence);
	tcase_add_test(responder, a_few_come_again);
	tcase_add_test(responder, many_come_again);
	return world_main("retransmit_more", (TCase *const[]){requester, responder, NULL});
}
