/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each allocation fails once, of the library, of the C library on its behalf and in all threads:
 * some call says so by an errno, and why on stderr, or nothing is noticed at all. Nothing crashes,
 * ends the process, or is waited for in vain; what was made is destroyed; and then everything
 * works.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/scenario.h"

#define PATIENCE 600 /* seconds, for one child on a busy machine */
#define MOST 5000    /* allocations of a scenario */
#define UNREACHED 42 /* the exit status of a child that allocates less often */

/* --- malloc() -------------------------------------------------------------------------- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

#define EXPORT __attribute__((visibility("default")))

static _Atomic long left; /* until the one that fails; 0: none does */

static bool fails(void)
{
	if (atomic_load(&left) <= 0 || atomic_fetch_sub(&left, 1) != 1)
		return false;
	errno = ENOMEM;
	return true;
}

EXPORT void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
	return fails() ? NULL : __libc_realloc(old, size);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size)
{
	*memory = fails() ? NULL : __libc_memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}

/* --- the sweep ------------------------------------------------------------------------- */

static const struct variant {
	int (*scenario)(void);
	const char *check; /* URXE_CHECK, or NULL */
} variants[] = {
	{scenario_verbs}, {scenario_manager}, {scenario_manager, "order"}, {scenario_sockets}};

/* In a process of its own: what is made once is made anew. */
static void run_child(const struct variant *variant, long number)
{
	int (*scenario)(void) = variant->scenario;
	static struct said said;
	bool reached;
	int error;

	alarm(PATIENCE);
	if (variant->check)
		setenv("URXE_CHECK", variant->check, 1);
	mallopt(M_PERTURB, 0xa5); /* what is freed isn't what it was */
	said_begin(&said);
	atomic_store(&left, number);
	error = scenario();
	reached = atomic_exchange(&left, 0) <= 0;
	said_end(&said);
	fputs(said.text, stderr);
	must_msg(error != ENOMEM || *said.text, "ENOMEM without a word");
	must_msg(!said_count(&said, CAUSE_LIMIT_REACHED), "not for lack of memory");
	if (!reached)
		_exit(error ? 1 : UNREACHED);
	error = scenario();
	/* The devices are listed once. */
	must_msg(error == 0 || error == ENODEV, "afterwards: %s", strerror(error));
	_exit(0);
}

/* The exit status of the child. */
static int run(const struct variant *variant, long number)
{
	int status;
	pid_t pid = fork();

	must(pid >= 0);
	if (pid == 0)
		run_child(variant, number);
	must(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

START_TEST(each_fails_once)
{
	int status, failures = 0;
	long number = 0;

	do {
		status = run(&variants[_i], ++number);
		if (status && status != UNREACHED) {
			fprintf(stderr, "variant %d, allocation %ld: status %#x\n", _i, number,
				status);
			failures++;
		}
	} while (status != UNREACHED && number < MOST);
	ck_assert_int_eq(failures, 0);
	ck_assert_int_eq(status, UNREACHED);
	ck_assert_int_gt(number, 50); /* the allocator really is ours */
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("allocation");
	TCase *tests = tcase_create("allocation");

	fixture_environment();
	tcase_set_timeout(tests, 2 * PATIENCE);
	tcase_add_loop_test(tests, each_fails_once, 0, sizeof(variants) / sizeof(*variants));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
