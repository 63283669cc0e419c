/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the progress thread leaves its work to an application that polls, and when it takes it back.
 *
 * Nothing here asserts how long something takes. What must happen is waited for
 * without limit (the runner's timeout is the limit); what must not happen is
 * made to show itself by something ordered after it.
 */
#include "fake_client.h"
#include "net/clock.h"
#include "net/tuning.h"
#include "tests/progress_threads.h"
#include "tests/run_suite.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

START_TEST(the_thread_stays_off_while_polled)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;
	unsigned int before, i;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	poll_until(client, clock_now() + HOUR_NS);
	end_round(&other);

	before = fake.background;
	for (i = 0; i < 300; i++) {
		kick(&fake, 0);
		usleep(100); /* time for a thread that watches */
		ck_assert(progress_poll(client, clock_now() + HOUR_NS, NULL));
	}
	ck_assert_uint_eq(fake.background, before);
	progress_detach(other_client);
	fake_destroy(&other);

	/* Polling stops: what arrives now is the thread's again. */
	progress_poll(client, 0, NULL);
	kick(&fake, 0);
	wait_for_work(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Each look takes the CPU from threads that may need it. */
START_TEST(the_thread_looks_ever_less_while_polled)
{
	struct progress_client *client;
	unsigned long before, sleeps;
	uint64_t begun, elapsed;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	poll_until(client, clock_now() + HOUR_NS);
	begun = clock_now();
	before = progress_threads_now().sleeps;
	do {
		usleep(10000);
		sleeps = progress_threads_now().sleeps;
		elapsed = clock_now() - begun; /* in which all of them were */
	} while (elapsed < 100 * PROGRESS_TICK_MOST);
	ck_assert_uint_lt(sleeps - before,
			  PROGRESS_TICK_SHARE * PROGRESS_TICK_MOST / PROGRESS_TICK +
				  elapsed / PROGRESS_TICK_MOST * 3 / 2);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Polls that are believed, and were long ago. */
static void poll_until_asked(struct progress_client *client, struct fake *fake, unsigned int times)
{
	unsigned int before = fake->asked;

	while (fake->asked - before < times) {
		poll_until(client, 0);
		usleep(100);
	}
}

/* As one does that sends much. The thread would only find that another one receives. */
START_TEST(the_thread_stays_off_during_a_long_poll)
{
	struct progress_client *client;
	unsigned int before;
	struct fake fake;

	fake_init(&fake, 1);
	kick(&fake, 0);
	pthread_mutex_lock(&fake.lock); /* the poll */
	client = attach(&fake);
	poll_until_asked(client, &fake, 1);
	before = fake.in_vain;
	poll_until_asked(client, &fake, 5);
	ck_assert_uint_eq(fake.in_vain, before);
	pthread_mutex_unlock(&fake.lock);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

static _Atomic unsigned int calls_left; /* that look as if another thread were in one */

static bool busy_a_few_times(void *context)
{
	if (calls_left == 0)
		return false;
	calls_left--;
	return true;
}

/* Polls are over just when the thread leaves the descriptors to them: it takes them back. */
START_TEST(polls_that_end_while_the_thread_leaves)
{
	struct progress_ops ops = fake_ops;
	struct progress_client *client;
	struct fake fake;

	ops.busy = busy_a_few_times;
	fake_init(&fake, 1);
	ck_assert_int_eq(progress_attach(progress, &ops, &fake, &client), 0);
	for (int i = 0; i < 20; i++) {
		usleep(2 * PROGRESS_SPIN / 1000); /* likely asleep */
		pthread_mutex_lock(&fake.lock);
		poll_until(client, 0);
		calls_left = 1; /* the first look finds one, the second doesn't */
		pthread_mutex_unlock(&fake.lock);
		kick(&fake, 0);
		wait_for_work(&fake);
		kick(&fake, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Around a sleep: it would have to be woken for the next one. */
START_TEST(a_single_long_poll_is_no_polling)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	pthread_mutex_lock(&fake.lock);
	client = attach(&fake);
	progress_poll(client, 0, NULL);
	kick(&fake, 0);
	while (!fake.in_vain)
		usleep(100);
	ck_assert_uint_eq(fake.asked, 0);
	pthread_mutex_unlock(&fake.lock);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* Something arrives when polls have ended for a while; then they go on, for an hour as it seems. */
static void neglect(struct progress_client *client, struct fake *fake)
{
	poll_until(client, clock_now());
	usleep(PROGRESS_NEGLECT / 1000); /* the thread likely looks later, once a tick */
	kick(fake, 0);
	wait_for_work(fake);
	poll_until(client, clock_now() + HOUR_NS);
	usleep(1000); /* likely no longer watched */
}

/* Whether the thread takes what arrives while the application waits for it. */
static bool is_served(struct progress_client *client, struct fake *fake)
{
	kick(fake, 0);
	progress_app_waits(client);
	return works_soon(fake);
}

/* The application polls, then waits for its memory to change. */
START_TEST(an_application_that_waits_is_served)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	fake.blind = true;
	do
		neglect(client, &fake);
	while (!is_served(client, &fake));
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* When it last worked. */
static cpu_set_t cpus_of_the_thread(struct fake *fake)
{
	cpu_set_t cpus;

	pthread_mutex_lock(&fake->lock);
	cpus = fake->cpus;
	pthread_mutex_unlock(&fake->lock);
	return cpus;
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Where packets wake the thread on a CPU that another one spins on, it doesn't get that soon. */
START_TEST(the_thread_keeps_off_the_cpu_of_an_application_that_waits)
{
	struct progress_client *client;
	int cpu = sched_getcpu();
	struct fake fake;
	cpu_set_t all, now;

	sched_getaffinity(0, sizeof(all), &all);
	fake_init(&fake, 1);
	client = attach(&fake);
	stay_on(cpu);
	fake.blind = true;
	do {
		neglect(client, &fake);
		is_served(client, &fake);
		is_served(client, &fake); /* having slept since it knew */
		now = cpus_of_the_thread(&fake);
	} while (CPU_COUNT(&all) > 1 && CPU_ISSET(cpu, &now));
	do { /* until that is forgotten */
		progress_app_sleeping(client);
		kick(&fake, 0);
		wait_for_work(&fake);
		now = cpus_of_the_thread(&fake);
	} while (!CPU_EQUAL(&now, &all));
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

/* It takes all that arrives itself: the thread would only be in its way. */
START_TEST(an_application_that_polls_for_all_is_left_alone)
{
	struct progress_client *client, *other_client;
	struct fake fake, other;

	fake_init(&fake, 1);
	fake_init(&other, 1);
	client = attach(&fake);
	other_client = attach(&other);
	poll_until(client, clock_now() + HOUR_NS);
	end_round(&other);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert(!is_served(client, &fake));
	progress_detach(client);
	progress_detach(other_client);
	fake_destroy(&fake);
	fake_destroy(&other);
}
END_TEST

/* Whether the thread takes what arrives now. */
static bool is_taken(struct fake *fake)
{
	kick(fake, 0);
	return works_soon(fake);
}

static void poll_half(struct progress_client *client, uint64_t time)
{
	for (unsigned int i = 0; i < PROGRESS_POLLS_BELIEVED / 2; i++)
		progress_poll(client, time, NULL);
}

/* It is served between its polls, and yet is believed to poll. */
START_TEST(polls_before_and_after_a_long_call_add_up)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	fake.blind = true;
	client = attach(&fake);
	do {
		usleep(10 * PROGRESS_SPIN / 1000); /* the thread doesn't spin any more */
		poll_half(client, clock_now() - PROGRESS_POLL_STOPPED);
		kick(&fake, 0);
		wait_for_work(&fake);
		poll_half(client, clock_now() + HOUR_NS);
	} while (is_taken(&fake)); /* where it was late, and forgot them */
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(deadlines_are_kept_after_polling)
{
	struct progress_client *client;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	kick(&fake, 0);
	wait_for_work(&fake);
	poll_until(client, clock_now() + HOUR_NS);
	kick(&fake, 0);
	usleep(1000); /* likely no longer watched */
	fake.deadline = clock_now() + 2 * HOUR_NS;
	progress_deadline(client, fake.deadline);
	progress_poll(client, 0, NULL);
	fake.deadline = clock_now();
	progress_deadline(client, fake.deadline);
	wait_for_work(&fake);
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(app_sleeping_ends_polling)
{
	struct progress_client *client;
	unsigned int i;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	for (i = 0; i < 100; i++) {
		/* Believed for an hour, were it not for progress_app_sleeping(). */
		poll_until(client, clock_now() + HOUR_NS);
		kick(&fake, 0);
		if (i & 1)
			usleep(200);
		progress_app_sleeping(client);
		progress_poll(client, clock_now() + HOUR_NS, NULL);
		while (sem_trywait(&fake.worked) == 0)
			;
		kick(&fake, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

START_TEST(an_occasional_poll_is_no_polling)
{
	struct progress_client *client;
	unsigned int i;
	struct fake fake;

	fake_init(&fake, 1);
	client = attach(&fake);
	progress_poll(client, clock_now() + HOUR_NS, NULL);
	progress_poll(client, clock_now() + HOUR_NS, NULL);
	for (i = 0; i < 10; i++) {
		kick(&fake, 0);
		wait_for_work(&fake);
	}
	progress_detach(client);
	fake_destroy(&fake);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("progress_polled");
	TCase *tests = tcase_create("progress_polled");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, the_thread_stays_off_while_polled);
	tcase_add_test(tests, the_thread_looks_ever_less_while_polled);
	tcase_add_test(tests, the_thread_stays_off_during_a_long_poll);
	tcase_add_test(tests, polls_that_end_while_the_thread_leaves);
	tcase_add_test(tests, a_single_long_poll_is_no_polling);
	tcase_add_test(tests, an_application_that_waits_is_served);
	tcase_add_test(tests, the_thread_keeps_off_the_cpu_of_an_application_that_waits);
	tcase_add_test(tests, an_application_that_polls_for_all_is_left_alone);
	tcase_add_test(tests, polls_before_and_after_a_long_call_add_up);
	tcase_add_test(tests, deadlines_are_kept_after_polling);
	tcase_add_test(tests, app_sleeping_ends_polling);
	tcase_add_test(tests, an_occasional_poll_is_no_polling);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
