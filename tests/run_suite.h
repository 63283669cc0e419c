/* SPDX-License-Identifier: BSD-2-Clause */
/* The last line of a Check program: run what main() has put together. */
#ifndef URXE_TESTS_RUN_SUITE_H
#define URXE_TESTS_RUN_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Returns what main() returns. */
static inline int run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
