/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: events on their way from the connection manager (and from
 * calls that answer by an event) to rdma_get_cm_event(). Taking an event may
 * mean work: a REP has the QP moved and the RTU sent by whoever takes it, as
 * librdmacm does, so that a channel nobody reads connects nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "net/log.h"
#include "verbs/event_fd.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

#define CLOSED (-1)	       /* the descriptor of a destroyed channel */
#define CLOSED_WAIT_US 1000000 /* how long waiting for one takes to fail */
#define DEFERRED_FREE_MAX 64   /* destroyed channels whose memory stays */

static pthread_cond_t acked = PTHREAD_COND_INITIALIZER;

/*
 * Programs destroy a channel while a thread of theirs is about to wait for it,
 * and end, as rping does: that thread must find something. rdma.lock protects it.
 */
static struct rdma_channel *deferred_free;
static unsigned int deferred_count;

/* --- channels -------------------------------------------------------------------- */

struct rdma_channel *rdma_channel_new(void)
{
	struct rdma_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->ibv.fd = readable_open();
	if (channel->ibv.fd < 0) {
		int error = errno;

		free(channel);
		errno = error;
		return NULL;
	}
	return channel;
}

void rdma_channel_free(struct rdma_channel *channel)
{
	struct rdma_record *record, *next;

	DL_FOREACH_SAFE (channel->head, record, next)
		free(record);
	close(channel->ibv.fd);
	free(channel);
}

struct rdma_event_channel *urxe_rdma_create_event_channel(void)
{
	struct rdma_channel *channel;
	struct device *devices;

	if (registry_devices(&devices) == 0) {
		errno = ENODEV;
		return NULL;
	}
	channel = rdma_channel_new();
	return channel ? &channel->ibv : NULL;
}

static void defer_free(struct rdma_channel *channel)
{
	struct rdma_channel *oldest = NULL;
	int fd = channel->ibv.fd;

	rdma_enter();
	channel->ibv.fd = CLOSED;
	close(fd);
	DL_APPEND(deferred_free, channel);
	if (++deferred_count > DEFERRED_FREE_MAX) {
		oldest = deferred_free;
		DL_DELETE(deferred_free, oldest);
		deferred_count--;
	}
	rdma_leave();
	free(oldest);
}

/*
 * Its ids should be gone by now (rdma_destroy_event_channel(3)). One that isn't
 * has no channel any more: its events are lost, and so are requests that wait.
 */
void urxe_rdma_destroy_event_channel(struct rdma_event_channel *ibv)
{
	struct rdma_channel *channel = (struct rdma_channel *)ibv;
	struct rdma_record *record, *next, *left;

	rdma_enter();
	left = channel->head;
	channel->head = NULL;
	for (struct rdma_id *id = rdma_ids(); id; id = id->next) {
		if (id->channel == channel)
			id->channel = NULL;
	}
	rdma_leave();
	defer_free(channel);
	DL_FOREACH_SAFE (left, record, next) {
		if (record->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			urxe_rdma_destroy_id(record->event.id);
		free(record);
	}
}

/* --- events, with rdma.lock held --------------------------------------------------- */

static void channel_append(struct rdma_channel *channel, struct rdma_record *record)
{
	bool first = !channel->head;

	DL_APPEND(channel->head, record);
	if (first)
		readable_set(channel->ibv.fd);
}

static void channel_take_off(struct rdma_channel *channel, struct rdma_record *record)
{
	DL_DELETE(channel->head, record);
	if (!channel->head)
		readable_clear(channel->ibv.fd);
}

struct rdma_record *rdma_event(struct rdma_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_record *record;

	if (!id->channel)
		return NULL;
	record = calloc(1, sizeof(*record));
	if (!record) {
		log_error("out of memory: an event is lost");
		return NULL;
	}
	record->event.id = &id->ibv;
	record->event.event = type;
	record->event.status = status;
	record->id = id;
	channel_append(id->channel, record);
	return record;
}

void rdma_record_private(struct rdma_record *record, const uint8_t *data, uint8_t length)
{
	memcpy(record->private_data, data, length);
	if (record->id->ibv.qp_type == IBV_QPT_UD) {
		record->event.param.ud.private_data = record->private_data;
		record->event.param.ud.private_data_len = length;
	} else {
		record->event.param.conn.private_data = record->private_data;
		record->event.param.conn.private_data_len = length;
	}
}

struct rdma_record *rdma_channel_withdraw(struct rdma_id *id)
{
	struct rdma_record *record, *next, *withdrawn = NULL;

	if (!id->channel)
		return NULL;
	DL_FOREACH_SAFE (id->channel->head, record, next) {
		if (record->id != id)
			continue;
		channel_take_off(id->channel, record);
		DL_APPEND(withdrawn, record);
	}
	return withdrawn;
}

void rdma_channel_restore(struct rdma_id *id, struct rdma_record *records)
{
	struct rdma_record *record, *next;

	DL_FOREACH_SAFE (records, record, next)
		channel_append(id->channel, record);
}

void rdma_drain_events(struct rdma_id *id)
{
	while (id->events_acked != id->events_taken)
		rdma_wait(&acked);
}

void rdma_drain_membership_events(struct multicast_membership *membership)
{
	while (membership->events_acked != membership->events_taken)
		rdma_wait(&acked);
}

/* --- taking them ------------------------------------------------------------------- */

/* The oldest event, or NULL when there is none. */
static struct rdma_record *channel_take(struct rdma_channel *channel)
{
	struct rdma_record *record;

	rdma_enter();
	record = channel->head;
	if (record) {
		channel_take_off(channel, record);
		record->id->events_taken++;
		if (record->multicast)
			record->multicast->events_taken++;
		if (record->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			record->id->pending--;
	}
	rdma_leave();
	return record;
}

static void complete_connect(struct rdma_record *record)
{
	int error;

	if (!record->id->ibv.qp)
		return; /* the application's to complete: rdma_establish(3) */
	error = rdma_complete_connect(record->id);
	record->event.status = -error;
	record->event.event = error ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	record->id->connect_error = error;
}

/* What librdmacm does when it reads an event. Returns false for one that the application isn't
 * told. */
static bool on_get_event(struct rdma_record *record)
{
	switch (record->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!record->id->synchronous || urxe_rdma_migrate_id(record->event.id, NULL) == 0)
			return true;
		urxe_rdma_destroy_id(record->event.id);
		return false;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		complete_connect(record);
		return true;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		rdma_multicast_attach(record);
		return true;
	case RDMA_CM_EVENT_REJECTED:
		if (record->id->connect_error)
			return false;
		rdma_qp_error(record->id);
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
		return !record->id->connect_error;
	default:
		return true;
	}
}

int urxe_rdma_get_cm_event(struct rdma_event_channel *ibv, struct rdma_cm_event **event)
{
	struct rdma_channel *channel = (struct rdma_channel *)ibv;
	struct rdma_record *record;

	if (!event)
		return rdma_fail(EINVAL);
	for (;;) {
		record = channel_take(channel);
		if (record && on_get_event(record))
			break;
		if (record) {
			urxe_rdma_ack_cm_event(&record->event);
			continue;
		}
		if (channel->ibv.fd == CLOSED) {
			usleep(CLOSED_WAIT_US);
			return rdma_fail(EBADF);
		}
		rdma_devices_app_sleeping();
		if (readable_wait(channel->ibv.fd) < 0 && channel->ibv.fd != CLOSED)
			return -1;
	}
	*event = &record->event;
	return 0;
}

int urxe_rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct rdma_record *record = (struct rdma_record *)event;

	if (!event)
		return rdma_fail(EINVAL);
	rdma_enter();
	record->id->events_acked++;
	if (record->multicast)
		record->multicast->events_acked++;
	pthread_cond_broadcast(&acked);
	rdma_leave();
	free(record);
	return 0;
}

void rdma_drop_event(struct rdma_id *id)
{
	if (id->ibv.event)
		urxe_rdma_ack_cm_event(id->ibv.event);
	id->ibv.event = NULL;
}

int rdma_complete(struct rdma_id *id)
{
	struct rdma_cm_id *ibv = &id->ibv;
	int status;

	if (!id->synchronous)
		return 0;
	rdma_drop_event(id);
	if (urxe_rdma_get_cm_event(ibv->channel, &ibv->event) != 0)
		return -1;
	status = ibv->event->status;
	if (status == 0)
		return 0;
	if (ibv->event->event == RDMA_CM_EVENT_REJECTED)
		return rdma_fail(ECONNREFUSED);
	return rdma_fail(status < 0 ? -status : status);
}
