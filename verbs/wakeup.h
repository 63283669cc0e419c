/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a thread that sleeps in ppoll() is woken: a pipe, and a note that spares it when the thread
 * is awake. Used by the progress thread (verbs/progress.c, verbs/progress_sleep.c).
 *
 * A pipe rather than an eventfd, because it tells of its own end: an application that closes all
 * descriptors closes the end that is written to, the other one hangs up, and the thread learns at
 * once that its clients' descriptors may be gone, too (net/descriptor.h).
 *
 * wakeup_wake() is called by any thread and takes no lock. The rest is the sleeping thread's;
 * what exchanges the pipe, wakeup_reopen(), waits until no thread is writing to it.
 */
#ifndef URXE_VERBS_WAKEUP_H
#define URXE_VERBS_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "net/descriptor.h"

struct wakeup {
	int reader, writer; /* -1: there is no pipe, and the thread mustn't sleep for long */
	struct descriptor_identity identity; /* of both */
	_Atomic bool wanted;
	_Atomic bool asleep;
	_Atomic unsigned int writing; /* threads that use @writer */
};

/* Returns 0 or an errno. */
int wakeup_open(struct wakeup *wakeup);
void wakeup_close(struct wakeup *wakeup);

/* End the thread's sleep, or keep it from the next one. Not a cancellation point. */
void wakeup_wake(struct wakeup *wakeup);

/* The thread is about to look for work: what it is woken for from now on is news. */
void wakeup_begin_round(struct wakeup *wakeup);
/* The thread is about to sleep until @reader can be read. Returns false if it mustn't. */
bool wakeup_begin_sleep(struct wakeup *wakeup);
/* @events: what poll() says of @reader. Returns false if the pipe is ours no more. */
bool wakeup_end_sleep(struct wakeup *wakeup, short events);
/* In place of a pipe that is ours no more. Returns 0 or an errno. */
int wakeup_reopen(struct wakeup *wakeup);

#endif
