/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are kept by their PSN: which are there, in which order, and how many. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emu/transport/reorder.h"
#include "net/packet_pool.h"
#include "net/random.h"
#include "net/tuning.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define FIRST 0xfffff0u /* PSNs wrap around in each test */

struct fixture {
	struct packet_pool pool;
	struct reorder reorder;
	uint8_t bytes[WIRE_PACKET_MAX];
};

static void setup(struct fixture *f)
{
	*f = (struct fixture){};
	packet_pool_init(&f->pool);
}

static void teardown(struct fixture *f)
{
	reorder_destroy(&f->reorder);
	ck_assert_uint_eq(f->pool.used_count, 0);
	packet_pool_destroy(&f->pool);
}

/*
 * A WRITE_MIDDLE whose payload follows from its PSN and @version; half of them have their headers
 * apart.
 */
static bool keep(struct fixture *f, uint32_t psn, uint32_t missing, uint32_t length,
		 uint8_t version)
{
	struct packet packet = {
		.op = opcode_find(WIRE_RC | WIRE_WRITE_MIDDLE),
		.opcode = WIRE_RC | WIRE_WRITE_MIDDLE,
		.psn = psn & PSN_MASK,
		.headers = f->bytes,
		.payload_length = length,
	};

	packet.payload = f->bytes + packet.op->headers_length;
	memset(f->bytes, psn + version, sizeof(f->bytes));
	if (psn % 2) {
		packet_keep_headers(&packet);
		memset(f->bytes, 0, packet.op->headers_length);
	}
	return reorder_keep(&f->reorder, &f->pool, &packet, false, missing & PSN_MASK);
}

static void take(struct fixture *f, uint32_t psn, uint32_t length, uint8_t version)
{
	const struct packet *packet = reorder_take(&f->reorder, psn & PSN_MASK);
	uint8_t value = psn + version;

	memset(f->bytes, ~value, sizeof(f->bytes));
	must(packet && packet->psn == (psn & PSN_MASK) && packet->payload_length == length);
	must(packet->headers[0] == value);
	for (uint32_t i = 0; i < length; i++)
		must(packet->payload[i] == value);
	reorder_free(&f->reorder, packet);
	must(!reorder_has(&f->reorder, psn & PSN_MASK));
}

/* Of those that are there. */
static uint32_t lowest_psn(const struct reorder *reorder)
{
	uint32_t psn = reorder->first;

	must(reorder->count != 0);
	while (!reorder_has(reorder, psn))
		psn = psn_add(psn, 1);
	return psn;
}

START_TEST(a_copy_of_each_psn_the_first_that_came)
{
	struct fixture f;

	setup(&f);
	must(f.reorder.count == 0 && !reorder_has(&f.reorder, 0));
	must(keep(&f, FIRST + 20, FIRST, 100, 1));
	must(keep(&f, FIRST + 3, FIRST, 200, 1));
	must(keep(&f, FIRST + 20, FIRST, 300, 2));
	ck_assert_uint_eq(f.reorder.count, 2);
	must(!reorder_take(&f.reorder, FIRST));
	must(!reorder_has(&f.reorder, FIRST + 4) && reorder_has(&f.reorder, FIRST + 3));
	take(&f, FIRST + 3, 200, 1);
	take(&f, FIRST + 20, 100, 1);
	must(f.reorder.count == 0);
	ck_assert_uint_eq(f.reorder.bytes, 0);
	teardown(&f);
}
END_TEST

START_TEST(one_that_is_returned_is_there_again)
{
	const struct packet *packet;
	struct fixture f;

	setup(&f);
	must(keep(&f, FIRST, FIRST, 100, 0));
	must(keep(&f, FIRST + 1, FIRST, 100, 0));
	packet = reorder_take(&f.reorder, FIRST);
	must(packet && lowest_psn(&f.reorder) == FIRST + 1);
	reorder_return(&f.reorder, packet);
	must(lowest_psn(&f.reorder) == FIRST);
	take(&f, FIRST, 100, 0);
	take(&f, FIRST + 1, 100, 0);
	teardown(&f);
}
END_TEST

/* What can't come in order any more is of no use, though it wasn't taken. */
START_TEST(those_before_the_missing_one_go)
{
	struct fixture f;

	setup(&f);
	must(keep(&f, FIRST + 1, FIRST, 100, 0));
	must(keep(&f, FIRST + 3, FIRST, 100, 0));
	must(keep(&f, FIRST + 6, FIRST + 4, 100, 0));
	ck_assert_uint_eq(f.reorder.count, 1);
	must(!reorder_has(&f.reorder, FIRST + 3));
	/* In whose slots others are kept. */
	for (uint32_t i = 0; i < 10 * 1000; i++)
		must(keep(&f, FIRST + 6 + 2 * i, FIRST + 5 + 2 * i, 100, 0));
	ck_assert_uint_eq(f.reorder.count, 1);
	teardown(&f);
}
END_TEST

/* Random PSNs within a window that moves on, against an array. */
START_TEST(as_an_array_would_have_it)
{
	enum { WINDOW = 3000, TOTAL = 40000 };
	bool *there = calloc(TOTAL + WINDOW, sizeof(*there));
	uint64_t random = _i;
	uint32_t missing = 0, count = 0;
	struct fixture f;

	setup(&f);
	while (missing < TOTAL) {
		uint32_t psn = missing + random_below(&random, 1 + random_below(&random, WINDOW));
		uint32_t lowest = missing;

		must(keep(&f, FIRST + psn, FIRST + missing, 20, 0));
		count += !there[psn];
		there[psn] = true;
		while (!there[lowest])
			lowest++;
		must(f.reorder.count == count);
		must(lowest_psn(&f.reorder) == ((FIRST + lowest) & PSN_MASK));
		if (random_below(&random, 50) == 0) {
			uint32_t to = missing + random_below(&random, WINDOW);

			for (; missing < to; missing++)
				count -= there[missing];
			reorder_remove_before(&f.reorder, (FIRST + missing) & PSN_MASK);
			must(f.reorder.count == count);
		}
		for (; there[missing]; missing++, count--)
			take(&f, FIRST + missing, 20, 0);
	}
	free(there);
	teardown(&f);
}
END_TEST

START_TEST(what_does_not_fit_is_not_kept)
{
	enum { LENGTH = 4096, MOST = REORDER_BYTES / LENGTH };
	struct reorder others[REORDER_BYTES_ALL / REORDER_BYTES] = {};
	uint32_t kept = 0, all;
	struct fixture f;

	setup(&f);
	must(!keep(&f, FIRST + REORDER_PSNS, FIRST, 0, 0));
	must(!keep(&f, FIRST + 0x7fffff, FIRST, 0, 0));
	must(keep(&f, FIRST + REORDER_PSNS - 1, FIRST, 0, 0));
	while (keep(&f, FIRST + kept, FIRST, LENGTH, 0))
		kept++;
	ck_assert_uint_lt(kept, MOST);
	ck_assert_uint_gt(kept, MOST * 95 / 100);
	/* One less, one more; and others of the HCA have their own, until there is no more. */
	take(&f, FIRST, LENGTH, 0);
	must(keep(&f, FIRST + kept, FIRST, LENGTH, 0));
	all = kept + 1;
	for (unsigned int i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct reorder first = f.reorder;

		f.reorder = others[i];
		for (uint32_t k = 0; keep(&f, FIRST + k, FIRST, LENGTH, 0); k++)
			all++;
		others[i] = f.reorder;
		f.reorder = first;
	}
	ck_assert_uint_le((uint64_t)all * LENGTH, REORDER_BYTES_ALL);
	ck_assert_uint_gt((uint64_t)all * LENGTH, REORDER_BYTES_ALL / 10 * 9);
	for (unsigned int i = 0; i < sizeof(others) / sizeof(*others); i++)
		reorder_destroy(&others[i]);
	reorder_clear(&f.reorder);
	ck_assert_uint_eq(f.reorder.bytes, 0);
	must(keep(&f, FIRST, FIRST, LENGTH, 0));
	teardown(&f);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reorder");
	TCase *tests = tcase_create("reorder");

	tcase_add_test(tests, a_copy_of_each_psn_the_first_that_came);
	tcase_add_test(tests, one_that_is_returned_is_there_again);
	tcase_add_test(tests, those_before_the_missing_one_go);
	tcase_add_loop_test(tests, as_an_array_would_have_it, 0, 10);
	tcase_add_test(tests, what_does_not_fit_is_not_kept);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
