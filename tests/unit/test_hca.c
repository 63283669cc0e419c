/* SPDX-License-Identifier: BSD-2-Clause */
/* When the thread that makes progress is told that there is something to do. */
#include "core.h"
#include "emu/deferred.h"
#include "net/share/share.h"

static struct share share;
static struct link link_of_core = {.share = &share};
static unsigned int deadlines;

static void on_deadline(void *context, uint64_t time)
{
	ck_assert_ptr_eq(context, &deadlines);
	ck_assert_uint_eq(time, 0);
	deadlines++;
}

static void setup(void)
{
	core_setup();
	deferred_init(&core.deferred);
	core.link = &link_of_core;
	core.deadline = on_deadline;
	core.deadline_context = &deadlines;
	deadlines = 0;
}

static void teardown(void)
{
	deferred_destroy(&core.deferred);
	core_teardown();
}

/* As a packet does that was posted and waits for space in a ring. */
START_TEST(a_post_tells_of_what_the_link_keeps)
{
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 0);
	share.woken = true;
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 1);
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 1);
}
END_TEST

START_TEST(a_link_may_share_nothing)
{
	link_of_core.share = NULL;
	hca_kick(&core);
	ck_assert_uint_eq(deadlines, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hca");
	TCase *tcase = tcase_create("hca");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_post_tells_of_what_the_link_keeps);
	tcase_add_test(tcase, a_link_may_share_nothing);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
