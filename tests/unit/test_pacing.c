/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing, over a link that says what the test tells it to. */
#include "core.h"
#include "emu/transport/outbox.h"
#include "net/share/share.h"
#include "net/tuning.h"
#include "tests/must.h"

#define RECEIVERS 300
#define COST 4608
#define MS UINT64_C(1000000)

static uint32_t space[RECEIVERS]; /* of the receiver that has block 1 + i */
static uint32_t send_space;
static unsigned int asked, send_asked;
static struct outbox outbox;

static uint32_t fake_rcvbuf_space(struct link *link, const struct path *path, uint32_t qpn)
{
	asked++;
	ck_assert_uint_eq(outbox.packets, 0); /* they count among what has arrived */
	return space[share_qpn_block(qpn) - 1];
}

static uint32_t fake_sndbuf_space(struct link *link, const union ibv_gid *source)
{
	send_asked++;
	return send_space;
}

static unsigned int fake_send(struct link *link, struct link_packet *packets, unsigned int count,
			      uint64_t now)
{
	return 0;
}

static uint64_t no_deadline(struct link *link)
{
	return TIME_NEVER;
}

static const struct link_ops fake_ops = {.send = fake_send,
					 .deadline = no_deadline,
					 .rcvbuf_space = fake_rcvbuf_space,
					 .sndbuf_space = fake_sndbuf_space};
static const struct link_ops ops_without_send_buffer = {.rcvbuf_space = fake_rcvbuf_space};
static struct link fake = {&fake_ops};

static void setup(void)
{
	core_setup();
	fake.ops = &fake_ops;
	core.link = &fake;
	pacing_init(&core.pacing);
	outbox_init(&outbox, &core, 1000 * MS);
	for (unsigned int i = 0; i < RECEIVERS; i++)
		space[i] = 100000;
	send_space = UINT32_MAX;
	asked = send_asked = 0;
}

static void teardown(void)
{
	pacing_destroy(&core.pacing);
	core_teardown();
}

static uint64_t take_at(uint8_t address, unsigned int receiver)
{
	struct path path = {.source.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
			    .destination.raw = {[10] = 0xff, [11] = 0xff, [12] = address}};

	return pacing_take(&outbox, &path, (receiver + 1) * SHARE_QPN_BLOCK + 0x11, COST);
}

static uint64_t take(unsigned int receiver)
{
	return take_at(127, receiver);
}

/* As a sender does, wait for as long as it takes. Returns for how long. */
static uint64_t send_one(unsigned int receiver)
{
	uint64_t since = outbox.now, until;

	while ((until = take(receiver))) {
		must(until > outbox.now);
		outbox.now = until;
	}
	return outbox.now - since;
}

START_TEST(receiver_gets_what_fits_and_is_asked_once)
{
	unsigned int sent = 0;

	while (sent < 100000 / 2 / COST) {
		ck_assert_uint_eq(take(0), 0);
		sent++;
	}
	ck_assert_uint_eq(asked, 1);
	space[0] = COST; /* half of it is too little */
	ck_assert_uint_eq(take(0), outbox.now + PACING_INTERVAL);
	ck_assert_uint_eq(asked, 2);
	/* Another receiver has space of its own, and the first keeps being full meanwhile. */
	ck_assert_uint_eq(take(1), 0);
	ck_assert_uint_eq(take_at(128, 0), outbox.now + PACING_INTERVAL); /* space[0] again */
	ck_assert_uint_eq(take(0), outbox.now + PACING_INTERVAL);
	ck_assert_uint_eq(asked, 4);
	outbox.now += PACING_INTERVAL;
	space[0] = 2 * COST;
	ck_assert_uint_eq(take(0), 0);
	ck_assert_uint_eq(asked, 5);
	ck_assert_uint_eq(send_asked, 0);
}
END_TEST

START_TEST(stopped_receiver_costs_its_patience_once)
{
	uint64_t began = outbox.now, waited;
	unsigned int before;

	space[0] = 0;
	waited = send_one(0);
	ck_assert_uint_ge(waited, PACING_PATIENCE);
	ck_assert_uint_le(waited, PACING_PATIENCE + PACING_INTERVAL);
	ck_assert_uint_le(asked, PACING_PATIENCE / PACING_INTERVAL + 1);

	/* 10 us a datagram, to it and another. */
	before = asked;
	began = outbox.now;
	for (unsigned int i = 0; i < 10000; i++) {
		space[1] = 100000;
		must(take(i % 2) == 0);
		outbox.now += 10000;
	}
	ck_assert_uint_eq(outbox.now - began, 100 * MS);
	/* Of the stopped one once in PACING_RECHECK, of the other when its plan is used up. */
	ck_assert_uint_le(asked - before, 100 * MS / PACING_RECHECK + 5000 / (50000 / COST) + 2);

	/* It reads again. */
	space[0] = 1000000;
	outbox.now += PACING_RECHECK;
	ck_assert_uint_eq(take(0), 0);
	for (unsigned int i = 1; i < 1000000 / 2 / COST; i++)
		must(take(0) == 0);
	space[0] = 0;
	ck_assert_uint_eq(take(0), outbox.now + PACING_INTERVAL);
}
END_TEST

/* However much it has taken before, it is waited for no longer when it stops. */
START_TEST(patience_is_not_saved)
{
	space[0] = 200000000;
	for (unsigned int i = 0; i < space[0] / 2 / COST; i++)
		must(take(0) == 0);
	ck_assert_uint_eq(asked, 1);
	space[0] = 0;
	ck_assert_uint_le(send_one(0), PACING_PATIENCE + PACING_INTERVAL);
}
END_TEST

/* One that was found to be stopped and reads a little isn't waited for at once. */
START_TEST(stopped_receiver_has_to_read_more_than_a_little)
{
	space[0] = 0;
	send_one(0);
	for (unsigned int i = 0; i < 10; i++) {
		outbox.now += PACING_RECHECK;
		space[0] = i % 2 ? 0 : 2 * COST;
		ck_assert_uint_eq(take(0), 0);
		ck_assert_uint_eq(take(0), 0);
	}
}
END_TEST

/* What is known of one is for it alone, and kept while it is in use. */
START_TEST(receiver_in_use_is_remembered)
{
	space[0] = UINT32_MAX - 1;
	for (unsigned int i = 1; i < RECEIVERS; i++) {
		outbox.now++;
		must(take(0) == 0);
		outbox.now++;
		must(take(i) == 0);
		ck_assert_uint_eq(asked, 1 + i);
	}
}
END_TEST

START_TEST(link_is_asked_with_nothing_left_to_send)
{
	struct path path = {};

	outbox_packet(&outbox, &path)->headers_length = 12;
	ck_assert_uint_eq(take(0), 0);
	ck_assert_uint_eq(asked, 1);
	ck_assert_uint_eq(outbox.packets, 0);
}
END_TEST

/*
 * A receiver that reads so many bytes a second, of datagrams that another one gets every second
 * of: the share of the time that is spent waiting is bounded, and nothing is lost where it reads
 * fast enough.
 */
START_TEST(slow_reader_holds_up_the_others_for_little)
{
	static const struct {
		uint64_t rate, others_least; /* bytes, datagrams a second */
	} cases[] = {{100000, 40000}, {1000000, 40000}, {10000000, 900}, {100000000, 9000}};
	uint64_t began = outbox.now, read_until = began, unread = 0, lost = 0, others = 0;
	uint64_t rate = cases[_i].rate;

	while (outbox.now - began < 2000 * MS) {
		uint64_t can_read = (outbox.now - read_until) * rate / 1000000000;

		if (can_read) {
			unread -= can_read < unread ? can_read : unread;
			read_until = outbox.now;
		}
		space[0] = 100000 - unread;
		space[1] = 100000;
		if (take(0)) {
			outbox.now += PACING_INTERVAL;
			continue;
		}
		if (unread + COST <= 100000)
			unread += COST;
		else
			lost++;
		ck_assert_uint_eq(take(1), 0);
		others++;
		outbox.now += 20000;
	}
	ck_assert_uint_ge(others, 2 * cases[_i].others_least);
	if (rate >= 10000000)
		ck_assert_uint_eq(lost, 0);
}
END_TEST

/* Also when there are more than the table has place for. */
START_TEST(many_stopped_receivers_cost_their_patience_once)
{
	const unsigned int count = _i ? RECEIVERS : 40;
	uint64_t waited = 0;

	memset(space, 0, sizeof(space));
	for (unsigned int i = 0; i < count; i++)
		waited += send_one(i);
	ck_assert_uint_le(waited / count, PACING_PATIENCE + PACING_INTERVAL);
	ck_assert_uint_ge(waited, PACING_PATIENCE);
	waited = 0;
	for (unsigned int round = 0; round < 10; round++) {
		for (unsigned int i = 0; i < count; i++)
			waited += send_one(i);
	}
	ck_assert_uint_eq(waited, 0);
}
END_TEST

START_TEST(send_buffer_paces_what_goes_elsewhere)
{
	space[0] = UINT32_MAX;
	send_space = 4 * COST;
	ck_assert_uint_eq(take(0), 0);
	ck_assert_uint_eq(take(0), 0);
	ck_assert_uint_eq(send_asked, 1);
	send_space = 0;
	ck_assert_uint_eq(take(0), outbox.now + PACING_INTERVAL);
	/* All that leaves by it shares it. */
	space[1] = UINT32_MAX;
	ck_assert_uint_eq(take(1), outbox.now + PACING_INTERVAL);
	ck_assert_uint_eq(send_asked, 2);
	/* However slow the network card is, it is waited for while it goes on. */
	for (unsigned int i = 0; i < 100; i++) {
		uint64_t until = outbox.now + PACING_PATIENCE - 2 * PACING_INTERVAL;

		send_space = 0;
		while (outbox.now < until) {
			must(take(0) != 0);
			outbox.now += PACING_INTERVAL;
		}
		send_space = 2 * COST;
		ck_assert_uint_eq(take(0), 0);
	}
	/* And what it has no limit for isn't paced. */
	fake.ops = &ops_without_send_buffer;
	outbox.now += PACING_RECHECK;
	for (unsigned int i = 0; i < 10000; i++)
		must(take(0) == 0);
}
END_TEST

START_TEST(multicast_is_not_paced_by_its_members)
{
	space[0] = 0;
	for (unsigned int i = 0; i < 10000; i++)
		must(take_at(239, 0) == 0);
	ck_assert_uint_eq(asked, 0);
	ck_assert_uint_gt(send_asked, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pacing");
	TCase *tcase = tcase_create("pacing");

	tcase_set_timeout(tcase, 100);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, receiver_gets_what_fits_and_is_asked_once);
	tcase_add_test(tcase, stopped_receiver_costs_its_patience_once);
	tcase_add_test(tcase, patience_is_not_saved);
	tcase_add_test(tcase, stopped_receiver_has_to_read_more_than_a_little);
	tcase_add_test(tcase, receiver_in_use_is_remembered);
	tcase_add_test(tcase, link_is_asked_with_nothing_left_to_send);
	tcase_add_loop_test(tcase, slow_reader_holds_up_the_others_for_little, 0, 4);
	tcase_add_loop_test(tcase, many_stopped_receivers_cost_their_patience_once, 0, 2);
	tcase_add_test(tcase, send_buffer_paces_what_goes_elsewhere);
	tcase_add_test(tcase, multicast_is_not_paced_by_its_members);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
