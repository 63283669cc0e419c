/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a sequence NAK has sent again (emu/transport/recovery.h): one packet towards a responder
 * that keeps what comes behind a gap, everything from the gap on towards one that drops it, and
 * how the requester learns which it is. Packet by packet: the test is the responder. What becomes
 * of the congestion window: test_retransmit_window; timeouts, probes and RNR NAKs: test_retry.
 */
#include <stdlib.h>

#include "net/tuning.h"
#include "pair.h"
#include "retransmit.h"

/* These packets come next, and then no other. */
static void expect_requests(struct peer *peer, uint32_t psn, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(peer_see(peer).psn, (psn + i) & PSN_MASK);
	peer_see_none(peer, 20000);
}

static uint64_t resent(const struct peer *peer)
{
	return peer->node->hca->counters->retransmitted_pkts;
}

static enum behind_gap behind_gap(const struct peer *peer)
{
	return peer->qp->recovery.destination->behind_gap;
}

/* A peer that is known to keep. Returns the PSN that comes next. */
static uint32_t keeping_peer(struct peer *peer)
{
	peer_create(peer, IBV_QPT_RC, NULL);
	keep_behind(peer, 0);
	return peer->qp->requester.psn;
}

/*
 * The same as keep_behind() by one that drops them; it is told by a NAK, or by the acknowledgement
 * of one.
 */
static void drop_behind(struct peer *peer, bool nak)
{
	uint32_t psn = peer->qp->requester.psn;

	post(peer, 5);
	peer_acknowledge(peer, psn + 2, NAK);
	expect_repeated(peer, psn + 2);
	peer_acknowledge(peer, psn + 2 + nak, nak ? NAK : ACK);
	expect_requests(peer, psn + 3, 2);
	peer_acknowledge(peer, psn + 4, ACK);
	expect_completions(peer, 0, 5);
}

/* --- a responder that keeps ------------------------------------------------------------- */

/* One loss costs one packet, wherever it is. Nothing is sent behind the last. */
START_TEST(one_loss_costs_one_packet)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	keep_behind(&peer, _i);
	ck_assert_uint_eq(resent(&peer), 1);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_KEPT);
	expect_end(&peer);
}
END_TEST

/* The network doubles the NAK: that is one loss, and one retry. */
START_TEST(a_doubled_nak_is_one)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		post(&peer, 1);
		world_run(&peer.world, 100000);
		peer_acknowledge(&peer, FIRST_PSN + i, ACK);
		expect_completions(&peer, 0, 1);
	}
	post(&peer, 3);
	peer_acknowledge(&peer, FIRST_PSN + 4, NAK);
	expect_repeated(&peer, FIRST_PSN + 4);
	peer_acknowledge(&peer, FIRST_PSN + 4, NAK);
	peer_see_none(&peer, 5000);
	ck_assert_uint_eq(peer.node->hca->counters->completer_retry_err, 1);
	peer_acknowledge(&peer, FIRST_PSN + 6, ACK);
	expect_completions(&peer, 0, 3);
	expect_end(&peer);
}
END_TEST

/* So are two that come together, before a peer that drops is sent anything again. */
START_TEST(a_nak_twice_at_once)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (int i = 0; i < 3; i++)
		destination_note_dropped(peer.qp->recovery.destination);
	post(&peer, 3);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_requests(&peer, FIRST_PSN, 3);
	ck_assert_uint_eq(peer.node->hca->counters->completer_retry_err, 1);
	peer_acknowledge(&peer, FIRST_PSN + 2, ACK);
	expect_completions(&peer, 0, 3);
	expect_end(&peer);
}
END_TEST

/* Sending goes on behind the repetition, and what was in flight still counts. */
START_TEST(sending_goes_on)
{
	struct peer peer;
	uint64_t before;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 3);
	before = in_flight(&peer);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_repeated(&peer, FIRST_PSN);
	ck_assert_int_eq(peer.qp->recovery.state, RECOVERY_RETRANSMIT);
	ck_assert_uint_eq(in_flight(&peer), before);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 3);
	expect_requests(&peer, FIRST_PSN + 3, 1);
	ck_assert_uint_gt(in_flight(&peer), before);
	peer_acknowledge(&peer, FIRST_PSN + 3, ACK);
	expect_completions(&peer, 0, 4);
	ck_assert_uint_eq(resent(&peer), 1);
	expect_end(&peer);
}
END_TEST

/* Each gap is told of when the one before is filled. */
START_TEST(gap_behind_gap)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 8);
	for (uint32_t lost = 0; lost < 8; lost += 2) {
		peer_acknowledge(&peer, FIRST_PSN + lost, NAK);
		expect_repeated(&peer, FIRST_PSN + lost);
	}
	peer_acknowledge(&peer, FIRST_PSN + 7, ACK);
	expect_completions(&peer, 0, 8);
	ck_assert_uint_eq(resent(&peer), 4);
	ck_assert_uint_eq(peer.qp->recovery.retries, world_connection.retry_cnt);
	expect_end(&peer);
}
END_TEST

/*
 * What was sent before the repetition, and isn't acknowledged with it, is lost: no NAK has to tell.
 */
START_TEST(the_next_gap_is_known)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 7);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_repeated(&peer, FIRST_PSN);
	peer_acknowledge(&peer, FIRST_PSN + 2, ACK);
	expect_repeated(&peer, FIRST_PSN + 3);
	peer_acknowledge(&peer, FIRST_PSN + 3, NAK); /* it crossed it */
	peer_see_none(&peer, 20000);
	peer_acknowledge(&peer, FIRST_PSN + 4, ACK);
	expect_repeated(&peer, FIRST_PSN + 5);
	peer_acknowledge(&peer, FIRST_PSN + 6, ACK);
	expect_completions(&peer, 0, 7);
	ck_assert_uint_eq(resent(&peer), 3);
	expect_end(&peer);
}
END_TEST

/* From one that is known to keep, a NAK of the next one says that two were lost. */
START_TEST(two_in_a_row)
{
	struct peer peer;
	uint32_t psn = keeping_peer(&peer);

	post(&peer, 5);
	for (uint32_t lost = 1; lost < 1 + 2; lost++) {
		peer_acknowledge(&peer, psn + lost, NAK);
		expect_repeated(&peer, psn + lost);
	}
	peer_acknowledge(&peer, psn + 4, ACK);
	expect_completions(&peer, 0, 5);
	ck_assert_uint_eq(resent(&peer), 1 + 2);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_KEPT);
	expect_end(&peer);
}
END_TEST

/* Its acknowledgement of just what was repeated says so, too; the NAK that follows is no other. */
START_TEST(two_in_a_row_by_an_acknowledgement)
{
	struct peer peer;
	uint32_t psn = keeping_peer(&peer);

	post(&peer, 5);
	peer_acknowledge(&peer, psn + 1, NAK);
	expect_repeated(&peer, psn + 1);
	peer_acknowledge(&peer, psn + 1, ACK);
	expect_repeated(&peer, psn + 2);
	peer_acknowledge(&peer, psn + 2, NAK);
	peer_see_none(&peer, 20000);
	peer_acknowledge(&peer, psn + 4, ACK);
	expect_completions(&peer, 0, 5);
	ck_assert_uint_eq(resent(&peer), 1 + 2);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_KEPT);
	expect_end(&peer);
}
END_TEST

/* If it is one after the other, it has dropped them all. */
START_TEST(a_long_run_is_everything)
{
	struct peer peer;
	uint32_t psn = keeping_peer(&peer);

	post(&peer, 8);
	for (uint32_t lost = 0; lost < RETRANSMIT_RUN; lost++) {
		peer_acknowledge(&peer, psn + lost, NAK);
		expect_repeated(&peer, psn + lost);
	}
	peer_acknowledge(&peer, psn + RETRANSMIT_RUN, NAK);
	expect_requests(&peer, psn + RETRANSMIT_RUN, 8 - RETRANSMIT_RUN);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_UNKNOWN);
	peer_acknowledge(&peer, psn + 7, ACK);
	expect_completions(&peer, 0, 8);
	expect_end(&peer);
}
END_TEST

/* The lost packet was only late, and its acknowledgement comes before the repetition leaves. */
START_TEST(late_is_not_lost)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 3);
	peer_acknowledge(&peer, FIRST_PSN + 1, NAK);
	peer_acknowledge(&peer, FIRST_PSN + 2, ACK);
	expect_completions(&peer, 0, 3);
	ck_assert_uint_eq(resent(&peer), 0);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_UNKNOWN);
	expect_end(&peer);
}
END_TEST

/* The repetition is lost, or its answer: the oldest once more, and sending goes on behind it. */
START_TEST(a_lost_repetition_is_probed_for)
{
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	keep_behind(&peer, 0);
	post(&peer, 5);
	peer_acknowledge(&peer, FIRST_PSN + 5 + 1, NAK);
	expect_repeated(&peer, FIRST_PSN + 5 + 1);
	ck_assert(peer_wait(&peer, &packet, SECOND));
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 5 + 1) & PSN_MASK);
	peer_acknowledge(&peer, FIRST_PSN + 5 + 4, ACK);
	expect_completions(&peer, 0, 5);
	ck_assert_uint_eq(resent(&peer), 1 + 2);
	expect_end(&peer);
}
END_TEST

/* Of a READ whose request was lost, the request; responses to those behind it follow. */
START_TEST(a_lost_read_request)
{
	struct peer_packet response = {RC(WIRE_READ_RESPONSE_ONLY), .syndrome = ACK, .length = 8};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&peer, IBV_WR_RDMA_READ, 8, i);
	expect_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_repeated(&peer, FIRST_PSN);
	ck_assert_uint_eq(peer.qp->requester.rd_atomic, 3);
	for (uint32_t i = 0; i < 3; i++) {
		response.psn = (FIRST_PSN + i) & PSN_MASK;
		peer_send(&peer, &response);
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	}
	ck_assert_uint_eq(peer.qp->requester.rd_atomic, 0);
	ck_assert_uint_eq(resent(&peer), 1);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_KEPT);
	expect_end(&peer);
}
END_TEST

/* No mark stays behind: when half of the PSNs were used it would seem to be ahead. */
START_TEST(marks_keep_up)
{
	const struct recovery *recovery;
	struct peer peer;
	uint32_t unacked;

	peer_create(&peer, IBV_QPT_RC, NULL);
	recovery = &peer.qp->recovery;
	post(&peer, 3);
	peer_acknowledge(&peer, FIRST_PSN + 2, ACK);
	expect_completions(&peer, 0, 3);
	unacked = peer.qp->requester.unacked;
	ck_assert_uint_eq(unacked, (FIRST_PSN + 3) & PSN_MASK);
	ck_assert_uint_eq(recovery->resume_psn, unacked);
	ck_assert_uint_eq(recovery->highest_retransmitted, unacked);
	ck_assert_uint_eq(recovery->reduced_end, unacked);
	expect_end(&peer);
}
END_TEST

/* A NAK during a probe: the others may be there, and sending goes on where it was. */
START_TEST(a_nak_answers_a_probe)
{
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	keep_behind(&peer, 0);
	post(&peer, 5);
	ck_assert(peer_wait(&peer, &packet, SECOND));
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 5) & PSN_MASK);
	ck_assert_int_eq(peer.qp->recovery.state, RECOVERY_HEAD_PROBE);
	peer_acknowledge(&peer, FIRST_PSN + 5 + 3, NAK);
	expect_repeated(&peer, FIRST_PSN + 5 + 3);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 5);
	expect_requests(&peer, FIRST_PSN + 5 + 5, 1);
	peer_acknowledge(&peer, FIRST_PSN + 5 + 5, ACK);
	expect_completions(&peer, 0, 6);
	expect_end(&peer);
}
END_TEST

/*
 * One that was given up for a probe isn't measured by what is acknowledged later, when a packet
 * that was to be retransmitted comes before it was.
 */
START_TEST(a_retransmission_that_was_given_up)
{
	const struct destination *destination;
	struct packet packet;
	struct peer peer;
	uint32_t psn;

	peer_create(&peer, IBV_QPT_RC, NULL);
	destination = peer.qp->recovery.destination;
	answer_after(&peer, 4 * CWND_ROUND_LEAST);
	psn = peer.qp->requester.psn;
	post(&peer, 5);
	peer_acknowledge(&peer, psn, NAK);
	expect_repeated(&peer, psn);
	ck_assert(peer_wait(&peer, &packet, SECOND));
	ck_assert_int_eq(peer.qp->recovery.state, RECOVERY_HEAD_PROBE);
	peer_acknowledge(&peer, psn + 4, ACK);
	expect_completions(&peer, 0, 5);
	peer_see_none(&peer, SECOND);
	psn += 5;
	post(&peer, 5);
	peer_acknowledge(&peer, psn, NAK);
	peer_acknowledge(&peer, psn, ACK);
	peer_acknowledge(&peer, psn + 4, ACK);
	expect_completions(&peer, 0, 5);
	ck_assert_uint_eq(destination->repair.smoothed, 0);
	expect_end(&peer);
}
END_TEST

/* --- a responder that drops --------------------------------------------------------------- */

/* It is found out twice; then all is sent again at once, and now and then found out anew. */
START_TEST(from_the_second_time_on_at_once)
{
	uint32_t psn, gaps = 0;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	drop_behind(&peer, _i);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_DROPPED_ONCE);
	drop_behind(&peer, _i);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_DROPPED);
	ck_assert_uint_eq(resent(&peer), 2 * 3);
	while (++gaps < DROPS_UNTIL_RETRANSMIT) {
		psn = peer.qp->requester.psn;
		post(&peer, 5);
		peer_acknowledge(&peer, psn + 2, NAK);
		expect_requests(&peer, psn + 2, 3);
		peer_acknowledge(&peer, psn + 4, ACK);
		expect_completions(&peer, 0, 5);
	}
	ck_assert_uint_eq(resent(&peer), 2 * 3 + (DROPS_UNTIL_RETRANSMIT - 1) * 3);
	drop_behind(&peer, _i);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_DROPPED);
	expect_end(&peer);
}
END_TEST

/* What was sent again proves nothing: a responder that drops has it now. */
START_TEST(what_was_sent_again_proves_nothing)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 5);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_repeated(&peer, FIRST_PSN);
	peer_acknowledge(&peer, FIRST_PSN + 1, NAK);
	expect_requests(&peer, FIRST_PSN + 1, 4);
	peer_acknowledge(&peer, FIRST_PSN + 2, NAK); /* it crossed them */
	expect_repeated(&peer, FIRST_PSN + 2);
	peer_acknowledge(&peer, FIRST_PSN + 4, ACK);
	expect_completions(&peer, 0, 5);
	ck_assert_int_eq(behind_gap(&peer), BEHIND_GAP_DROPPED_ONCE);
	expect_end(&peer);
}
END_TEST

/*
 * More is acknowledged than has been sent again. Before anything of that can be answered (@_i 0) it
 * was late, and nothing is lost; afterwards the responder had kept it, and what is lost stays so.
 */
START_TEST(acknowledged_before_it_is_sent_again)
{
	const uint64_t round_trip = 200000;
	struct requester *req;
	struct peer peer;
	const struct cwnd *cwnd;
	uint64_t limit;

	peer_create(&peer, IBV_QPT_RC, NULL);
	req = &peer.qp->requester;
	cwnd = &peer.qp->recovery.destination->cwnd;
	answer_after(&peer, round_trip);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 60 * PEER_MTU, 0); /* more than the window */
	see_all(&peer);
	peer_acknowledge(&peer, FIRST_PSN + 1, NAK);
	expect_repeated(&peer, FIRST_PSN + 1);
	peer_see_none(&peer, round_trip);
	limit = cwnd->size.limit;
	peer_acknowledge(&peer, FIRST_PSN + 2, NAK);
	see_all(&peer);
	ck_assert_int_lt(psn_distance(req->psn, req->highest), 0);
	if (_i)
		peer_see_none(&peer, round_trip);
	peer_acknowledge(&peer, req->highest - 1, ACK);
	see_all(&peer);
	ck_assert_int_eq(behind_gap(&peer), _i ? BEHIND_GAP_KEPT : BEHIND_GAP_DROPPED_ONCE);
	if (_i)
		ck_assert_uint_lt(cwnd->size.limit, limit);
	else
		ck_assert_uint_ge(cwnd->size.limit, limit);
	peer_acknowledge(&peer, FIRST_PSN + 60, ACK);
	expect_completions(&peer, 0, 1);
	expect_end(&peer);
}
END_TEST

/* A silent one, too: probes find out what is lost, all of it at once after the second. */
START_TEST(a_silent_responder_that_drops)
{
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 5);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_repeated(&peer, FIRST_PSN);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert(peer_wait(&peer, &packet, MS));
		ck_assert_uint_eq(packet.psn, (FIRST_PSN + i) & PSN_MASK);
		peer_see_none(&peer, 20000);
		peer_acknowledge(&peer, FIRST_PSN + i, ACK);
	}
	expect_requests(&peer, FIRST_PSN + 2, 3);
	peer_acknowledge(&peer, FIRST_PSN + 4, ACK);
	expect_completions(&peer, 0, 5);
	expect_end(&peer);
}
END_TEST

/* --- both ----------------------------------------------------------------------------------- */

/* An RNR NAK of what was repeated: everything later (IBA 9.7.5.2.8). */
START_TEST(not_ready_for_what_was_repeated)
{
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&peer, IBV_WR_SEND, 8, i);
	expect_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	expect_repeated(&peer, FIRST_PSN);
	peer_acknowledge(&peer, FIRST_PSN, 0x21);
	ck_assert(peer_wait(&peer, &packet, 100000));
	ck_assert_uint_eq(packet.psn, FIRST_PSN);
	expect_requests(&peer, FIRST_PSN + 1, 2);
	peer_acknowledge(&peer, FIRST_PSN + 2, ACK);
	expect_completions(&peer, 0, 3);
	expect_end(&peer);
}
END_TEST

/* What was begun goes on in SQD (IBA 10.3.1.4), a repetition, too. */
START_TEST(repeated_in_sqd)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 3);
	world_modify_state(peer.qp, IBV_QPS_SQD);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 3);
	peer_acknowledge(&peer, FIRST_PSN + 1, NAK);
	expect_repeated(&peer, FIRST_PSN + 1);
	peer_acknowledge(&peer, FIRST_PSN + 2, ACK);
	expect_completions(&peer, 0, 3);
	peer_see_none(&peer, MS);
	world_modify_state(peer.qp, IBV_QPS_RTS);
	expect_requests(&peer, FIRST_PSN + 3, 1);
	peer_acknowledge(&peer, FIRST_PSN + 3, ACK);
	expect_completions(&peer, 3, 4);
	expect_end(&peer);
}
END_TEST

/* The memory has gone meanwhile. */
START_TEST(memory_of_the_repeated)
{
	struct peer peer;
	uint64_t told;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 3);
	ck_assert_int_eq(mr_deregister(peer.mr), 0);
	peer_acknowledge(&peer, FIRST_PSN, NAK);
	told = world_now(&peer.world);
	world_expect(peer.node, 0, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_le(world_now(&peer.world), told + 10000); /* it waits for no timeout */
	world_expect(peer.node, 1, IBV_WC_WR_FLUSH_ERR);
	world_expect(peer.node, 2, IBV_WC_WR_FLUSH_ERR);
	peer_see_none(&peer, SECOND);
	peer.mr = world_mr(peer.node, peer.memory, PEER_MEMORY, IBV_ACCESS_LOCAL_WRITE);
	peer_destroy(&peer);
}
END_TEST

/* A peer that is known to lose many packets, or none, at the end of a wide window. */
static void create_for_steps(struct peer *peer, bool lossy)
{
	struct destination *destination;

	peer_create(peer, IBV_QPT_RC, NULL);
	destination = peer->qp->recovery.destination;
	answer_after(peer, 10000);
	while (lossy && !destination_very_lossy(destination, world_now(&peer->world)))
		destination_lost_before(destination, world_now(&peer->world));
	destination->cwnd.size.limit = 4 * SEND_STEP_LEAST;
}

/*
 * Where many packets are lost, so that a NAK is looked for in between. The window may be smaller
 * then: what is under way has to be asked about.
 */
START_TEST(a_long_message_in_steps)
{
	const int packets = SEND_STEP_LEAST / PEER_MTU, step = SEND_STEP / PEER_MTU;
	bool lossy = _i, ends[SEND_STEP_LEAST / PEER_MTU + 1] = {false};
	uint8_t *memory = calloc(1, SEND_STEP_LEAST);
	struct ibv_sge sge = {(uintptr_t)memory, SEND_STEP_LEAST};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
	int sent, before = 0, unasked = 0;
	struct peer peer;
	struct mr *mr;
	uint32_t first;

	create_for_steps(&peer, lossy);
	mr = world_mr(peer.node, memory, SEND_STEP_LEAST, 0);
	sge.lkey = mr->ibv.lkey;
	first = peer.qp->requester.psn;
	/* What asks for an acknowledgement anyway doesn't come at the end of a step. */
	peer.qp->requester.since_request = 40;
	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	while ((sent = psn_distance(peer.qp->requester.psn, first)) < packets) {
		ck_assert_int_gt(sent, before);
		ck_assert_int_le(sent, before + step);
		ends[sent] = true;
		before = sent;
		hca_progress(peer.node->hca, world_now(&peer.world));
	}
	ck_assert(lossy == (before > 0));
	for (int i = 1; i <= packets; i++) {
		unasked = peer_see(&peer).ack_request ? 0 : unasked + 1;
		ck_assert_int_le(unasked, ends[i] ? step / 2 : step);
	}
	ck_assert_int_eq(mr_deregister(mr), 0);
	peer_destroy(&peer);
	free(memory);
}
END_TEST

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * One message at a time, of which two in a hundred are lost, or their answers: nothing behind tells
 * of it. Once that is known, one in a thousand takes 20 round trips at the most.
 */
START_TEST(a_lost_tail_is_repeated_soon)
{
	enum { WARM_UP = 2000, COUNT = 4000, ROUND_TRIP = 20000 };
	const struct sim_options network = {.latency = ROUND_TRIP / 2, .drop = 0.01};
	static uint64_t times[COUNT];
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &network, 1 + _i, NULL);
	for (int i = -WARM_UP; i < COUNT; i++) {
		uint64_t start = world_now(&p.world);

		pair_post(&p, _i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 8, 0);
		world_expect(p.a, 0, IBV_WC_SUCCESS);
		if (i >= 0)
			times[i] = world_now(&p.world) - start;
	}
	qsort(times, COUNT, sizeof(*times), compare_times);
	ck_assert_uint_lt(times[COUNT * 999 / 1000], 20 * ROUND_TRIP);
	ck_assert_uint_eq(p.a->hca->counters->timeouts, 0);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *kept = tcase_create("kept"), *dropped = tcase_create("dropped"),
	      *both = tcase_create("both");

	tcase_add_loop_test(kept, one_loss_costs_one_packet, 0, 4);
	tcase_add_test(kept, a_doubled_nak_is_one);
	tcase_add_test(kept, a_nak_twice_at_once);
	tcase_add_test(kept, sending_goes_on);
	tcase_add_test(kept, gap_behind_gap);
	tcase_add_test(kept, the_next_gap_is_known);
	tcase_add_test(kept, two_in_a_row);
	tcase_add_test(kept, two_in_a_row_by_an_acknowledgement);
	tcase_add_test(kept, a_long_run_is_everything);
	tcase_add_test(kept, late_is_not_lost);
	tcase_add_test(kept, a_lost_repetition_is_probed_for);
	tcase_add_test(kept, a_lost_read_request);
	tcase_add_test(kept, a_nak_answers_a_probe);
	tcase_add_test(kept, a_retransmission_that_was_given_up);
	tcase_add_loop_test(dropped, from_the_second_time_on_at_once, 0, 2);
	tcase_add_test(dropped, what_was_sent_again_proves_nothing);
	tcase_add_loop_test(dropped, acknowledged_before_it_is_sent_again, 0, 2);
	tcase_add_test(dropped, a_silent_responder_that_drops);
	tcase_add_test(both, not_ready_for_what_was_repeated);
	tcase_add_test(both, repeated_in_sqd);
	tcase_add_test(both, memory_of_the_repeated);
	tcase_add_test(both, marks_keep_up);
	tcase_add_loop_test(both, a_long_message_in_steps, 0, 2);
	tcase_add_loop_test(both, a_lost_tail_is_repeated_soon, 0, 4);
	return world_main("retransmit", (TCase *const[]){kept, dropped, both, NULL});
}
