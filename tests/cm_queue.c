/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/cm_queue.h"

#include <stdlib.h>
#include <utlist.h>

#include "tests/must.h"

struct cm_queued {
	struct cm_queued *prev, *next; /* utlist */
	struct cm_event event;
};

/* On the stack of cm_queue_destroy_id(). */
struct cm_departing {
	struct cm_departing *prev, *next; /* utlist */
	const struct cm_id *id;
};

void cm_queue_init(struct cm_queue *queue, void (*handle)(void *context, struct cm_event *event),
		   void *context)
{
	*queue = (struct cm_queue){.handle = handle, .context = context};
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->delivered, NULL);
}

void cm_queue_destroy(struct cm_queue *queue)
{
	struct cm_queued *queued, *next;

	DL_FOREACH_SAFE (queue->events, queued, next)
		free(queued);
	pthread_cond_destroy(&queue->delivered);
	pthread_mutex_destroy(&queue->lock);
}

static bool is_about(const struct cm_event *event, const struct cm_id *id)
{
	return event->id == id || event->listener == id;
}

/* --- the sink, with cm.lock held ---------------------------------------------------- */

static bool append(struct cm_queue *queue, const struct cm_event *event)
{
	struct cm_queued *queued = calloc(1, sizeof(*queued));
	struct cm_departing *departing;
	bool departs = false;

	must(queued);
	queued->event = *event;
	pthread_mutex_lock(&queue->lock);
	DL_FOREACH (queue->departing, departing)
		departs |= is_about(event, departing->id);
	if (!departs)
		DL_APPEND(queue->events, queued);
	pthread_mutex_unlock(&queue->lock);
	if (departs)
		free(queued);
	return !departs;
}

static void on_event(void *context, const struct cm_event *event)
{
	append(context, event);
}

static enum cm_verdict on_request(void *context, const struct cm_event *event)
{
	return append(context, event) ? CM_REQUEST_TAKEN : CM_REQUEST_REFUSED;
}

struct cm_sink cm_queue_sink(struct cm_queue *queue)
{
	return (struct cm_sink){.event = on_event, .request = on_request, .context = queue};
}

/* --- delivering --------------------------------------------------------------------- */

static void deliver(struct cm_queue *queue, struct cm_queued *queued)
{
	DL_DELETE(queue->events, queued);
	queue->delivering = queued;
	queue->deliverer = pthread_self();
	pthread_mutex_unlock(&queue->lock);
	queue->handle(queue->context, &queued->event);
	pthread_mutex_lock(&queue->lock);
	queue->delivering = NULL;
	free(queued);
	pthread_cond_broadcast(&queue->delivered);
}

void cm_queue_deliver(struct cm_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->events && !queue->delivering)
		deliver(queue, queue->events);
	pthread_mutex_unlock(&queue->lock);
}

/* --- destroying an id ----------------------------------------------------------------- */

static bool is_handled_elsewhere(const struct cm_queue *queue, const struct cm_id *id)
{
	return queue->delivering && is_about(&queue->delivering->event, id) &&
	       !pthread_equal(queue->deliverer, pthread_self());
}

/* The events about @id, which then wait for nothing. */
static struct cm_queued *withdraw(struct cm_queue *queue, const struct cm_id *id)
{
	struct cm_queued *queued, *next, *withdrawn = NULL;

	DL_FOREACH_SAFE (queue->events, queued, next) {
		if (!is_about(&queued->event, id))
			continue;
		DL_DELETE(queue->events, queued);
		DL_APPEND(withdrawn, queued);
	}
	return withdrawn;
}

void cm_queue_destroy_id(struct cm_queue *queue, struct cm_id *id, uint64_t now)
{
	struct cm_departing departing = {.id = id};
	struct cm_queued *withdrawn, *queued, *next;

	pthread_mutex_lock(&queue->lock);
	DL_APPEND(queue->departing, &departing);
	withdrawn = withdraw(queue, id);
	while (is_handled_elsewhere(queue, id))
		pthread_cond_wait(&queue->delivered, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
	DL_FOREACH_SAFE (withdrawn, queued, next) {
		if (queued->event.listener == id)
			cm_id_destroy(queued->event.id, now);
		free(queued);
	}
	cm_id_destroy(id, now);
	pthread_mutex_lock(&queue->lock);
	DL_DELETE(queue->departing, &departing);
	pthread_mutex_unlock(&queue->lock);
}
