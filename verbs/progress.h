/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress: who drives a link, and when. One background thread a process runs a
 * libev loop over the descriptors of all clients; it makes progress when
 * something arrives or a deadline passes. An application thread that polls
 * makes progress itself (progress_poll) and the background thread then stays off
 * the descriptors: a coarse timer checks that polling goes on.
 *
 * Called by the verbs layer. The client's progress() is called by any thread and
 * does its own try-lock; everything here is thread-safe.
 *
 * No lock is held while progress() or deadline() runs. attach and detach take a
 * lock that is never held for long; the rest take none.
 *
 * A fork() leaves the parent untouched. The child has no background thread; a
 * progress made before the fork does nothing there but make progress in progress_poll()
 * (attach fails with ESTALE, destroying leaks it). The child makes a new one.
 */
#ifndef URXE_NET_PROGRESS_H
#define URXE_NET_PROGRESS_H

#include "net/link.h"

struct progress;
struct progress_client;

struct progress_ops {
	/* Receive, run timers, send. Never waits. Returns whether anything was done. */
	bool (*progress)(void *context, uint64_t now);
	/* When the next round is due although nothing arrives, or TIME_NEVER. */
	uint64_t (*deadline)(void *context);
};

/* No thread runs before the first client is attached. Returns 0 or an errno. */
int progress_create(struct progress **progress);
void progress_destroy(struct progress *progress);

/* Begin to drive @link for @context. Starts the thread with the first client. */
int progress_attach(struct progress *progress, struct link *link, const struct progress_ops *ops,
		    void *context, struct progress_client **client);
/*
 * When this returns the background thread no longer touches the client, and a
 * round that it was taking has ended. Not from within a round; before the link closes.
 */
void progress_detach(struct progress_client *client);

/* The link has new descriptors (an address was added). */
void progress_refresh(struct progress_client *client);

/*
 * The calling thread has just posted, which may have taken longer than polls are
 * apart: if it was polling, it is still.
 */
void progress_posted(struct progress_client *client, uint64_t now);

/* A round by the calling thread, which polls. Returns whether anything was done. */
bool progress_poll(struct progress_client *client, uint64_t now);

/*
 * The application is about to sleep (it armed a CQ for notification): what was
 * polling until now is over, and the background thread takes the descriptors
 * back at once instead of finding out by itself a millisecond later.
 */
void progress_app_sleeping(struct progress_client *client);

/*
 * A deadline earlier than the background thread planned for came up: wakes it
 * only if it would oversleep. Cheap otherwise; called with locks held.
 */
void progress_deadline(struct progress_client *client, uint64_t deadline);

#endif
