/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time in the connection manager: copies of messages that wait for their answer, what becomes of an
 * exchange that gets none, and timewait (IBA 12.9.8.6). cm_run() does what is due.
 */
#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "net/clock.h"

uint64_t cm_duration(uint8_t exponent)
{
	return NS_PER_MS << (exponent > 8 ? exponent - 8 : 0);
}

void cm_set_deadline(struct cm_id *id, uint64_t time)
{
	id->deadline = time;
	if (timer_arm(&id->cm->timers, &id->timer, time))
		hca_wake_at(id->cm->hca, time);
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
	/* The peer may connect the QP anew; duplicates of this connection's REQ are still known. */
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
	cm_report_unanswered(id, CAUSE_CM_REQ_UNANSWERED, "REQ", now);
	give_up(id, CM_EVENT_REQ_ERROR, now);
}

static void rep_unanswered(struct cm_id *id, uint64_t now)
{
	cm_report_unanswered(id, CAUSE_CM_REP_UNANSWERED, "REP", now);
	give_up(id, CM_EVENT_REP_ERROR, now);
}

static void dreq_unanswered(struct cm_id *id, uint64_t now)
{
	cm_report_unanswered(id, CAUSE_CM_DREQ_UNANSWERED, "DREQ", now);
	cm_raise(id, CM_EVENT_DREQ_ERROR, NULL);
	cm_enter_timewait(id, now);
}

static void sidr_unanswered(struct cm_id *id, uint64_t now)
{
	cm_report_unanswered(id, CAUSE_CM_SIDR_REQ_UNANSWERED, "SIDR_REQ", now);
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
static void retransmit(struct cm_id *id, uint64_t now)
{
	bool first = id->retries_left == id->max_retries;

	id->retries_left--;
	cm_set_deadline(id, now + id->wait);
	cm_retransmit(id, now);
	if (first && id->state == CM_STATE_REQ_SENT)
		cm_report_no_process(id, "REQ");
	else if (first && id->state == CM_STATE_SIDR_REQ_SENT)
		cm_report_no_process(id, "SIDR_REQ");
}

static void run_id(struct cm_id *id, uint64_t now)
{
	if (id->deadline > now) {
		cm_set_deadline(id, id->deadline);
	} else if (id->state != CM_STATE_TIMEWAIT && id->retries_left > 0) {
		retransmit(id, now);
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
		id = cm_id_at(cm, index);
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
	uint64_t next = atomic_load(&cm->timers.next);

	next = earlier(next, atomic_load(&cm->pending_deadline));
	return earlier(next, atomic_load(&cm->watch_deadline));
}
