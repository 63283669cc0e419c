/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: the queues of events on their way from the connection manager
 * (and from calls that answer by an event) to rdma_get_cm_event(). Getting an
 * event may mean work: the thread that gets a REP's moves the QP and sends the
 * RTU, as librdmacm does, so that a channel that isn't read connects nothing.
 *
 * queue_lock protects the queues and what decides on what is queued: id->channel,
 * id->phase, id->pending. The thread that receives takes no other lock here. To
 * change id->channel takes rdma.lock, too: so either lock is enough to read it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/quarantine.h"
#include "verbs/context.h"
#include "verbs/devices.h"
#include "verbs/rdma/rdma.h"

#define CLOSED (-1)	       /* the descriptor of a destroyed channel */
#define CLOSED_WAIT_US 1000000 /* how long waiting for one takes to fail */
#define RECORD_RESERVE 16
#define DEFERRED_FREE_MAX 64 /* destroyed channels whose memory stays */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acked = PTHREAD_COND_INITIALIZER; /* with rdma.lock */

/*
 * Programs destroy a channel while a thread of theirs is about to wait for it, and
 * end, as rping does: that thread must find memory. rdma.lock protects the list.
 */
static struct rdma_channel *deferred_free;
static unsigned int deferred_count;

/*
 * Records for events that come when there is no memory, which a connection would wait for in
 * vain. queue_lock protects them.
 */
static struct {
	struct rdma_record *first;
	unsigned int count;
} reserve;

/* --- records --------------------------------------------------------------------- */

/* Not with queue_lock held. */
static void record_free(struct rdma_record *record)
{
	pthread_mutex_lock(&queue_lock);
	if (record && reserve.count < RECORD_RESERVE) {
		LL_PREPEND(reserve.first, record);
		reserve.count++;
		record = NULL;
	}
	pthread_mutex_unlock(&queue_lock);
	quarantine_free(record, sizeof(*record));
}

static struct rdma_record *record_of_reserve(void)
{
	struct rdma_record *record;

	pthread_mutex_lock(&queue_lock);
	record = reserve.first;
	if (record) {
		LL_DELETE(reserve.first, record);
		reserve.count--;
	}
	pthread_mutex_unlock(&queue_lock);
	if (record)
		*record = (struct rdma_record){};
	else
		log_error("out of memory: an event is lost");
	return record;
}

static bool reserve_is_full(void)
{
	bool full;

	pthread_mutex_lock(&queue_lock);
	full = reserve.count >= RECORD_RESERVE;
	pthread_mutex_unlock(&queue_lock);
	return full;
}

static int fill_reserve(void)
{
	struct rdma_record *record;

	while (!reserve_is_full()) {
		record = calloc(1, sizeof(*record));
		if (!record)
			return ENOMEM;
		record_free(record);
	}
	return 0;
}

/* --- channels -------------------------------------------------------------------- */

struct rdma_channel *rdma_channel_new(void)
{
	struct rdma_channel *channel = calloc(1, sizeof(*channel));
	int error = channel ? fill_reserve() : ENOMEM;

	if (!error)
		error = readable_open(&channel->readable);
	if (error) {
		free(channel);
		errno = refuse_system_error(error, "an event channel");
		return NULL;
	}
	channel->ibv.fd = channel->readable.fd;
	return channel;
}

void rdma_channel_free(struct rdma_channel *channel)
{
	struct rdma_record *record, *next;

	DL_FOREACH_SAFE (channel->head, record, next)
		record_free(record);
	readable_close(&channel->readable);
	readable_destroy(&channel->readable);
	quarantine_free(channel, sizeof(*channel));
}

struct rdma_event_channel *urxe_rdma_create_event_channel(void)
{
	struct rdma_channel *channel;
	struct device *devices;

	if (devices_all(&devices) == 0) {
		errno = ENODEV;
		return NULL;
	}
	channel = rdma_channel_new();
	return channel ? &channel->ibv : NULL;
}

static void defer_free(struct rdma_channel *channel)
{
	struct rdma_channel *oldest = NULL;

	rdma_enter();
	channel->ibv.fd = CLOSED;
	readable_close(&channel->readable);
	DL_APPEND(deferred_free, channel);
	if (++deferred_count > DEFERRED_FREE_MAX) {
		oldest = deferred_free;
		DL_DELETE(deferred_free, oldest);
		deferred_count--;
	}
	rdma_leave();
	quarantine_free(oldest, sizeof(*oldest));
}

/* Free records that are on no channel, and refuse the requests among them. */
static void records_free(struct rdma_record *records)
{
	struct rdma_record *record, *next;

	DL_FOREACH_SAFE (records, record, next) {
		if (record->outcome == &rdma_request_outcome)
			cm_id_destroy(record->cause.id, clock_now());
		record_free(record);
	}
}

/*
 * Its ids should be gone by now (rdma_destroy_event_channel(3)). One that isn't
 * has no channel any more: its events are lost, and so are requests that wait.
 */
void urxe_rdma_destroy_event_channel(struct rdma_event_channel *ibv)
{
	struct rdma_channel *channel = (struct rdma_channel *)ibv;
	struct rdma_record *left;

	rdma_enter();
	pthread_mutex_lock(&queue_lock);
	left = channel->head;
	channel->head = NULL;
	for (struct rdma_id *id = rdma_ids(); id; id = id->next) {
		if (id->channel == channel)
			id->channel = NULL;
	}
	pthread_mutex_unlock(&queue_lock);
	rdma_leave();
	defer_free(channel);
	records_free(left);
}

/* --- forks ----------------------------------------------------------------------- */

void rdma_channels_before_fork(void)
{
	pthread_mutex_lock(&queue_lock);
}

void rdma_channels_after_fork(void)
{
	pthread_mutex_unlock(&queue_lock);
}

/* Events of its ids will never come: a daemon that has listened before it forked is told. */
void rdma_channel_inherit(struct rdma_channel *channel)
{
	channel->head = NULL;
	if (!channel->inherited)
		readable_inherit(&channel->readable);
	channel->inherited = true;
}

/* --- queues ---------------------------------------------------------------------- */

static void channel_append(struct rdma_channel *channel, struct rdma_record *record)
{
	DL_APPEND(channel->head, record);
	readable_added(&channel->readable);
}

static void channel_take_off(struct rdma_channel *channel, struct rdma_record *record)
{
	DL_DELETE(channel->head, record);
	readable_removed(&channel->readable, !channel->head);
}

struct rdma_record *rdma_record_new(struct rdma_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_record *record = calloc(1, sizeof(*record));

	if (!record)
		record = record_of_reserve();
	if (!record)
		return NULL;
	record->event.id = &id->ibv;
	record->event.event = type;
	record->event.status = status;
	record->id = id;
	return record;
}

static struct rdma_record *record_of(struct rdma_id *id, const struct rdma_outcome *outcome,
				     const struct cm_event *cause)
{
	struct rdma_record *record = rdma_record_new(id, outcome->type, outcome->status);

	if (!record)
		return NULL;
	record->outcome = outcome;
	record->cause = *cause;
	return record;
}

void rdma_record_private(struct rdma_record *record, uint8_t skip)
{
	struct cm_message *message = &record->cause.message;
	uint8_t length = message->private_length - skip;
	const uint8_t *data = memmove(message->private_data, message->private_data + skip, length);

	if (record->id->ibv.qp_type == IBV_QPT_UD) {
		record->event.param.ud.private_data = data;
		record->event.param.ud.private_data_len = length;
	} else {
		record->event.param.conn.private_data = data;
		record->event.param.conn.private_data_len = length;
	}
}

bool rdma_channel_append(struct rdma_record *record)
{
	bool queued;

	pthread_mutex_lock(&queue_lock);
	queued = record->id->channel;
	if (queued)
		channel_append(record->id->channel, record);
	pthread_mutex_unlock(&queue_lock);
	if (!queued)
		record_free(record);
	return queued;
}

int rdma_event(struct rdma_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_record *record = rdma_record_new(id, type, status);

	if (!record)
		return ENOMEM;
	rdma_channel_append(record);
	return 0;
}

int urxe_rdma_write_cm_event(struct rdma_cm_id *id, int event, int status, uint64_t argument)
{
	struct rdma_record *record;

	if (event != RDMA_EVENT_USER)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_ARGUMENT,
					"rdma_write_cm_event(): event is %d, of %d alone", event,
					RDMA_EVENT_USER));
	record = rdma_record_new(to_rdma_id(id), RDMA_EVENT_USER, status);
	if (!record)
		return rdma_fail(ENOMEM);
	memcpy(&record->event.param, &argument, sizeof(argument));
	return rdma_channel_append(record) ? 0 : rdma_fail(EINVAL);
}

void rdma_channel_report(struct rdma_id *id, const struct rdma_outcome *outcome,
			 const struct cm_event *cause)
{
	struct rdma_record *record = record_of(id, outcome, cause);

	pthread_mutex_lock(&queue_lock);
	if (id->phase == outcome->in) {
		id->phase = outcome->next;
		if (record && id->channel) {
			channel_append(id->channel, record);
			record = NULL;
		}
	}
	pthread_mutex_unlock(&queue_lock);
	record_free(record);
}

/* As Linux does, requests that there is no room for are left to their retransmission. */
enum cm_verdict rdma_channel_add_request(struct rdma_id *listener, const struct cm_event *cause,
					 struct device *device)
{
	struct rdma_record *record = record_of(listener, &rdma_request_outcome, cause);
	enum cm_verdict verdict = CM_REQUEST_IGNORED;

	if (record)
		record->device = device;
	pthread_mutex_lock(&queue_lock);
	if (!listener->channel || listener->phase != RDMA_PHASE_CONNECTION) {
		verdict = CM_REQUEST_REFUSED;
	} else if (record && listener->pending < (uint32_t)listener->backlog) {
		listener->pending++;
		channel_append(listener->channel, record);
		verdict = CM_REQUEST_TAKEN;
	}
	pthread_mutex_unlock(&queue_lock);
	if (verdict != CM_REQUEST_TAKEN)
		record_free(record);
	return verdict;
}

/* Whether @record is one of those that are meant, about @subject if that matters. */
typedef bool record_filter(const struct rdma_record *record, const void *subject);

/* Take those of @id's events that are @about @subject off its channel. Returns them, as a list. */
static struct rdma_record *channel_withdraw(struct rdma_id *id, record_filter *about,
					    const void *subject)
{
	struct rdma_record *record, *next, *withdrawn = NULL;

	if (!id->channel)
		return NULL;
	DL_FOREACH_SAFE (id->channel->head, record, next) {
		if (record->id != id || !about(record, subject))
			continue;
		channel_take_off(id->channel, record);
		DL_APPEND(withdrawn, record);
	}
	return withdrawn;
}

static bool about_id(const struct rdma_record *record, const void *subject)
{
	return true;
}

static bool about_membership(const struct rdma_record *record, const void *membership)
{
	return record->multicast == membership;
}

static bool about_connection(const struct rdma_record *record, const void *subject)
{
	return record->outcome;
}

static void channel_drop(struct rdma_id *id, record_filter *about, const void *subject)
{
	struct rdma_record *records;

	pthread_mutex_lock(&queue_lock);
	records = channel_withdraw(id, about, subject);
	pthread_mutex_unlock(&queue_lock);
	records_free(records);
}

void rdma_channel_drop(struct rdma_id *id)
{
	channel_drop(id, about_id, NULL);
}

void rdma_channel_drop_membership(struct rdma_id *id, const struct multicast_membership *membership)
{
	channel_drop(id, about_membership, membership);
}

void rdma_channel_fail(struct rdma_id *id)
{
	rdma_channel_end(id);
	channel_drop(id, about_connection, NULL);
}

void rdma_channel_end(struct rdma_id *id)
{
	pthread_mutex_lock(&queue_lock);
	id->phase = RDMA_PHASE_FAILED;
	pthread_mutex_unlock(&queue_lock);
}

enum rdma_phase rdma_channel_phase(const struct rdma_id *id)
{
	enum rdma_phase phase;

	pthread_mutex_lock(&queue_lock);
	phase = id->phase;
	pthread_mutex_unlock(&queue_lock);
	return phase;
}

void rdma_channel_move(struct rdma_id *id, struct rdma_channel *to)
{
	struct rdma_record *moving, *record, *next;

	pthread_mutex_lock(&queue_lock);
	moving = channel_withdraw(id, about_id, NULL);
	id->channel = to;
	id->ibv.channel = &to->ibv;
	id->moves++;
	id->moved_from = id->events_taken - id->events_acked;
	DL_FOREACH_SAFE (moving, record, next)
		channel_append(to, record);
	pthread_mutex_unlock(&queue_lock);
}

bool rdma_channel_is_empty(struct rdma_channel *channel)
{
	bool empty;

	pthread_mutex_lock(&queue_lock);
	empty = !channel->head;
	pthread_mutex_unlock(&queue_lock);
	return empty;
}

void rdma_drain_events(struct rdma_id *id)
{
	while (id->events_acked != id->events_taken)
		rdma_wait(&acked);
}

void rdma_drain_moved_events(struct rdma_id *id)
{
	while (id->moved_from)
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
	pthread_mutex_lock(&queue_lock);
	record = channel->head;
	if (record) {
		channel_take_off(channel, record);
		if (record->outcome == &rdma_request_outcome)
			record->id->pending--;
	}
	pthread_mutex_unlock(&queue_lock);
	if (record) {
		record->id->events_taken++;
		record->moves = record->id->moves;
		record->channel = record->id->synchronous ? NULL : channel;
		if (record->multicast)
			record->multicast->events_taken++;
	}
	rdma_leave();
	return record;
}

/*
 * What librdmacm does when it reads an event. Returns false for one that the application isn't
 * told.
 */
static bool on_get_event(struct rdma_record *record)
{
	if (record->outcome)
		return rdma_on_get_event(record);
	if (record->event.event == RDMA_CM_EVENT_MULTICAST_JOIN)
		rdma_multicast_attach(record);
	return true;
}

int urxe_rdma_get_cm_event(struct rdma_event_channel *ibv, struct rdma_cm_event **event)
{
	struct rdma_channel *channel = (struct rdma_channel *)ibv;
	struct rdma_record *record;

	if (!event)
		return rdma_fail(
			refuse(EINVAL, CAUSE_CM_ARGUMENT, "rdma_get_cm_event(): event is NULL"));
	if (channel->inherited)
		return rdma_fail(refuse(ENODEV, CAUSE_CM_INHERITED, "rdma_get_cm_event()"));
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
			return rdma_fail(
				refuse(EBADF, CAUSE_CM_CHANNEL_DESTROYED, "rdma_get_cm_event()"));
		}
		rdma_devices_app_sleeping();
		if (readable_wait(&channel->readable) < 0 && channel->ibv.fd != CLOSED)
			return -1;
	}
	*event = &record->event;
	return 0;
}

/* Of an event that was taken before a fork the child waits for no ack, and may give one. */
static void count_ack(struct rdma_id *id, const struct rdma_record *record)
{
	if (id->events_acked == id->events_taken)
		return;
	id->events_acked++;
	if (record->moves != id->moves && id->moved_from)
		id->moved_from--;
}

int urxe_rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct rdma_record *record = (struct rdma_record *)event;

	if (!event)
		return rdma_fail(EINVAL);
	rdma_enter();
	count_ack(record->id, record);
	if (record->multicast)
		record->multicast->events_acked++;
	pthread_cond_broadcast(&acked);
	rdma_leave();
	record_free(record);
	return 0;
}

void rdma_drop_event(struct rdma_id *id)
{
	if (id->ibv.event)
		urxe_rdma_ack_cm_event(id->ibv.event);
	id->ibv.event = NULL;
}

int rdma_complete(struct rdma_id *id, bool synchronous)
{
	struct rdma_cm_id *ibv = &id->ibv;
	int status;

	if (!synchronous)
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
