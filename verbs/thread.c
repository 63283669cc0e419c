/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument)
{
	sigset_t blocked, before;
	pthread_t started;
	int error;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = pthread_create(&started, NULL, main, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error && thread)
		*thread = started;
	else if (!error)
		pthread_detach(started);
	return error;
}
