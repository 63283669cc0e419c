/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of progress (verbs/progress.h) that only counts: its descriptors are eventfds, its
 * rounds read them. For the tests of progress. No thread of a program with it ever loses its CPU to
 * another, as far as verbs/poll_yield.h can tell.
 */
#ifndef URXE_TESTS_UNIT_FAKE_CLIENT_H
#define URXE_TESTS_UNIT_FAKE_CLIENT_H

#include "verbs/progress.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#define HOUR_NS (3600 * (uint64_t)1000000000)
#define FDS 20

struct fake {
	int fds[FDS];
	_Atomic unsigned int fd_count;
	pthread_mutex_t lock; /* as the core's try-lock */
	pthread_t owner;      /* the thread of the test */
	_Atomic uint64_t deadline;
	_Atomic uint64_t fired;		 /* when a deadline was served */
	_Atomic unsigned int background; /* rounds of the background thread */
	sem_t worked;			 /* posted when it did something */
	_Atomic bool slow;
	_Atomic bool busy;  /* does something in every round */
	_Atomic bool blind; /* polls of the test find nothing */
	_Atomic bool in_progress;
	_Atomic unsigned int in_vain; /* rounds while another thread was in one */
	_Atomic unsigned int asked;   /* how often, whether a thread is in one */
	sigset_t signals;	      /* of the background thread; these with @lock */
	cpu_set_t cpus;
};

extern struct progress *progress; /* from setup() to teardown() */
void setup(void);
void teardown(void);

void fake_init(struct fake *fake, unsigned int fd_count);
void fake_destroy(struct fake *fake);
struct progress_client *attach(struct fake *fake);

/* What progress asks of it; of the functions those that tests call, too. */
extern const struct progress_ops fake_ops;
unsigned int fake_descriptors(void *context, int *fds, unsigned int max);

/* Something arrives at its descriptor @i. */
void kick(struct fake *fake, unsigned int i);
/* The background thread has done something: wait until it has; or at most 100 ms. */
void wait_for_work(struct fake *fake);
bool works_soon(struct fake *fake);
/* Polls that look as if they went on until @time: enough to be taken for polling. */
void poll_until(struct progress_client *client, uint64_t time);
/* A round for this one, which is idle, that begins now ends one for others that began before. */
void end_round(struct fake *fake);

#endif
