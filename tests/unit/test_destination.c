/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the queue pairs that send to one address have in common: one of each address, its account
 * of the window, which round trips count, and what wakes those that wait. The run queue is played
 * by this file.
 */
#include "core.h"
#include "emu/objects/qp.h"
#include "emu/transport/destination.h"
#include "net/tuning.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define PACKET (1024 + CWND_PACKET_OVERHEAD)

static struct qp qps[2];
static struct arbiter_member *member;
static struct destination *destination;
static unsigned int scheduled;

void hca_schedule(struct hca *hca, struct qp *qp)
{
	ck_assert_ptr_eq(hca, &core);
	scheduled++;
}

static struct destination *get(uint8_t address)
{
	union ibv_gid gid = {.raw = {[15] = address}};
	struct destination *found;

	ck_assert_int_eq(destination_get(&core, &gid, &found), 0);
	return found;
}

/* A path that is long enough for it to be paced, and its window is full. */
static void measure_long(uint64_t now)
{
	destination_acked(destination, 0, 20 * MS, false, now);
	destination->cwnd.size.limit = destination->cwnd.size.ssthresh = 1024 * CWND_SEGMENT;
	destination_sent(destination, destination->cwnd.size.limit);
}

static void begin(void)
{
	for (int i = 0; i < 2; i++) {
		qps[i].hca = &core;
		qps[i].recovery.member.qp = &qps[i];
	}
	member = &qps[0].recovery.member;
	destination = get(1);
}

static void end(void)
{
	/* Woken, the second QP had nothing to send. */
	destination_forget(destination, &qps[1].recovery.member);
	ck_assert_ptr_null(destination->arbiter.head);
	destination_put(destination);
	ck_assert_ptr_null(core.destinations);
}

static uint32_t take(struct arbiter_member *taker, uint32_t packets)
{
	uint64_t until;
	uint32_t granted = destination_take(destination, taker, PACKET, packets, SECOND, &until);

	ck_assert_uint_eq(until, 0);
	return granted;
}

/* The window is full, and the second QP waits. */
static void fill(void)
{
	destination_sent(destination, CWND_INITIAL);
	ck_assert_uint_eq(take(&qps[1].recovery.member, 1), 0);
	ck_assert(qps[1].recovery.member.waiting);
}

START_TEST(one_of_each_address)
{
	struct destination *a = get(1), *b = get(2), *c = get(1);

	ck_assert_ptr_eq(a, c);
	ck_assert_ptr_ne(a, b);
	destination_put(a);
	destination_put(b);
	ck_assert_ptr_eq(core.destinations, c);
	destination_put(c);
	ck_assert_ptr_null(core.destinations);
}
END_TEST

START_TEST(what_is_granted_is_in_flight)
{
	begin();
	ck_assert_uint_eq(destination_limit(destination), CWND_INITIAL);
	ck_assert_uint_eq(take(member, 10), 10);
	ck_assert_uint_eq(destination->cwnd.in_flight, 10 * PACKET);
	destination_discard(destination, 4 * PACKET);
	ck_assert_uint_eq(destination->cwnd.in_flight, 6 * PACKET);
	destination_acked(destination, 5 * PACKET, 0, false, SECOND);
	ck_assert_uint_eq(destination->cwnd.in_flight, PACKET);
	/* A probe is sent whether it fits or not. */
	destination_sent(destination, 10 * CWND_INITIAL);
	ck_assert_uint_eq(destination->cwnd.in_flight, 10 * CWND_INITIAL + PACKET);
	end();
}
END_TEST

START_TEST(acknowledgements_wake)
{
	begin();
	fill();
	destination_acked(destination, 0, 0, false, SECOND);
	ck_assert_uint_eq(scheduled, 0);
	destination_acked(destination, CWND_SEGMENT, 0, false, SECOND);
	ck_assert_uint_eq(scheduled, 1);
	end();
}
END_TEST

/* A silent queue pair gives its bytes back. */
START_TEST(what_is_discarded_wakes)
{
	begin();
	fill();
	destination_discard(destination, 0);
	ck_assert_uint_eq(scheduled, 0);
	destination_discard(destination, CWND_SEGMENT);
	ck_assert_uint_eq(scheduled, 1);
	end();
}
END_TEST

START_TEST(a_restored_window_wakes)
{
	uint32_t number;

	begin();
	fill();
	number = destination_lost(destination, CWND_LOST_MANY, SECOND);
	ck_assert_uint_lt(destination_limit(destination), CWND_INITIAL);
	destination_discard(destination, CWND_INITIAL / 4);
	ck_assert_uint_eq(scheduled, 0);
	destination_spurious(destination, number);
	ck_assert_uint_eq(destination_limit(destination), CWND_INITIAL);
	ck_assert_uint_eq(scheduled, 1);
	end();
}
END_TEST

/* What the link has space for, of all that there is room for elsewhere. */
START_TEST(a_bound_is_the_windows)
{
	begin();
	destination_bound(destination, CWND_INITIAL / 2);
	ck_assert_uint_eq(destination_limit(destination), CWND_INITIAL / 2);
	end();
}
END_TEST

/* --- on a long path ------------------------------------------------------------------------- */

/* One that has to wait for its time keeps its place among those that wait for space. */
START_TEST(what_is_paced_waits_in_order)
{
	uint64_t until = 0, granted = 0;

	begin();
	measure_long(SECOND);
	destination_discard(destination, destination->cwnd.in_flight);
	while (!until && granted < 1024)
		granted += destination_take(destination, member, CWND_SEGMENT, 8, SECOND, &until);
	ck_assert_uint_gt(granted, 0);
	ck_assert_uint_lt(granted, 1024 / 2);
	ck_assert_uint_gt(until, SECOND);
	ck_assert(member->waiting);
	ck_assert_uint_eq(destination->cwnd.in_flight, granted * CWND_SEGMENT);
	destination_forget(destination, member);
	end();
}
END_TEST

START_TEST(going_back_begins_slowly)
{
	begin();
	measure_long(SECOND);
	destination_discard(destination, destination->cwnd.in_flight);
	destination_restarted(destination);
	ck_assert_uint_eq(destination_limit(destination), CWND_INITIAL);
	end();
}
END_TEST

/* As when it may be another route that takes longer, and not a queue. */
START_TEST(the_window_drains_to_measure)
{
	begin();
	measure_long(SECOND);
	for (int i = 0; i < 2 * RTT_RECENT; i++)
		destination_acked(destination, 0, 30 * MS, false, SECOND + RTT_LEAST_PERIOD - 1);
	ck_assert_uint_eq(destination_limit(destination), 1024 * CWND_SEGMENT);
	destination_acked(destination, 0, 30 * MS, false, SECOND + RTT_LEAST_PERIOD);
	ck_assert_uint_eq(destination_limit(destination),
			  1024 * CWND_SEGMENT / CWND_DRAIN_FRACTION);
	end();
}
END_TEST

START_TEST(a_forgotten_member_is_not_woken)
{
	begin();
	fill();
	destination_forget(destination, &qps[1].recovery.member);
	ck_assert(!qps[1].recovery.member.waiting);
	destination_discard(destination, CWND_INITIAL);
	ck_assert_uint_eq(scheduled, 0);
	end();
}
END_TEST

/* --- when to probe ----------------------------------------------------------------------- */

START_TEST(a_guess_until_something_was_measured)
{
	begin();
	ck_assert_uint_eq(destination->probe_timeout, PROBE_TIMEOUT_INITIAL);
	ck_assert_uint_eq(destination->retransmit_least, RETRANSMIT_TIMEOUT_INITIAL);
	/* Neither an acknowledgement that times nothing nor a loss says how long it takes. */
	destination_acked(destination, PACKET, 0, false, SECOND);
	destination_lost(destination, CWND_LOST_MANY, SECOND);
	ck_assert_uint_eq(destination->probe_timeout, PROBE_TIMEOUT_INITIAL);
	ck_assert_uint_eq(destination->retransmit_least, RETRANSMIT_TIMEOUT_INITIAL);
	end();
}
END_TEST

START_TEST(a_probe_waits_for_what_was_measured)
{
	begin();
	destination_acked(destination, 0, 100 * US, false, SECOND);
	ck_assert_uint_eq(destination->probe_timeout, PROBE_TIMEOUT_LEAST);
	destination_acked(destination, 0, 20 * MS, false, SECOND);
	ck_assert_uint_ge(destination->probe_timeout, 40 * MS);
	end();
}
END_TEST

/* Where a NAK is lost as often as that, sooner still. */
START_TEST(quicker_where_many_are_lost)
{
	begin();
	destination_acked(destination, 0, 100 * US, false, SECOND);
	for (int i = 0; i < 10; i++) {
		ck_assert(!destination_very_lossy(destination, SECOND) || i > 3);
		destination_lost(destination, CWND_LOST_MANY, SECOND);
		destination_acked(destination, VERY_LOSSY_INTERVAL / 4, 0, false, SECOND);
	}
	ck_assert(destination_very_lossy(destination, SECOND));
	ck_assert_uint_eq(destination->retransmit_least, PROBE_TIMEOUT_VERY_LOSSY);
	for (int i = 0; i < 10; i++) {
		destination_acked(destination, 4 * VERY_LOSSY_INTERVAL, 0, false, SECOND);
		destination_lost(destination, CWND_LOST_MANY, SECOND);
	}
	ck_assert(!destination_very_lossy(destination, SECOND));
	end();
}
END_TEST

/* As long as losses are remembered nothing waits for time slices of a busy machine. */
START_TEST(repeats_are_quick_where_packets_are_lost)
{
	begin();
	destination_acked(destination, 0, 100 * US, false, SECOND);
	ck_assert_uint_eq(destination->retransmit_least, RETRANSMIT_TIMEOUT_LEAST);
	destination_lost(destination, CWND_LOST_MANY, SECOND);
	ck_assert_uint_eq(destination->retransmit_least, PROBE_TIMEOUT_LEAST);
	destination_acked(destination, 0, 100 * US, false, SECOND + RTT_PERIOD - 1);
	ck_assert_uint_eq(destination->retransmit_least, PROBE_TIMEOUT_LEAST);
	destination_acked(destination, 0, 100 * US, false, SECOND + RTT_PERIOD);
	ck_assert_uint_eq(destination->retransmit_least, RETRANSMIT_TIMEOUT_LEAST);
	end();
}
END_TEST

/* Silence that ends just when a packet was sent again was a loss; else the peer took its time. */
START_TEST(a_probe_that_is_answered_soon_was_for_a_loss)
{
	begin();
	destination_probe_answered(destination, 0, SECOND); /* nothing was measured yet */
	ck_assert(!destination_lossy(destination, SECOND));
	destination_acked(destination, 0, 100 * US, false, SECOND);
	destination_probe_answered(destination, 2 * 100 * US + PROBE_ANSWER_SLACK + 1, SECOND);
	ck_assert(!destination_lossy(destination, SECOND));
	ck_assert_uint_eq(destination->retransmit_least, RETRANSMIT_TIMEOUT_LEAST);
	destination_probe_answered(destination, 2 * 100 * US + PROBE_ANSWER_SLACK, SECOND);
	ck_assert(destination_lossy(destination, SECOND));
	ck_assert_uint_eq(destination->retransmit_least, PROBE_TIMEOUT_LEAST);
	ck_assert_uint_eq(destination->cwnd.reductions, 0);
	end();
}
END_TEST

/* What was sent again can't have been answered so soon: that was the answer to what came before. */
START_TEST(an_answer_that_comes_at_once_was_none_to_the_probe)
{
	begin();
	destination_acked(destination, 0, 100 * US, false, SECOND);
	ck_assert(!destination_probe_answered(destination, 75 * US - 1, SECOND));
	ck_assert(!destination_lossy(destination, SECOND));
	ck_assert(destination_probe_answered(destination, 75 * US, SECOND));
	end();
}
END_TEST

/* A queue is long, but nothing is lost: neither are timeouts shorter for it. */
START_TEST(a_mark_is_no_loss)
{
	begin();
	destination_acked(destination, 0, 100 * US, false, SECOND);
	destination_lost(destination, CWND_MARKED, SECOND);
	ck_assert_uint_eq(destination->cwnd.reductions, 1);
	ck_assert(!destination_lossy(destination, SECOND));
	ck_assert_uint_eq(destination->retransmit_least, RETRANSMIT_TIMEOUT_LEAST);
	end();
}
END_TEST

/* Until a round trip was measured, what came late says how late the next may be. */
START_TEST(late_answers_are_allowed_for)
{
	begin();
	ck_assert_uint_eq(destination_slowest_answer(destination), PROBE_TIMEOUT_INITIAL);
	destination_answered_late(destination, 300 * MS);
	ck_assert_uint_eq(destination_slowest_answer(destination), 600 * MS);
	destination_acked(destination, 0, 20 * MS, false, SECOND);
	ck_assert_uint_eq(destination_slowest_answer(destination), destination->probe_timeout);
	destination_answered_late(destination, 300 * MS);
	ck_assert_uint_eq(destination_slowest_answer(destination), destination->probe_timeout);
	end();
}
END_TEST

START_TEST(remembers_when_something_arrived)
{
	begin();
	destination_acked(destination, PACKET, 0, false, SECOND);
	ck_assert(destination_acked_since(destination, SECOND - 1));
	ck_assert(!destination_acked_since(destination, SECOND));
	destination_acked(destination, 0, 0, false, 2 * SECOND); /* nothing did */
	ck_assert(!destination_acked_since(destination, SECOND));
	end();
}
END_TEST

/*
 * What was timed may be the answer to a probe, because the first answer was lost. That isn't
 * likely where nothing is lost: there it was the peer that took its time.
 */
START_TEST(ambiguous_samples_count_where_nothing_is_lost)
{
	begin();
	destination_acked(destination, 0, 100 * US, false, SECOND);
	destination_lost(destination, CWND_LOST_MANY, SECOND);
	destination_acked(destination, 0, 50 * MS, true, SECOND + 50 * MS);
	ck_assert_uint_eq(destination->rtt.smoothed, 100 * US);
	destination_acked(destination, 0, 50 * MS, true, SECOND + RTT_PERIOD);
	ck_assert_uint_gt(destination->rtt.smoothed, MS);
	ck_assert_uint_ge(destination->probe_timeout, 100 * MS);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {one_of_each_address,
				      what_is_granted_is_in_flight,
				      acknowledgements_wake,
				      what_is_discarded_wakes,
				      a_restored_window_wakes,
				      a_bound_is_the_windows,
				      what_is_paced_waits_in_order,
				      going_back_begins_slowly,
				      the_window_drains_to_measure,
				      a_forgotten_member_is_not_woken,
				      a_guess_until_something_was_measured,
				      a_probe_waits_for_what_was_measured,
				      repeats_are_quick_where_packets_are_lost,
				      quicker_where_many_are_lost,
				      a_probe_that_is_answered_soon_was_for_a_loss,
				      an_answer_that_comes_at_once_was_none_to_the_probe,
				      a_mark_is_no_loss,
				      late_answers_are_allowed_for,
				      remembers_when_something_arrived,
				      ambiguous_samples_count_where_nothing_is_lost,
				      NULL};

	return core_run("destination", tests);
}
