/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the thread that makes progress is told that there is something to do, or knows that there
 * is; path MTUs of network devices; when numbers of queue pairs are leased.
 */
#include "core.h"
#include "emu/deferred.h"
#include "emu/receive.h"
#include "net/share/share.h"
#include "net/tuning.h"

static struct share share;
static struct link link_of_core = {.share = &share};
static unsigned int deadlines;

static void on_deadline(void *context, uint64_t time)
{
	ck_assert_ptr_eq(context, &deadlines);
	ck_assert_uint_eq(time, 0);
	deadlines++;
}

static void setup(void)
{
	core_setup();
	deferred_init(&core.deferred);
	core.link = &link_of_core;
	core.deadline = on_deadline;
	core.deadline_context = &deadlines;
	deadlines = 0;
}

static void teardown(void)
{
	deferred_destroy(&core.deferred);
	core_teardown();
}

/* As a packet does that was posted and waits for space in a ring. */
START_TEST(a_post_tells_of_what_the_link_keeps)
{
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 0);
	share.woken = true;
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 1);
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 1);
}
END_TEST

START_TEST(a_link_may_share_nothing)
{
	link_of_core.share = NULL;
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 0);
}
END_TEST

/* Annex A17.3.1: the greatest that fits, with 80 bytes for the headers. */
START_TEST(path_mtus)
{
	static const struct {
		uint32_t netdev_mtu;
		enum ibv_mtu mtu;
	} rows[] = {
		{0, IBV_MTU_256},      {79, IBV_MTU_256},	   {336, IBV_MTU_256},
		{591, IBV_MTU_256},    {592, IBV_MTU_512},	   {1103, IBV_MTU_512},
		{1104, IBV_MTU_1024},  {1500, IBV_MTU_1024},	   {2127, IBV_MTU_1024},
		{2128, IBV_MTU_2048},  {4175, IBV_MTU_2048},	   {4176, IBV_MTU_4096},
		{65536, IBV_MTU_4096}, {UINT32_MAX, IBV_MTU_4096},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_msg(hca_mtu(rows[i].netdev_mtu) == rows[i].mtu, "MTU %u",
			      rows[i].netdev_mtu);
}
END_TEST

enum { LEASED = 8 };
static unsigned int leases;

static int lease_qpns(struct share *share, struct lease *lease)
{
	lease->first = lease->start = ++leases * 100;
	lease->count = LEASED;
	return 0;
}

/* Half of them stay free, so that the number of a QP that is gone doesn't come back at once. */
START_TEST(half_of_the_numbers)
{
	static const struct share_ops ops = {.lease_qpns = lease_qpns};
	uint32_t number;

	leases = 0;
	share.ops = &ops;
	link_of_core.share = &share;
	ck_assert_int_eq(table_init(&core.qps, core.host, 1000, 1000), 0);
	for (unsigned int i = 0; i < 2 * LEASED; i++) {
		ck_assert_int_eq(hca_reserve_qpn(&core, "queue pair", &number), 0);
		ck_assert_uint_eq(leases, 1 + i / (LEASED / 2));
		ck_assert_uint_eq(core.qps.capacity, leases * LEASED);
	}
	table_destroy(&core.qps);
}
END_TEST

static unsigned int unread;

/* Frames without a packet. */
static unsigned int receive_some(struct link *link, struct link_frame *frames, unsigned int max,
				 uint64_t now)
{
	unsigned int count = unread < max ? unread : max;

	memset(frames, 0, count * sizeof(*frames));
	unread -= count;
	return count;
}

/* Where a round ends before the link has no more, no descriptor needs to say so. */
START_TEST(what_a_round_leaves_is_known)
{
	static const struct link_ops ops = {.receive = receive_some};
	static const struct {
		unsigned int frames;
		bool more, left;
	} rounds[] = {
		{0},
		{RECEIVE_BATCH * RECEIVE_ROUNDS, .left = true},
		{1},
		{RECEIVE_BATCH * RECEIVE_ROUNDS - 1},
		{1, .more = true, .left = true},
	};

	link_of_core.ops = &ops;
	for (uint64_t now = 0; now < sizeof(rounds) / sizeof(rounds[0]); now++) {
		uint64_t read_at = core.all_read_at;

		unread = rounds[now].frames;
		link_of_core.more = rounds[now].more;
		ck_assert_int_eq(receive_frames(&core, now), rounds[now].frames > 0);
		ck_assert_uint_eq(unread, 0);
		ck_assert_int_eq(core.unread, rounds[now].left);
		ck_assert_uint_eq(core.all_read_at, rounds[now].left ? read_at : now);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hca");
	TCase *tcase = tcase_create("hca");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_post_tells_of_what_the_link_keeps);
	tcase_add_test(tcase, a_link_may_share_nothing);
	tcase_add_test(tcase, path_mtus);
	tcase_add_test(tcase, half_of_the_numbers);
	tcase_add_test(tcase, what_a_round_leaves_is_known);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
