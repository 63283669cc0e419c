/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls are counted by process, in a file that another one reads (net/fault/call_counts.h). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/fault/call_counts.h"
#include "tests/must.h"
#include "tests/run_suite.h"

static struct call_counts_file *file;
static char path[64];

static void make_file(void)
{
	snprintf(path, sizeof(path), "/tmp/urxe-test-counts-%d", (int)getpid());
	unlink(path);
	file = call_counts_create(path);
	ck_assert_ptr_nonnull(file);
}

static void remove_file(void)
{
	call_counts_unmap(file);
	unlink(path);
}

static void count(struct call_counter *counter, enum fault_call call, unsigned int times)
{
	while (times--)
		call_counter_add(counter, call);
}

/* Kills itself, so that nothing is written behind. */
static void run_child(struct call_counter *counter, unsigned int times)
{
	int status;
	pid_t child = fork();

	must(child >= 0);
	if (child == 0) {
		call_counter_fork(counter);
		count(counter, FAULT_CALL_ibv_reg_mr, times);
		kill(getpid(), SIGKILL);
	}
	must(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* As a child counts on from its parent's numbers for its faults, it does so here. */
START_TEST(processes_count_for_themselves)
{
	struct call_counter counter;

	ck_assert_int_eq(call_counts_last(file), FAULT_CALLS);
	ck_assert_int_eq(call_counter_open(&counter, path), 0);
	count(&counter, FAULT_CALL_ibv_reg_mr, 3);
	count(&counter, FAULT_CALL_ibv_alloc_pd, 1);
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_reg_mr), 3);
	ck_assert_int_eq(call_counts_last(file), FAULT_CALL_ibv_alloc_pd);
	run_child(&counter, 4);
	run_child(&counter, 2);
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_reg_mr), 3 + 4);
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_alloc_pd), 1);
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_post_send), 0);
	call_counts_clear(file);
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_reg_mr), 0);
	call_counts_unmap(counter.file);
}
END_TEST

START_TEST(too_many_are_not_counted)
{
	struct call_counter counter;

	ck_assert_int_eq(call_counter_open(&counter, path), 0);
	for (unsigned int i = 0; i < CALL_COUNTS_PROCESSES + 3; i++)
		run_child(&counter, 1 + i);
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_reg_mr), CALL_COUNTS_PROCESSES - 1);
	call_counts_unmap(counter.file);
}
END_TEST

START_TEST(other_files_are_left_alone)
{
	struct call_counter counter;
	int fd;

	file->calls++;
	ck_assert_int_eq(call_counter_open(&counter, path), EINVAL);
	file->calls--;
	fd = open(path, O_WRONLY | O_APPEND);
	must(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
	ck_assert_int_eq(call_counter_open(&counter, path), EINVAL);
	ck_assert_int_eq(call_counter_open(&counter, "/nonexistent"), ENOENT);
	count(&counter, FAULT_CALL_ibv_reg_mr, 1); /* nowhere */
	ck_assert_int_eq(call_counts_of(file, FAULT_CALL_ibv_reg_mr), 0);
}
END_TEST

/* The kernel would send SIGXFSZ. */
START_TEST(a_limit_of_files_is_an_error)
{
	struct call_counts_file *limited;
	struct rlimit usual, none;
	char other[80];
	int error;

	snprintf(other, sizeof(other), "%s-limited", path);
	must(getrlimit(RLIMIT_FSIZE, &usual) == 0);
	none = (struct rlimit){0, usual.rlim_max};
	/* Check notes each assertion in a file. */
	must(setrlimit(RLIMIT_FSIZE, &none) == 0);
	limited = call_counts_create(other);
	error = errno;
	must(setrlimit(RLIMIT_FSIZE, &usual) == 0);
	ck_assert_ptr_null(limited);
	ck_assert_int_eq(error, EFBIG);
	ck_assert_int_ne(access(other, F_OK), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("call_counts");
	TCase *tests = tcase_create("call_counts");

	tcase_add_checked_fixture(tests, make_file, remove_file);
	tcase_add_test(tests, processes_count_for_themselves);
	tcase_add_test(tests, too_many_are_not_counted);
	tcase_add_test(tests, other_files_are_left_alone);
	tcase_add_test(tests, a_limit_of_files_is_an_error);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
