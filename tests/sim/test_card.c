/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retries as cards have them (emu/behaviour.h), in virtual time; without a card: test_retry. The
 * rest of what cards do differently: tests/verbs/test_profile_behaviour.c.
 */
#include "pair.h"
#include "tests/run_suite.h"

static uint64_t timeout_of(unsigned int timeout)
{
	return UINT64_C(4096) << timeout;
}

static void create(struct pair *p, const struct connection *c, struct hca_behaviour card)
{
	pair_create(p, IBV_QPT_RC, NULL, 1, c);
	p->a->hca->behaviour = card;
	pair_cut(p, true);
	pair_post(p, IBV_WR_SEND, 8, 0);
}

/* It fails when the last of 1 + retry_cnt periods is over, and not a nanosecond before. */
static void ck_fails_after(struct pair *p, uint64_t time)
{
	world_expect_none(p->a, time - 1);
	world_expect_none(p->b, 1);
	world_expect(p->a, 0, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_le(world_now(&p->world), time + time / 100);
	pair_destroy(p);
}

static const struct {
	uint16_t hundredths;
	uint8_t least, timeout;
	uint64_t period; /* in hundredths of 4.096 us */
} factors[] = {
	{100, 0, 5, 100 << 5}, {175, 0, 6, 175 << 6},
	{700, 0, 5, 700 << 5}, {100, 8, 5, 100 << 8}, /* a smaller timeout counts as the least */
	{170, 8, 9, 170 << 9},
};

START_TEST(timeout_factor)
{
	struct connection c = world_connection;
	struct pair p;

	c.retry_cnt = 3;
	c.timeout = factors[_i].timeout;
	create(&p, &c,
	       (struct hca_behaviour){.ack_timeout_hundredths = factors[_i].hundredths,
				      .ack_timeout_least = factors[_i].least});
	ck_fails_after(&p, (1 + c.retry_cnt) * (factors[_i].period * 4096 / 100));
}
END_TEST

/* A card without atomics takes them for a right that the QP doesn't give, though it has it. */
START_TEST(no_atomics)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	p.b->hca->limits.device.atomic_cap = IBV_ATOMIC_NONE;
	pair_post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0);
	world_expect(p.a, 0, IBV_WC_REM_INV_REQ_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_ACCESS_ERR], 1);
	pair_destroy(&p);
}
END_TEST

START_TEST(seven_is_for_ever)
{
	struct connection c = world_connection;
	struct pair p;

	c.retry_cnt = 7;
	c.timeout = 5;
	create(&p, &c, (struct hca_behaviour){.retry_cnt_7_infinite = true});
	world_expect_none(p.a, 1000 * 8 * 4 * timeout_of(c.timeout));
	ck_assert_int_eq(p.qa->state, IBV_QPS_RTS);
	pair_cut(&p, false);
	pair_receive(&p, 8, 100);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	world_expect(p.b, 100, IBV_WC_SUCCESS);
	pair_destroy(&p);
}
END_TEST

START_TEST(six_is_six)
{
	struct connection c = world_connection;
	struct pair p;

	c.retry_cnt = 6;
	c.timeout = 5;
	create(&p, &c,
	       (struct hca_behaviour){.retry_cnt_7_infinite = true, .ack_timeout_hundredths = 100});
	ck_fails_after(&p, 7 * timeout_of(c.timeout));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("card");
	TCase *tests = tcase_create("card");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, timeout_factor, 0, sizeof(factors) / sizeof(*factors));
	tcase_add_test(tests, no_atomics);
	tcase_add_test(tests, seven_is_for_ever);
	tcase_add_test(tests, six_is_six);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
