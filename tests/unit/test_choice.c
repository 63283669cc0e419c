/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of two ways is taken, in a model of how long blocks take (net/choice.h). */
#include "net/choice.h"
#include "tests/run_suite.h"

#define BLOCK 1000u
#define ROUND (100 * BLOCK)
#define TRIAL (5 * BLOCK)
#define SETTLING (7 * BLOCK)
#define FIRST (20 * BLOCK)

static const struct choice_rule rule = {
	.first = FIRST,
	.round = ROUND,
	.trial = TRIAL,
	.settling = {SETTLING, SETTLING},
	.percent = 110,
};
static struct choice choice;

static void set_up(void)
{
	choice_init(&choice, &rule);
}

/* Move @bytes, in blocks of @time[way]. Returns how many of them went the special way. */
static uint64_t move(uint64_t bytes, const uint64_t time[2])
{
	uint64_t special = 0;

	for (uint64_t moved = 0; moved < bytes; moved += BLOCK) {
		struct choice_block block = choice_begin(&choice);

		special += block.special ? BLOCK : 0;
		choice_end_after(&choice, &block, BLOCK, time[block.special]);
	}
	return special;
}

static const struct {
	uint64_t time[2];
	bool pays;
} ways[] = {
	{{1000, 500}, true},   {{500, 1000}, false},
	{{1000, 1000}, false}, {{1000, 900}, true}, /* 111 % */
	{{1000, 920}, false},			    /* 108 % */
};

START_TEST(takes_the_faster_way)
{
	ck_assert_uint_eq(move(FIRST, ways[_i].time), 0);
	ck_assert_uint_eq(move(SETTLING + TRIAL, ways[_i].time), SETTLING + TRIAL);
	ck_assert_uint_eq(move(ROUND, ways[_i].time), ways[_i].pays ? ROUND : 0);
	ck_assert_uint_eq(move(SETTLING + TRIAL, ways[_i].time),
			  ways[_i].pays ? 0 : SETTLING + TRIAL);
	ck_assert_uint_eq(move(ROUND, ways[_i].time), ways[_i].pays ? ROUND : 0);
}
END_TEST

START_TEST(follows_changes)
{
	const uint64_t plain[] = {100, 200}, special[] = {200, 100};

	move(FIRST + SETTLING + TRIAL, special);
	ck_assert(choice.special);
	move(ROUND + SETTLING + TRIAL, plain);
	ck_assert(!choice.special);
	move(ROUND + SETTLING + TRIAL, special);
	ck_assert(choice.special);
}
END_TEST

/* What the plain way left behind makes the special one faster, or slower, than it is. */
START_TEST(settles)
{
	const uint64_t fair[] = {100, 200}, settling[] = {100, _i ? 10000 : 1};

	move(FIRST, fair);
	move(SETTLING, settling);
	move(TRIAL, fair);
	ck_assert(!choice.special);
	ck_assert_uint_lt(choice.moved, ROUND); /* it was decided */
}
END_TEST

/* All blocks but one of each way are. */
START_TEST(some_are_interrupted)
{
	const uint64_t interrupted[2] = {100000 + 7, 1000000 / (_i + 1)}, fair[2] = {100, 80};

	move(FIRST - BLOCK, interrupted);
	move(BLOCK, fair);
	move(SETTLING + TRIAL - BLOCK, interrupted);
	move(BLOCK, fair);
	ck_assert(choice.special);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("choice");
	TCase *tests = tcase_create("choice");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_loop_test(tests, takes_the_faster_way, 0, sizeof(ways) / sizeof(ways[0]));
	tcase_add_test(tests, follows_changes);
	tcase_add_loop_test(tests, settles, 0, 2);
	tcase_add_loop_test(tests, some_are_interrupted, 0, 3);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
