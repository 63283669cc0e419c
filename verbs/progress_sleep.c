/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress thread's sleep, in ppoll(): on which descriptors, on which CPUs, and until when. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#include "net/clock.h"
#include "net/log.h"
#include "net/syscalls.h"
#include "net/tuning.h"
#include "verbs/progress_internal.h"

/*
 * Of the descriptors it sleeps on: the wake-up and what clients arm; behind them are the clients'.
 */
enum { SLEEP_WAKEUP, SLEEP_ARMED, SLEEP_OWN };

static void all_ready(struct progress *progress)
{
	struct progress_client *client;

	DL_FOREACH (progress->clients, client)
		client->ready = true;
}

/* Space for what all clients have. False without memory for it. */
static bool reserve_poll(struct progress *progress)
{
	struct progress_client *client, **polled;
	unsigned int needed = SLEEP_OWN;
	struct pollfd *poll;

	DL_FOREACH (progress->clients, client)
		needed += client->fd_count;
	if (needed <= progress->poll_capacity)
		return true;
	poll = realloc(progress->poll, needed * sizeof(*poll));
	if (poll)
		progress->poll = poll;
	polled = realloc(progress->polled, needed * sizeof(*polled));
	if (polled)
		progress->polled = polled;
	if (!poll || !polled)
		return false;
	progress->poll_capacity = needed;
	return true;
}

/* What to sleep on. Returns how many descriptors that are. */
static unsigned int pin_clients(struct progress *progress, bool neglected)
{
	struct progress_client *client;
	unsigned int count = SLEEP_OWN;

	progress->poll[SLEEP_WAKEUP] =
		(struct pollfd){.fd = progress->wakeup.reader, .events = POLLIN};
	progress->poll[SLEEP_ARMED] =
		(struct pollfd){.fd = progress_arming_begin(progress, neglected), .events = POLLIN};
	DL_FOREACH (progress->clients, client) {
		if (!client->watched || client->leaving)
			continue;
		client->polled = true;
		for (unsigned int i = 0; i < client->fd_count; i++) {
			progress->polled[count] = client;
			progress->poll[count++] =
				(struct pollfd){.fd = client->fds[i], .events = POLLIN};
		}
	}
	return count;
}

static void unpin_clients(struct progress *progress, unsigned int count)
{
	struct progress_client *client;

	progress_arming_end(progress, count ? progress->poll[SLEEP_ARMED].revents : 0);
	for (unsigned int i = SLEEP_OWN; i < count; i++)
		progress->polled[i]->ready |= progress->poll[i].revents != 0;
	DL_FOREACH (progress->clients, client)
		client->polled = false;
	pthread_cond_broadcast(&progress->unpinned);
}

static void pause_for(uint64_t time)
{
	const struct timespec interval = clock_timespec(time);

	sys_nanosleep(&interval);
}

static bool poll_until(struct progress *progress, unsigned int count, uint64_t time)
{
	uint64_t now = clock_now();
	uint64_t left = time > now && wakeup_begin_sleep(&progress->wakeup) ? time - now : 0;
	struct timespec timeout = clock_timespec(left);

	return ppoll(progress->poll, count, time == TIME_NEVER && left ? NULL : &timeout, NULL) >=
		       0 ||
	       errno == EINTR;
}

/*
 * Descriptors can't be waited for: there is no memory for the list, or the application has set
 * its limit of open files below their count. So they are looked at once a tick.
 */
static void wait_blindly(struct progress *progress)
{
	pthread_mutex_unlock(&progress->lock);
	pause_for(PROGRESS_TICK);
	pthread_mutex_lock(&progress->lock);
	all_ready(progress);
}

/*
 * The application closes descriptors that aren't its own, one after another perhaps: when it is
 * through with it, each client shall find out about its own.
 */
static void replace_wakeup(struct progress *progress)
{
	int error;

	log_warn("the application has closed a descriptor of the progress thread");
	do {
		pthread_mutex_unlock(&progress->lock);
		pause_for(PROGRESS_CLOSING);
		pthread_mutex_lock(&progress->lock);
		error = wakeup_reopen(&progress->wakeup);
		all_ready(progress);
		progress_serve_once(progress);
	} while (error && !progress->stopping);
}

const struct progress_client *progress_neglected(const struct progress *progress)
{
	const struct progress_client *client;

	DL_FOREACH (progress->clients, client) {
		if (progress_is_neglected_now(client))
			return client;
	}
	return NULL;
}

void progress_sleep_until(struct progress *progress, uint64_t time)
{
	const struct progress_client *neglected;
	unsigned int count;
	bool polled;

	if (!reserve_poll(progress)) {
		wait_blindly(progress);
		return;
	}
	/* From the CPU where its application waits without polling. */
	neglected = progress_neglected(progress);
	thread_cpus_avoid(&progress->cpus, neglected ? neglected->waits_on : CPU_NONE);
	count = pin_clients(progress, neglected);
	pthread_mutex_unlock(&progress->lock);
	polled = poll_until(progress, count, time);
	pthread_mutex_lock(&progress->lock);
	unpin_clients(progress, polled ? count : 0);
	if (!wakeup_end_sleep(&progress->wakeup, polled ? progress->poll[SLEEP_WAKEUP].revents : 0))
		replace_wakeup(progress);
	else if (!polled)
		wait_blindly(progress);
}
