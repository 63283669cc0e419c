/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the library's own. Signals are the application's: its handlers must find its own
 * threads. A fault is the thread's that makes it, and would end the process if it were blocked
 * (net/guard.h).
 */
#ifndef URXE_VERBS_THREAD_H
#define URXE_VERBS_THREAD_H

#include <pthread.h>

/* Start one: *@thread is to be joined; NULL: it is detached. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*main)(void *argument), void *argument);

#endif
