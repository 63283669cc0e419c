/* SPDX-License-Identifier: BSD-2-Clause */
/* The pacer: how much leaves at once, how long a window takes, and what a pause allows. */
#include "emu/transport/cwnd.h"
#include "emu/transport/pacer.h"
#include "emu/transport/rtt.h"
#include "net/tuning.h"
#include "tests/run_suite.h"

#define MS UINT64_C(1000000)
#define ROUND (20 * MS)
#define WINDOW (1024 * CWND_SEGMENT)

static struct pacer pacer;
static struct cwnd cwnd;
static struct rtt rtt;
static uint64_t now;

static void begin(uint64_t round_trip)
{
	cwnd_init(&cwnd, &cwnd_cubic);
	cwnd.size.limit = cwnd.size.ssthresh = WINDOW;
	rtt = (struct rtt){.smoothed = round_trip, .least = round_trip};
	now = 1000 * MS;
	pacer = (struct pacer){.drained = now};
}

/* All that may leave now. */
static uint64_t send(void)
{
	uint64_t sent = 0;

	while (sent < 10 * WINDOW && pacer_wait(&pacer, &cwnd, &rtt, now) == 0) {
		pacer_on_sent(&pacer, &cwnd, &rtt, CWND_SEGMENT, now);
		sent += CWND_SEGMENT;
	}
	return sent;
}

/*
 * A window's worth, each part as soon as it may leave: how long that takes, and its largest part.
 */
static uint64_t send_window(uint64_t *largest)
{
	uint64_t began = now, sent = 0, part;

	*largest = 0;
	for (;;) {
		part = send();
		sent += part;
		*largest = part > *largest ? part : *largest;
		if (sent >= WINDOW)
			return now - began;
		ck_assert_uint_gt(pacer_wait(&pacer, &cwnd, &rtt, now), now);
		now = pacer_wait(&pacer, &cwnd, &rtt, now);
	}
}

/* Of @time at the pace of a window a round trip, @faster times that. */
static uint64_t worth(uint64_t time, double faster)
{
	return (double)WINDOW * time / rtt.smoothed * faster;
}

START_TEST(a_short_round_trip_isnt_paced)
{
	begin(CWND_ROUND_LEAST);
	ck_assert_uint_eq(send(), 10 * WINDOW);
	/* Nor where the machine is busy, and answers were sooner once. */
	rtt.smoothed = ROUND;
	ck_assert_uint_eq(send(), 10 * WINDOW);
	begin(0); /* not measured yet */
	ck_assert_uint_eq(send(), 10 * WINDOW);
}
END_TEST

START_TEST(a_window_takes_most_of_a_round_trip)
{
	uint64_t took, largest;

	begin(ROUND);
	took = send_window(&largest);
	ck_assert_uint_le(took, ROUND / PACER_GAIN);
	ck_assert_uint_ge(took, ROUND / PACER_GAIN - 2 * PACER_BURST_MOST);
	ck_assert_uint_le(largest, worth(PACER_BURST_MOST, PACER_GAIN) + CWND_SEGMENT);
	ck_assert_uint_ge(largest, worth(PACER_BURST_MOST, PACER_GAIN) - CWND_SEGMENT);
}
END_TEST

START_TEST(slow_start_is_faster)
{
	uint64_t took, largest;

	begin(ROUND);
	cwnd.size.ssthresh = UINT64_MAX;
	took = send_window(&largest);
	ck_assert_uint_le(took, ROUND / 2);
	ck_assert_uint_ge(took, ROUND / 2 - 2 * PACER_BURST_MOST);
}
END_TEST

START_TEST(a_shorter_round_trip_has_shorter_bursts)
{
	uint64_t largest;

	begin(4 * MS);
	send_window(&largest);
	ck_assert_uint_le(largest, worth(4 * MS / PACER_FRACTION, PACER_GAIN) + CWND_SEGMENT);
}
END_TEST

/*
 * Of many processes that begin together on few CPUs each seems far away, for seconds: what waits
 * for that goes as soon as one is known to be near.
 */
START_TEST(a_late_peer_isnt_a_long_path)
{
	begin(PACER_ROUND_MOST);
	ck_assert_uint_eq(send(), 10 * WINDOW);
	begin(PACER_ROUND_MOST - 1);
	cwnd.size.limit = cwnd.size.ssthresh = CWND_INITIAL; /* of which each packet takes long */
	send();
	ck_assert_uint_gt(pacer_wait(&pacer, &cwnd, &rtt, now), now + ROUND);
	rtt.least = ROUND;
	ck_assert_uint_le(pacer_wait(&pacer, &cwnd, &rtt, now), now + ROUND);
	now += ROUND;
	ck_assert_uint_gt(send(), 0);
	/* And the average remembers it for long. */
	begin(ROUND);
	rtt.smoothed = 1000 * ROUND;
	send();
	ck_assert_uint_le(pacer_wait(&pacer, &cwnd, &rtt, now), now + ROUND);
}
END_TEST

/* A window of a super-packet or two would be no faster for it. */
START_TEST(what_fits_everywhere_leaves_at_once)
{
	begin(ROUND);
	cwnd.size.limit = cwnd.size.ssthresh = 2 * CWND_INITIAL;
	ck_assert_uint_ge(send(), CWND_INITIAL);
}
END_TEST

START_TEST(a_pause_is_made_up_for_in_part)
{
	uint64_t pause = _i ? ROUND / PACER_FRACTION / 2 : 100 * ROUND;
	uint64_t slack = _i ? pause : ROUND / PACER_FRACTION, sent, largest;

	begin(ROUND);
	now += pause;
	sent = send();
	ck_assert_uint_ge(sent, worth(slack, PACER_GAIN) - CWND_SEGMENT);
	ck_assert_uint_le(sent, worth(slack + PACER_BURST_MOST, PACER_GAIN) + CWND_SEGMENT);
	now = pacer_wait(&pacer, &cwnd, &rtt, now);
	send_window(&largest);
	ck_assert_uint_le(largest, worth(PACER_BURST_MOST, PACER_GAIN) + CWND_SEGMENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pacer");
	TCase *tests = tcase_create("pacer");

	tcase_add_test(tests, a_short_round_trip_isnt_paced);
	tcase_add_test(tests, a_window_takes_most_of_a_round_trip);
	tcase_add_test(tests, slow_start_is_faster);
	tcase_add_test(tests, a_shorter_round_trip_has_shorter_bursts);
	tcase_add_test(tests, a_late_peer_isnt_a_long_path);
	tcase_add_test(tests, what_fits_everywhere_leaves_at_once);
	tcase_add_loop_test(tests, a_pause_is_made_up_for_in_part, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
