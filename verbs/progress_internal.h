/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the progress thread share: verbs/progress.c says how it works and what its lock
 * protects.
 */
#ifndef URXE_VERBS_PROGRESS_INTERNAL_H
#define URXE_VERBS_PROGRESS_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/clock.h"
#include "verbs/poll_yield.h"
#include "verbs/progress.h"
#include "verbs/thread_cpus.h"
#include "verbs/wakeup.h"

struct progress_client {
	struct progress *progress;
	const struct progress_ops *ops;
	void *context;

	/*
	 * When the progress thread will call progress() next, at the latest; 0: soon
	 * anyway. Any thread may lower it, only the progress thread raises it.
	 */
	_Atomic uint64_t planned;
	_Atomic uint64_t last_poll;
	_Atomic unsigned int polls; /* since a pause of its polls, up to PROGRESS_POLLS_BELIEVED */
	_Atomic bool app_polling;
	_Atomic uint64_t neglected_until; /* packets had to wait although it polls: progress.c */
	_Atomic bool app_waits;		  /* progress_app_waits() was called */
	_Atomic int waits_on;		  /* the CPU where it last did, or CPU_NONE */
	/*
	 * progress_awaits(): how many more times it is to return false, and how many those were the
	 * last time. Any thread's.
	 */
	_Atomic unsigned int await_pauses, await_paused;
	struct poll_keeper keeper;

	uint64_t spin_until;
	uint64_t left_at;	  /* when the thread last stopped watching it */
	uint64_t unwatched_until; /* not watched for another reason than polling */
	unsigned int idle_polls;  /* in a row: woken, and another thread had received */
	bool ready;		  /* a descriptor was readable */
	bool resumed;		  /* the application has stopped polling, or seems to */
	bool watched;		  /* the thread sleeps on its descriptors, too */
	bool polled;		  /* it does now */
	bool armed;    /* its descriptors end the sleep since it began (verbs/progress_arm.c) */
	bool running;  /* the thread is in a callback of this client */
	bool leaving;  /* progress_detach() waits for it */
	bool released; /* the process ends: it has no descriptors any more */
	int *fds;
	unsigned int fd_count;
	_Atomic uint64_t refreshes; /* progress_refresh() that have begun */
	uint64_t refresh;	    /* the one that has found @fds */
	struct progress_client *prev, *next;
};

struct progress {
	pthread_mutex_t lock;
	pthread_cond_t unpinned; /* a client: its callback or the sleep has ended */
	pid_t pid;
	bool started, stopping;
	pthread_t thread;
	_Atomic pid_t tid; /* the thread's number; 0: it hasn't run yet */
	struct wakeup wakeup;
	struct pollfd *poll; /* the thread's: @wakeup, @armed_set, what watched clients have */
	struct progress_client **polled; /* whose these are, but for the first two */
	unsigned int poll_capacity;
	uint64_t spin;		      /* how long a client spins */
	uint64_t cpu_contended_until; /* clients don't spin: other threads need this CPU */
	struct progress_client *clients;
	struct thread_cpus cpus; /* the thread's */
	int armed_set;		 /* epoll, or -1 (verbs/progress_arm.c) */
	bool armed_set_stale;	 /* clients came or went, or their descriptors did */
	bool arming;		 /* the thread sleeps on that */
};

/* Whether the application was seen to wait without polling, lately. */
static inline bool progress_is_neglected(const struct progress_client *client, uint64_t now)
{
	return now < atomic_load_explicit(&client->neglected_until, memory_order_relaxed);
}

/* At this moment: the clock isn't asked about one that never was. */
static inline bool progress_is_neglected_now(const struct progress_client *client)
{
	return atomic_load_explicit(&client->neglected_until, memory_order_relaxed) &&
	       progress_is_neglected(client, clock_now());
}

/* The first client that is, or NULL. With progress.lock. */
const struct progress_client *progress_neglected(const struct progress *progress);

/* --- progress_serve.c ------------------------------------------------------------------------ */

/*
 * Serve the clients while there is something to do, for PROGRESS_SLICE at the most. Returns when to
 * look again. By the thread, with progress.lock, which is given up now and then.
 */
uint64_t progress_serve(struct progress *progress);
/* Each once. Returns when the first wants to be served again. */
uint64_t progress_serve_once(struct progress *progress);

/* From now on the thread sleeps on the descriptors of @client, too. With progress.lock. */
void progress_resume_watching(struct progress_client *client);
/* Returns whether @time is earlier than what was planned. By any thread. */
bool progress_plan_earlier(struct progress_client *client, uint64_t time);

/* --- progress_sleep.c ------------------------------------------------------------------------ */

/*
 * Sleep until @time, until a descriptor of a watched client is readable (client.ready) or until the
 * thread is woken. By the thread, with progress.lock, which is given up meanwhile.
 */
void progress_sleep_until(struct progress *progress, uint64_t time);

/* --- progress_arm.c -------------------------------------------------------------------------- */

/* By the thread, with progress.lock: what else to sleep on, or -1. @wanted: one is neglected. */
int progress_arming_begin(struct progress *progress, bool wanted);
/* Likewise, after the sleep. @events: what poll() says of that. */
void progress_arming_end(struct progress *progress, short events);
/*
 * By any other thread: from now on the descriptors of @client end the thread's sleep. Returns false
 * if they don't: then the thread is to be woken.
 */
bool progress_arm(struct progress_client *client);
/* By the thread, or when there is none. */
void progress_arming_close(struct progress *progress);

#endif
