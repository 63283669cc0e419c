/* SPDX-License-Identifier: BSD-2-Clause */
/* The hooks of modules: all of them, in the order of their locks, and each once. */
#include "tests/run_suite.h"
#include "verbs/control.h"
#include "verbs/preload/signals.h"
#include "verbs/registry.h"

#include <check.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char calls[64]; /* one letter a call */

static void called(char letter)
{
	calls[strlen(calls)] = letter;
}

/* Faults, and what `urxe ctl` asks, are no part of this. */
void signals_install(void)
{
}

void signals_after_fork_child(void)
{
}

struct control *control_create(struct progress *progress)
{
	return NULL;
}

void control_destroy(struct control *control)
{
}

void control_after_fork_child(struct control *control)
{
}

static int exit_pipe = -1; /* where a process that ends says so, if it is to */

/* A module that has all hooks, with the letter that each of them leaves. */
#define MODULE(name, rank, before, parent, child, end)                                             \
	static void name##_before(void)                                                            \
	{                                                                                          \
		called(before);                                                                    \
	}                                                                                          \
	static void name##_parent(void)                                                            \
	{                                                                                          \
		called(parent);                                                                    \
	}                                                                                          \
	static void name##_child(void)                                                             \
	{                                                                                          \
		called(child);                                                                     \
	}                                                                                          \
	static void name##_exit(void)                                                              \
	{                                                                                          \
		if (exit_pipe >= 0 && write(exit_pipe, &(char){end}, 1) != 1)                      \
			_exit(2);                                                                  \
	}                                                                                          \
	static struct registry_hooks name = {                                                      \
		.order = rank,                                                                     \
		.before_fork = name##_before,                                                      \
		.after_fork_in_parent = name##_parent,                                             \
		.after_fork_in_child = name##_child,                                               \
		.at_exit = name##_exit,                                                            \
	}

MODULE(leaf, FORK_LEAF, 'l', 'L', '1', 'x');
MODULE(devices, FORK_DEVICES, 'd', 'D', '2', 'y');
MODULE(outermost, FORK_OUTERMOST, 'o', 'O', '3', 'z');
static struct registry_hooks empty = {.order = FORK_DEVICES};

/* In no order, and some of them again. */
static void add_all(void)
{
	registry_add_hooks(&devices);
	registry_add_hooks(&leaf);
	registry_add_hooks(&empty);
	registry_add_hooks(&devices);
	registry_add_hooks(&outermost);
	registry_add_hooks(&leaf);
}

START_TEST(forks_call_them_in_order)
{
	int status;
	pid_t pid;

	add_all();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(strcmp(calls, "odl123") != 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(calls, "odlLDO");
}
END_TEST

/* In a child of a fork too: it has the modules of its parent. */
START_TEST(exit_calls_them)
{
	char letters[8] = "";
	int ends[2];
	pid_t pid;

	add_all();
	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		exit_pipe = ends[1];
		exit(0);
	}
	close(ends[1]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(read(ends[0], letters, sizeof(letters) - 1), 3);
	ck_assert_str_eq(letters, "zyx");
	close(ends[0]);
}
END_TEST

/* A module may ask for what is shared; a child begins without. */
START_TEST(children_share_nothing_with_their_parent)
{
	struct progress *progress = NULL, *again = NULL;
	struct capture *capture;
	int status;
	pid_t pid;

	ck_assert_int_eq(registry_acquire(&progress, &capture), 0);
	ck_assert_ptr_nonnull(progress);
	ck_assert_ptr_null(capture);
	ck_assert_int_eq(registry_acquire(&again, &capture), 0);
	ck_assert_ptr_eq(again, progress);
	add_all();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct progress *own = NULL;

		_exit(registry_acquire(&own, &capture) || own == progress);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	registry_release();
	registry_release();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("registry");
	TCase *tests = tcase_create("registry");

	tcase_add_test(tests, forks_call_them_in_order);
	tcase_add_test(tests, exit_calls_them);
	tcase_add_test(tests, children_share_nothing_with_their_parent);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
