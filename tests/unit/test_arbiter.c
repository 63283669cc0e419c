/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that share a congestion window: shares, waiting in order, starving. The run queue
 * is played by this file.
 */
#include "core.h"
#include "emu/objects/qp.h"
#include "emu/transport/arbiter.h"
#include "emu/transport/cwnd.h"
#include "net/tuning.h"
#include "tests/must.h"

#define PACKET (1024 + CWND_PACKET_OVERHEAD)
#define QPS 40 /* more than a window has packets */

static struct qp *qps;
static struct arbiter arbiter;
static struct cwnd cwnd;
static unsigned int scheduled;
static struct qp *last_scheduled;

void hca_schedule(struct hca *hca, struct qp *qp)
{
	ck_assert_ptr_eq(hca, &core);
	scheduled++;
	last_scheduled = qp;
}

static void begin(void)
{
	qps = calloc(QPS, sizeof(*qps));
	for (int i = 0; i < QPS; i++) {
		qps[i].hca = &core;
		qps[i].recovery.member.qp = &qps[i];
	}
	cwnd_init(&cwnd, &cwnd_cubic);
}

static void end(void)
{
	ck_assert_ptr_null(arbiter.head);
	ck_assert_uint_eq(arbiter.waiting, 0);
	free(qps);
}

static uint32_t take_many(struct qp *qp, uint64_t cost, uint32_t count)
{
	struct arbiter_member *member = &qp->recovery.member;
	uint32_t granted = arbiter_grant(&arbiter, &cwnd, member, cost, count);

	member->in_flight += granted * cost;
	cwnd_on_sent(&cwnd, granted * cost);
	return granted;
}

static bool take(struct qp *qp, uint64_t cost)
{
	return take_many(qp, cost, 1);
}

static void release(struct qp *qp, uint64_t cost)
{
	qp->recovery.member.in_flight -= cost;
	cwnd_on_discarded(&cwnd, cost);
	arbiter_wake(&arbiter, &cwnd);
}

static void forget(struct qp *qp)
{
	arbiter_forget(&arbiter, &qp->recovery.member);
}

START_TEST(what_waits_for_an_empty_window_runs)
{
	begin();
	ck_assert(take(&qps[0], 10 * 1024 * 1024));
	ck_assert(!take(&qps[0], 1));
	/* Released in pieces, it is refused until it fits; and then what waited runs. */
	release(&qps[0], 9 * 1024 * 1024);
	ck_assert_uint_eq(scheduled, 0);
	release(&qps[0], 1024 * 1024);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[0]);
	ck_assert(take(&qps[0], 1));
	ck_assert(!qps[0].recovery.member.waiting);
	end();
}
END_TEST

START_TEST(all_that_wait_run_when_nothing_is_in_flight)
{
	begin();
	ck_assert(take(&qps[0], 65536));
	for (int i = 1; i < QPS; i++)
		ck_assert(!take(&qps[i], PACKET));
	release(&qps[0], 65536);
	ck_assert_uint_eq(scheduled, QPS - 1);
	/* They keep their places until they have run. */
	ck_assert_uint_eq(arbiter.waiting, QPS - 1);
	for (int i = 1; i < QPS; i++)
		ck_assert(take(&qps[i], 8));
	end();
}
END_TEST

START_TEST(large_costs_are_not_kept_out_by_small_ones)
{
	begin();
	for (int i = 0; i < 10; i++)
		ck_assert(take(&qps[0], 4096));
	ck_assert(!take(&qps[1], 100000));
	release(&qps[0], 2 * 4096);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[1]);
	ck_assert(take(&qps[1], 100000));
	end();
}
END_TEST

START_TEST(waiting_qps_run_in_order_as_space_appears)
{
	begin();
	ck_assert(take(&qps[0], 65536));
	for (int i = 1; i < 4; i++) {
		ck_assert(!take(&qps[i], PACKET));
		ck_assert(!take(&qps[i], PACKET));
	}
	ck_assert_uint_eq(arbiter.waiting, 3);
	release(&qps[0], 5000);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[1]);
	ck_assert(take(&qps[1], PACKET));
	forget(&qps[2]);
	forget(&qps[2]);
	/* Nothing in flight: no release would wake those left. */
	release(&qps[1], PACKET);
	release(&qps[0], 65536 - 5000);
	ck_assert_uint_eq(scheduled, 2);
	ck_assert_ptr_eq(last_scheduled, &qps[3]);
	forget(&qps[3]); /* it had nothing to send */
	end();
}
END_TEST

/* Both are woken: the one that runs first takes no more than its share, and then it is behind. */
START_TEST(the_first_to_run_leaves_the_others_their_share)
{
	begin();
	ck_assert(take(&qps[2], 65536));
	ck_assert(!take(&qps[0], PACKET));
	ck_assert(!take(&qps[1], PACKET));
	release(&qps[2], 65536);
	ck_assert_uint_eq(scheduled, 2);
	ck_assert_uint_le(take_many(&qps[0], PACKET, 1000) * PACKET, 65536 / 2);
	while (take(&qps[0], PACKET))
		ck_assert_uint_le(qps[0].recovery.member.in_flight, 65536 / 2 + PACKET);
	ck_assert_ptr_eq(arbiter.head->qp, &qps[1]);
	ck_assert_uint_ge((take_many(&qps[1], PACKET, 1000) + 2) * PACKET, 65536 / 2);
	forget(&qps[0]);
	forget(&qps[1]);
	end();
}
END_TEST

START_TEST(a_qp_with_its_share_lets_others_go_first)
{
	begin();
	ck_assert(take(&qps[0], 60000));
	ck_assert(!take(&qps[1], 6000));
	ck_assert(!take(&qps[2], 6000));
	release(&qps[0], 1000);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[1]);
	/* There would be space, but this QP has more than its share already: it doesn't starve. */
	ck_assert(!take(&qps[0], PACKET));
	ck_assert_uint_eq(qps[0].recovery.member.skipped, 0);
	ck_assert(take(&qps[1], 6000));
	forget(&qps[0]);
	forget(&qps[2]);
	end();
}
END_TEST

START_TEST(many_packets_at_once)
{
	const uint32_t fit = 65536 / PACKET;

	begin();
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 10), 10);
	ck_assert_uint_eq(cwnd.in_flight, 10 * PACKET);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 1000), fit - 10);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 1000), 0);
	ck_assert(qps[0].recovery.member.waiting);
	release(&qps[0], fit * PACKET);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 1), 1);
	end();
}
END_TEST

/* A QP that has something in flight waits for a quarter of the window, unless it needs less. */
START_TEST(short_bursts_are_not_worth_a_call)
{
	const uint32_t quarter = (65536 / CWND_BURST_FRACTION + PACKET - 1) / PACKET;

	begin();
	while (take(&qps[0], PACKET))
		;
	release(&qps[0], (quarter - 1) * PACKET);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 1000), 0);
	ck_assert_uint_eq(take_many(&qps[1], PACKET, 1), 1);
	release(&qps[0], 2 * PACKET);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 1000), quarter);
	end();
}
END_TEST

/* However large the window: two GSO trains are worth a call. */
START_TEST(a_burst_need_not_be_large)
{
	const uint32_t enough = CWND_BURST_MOST / PACKET + 1;

	begin();
	cwnd.size.limit = 16 * CWND_BURST_MOST;
	ck_assert(take(&qps[0], cwnd.size.limit));
	release(&qps[0], (enough - 1) * PACKET);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 10 * enough), 0);
	release(&qps[0], PACKET);
	ck_assert_uint_eq(take_many(&qps[0], PACKET, 10 * enough), enough);
	end();
}
END_TEST

START_TEST(no_more_at_once_than_its_share_while_others_wait)
{
	begin();
	ck_assert(take(&qps[0], 60000));
	ck_assert(!take(&qps[1], 10000));
	/* There is space for five, and half of the window is its share. */
	ck_assert_uint_eq(take_many(&qps[2], 1000, 100), 5);
	release(&qps[0], 30000);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert(take(&qps[1], 10000));
	ck_assert(!take(&qps[3], 40000));
	cwnd.size.limit = 100000;
	ck_assert_uint_eq(take_many(&qps[2], 1000, 100), 45);
	forget(&qps[3]);
	end();
}
END_TEST

/*
 * Small packets of many others, none of which has its share, would fill whatever is acknowledged,
 * while one queue pair needs more space than that.
 */
START_TEST(a_starving_qp_has_the_window_drained_for_it)
{
	enum { OTHERS = 10 };
	unsigned int rounds = 0, refused = 0;

	begin();
	for (int i = 0; i < 4 * OTHERS; i++)
		ck_assert(take(&qps[1 + i % OTHERS], PACKET));
	while (!take(&qps[0], 40000)) {
		struct qp *other = &qps[1 + rounds % OTHERS];

		must_msg(rounds++ < 100, "the others go first for ever");
		if (other->recovery.member.in_flight)
			release(other, PACKET);
		/* What was woken runs before the one that the acknowledgement was for. */
		if (!qps[0].recovery.member.waiting && take(&qps[0], 40000))
			break;
		if (!take(other, PACKET)) {
			forget(other);
			refused++;
		}
	}
	/* Half of the window has drained, and no more. */
	ck_assert_uint_gt(refused, 0);
	ck_assert_uint_gt(cwnd.in_flight - 40000, 65536 / 2 - 2 * PACKET);
	ck_assert_uint_eq(qps[0].recovery.member.skipped, 0);
	forget(&qps[0]);
	end();
}
END_TEST

/*
 * One that was woken and found too little space keeps its place; but only when it is starving do
 * those that come later wait for it.
 */
START_TEST(a_starving_qp_waits_in_front)
{
	bool starving = _i;

	begin();
	ck_assert(take(&qps[9], 65536));
	for (int i = 0; i < (starving ? 20 : 1); i++)
		ck_assert(!take(&qps[0], 40000));
	ck_assert(!take(&qps[1], PACKET));
	ck_assert(!take(&qps[2], PACKET));
	release(&qps[9], 5000);
	ck_assert_ptr_eq(last_scheduled, &qps[0]);
	ck_assert(!take(&qps[0], 40000));
	ck_assert_ptr_eq(arbiter.head->qp, &qps[0]);
	/* Its turn isn't over before it has sent. */
	ck_assert(starving ? !take(&qps[3], PACKET) : take(&qps[3], PACKET));
	for (int i = 0; i < 4; i++)
		forget(&qps[i]);
	end();
}
END_TEST

/* With nothing in flight the next queue pair sends, though another one starves. */
START_TEST(a_starving_qp_leaves_no_window_empty)
{
	begin();
	ck_assert(take(&qps[9], 65536));
	for (int i = 0; i < 20; i++)
		ck_assert(!take(&qps[0], 40000));
	ck_assert(!take(&qps[1], PACKET));
	release(&qps[9], 65536);
	ck_assert(take(&qps[1], PACKET));
	forget(&qps[0]);
	end();
}
END_TEST

/* The space was too little for it: it is woken again when there is more. */
START_TEST(one_that_was_woken_in_vain_is_woken_again)
{
	begin();
	ck_assert(take(&qps[9], 65536));
	ck_assert(!take(&qps[0], 40000));
	for (unsigned int i = 1; i <= 3; i++) {
		release(&qps[9], 8000);
		ck_assert_uint_eq(scheduled, i);
		ck_assert(!take(&qps[0], 40000));
	}
	forget(&qps[0]);
	end();
}
END_TEST

START_TEST(a_qp_that_has_sent_is_patient_again)
{
	begin();
	ck_assert(take(&qps[9], 65536));
	for (int i = 0; i < 20; i++)
		ck_assert(!take(&qps[0], 40000));
	ck_assert_uint_gt(qps[0].recovery.member.skipped, 0);
	release(&qps[9], 40000);
	ck_assert(take(&qps[0], 40000));
	ck_assert_uint_eq(qps[0].recovery.member.skipped, 0);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("arbiter");
	TCase *tests = tcase_create("arbiter");

	tcase_add_checked_fixture(tests, core_setup, core_teardown);
	tcase_add_test(tests, what_waits_for_an_empty_window_runs);
	tcase_add_test(tests, all_that_wait_run_when_nothing_is_in_flight);
	tcase_add_test(tests, large_costs_are_not_kept_out_by_small_ones);
	tcase_add_test(tests, waiting_qps_run_in_order_as_space_appears);
	tcase_add_test(tests, the_first_to_run_leaves_the_others_their_share);
	tcase_add_test(tests, a_qp_with_its_share_lets_others_go_first);
	tcase_add_test(tests, many_packets_at_once);
	tcase_add_test(tests, short_bursts_are_not_worth_a_call);
	tcase_add_test(tests, a_burst_need_not_be_large);
	tcase_add_test(tests, no_more_at_once_than_its_share_while_others_wait);
	tcase_add_test(tests, a_starving_qp_has_the_window_drained_for_it);
	tcase_add_loop_test(tests, a_starving_qp_waits_in_front, 0, 2);
	tcase_add_test(tests, a_starving_qp_leaves_no_window_empty);
	tcase_add_test(tests, one_that_was_woken_in_vain_is_woken_again);
	tcase_add_test(tests, a_qp_that_has_sent_is_patient_again);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
