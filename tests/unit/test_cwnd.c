/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes in flight: sharing, waiting, growth and loss. The run queue is played by this file. */
#include "core.h"
#include "emu/objects/qp.h"
#include "emu/transport/cwnd.h"

#define PACKET (1024 + CWND_PACKET_OVERHEAD)
#define QPS 40 /* more than a window has packets */
#define MS UINT64_C(1000000)

static struct qp *qps;
static struct cwnd *cwnd;
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
	union ibv_gid destination = {.raw = {[15] = 1}};

	qps = calloc(QPS, sizeof(*qps));
	ck_assert_int_eq(cwnd_get(&core, &destination, &cwnd), 0);
}

static void end(void)
{
	ck_assert_ptr_null(cwnd->waiting_head);
	ck_assert_uint_eq(cwnd->waiting, 0);
	cwnd_put(cwnd);
	ck_assert_ptr_null(core.cwnds);
	free(qps);
}

static bool take(struct qp *qp, uint64_t cost)
{
	bool taken = cwnd_take(cwnd, qp, cost, 1);

	if (taken)
		qp->requester.in_flight += cost;
	return taken;
}

static void release(struct qp *qp, uint64_t cost, bool acknowledged)
{
	qp->requester.in_flight -= cost;
	cwnd_release(cwnd, cost, acknowledged);
}

/* Take packets until they are refused. */
static unsigned int fill(struct qp *qp)
{
	unsigned int packets = 0;

	while (take(qp, PACKET))
		packets++;
	cwnd_stop_waiting(cwnd, qp);
	return packets;
}

START_TEST(one_window_a_destination)
{
	union ibv_gid here = {.raw = {[15] = 1}}, there = {.raw = {[15] = 2}};
	struct cwnd *a, *b, *c;

	ck_assert_int_eq(cwnd_get(&core, &here, &a), 0);
	ck_assert_int_eq(cwnd_get(&core, &there, &b), 0);
	ck_assert_int_eq(cwnd_get(&core, &here, &c), 0);
	ck_assert_ptr_eq(a, c);
	ck_assert_ptr_ne(a, b);
	cwnd_put(a);
	cwnd_put(b);
	ck_assert_ptr_eq(core.cwnds, c);
	cwnd_put(c);
	ck_assert_ptr_null(core.cwnds);
}
END_TEST

START_TEST(starts_with_64_kib)
{
	begin();
	ck_assert_uint_eq(fill(&qps[0]), 65536 / PACKET);
	ck_assert_uint_eq(cwnd->in_flight, 65536 / PACKET * PACKET);
	end();
}
END_TEST

START_TEST(an_empty_window_takes_anything)
{
	begin();
	ck_assert(take(&qps[0], 10 * 1024 * 1024));
	ck_assert(!take(&qps[0], 1));
	/* Released in pieces, it is refused until it fits; and then what waited runs. */
	release(&qps[0], 9 * 1024 * 1024, false);
	ck_assert_uint_eq(scheduled, 0);
	release(&qps[0], 1024 * 1024, false);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[0]);
	ck_assert(!qps[0].requester.waiting);
	end();
}
END_TEST

START_TEST(all_that_wait_run_when_nothing_is_in_flight)
{
	begin();
	ck_assert(take(&qps[0], 65536));
	for (int i = 1; i < QPS; i++)
		ck_assert(!take(&qps[i], PACKET));
	release(&qps[0], 65536, false);
	ck_assert_uint_eq(scheduled, QPS - 1);
	end();
}
END_TEST

START_TEST(large_costs_are_not_kept_out_by_small_ones)
{
	begin();
	for (int i = 0; i < 10; i++)
		ck_assert(take(&qps[0], 4096));
	ck_assert(!take(&qps[1], 100000));
	release(&qps[0], 2 * 4096, false);
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
	ck_assert_uint_eq(cwnd->waiting, 3);
	release(&qps[0], 5000, false);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[1]);
	ck_assert(take(&qps[1], PACKET));
	cwnd_stop_waiting(cwnd, &qps[2]);
	cwnd_stop_waiting(cwnd, &qps[2]);
	/* Nothing in flight: no release would wake those left. */
	release(&qps[1], PACKET, false);
	release(&qps[0], 65536 - 5000, false);
	ck_assert_uint_eq(scheduled, 2);
	ck_assert_ptr_eq(last_scheduled, &qps[3]);
	end();
}
END_TEST

START_TEST(a_qp_with_its_share_lets_others_go_first)
{
	begin();
	ck_assert(take(&qps[0], 60000));
	ck_assert(!take(&qps[1], 6000));
	ck_assert(!take(&qps[2], 6000));
	release(&qps[0], 1000, false);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert_ptr_eq(last_scheduled, &qps[1]);
	/* There would be space, but this QP has more than its share already. */
	ck_assert(!take(&qps[0], PACKET));
	ck_assert(take(&qps[1], 6000));
	cwnd_stop_waiting(cwnd, &qps[0]);
	cwnd_stop_waiting(cwnd, &qps[2]);
	end();
}
END_TEST

START_TEST(many_packets_at_once)
{
	const uint32_t fit = 65536 / PACKET;

	begin();
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[0], PACKET, 10), 10);
	ck_assert_uint_eq(cwnd->in_flight, 10 * PACKET);
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[0], PACKET, 1000), fit - 10);
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[0], PACKET, 1000), 0);
	ck_assert(qps[0].requester.waiting);
	cwnd_release(cwnd, fit * PACKET, false);
	ck_assert_uint_eq(scheduled, 1);
	end();
}
END_TEST

/* Who has something in flight waits for a quarter of the cwnd, unless it needs less. */
START_TEST(short_bursts_are_not_worth_a_call)
{
	const uint32_t quarter = (65536 / 4 + PACKET - 1) / PACKET;

	begin();
	while (take(&qps[0], PACKET))
		;
	release(&qps[0], (quarter - 1) * PACKET, false);
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[0], PACKET, 1000), 0);
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[1], PACKET, 1), 1);
	release(&qps[0], 2 * PACKET, false);
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[0], PACKET, 1000), quarter);
	end();
}
END_TEST

START_TEST(no_more_at_once_than_its_share_while_others_wait)
{
	begin();
	ck_assert(take(&qps[0], 60000));
	ck_assert(!take(&qps[1], 10000));
	/* There is space for five, and half of the window is its share. */
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[2], 1000, 100), 5);
	qps[2].requester.in_flight = 5000;
	release(&qps[0], 30000, false);
	ck_assert_uint_eq(scheduled, 1);
	ck_assert(take(&qps[1], 10000));
	ck_assert(!take(&qps[3], 40000));
	cwnd->limit = 100000;
	ck_assert_uint_eq(cwnd_take(cwnd, &qps[2], 1000, 100), 45);
	cwnd_stop_waiting(cwnd, &qps[3]);
	end();
}
END_TEST

START_TEST(grows_with_acknowledgements_up_to_its_maximum)
{
	uint64_t before;

	begin();
	/* Releases that acknowledge nothing, and windows that aren't used, don't count. */
	fill(&qps[0]);
	release(&qps[0], PACKET, false);
	ck_assert_uint_eq(cwnd->limit, 65536);
	release(&qps[0], qps[0].requester.in_flight - 10 * PACKET, false);
	release(&qps[0], PACKET, true);
	ck_assert_uint_eq(cwnd->limit, 65536);

	/* Slow start: twice as much each round. */
	before = fill(&qps[0]) + 9;
	release(&qps[0], before * PACKET / 2, true);
	ck_assert_uint_eq(cwnd->limit, 65536 + before * PACKET / 2);
	for (int i = 0; i < 100; i++) {
		fill(&qps[0]);
		release(&qps[0], qps[0].requester.in_flight, true);
	}
	ck_assert_uint_eq(cwnd->limit, 2 * 1024 * 1024);
	end();
}
END_TEST

START_TEST(loss_halves_once_a_round_and_growth_becomes_slow)
{
	uint64_t limit;

	begin();
	for (int i = 0; i < 5; i++) {
		fill(&qps[0]);
		release(&qps[0], qps[0].requester.in_flight, true);
	}
	limit = cwnd->limit;
	ck_assert_uint_gt(limit, 1024 * 1024);
	cwnd_loss(cwnd, 0);
	ck_assert_uint_eq(cwnd->limit, limit / 2);
	cwnd_loss(cwnd, MS - 1);
	ck_assert_uint_eq(cwnd->limit, limit / 2);
	cwnd_loss(cwnd, MS);
	ck_assert_uint_eq(cwnd->limit, limit / 4);

	/* A window's worth of acknowledgements adds about one packet of the largest size. */
	limit = cwnd->limit;
	for (unsigned int i = fill(&qps[0]); i > 0; i--) {
		release(&qps[0], PACKET, true);
		ck_assert(take(&qps[0], PACKET));
	}
	ck_assert_uint_gt(cwnd->limit, limit);
	ck_assert_uint_lt(cwnd->limit, limit + 2 * 4608);

	for (uint64_t now = 2; now < 20; now++)
		cwnd_loss(cwnd, now * MS);
	ck_assert_uint_eq(cwnd->limit, 8 * 4608);
	end();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {one_window_a_destination,
				      starts_with_64_kib,
				      an_empty_window_takes_anything,
				      all_that_wait_run_when_nothing_is_in_flight,
				      large_costs_are_not_kept_out_by_small_ones,
				      waiting_qps_run_in_order_as_space_appears,
				      a_qp_with_its_share_lets_others_go_first,
				      many_packets_at_once,
				      short_bursts_are_not_worth_a_call,
				      no_more_at_once_than_its_share_while_others_wait,
				      grows_with_acknowledgements_up_to_its_maximum,
				      loss_halves_once_a_round_and_growth_becomes_slow,
				      NULL};

	return core_run("cwnd", tests);
}
