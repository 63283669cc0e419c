/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The roster's lock, with members that are stopped or killed while they have it: they keep no other
 * member waiting for long.
 */
#include <check.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/observe/file.h"
#include "net/process.h"
#include "roster_members.h"
#include "tests/run_suite.h"

static void wait_until_stopped(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
}

static void go_on(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	wait_for_success(pid);
}

/* --- the lock ------------------------------------------------------------------------- */

static pid_t stopped_with_the_lock(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct roster *roster = join();

		if (roster_lock(roster))
			_exit(1);
		raise(SIGSTOP);
		roster_unlock(roster);
		if (roster_lock(roster))
			_exit(2);
		roster_unlock(roster);
		roster_close(roster);
		_exit(0);
	}
	wait_until_stopped(pid);
	return pid;
}

/* More of them than there are turns that the lock can take would be too many. */
START_TEST(stopped_members_keep_no_member_waiting)
{
	struct roster *a = join(), *b;
	pid_t pids[8];

	for (unsigned int i = 0; i < 8; i++) {
		pids[i] = stopped_with_the_lock();
		lease(a, i ? 1u << (i - 1) : 1);
		b = join();
		ck_assert_int_eq(roster_lock(a), 0);
		ck_assert(!roster_trylock(b));
		roster_unlock(a);
		ck_assert(roster_trylock(b));
		roster_unlock(b);
		roster_close(b);
	}
	for (unsigned int i = 0; i < 8; i++)
		go_on(pids[i]);
	ck_assert(roster_trylock(a));
	roster_unlock(a);
	roster_close(a);
}
END_TEST

/* For longer than a member has patience with one that sleeps while it has the lock. */
START_TEST(a_member_that_stood_still_waits_on)
{
	int joined[2], locked[2];
	struct roster *a = join();
	pid_t pid;
	char byte;

	ck_assert_int_eq(pipe(joined), 0);
	ck_assert_int_eq(pipe(locked), 0);
	pid = fork();
	if (pid == 0) {
		struct roster *b = join();

		if (write(joined[1], "j", 1) != 1 || read(locked[0], &byte, 1) != 1)
			_exit(1);
		_exit(roster_lock(b));
	}
	ck_assert_int_eq(read(joined[0], &byte, 1), 1);
	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert_int_eq(write(locked[1], "l", 1), 1);
	usleep(100000);
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	sleep(6);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	usleep(100000);
	roster_unlock(a);
	wait_for_success(pid);
	roster_close(a);
}
END_TEST

/* A member that only tries, as receiving does, has patience from one try to the next. */
START_TEST(those_that_only_try_pass_over_it)
{
	struct roster *a = join();
	pid_t pid = stopped_with_the_lock();

	while (!roster_trylock(a))
		usleep(10000);
	roster_unlock(a);
	go_on(pid);
	roster_close(a);
}
END_TEST

static void begin_with_the_lock(const void *unused)
{
	if (roster_lock(join()))
		_exit(1);
}

/* It may be frozen, which can't be seen. */
START_TEST(one_that_sleeps_is_passed_over)
{
	pid_t pid = killable_process(begin_with_the_lock, NULL);
	struct roster *a = join();

	ck_assert_int_eq(roster_lock(a), 0);
	ck_assert(roster_unlock(a));
	kill_and_wait(pid);
	roster_close(a);
}
END_TEST

/* Numbers of another PID namespace are those of other threads here. */
START_TEST(a_holder_is_of_its_pid_namespace)
{
	uint64_t ours = observe_namespace("pid");
	struct roster *a = join();
	pid_t pid = stopped_with_the_lock();
	const struct roster_turns *turns = &a->table->turns;
	const struct roster_holder *holder = &turns->holders[turns->epoch % LOCK_TURNS];

	ck_assert_uint_ne(ours, 0);
	ck_assert_uint_eq(holder->thread, pid);
	ck_assert_uint_eq(holder->pid_namespace, ours);
	ck_assert_int_eq(process_state(pid, ours), 'T');
	ck_assert_int_eq(process_state(pid, ours + 1), 0);
	ck_assert_int_eq(process_state(pid, 0), 0);
	ck_assert_int_eq(process_state(gettid(), ours), 'R');
	go_on(pid);
	roster_close(a);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("roster_lock");
	TCase *tests = tcase_create("roster_lock");

	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, stopped_members_keep_no_member_waiting);
	tcase_add_test(tests, a_member_that_stood_still_waits_on);
	tcase_add_test(tests, those_that_only_try_pass_over_it);
	tcase_add_test(tests, one_that_sleeps_is_passed_over);
	tcase_add_test(tests, a_holder_is_of_its_pid_namespace);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
