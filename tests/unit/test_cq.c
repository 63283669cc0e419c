/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: order, arming, overrun, resizing, and QPs that take their entries along. */
#include <errno.h>

#include "core.h"
#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "tests/must.h"

static struct cq *make_cq(uint32_t entries)
{
	struct cq *cq;

	ck_assert_int_eq(cq_create(&core, entries, &cq), 0);
	ck_assert_int_eq(cq->ibv.cqe, entries);
	return cq;
}

static int push(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status, bool solicited)
{
	struct completion completion = {.wc = {.wr_id = wr_id, .status = status},
					.solicited = solicited};

	return cq_push(cq, &completion);
}

static unsigned int completion_events(void)
{
	event_deliver(&core.events);
	return told.completions;
}

static unsigned int wakes;

static void count_wake(const _Atomic uint32_t *word)
{
	ck_assert_uint_gt(*word, 0);
	wakes++;
}

START_TEST(threads_that_sleep_on_it_are_woken)
{
	const struct hca_host host = {.wake = count_wake}, *before = core.host;
	struct cq *cq = make_cq(10);
	struct completion polled;

	core.host = &host;
	ck_assert_int_eq(push(cq, 1, IBV_WC_SUCCESS, false), 0);
	ck_assert_uint_eq(wakes, 0);
	ck_assert_int_eq(cq_poll(cq, &polled, 1), 1);
	cq->sleepers = 2;
	ck_assert_int_eq(push(cq, 2, IBV_WC_SUCCESS, false), 0);
	ck_assert_uint_eq(wakes, 1);
	/* That has woken them already, though they haven't run yet. */
	ck_assert_int_eq(push(cq, 3, IBV_WC_SUCCESS, false), 0);
	ck_assert_uint_eq(wakes, 1);
	core.host = before;
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

START_TEST(create_checks_the_limits)
{
	struct cq *cqs[4], *cq;

	ck_assert_int_eq(cq_create(&core, 0, &cq), EINVAL);
	ck_assert_int_eq(cq_create(&core, 1001, &cq), EINVAL);
	ck_assert_int_eq(cq_create(&core, -1, &cq), EINVAL);
	for (int i = 0; i < 4; i++)
		cqs[i] = make_cq(1);
	ck_assert_int_eq(cq_create(&core, 1, &cq), ENOMEM);
	users_add(&cqs[0]->users, USER_QP, 1);
	ck_assert_int_eq(cq_destroy(cqs[0]), EBUSY);
	users_add(&cqs[0]->users, USER_QP, -1);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(cq_destroy(cqs[i]), 0);
	ck_assert_uint_eq(core.cq_count, 0);
}
END_TEST

START_TEST(completions_come_in_order_while_the_ring_grows)
{
	struct cq *cq = make_cq(1000);
	struct completion polled[7];
	uint64_t in = 0, out = 0;

	ck_assert_int_eq(cq_poll(cq, polled, 7), 0);
	while (out < 3000) {
		for (int i = 0; i < 9 && in - out < 1000; i++)
			ck_assert_int_eq(push(cq, in++, IBV_WC_SUCCESS, false), 0);
		for (int i = 0, n = cq_poll(cq, polled, 7); i < n; i++)
			ck_assert_uint_eq(polled[i].wc.wr_id, out++);
	}
	ck_assert_uint_eq(cq->count, in - out);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

/* Sizes that go up and down, with the ring's beginning anywhere. */
START_TEST(completions_come_in_order_while_it_is_resized)
{
	struct cq *cq = make_cq(1);
	struct completion polled[97];
	unsigned int random = 1;
	uint64_t in = 0, out = 0;

	while (out < 200000) {
		random = random * 1103515245 + 12345;
		for (unsigned int i = random >> 16 & 127; i && in - out < cq->capacity; i--)
			must(push(cq, in++, IBV_WC_SUCCESS, false) == 0);
		for (int i = 0, n = cq_poll(cq, polled, random >> 8 & 63); i < n; i++)
			must(polled[i].wc.wr_id == out++);
		if (random >> 28 == 0)
			cq_resize(cq, 1 + random % 1000); /* or it has more */
		must(cq->count == in - out);
	}
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

START_TEST(overrun_is_an_error_once)
{
	struct cq *cq = make_cq(2);
	struct completion polled[3];

	ck_assert_int_eq(push(cq, 1, IBV_WC_SUCCESS, false), 0);
	ck_assert_int_eq(push(cq, 2, IBV_WC_SUCCESS, false), 0);
	ck_assert_int_eq(push(cq, 3, IBV_WC_SUCCESS, false), ENOSPC);
	ck_assert_int_eq(push(cq, 4, IBV_WC_SUCCESS, false), ENOSPC);
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 1);
	ck_assert_int_eq(told.type, IBV_EVENT_CQ_ERR);
	ck_assert_ptr_eq(told.element, cq);
	ck_assert_int_eq(cq_poll(cq, polled, 3), 2);
	ck_assert_int_eq(push(cq, 5, IBV_WC_SUCCESS, false), ENOSPC);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

START_TEST(resize_keeps_the_entries)
{
	struct cq *cq = make_cq(4);
	struct completion polled[8];

	for (uint64_t i = 0; i < 4; i++)
		ck_assert_int_eq(push(cq, i, IBV_WC_SUCCESS, false), 0);
	ck_assert_int_eq(cq_resize(cq, 3), EINVAL);
	ck_assert_int_eq(cq_resize(cq, 4), 0);
	ck_assert_int_eq(cq_resize(cq, 0), EINVAL);
	ck_assert_int_eq(cq_resize(cq, 1001), EINVAL);
	ck_assert_int_eq(cq->ibv.cqe, 4);
	ck_assert_int_eq(cq_resize(cq, 6), 0);
	ck_assert_int_eq(push(cq, 4, IBV_WC_SUCCESS, false), 0);
	ck_assert_int_eq(cq_poll(cq, polled, 8), 5);
	for (uint64_t i = 0; i < 5; i++)
		ck_assert_uint_eq(polled[i].wc.wr_id, i);
	ck_assert_int_eq(cq_resize(cq, 1), 0);
	ck_assert_int_eq(push(cq, 5, IBV_WC_SUCCESS, false), 0);
	ck_assert_int_eq(push(cq, 6, IBV_WC_SUCCESS, false), ENOSPC);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

START_TEST(arming_is_for_one_event)
{
	struct cq *cq = make_cq(100);

	/* Not armed; and what is there already raises nothing. */
	push(cq, 0, IBV_WC_SUCCESS, true);
	cq_arm(cq, false);
	ck_assert_uint_eq(completion_events(), 0);
	push(cq, 0, IBV_WC_SUCCESS, false);
	push(cq, 0, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 1);
	push(cq, 0, IBV_WC_SUCCESS, true);
	ck_assert_uint_eq(completion_events(), 1);
	ck_assert_ptr_eq(told.element, cq);

	cq_arm(cq, true);
	push(cq, 0, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 1);
	push(cq, 0, IBV_WC_SUCCESS, true);
	ck_assert_uint_eq(completion_events(), 2);
	cq_arm(cq, true);
	push(cq, 0, IBV_WC_WR_FLUSH_ERR, false);
	ck_assert_uint_eq(completion_events(), 3);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

START_TEST(arming_upgrades_but_does_not_downgrade)
{
	struct cq *cq = make_cq(100);

	cq_arm(cq, true);
	cq_arm(cq, false);
	push(cq, 0, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 1);
	cq_arm(cq, false);
	cq_arm(cq, true);
	push(cq, 0, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 2);
	/* An event that waits dies with its CQ. */
	cq_arm(cq, false);
	push(cq, 0, IBV_WC_SUCCESS, false);
	ck_assert_int_eq(cq_destroy(cq), 0);
	ck_assert_uint_eq(completion_events(), 2);
}
END_TEST

START_TEST(polling_frees_send_slots_and_purging_drops)
{
	struct qp *qps = calloc(2, sizeof(*qps));
	struct cq *cq = make_cq(100);
	struct completion polled[100];

	for (uint64_t i = 0; i < 90; i++) {
		struct completion completion = {
			.wc = {.wr_id = i}, .qp = &qps[i % 2], .send_slots = 1 + i % 2};

		ck_assert_int_eq(cq_push(cq, &completion), 0);
	}
	ck_assert_int_eq(cq_poll(cq, polled, 10), 10);
	ck_assert_uint_eq(qps[0].sq.polled, 5);
	ck_assert_uint_eq(qps[1].sq.polled, 10);
	cq_purge(cq, &qps[0]);
	ck_assert_int_eq(cq_poll(cq, polled, 100), 40);
	for (int i = 0; i < 40; i++)
		ck_assert_uint_eq(polled[i].wc.wr_id, 11 + 2 * i);
	ck_assert_uint_eq(qps[0].sq.polled, 5);
	ck_assert_uint_eq(qps[1].sq.polled, 90);
	ck_assert_int_eq(cq_destroy(cq), 0);
	free(qps);
}
END_TEST

/*
 * A full CQ that ignores it: the oldest completion gives way, and with it the slots that it frees.
 */
START_TEST(an_overrun_may_be_ignored)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	struct cq *cq = make_cq(70); /* more than the ring begins with */
	struct completion polled[71];

	cq->ignores_overrun = true;
	for (uint64_t i = 0; i < 1000; i++) {
		struct completion completion = {.wc = {.wr_id = i}, .qp = qp, .send_slots = 2};

		ck_assert_int_eq(cq_push(cq, &completion), 0);
	}
	event_deliver(&core.events);
	ck_assert_uint_eq(told.async, 0);
	ck_assert_uint_eq(qp->sq.polled, 2 * 930);
	ck_assert_int_eq(cq_poll(cq, polled, 71), 70);
	for (uint64_t i = 0; i < 70; i++)
		ck_assert_uint_eq(polled[i].wc.wr_id, 930 + i);
	ck_assert_uint_eq(qp->sq.polled, 2 * 1000);
	ck_assert_int_eq(cq_destroy(cq), 0);
	free(qp);
}
END_TEST

static void push_at(struct cq *cq, uint64_t now, enum ibv_wc_status status, bool solicited)
{
	struct completion completion = {
		.wc = {.status = status}, .solicited = solicited, .timestamp = now};

	ck_assert_int_eq(cq_push(cq, &completion), 0);
}

START_TEST(timestamps_do_not_go_back)
{
	static const uint64_t made[] = {5, 9, 7, 9, 12, 3, 13}, shown[] = {5, 9, 9, 9, 12, 12, 13};
	struct completion polled[7];

	for (int timestamped = 0; timestamped < 2; timestamped++) {
		struct cq *cq = make_cq(10);

		cq->timestamped = timestamped;
		for (int i = 0; i < 7; i++)
			push_at(cq, made[i], IBV_WC_SUCCESS, false);
		ck_assert_int_eq(cq_poll(cq, polled, 7), 7);
		for (int i = 0; i < 7; i++)
			ck_assert_uint_eq(polled[i].timestamp, timestamped ? shown[i] : made[i]);
		ck_assert_int_eq(cq_destroy(cq), 0);
	}
}
END_TEST

/* --- moderation ------------------------------------------------------------------ */

#define US 1000

/* What hca_run() does with the timers that are due. */
static void run_timers(uint64_t now)
{
	uint32_t number;

	while ((number = timer_expire(&core.timers, now)) != 0) {
		struct cq *cq = table_get(&core.cqs, number & ~TIMER_OF_CQ);

		ck_assert(number & TIMER_OF_CQ);
		ck_assert_ptr_nonnull(cq);
		cq_run(cq, now);
		table_put(&core.cqs, number & ~TIMER_OF_CQ);
	}
}

START_TEST(moderated_by_count)
{
	struct cq *cq = make_cq(100);

	ck_assert_int_eq(cq_moderate(cq, 4, 100), 0);
	for (unsigned int events = 1; events <= 3; events++) {
		push_at(cq, 1 * US, IBV_WC_SUCCESS, false); /* before it is armed: doesn't count */
		cq_arm(cq, false);
		for (int i = 0; i < 3; i++)
			push_at(cq, 1 * US, i ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR, i == 1);
		ck_assert_uint_eq(completion_events(), events - 1);
		push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
		ck_assert_uint_eq(completion_events(), events);
		push_at(cq, 1 * US, IBV_WC_SUCCESS, false); /* it isn't armed any more */
	}
	/* The timer of what didn't wait for it changes nothing. */
	run_timers(1000 * US);
	ck_assert_uint_eq(completion_events(), 3);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

static void moderate_by_time(uint16_t count)
{
	struct cq *cq = make_cq(100);

	ck_assert_int_eq(cq_moderate(cq, count, 100), 0);
	cq_arm(cq, false);
	push_at(cq, 10 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(core.timers.next, 110 * US);
	push_at(cq, 100 * US, IBV_WC_SUCCESS, false);
	run_timers(110 * US - 1);
	ck_assert_uint_eq(completion_events(), 0);
	run_timers(110 * US);
	ck_assert_uint_eq(completion_events(), 1);
	ck_assert_uint_eq(core.timers.next, TIME_NEVER);

	/* A completion that comes after the time, but before the timer, doesn't wait for it. */
	cq_arm(cq, false);
	push_at(cq, 200 * US, IBV_WC_SUCCESS, false);
	push_at(cq, 300 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 2);

	/* The timer comes up early, for what is over: it is put back. */
	cq_arm(cq, false);
	push_at(cq, 350 * US, IBV_WC_SUCCESS, false);
	run_timers(400 * US);
	ck_assert_uint_eq(completion_events(), 2);
	ck_assert_uint_eq(core.timers.next, 450 * US);
	run_timers(450 * US);
	ck_assert_uint_eq(completion_events(), 3);

	/* It dies with its CQ. */
	cq_arm(cq, false);
	push_at(cq, 500 * US, IBV_WC_SUCCESS, false);
	ck_assert_int_eq(cq_destroy(cq), 0);
	ck_assert_uint_eq(core.timers.next, TIME_NEVER);
	ck_assert_uint_eq(core.cqs.count, 0);
}

START_TEST(moderated_by_time)
{
	moderate_by_time(4);
}
END_TEST

START_TEST(moderated_by_time_alone)
{
	moderate_by_time(0);
}
END_TEST

/* Armed for solicited completions: those and errors count, and no others. */
START_TEST(moderated_and_solicited)
{
	struct cq *cq = make_cq(100);

	ck_assert_int_eq(cq_moderate(cq, 3, 100), 0);
	cq_arm(cq, true);
	for (int i = 0; i < 5; i++)
		push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	run_timers(1000 * US);
	ck_assert_uint_eq(completion_events(), 0);
	push_at(cq, 1000 * US, IBV_WC_SUCCESS, true);
	push_at(cq, 1000 * US, IBV_WC_WR_FLUSH_ERR, false);
	push_at(cq, 1000 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 0);
	/* Armed for the next completion in between, others count from then on. */
	cq_arm(cq, false);
	push_at(cq, 1000 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 1);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

/* A card may have the one, the other, or none of it. */
START_TEST(moderation_is_limited)
{
	static const struct {
		uint16_t max_count, max_period, count, period;
		int error;
	} rows[] = {
		{10, 100, 10, 100, 0}, {10, 100, 11, 100, EINVAL}, {10, 100, 10, 101, EINVAL},
		{0, 100, 0, 100, 0},   {10, 0, 10, 0, 0},	   {0, 0, 0, 0, EOPNOTSUPP},
	};
	struct cq *cq = make_cq(100);

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		core.limits.max_cq_count = rows[i].max_count;
		core.limits.max_cq_period = rows[i].max_period;
		ck_assert_int_eq(cq_moderate(cq, rows[i].count, rows[i].period), rows[i].error);
	}
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

START_TEST(moderation_changes)
{
	struct cq *cq = make_cq(100);

	ck_assert_int_eq(cq_moderate(cq, 4, 1001), EINVAL);
	ck_assert_int_eq(cq_moderate(cq, 4, 0), 0); /* none */
	cq_arm(cq, false);
	push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 1);
	ck_assert_uint_eq(core.cqs.count, 0);

	ck_assert_int_eq(cq_moderate(cq, UINT16_MAX, 1000), 0);
	cq_arm(cq, false);
	push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 1);
	ck_assert_int_eq(cq_moderate(cq, 4, 1001), EINVAL);
	ck_assert_uint_eq(completion_events(), 1);
	/* What waits isn't lost, nor does it wait by rules that it didn't begin with. */
	ck_assert_int_eq(cq_moderate(cq, 0, 0), 0);
	ck_assert_uint_eq(completion_events(), 2);
	cq_arm(cq, false);
	push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 3);

	ck_assert_int_eq(cq_moderate(cq, 1, 1000), 0);
	cq_arm(cq, false);
	push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 4);
	ck_assert_uint_eq(core.cqs.count, 1);
	ck_assert_int_eq(cq_resize(cq, 50), 0);
	ck_assert_int_eq(cq_moderate(cq, 2, 1000), 0);
	cq_arm(cq, false);
	push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	ck_assert_int_eq(cq_resize(cq, 60), 0);
	push_at(cq, 1 * US, IBV_WC_SUCCESS, false);
	ck_assert_uint_eq(completion_events(), 5);
	ck_assert_int_eq(cq_destroy(cq), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {create_checks_the_limits,
				      threads_that_sleep_on_it_are_woken,
				      completions_come_in_order_while_the_ring_grows,
				      completions_come_in_order_while_it_is_resized,
				      overrun_is_an_error_once,
				      resize_keeps_the_entries,
				      arming_is_for_one_event,
				      arming_upgrades_but_does_not_downgrade,
				      polling_frees_send_slots_and_purging_drops,
				      an_overrun_may_be_ignored,
				      timestamps_do_not_go_back,
				      moderated_by_count,
				      moderated_by_time,
				      moderated_by_time_alone,
				      moderated_and_solicited,
				      moderation_is_limited,
				      moderation_changes,
				      NULL};

	return core_run("cq", tests);
}
