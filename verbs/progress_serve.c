/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the progress thread serves its clients: whose application polls, which of them spin, and when
 * each is called. verbs/progress.c has the states that a client is in.
 */
#include "verbs/progress_internal.h"

#include <sched.h>
#include <utlist.h>

#include "net/tuning.h"

/* --- the application ---------------------------------------------------------------------- */

/* An application that polls once or twice around each sleep isn't one that polls. */
static bool polls_are_believed(struct progress_client *client)
{
	return atomic_load(&client->polls) >= PROGRESS_POLLS_BELIEVED;
}

/*
 * Whether an application thread polled less than @gap ago. The time that it noted may be later than
 * @now.
 */
static bool polled(struct progress_client *client, uint64_t now, int64_t gap)
{
	return polls_are_believed(client) && (int64_t)(now - atomic_load(&client->last_poll)) < gap;
}

/* Whether one is in a call: to send much takes longer than polls are apart. */
static bool in_call(struct progress_client *client)
{
	return polls_are_believed(client) && client->ops->busy &&
	       client->ops->busy(client->context);
}

/*
 * Whether the application polls: it did a moment ago, or is in a call. After PROGRESS_POLLS_APART
 * without either, polls are counted from zero again (polls_are_believed()); not sooner, or an
 * application whose calls take long would never have polled often enough.
 */
static bool polling(struct progress_client *client, uint64_t now)
{
	if (polled(client, now, PROGRESS_POLL_STOPPED) || in_call(client))
		return true;
	if ((int64_t)(now - atomic_load(&client->last_poll)) > PROGRESS_POLLS_APART)
		atomic_store(&client->polls, 0);
	return false;
}

/* --- states --------------------------------------------------------------------------------- */

static void stop_watching(struct progress_client *client, uint64_t now)
{
	client->left_at = now;
	client->watched = false;
	atomic_store(&client->planned, 0);
	atomic_store(&client->app_polling, true);
}

void progress_resume_watching(struct progress_client *client)
{
	atomic_store(&client->app_polling, false);
	client->watched = true;
	client->idle_polls = 0;
	client->ready = true;
}

static bool spinning(const struct progress_client *client, uint64_t now)
{
	return now < client->spin_until && now >= client->progress->cpu_contended_until &&
	       !progress_is_neglected(client, now); /* it may be what takes the application's CPU */
}

/* --- plans --------------------------------------------------------------------------------- */

bool progress_plan_earlier(struct progress_client *client, uint64_t time)
{
	/*
	 * An addition of nothing instead of a load, as the other half of plan(): either this sees
	 * the TIME_NEVER stored there, or deadline(), called after that, sees what the caller
	 * stored before this.
	 */
	uint64_t planned = atomic_fetch_add(&client->planned, 0);

	while (time < planned)
		if (atomic_compare_exchange_weak(&client->planned, &planned, time))
			return true;
	return false;
}

/* Plan the next progress() of a client that won't spin any more. Returns when. */
static uint64_t plan(struct progress_client *client, uint64_t now, bool done)
{
	uint64_t deadline;

	/*
	 * A thread that brings up a deadline which deadline() doesn't see yet must wake this one.
	 */
	atomic_exchange(&client->planned, TIME_NEVER);
	deadline = client->ops->deadline ? client->ops->deadline(client->context) : TIME_NEVER;
	if (!done && deadline <= now)
		deadline = now + PROGRESS_RETRY;
	progress_plan_earlier(client, deadline);
	return deadline;
}

/* --- making progress ------------------------------------------------------------------------- */

/* What has been found at @now waited for the thread, and not for an application that polls. */
static bool was_neglected(struct progress_client *client, uint64_t now)
{
	int64_t since = now - atomic_load(&client->last_poll);

	return atomic_exchange(&client->app_waits, false)
		       ? since > PROGRESS_POLL_STOPPED
		       : client->resumed && since > PROGRESS_NEGLECT;
}

static void make_progress(struct progress_client *client, uint64_t now)
{
	struct progress *progress = client->progress;
	bool was_ready = client->ready, done;
	/* By a descriptor, or by a thread that has received what made it readable. */
	bool was_told = was_ready || (!spinning(client, now) && atomic_load(&client->planned) == 0);

	client->ready = false;
	client->running = true;
	atomic_store(&client->planned, 0);
	pthread_mutex_unlock(&progress->lock);

	done = client->ops->progress(client->context, now);
	/* A deadline alone doesn't promise more work. */
	if (done && now >= progress->cpu_contended_until && (was_ready || spinning(client, now)))
		client->spin_until = now + progress->spin;
	if (!spinning(client, now))
		plan(client, now, done);

	pthread_mutex_lock(&progress->lock);
	client->running = false;
	client->idle_polls = was_told && !done ? client->idle_polls + 1 : 0;
	if (done && was_neglected(client, now))
		atomic_store(&client->neglected_until, now + PROGRESS_NEGLECT_FOR);
	client->resumed = false;
	if (client->leaving)
		pthread_cond_broadcast(&progress->unpinned);
}

/* --- serving --------------------------------------------------------------------------------- */

/* Leave the client to its application. Returns whether it is left. */
static bool leave_alone(struct progress_client *client, uint64_t now)
{
	stop_watching(client, now);
	if (polling(client, now)) {
		atomic_store(&client->app_waits, false);
		return true;
	}
	progress_resume_watching(client); /* progress_app_sleeping() came in between */
	return false;
}

/*
 * How soon to look again whether the application still polls. One that is known to wait without
 * polling says so.
 */
static uint64_t tick(const struct progress_client *client, uint64_t now)
{
	uint64_t share = (now - client->left_at) / PROGRESS_TICK_SHARE;

	if (progress_is_neglected(client, now) || share > PROGRESS_TICK_MOST)
		return PROGRESS_TICK_MOST;
	return share > PROGRESS_TICK ? share : PROGRESS_TICK;
}

/* Do what there is to do for @client. Returns when to look at it again. */
static uint64_t serve(struct progress_client *client, uint64_t now)
{
	bool was_ready;

	if (client->leaving)
		return TIME_NEVER;
	if (spinning(client, now) && polled(client, now, PROGRESS_POLL_GAP))
		return now;
	if (atomic_load(&client->app_polling)) {
		if (now < client->unwatched_until)
			return client->unwatched_until;
		if (polling(client, now))
			return now + tick(client, now);
		progress_resume_watching(client);
		client->resumed = true;
	}
	if (!spinning(client, now)) {
		if (!client->ready && atomic_load(&client->planned) > now)
			return atomic_load(&client->planned);
		/* What is there may have come just after the last poll. */
		was_ready = client->ready;
		if (polling(client, now) && leave_alone(client, now))
			return now + (was_ready ? PROGRESS_POLL_STOPPED : PROGRESS_TICK);
	}
	make_progress(client, now);
	if (client->idle_polls >= PROGRESS_IDLE_POLLS && !client->leaving) {
		stop_watching(client, now);
		client->unwatched_until =
			now +
			(progress_is_neglected(client, now) ? PROGRESS_UNWATCHED : PROGRESS_TICK);
		return client->unwatched_until;
	}
	return atomic_load(&client->planned);
}

uint64_t progress_serve_once(struct progress *progress)
{
	struct progress_client *client;
	uint64_t next = TIME_NEVER;

	DL_FOREACH (progress->clients, client) {
		uint64_t time = serve(client, clock_now());

		next = time < next ? time : next;
	}
	return next;
}

/*
 * Another thread may want the lock, or the CPU. A thread that gets the CPU of one that
 * yields keeps it for milliseconds, while a thread that sleeps gets it back as soon as
 * there is work: so when a yield took long, the clients stop spinning.
 */
static void pause_briefly(struct progress *progress, uint64_t now)
{
	uint64_t again;

	pthread_mutex_unlock(&progress->lock);
	sched_yield();
	again = clock_now();
	pthread_mutex_lock(&progress->lock);
	if (again - now > PROGRESS_YIELD_LOST)
		progress->cpu_contended_until = again + PROGRESS_CPU_CONTENDED;
}

uint64_t progress_serve(struct progress *progress)
{
	uint64_t next, now, end = clock_now() + PROGRESS_SLICE;

	for (;;) {
		next = progress_serve_once(progress);
		now = clock_now();
		if (next > now || now > end || progress->stopping)
			return next;
		pause_briefly(progress, now);
	}
}
