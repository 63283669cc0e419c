/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for completion events that don't come. A thread is looked at each second: of
 * several that wait for one channel another one may handle an event, and is yet to poll the queue
 * or to arm it. So what is found is reported when the program has done neither for a second more.
 * The checker's own thread looks, for a wait with a time isn't restarted behind a signal's handler.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "emu/objects/cq.h"
#include "net/cause/origin.h"
#include "net/clock.h"
#include "net/spin.h"
#include "verbs/check/report.h"
#include "verbs/check/work.h"
#include "verbs/thread.h"

#define LOOK_AFTER NS_PER_S

static struct {
	pthread_mutex_t lock; /* outside of the core's */
	struct work_cq *list;
} cqs = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A thread that waits. */
struct waiter {
	struct waiter *prev, *next; /* utlist, by the next look */
	struct ibv_comp_channel *channel;
	pid_t thread;
	struct origin *called;
	uint64_t until;	   /* clock_now(), when it is looked at */
	enum cause found;  /* by the last look, or CAUSE_NONE */
	uint64_t activity; /* at that time */
	bool told;
};

static struct {
	pthread_mutex_t lock; /* outside of cqs.lock */
	pthread_cond_t more;
	struct waiter *list;
	bool has_thread;
} waiters = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

void work_cq_created(struct cq *cq)
{
	struct work_cq *of = calloc(1, sizeof(*of));

	if (!of)
		return;
	of->cq = cq;
	cq->watched = of;
	pthread_mutex_lock(&cqs.lock);
	DL_APPEND(cqs.list, of);
	pthread_mutex_unlock(&cqs.lock);
}

void work_event_taken(struct cq *cq)
{
	struct work_cq *of = cq->watched;

	work_lock();
	if (of)
		of->taker = gettid();
	work_unlock();
}

void work_cq_destroyed(struct cq *cq)
{
	struct work_cq *of = cq->watched;

	if (!of)
		return;
	pthread_mutex_lock(&cqs.lock);
	DL_DELETE(cqs.list, of);
	pthread_mutex_unlock(&cqs.lock);
	cq->watched = NULL;
	free(of);
}

/* What the channel's queues are in. */
struct waited_for {
	unsigned int queues, armed;
	bool handled;	   /* a thread that doesn't wait has an event of one, and may yet arm it */
	bool busy;	   /* there is work that completes to them, or has */
	uint64_t activity; /* how often they were polled and armed */
	struct cq *first;  /* of them */
	struct cq *lost;   /* armed for any completion, behind those that it has */
	uint32_t entries;  /* of that one */
};

static bool is_alive(pid_t thread)
{
	return tgkill(getpid(), thread, 0) == 0;
}

/* With waiters.lock. */
static bool waits(pid_t thread)
{
	const struct waiter *waiter;

	DL_FOREACH (waiters.list, waiter) {
		if (waiter->thread == thread)
			return true;
	}
	return false;
}

/* With waiters.lock and cqs.lock. */
static void look_at(const struct work_cq *of, struct waited_for *found)
{
	struct cq *cq = of->cq;

	spin_lock(&cq->lock);
	found->queues++;
	found->armed += cq->armed != CQ_IDLE;
	if (!found->first)
		found->first = cq;
	/* The event of a moderated queue comes later, and what is withheld, too. */
	if (!found->lost && cq->armed == CQ_ARMED_NEXT && cq->count && !cq->moderation.waiting &&
	    !cq->withheld) {
		found->lost = cq;
		found->entries = cq->count;
	}
	work_lock();
	found->busy |= cq->count || of->sends || of->receives;
	found->activity += of->polls + of->arms;
	found->handled |= of->taker && is_alive(of->taker) && !waits(of->taker);
	work_unlock();
	pthread_spin_unlock(&cq->lock);
}

static enum cause judge(const struct waited_for *found)
{
	if (found->lost)
		return CAUSE_WAKE_UP_LOST;
	return found->queues && !found->armed && !found->handled && found->busy
		       ? CAUSE_WAITS_UNARMED
		       : CAUSE_NONE;
}

/* With cqs.lock. */
static void report_waiter(const struct waiter *waiter, const struct waited_for *found)
{
	if (waiter->found == CAUSE_WAKE_UP_LOST)
		check_report_places(
			CAUSE_WAKE_UP_LOST,
			CHECK_PLACES({"waits", waiter->called}, {"created", found->lost->origin}),
			1,
			"ibv_get_cq_event() has waited for seconds: a completion queue of the "
			"channel holds %u completions that came before it was armed",
			found->entries);
	else
		check_report_places(
			CAUSE_WAITS_UNARMED,
			CHECK_PLACES({"waits", waiter->called}, {"created", found->first->origin}),
			1,
			"ibv_get_cq_event() has waited for seconds: of %u completion queues of "
			"the channel none is armed",
			found->queues);
}

/* With waiters.lock. */
static void look_at_waiter(struct waiter *waiter)
{
	enum cause before = waiter->found;
	struct waited_for found = {};
	struct work_cq *of;

	pthread_mutex_lock(&cqs.lock);
	DL_FOREACH (cqs.list, of) {
		if (of->cq->ibv.channel == waiter->channel)
			look_at(of, &found);
	}
	waiter->found = judge(&found);
	waiter->told =
		waiter->found && waiter->found == before && waiter->activity == found.activity;
	waiter->activity = found.activity;
	if (waiter->told)
		report_waiter(waiter, &found);
	pthread_mutex_unlock(&cqs.lock);
}

/* With waiters.lock: the first to be looked at. */
static struct waiter *next_waiter(void)
{
	struct waiter *waiter;

	DL_FOREACH (waiters.list, waiter) {
		if (!waiter->told)
			return waiter;
	}
	return NULL;
}

/* With waiters.lock. */
static void add_waiter(struct waiter *waiter)
{
	waiter->until = clock_now() + LOOK_AFTER;
	DL_APPEND(waiters.list, waiter);
}

/* The checker's thread: it ends with the process. */
static void *watch_waiters(void *unused)
{
	pthread_mutex_lock(&waiters.lock);
	for (;;) {
		struct waiter *waiter = next_waiter();
		struct timespec until;

		if (!waiter) {
			pthread_cond_wait(&waiters.more, &waiters.lock);
		} else if (clock_now() < waiter->until) {
			until = clock_timespec(waiter->until);
			pthread_cond_clockwait(&waiters.more, &waiters.lock, CLOCK_MONOTONIC,
					       &until);
		} else {
			look_at_waiter(waiter);
			DL_DELETE(waiters.list, waiter);
			add_waiter(waiter);
		}
	}
	return NULL;
}

/* With waiters.lock; without a thread nothing is found. */
static void start_watching(void)
{
	waiters.has_thread = thread_start(NULL, watch_waiters, NULL) == 0;
}

static void end_waiting(void *argument)
{
	struct waiter *waiter = argument;

	pthread_mutex_lock(&waiters.lock);
	DL_DELETE(waiters.list, waiter);
	pthread_mutex_unlock(&waiters.lock);
	origin_free(waiter->called);
}

int work_wait(struct ibv_comp_channel *channel, sem_t *look)
{
	struct waiter waiter = {.channel = channel, .thread = gettid(), .called = origin_capture()};
	int result;

	pthread_mutex_lock(&waiters.lock);
	if (!waiters.has_thread)
		start_watching();
	add_waiter(&waiter);
	pthread_cond_signal(&waiters.more);
	pthread_mutex_unlock(&waiters.lock);
	pthread_cleanup_push(end_waiting, &waiter);
	result = sem_wait(look);
	pthread_cleanup_pop(1);
	return result;
}

void work_events_before_fork(void)
{
	pthread_mutex_lock(&waiters.lock);
	pthread_mutex_lock(&cqs.lock);
}

void work_events_after_fork(void)
{
	pthread_mutex_unlock(&cqs.lock);
	pthread_mutex_unlock(&waiters.lock);
}

/* No thread waits in the child, and none watches. */
void work_events_after_fork_child(void)
{
	cqs.list = NULL;
	waiters.list = NULL;
	waiters.has_thread = false;
	pthread_cond_init(&waiters.more, NULL);
	work_events_after_fork();
}
