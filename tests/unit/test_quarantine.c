/* SPDX-License-Identifier: BSD-2-Clause */
/* What is freed late, and in which order (net/quarantine). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "net/quarantine.h"
#include "tests/run_suite.h"

#define HALF (QUARANTINE_BYTES / 2)

static const void *left[4];
static unsigned int count;

static void note(const void *known)
{
	if (count < sizeof(left) / sizeof(left[0]))
		left[count] = known;
	count++;
}

/* Of so many bytes, as it says. */
static void put(size_t size, const void *known)
{
	quarantine_free_as(malloc(1), size, known);
}

START_TEST(object_stays_readable)
{
	char *object = strdup("as it was");

	ck_assert(quarantine_enable(note));
	quarantine_free(object, strlen(object) + 1);
	for (unsigned int i = 1; i < QUARANTINE_OBJECTS; i++)
		put(1, NULL);
	ck_assert_str_eq(object, "as it was");
	ck_assert_uint_eq(count, 0);
	put(1, NULL);
	ck_assert_uint_eq(count, 1);
	ck_assert_ptr_eq(left[0], object);
}
END_TEST

START_TEST(oldest_leaves_for_bytes)
{
	static const char known[4];

	ck_assert(quarantine_enable(note));
	put(HALF, &known[0]);
	put(HALF, &known[1]);
	ck_assert_uint_eq(count, 0);
	put(1, &known[2]);
	ck_assert_uint_eq(count, 1);
	ck_assert_ptr_eq(left[0], &known[0]);
	/* One that is larger than all that may wait has it for itself. */
	put(3 * HALF, &known[3]);
	ck_assert_uint_eq(count, 3);
	ck_assert_ptr_eq(left[2], &known[2]);
}
END_TEST

START_TEST(nothing_is_kept_without)
{
	quarantine_free(malloc(1), 1);
	quarantine_free(NULL, 1);
	ck_assert(quarantine_enable(note));
	quarantine_free(NULL, 1);
	for (unsigned int i = 0; i < QUARANTINE_OBJECTS; i++)
		put(1, NULL);
	ck_assert_uint_eq(count, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("quarantine");
	TCase *tcase = tcase_create("quarantine");

	tcase_add_test(tcase, object_stays_readable);
	tcase_add_test(tcase, oldest_leaves_for_bytes);
	tcase_add_test(tcase, nothing_is_kept_without);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
