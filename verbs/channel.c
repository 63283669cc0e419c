/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels. Their references are counted under the mutex of the
 * context, as the real library does; their events have a lock of their own.
 *
 * A thread that waits for an event in ibv_get_cq_event() makes progress itself for a while, if the
 * channel's last wait took no longer: to be woken by the progress thread costs more than what it
 * waits for. It does so only as long as it is the device's only thread that waits; where there are
 * more, the progress thread receives for all of them.
 *
 * A thread that finds nothing, and whose descriptor doesn't block, makes progress once: an
 * application that asks again and again polls, and the progress thread waits for its CPU.
 */
#include "verbs/channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/capacity.h"
#include "net/clock.h"
#include "net/quarantine.h"
#include "net/tuning.h"
#include "verbs/check/check.h"
#include "verbs/check/work.h"
#include "verbs/context.h"

struct channel {
	struct ibv_comp_channel ibv;
	struct channel *prev, *next; /* utlist: of the device's, under its contexts_lock */
	struct event_fd events;
	_Atomic bool polled;	    /* the last wait was short, and the next one is polled for */
	_Atomic unsigned int found; /* events in a row that were there when they were asked for */
};

static struct channel *to_channel(struct ibv_comp_channel *channel)
{
	return (struct channel *)channel;
}

struct event_fd *channel_events(struct ibv_comp_channel *channel)
{
	return &to_channel(channel)->events;
}

static int channel_wait(struct readable *readable)
{
	struct channel *channel =
		(struct channel *)((char *)readable - offsetof(struct channel, events.readable));

	return work_wait(&channel->ibv, &readable->look);
}

struct ibv_comp_channel *urxe_create_comp_channel(struct ibv_context *context)
{
	struct device *device = to_context(context)->device;
	int error = capacity_alive(to_hca(context), "ibv_create_comp_channel()");
	struct channel *channel;

	if (error)
		return fail(error);
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a completion channel"));
	error = event_fd_open(&channel->events);
	if (error) {
		free(channel);
		return fail(refuse_system_error(error, "ibv_create_comp_channel()"));
	}
	if (check_is_on())
		channel->events.readable.wait = channel_wait;
	channel->ibv.context = context;
	channel->ibv.fd = channel->events.readable.fd;
	pthread_mutex_lock(&device->contexts_lock);
	DL_APPEND(device->channels, channel);
	pthread_mutex_unlock(&device->contexts_lock);
	context_get(context);
	return &channel->ibv;
}

int urxe_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct ibv_context *context = channel->context;
	struct device *device = to_context(context)->device;
	int references;

	pthread_mutex_lock(&context->mutex);
	references = channel->refcnt;
	pthread_mutex_unlock(&context->mutex);
	if (references)
		return refuse(EBUSY, CAUSE_OBJECT_IN_USE,
			      "ibv_destroy_comp_channel(): in use by %d completion queue%s",
			      references, references > 1 ? "s" : "");
	pthread_mutex_lock(&device->contexts_lock);
	DL_DELETE(device->channels, to_channel(channel));
	pthread_mutex_unlock(&device->contexts_lock);
	event_fd_close(channel_events(channel));
	if (event_fd_destroy(channel_events(channel)))
		quarantine_free(channel, sizeof(struct channel));
	context_put(context);
	return 0;
}

void channel_end_all(struct device *device)
{
	struct channel *channel;

	pthread_mutex_lock(&device->contexts_lock);
	DL_FOREACH (device->channels, channel)
		event_fd_end(&channel->events);
	pthread_mutex_unlock(&device->contexts_lock);
}

static void count_taken(const struct event_record *record)
{
	struct cq *cq = record->element;

	((struct cq_extra *)cq->verbs)->completion_events++;
}

/* --- waiting --------------------------------------------------------------------------- */

bool channel_is_polled(struct ibv_comp_channel *ibv)
{
	struct channel *channel = to_channel(ibv);

	return atomic_load_explicit(&channel->polled, memory_order_relaxed) &&
	       atomic_load_explicit(&channel->found, memory_order_relaxed) < EVENTS_FOUND &&
	       atomic_load(&to_context(ibv->context)->device->waiting) == 0;
}

/* Whether no other thread of the device waits, and no event has come yet. */
static bool waits_alone(const void *context)
{
	const struct channel *channel = context;

	return !event_fd_any(&channel->events) &&
	       atomic_load(&to_context(channel->ibv.context)->device->waiting) == 1;
}

/* Returns whether there was one. */
static bool poll_and_take(struct channel *channel, struct device *device,
			  struct event_record *record)
{
	bool taken;

	if (!channel->polled || !device->client)
		return event_fd_take(&channel->events, count_taken, record);
	event_fd_look(&channel->events, true);
	device_poll_while(device, waits_alone, channel, EVENT_POLL);
	taken = event_fd_take(&channel->events, count_taken, record);
	event_fd_look(&channel->events, false);
	return taken;
}

static void stop_waiting(void *device)
{
	atomic_fetch_sub(&((struct device *)device)->waiting, 1);
}

/* Returns 0, or -1 with errno as readable_wait(). */
static int wait_and_take(struct channel *channel, struct device *device,
			 struct event_record *record)
{
	while (!poll_and_take(channel, device, record)) {
		if (event_fd_has_ended(&channel->events))
			return -1;
		if (device->client)
			progress_app_sleeping(device->client);
		if (readable_wait(&channel->events.readable) != 0)
			return -1;
	}
	return 0;
}

static int wait_for_event(struct channel *channel, struct event_record *record)
{
	struct device *device = to_context(channel->ibv.context)->device;
	uint64_t begin = clock_now();
	int result;

	atomic_fetch_add(&device->waiting, 1);
	pthread_cleanup_push(stop_waiting, device);
	result = wait_and_take(channel, device, record);
	pthread_cleanup_pop(1);
	channel->polled = result == 0 && clock_now() - begin < EVENT_POLL && device->client &&
			  progress_may_spin(device->client);
	return result;
}

/* One poll is for all of the channels that the application asks in turn. Returns as that call. */
static int look_and_take(struct channel *channel, struct event_record *record)
{
	struct progress_client *client = to_context(channel->ibv.context)->device->client;
	uint64_t now = clock_now();

	if (client && !progress_polled_since(client, now - EVENT_LOOK))
		progress_poll(client, now, NULL);
	if (event_fd_take(&channel->events, count_taken, record))
		return 0;
	errno = EAGAIN;
	return -1;
}

int urxe_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct channel *channel = to_channel(ibv);
	struct event_record record;

	if (event_fd_take(&channel->events, count_taken, &record)) {
		channel->found++;
	} else {
		channel->found = 0;
		if (wait_for_event(channel, &record) != 0 &&
		    (errno != EAGAIN || look_and_take(channel, &record) != 0))
			return -1;
	}
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
