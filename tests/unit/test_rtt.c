/* SPDX-License-Identifier: BSD-2-Clause */
/* The measured round trip: RFC 6298, and the longest that is remembered for a while. */
#include <math.h>

#include "emu/transport/rtt.h"
#include "net/random.h"
#include "net/tuning.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define LEAST (10 * US)

START_TEST(the_first_sample)
{
	struct rtt rtt = {0};

	rtt_sample(&rtt, 800 * US, 5 * MS);
	ck_assert_uint_eq(rtt.smoothed, 800 * US);
	ck_assert_uint_eq(rtt.variation, 400 * US);
	ck_assert_uint_eq(rtt.least, 800 * US);
	ck_assert_uint_eq(rtt_probe_timeout(&rtt, LEAST), (800 + 4 * 400) * US);
}
END_TEST

/* A simulated network may have no latency, and 0 means that nothing was measured. */
START_TEST(no_time_at_all_is_a_sample)
{
	struct rtt rtt = {0};

	rtt_sample(&rtt, 0, 0);
	ck_assert_uint_gt(rtt.smoothed, 0);
	ck_assert_uint_gt(rtt.least, 0);
	ck_assert_uint_eq(rtt_probe_timeout(&rtt, LEAST), LEAST);
}
END_TEST

/* RFC 6298, 2.3, but for what whole nanoseconds cut off. */
START_TEST(smoothing)
{
	double smoothed = 0, variation = 0;
	uint64_t least = UINT64_MAX, random = _i;
	struct rtt rtt = {0};

	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t sample = 50 * US + random_below(&random, 1000 * US);

		rtt_sample(&rtt, sample, i * MS);
		if (i == 0) {
			smoothed = sample;
			variation = sample / 2.0;
		} else {
			variation = 0.75 * variation + 0.25 * fabs(smoothed - sample);
			smoothed = 0.875 * smoothed + 0.125 * sample;
		}
		if (sample < least)
			least = sample;
		must_msg(fabs(rtt.smoothed - smoothed) <= 8, "seed %d: SRTT %llu, not %f", _i,
			 (unsigned long long)rtt.smoothed, smoothed);
		must_msg(fabs(rtt.variation - variation) <= 16, "seed %d: RTTVAR %llu, not %f", _i,
			 (unsigned long long)rtt.variation, variation);
		must(rtt.least == least);
	}
}
END_TEST

START_TEST(a_steady_path_is_probed_after_two_round_trips)
{
	struct rtt rtt = {0};

	for (uint64_t i = 0; i < 200; i++)
		rtt_sample(&rtt, 1 * MS, i * MS);
	ck_assert_uint_eq(rtt.smoothed, 1 * MS);
	ck_assert_uint_lt(rtt.variation, 4);
	ck_assert_uint_eq(rtt_probe_timeout(&rtt, LEAST), 2 * MS);
	ck_assert_uint_eq(rtt_probe_timeout(&rtt, 3 * MS), 3 * MS);
}
END_TEST

/*
 * One stall of the peer among short round trips, anywhere in a period: the average forgets it in
 * ten samples, the probe timeout allows for it for one period at least and two at most.
 */
START_TEST(a_stall_is_remembered_for_a_period)
{
	const uint64_t stall = 30 * MS, step = RTT_PERIOD / 20;
	const uint64_t at = 50 * step + _i * step;
	struct rtt rtt = {0};

	for (uint64_t now = step; now < at + 3 * RTT_PERIOD; now += step) {
		rtt_sample(&rtt, now == at ? stall : 100 * US, now);
		if (now < at || now > at + 2 * RTT_PERIOD)
			ck_assert_uint_lt(rtt_probe_timeout(&rtt, LEAST), MS);
		else if (now < at + RTT_PERIOD)
			ck_assert_uint_ge(rtt_probe_timeout(&rtt, LEAST), 2 * stall);
	}
}
END_TEST

/* A thread that began to receive before another one's sample begins no new period. */
START_TEST(a_late_sample_forgets_nothing)
{
	struct rtt rtt = {0};

	rtt_sample(&rtt, 100 * US, 5 * MS);
	rtt_sample(&rtt, 30 * MS, 2 * RTT_PERIOD);
	rtt_sample(&rtt, 100 * US, 2 * RTT_PERIOD - 1);
	ck_assert_uint_ge(rtt_probe_timeout(&rtt, LEAST), 60 * MS);
}
END_TEST

/* Nothing was sent for a long time: the first sample begins a new period, and is alone in it. */
START_TEST(a_pause_forgets_the_longest)
{
	struct rtt rtt = {0};

	rtt_sample(&rtt, 100 * US, 0);
	rtt_sample(&rtt, 30 * MS, MS);
	for (uint64_t i = 0; i < 100; i++)
		rtt_sample(&rtt, 100 * US, 2 * MS);
	ck_assert_uint_eq(rtt_probe_timeout(&rtt, LEAST), 60 * MS);
	rtt_sample(&rtt, 100 * US, 2 * RTT_PERIOD);
	ck_assert_uint_lt(rtt_probe_timeout(&rtt, LEAST), MS);
}
END_TEST

/* A queue is where even the shortest of the latest round trips are long; a stall isn't one. */
START_TEST(queues_and_stalls)
{
	struct rtt rtt = {0};

	rtt_sample(&rtt, MS, 0);
	ck_assert(!rtt_queueing(&rtt));
	for (int i = 0; i < 100; i++) {
		rtt_sample(&rtt, i % RTT_RECENT ? 50 * MS : MS, i);
		ck_assert(!rtt_queueing(&rtt));
	}
	for (int i = 0; i < 2 * RTT_RECENT; i++)
		rtt_sample(&rtt, 2 * MS, 100);
	ck_assert(rtt_queueing(&rtt));
	rtt_sample(&rtt, 2 * MS - 1, 100);
	ck_assert(!rtt_queueing(&rtt));
}
END_TEST

/* A stall doesn't count; a path that has become longer does, soon. */
/* Of a path that has become longer; not while samples are as short as ever, and not of a LAN. */
START_TEST(the_least_is_measured_anew)
{
	struct rtt rtt = {0};
	uint64_t now = SECOND;

	for (; now < SECOND + 2 * RTT_LEAST_PERIOD; now += 100 * MS) {
		rtt_sample(&rtt, 10 * MS + now % 700 * US, now);
		ck_assert(!rtt_measure_anew(&rtt, now));
	}
	for (int i = 0; now < SECOND + 3 * RTT_LEAST_PERIOD - 100 * MS; now += 100 * MS) {
		rtt_sample(&rtt, (50 + i++ % 5) * MS, now);
		ck_assert(!rtt_measure_anew(&rtt, now));
	}
	ck_assert_uint_lt(rtt.least, 11 * MS);
	rtt_sample(&rtt, 60 * MS, now);
	now = rtt.least_at + RTT_LEAST_PERIOD;
	ck_assert(rtt_measure_anew(&rtt, now));
	ck_assert(!rtt_measure_anew(&rtt, now));
	rtt_sample(&rtt, 40 * MS, now + 100 * MS);
	ck_assert_uint_lt(rtt.least, 11 * MS);
	if (_i) { /* it was a queue */
		rtt_sample(&rtt, 10 * MS, now + 200 * MS);
		rtt_sample(&rtt, 70 * MS, now + 500 * MS);
		ck_assert_uint_lt(rtt.least, 11 * MS);
	} else {
		rtt_sample(&rtt, 70 * MS, now + 500 * MS);
		ck_assert_uint_eq(rtt.least, 40 * MS);
	}
	ck_assert(!rtt_measure_anew(&rtt, now + 500 * MS));

	rtt = (struct rtt){0};
	rtt_sample(&rtt, 10 * US, 0);
	for (now = 0; now < 3 * RTT_LEAST_PERIOD; now += 100 * MS) {
		rtt_sample(&rtt, 900 * US, now);
		ck_assert(!rtt_measure_anew(&rtt, now));
	}
}
END_TEST

START_TEST(what_is_typical)
{
	struct rtt rtt = {0};

	for (int i = 0; i < 100; i++)
		rtt_sample(&rtt, 100 * US, i);
	ck_assert_uint_eq(rtt_typical_timeout(&rtt, 200 * US), 200 * US);
	/* None of them came later than the others: still not just when the next one is due. */
	ck_assert_uint_eq(rtt_typical_timeout(&rtt, 10 * US), 150 * US);
	rtt_sample(&rtt, 30 * MS, 100);
	ck_assert_uint_gt(rtt_timeout(&rtt, LEAST), 20 * MS);
	ck_assert_uint_le(rtt_typical_timeout(&rtt, LEAST), 250 * US);
	for (int i = 0; i < 60; i++)
		rtt_sample(&rtt, 30 * MS, 101 + i);
	ck_assert_uint_ge(rtt_typical_timeout(&rtt, LEAST), 30 * MS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rtt");
	TCase *tests = tcase_create("rtt");

	tcase_add_test(tests, the_first_sample);
	tcase_add_test(tests, no_time_at_all_is_a_sample);
	tcase_add_loop_test(tests, smoothing, 0, 20);
	tcase_add_test(tests, a_steady_path_is_probed_after_two_round_trips);
	tcase_add_loop_test(tests, a_stall_is_remembered_for_a_period, 0, 20);
	tcase_add_test(tests, a_late_sample_forgets_nothing);
	tcase_add_test(tests, a_pause_forgets_the_longest);
	tcase_add_test(tests, queues_and_stalls);
	tcase_add_loop_test(tests, the_least_is_measured_anew, 0, 2);
	tcase_add_test(tests, what_is_typical);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
