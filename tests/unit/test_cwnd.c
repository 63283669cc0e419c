/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window and CUBIC: what may be in flight, growth, reduction and restoring. The
 * formulas of RFC 9438 stand here once more, in segments and seconds as the RFC has them.
 */
#include <math.h>

#include "emu/transport/cwnd.h"
#include "emu/transport/rtt.h"
#include "net/tuning.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define PIECES 50 /* acknowledgements of a round trip */

/* RFC 9438, 4.1 and 4.6; ALPHA is that of RFC 5681, for RFC 9438, 4.3 can't know of go back N. */
#define C 0.4
#define BETA 0.7
#define ALPHA 1

static struct cwnd cwnd;
static struct rtt rtt;
static uint64_t now;

static void begin(void)
{
	cwnd_init(&cwnd, &cwnd_cubic);
	rtt = (struct rtt){.smoothed = MS, .least = MS};
	now = 100 * SECOND;
}

static void begin_at(uint64_t limit, uint64_t round_trip)
{
	begin();
	rtt.smoothed = rtt.least = round_trip;
	cwnd.size.limit = limit;
}

/* All that may be in flight is, and one round trip later all of it has been acknowledged. */
static void run_round(void)
{
	uint64_t left = cwnd.size.limit, piece = left / PIECES;

	cwnd_on_sent(&cwnd, left - cwnd.in_flight);
	for (int i = 0; i < PIECES; i++) {
		uint64_t arrived = i == PIECES - 1 ? left : piece;

		now += rtt.smoothed / PIECES;
		left -= arrived;
		cwnd_on_acked(&cwnd, arrived, &rtt, now);
		/* What is acknowledged makes way for new packets at once. */
		cwnd_on_sent(&cwnd, arrived);
	}
}

static double segments(uint64_t bytes)
{
	return (double)bytes / CWND_SEGMENT;
}

/* --- what may be in flight ----------------------------------------------------------- */

START_TEST(starts_with_64_kib)
{
	unsigned int sent = 0;

	begin();
	while (cwnd_may_send(&cwnd, 1536)) {
		cwnd_on_sent(&cwnd, 1536);
		sent++;
	}
	ck_assert_uint_eq(sent, 65536 / 1536);
	cwnd_on_discarded(&cwnd, 1536);
	ck_assert(cwnd_may_send(&cwnd, 1536));
	ck_assert_uint_eq(cwnd.in_flight, 65536 / 1536 * 1536 - 1536);
}
END_TEST

START_TEST(an_empty_window_takes_anything)
{
	begin();
	ck_assert(cwnd_may_send(&cwnd, 10 * CWND_INITIAL));
	cwnd_on_sent(&cwnd, 10 * CWND_INITIAL);
	ck_assert(!cwnd_may_send(&cwnd, 1));
	cwnd_on_discarded(&cwnd, 9 * CWND_INITIAL);
	ck_assert(!cwnd_may_send(&cwnd, 1));
	cwnd_on_discarded(&cwnd, 1);
	ck_assert(cwnd_may_send(&cwnd, 1));
	ck_assert(!cwnd_may_send(&cwnd, 2));
}
END_TEST

/* What is more than half of the window goes into a half-empty one; the rest must fit. */
START_TEST(large_costs_go_into_a_half_empty_window)
{
	begin();
	cwnd_on_sent(&cwnd, CWND_INITIAL / 2 + 1);
	ck_assert(!cwnd_may_send(&cwnd, CWND_INITIAL));
	cwnd_on_discarded(&cwnd, 1);
	ck_assert(cwnd_may_send(&cwnd, CWND_INITIAL));
	ck_assert(cwnd_may_send(&cwnd, CWND_INITIAL / 2));
	cwnd_on_sent(&cwnd, 1);
	ck_assert(!cwnd_may_send(&cwnd, CWND_INITIAL / 2));
}
END_TEST

/* After a restart acknowledgements may come for what doesn't count any more. */
START_TEST(in_flight_ends_at_nothing)
{
	begin();
	cwnd_on_sent(&cwnd, 1000);
	cwnd_on_discarded(&cwnd, 2000);
	ck_assert_uint_eq(cwnd.in_flight, 0);
	cwnd_on_sent(&cwnd, 1000);
	cwnd_on_acked(&cwnd, 3000, &rtt, now);
	ck_assert_uint_eq(cwnd.in_flight, 0);
}
END_TEST

/* --- growth -------------------------------------------------------------------------- */

/* Up to what a LAN can use; then by as much a round trip as half of that (RFC 3742). */
START_TEST(slow_start_doubles_every_round_trip)
{
	uint64_t limit = CWND_INITIAL;

	begin();
	while (limit < CWND_LAN) {
		run_round();
		limit *= 2;
		ck_assert_uint_eq(cwnd.size.limit, limit);
	}
	while (cwnd.size.limit < CWND_MOST / 2) {
		limit = cwnd.size.limit;
		run_round();
		ck_assert_uint_le(cwnd.size.limit, limit + CWND_LAN / 2);
		ck_assert_uint_ge(cwnd.size.limit, limit + CWND_LAN / 4);
	}
}
END_TEST

/* RFC 7661 */
START_TEST(a_window_that_is_not_used_does_not_grow)
{
	begin();
	for (int i = 0; i < 100; i++) {
		cwnd_on_sent(&cwnd, CWND_INITIAL / 2 - 1);
		cwnd_on_acked(&cwnd, CWND_INITIAL / 2 - 1, &rtt, now++);
	}
	ck_assert_uint_eq(cwnd.size.limit, CWND_INITIAL);
	/* Nor with what nothing is known of. */
	cwnd_on_sent(&cwnd, CWND_INITIAL);
	cwnd_on_discarded(&cwnd, CWND_INITIAL);
	ck_assert_uint_eq(cwnd.size.limit, CWND_INITIAL);
	cwnd_on_sent(&cwnd, CWND_INITIAL / 2);
	cwnd_on_acked(&cwnd, 1000, &rtt, now);
	ck_assert_uint_eq(cwnd.size.limit, CWND_INITIAL + 1000);
}
END_TEST

static void measure(uint64_t sample)
{
	for (int i = 0; i < 100; i++)
		rtt_sample(&rtt, sample, now++);
}

/*
 * What a LAN can use every window may reach; more only where it isn't the window that makes the
 * round trip long.
 */
START_TEST(beyond_a_lan_only_while_nothing_queues)
{
	begin();
	rtt = (struct rtt){0};
	measure(MS);
	measure(2 * MS);
	for (int i = 0; i < 100; i++)
		run_round();
	ck_assert_uint_ge(cwnd.size.limit, CWND_LAN);
	ck_assert_uint_lt(cwnd.size.limit, CWND_LAN + CWND_LAN / PIECES);
	measure(2 * MS - 1);
	for (int i = 0; i < 100; i++)
		run_round();
	ck_assert_uint_ge(cwnd.size.limit, CWND_MOST);
	ck_assert_uint_lt(cwnd.size.limit, CWND_MOST + CWND_MOST / PIECES);
}
END_TEST

/* --- CUBIC --------------------------------------------------------------------------- */

/* RFC 9438, 4.2: W_cubic(t) */
static double w_cubic(double most, double start, double t)
{
	double k = cbrt((most - start) / C);

	return C * pow(t - k, 3) + most;
}

/*
 * Long round trips, a large window: concave up to W_max at K, level there, convex beyond it. Each
 * acknowledgement aims at where the curve is a round trip later, and so the window is on it.
 */
START_TEST(the_curve_of_a_long_fat_path)
{
	const double most = 400, start = BETA * most, k = cbrt((most - start) / C);
	const uint64_t round_trip = 100 * MS;
	double at_plateau = 0, t = 0;
	uint64_t begun;

	begin_at((uint64_t)most * CWND_SEGMENT, round_trip);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	ck_assert_double_eq_tol(segments(cwnd.size.limit), start, 0.01);
	begun = now + round_trip / PIECES; /* the first acknowledgement */
	while (t < 2 * k) {
		run_round();
		t = (now - begun) / 1e9;
		ck_assert_double_eq_tol(segments(cwnd.size.limit), w_cubic(most, start, t), 1.5);
		if (t < k)
			at_plateau = segments(cwnd.size.limit);
	}
	ck_assert_double_eq_tol(at_plateau, most, 1);
	ck_assert_double_gt(segments(cwnd.size.limit), most + (most - start) * 0.9);
}
END_TEST

/* RFC 9438, 4.3: where Reno would have more, as much as Reno. */
START_TEST(never_less_than_reno)
{
	const double most = 40, start = BETA * most;
	double expected = start;

	begin_at((uint64_t)most * CWND_SEGMENT, MS);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	for (int i = 0; i < 20; i++) {
		run_round();
		expected += ALPHA;
		ck_assert_double_eq_tol(segments(cwnd.size.limit), expected, 0.3);
	}
}
END_TEST

/*
 * RFC 9438, 4.2: half as much again in a round trip at most; each acknowledgement adds its part,
 * which comes to a factor of e^0.5.
 */
START_TEST(steep_parts_are_climbed_slowly)
{
	begin_at(20 * CWND_SEGMENT, 4 * SECOND);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	for (int i = 0; i < 10; i++) {
		double before = segments(cwnd.size.limit);

		run_round();
		ck_assert_double_le(segments(cwnd.size.limit), before * exp(0.5) * 1.01);
	}
	ck_assert_double_gt(segments(cwnd.size.limit), 100);
}
END_TEST

/* RFC 9438, 4.2: time in which the application didn't use the window doesn't count. */
START_TEST(a_pause_does_not_move_along_the_curve)
{
	const double most = 400, start = BETA * most;
	uint64_t begun;

	begin_at((uint64_t)most * CWND_SEGMENT, 100 * MS);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	begun = now;
	for (int i = 0; i < 20; i++)
		run_round();
	now += 60 * SECOND;
	begun += 60 * SECOND;
	for (int i = 0; i < 10; i++)
		run_round();
	ck_assert_double_eq_tol(segments(cwnd.size.limit),
				w_cubic(most, start, (now - begun) / 1e9), 3);
}
END_TEST

/* RFC 9438, 4.2: the plateau is where each reduction was, however far the window has come since. */
START_TEST(each_reduction_begins_a_curve)
{
	double most, start;
	uint64_t begun;

	begin_at(400 * CWND_SEGMENT, 100 * MS);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	while (cwnd.size.limit < 500 * CWND_SEGMENT)
		run_round();
	most = segments(cwnd.size.limit);
	now += 200 * MS;
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	start = segments(cwnd.size.limit);
	ck_assert_double_eq_tol(start, BETA * most, 0.01);
	begun = now + 100 * MS / PIECES;
	for (int i = 0; i < 100; i++) {
		run_round();
		ck_assert_double_eq_tol(segments(cwnd.size.limit),
					w_cubic(most, start, (now - begun) / 1e9), 1.5);
	}
}
END_TEST

/* A window that came to ssthresh without a loss begins at its plateau. */
START_TEST(the_curve_after_slow_start)
{
	const double most = 400;
	uint64_t begun;

	begin_at((uint64_t)most * CWND_SEGMENT, 100 * MS);
	cwnd.size.ssthresh = cwnd.size.limit;
	begun = now + 100 * MS / PIECES;
	for (int i = 0; i < 30; i++) {
		run_round();
		ck_assert_double_eq_tol(
			segments(cwnd.size.limit),
			fmax(w_cubic(most, most, (now - begun) / 1e9), most + (i + 1) * ALPHA),
			1.5);
	}
}
END_TEST

/* RFC 9438, 4.7: a window that is reduced before it was back at W_max leaves room. */
START_TEST(fast_convergence)
{
	const double most = 400;

	begin_at((uint64_t)most * CWND_SEGMENT, 100 * MS);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	ck_assert_double_eq_tol(cwnd.size.cubic.most / CWND_SEGMENT, most, 0.01);
	now += SECOND;
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	ck_assert_double_eq_tol(segments(cwnd.size.limit), BETA * BETA * most, 0.01);
	ck_assert_double_eq_tol(cwnd.size.cubic.most / CWND_SEGMENT, BETA * most * (1 + BETA) / 2,
				0.01);
}
END_TEST

/* --- reduction ----------------------------------------------------------------------- */

START_TEST(one_reduction_a_round_trip)
{
	const uint64_t rounds[] = {10 * MS, CWND_ROUND_LEAST / 100};

	for (int i = 0; i < 2; i++) {
		uint64_t round = i == 0 ? rounds[0] : CWND_ROUND_LEAST, limit = 4 << 20;
		uint32_t first;

		begin_at(limit, rounds[i]);
		first = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
		ck_assert_uint_eq(cwnd.size.limit, limit * 7 / 10);
		ck_assert_uint_eq(cwnd.size.ssthresh, cwnd.size.limit);
		ck_assert_uint_eq(cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + round - 1),
				  first);
		ck_assert_uint_eq(cwnd.size.limit, limit * 7 / 10);
		ck_assert_uint_ne(cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + round), first);
		ck_assert_double_eq_tol(cwnd.size.limit, limit * 0.49, 2);
	}
}
END_TEST

/* RFC 8511: a mark comes before the queue is full. */
START_TEST(a_mark_reduces_less)
{
	uint32_t number;

	begin_at(4 << 20, MS);
	cwnd_on_lost(&cwnd, CWND_MARKED, &rtt, now);
	ck_assert_double_eq_tol(cwnd.size.limit, 0.85 * (4 << 20), 2);
	/* RFC 3168, 6.1.2: a loss in the same round trip is the same event. */
	number = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 1);
	ck_assert_double_eq_tol(cwnd.size.limit, 0.85 * (4 << 20), 2);
	/* And if nothing was lost then, the mark was no less right. */
	cwnd_on_spurious(&cwnd, number);
	ck_assert_double_eq_tol(cwnd.size.limit, 0.85 * (4 << 20), 2);
}
END_TEST

START_TEST(a_few_packets_always_fit)
{
	begin();
	for (uint64_t i = 0; i < 50; i++)
		cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + i * MS);
	ck_assert_uint_eq(cwnd.size.limit, CWND_LEAST);
}
END_TEST

/*
 * What is lost alone leaves a short path full; a run of losses doesn't, nor is the path a long one.
 */
START_TEST(single_losses_leave_a_short_path_full)
{
	begin_at(1 << 20, CWND_SHORT_ROUND);
	for (uint64_t i = 0; i < 50; i++)
		cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now + i * MS);
	ck_assert_uint_eq(cwnd.size.limit, CWND_SHORT_LEAST);
	ck_assert_uint_eq(cwnd.size.ssthresh, CWND_SHORT_LEAST);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 50 * MS);
	ck_assert_uint_lt(cwnd.size.limit, CWND_SHORT_LEAST);
	/* Nor is one raised that was less. */
	cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now + 51 * MS);
	ck_assert_uint_lt(cwnd.size.limit, CWND_SHORT_LEAST);
	begin_at(1 << 20, CWND_SHORT_ROUND + 1);
	for (uint64_t i = 0; i < 50; i++)
		cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now + i * MS);
	ck_assert_uint_eq(cwnd.size.limit, CWND_LEAST);
}
END_TEST

/* The first of a run looks like a single loss: when it is known better, the window is, too. */
START_TEST(a_run_begins_with_one)
{
	uint32_t first, second;

	begin_at(CWND_SHORT_LEAST, CWND_SHORT_ROUND);
	first = cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now);
	ck_assert_uint_eq(cwnd.size.limit, CWND_SHORT_LEAST);
	second = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 1);
	ck_assert_uint_eq(cwnd.size.limit, CWND_SHORT_LEAST * 7 / 10);
	ck_assert_uint_eq(cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 2), second);
	ck_assert_uint_eq(cwnd.size.limit, CWND_SHORT_LEAST * 7 / 10);
	/* The first packet was late, but the run was lost. */
	cwnd_on_spurious(&cwnd, first);
	ck_assert_uint_eq(cwnd.size.limit, CWND_SHORT_LEAST * 7 / 10);
	/* It is reduced once, also where the first had reduced it. */
	begin_at(4 << 20, CWND_SHORT_ROUND);
	cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 1);
	ck_assert_uint_eq(cwnd.size.limit, (4 << 20) * 7 / 10);
}
END_TEST

/* --- restoring ----------------------------------------------------------------------- */

/* What one queue pair has lost isn't in vain because another one's packet was late. */
START_TEST(each_takes_back_its_own)
{
	uint32_t first, other;

	begin_at(4 << 20, 10 * MS);
	first = cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now);
	other = cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now + 1);
	cwnd_on_spurious(&cwnd, other);
	ck_assert_uint_eq(cwnd.size.limit, (4 << 20) * 7 / 10);
	cwnd_on_spurious(&cwnd, first);
	ck_assert_uint_eq(cwnd.size.limit, 4 << 20);
	/* Then the next loss counts, however soon it comes. */
	cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now + 2);
	ck_assert_uint_eq(cwnd.size.limit, (4 << 20) * 7 / 10);
}
END_TEST

/* A mark was right, whatever was lost: the next one of its round trip is no other event. */
START_TEST(a_mark_isnt_taken_back)
{
	uint32_t number;
	uint64_t limit;

	begin_at(4 << 20, 10 * MS);
	cwnd_on_lost(&cwnd, CWND_MARKED, &rtt, now);
	limit = cwnd.size.limit;
	number = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 1);
	cwnd_on_spurious(&cwnd, number);
	cwnd_on_lost(&cwnd, CWND_MARKED, &rtt, now + 2);
	ck_assert_uint_eq(cwnd.size.limit, limit);
}
END_TEST

/* RFC 9438, 4.9: with all that the algorithm knew. */
START_TEST(a_reduction_in_vain_is_undone)
{
	struct cwnd_size before;
	uint32_t number;

	begin();
	run_round();
	before = cwnd.size;
	number = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	run_round();
	ck_assert_uint_lt(cwnd.size.limit, before.limit);
	cwnd_on_spurious(&cwnd, number);
	ck_assert_uint_eq(cwnd.size.limit, before.limit);
	run_round(); /* in slow start again */
	ck_assert_uint_eq(cwnd.size.limit, 2 * before.limit);
}
END_TEST

START_TEST(a_real_reduction_stays)
{
	uint32_t first, second;
	uint64_t limit;

	begin_at(4 << 20, MS);
	first = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	second = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 2 * MS);
	limit = cwnd.size.limit;
	cwnd_on_spurious(&cwnd, first); /* what came after it was another loss */
	ck_assert_uint_eq(cwnd.size.limit, limit);
	cwnd_on_spurious(&cwnd, second);
	ck_assert_uint_eq(cwnd.size.limit, (4 << 20) * 7 / 10);
}
END_TEST

/* To go back N over a long path begins with little more than the others have in flight. */
START_TEST(going_back_begins_slowly_on_a_long_path)
{
	begin_at(4 << 20, CWND_ROUND_LEAST);
	cwnd.size.ssthresh = 4 << 20; /* it was reduced before */
	cwnd_on_restart(&cwnd, &rtt);
	ck_assert_uint_eq(cwnd.size.limit, 4 << 20);
	rtt.least = 2 * CWND_ROUND_LEAST;
	cwnd_on_sent(&cwnd, 3 * CWND_INITIAL);
	cwnd_on_restart(&cwnd, &rtt);
	ck_assert_uint_eq(cwnd.size.limit, 4 * CWND_INITIAL);
	run_round();
	ck_assert_uint_eq(cwnd.size.limit, 8 * CWND_INITIAL);
	while (cwnd.size.limit < 4 << 20)
		run_round();
	ck_assert_uint_lt(cwnd.size.limit, (4 << 20) + CWND_LAN / 2);
	cwnd_on_discarded(&cwnd, cwnd.in_flight);
	cwnd.size.limit = CWND_INITIAL / 2;
	cwnd_on_restart(&cwnd, &rtt);
	ck_assert_uint_eq(cwnd.size.limit, CWND_INITIAL / 2);
}
END_TEST

/* While the round trip is measured anew little is in flight; then as much as before, soon. */
START_TEST(a_window_that_is_used_drains)
{
	const uint64_t limit = 4 << 20;

	begin_at(limit, 20 * MS);
	cwnd.size.ssthresh = limit;
	cwnd_on_sent(&cwnd, limit / 2 - 1);
	cwnd_drain(&cwnd, now + SECOND);
	ck_assert_uint_eq(cwnd.size.limit, limit); /* there is no queue that it holds full */
	cwnd_on_sent(&cwnd, 1);
	cwnd_drain(&cwnd, now + SECOND);
	ck_assert_uint_eq(cwnd.size.limit, limit / CWND_DRAIN_FRACTION);
	ck_assert_uint_eq(cwnd.size.ssthresh, limit);
	cwnd_on_discarded(&cwnd, cwnd.in_flight);
	for (int i = 0; i < 49; i++)
		run_round();
	ck_assert_uint_eq(cwnd.size.limit, limit / CWND_DRAIN_FRACTION);
	for (int i = 0; i < 6; i++)
		run_round();
	ck_assert_uint_ge(cwnd.size.limit, limit);

	begin_at(2 * CWND_LEAST, 20 * MS);
	cwnd_on_sent(&cwnd, 2 * CWND_LEAST);
	cwnd_drain(&cwnd, now + SECOND);
	ck_assert_uint_eq(cwnd.size.limit, CWND_LEAST);
}
END_TEST

/* Several queue pairs go back for the same losses: the window grows again to what it was before. */
START_TEST(all_go_back_for_the_same)
{
	enum { QUEUE_PAIRS = 4 };
	uint64_t limit;

	begin_at(4 << 20, 2 * CWND_ROUND_LEAST);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	limit = cwnd.size.limit;
	cwnd_on_sent(&cwnd, limit);
	for (int i = 0; i < QUEUE_PAIRS; i++) {
		cwnd_on_discarded(&cwnd, limit / QUEUE_PAIRS);
		cwnd_on_restart(&cwnd, &rtt);
	}
	ck_assert_uint_le(cwnd.size.limit, QUEUE_PAIRS + CWND_INITIAL);
	ck_assert_uint_eq(cwnd.size.ssthresh, limit);
}
END_TEST

/* A thread that waited for the lock reduces no more than the one that had it, and does it later. */
START_TEST(one_that_comes_late_is_of_the_same_round_trip)
{
	uint64_t limit;

	begin_at(4 << 20, MS);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	limit = cwnd.size.limit;
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now - 1);
	ck_assert_uint_eq(cwnd.size.limit, limit);
}
END_TEST

/* However many are acknowledged at once. */
START_TEST(a_bound_is_kept)
{
	const uint64_t most = 3 * CWND_INITIAL + 1;

	begin();
	cwnd_bound(&cwnd, most);
	for (int i = 0; i < 4; i++)
		run_round();
	ck_assert_uint_eq(cwnd.size.limit, most);
	cwnd_bound(&cwnd, CWND_MOST); /* another QP's link has space for more */
	run_round();
	ck_assert_uint_eq(cwnd.size.limit, most);
	cwnd_bound(&cwnd, CWND_INITIAL);
	ck_assert_uint_eq(cwnd.size.limit, CWND_INITIAL);
}
END_TEST

/* Also by what is restored that was larger before. */
START_TEST(a_restored_window_is_bound)
{
	uint32_t number;

	begin_at(4 << 20, MS);
	number = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	cwnd_bound(&cwnd, 1 << 20);
	cwnd_on_spurious(&cwnd, number);
	ck_assert_uint_eq(cwnd.size.limit, 1 << 20);
	/* A single loss at first, then a run of them. */
	begin_at(4 << 20, CWND_SHORT_ROUND);
	cwnd_on_lost(&cwnd, CWND_LOST_ONE, &rtt, now);
	cwnd_bound(&cwnd, 1 << 20);
	cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now + 1);
	ck_assert_uint_le(cwnd.size.limit, 1 << 20);
}
END_TEST

START_TEST(what_has_grown_since_is_kept)
{
	uint64_t limit;
	uint32_t number;

	begin_at(40 * CWND_SEGMENT, MS);
	number = cwnd_on_lost(&cwnd, CWND_LOST_MANY, &rtt, now);
	while (cwnd.size.limit < 50 * CWND_SEGMENT)
		run_round();
	limit = cwnd.size.limit;
	cwnd_on_spurious(&cwnd, number);
	ck_assert_uint_eq(cwnd.size.limit, limit);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("cwnd");
	Suite *suite = suite_create("cwnd");

	tcase_add_test(tests, starts_with_64_kib);
	tcase_add_test(tests, an_empty_window_takes_anything);
	tcase_add_test(tests, large_costs_go_into_a_half_empty_window);
	tcase_add_test(tests, in_flight_ends_at_nothing);
	tcase_add_test(tests, slow_start_doubles_every_round_trip);
	tcase_add_test(tests, a_window_that_is_not_used_does_not_grow);
	tcase_add_test(tests, beyond_a_lan_only_while_nothing_queues);
	tcase_add_test(tests, the_curve_of_a_long_fat_path);
	tcase_add_test(tests, never_less_than_reno);
	tcase_add_test(tests, steep_parts_are_climbed_slowly);
	tcase_add_test(tests, a_pause_does_not_move_along_the_curve);
	tcase_add_test(tests, each_reduction_begins_a_curve);
	tcase_add_test(tests, the_curve_after_slow_start);
	tcase_add_test(tests, fast_convergence);
	tcase_add_test(tests, one_reduction_a_round_trip);
	tcase_add_test(tests, a_mark_reduces_less);
	tcase_add_test(tests, a_few_packets_always_fit);
	tcase_add_test(tests, single_losses_leave_a_short_path_full);
	tcase_add_test(tests, a_run_begins_with_one);
	tcase_add_test(tests, a_reduction_in_vain_is_undone);
	tcase_add_test(tests, each_takes_back_its_own);
	tcase_add_test(tests, a_mark_isnt_taken_back);
	tcase_add_test(tests, a_real_reduction_stays);
	tcase_add_test(tests, what_has_grown_since_is_kept);
	tcase_add_test(tests, going_back_begins_slowly_on_a_long_path);
	tcase_add_test(tests, a_window_that_is_used_drains);
	tcase_add_test(tests, all_go_back_for_the_same);
	tcase_add_test(tests, one_that_comes_late_is_of_the_same_round_trip);
	tcase_add_test(tests, a_bound_is_kept);
	tcase_add_test(tests, a_restored_window_is_bound);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
