/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which way memory is written that another CPU reads: the faster one (net/choice.h), in a model of
 * CPUs that share a cache or don't; and that what is written past the caches is what was to be
 * written.
 */
#include <stdlib.h>
#include <string.h>

#include "net/stores.h"
#include "net/tuning.h"
#include "tests/run_suite.h"

#define BLOCK (60u << 10)
#define BLOCKS 32

/* What it takes to write a block, ns. */
struct machine {
	uint64_t cached, cold, nontemporal; /* cold: it was written past the caches before */
	bool pays;			    /* to do that */
};

static const struct machine machines[] = {
	{2100, 6000, 4500, false},  /* one cache for both CPUs */
	{4400, 6000, 4500, false},  /* not much in it */
	{20000, 20000, 4500, true}, /* none */
	{23000, 23000, 9500, true}, /* none, and a checksum */
	{10100, 10100, 5000, true}, /* less than half of it */
	{9900, 9900, 5000, false},  /* not quite */
};
#define MACHINES (sizeof(machines) / sizeof(machines[0]))

static struct choice stores;
static bool cold[BLOCKS];
static uint32_t next;
static uint64_t spent;

static void set_up(void)
{
	static const struct choice_rule rule = STORES_RULE(BLOCKS * BLOCK);

	choice_init(&stores, &rule);
	memset(cold, 0, sizeof(cold));
	next = 0;
	srandom(1);
}

/* Returns how many of @bytes were written past the caches. Each second block is interrupted. */
static uint64_t write_bytes(const struct machine *machine, uint64_t bytes)
{
	uint64_t nontemporal = 0;

	for (uint64_t written = 0; written < bytes; written += BLOCK, next = (next + 1) % BLOCKS) {
		struct choice_block block = choice_begin(&stores);
		uint64_t time = block.special ? machine->nontemporal
				: cold[next]  ? machine->cold
					      : machine->cached;

		spent += time;
		cold[next] = block.special;
		nontemporal += block.special ? BLOCK : 0;
		choice_end_after(&stores, &block, BLOCK, time + next % 2 * (random() % 1000000));
	}
	return nontemporal;
}

/* Soon after the beginning, and nearly always afterwards. */
START_TEST(finds_the_faster_way)
{
	const struct machine *machine = &machines[_i];
	uint64_t share;

	write_bytes(machine, 4 * BLOCKS * BLOCK);
	ck_assert(stores.special == machine->pays);
	share = write_bytes(machine, 20 * STORES_ROUND) * 100 / (20 * STORES_ROUND);
	if (machine->pays)
		ck_assert_uint_ge(share, 97);
	else
		ck_assert_uint_le(share, 1);
}
END_TEST

/* The threads move to other CPUs. */
START_TEST(follows_changes)
{
	const struct machine *from = &machines[_i / MACHINES], *to = &machines[_i % MACHINES];

	write_bytes(from, 5 * STORES_ROUND / 2);
	write_bytes(to, 5 * STORES_ROUND / 2);
	ck_assert(stores.special == to->pays);
}
END_TEST

/* Not even where the way that isn't chosen is as bad as it can be. */
START_TEST(trials_cost_little)
{
	const struct machine *machine = &machines[2];

	write_bytes(machine, STORES_ROUND);
	spent = 0;
	write_bytes(machine, 20 * STORES_ROUND);
	ck_assert_uint_lt(spent, 20 * STORES_ROUND / BLOCK * machine->nontemporal * 107 / 100);
}
END_TEST

#define LONGEST 300

START_TEST(copies)
{
	static uint8_t from[LONGEST + 64], to[LONGEST + 256] __attribute__((aligned(64)));
	static uint8_t expected[sizeof(to)];

	for (unsigned int i = 0; i < sizeof(from); i++)
		from[i] = random();
	for (uint32_t length = 0; length <= LONGEST; length++) {
		memset(to, 0xaa, sizeof(to));
		memset(expected, 0xaa, sizeof(expected));
		stores_copy_nontemporal(to + _i, from + length % 64, length);
		memcpy(expected + _i, from + length % 64, length);
		ck_assert_mem_eq(to, expected, sizeof(to));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stores");
	TCase *tests = tcase_create("stores");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_loop_test(tests, finds_the_faster_way, 0, MACHINES);
	tcase_add_loop_test(tests, follows_changes, 0, MACHINES * MACHINES);
	tcase_add_test(tests, trials_cost_little);
	tcase_add_loop_test(tests, copies, 0, 64);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
