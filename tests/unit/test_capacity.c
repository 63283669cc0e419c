/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of what the device has, where threads ask at once; sizes that are rounded. */
#include <errno.h>
#include <pthread.h>

#include "core.h"
#include "emu/capacity.h"
#include "tests/must.h"

#define CALLS 5000000 /* one of the first 1300000 failed where refused calls were counted */
#define ASKERS 3

static _Atomic uint32_t count;
static _Atomic unsigned int asking;
static _Atomic bool stopping;

static int take(int limit)
{
	return capacity_take(&core, &count, limit, "objects", "limit");
}

static void *ask_in_vain(void *unused)
{
	asking++;
	while (!stopping)
		must(take(1) == ENOMEM);
	return NULL;
}

/*
 * A call that is refused changes nothing meanwhile, or another thread's that is within the limit
 * could be refused. The limits differ so that each thread's result is certain.
 */
START_TEST(refusals_take_nothing)
{
	pthread_t threads[ASKERS];

	ck_assert_int_eq(take(1), 0);
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_in_vain, NULL), 0);
	while (asking < ASKERS)
		sched_yield();
	for (int i = 0; i < CALLS; i++) {
		must(take(2) == 0);
		capacity_put(&count);
	}
	stopping = true;
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(count, 1);
}
END_TEST

/* Up, but not beyond what the device has; nothing stays nothing. */
START_TEST(sizes_are_rounded)
{
	static const struct {
		enum rounding rounding;
		uint32_t asked, most, granted;
	} rows[] = {
		{ROUND_NONE, 600, 1000, 600},
		{ROUND_POWER_OF_TWO, 512, 1000, 512},
		{ROUND_POWER_OF_TWO, 513, 1024, 1024},
		{ROUND_POWER_OF_TWO, 513, 1000, 1000},
		{ROUND_POWER_OF_TWO, 0, 1000, 0},
		{ROUND_POWER_OF_TWO_LESS_1, 511, 1000, 511},
		{ROUND_POWER_OF_TWO_LESS_1, 512, 1023, 1023},
		{ROUND_POWER_OF_TWO_LESS_1, 512, 1000, 1000},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_uint_eq(capacity_round(rows[i].rounding, rows[i].asked, rows[i].most),
				  rows[i].granted);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {refusals_take_nothing, sizes_are_rounded, NULL};

	return core_run("capacity", tests);
}
