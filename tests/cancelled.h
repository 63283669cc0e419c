/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What mustn't be a cancellation point, done by a thread that is cancelled: it would end in the
 * first one that it comes to.
 */
#ifndef URXE_TESTS_CANCELLED_H
#define URXE_TESTS_CANCELLED_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/must.h"

struct cancelled {
	void (*call)(void *argument);
	void *argument;
	bool returned;
};

static inline void *cancelled_thread(void *argument)
{
	struct cancelled *cancelled = argument;

	must(pthread_cancel(pthread_self()) == 0);
	cancelled->call(cancelled->argument);
	cancelled->returned = true;
	return NULL;
}

/* Whether @call returned, which asserts by must() alone. */
static inline bool returns_cancelled(void (*call)(void *argument), void *argument)
{
	struct cancelled cancelled = {.call = call, .argument = argument};
	pthread_t thread;

	must(pthread_create(&thread, NULL, cancelled_thread, &cancelled) == 0);
	must(pthread_join(thread, NULL) == 0);
	return cancelled.returned;
}

#endif
