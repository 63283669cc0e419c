/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the connection manager's events are to the application: one table of the
 * states of a connection (emu/cm/cm.h) and the events that find it in them.
 *
 * rdma_handle_event() is called by the thread that receives; it only looks the
 * event up and queues it, so that a channel is readable exactly when there is
 * something to get. The rest is done by the thread that gets the event, as
 * librdmacm does: the event is filled in, and the QP is moved.
 */
#include <errno.h>
#include <string.h>

#include "emu/objects/pd.h"
#include "net/cause/cause.h"
#include "verbs/context.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

/* --- what an event brings, with rdma.lock held ------------------------------------------- */

static bool fill_response(struct rdma_record *record)
{
	struct cm_message *message = &record->cause.message;

	record->event.param.conn = rdma_offer(message);
	if (record->id->ibv.qp_type == IBV_QPT_XRC_SEND)
		record->event.param.conn.qp_num = message->eecn;
	record->id->remote_ece.vendor_id = message->vendor_id;
	record->id->remote_ece.options = message->modifier;
	rdma_record_private(record, 0);
	return true;
}

static bool fill_rejection(struct rdma_record *record)
{
	record->event.status = record->cause.message.reason;
	rdma_record_private(record, 0);
	return true;
}

/* Of an id that has a Q_Key of its own, the peer's must be the same (Linux: cma_set_qkey). */
static bool qkey_fits(struct rdma_id *id, uint32_t qkey)
{
	uint32_t ours = id->qkey ? id->qkey : id->ibv.qp ? RDMA_UDP_QKEY : 0;

	if (ours)
		return qkey == 0 || qkey == ours;
	id->qkey = qkey;
	return true;
}

/* A SIDR_REP resolves the service, or says why it doesn't. */
static bool fill_resolution(struct rdma_record *record)
{
	const struct cm_message *message = &record->cause.message;
	struct rdma_cm_event *event = &record->event;

	if (message->status != CM_SIDR_SUCCESS) {
		event->event = RDMA_CM_EVENT_UNREACHABLE;
		event->status = message->status;
	} else if (!qkey_fits(record->id, message->qkey)) {
		event->event = RDMA_CM_EVENT_ADDR_ERROR;
		event->status = -EINVAL;
	} else {
		event->param.ud.qp_num = message->qpn;
		event->param.ud.qkey = message->qkey;
		event->param.ud.ah_attr =
			path_ah_attr(&record->id->path, &record->id->device->gids);
	}
	rdma_record_private(record, 0);
	return true;
}

/* --- what the QP does when the application gets the event ---------------------------------- */

static int move_to_error(struct rdma_id *id)
{
	rdma_qp_error(id);
	return 0;
}

/* --- the table ------------------------------------------------------------------------------- */

const struct rdma_outcome rdma_request_outcome = {
	.type = RDMA_CM_EVENT_CONNECT_REQUEST,
	.fill = rdma_adopt_request,
};

static const struct rdma_outcome response = {
	.type = RDMA_CM_EVENT_CONNECT_RESPONSE,
	.fill = fill_response,
	.move_qp = rdma_complete_connect, /* RTR, RTS, then the RTU */
	.moved = RDMA_CM_EVENT_ESTABLISHED,
	.failed = RDMA_CM_EVENT_CONNECT_ERROR,
};

static const struct rdma_outcome established = {.type = RDMA_CM_EVENT_ESTABLISHED};

static const struct rdma_outcome rejected = {
	.type = RDMA_CM_EVENT_REJECTED,
	.fill = fill_rejection,
	.move_qp = move_to_error,
	.moved = RDMA_CM_EVENT_REJECTED,
};

static const struct rdma_outcome unanswered = {
	.type = RDMA_CM_EVENT_UNREACHABLE,
	.status = -ETIMEDOUT,
};

static const struct rdma_outcome disconnected = {
	.type = RDMA_CM_EVENT_DISCONNECTED,
	.next = RDMA_PHASE_DISCONNECTED,
};

static const struct rdma_outcome disconnect_unanswered = {
	.type = RDMA_CM_EVENT_DISCONNECTED,
	.status = -ETIMEDOUT,
	.next = RDMA_PHASE_DISCONNECTED,
};

static const struct rdma_outcome timewait_over = {
	.type = RDMA_CM_EVENT_TIMEWAIT_EXIT,
	.in = RDMA_PHASE_DISCONNECTED,
	.next = RDMA_PHASE_DISCONNECTED,
};

static const struct rdma_outcome resolved = {
	.type = RDMA_CM_EVENT_ESTABLISHED,
	.fill = fill_resolution,
};

#define ON(event) [CM_EVENT_##event]

/*
 * What isn't here isn't told (Linux: cma_ib_handler()). A peer that has given up is no news to an
 * application that hasn't answered it yet (REQ_RECEIVED): accepting fails. A
 * disconnect is told once: not by the DREP that follows the peer's DREQ.
 */
/* clang-format off */
static const struct rdma_outcome *const outcomes[CM_STATE_COUNT][CM_EVENT_COUNT] = {
	/* the active side */
	[CM_STATE_REQ_SENT] = {
		ON(REP_RECEIVED) = &response,
		ON(REJ_RECEIVED) = &rejected,
		ON(REQ_ERROR) = &unanswered,
	},
	[CM_STATE_MRA_REQ_RECEIVED] = {
		ON(REP_RECEIVED) = &response,
		ON(REJ_RECEIVED) = &rejected,
		ON(REQ_ERROR) = &unanswered,
	},
	[CM_STATE_REP_RECEIVED] = {
		ON(REJ_RECEIVED) = &rejected,
	},
	[CM_STATE_MRA_REP_SENT] = {
		ON(REJ_RECEIVED) = &rejected,
	},

	/* the passive side */
	[CM_STATE_REP_SENT] = {
		ON(RTU_RECEIVED) = &established,
		ON(USER_ESTABLISHED) = &established,
		ON(REJ_RECEIVED) = &rejected,
		ON(REP_ERROR) = &unanswered,
		ON(DREQ_RECEIVED) = &disconnected,
	},
	[CM_STATE_MRA_REP_RECEIVED] = {
		ON(RTU_RECEIVED) = &established,
		ON(USER_ESTABLISHED) = &established,
		ON(REJ_RECEIVED) = &rejected,
		ON(REP_ERROR) = &unanswered,
		ON(DREQ_RECEIVED) = &disconnected,
	},

	/* both */
	[CM_STATE_ESTABLISHED] = {
		ON(REJ_RECEIVED) = &rejected,
		ON(DREQ_RECEIVED) = &disconnected,
	},
	[CM_STATE_DREQ_SENT] = {
		ON(REJ_RECEIVED) = &rejected,
		ON(DREQ_RECEIVED) = &disconnected,
		ON(DREP_RECEIVED) = &disconnected,
		ON(DREQ_ERROR) = &disconnect_unanswered,
	},
	[CM_STATE_TIMEWAIT] = {
		ON(TIMEWAIT_EXIT) = &timewait_over,
	},

	/* datagrams */
	[CM_STATE_SIDR_REQ_SENT] = {
		ON(SIDR_REP_RECEIVED) = &resolved,
		ON(SIDR_REQ_ERROR) = &unanswered,
	},
};
/* clang-format on */

void rdma_handle_event(void *context, const struct cm_event *event)
{
	const struct rdma_outcome *outcome = outcomes[event->state][event->type];
	struct rdma_id *id = event->id->context;

	if (id && outcome)
		rdma_channel_report(id, outcome, event);
}

/* --- getting an event ------------------------------------------------------------------------ */

static void move_qp(struct rdma_record *record)
{
	const struct rdma_outcome *outcome = record->outcome;
	int error;

	if (!outcome->move_qp || !record->id->ibv.qp)
		return; /* the application's to move: rdma_establish(3) */
	error = outcome->move_qp(record->id);
	record->event.event = error ? outcome->failed : outcome->moved;
	if (!error)
		return;
	record->event.status = -error;
	cause_report(CAUSE_CM_CONNECT_ERROR, "QP 0x%06x could not be connected: %s",
		     record->id->ibv.qp->qp_num, strerror(error));
	rdma_channel_fail(record->id);
}

int rdma_injected(enum fault_cm_event event)
{
	struct fault_hit hit;

	if (!injector_cm_event(registry_injector(), event, &hit))
		return 0;
	cause_report(CAUSE_INJECTED_EVENT, "%s", hit.clause);
	return ETIMEDOUT;
}

bool rdma_on_get_event(struct rdma_record *record)
{
	const struct rdma_outcome *outcome = record->outcome;
	bool told = true;

	rdma_enter();
	if (outcome->fill)
		told = outcome->fill(record);
	rdma_leave();
	if (told)
		move_qp(record);
	if (record->event.event == RDMA_CM_EVENT_ESTABLISHED && rdma_injected(FAULT_ADDR_CHANGE))
		rdma_watch_changed(record->id);
	return told;
}
