/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that wait for a queue pair: what is counted of them, and their order. */
#include "emu/deferred.h"
#include "tests/run_suite.h"

#define QPN 0x11
#define LENGTH 1000

/* How many are taken at a time; the one behind them stays. */
static const struct deferred_frame *take(void *context, uint32_t number,
					 const struct deferred_frame *frames, uint64_t now)
{
	unsigned int *count = context;

	ck_assert_uint_eq(number, QPN);
	while (frames && (*count)--)
		frames = frames->next;
	return frames;
}

/* A list that is never empty has room for ever, if what it holds is little. */
START_TEST(what_went_makes_room)
{
	uint8_t data[LENGTH] = {0};
	struct link_frame frame = {.data = data, .length = LENGTH};
	struct deferred deferred;

	deferred_init(&deferred);
	ck_assert(deferred_add(&deferred, QPN, &frame, 0));
	for (int i = 0; i < 100000; i++) {
		unsigned int count = 1;

		ck_assert(deferred_add(&deferred, QPN, &frame, 0));
		ck_assert(deferred_retry(&deferred, take, &count, 0));
		ck_assert(deferred_has(&deferred, QPN));
	}
	deferred_destroy(&deferred);
}
END_TEST

/* And one that holds much hasn't. */
START_TEST(room_ends)
{
	uint8_t data[LENGTH] = {0};
	struct link_frame frame = {.data = data, .length = LENGTH};
	unsigned int count = 0, all;
	struct deferred deferred;

	deferred_init(&deferred);
	while (deferred_add(&deferred, QPN, &frame, 0))
		ck_assert_uint_lt(count++, 1 << 20);
	ck_assert_uint_gt(count, 0);
	ck_assert(!deferred_has_room(&deferred, QPN, LENGTH));
	all = count;
	ck_assert(deferred_retry(&deferred, take, &all, 0));
	ck_assert(!deferred_has(&deferred, QPN));
	ck_assert(deferred_has_room(&deferred, QPN, LENGTH));
	deferred_destroy(&deferred);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("deferred");
	Suite *suite = suite_create("deferred");

	tcase_add_test(tests, what_went_makes_room);
	tcase_add_test(tests, room_ends);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
