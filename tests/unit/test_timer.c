/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of deadlines: its order, its laziness, and cancelling from its middle. */
#include "core.h"
#include "emu/transport/timer.h"

#define MANY 500

static struct timer_heap heap;

START_TEST(earlier_deadlines_move_and_later_ones_do_not)
{
	struct timer a = {.number = 1}, b = {.number = 2};

	timer_heap_init(&heap);
	ck_assert_uint_eq(heap.next, TIME_NEVER);
	ck_assert(timer_arm(&heap, &a, 100));
	ck_assert(!timer_arm(&heap, &b, 200));
	ck_assert(!timer_arm(&heap, &a, 150));
	ck_assert_uint_eq(a.time, 100);
	ck_assert(timer_arm(&heap, &b, 50));
	ck_assert_uint_eq(heap.next, 50);
	ck_assert(!timer_arm(&heap, &b, 50));

	ck_assert_uint_eq(timer_expire(&heap, 49), 0);
	ck_assert_uint_eq(timer_expire(&heap, 50), 2);
	ck_assert_uint_eq(b.position, 0);
	ck_assert_uint_eq(timer_expire(&heap, 99), 0);
	ck_assert_uint_eq(heap.next, 100);
	timer_cancel(&heap, &a);
	timer_cancel(&heap, &a);
	ck_assert_uint_eq(heap.next, TIME_NEVER);
	ck_assert_uint_eq(timer_expire(&heap, TIME_NEVER - 1), 0);
	ck_assert(!timer_arm(&heap, &a, TIME_NEVER));
	ck_assert_uint_eq(heap.count, 0);
	timer_heap_destroy(&heap);
}
END_TEST

/*
 * Arm, cancel and advance at random, then take out the rest; the order must be that of the times.
 */
static void shuffle(void)
{
	static struct timer timers[MANY];
	uint64_t times[MANY], last = 0;
	unsigned int left = 0;
	uint32_t number;

	timer_heap_init(&heap);
	for (uint32_t i = 0; i < MANY; i++) {
		timers[i] = (struct timer){.number = i + 1};
		timer_arm(&heap, &timers[i], 1 + random() % 1000);
	}
	for (uint32_t i = 0; i < MANY; i += 3)
		timer_cancel(&heap, &timers[i]);
	for (uint32_t i = 1; i < MANY; i += 3)
		timer_arm(&heap, &timers[i], 1 + random() % 1000);
	for (uint32_t i = 0; i < MANY; i++) {
		left += timers[i].position != 0;
		times[i] = timers[i].time; /* 0 once it has come up */
	}

	while ((number = timer_expire(&heap, 2000))) {
		ck_assert_uint_ne((number - 1) % 3, 0);
		ck_assert_uint_ge(times[number - 1], last);
		ck_assert_uint_eq(timers[number - 1].position, 0);
		last = times[number - 1];
		left--;
	}
	ck_assert_uint_eq(left, 0);
	ck_assert_uint_eq(heap.next, TIME_NEVER);
	timer_heap_destroy(&heap);
}

START_TEST(timers_come_up_in_order)
{
	srandom(20240607);
	for (int i = 0; i < 50; i++)
		shuffle();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {earlier_deadlines_move_and_later_ones_do_not,
				      timers_come_up_in_order, NULL};

	return core_run("timer", tests);
}
