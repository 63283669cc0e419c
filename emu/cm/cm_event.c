/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of the connection manager on their way to the sink: one thread at a
 * time delivers them, with no lock held, in the order in which they arose. A
 * thread that finds another one delivering leaves its events to it.
 */
#include <stdlib.h>
#include <utlist.h>

#include "emu/cm/cm_internal.h"
#include "emu/hca.h"

bool cm_raise(struct cm_id *id, enum cm_event_type type, const struct cm_message *message,
	      struct cm_id *listener)
{
	struct cm *cm = id->cm;
	struct cm_event *event;

	if (id->destroyed || !cm->sink.event)
		return false;
	event = calloc(1, sizeof(*event));
	if (!event)
		return false;
	event->type = type;
	event->state = id->state;
	event->id = id;
	event->listener = listener;
	event->path = id->path;
	if (message)
		event->message = *message;
	DL_APPEND(cm->events, event);
	atomic_store(&cm->pending, true);
	return true;
}

static bool is_about(const struct cm_event *event, const struct cm_id *id)
{
	return event->id == id || event->listener == id;
}

static bool is_elsewhere(const struct cm *cm, const struct cm_id *id)
{
	return cm->delivering && is_about(cm->delivering, id) &&
	       !pthread_equal(cm->deliverer, pthread_self());
}

static void drop_queued(struct cm_id *id, uint64_t now)
{
	struct cm_event *event, *next;
	struct cm *cm = id->cm;

	DL_FOREACH_SAFE (cm->events, event, next) {
		if (!is_about(event, id))
			continue;
		DL_DELETE(cm->events, event);
		if (event->id != id)
			cm_abandon(event->id, now);
		free(event);
	}
}

void cm_drop_events(struct cm_id *id, uint64_t now)
{
	drop_queued(id, now);
	while (is_elsewhere(id->cm, id))
		pthread_cond_wait(&id->cm->delivered, &id->cm->lock);
}

static void deliver(struct cm *cm, struct cm_event *event)
{
	DL_DELETE(cm->events, event);
	if (event->listener)
		event->listener_context = event->listener->context;
	cm->delivering = event;
	cm->deliverer = pthread_self();
	pthread_mutex_unlock(&cm->lock);
	cm->sink.event(cm->sink.context, event);
	pthread_mutex_lock(&cm->lock);
	/* The ids in it may be gone by now. */
	cm->delivering = NULL;
	free(event);
	pthread_cond_broadcast(&cm->delivered);
}

void cm_deliver(struct cm *cm)
{
	if (!atomic_load(&cm->pending))
		return;
	pthread_mutex_lock(&cm->lock);
	while (cm->events && !cm->delivering)
		deliver(cm, cm->events);
	atomic_store(&cm->pending, cm->events && !cm->delivering);
	pthread_mutex_unlock(&cm->lock);
}
