/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks that are waited for: one thread at a time, and each gets it in the end. */
#include <pthread.h>
#include <unistd.h>

#include "net/spin.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define THREADS 8
#define ROUNDS 20000

static struct {
	pthread_spinlock_t lock;
	unsigned int count; /* under it */
} counter;

static void *count(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		spin_lock(&counter.lock);
		counter.count++;
		pthread_spin_unlock(&counter.lock);
	}
	return NULL;
}

START_TEST(one_thread_at_a_time_has_it)
{
	pthread_t threads[THREADS];

	spin_init(&counter.lock);
	counter.count = 0;
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, count, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(threads[i], NULL) == 0);
	ck_assert_uint_eq(counter.count, THREADS * ROUNDS);
	pthread_spin_destroy(&counter.lock);
}
END_TEST

/* The thread that has the lock has lost its CPU: those that wait for it sleep. */
START_TEST(it_is_waited_for_however_long_it_takes)
{
	pthread_t thread;

	spin_init(&counter.lock);
	counter.count = 0;
	spin_lock(&counter.lock);
	must(pthread_create(&thread, NULL, count, NULL) == 0);
	usleep(20000);
	ck_assert_uint_eq(counter.count, 0);
	pthread_spin_unlock(&counter.lock);
	must(pthread_join(thread, NULL) == 0);
	ck_assert_uint_eq(counter.count, ROUNDS);
	pthread_spin_destroy(&counter.lock);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("spin");
	TCase *tests = tcase_create("spin");

	tcase_add_test(tests, one_thread_at_a_time_has_it);
	tcase_add_test(tests, it_is_waited_for_however_long_it_takes);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
