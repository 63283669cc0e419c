/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that wait for a queue pair: what is counted of them, and which go first. */
#include "emu/deferred.h"
#include "net/wire/wire.h"
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

static bool defer(struct deferred *deferred, uint32_t number, uint8_t operation)
{
	struct bth bth = {.opcode = WIRE_XRC | operation};
	struct link_frame frame = {.data = (uint8_t *)&bth, .length = sizeof(bth)};

	return deferred_add(deferred, number, &frame, 0);
}

static bool request_waits(const struct deferred *deferred)
{
	struct bth bth = {.opcode = WIRE_XRC | WIRE_SEND_ONLY};

	return deferred_precedes(deferred, &(struct link_frame){.data = (uint8_t *)&bth});
}

/* A request waits for an initiator's responses. */
START_TEST(responses_precede)
{
	struct deferred deferred;

	deferred_init(&deferred);
	ck_assert(!request_waits(&deferred));
	ck_assert(defer(&deferred, QPN, WIRE_ACKNOWLEDGE));
	ck_assert(defer(&deferred, QPN, WIRE_ACKNOWLEDGE));
	for (int i = 0; i < 2; i++) {
		unsigned int count = 1;

		ck_assert(request_waits(&deferred));
		ck_assert(deferred_retry(&deferred, take, &count, 0));
	}
	ck_assert(!request_waits(&deferred));
	deferred_destroy(&deferred);
}
END_TEST

/* Of XRC alone: to other queue pairs a request is no answer to an initiator. */
START_TEST(others_precede_nothing)
{
	struct bth bth = {.opcode = WIRE_RC | WIRE_ACKNOWLEDGE};
	const struct link_frame frame = {.data = (uint8_t *)&bth, .length = sizeof(bth)};
	struct deferred deferred;
	unsigned int count = 1;

	deferred_init(&deferred);
	ck_assert(deferred_add(&deferred, QPN, &frame, 0));
	ck_assert(!request_waits(&deferred));
	ck_assert(deferred_retry(&deferred, take, &count, 0));
	ck_assert(defer(&deferred, QPN, WIRE_ACKNOWLEDGE));
	bth.opcode = WIRE_RC | WIRE_SEND_ONLY;
	ck_assert(!deferred_precedes(&deferred, &frame));
	deferred_destroy(&deferred);
}
END_TEST

/*
 * Whatever a peer sends to a target, perhaps for the initiator that had its number before: a
 * response behind a request isn't waited for by that, or both would wait for ever.
 */
START_TEST(a_response_behind_a_request)
{
	struct deferred deferred;
	unsigned int count = 1;

	deferred_init(&deferred);
	ck_assert(defer(&deferred, QPN, WIRE_SEND_ONLY));
	ck_assert(defer(&deferred, QPN, WIRE_ACKNOWLEDGE));
	ck_assert(defer(&deferred, QPN, WIRE_SEND_ONLY));
	ck_assert(!request_waits(&deferred));
	/* Then it is the first, and waits for nothing itself. */
	ck_assert(deferred_retry(&deferred, take, &count, 0));
	ck_assert(request_waits(&deferred));
	count = 1;
	ck_assert(deferred_retry(&deferred, take, &count, 0));
	ck_assert(!request_waits(&deferred));
	deferred_destroy(&deferred);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("deferred");
	Suite *suite = suite_create("deferred");

	tcase_add_test(tests, what_went_makes_room);
	tcase_add_test(tests, room_ends);
	tcase_add_test(tests, responses_precede);
	tcase_add_test(tests, others_precede_nothing);
	tcase_add_test(tests, a_response_behind_a_request);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
