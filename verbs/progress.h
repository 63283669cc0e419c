/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread, one per process: a reactor that watches the descriptors of its
 * clients and calls a client's progress() when one of them becomes readable or the
 * client's deadline passes. It knows nothing of what a client does then: an HCA
 * receives and sends packets (verbs/device.c), rdma_cm hears about network devices
 * (verbs/rdma/rdma_watch.c).
 *
 * An application thread that polls makes progress itself (progress_poll()); the
 * progress thread then stays off the descriptors and only checks from time to time
 * that polling goes on.
 *
 * Every function may be called by any thread. A client's progress() is called by any
 * thread too and does its own try-lock; no lock is held while progress() or
 * deadline() runs. Attaching, detaching and refreshing take a lock that is never held
 * for long; the other functions wait for none.
 *
 * A fork() leaves the parent untouched. The child has no progress thread: with what
 * it inherited, progress_poll() still calls progress(), progress_attach() fails with
 * ESTALE, and progress_destroy() frees nothing. The child makes a progress thread of
 * its own.
 */
#ifndef URXE_VERBS_PROGRESS_H
#define URXE_VERBS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/clock.h"

struct progress;
struct poll_queue; /* verbs/poll_yield.h */
struct progress_client;

/* What a client is: descriptors to watch, a deadline, and what to do when one of them says so. */
struct progress_ops {
	/* Receive, run timers, send. Never waits. Returns whether anything was done. */
	bool (*progress)(void *context, uint64_t now);
	/* When progress() is due although no descriptor is readable, or TIME_NEVER. NULL: never. */
	uint64_t (*deadline)(void *context);
	/* At most @max, not 0, descriptors to watch for reading. Returns how many it wrote. */
	unsigned int (*descriptors)(void *context, int *fds, unsigned int max);
	/*
	 * Whether another thread is in progress() at this moment, or in another call that takes
	 * longer than polls are apart. NULL: none ever polls.
	 */
	bool (*busy)(void *context);
};

/* For descriptors() of a client with one, or with none: -1. */
static inline unsigned int progress_one_descriptor(int fd, int *fds)
{
	fds[0] = fd;
	return fd >= 0;
}

/* No thread runs before the first client is attached. Returns 0 or an errno. */
int progress_create(struct progress **progress);
void progress_destroy(struct progress *progress);
/* In a forked child: let go of the descriptors, which are the parent's. */
void progress_after_fork_child(struct progress *progress);

/* Begin to serve @context by @ops. Starts the thread with the first client. */
int progress_attach(struct progress *progress, const struct progress_ops *ops, void *context,
		    struct progress_client **client);
/*
 * When this returns the progress thread no longer touches the client, and a call of
 * progress() that it was in has ended. Not from within progress(); before the
 * descriptors are closed.
 */
void progress_detach(struct progress_client *client);

/* The client has new descriptors (an address was added). */
void progress_refresh(struct progress_client *client);

/*
 * At the end of the process, before the descriptors are closed: the progress thread, which runs on,
 * sleeps on them no more. No thread is waited for that may have ended with the lock.
 */
void progress_release_descriptors(struct progress_client *client);

/*
 * The calling thread has posted, beginning @now, which may have taken longer than polls are
 * apart: if it was polling, it still is.
 */
void progress_posted(struct progress_client *client, uint64_t now);

/*
 * The calling thread polls @queue, or NULL: it makes progress itself, or where that is left to
 * another thread sleeps until there is something in @queue, for a while at most (poll_sleep()).
 * Returns whether anything was done, or may have been while it slept.
 */
bool progress_poll(struct progress_client *client, uint64_t now, const struct poll_queue *queue);

/* Whether a thread of the application has polled, or posted, since @time. */
bool progress_polled_since(const struct progress_client *client, uint64_t time);

/* Whether threads have CPUs enough for one that waits to poll instead of sleeping. */
bool progress_may_spin(const struct progress_client *client);

/*
 * The application is about to sleep (it armed a CQ for notification): polling is
 * over, and the progress thread takes the descriptors back at once instead of
 * finding out by itself a millisecond later.
 */
void progress_app_sleeping(struct progress_client *client);

/* Whether the progress thread runs, or would if it had a CPU. Safe in signal handlers. */
bool progress_is_runnable(const struct progress_client *client);

/*
 * What the application posted has completed, and nothing has come from a peer since: it
 * may wait for that without polling, for its memory to change say. If it was seen to do so lately
 * the progress thread takes the descriptors back at once.
 */
void progress_app_waits(struct progress_client *client);

/*
 * Nothing is left to do until a peer sends. Whether the calling thread is to poll for what that
 * sends, though it has something else to return: where the application was seen to wait without
 * polling lately, and this was worth it before. Then what came of it is to be told: whether
 * something @came, after @passed ns.
 */
bool progress_awaits(struct progress_client *client);
void progress_awaited(struct progress_client *client, uint64_t passed, bool came);

/*
 * A deadline earlier than the progress thread planned for came up: wakes it
 * only if it would oversleep. Cheap otherwise; may be called with locks held.
 */
void progress_deadline(struct progress_client *client, uint64_t deadline);

#endif
