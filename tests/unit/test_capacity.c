/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of what the device has, where threads ask at once. */
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

int main(void)
{
	const TTest *const tests[] = {refusals_take_nothing, NULL};

	return core_run("capacity", tests);
}
