/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager's ids: made, found, listening, timed, ended. What
 * messages do to them is in cm_exchange.c, cm_receive.c and cm_sidr.c.
 */
#include "emu/cm/cm.h"

#include <stdlib.h>
#include <utlist.h>

#include "emu/cm/cm_internal.h"
#include "emu/cm/gsi.h"
#include "emu/hca.h"
#include "emu/objects/pd.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/observe/observe.h"
#include "net/random.h"
#include "net/share/share.h"

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
	id->shown = observe_claim(cm->hca->observe, OBSERVE_CONNECTION, cm->hca->shown->head.id);
	if (!id->shown || table_reserve(&cm->ids, &index) != 0) {
		observe_free(cm->hca->observe, OBSERVE_CONNECTION, id->shown);
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
	observe_show(cm->hca->observe, id->shown);
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
	return *id ? 0 : ENOMEM;
}

void cm_set_state(struct cm_id *id, enum cm_state state)
{
	bool listens = state == CM_STATE_LISTEN;
	const union ibv_gid *local = listens ? &id->listen.gid : &id->path.source;

	id->state = state;
	id->shown->state = state;
	id->shown->qpn = id->terms.local_qpn;
	id->shown->peer_qpn = id->terms.remote_qpn;
	id->shown->datagram = listens && id->listen.datagram;
	id->shown->service_id = listens ? id->listen.service_id : id->service_id;
	memcpy(id->shown->local, local, sizeof(id->shown->local));
	memcpy(id->shown->peer, &id->path.destination, sizeof(id->shown->peer));
}

static struct cm_id *find_index(struct cm *cm, uint32_t index)
{
	struct cm_id *id = table_get(&cm->ids, index);

	/* cm.lock keeps it. */
	if (id)
		table_put(&cm->ids, index);
	return id;
}

struct cm_id *cm_id_find(struct cm *cm, uint32_t local_id)
{
	struct cm_id *id = find_index(cm, local_id & (SHARE_COMM_IDS - 1));

	return id && id->local_id == local_id ? id : NULL;
}

static void id_free(struct cm_id *id)
{
	struct cm *cm = id->cm;

	cm_enter_idle(id);
	timer_cancel(&cm->timers, &id->timer);
	table_remove(&cm->ids, id->timer.number);
	DL_DELETE(cm->all, id);
	observe_free(cm->hca->observe, OBSERVE_CONNECTION, id->shown);
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

/* --- listening ---------------------------------------------------------------------- */

static const union ibv_gid any_gid;

static bool gid_is_any(const union ibv_gid *gid)
{
	return gid_equal(gid, &any_gid);
}

static bool listens_at(const struct cm_listen *listen, const union ibv_gid *gid)
{
	if (!gid_is_any(&listen->gid))
		return gid_equal(&listen->gid, gid);
	return gid_is_ipv4(gid) ? listen->ipv4 : listen->ipv6;
}

static bool overlap(const struct cm_listen *a, const struct cm_listen *b)
{
	if (a->service_id != b->service_id)
		return false;
	if (!gid_is_any(&a->gid))
		return listens_at(b, &a->gid);
	if (!gid_is_any(&b->gid))
		return listens_at(a, &b->gid);
	return (a->ipv4 && b->ipv4) || (a->ipv6 && b->ipv6);
}

struct cm_id *cm_find_listener(struct cm *cm, uint64_t service_id, const union ibv_gid *gid,
			       bool datagram)
{
	struct cm_id *id;

	if (!cm->sink.request)
		return NULL;
	DL_FOREACH2 (cm->listeners, id, listen_next) {
		if (id->listen.service_id == service_id && id->listen.datagram == datagram &&
		    listens_at(&id->listen, gid))
			return id;
	}
	return NULL;
}

static int listen_locked(struct cm_id *id, const struct cm_listen *listen)
{
	struct cm *cm = id->cm;
	struct cm_id *other;

	if (id->state != CM_STATE_IDLE)
		return EINVAL;
	DL_FOREACH2 (cm->listeners, other, listen_next) {
		if (overlap(&other->listen, listen))
			return EADDRINUSE;
	}
	id->listen = *listen;
	cm_set_state(id, CM_STATE_LISTEN);
	DL_APPEND2(cm->listeners, id, listen_prev, listen_next);
	cm_pending_look(cm);
	return 0;
}

/*
 * The addresses for which the service is claimed among the processes that share
 * them: the listener's, or the unspecified ones of its families. Returns how many.
 */
static unsigned int claimed_gids(const struct cm_listen *listen, union ibv_gid gids[2])
{
	static const union ibv_gid any_ipv4 = {.raw = {[10] = 0xff, [11] = 0xff}};
	unsigned int count = 0;

	if (!gid_is_any(&listen->gid)) {
		gids[0] = listen->gid;
		return 1;
	}
	if (listen->ipv4)
		gids[count++] = any_ipv4;
	if (listen->ipv6)
		gids[count++] = any_gid;
	return count;
}

static void release(struct share *share, const struct cm_listen *listen)
{
	union ibv_gid gids[2];
	unsigned int count = claimed_gids(listen, gids);

	for (unsigned int i = 0; i < count && share; i++)
		share->ops->release(share, &gids[i], listen->service_id);
}

static int claim(struct share *share, const struct cm_listen *listen)
{
	union ibv_gid gids[2];
	unsigned int count = claimed_gids(listen, gids), done;
	int error = 0;

	if (!share)
		return 0;
	for (done = 0; done < count && !error; done++)
		error = share->ops->claim(share, &gids[done], listen->service_id);
	if (error && done == 2)
		share->ops->release(share, &gids[0], listen->service_id);
	return error;
}

/* Claiming may wait for another process that claims, so cm.lock isn't held. */
int cm_id_claim(struct cm_id *id, const struct cm_listen *listen)
{
	int error = id->claimed ? 0 : claim(id->cm->hca->link->share, listen);

	if (error)
		return error;
	id->claim = *listen;
	id->claimed = true;
	return 0;
}

static void disclaim(struct cm_id *id)
{
	if (id->claimed)
		release(id->cm->hca->link->share, &id->claim);
	id->claimed = false;
}

int cm_id_listen(struct cm_id *id, const struct cm_listen *listen)
{
	bool claimed = id->claimed;
	int error = cm_id_claim(id, listen);

	if (error)
		return error;
	pthread_mutex_lock(&id->cm->lock);
	error = listen_locked(id, listen);
	pthread_mutex_unlock(&id->cm->lock);
	if (error && !claimed)
		disclaim(id);
	return error;
}

static void stop_listening(struct cm_id *id)
{
	DL_DELETE2(id->cm->listeners, id, listen_prev, listen_next);
	cm_set_state(id, CM_STATE_IDLE);
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

void cm_repeat(struct cm_id *id, uint64_t now)
{
	gsi_send(id->cm->hca, &id->path, id->mad, now);
}

void cm_post(struct cm_id *id, const struct cm_message *message, uint64_t now)
{
	log_debug("cm %08x: send %s", id->local_id, cm_attribute_name(message->attribute));
	id->transaction = message->transaction;
	cm_message_encode(message, id->mad);
	cm_repeat(id, now);
}

void cm_post_waiting(struct cm_id *id, const struct cm_message *message, uint64_t now)
{
	id->retries_left = id->max_retries;
	id->asked = now;
	cm_set_deadline(id, now + id->interval);
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

/* --- time --------------------------------------------------------------------------- */

uint64_t cm_duration(uint8_t exponent)
{
	return NS_PER_MS << (exponent > 8 ? exponent - 8 : 0);
}

void cm_set_deadline(struct cm_id *id, uint64_t time)
{
	struct hca *hca = id->cm->hca;

	id->deadline = time;
	if (timer_arm(&id->cm->timers, &id->timer, time) && hca->deadline)
		hca->deadline(hca->deadline_context, time);
}

void cm_enter_idle(struct cm_id *id)
{
	cm_set_state(id, CM_STATE_IDLE);
	cm_watch_end(id);
	id->remote_id = 0;
	id->lap_sent = false;
	id->alternate.known = false;
	cm_set_deadline(id, TIME_NEVER);
	cm_peer_remove_id(id);
	cm_peer_remove_qp(id);
}

void cm_enter_timewait(struct cm_id *id, uint64_t now)
{
	cm_set_state(id, CM_STATE_TIMEWAIT);
	cm_watch_end(id);
	cm_set_deadline(id, now + cm_duration(id->terms.ack_timeout));
	/* The peer may connect the QP anew; duplicates of what made this connection are still
	 * known. */
	cm_peer_remove_qp(id);
}

/* IBA 12.9's diagrams end an unanswered exchange with a REJ, lest the peer believe in it. */
static void give_up(struct cm_id *id, enum cm_event_type type, uint64_t now)
{
	cm_raise(id, type, NULL);
	cm_reject(id, CM_REJECT_TIMEOUT, NULL, 0, now);
	cm_enter_idle(id);
}

static void req_unanswered(struct cm_id *id, uint64_t now)
{
	cm_tell_unanswered(id, CAUSE_CM_REQ_UNANSWERED, "REQ", now);
	give_up(id, CM_EVENT_REQ_ERROR, now);
}

static void rep_unanswered(struct cm_id *id, uint64_t now)
{
	cm_tell_unanswered(id, CAUSE_CM_REP_UNANSWERED, "REP", now);
	give_up(id, CM_EVENT_REP_ERROR, now);
}

static void dreq_unanswered(struct cm_id *id, uint64_t now)
{
	cm_tell_unanswered(id, CAUSE_CM_DREQ_UNANSWERED, "DREQ", now);
	cm_raise(id, CM_EVENT_DREQ_ERROR, NULL);
	cm_enter_timewait(id, now);
}

static void sidr_unanswered(struct cm_id *id, uint64_t now)
{
	cm_tell_unanswered(id, CAUSE_CM_SIDR_REQ_UNANSWERED, "SIDR_REQ", now);
	cm_raise(id, CM_EVENT_SIDR_REQ_ERROR, NULL);
	cm_enter_idle(id);
}

static void timewait_over(struct cm_id *id, uint64_t now)
{
	cm_raise(id, CM_EVENT_TIMEWAIT_EXIT, NULL);
	cm_enter_idle(id);
}

/* The states that wait for a message or for time, and what happens when the wait is over. */
static void (*const unanswered[CM_STATE_COUNT])(struct cm_id *id, uint64_t now) = {
	[CM_STATE_REQ_SENT] = req_unanswered,	    [CM_STATE_MRA_REQ_RECEIVED] = req_unanswered,
	[CM_STATE_REP_SENT] = rep_unanswered,	    [CM_STATE_MRA_REP_RECEIVED] = rep_unanswered,
	[CM_STATE_DREQ_SENT] = dreq_unanswered,	    [CM_STATE_TIMEWAIT] = timewait_over,
	[CM_STATE_SIDR_REQ_SENT] = sidr_unanswered, [CM_STATE_ESTABLISHED] = cm_lap_unanswered,
};

void cm_give_up(struct cm_id *id, uint64_t now)
{
	id->retries_left = 0;
	cm_set_deadline(id, now);
}

/* A server that isn't started yet refuses nothing, and its client waits for a minute. */
static void repeat(struct cm_id *id, uint64_t now)
{
	bool first = id->retries_left == id->max_retries;

	id->retries_left--;
	cm_set_deadline(id, now + id->interval);
	cm_repeat(id, now);
	if (first && id->state == CM_STATE_REQ_SENT)
		cm_tell_no_process(id, "REQ");
	else if (first && id->state == CM_STATE_SIDR_REQ_SENT)
		cm_tell_no_process(id, "SIDR_REQ");
}

static void run_id(struct cm_id *id, uint64_t now)
{
	if (id->deadline > now) {
		cm_set_deadline(id, id->deadline);
	} else if (id->state != CM_STATE_TIMEWAIT && id->retries_left > 0) {
		repeat(id, now);
	} else {
		id->deadline = TIME_NEVER;
		if (unanswered[id->state])
			unanswered[id->state](id, now);
		cm_reap(id);
	}
}

bool cm_run(struct cm *cm, uint64_t now)
{
	struct cm_id *id;
	uint32_t index;

	if (atomic_load_explicit(&cm->timers.next, memory_order_relaxed) > now &&
	    atomic_load_explicit(&cm->pending_deadline, memory_order_relaxed) > now &&
	    atomic_load_explicit(&cm->watch_deadline, memory_order_relaxed) > now)
		return false;
	pthread_mutex_lock(&cm->lock);
	while ((index = timer_expire(&cm->timers, now)) != 0) {
		id = find_index(cm, index);
		if (id)
			run_id(id, now);
	}
	if (atomic_load(&cm->pending_deadline) <= now)
		cm_pending_run(cm, now);
	if (atomic_load(&cm->watch_deadline) <= now)
		cm_watch_run(cm, now);
	pthread_mutex_unlock(&cm->lock);
	return true;
}

uint64_t cm_deadline(struct cm *cm)
{
	uint64_t next = atomic_load(&cm->timers.next), pending = atomic_load(&cm->pending_deadline),
		 watch = atomic_load(&cm->watch_deadline);

	if (pending < next)
		next = pending;
	return watch < next ? watch : next;
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
				cm_repeat(id, now);
		}
	}
	pthread_mutex_unlock(&cm->lock);
}

/* One that its application hasn't answered. */
static bool is_request(const struct cm_id *id)
{
	return id->state == CM_STATE_REQ_RECEIVED || id->state == CM_STATE_MRA_REQ_SENT ||
	       id->state == CM_STATE_SIDR_REQ_RECEIVED;
}

void cm_id_destroy(struct cm_id *id, uint64_t now)
{
	struct cm *cm = id->cm;

	disclaim(id);
	pthread_mutex_lock(&cm->lock);
	if (id->state == CM_STATE_LISTEN)
		stop_listening(id);
	if (is_request(id))
		cm_tell_given_up(id, "the id was destroyed without an answer");
	cm_abandon(id, now);
	pthread_mutex_unlock(&cm->lock);
}
