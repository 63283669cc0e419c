/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events from the core to its sink: emu/objects/event.h says under which locks they are
 * raised and delivered.
 */
#include "emu/objects/event.h"

#include <stdlib.h>
#include <utlist.h>

void event_queue_init(struct event_queue *queue, const struct event_sink *sink)
{
	*queue = (struct event_queue){.sink = *sink};
	for (unsigned int i = 0; i < EVENT_RESERVE; i++)
		queue->reserve[i].embedded = true;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->delivered, NULL);
}

/* Off the list. The caller still has what it says. */
static void event_take_out(struct event_queue *queue, struct event *event)
{
	DL_DELETE(queue->head, event);
	event->queued = false;
}

static void event_dispose(struct event *event)
{
	if (!event->embedded)
		free(event);
}

void event_queue_destroy(struct event_queue *queue)
{
	struct event *event, *next;

	DL_FOREACH_SAFE (queue->head, event, next) {
		event_take_out(queue, event);
		event_dispose(event);
	}
	pthread_cond_destroy(&queue->delivered);
	pthread_mutex_destroy(&queue->lock);
}

static void event_append(struct event_queue *queue, struct event *event)
{
	event->queued = true;
	DL_APPEND(queue->head, event);
	atomic_store(&queue->pending, true);
}

/* One that isn't queued or being delivered, or NULL. */
static struct event *event_of_reserve(struct event_queue *queue)
{
	for (unsigned int i = 0; i < EVENT_RESERVE; i++) {
		struct event *event = &queue->reserve[i];

		if (!event->queued && event != queue->delivering)
			return event;
	}
	return NULL;
}

void event_raise(struct event_queue *queue, enum ibv_event_type type, void *element)
{
	struct event *event = calloc(1, sizeof(*event));

	pthread_mutex_lock(&queue->lock);
	if (!event)
		event = event_of_reserve(queue);
	if (event) {
		event->type = type;
		event->element = element;
		event_append(queue, event);
	}
	pthread_mutex_unlock(&queue->lock);
}

void event_raise_completion(struct event_queue *queue, struct event *event)
{
	pthread_mutex_lock(&queue->lock);
	if (!event->queued)
		event_append(queue, event);
	pthread_mutex_unlock(&queue->lock);
}

static void event_call_sink(const struct event_sink *sink, int type, void *element)
{
	if (type == EVENT_COMPLETION) {
		if (sink->completion)
			sink->completion(sink->context, element);
	} else if (sink->async) {
		sink->async(sink->context, type, element);
	}
}

void event_deliver(struct event_queue *queue)
{
	struct event *event;

	if (!atomic_load(&queue->pending))
		return;
	pthread_mutex_lock(&queue->lock);
	/* The delivering thread goes on until the list is empty, with this thread's events too. */
	if (queue->delivering) {
		pthread_mutex_unlock(&queue->lock);
		return;
	}
	while (!atomic_load(&queue->corked) && (event = queue->head)) {
		int type = event->type;
		void *element = event->element;

		event_take_out(queue, event);
		queue->delivering = event;
		pthread_mutex_unlock(&queue->lock);
		event_call_sink(&queue->sink, type, element);
		pthread_mutex_lock(&queue->lock);
		queue->delivering = NULL;
		event_dispose(event);
		pthread_cond_broadcast(&queue->delivered);
	}
	if (!queue->head)
		atomic_store(&queue->pending, false);
	pthread_mutex_unlock(&queue->lock);
}

/* Relaxed: a thread that finds, under the lock, an event raised after this finds this too. */
void event_cork(struct event_queue *queue)
{
	atomic_store_explicit(&queue->corked, true, memory_order_relaxed);
}

/*
 * event_deliver() comes next and looks for events; a thread that raises one looks whether
 * they are corked: at least one of the two sees what the other has done.
 */
void event_uncork(struct event_queue *queue)
{
	if (atomic_load_explicit(&queue->corked, memory_order_relaxed))
		atomic_store(&queue->corked, false);
}

void event_drop(struct event_queue *queue, const void *element)
{
	struct event *event, *next;

	pthread_mutex_lock(&queue->lock);
	DL_FOREACH_SAFE (queue->head, event, next) {
		if (event->element != element)
			continue;
		event_take_out(queue, event);
		event_dispose(event);
	}
	while (queue->delivering && queue->delivering->element == element)
		pthread_cond_wait(&queue->delivered, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
}
