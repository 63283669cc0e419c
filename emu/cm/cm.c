/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager's ids: made, found, ended; and how their messages leave. What messages do
 * to them is in cm_exchange.c, cm_receive.c and cm_sidr.c.
 */
#include "emu/cm/cm.h"

#include <stdlib.h>
#include <utlist.h>

#include "emu/cm/cm_internal.h"
#include "emu/cm/gsi.h"
#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/log.h"
#include "net/observe/observe.h"
#include "net/random.h"
#include "net/share/share.h"

/* A DREQ or DREP is sent so many times more when its process ends: nothing will retransmit it. */
#define FLUSH_COPIES 2

int cm_create(struct hca *hca, const struct cm_sink *sink, uint64_t seed, struct cm **result)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int error;

	if (!cm)
		return ENOMEM;
	error = table_init(&cm->ids, hca->host, 1, SHARE_COMM_IDS);
	if (error) {
		free(cm);
		return error;
	}
	cm->hca = hca;
	cm->sink = *sink;
	cm->random = seed;
	/* A peer that remembers an earlier process here mustn't take us for it. */
	cm->ids.cursor = 1 + random_below(&cm->random, SHARE_COMM_IDS - 1);
	timer_heap_init(&cm->timers);
	atomic_init(&cm->pending_deadline, TIME_NEVER);
	atomic_init(&cm->watch_deadline, TIME_NEVER);
	pthread_mutex_init(&cm->lock, NULL);
	*result = cm;
	return 0;
}

/* --- ids ---------------------------------------------------------------------------- */

/* The first comm id of this HCA: those of all HCAs that share the address differ. */
static uint32_t first_comm_id(struct cm *cm)
{
	struct share *share = cm->hca->link->share;

	return share ? share->ops->lease_comm_ids(share) : 0;
}

struct cm_id *cm_id_new(struct cm *cm, void *context)
{
	struct cm_id *id = calloc(1, sizeof(*id));
	uint32_t index;

	if (!id)
		return NULL;
	id->observed =
		observe_claim(cm->hca->observe, OBSERVE_CONNECTION, cm->hca->observed->head.id);
	if (!id->observed || table_reserve(&cm->ids, &index) != 0) {
		observe_free(cm->hca->observe, OBSERVE_CONNECTION, id->observed);
		free(id);
		return NULL;
	}
	id->cm = cm;
	id->context = context;
	id->local_id = first_comm_id(cm) + index;
	id->timer.number = index;
	id->deadline = TIME_NEVER;
	table_publish(&cm->ids, index, id);
	DL_APPEND(cm->all, id);
	observe_show(cm->hca->observe, id->observed);
	return id;
}

int cm_id_create(struct cm *cm, void *context, struct cm_id **id)
{
	/* Leasing may wait for other processes; it is done when the first id is created. */
	first_comm_id(cm);
	pthread_mutex_lock(&cm->lock);
	*id = cm_id_new(cm, context);
	if (*id)
		cm_watch_begin(cm);
	pthread_mutex_unlock(&cm->lock);
	return *id ? 0 : refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a connection or a listener");
}

void cm_set_state(struct cm_id *id, enum cm_state state)
{
	bool listens = state == CM_STATE_LISTEN;
	const union ibv_gid *local = listens ? &id->listen.gid : &id->path.source;

	id->state = state;
	id->observed->state = state;
	id->observed->qpn = id->terms.local_qpn;
	id->observed->peer_qpn = id->terms.remote_qpn;
	id->observed->datagram = listens && id->listen.datagram;
	id->observed->service_id = listens ? id->listen.service_id : id->service_id;
	memcpy(id->observed->local, local, sizeof(id->observed->local));
	memcpy(id->observed->peer, &id->path.destination, sizeof(id->observed->peer));
}

struct cm_id *cm_id_at(struct cm *cm, uint32_t index)
{
	struct cm_id *id = table_get(&cm->ids, index);

	/* cm.lock keeps it. */
	if (id)
		table_put(&cm->ids, index);
	return id;
}

struct cm_id *cm_id_find(struct cm *cm, uint32_t local_id)
{
	struct cm_id *id = cm_id_at(cm, local_id & (SHARE_COMM_IDS - 1));

	return id && id->local_id == local_id ? id : NULL;
}

static void id_free(struct cm_id *id)
{
	struct cm *cm = id->cm;

	cm_enter_idle(id);
	timer_cancel(&cm->timers, &id->timer);
	table_remove(&cm->ids, id->timer.number);
	DL_DELETE(cm->all, id);
	observe_free(cm->hca->observe, OBSERVE_CONNECTION, id->observed);
	free(id);
}

void cm_reap(struct cm_id *id)
{
	if (id->abandoned && id->state == CM_STATE_IDLE)
		id_free(id);
}

void cm_destroy(struct cm *cm)
{
	while (cm->all)
		id_free(cm->all);
	cm_pending_free(cm);
	timer_heap_destroy(&cm->timers);
	table_destroy(&cm->ids);
	pthread_mutex_destroy(&cm->lock);
	free(cm);
}

void cm_id_set_context(struct cm_id *id, void *context)
{
	pthread_mutex_lock(&id->cm->lock);
	id->context = context;
	pthread_mutex_unlock(&id->cm->lock);
}

enum cm_state cm_id_state(struct cm_id *id)
{
	enum cm_state state;

	pthread_mutex_lock(&id->cm->lock);
	state = id->state;
	pthread_mutex_unlock(&id->cm->lock);
	return state;
}

/* --- messages out ------------------------------------------------------------------- */

void cm_begin(const struct cm_id *id, struct cm_message *message, uint16_t attribute)
{
	*message = (struct cm_message){
		.attribute = attribute,
		.transaction =
			id->transaction ? id->transaction : CM_TRANSACTION_AGENT | id->local_id,
		.local_id = id->local_id,
		.remote_id = id->remote_id,
	};
}

int cm_set_private(struct cm_message *message, const void *data, uint8_t length)
{
	if (length > cm_private_length(message->attribute) || (length && !data))
		return refuse(EINVAL, CAUSE_CM_PRIVATE_DATA,
			      "%s: %u bytes of private data%s, of at most %u",
			      cm_attribute_name(message->attribute), length, data ? "" : " at NULL",
			      cm_private_length(message->attribute));
	message->private_length = length;
	if (length)
		memcpy(message->private_data, data, length);
	return 0;
}

void cm_retransmit(struct cm_id *id, uint64_t now)
{
	gsi_send(id->cm->hca, &id->path, id->mad, now);
}

void cm_post(struct cm_id *id, const struct cm_message *message, uint64_t now)
{
	log_debug("cm %08x: send %s", id->local_id, cm_attribute_name(message->attribute));
	id->transaction = message->transaction;
	cm_message_encode(message, id->mad);
	cm_retransmit(id, now);
}

void cm_post_waiting(struct cm_id *id, const struct cm_message *message, uint64_t now)
{
	id->retries_left = id->max_retries;
	id->asked = now;
	id->wait = id->interval;
	cm_set_deadline(id, now + id->wait);
	cm_post(id, message, now);
}

void cm_path_back(const struct link_frame *frame, struct path *path)
{
	*path = (struct path){
		.source = frame->destination,
		.destination = frame->source,
		.traffic_class = frame->traffic_class,
		.hop_limit = HOP_LIMIT_DEFAULT,
	};
}

void cm_answer(struct cm *cm, const struct link_frame *frame, const struct cm_message *message,
	       uint64_t now)
{
	uint8_t mad[MAD_LENGTH];
	struct path path;

	log_debug("cm: answer %s", cm_attribute_name(message->attribute));
	cm_path_back(frame, &path);
	cm_message_encode(message, mad);
	gsi_send(cm->hca, &path, mad, now);
}

/* --- the end ------------------------------------------------------------------------ */

static void end_request(struct cm_id *id, uint64_t now)
{
	cm_reject(id, CM_REJECT_TIMEOUT, NULL, 0, now);
}

static void end_reply(struct cm_id *id, uint64_t now)
{
	cm_reject(id, CM_REJECT_CONSUMER, NULL, 0, now);
}

static void end_connection(struct cm_id *id, uint64_t now)
{
	cm_disconnect(id, now);
}

static void end_disconnect(struct cm_id *id, uint64_t now)
{
	cm_confirm_disconnect(id, now);
}

static void end_datagram_request(struct cm_id *id, uint64_t now)
{
	cm_enter_idle(id);
}

static void end_datagram_reply(struct cm_id *id, uint64_t now)
{
	static const struct cm_service_reply reply = {.status = CM_SIDR_REJECTED};

	cm_sidr_reply(id, &reply, now);
}

/* As Linux ends what is going on when an id is destroyed. The rest ends by itself. */
static void (*const endings[CM_STATE_COUNT])(struct cm_id *id, uint64_t now) = {
	[CM_STATE_REQ_SENT] = end_request,
	[CM_STATE_MRA_REQ_RECEIVED] = end_request,
	[CM_STATE_REQ_RECEIVED] = end_reply,
	[CM_STATE_MRA_REQ_SENT] = end_reply,
	[CM_STATE_REP_SENT] = end_reply,
	[CM_STATE_MRA_REP_RECEIVED] = end_reply,
	[CM_STATE_REP_RECEIVED] = end_reply,
	[CM_STATE_MRA_REP_SENT] = end_reply,
	[CM_STATE_ESTABLISHED] = end_connection,
	[CM_STATE_DREQ_RECEIVED] = end_disconnect,
	[CM_STATE_SIDR_REQ_SENT] = end_datagram_request,
	[CM_STATE_SIDR_REQ_RECEIVED] = end_datagram_reply,
};

void cm_ignore(struct cm_id *id)
{
	id->abandoned = true;
	cm_enter_idle(id);
	cm_reap(id);
}

/*
 * A target of XRC goes on without the id that accepted it, as long as a process has it open
 * (Linux: cm_destroy_id()). When this process ends, though, it goes with it.
 */
static bool outlives_its_id(const struct cm_id *id)
{
	return id->state == CM_STATE_ESTABLISHED && id->terms.qp_type == IBV_QPT_XRC_RECV;
}

void cm_abandon(struct cm_id *id, uint64_t now)
{
	id->abandoned = true;
	if (outlives_its_id(id))
		cm_enter_idle(id);
	else if (endings[id->state])
		endings[id->state](id, now);
	cm_reap(id);
}

/* Whether what was sent last is a DREQ or a DREP whose loss the peer may notice. */
static bool ends_connection(const struct cm_id *id)
{
	uint16_t attribute = mad_attribute(id->mad);

	return (id->state == CM_STATE_DREQ_SENT || id->state == CM_STATE_TIMEWAIT) &&
	       (attribute == CM_DREQ || attribute == CM_DREP);
}

void cm_flush_on_exit(struct cm *cm, uint64_t now)
{
	struct cm_id *id;

	if (!cm->hca->host->lock_at_exit(&cm->lock))
		return;
	DL_FOREACH (cm->all, id) {
		if (endings[id->state])
			endings[id->state](id, now);
		for (unsigned int i = 0; i < FLUSH_COPIES; i++) {
			if (ends_connection(id))
				cm_retransmit(id, now);
		}
	}
	pthread_mutex_unlock(&cm->lock);
}

bool cm_is_unanswered_request(const struct cm_id *id)
{
	return id->state == CM_STATE_REQ_RECEIVED || id->state == CM_STATE_MRA_REQ_SENT ||
	       id->state == CM_STATE_SIDR_REQ_RECEIVED;
}

void cm_id_destroy(struct cm_id *id, uint64_t now)
{
	struct cm *cm = id->cm;

	cm_disclaim(id);
	pthread_mutex_lock(&cm->lock);
	cm_stop_listening(id);
	if (cm_is_unanswered_request(id))
		cm_report_given_up(id, "the id was destroyed without an answer");
	cm_abandon(id, now);
	pthread_mutex_unlock(&cm->lock);
}
