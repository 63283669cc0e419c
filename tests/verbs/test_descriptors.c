/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors run out, at each place where one is opened: some call says so by an errno, or
 * nothing is noticed at all; what was made is destroyed; and then everything works.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/scenario.h"

#define PATIENCE 600 /* seconds, for one child on a busy machine */
#define MOST 200     /* descriptors of a scenario */

/* --- too few --------------------------------------------------------------------------- */

static int (*const scenarios[])(void) = {scenario_verbs, scenario_manager};

static void set_limit(rlim_t limit)
{
	struct rlimit rlimit;

	must(getrlimit(RLIMIT_NOFILE, &rlimit) == 0);
	rlimit.rlim_cur = limit;
	must(setrlimit(RLIMIT_NOFILE, &rlimit) == 0);
}

/* With @count descriptors left. Returns the scenario's error. */
static int run_child(int (*scenario)(void), int count)
{
	int next = dup(0), error, again;
	struct rlimit before;

	alarm(PATIENCE);
	must(next > 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	set_limit(next + count);
	error = scenario();
	set_limit(before.rlim_cur);
	again = scenario();
	/* The devices are listed once. */
	must_msg(again == 0 || (error && again == ENODEV), "afterwards: %s", strerror(again));
	return error;
}

/* No device to be listed; attaching to a group has ENOMEM for whatever runs out. */
static bool is_expected(int error)
{
	return error == 0 || error == EMFILE || error == ENODEV || error == ENOMEM;
}

START_TEST(too_few_are_an_error)
{
	int status, count = -1;
	pid_t pid;

	do {
		pid = fork();
		must(pid >= 0);
		if (pid == 0)
			_exit(run_child(scenarios[_i], count + 1));
		must(waitpid(pid, &status, 0) == pid);
		count++;
		ck_assert_msg(WIFEXITED(status), "scenario %d with %d left: status %#x", _i, count,
			      status);
		ck_assert_msg(is_expected(WEXITSTATUS(status)), "scenario %d with %d left: %s", _i,
			      count, strerror(WEXITSTATUS(status)));
	} while (WEXITSTATUS(status) && count < MOST);
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_int_gt(count, 5);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("descriptors");
	TCase *tests = tcase_create("descriptors");

	fixture_environment();
	tcase_set_timeout(tests, 2 * PATIENCE);
	tcase_add_loop_test(tests, too_few_are_an_error, 0, sizeof(scenarios) / sizeof(*scenarios));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
