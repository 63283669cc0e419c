/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/thread.h"

#include <signal.h>

/*
 * An application with many threads may have them begin with less (ulimit -s,
 * pthread_setattr_default_np(3)) than ours take, the system's resolver among them.
 */
#define STACK_LEAST (256 << 10)

static int set_stack(pthread_attr_t *attr)
{
	size_t size;
	int error = pthread_attr_getstacksize(attr, &size);

	return error || size >= STACK_LEAST ? error : pthread_attr_setstacksize(attr, STACK_LEAST);
}

static int start(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *argument),
		 void *argument)
{
	sigset_t blocked, before;
	int error;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = pthread_create(thread, attr, main, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument)
{
	pthread_attr_t attr;
	pthread_t started;
	int error = pthread_getattr_default_np(&attr);

	if (error)
		return error;
	error = set_stack(&attr);
	if (!error)
		error = start(&started, &attr, main, argument);
	pthread_attr_destroy(&attr);
	if (!error && thread)
		*thread = started;
	else if (!error)
		pthread_detach(started);
	return error;
}
