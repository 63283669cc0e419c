/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for completion events that don't come. A thread is looked at when it has
 * waited for a second: another one may have been about to arm the queue, or to poll it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/objects/cq.h"
#include "verbs/check/report.h"
#include "verbs/check/work.h"

static struct {
	pthread_mutex_t lock; /* outside of the core's */
	struct work_cq *list;
} cqs = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
	struct cq *first; /* of them */
	struct cq *lost;  /* armed for any completion, behind those that it has */
	uint32_t entries; /* of that one */
};

/* With cqs.lock. */
static void look_at(struct cq *cq, struct waited_for *found)
{
	pthread_mutex_lock(&cq->lock);
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
	pthread_mutex_unlock(&cq->lock);
}

void work_waits(struct ibv_comp_channel *channel)
{
	struct waited_for found = {};
	struct work_cq *of;

	pthread_mutex_lock(&cqs.lock);
	DL_FOREACH (cqs.list, of) {
		if (of->cq->ibv.channel == channel)
			look_at(of->cq, &found);
	}
	if (found.lost)
		check_report(CAUSE_WAKE_UP_LOST, CHECK_PLACES({"created", found.lost->origin}),
			     "ibv_get_cq_event() has waited for a second: a completion queue of "
			     "the channel holds %u completions that came before it was armed",
			     found.entries);
	else if (found.queues && !found.armed)
		check_report(CAUSE_WAITS_UNARMED, CHECK_PLACES({"created", found.first->origin}),
			     "ibv_get_cq_event() has waited for a second: of %u completion queues "
			     "of the channel none is armed",
			     found.queues);
	pthread_mutex_unlock(&cqs.lock);
}

void work_events_before_fork(void)
{
	pthread_mutex_lock(&cqs.lock);
}

void work_events_after_fork(void)
{
	pthread_mutex_unlock(&cqs.lock);
}

void work_events_after_fork_child(void)
{
	cqs.list = NULL;
	pthread_mutex_unlock(&cqs.lock);
}
