/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels. Their references are counted under the mutex of the
 * context, as the real library does; their events have a lock of their own.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "net/quarantine.h"
#include "verbs/check/check.h"
#include "verbs/check/work.h"
#include "verbs/context.h"

struct channel {
	struct ibv_comp_channel ibv;
	struct event_fd events;
};

struct event_fd *channel_events(struct ibv_comp_channel *channel)
{
	return &((struct channel *)channel)->events;
}

static int channel_wait(struct readable *readable)
{
	struct channel *channel =
		(struct channel *)((char *)readable - offsetof(struct channel, events.readable));

	return work_wait(&channel->ibv, &readable->look);
}

struct ibv_comp_channel *urxe_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (!channel)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a completion channel"));
	error = event_fd_open(&channel->events);
	if (error) {
		free(channel);
		return fail(refuse_descriptor(error, "ibv_create_comp_channel()"));
	}
	if (check_is_on())
		channel->events.readable.wait = channel_wait;
	channel->ibv.context = context;
	channel->ibv.fd = channel->events.readable.fd;
	context_get(context);
	return &channel->ibv;
}

int urxe_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct ibv_context *context = channel->context;
	int references;

	pthread_mutex_lock(&context->mutex);
	references = channel->refcnt;
	pthread_mutex_unlock(&context->mutex);
	if (references)
		return refuse(EBUSY, CAUSE_OBJECT_IN_USE,
			      "ibv_destroy_comp_channel(): in use by %d completion queue%s",
			      references, references > 1 ? "s" : "");
	event_fd_close(channel_events(channel));
	event_fd_destroy(channel_events(channel));
	quarantine_free(channel, sizeof(struct channel));
	context_put(context);
	return 0;
}

static void count_taken(const struct event_record *record)
{
	struct cq *cq = record->element;

	((struct cq_extra *)cq->verbs)->completion_events++;
}

int urxe_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct event_record record;

	if (event_fd_pop(channel_events(channel), count_taken, &record))
		return -1;
	*cq = record.element;
	*cq_context = (*cq)->cq_context;
	return 0;
}

/* Public members only: the same for our CQs and the real library's. */
void urxe_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	if (count == 0)
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
