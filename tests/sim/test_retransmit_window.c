/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What packets that are sent again do to the congestion window (emu/transport/recovery.h): losses
 * reduce it, and it is restored where one that was taken for lost was only late.
 */
#include "net/tuning.h"
#include "pair.h"
#include "retransmit.h"

/* What is lost of a window reduces it once, in however many round trips that is found out. */
START_TEST(one_reduction_a_window)
{
	const uint64_t round_trip = 2 * CWND_ROUND_LEAST;
	struct peer peer;
	const struct cwnd *cwnd;
	uint32_t psn;

	peer_create(&peer, IBV_QPT_RC, NULL);
	cwnd = &peer.qp->recovery.destination->cwnd;
	answer_after(&peer, round_trip);
	keep_behind(&peer, 0);
	ck_assert_uint_eq(cwnd->reductions, 1);
	psn = peer.qp->requester.psn;
	post(&peer, 10);
	for (uint32_t lost = 0; lost < 8; lost += 2) {
		peer_see_none(&peer, round_trip);
		peer_acknowledge(&peer, psn + lost, NAK);
		expect_repeated(&peer, psn + lost);
		ck_assert_uint_eq(cwnd->reductions, 2);
	}
	peer_acknowledge(&peer, psn + 9, ACK);
	expect_completions(&peer, 0, 10);
	answer_after(&peer, round_trip);
	post(&peer, 2);
	peer_acknowledge(&peer, psn + 11, NAK);
	see_all(&peer);
	ck_assert_uint_eq(cwnd->reductions, 3);
	peer_acknowledge(&peer, psn + 12, ACK);
	expect_completions(&peer, 0, 2);
	expect_end(&peer);
}
END_TEST

/* When what is missing is acknowledged, in quarters of a round trip after its NAK. */
static const struct {
	unsigned int quarters;
	bool late; /* too soon for what was sent again: it had been late */
} late_packets[] = {{0, true}, {2, true}, {4, false}, {6, false}};

#define LATE_PACKETS (sizeof(late_packets) / sizeof(late_packets[0]))

/* The first of five is missing; @quarters later comes @syndrome of the one that is @next behind. */
static const struct cwnd *late_packet(struct peer *peer, unsigned int quarters, uint32_t next,
				      uint8_t syndrome)
{
	const uint64_t round_trip = 4 * CWND_ROUND_LEAST;
	uint32_t psn;

	peer_create(peer, IBV_QPT_RC, NULL);
	answer_after(peer, round_trip);
	psn = peer->qp->requester.psn;
	post(peer, 5);
	peer_acknowledge(peer, psn, NAK);
	expect_repeated(peer, psn);
	peer_see_none(peer, quarters * round_trip / 4);
	peer_acknowledge(peer, psn + next, syndrome);
	return &peer->qp->recovery.destination->cwnd;
}

START_TEST(a_late_packet_restores_the_window)
{
	const struct cwnd *cwnd;
	struct peer peer;

	cwnd = late_packet(&peer, late_packets[_i].quarters, 4, ACK);
	expect_completions(&peer, 0, 5);
	ck_assert_int_eq(cwnd->size.limit >= cwnd->before.limit, late_packets[_i].late);
	expect_end(&peer);
}
END_TEST

/* And the next loss counts, though it is of the same window. */
START_TEST(a_loss_after_a_late_packet)
{
	const struct cwnd *cwnd;
	struct peer peer;

	cwnd = late_packet(&peer, late_packets[_i].quarters, 2, NAK);
	expect_completions(&peer, 0, 2);
	ck_assert_uint_eq(cwnd->reductions, 1 + late_packets[_i].late);
	ck_assert_uint_lt(cwnd->size.limit, cwnd->before.limit);
	see_all(&peer);
	peer_acknowledge(&peer, peer.qp->requester.psn - 1, ACK);
	expect_completions(&peer, 2, 5);
	expect_end(&peer);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("window");
	TCase *const tcases[] = {tests, NULL};

	tcase_add_test(tests, one_reduction_a_window);
	tcase_add_loop_test(tests, a_late_packet_restores_the_window, 0, LATE_PACKETS);
	tcase_add_loop_test(tests, a_loss_after_a_late_packet, 0, LATE_PACKETS);
	return world_main("retransmit_window", tcases);
}
