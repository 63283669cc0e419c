/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing here asserts how long something takes. What must happen is waited for
 * without limit (the runner's timeout is the limit); what must not happen is
 * made to show itself by something ordered after it.
 */
#include "fake_client.h"
#include "net/clock.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "open_descriptors.h"
#include "tests/progress_threads.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "verbs/progress_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(the_thread_starts_with_the_first_client)
{
	struct fake fake, other;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	ck_assert_uint_eq(progress_threads_now().count, 0);
	attach(&fake);
	attach(&other);
	kick(&fake, 0);
	kick(&other, 0);
	wait_for_work(&fake);
	wait_for_work(&other);
	ck_assert_uint_eq(progress_threads_now().count, 1);
	progress_destroy(progress);
	while (progress_threads_now().count) /* what is joined may take a moment to vanish */
		sched_yield();
	ck_assert(sigismember(&fake.signals, SIGINT) && sigismember(&fake.signals, SIGUSR1) &&
		  sigismember(&fake.signals, SIGALRM) && sigismember(&fake.signals, SIGPROF));
	ck_assert(!pthread_sigmask(SIG_BLOCK, NULL, &fake.signals) &&
		  !sigismember(&fake.signals, SIGINT));
	fake_destroy(&fake);
	fake_destroy(&other);
	setup();
}
END_TEST

START_TEST(what_arrives_is_served)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;

	fake_init(&fake, FDS); /* more than are asked for at first */
	client = attach(&fake);
	for (i = 0; i < 5 * FDS; i++) {
		kick(&fake, i % FDS);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(an_idle_client_is_left_alone)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;
	unsigned int before, i;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	kick(&fake, 0);
	wait_for_work(&fake);
	do { /* the thread looks a little longer, and then no more */
		before = fake.background;
		for (i = 0; i < 3; i++) {
			kick(&other, 0);
			wait_for_work(&other);
		}
	} while (fake.background != before);
	usleep(20000);
	for (i = 0; i < 3; i++) {
		kick(&other, 0);
		wait_for_work(&other);
	}
	ck_assert_uint_eq(fake.background, before);
	progress_detach(client);
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

/* It has work in every round, so that the thread never sleeps. */
START_TEST(a_busy_client_starves_nobody)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	fake.busy = true;
	kick(&fake, 0);
	wait_for_work(&fake);
	for (unsigned int i = 0; i < 20; i++) {
		kick(&other, 0);
		wait_for_work(&other);
		other.deadline = clock_now();
		progress_deadline(other_client, other.deadline);
		wait_for_work(&other);
	}
	progress_detach(client); /* and can be detached */
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

START_TEST(new_descriptors_are_watched_after_refresh)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	fake.fd_count = 2;
	progress_refresh(client);
	kick(&fake, 1);
	wait_for_work(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

static sem_t has_asked, may_go_on;
static _Thread_local bool is_overtaken;

static unsigned int overtaken_descriptors(void *context, int *fds, unsigned int max)
{
	unsigned int count = fake_descriptors(context, fds, max);

	if (is_overtaken) {
		sem_post(&has_asked);
		while (sem_wait(&may_go_on))
			;
	}
	return count;
}

static void *refresh_overtaken(void *client)
{
	is_overtaken = true;
	progress_refresh(client);
	return NULL;
}

START_TEST(new_descriptors_are_watched_after_an_older_refresh)
{
	struct progress_ops ops = fake_ops;
	struct progress_client *client;
	pthread_t thread;
	struct fake fake;

	ops.descriptors = overtaken_descriptors;
	sem_init(&has_asked, 0, 0);
	sem_init(&may_go_on, 0, 0);
	fake_init(&fake, 1);
	ck_assert_int_eq(progress_attach(progress, &ops, &fake, &client), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, refresh_overtaken, client), 0);
	while (sem_wait(&has_asked))
		;
	fake.fd_count = 2;
	progress_refresh(client);
	sem_post(&may_go_on);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(client->fd_count, 2);
	kick(&fake, 1);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
	sem_destroy(&has_asked);
	sem_destroy(&may_go_on);
}
END_TEST

/* Whether what threads arm is to be made anew, since the last call. */
static bool becomes_stale(void)
{
	bool stale;

	pthread_mutex_lock(&progress->lock);
	stale = progress->armed_set_stale;
	progress->armed_set_stale = false;
	pthread_mutex_unlock(&progress->lock);
	return stale;
}

/* What threads arm (verbs/progress_arm.c) is made anew when descriptors come or go. */
START_TEST(what_is_armed_follows_the_descriptors)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	becomes_stale();
	ck_assert(!becomes_stale());
	progress_refresh(client);
	ck_assert(becomes_stale());
	progress_detach(other_client);
	ck_assert(becomes_stale());
	progress_release_descriptors(client);
	ck_assert(becomes_stale());
	progress_detach(client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

/* At the end of the process, with or without what another thread opens then. */
START_TEST(released_descriptors_are_watched_no_more)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	progress_release_descriptors(client);
	ck_assert_uint_eq(client->fd_count, 0);
	progress_refresh(client);
	ck_assert_uint_eq(client->fd_count, 0);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* More of them than the process may have, by a limit that it has set since. */
START_TEST(descriptors_that_cannot_be_waited_for)
{
	struct rlimit before, few = {.rlim_cur = 3};
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, FDS);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (unsigned int i = 0; i < FDS; i++) {
		kick(&fake, i);
		wait_for_work(&fake);
	}
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Woken, it sleeps again: one that doesn't takes a CPU. */
START_TEST(the_thread_sleeps_after_it_was_woken)
{
	struct progress_client *client;
	unsigned int asleep = 0;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	fake.deadline = clock_now();
	progress_deadline(client, fake.deadline);
	wait_for_work(&fake);
	while (asleep < 50) {
		usleep(1000);
		asleep = atomic_load(&progress->wakeup.asleep) ? asleep + 1 : 0;
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* With its end, and in a child, where the parent's would not hang up as long as it has them. */
START_TEST(nothing_left_open)
{
	struct fake fake;
	unsigned int before;
	int status;
	pid_t pid;

	teardown();
	fake_init(&fake, 1);
	before = open_descriptors();
	setup();
	attach(&fake);
	ck_assert_uint_gt(open_descriptors() - before, 1);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		progress_after_fork_child(progress);
		_exit(open_descriptors() - before);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	teardown();
	ck_assert_uint_eq(open_descriptors(), before);
	fake_destroy(&fake);
	setup();
}
END_TEST

START_TEST(deadlines_are_kept)
{
	struct progress_client *client;
	struct fake fake;
	uint64_t deadline;
	unsigned int i;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 50; i++) {
		/* Without the wake-up the first of them would come up in an hour. */
		fake.deadline = deadline = clock_now() + HOUR_NS;
		progress_deadline(client, deadline);
		fake.deadline = deadline = clock_now() + 100000 * (i % 3);
		progress_deadline(client, deadline);
		wait_for_work(&fake);
		ck_assert_uint_ge(fake.fired, deadline);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* The core brings up deadlines while the thread is asking for them. */
START_TEST(no_deadline_is_missed)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 3000; i++) {
		kick(&fake, 0);
		if (i & 1)
			wait_for_work(&fake);
		fake.deadline = 1;
		progress_deadline(client, 1);
		while (fake.deadline != TIME_NEVER)
			sched_yield();
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Its own ones, by their numbers: those between two that the test opens. */
START_TEST(the_thread_survives_the_loss_of_its_descriptors)
{
	char path[] = "/tmp/urxe-progress-XXXXXX";
	struct progress_client *client;
	struct fake fake, other;
	int first, last, file;

	teardown();
	fake_init(&fake, 1);
	first = dup(0);
	setup();
	last = dup(0);
	file = mkstemp(path);
	ck_assert(first > 0 && last > first + 1 && file >= 0);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	for (int fd = first + 1; fd < last; fd++)
		ck_assert_int_eq(dup2(file, fd), fd);
	fake_init(&other, 1);
	attach(&other);
	for (int i = 0; i < 20; i++) {
		fake.deadline = clock_now();
		progress_deadline(client, fake.deadline);
		wait_for_work(&fake);
		kick(&other, 0);
		wait_for_work(&other);
	}
	teardown();
	/* Nothing was written to the application's file, and its descriptors are open. */
	ck_assert_int_eq(lseek(file, 0, SEEK_END), 0);
	for (int fd = first + 1; fd < last; fd++)
		ck_assert_int_eq(close(fd), 0);
	unlink(path);
	fake_destroy(&fake);
	fake_destroy(&other);
	setup();
}
END_TEST

START_TEST(detach_waits_for_progress_and_ends_it)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;
	unsigned int i, before;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	other_client = attach(&other);
	for (i = 0; i < 5; i++) {
		client = attach(&fake);
		fake.slow = true;
		while (!fake.in_progress) {
			kick(&fake, 0);
			sched_yield();
		}
		progress_detach(client);
		ck_assert(!fake.in_progress);
		before = fake.background;
		kick(&fake, 0);
		end_round(&other);
		ck_assert_uint_eq(fake.background, before);
		fake.slow = false;
	}
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

static void *come_and_go(void *argument)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		fake_init(&fake, 2);
		client = attach(&fake);
		kick(&fake, 0);
		wait_for_work(&fake);
		progress_refresh(client);
		fake.deadline = clock_now();
		progress_deadline(client, fake.deadline);
		wait_for_work(&fake);
		poll_until(client, clock_now());
		kick(&fake, 1);
		progress_app_sleeping(client);
		progress_detach(client);
		fake_destroy(&fake); /* its descriptors' numbers are used again for other files */
	}
	return NULL;
}

START_TEST(clients_come_and_go_in_many_threads)
{
	pthread_t threads[4];
	unsigned int i;

	for (i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

/* In the child of a fork: every call must come back. Returns the exit status. */
static int child_uses(struct progress_client *client, struct fake *fake)
{
	struct progress_client *another;

	alarm(60);
	progress_after_fork_child(progress);
	progress_deadline(client, 1);
	progress_app_sleeping(client);
	poll_until(client, clock_now());
	progress_refresh(client);
	progress_detach(client);
	if (progress_attach(progress, &fake_ops, fake, &another) != ESTALE)
		return 1;
	progress_destroy(progress);
	return 0;
}

START_TEST(a_fork_leaves_the_parent_untouched)
{
	struct progress_client *client;
	struct fake fake;
	unsigned int i;
	int status;
	pid_t pid;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 30; i++) {
		kick(&fake, 0); /* so that the thread is in the middle of something */
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			fake.fd_count = 0; /* shared with the parent */
			_exit(child_uses(client, &fake));
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(a_child_makes_its_own)
{
	struct progress_client *client;
	struct fake fake;
	int status;
	pid_t pid;

	fake_init(&fake, 1);
	client = attach(&fake);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		alarm(60);
		fake_init(&fake, 1);
		setup();
		client = attach(&fake);
		kick(&fake, 0);
		wait_for_work(&fake);
		progress_detach(client);
		progress_destroy(progress);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	kick(&fake, 0);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("progress");
	TCase *tests = tcase_create("progress");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, the_thread_starts_with_the_first_client);
	tcase_add_test(tests, what_arrives_is_served);
	tcase_add_test(tests, an_idle_client_is_left_alone);
	tcase_add_test(tests, a_busy_client_starves_nobody);
	tcase_add_test(tests, new_descriptors_are_watched_after_refresh);
	tcase_add_test(tests, new_descriptors_are_watched_after_an_older_refresh);
	tcase_add_test(tests, what_is_armed_follows_the_descriptors);
	tcase_add_test(tests, released_descriptors_are_watched_no_more);
	tcase_add_test(tests, descriptors_that_cannot_be_waited_for);
	tcase_add_test(tests, the_thread_sleeps_after_it_was_woken);
	tcase_add_test(tests, nothing_left_open);
	tcase_add_test(tests, deadlines_are_kept);
	tcase_add_test(tests, no_deadline_is_missed);
	tcase_add_test(tests, the_thread_survives_the_loss_of_its_descriptors);
	tcase_add_test(tests, detach_waits_for_progress_and_ends_it);
	tcase_add_test(tests, clients_come_and_go_in_many_threads);
	tcase_add_test(tests, a_fork_leaves_the_parent_untouched);
	if (CHILD_ALLOCATES)
		tcase_add_test(tests, a_child_makes_its_own);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
