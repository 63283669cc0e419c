/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a poll that has found something receives a while longer: verbs/progress_await.c. */
#include <check.h>

#include "net/clock.h"
#include "net/tuning.h"
#include "tests/run_suite.h"
#include "verbs/progress_internal.h"

static struct progress_client client;

static void set_up(void)
{
	client = (struct progress_client){.neglected_until = TIME_NEVER};
}

/* How many polls don't, until one does. */
static unsigned int pauses(void)
{
	unsigned int count = 0;

	while (!progress_awaits(&client))
		ck_assert_uint_le(++count, 2 * PROGRESS_AWAIT_PAUSES);
	return count;
}

START_TEST(only_where_an_application_waits_without_polling)
{
	ck_assert(progress_awaits(&client));
	client.neglected_until = clock_now() - 1;
	ck_assert(!progress_awaits(&client));
	client.neglected_until = 0;
	ck_assert(!progress_awaits(&client));
}
END_TEST

START_TEST(what_is_in_vain_becomes_rare)
{
	unsigned int last = 0;

	for (unsigned int i = 0; i < 20; i++) {
		unsigned int count = pauses();

		ck_assert(i == 0 || count > last || count > PROGRESS_AWAIT_PAUSES);
		last = count;
		progress_awaited(&client, 0, false);
	}
	pauses();
	progress_awaited(&client, 0, true);
	ck_assert_uint_eq(pauses(), 0);
}
END_TEST

/* That what it took so long for would have been neglected, too. */
START_TEST(a_long_wait_that_ends_well_is_remembered)
{
	const uint64_t until = clock_now();

	client.neglected_until = until;
	progress_awaited(&client, PROGRESS_AWAIT_LONG + 1, false);
	ck_assert_uint_eq(client.neglected_until, until);
	progress_awaited(&client, PROGRESS_AWAIT_LONG + 1, true);
	ck_assert_uint_ge(client.neglected_until, until + PROGRESS_NEGLECT_FOR);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("progress_await");
	TCase *tests = tcase_create("progress_await");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests, only_where_an_application_waits_without_polling);
	tcase_add_test(tests, what_is_in_vain_becomes_rare);
	tcase_add_test(tests, a_long_wait_that_ends_well_is_remembered);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
