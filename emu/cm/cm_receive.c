/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the peer sends: which id a message is for, and the state machine of
 * connections as a table of states and messages. What the table lacks is
 * dropped: duplicates, mostly, whose answer is retransmitted by a timer.
 */
#include <stdio.h>

#include "emu/cm/cm.h"
#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "net/log.h"
#include "net/random.h"
#include "net/share/share.h"

/* How long an application may take for its answer: 65.5 s; Linux: CMA_CM_MRA_SETTING. */
#define SERVICE_TIMEOUT 24

static struct cm_peer peer_of(const struct link_frame *frame, uint64_t ca_guid, uint32_t number)
{
	return (struct cm_peer){.gid = frame->source, .ca_guid = ca_guid, .number = number};
}

/* --- answers without an id ------------------------------------------------------------ */

static void reject_message(struct cm *cm, const struct link_frame *frame,
			   const struct cm_message *message, enum cm_reject_reason reason,
			   const union ibv_gid *suggestion, uint64_t now)
{
	struct cm_message rej = cm_answer_to(message, CM_REJ);

	rej.answered = message->attribute == CM_REQ ? CM_ANSWERED_REQ : CM_ANSWERED_REP;
	rej.reason = reason;
	if (suggestion) {
		memcpy(rej.info, suggestion, sizeof(*suggestion));
		rej.info_length = sizeof(*suggestion);
	}
	cm_answer(cm, frame, &rej, now);
}

/* IBA 12.9.8.3: the connection is over here, and the peer is to know it. */
static void confirm_unknown(struct cm *cm, const struct cm_message *dreq,
			    const struct link_frame *frame, uint64_t now)
{
	const struct cm_message drep = cm_answer_to(dreq, CM_DREP);

	cm_answer(cm, frame, &drep, now);
}

static void lap_unknown(struct cm *cm, const struct cm_message *lap, const struct link_frame *frame,
			uint64_t now)
{
	cm_answer_lap(cm, lap, frame, CM_APR_INVALID_ID, now);
}

/* --- REQ ------------------------------------------------------------------------------ */

/*
 * IBA 12.9.8.3.1: if the peer's QP is in a connection here, the peer doesn't know of that any more:
 * reject @message, and disconnect the old connection. Returns whether that was so.
 */
static bool reject_stale(struct cm *cm, const struct cm_message *message, uint32_t qpn,
			 const struct link_frame *frame, uint64_t now)
{
	struct cm_peer peer = peer_of(frame, message->ca_guid, qpn);
	struct cm_id *old = qpn ? cm_peer_find_qp(cm, &peer) : NULL;
	char found[64];

	if (!old)
		return false;
	snprintf(found, sizeof(found), "QP 0x%06x", qpn);
	cm_report_refused(CAUSE_CM_REQ_STALE, message, &frame->source, found);
	reject_message(cm, frame, message, CM_REJECT_STALE, NULL, now);
	cm_disconnect(old, now);
	return true;
}

static void take_req(struct cm_id *id, const struct cm_message *req, const struct link_frame *frame)
{
	const struct cm_path *path = &req->path[0];

	id->passive = true;
	id->remote_id = req->local_id;
	id->transaction = req->transaction;
	id->service_id = req->service_id;
	cm_path_back(frame, &id->path);
	id->path.flow_label = path->flow_label;
	id->path.traffic_class = path->traffic_class;
	id->interval = cm_duration(req->local_response_timeout);
	id->max_retries = req->max_retries;
	if (cm_has_alternate(req))
		cm_take_alternate(id->cm, &req->path[1], req->mtu, &id->alternate);
	id->terms = (struct cm_terms){
		.qp_type = cm_req_qp_type(req),
		.mtu = req->mtu,
		.remote_qpn = req->qpn,
		.rq_psn = random_next(&id->cm->random) & PSN_MASK,
		.sq_psn = req->starting_psn,
		.responder_resources = req->initiator_depth,
		.initiator_depth = req->responder_resources,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		/* The path's life time and ours, as Linux counts. */
		.ack_timeout = path->ack_timeout ? path->ack_timeout : 1,
	};
	cm_watch_find_peer(id);
	cm_set_state(id, CM_STATE_REQ_RECEIVED);
}

/* Let @id be found by the sender of @message and by its QP from now on. 0 or ENOMEM. */
static int add_peer(struct cm_id *id, const struct cm_message *message, uint32_t qpn,
		    const struct link_frame *frame)
{
	struct cm_peer peer_id = peer_of(frame, message->ca_guid, message->local_id);
	struct cm_peer peer_qp = peer_of(frame, message->ca_guid, qpn);
	int error = cm_peer_add_id(id, &peer_id);

	if (!error && qpn)
		error = cm_peer_add_qp(id, &peer_qp);
	return error;
}

static void report_mtu(const struct cm_message *req, const struct link_frame *frame,
		       uint32_t netdev_mtu)
{
	char found[96];

	snprintf(found, sizeof(found), "path MTU %u; the network device with MTU %u carries %u",
		 req->mtu < IBV_MTU_256 ? 0 : mtu_bytes(req->mtu), netdev_mtu,
		 mtu_bytes(hca_mtu(netdev_mtu)));
	cm_report_refused(CAUSE_CM_REQ_MTU, req, &frame->source, found);
}

/* A listener's REQ, which is to go to the address at @place. Returns whether it was rejected. */
static bool rejects_req(struct cm *cm, const struct cm_message *req, const struct link_frame *frame,
			const struct gid_place *place, uint64_t now)
{
	enum cm_reject_reason injected = injects(cm->hca) ? inject_reject(cm->hca, CM_REQ) : 0;
	struct cm_alternate alternate;
	char text[INET6_ADDRSTRLEN];

	if (injected) {
		reject_message(cm, frame, req, injected, NULL, now);
		return true;
	}
	/* IBA 12.6.7.2, table 109: the application would only fail to accept it. */
	if (req->mtu < IBV_MTU_256 || req->mtu > hca_mtu(place->entry.mtu)) {
		report_mtu(req, frame, place->entry.mtu);
		reject_message(cm, frame, req, CM_REJECT_INVALID_MTU, NULL, now);
		return true;
	}
	if (cm_has_alternate(req) && !cm_take_alternate(cm, &req->path[1], req->mtu, &alternate)) {
		cm_report_refused(CAUSE_CM_REQ_ALTERNATE, req, &frame->source,
				  gid_to_text(&req->path[1].remote_gid, text));
		reject_message(cm, frame, req, CM_REJECT_INVALID_ALTERNATE_GID, &place->entry.gid,
			       now);
		return true;
	}
	return false;
}

/* The passive side's new id, and the listener's decision on it. */
static void accept_req(struct cm *cm, const struct cm_message *req, const struct link_frame *frame,
		       struct cm_id *listener, uint64_t now)
{
	struct cm_id *id = cm_id_new(cm, NULL);

	/* Without memory it is as if the REQ had been lost: the peer retransmits it. */
	if (!id)
		return;
	take_req(id, req, frame);
	if (add_peer(id, req, req->qpn, frame) != 0)
		cm_ignore(id);
	else
		cm_raise_request(id, CM_EVENT_REQ_RECEIVED, req, listener, now);
}

static void req_received(struct cm *cm, const struct cm_message *req,
			 const struct link_frame *frame, uint64_t now)
{
	char text[INET6_ADDRSTRLEN];
	struct cm_id *listener;
	struct gid_place place;

	if (!port_gids_find(&cm->hca->gids, &req->path[0].remote_gid, &place)) {
		cm_report_refused(CAUSE_CM_REQ_GID, req, &frame->source,
				  gid_to_text(&req->path[0].remote_gid, text));
		/* IBA 12.6.7.2: one that is acceptable. */
		reject_message(cm, frame, req, CM_REJECT_INVALID_GID, &frame->destination, now);
		return;
	}
	if (reject_stale(cm, req, req->qpn, frame, now))
		return;
	listener = cm_find_listener(cm, req->service_id, &frame->destination, false);
	if (!listener && cm_pending_add(cm, req, frame, now))
		return;
	if (!listener) {
		cm_report_no_listener(cm, req, frame);
		reject_message(cm, frame, req, CM_REJECT_INVALID_SERVICE_ID, NULL, now);
		return;
	}
	if (!rejects_req(cm, req, frame, &place, now))
		accept_req(cm, req, frame, listener, now);
}

/* A duplicate of a REQ or REP that the application hasn't answered yet: an MRA asks for time. */
static void ask_for_time(struct cm_id *id, const struct cm_message *message,
			 const struct link_frame *frame, uint64_t now)
{
	cm_report_delay(id, CAUSE_CM_APPLICATION_DELAYS, cm_duration(SERVICE_TIMEOUT));
	cm_mra(id, SERVICE_TIMEOUT, now);
}

static void req_duplicate(struct cm_id *id, const struct cm_message *req,
			  const struct link_frame *frame, uint64_t now)
{
	cm_retransmit(id, now);
}

static void req_too_late(struct cm_id *id, const struct cm_message *req,
			 const struct link_frame *frame, uint64_t now)
{
	reject_message(id->cm, frame, req, CM_REJECT_STALE, NULL, now);
}

/* --- MRA ------------------------------------------------------------------------------ */

/*
 * IBA 12.7.2: the answer takes this long. The message is retransmitted only then, and as Linux has
 * it (ib_modify_mad()) each copy waits as long: the peer's application may take all of the retries.
 */
static void wait_longer(struct cm_id *id, const struct cm_message *mra, enum cm_state state,
			uint64_t now)
{
	cm_report_delay(id, CAUSE_CM_PEER_DELAYS, cm_duration(mra->service_timeout));
	cm_raise(id, CM_EVENT_MRA_RECEIVED, mra);
	cm_set_state(id, state);
	id->wait = cm_duration(mra->service_timeout) + cm_duration(id->terms.ack_timeout);
	cm_set_deadline(id, now + id->wait);
}

static void req_takes_longer(struct cm_id *id, const struct cm_message *mra,
			     const struct link_frame *frame, uint64_t now)
{
	if (mra->answered == CM_ANSWERED_REQ)
		wait_longer(id, mra, CM_STATE_MRA_REQ_RECEIVED, now);
}

static void rep_takes_longer(struct cm_id *id, const struct cm_message *mra,
			     const struct link_frame *frame, uint64_t now)
{
	if (mra->answered == CM_ANSWERED_REP)
		wait_longer(id, mra, CM_STATE_MRA_REP_RECEIVED, now);
}

static void lap_takes_longer(struct cm_id *id, const struct cm_message *mra,
			     const struct link_frame *frame, uint64_t now)
{
	if (mra->answered == CM_ANSWERED_OTHER && id->lap_sent)
		wait_longer(id, mra, CM_STATE_ESTABLISHED, now);
}

/* --- REP, RTU -------------------------------------------------------------------------- */

static void rep_received(struct cm_id *id, const struct cm_message *rep,
			 const struct link_frame *frame, uint64_t now)
{
	struct cm_peer peer = peer_of(frame, rep->ca_guid, rep->local_id);
	uint8_t life_time = id->terms.ack_timeout - 1;
	uint32_t qpn = cm_rep_qpn(id, rep);

	if (cm_peer_find_id(id->cm, &peer) || reject_stale(id->cm, rep, qpn, frame, now))
		return;
	if (injects(id->cm->hca) && inject_unreachable(id->cm->hca)) {
		cm_give_up(id, now);
		return;
	}
	if (add_peer(id, rep, qpn, frame) != 0) {
		cm_peer_remove_id(id);
		return;
	}
	/* As an application does that can't bring its QP to RTS: in the place of the RTU. */
	if (injects(id->cm->hca))
		id->injected = inject_reject(id->cm->hca, CM_REP);
	cm_raise(id, CM_EVENT_REP_RECEIVED, rep);
	cm_set_state(id, CM_STATE_REP_RECEIVED);
	id->remote_id = rep->local_id;
	id->transaction = rep->transaction;
	id->terms.remote_qpn = qpn;
	cm_watch_find_peer(id);
	id->terms.sq_psn = rep->starting_psn;
	id->terms.responder_resources = rep->initiator_depth;
	id->terms.initiator_depth = rep->responder_resources;
	id->terms.rnr_retry_count = rep->rnr_retry_count;
	id->terms.ack_timeout = cm_ack_timeout(rep->ack_delay, life_time);
	id->alternate.ack_timeout = id->terms.ack_timeout;
	/* IBA 12.6.8: 0 is accepted; the peer goes on without. */
	id->alternate.known &= rep->failover == 0;
	cm_set_deadline(id, TIME_NEVER);
}

/* The MRA was lost. */
static void rep_duplicate(struct cm_id *id, const struct cm_message *rep,
			  const struct link_frame *frame, uint64_t now)
{
	cm_retransmit(id, now);
}

/* The RTU was lost. */
static void rep_unconfirmed(struct cm_id *id, const struct cm_message *rep,
			    const struct link_frame *frame, uint64_t now)
{
	if (!id->passive)
		cm_retransmit_rtu(id, rep->transaction, now);
}

static void rtu_received(struct cm_id *id, const struct cm_message *rtu,
			 const struct link_frame *frame, uint64_t now)
{
	cm_raise(id, CM_EVENT_RTU_RECEIVED, rtu);
	cm_set_state(id, CM_STATE_ESTABLISHED);
	cm_set_deadline(id, TIME_NEVER);
	cm_watch_peer(id);
}

/* --- REJ ------------------------------------------------------------------------------- */

static void rejected_late(struct cm_id *id, const struct cm_message *rej,
			  const struct link_frame *frame, uint64_t now)
{
	cm_report_rejected(id, rej);
	cm_raise(id, CM_EVENT_REJ_RECEIVED, rej);
	cm_enter_timewait(id, now);
}

/* Not of a LAP, as Linux has it. */
static void rejected_established(struct cm_id *id, const struct cm_message *rej,
				 const struct link_frame *frame, uint64_t now)
{
	if (!id->lap_sent)
		rejected_late(id, rej, frame, now);
}

static void rejected(struct cm_id *id, const struct cm_message *rej, const struct link_frame *frame,
		     uint64_t now)
{
	if (rej->reason == CM_REJECT_STALE) {
		rejected_late(id, rej, frame, now);
		return;
	}
	if (id->state == CM_STATE_REQ_SENT && rej->reason == CM_REJECT_INVALID_SERVICE_ID &&
	    cm_retry_after_reject(id, now))
		return;
	cm_report_rejected(id, rej);
	cm_raise(id, CM_EVENT_REJ_RECEIVED, rej);
	cm_enter_idle(id);
}

/* --- DREQ, DREP ------------------------------------------------------------------------- */

static void dreq_received(struct cm_id *id, const struct cm_message *dreq,
			  const struct link_frame *frame, uint64_t now)
{
	if (dreq->qpn != id->terms.local_qpn)
		return;
	cm_raise(id, CM_EVENT_DREQ_RECEIVED, dreq);
	cm_set_state(id, CM_STATE_DREQ_RECEIVED);
	id->transaction = dreq->transaction;
	cm_set_deadline(id, TIME_NEVER);
	if (id->abandoned)
		cm_confirm_disconnect(id, now);
}

static void dreq_duplicate(struct cm_id *id, const struct cm_message *dreq,
			   const struct link_frame *frame, uint64_t now)
{
	if (dreq->qpn == id->terms.local_qpn)
		cm_retransmit_drep(id, dreq->transaction, now);
}

static void drep_received(struct cm_id *id, const struct cm_message *drep,
			  const struct link_frame *frame, uint64_t now)
{
	cm_raise(id, CM_EVENT_DREP_RECEIVED, drep);
	cm_enter_timewait(id, now);
}

/* --- the machine ------------------------------------------------------------------------- */

typedef void (*handler)(struct cm_id *id, const struct cm_message *message,
			const struct link_frame *frame, uint64_t now);

#define MESSAGES (CM_APR - CM_REQ + 1)

/* clang-format off */
static const handler machine[CM_STATE_COUNT][MESSAGES] = {
	/* the active side */
	[CM_STATE_REQ_SENT] = {
		ON(MRA) = req_takes_longer,
		ON(REP) = rep_received,
		ON(REJ) = rejected,
	},
	[CM_STATE_MRA_REQ_RECEIVED] = {
		ON(REP) = rep_received,
		ON(REJ) = rejected,
	},
	[CM_STATE_REP_RECEIVED] = {
		ON(REP) = ask_for_time,
		ON(REJ) = rejected_late,
	},
	[CM_STATE_MRA_REP_SENT] = {
		ON(REP) = rep_duplicate,
		ON(REJ) = rejected_late,
	},

	/* the passive side */
	[CM_STATE_REQ_RECEIVED] = {
		ON(REQ) = ask_for_time,
		ON(REJ) = rejected,
	},
	[CM_STATE_MRA_REQ_SENT] = {
		ON(REQ) = req_duplicate,
		ON(REJ) = rejected,
	},
	[CM_STATE_REP_SENT] = {
		ON(MRA) = rep_takes_longer,
		ON(RTU) = rtu_received,
		ON(REJ) = rejected,
		ON(DREQ) = dreq_received,
	},
	[CM_STATE_MRA_REP_RECEIVED] = {
		ON(RTU) = rtu_received,
		ON(REJ) = rejected,
		ON(DREQ) = dreq_received,
	},

	/* both */
	[CM_STATE_ESTABLISHED] = {
		ON(REP) = rep_unconfirmed,
		ON(REJ) = rejected_established,
		ON(DREQ) = dreq_received,
		ON(MRA) = lap_takes_longer,
		ON(LAP) = cm_lap_received,
		ON(APR) = cm_apr_received,
	},
	[CM_STATE_DREQ_SENT] = {
		ON(REJ) = rejected_late,
		ON(DREQ) = dreq_received,
		ON(DREP) = drep_received,
	},
	[CM_STATE_DREQ_RECEIVED] = {
		ON(DREP) = drep_received,
	},
	[CM_STATE_TIMEWAIT] = {
		ON(REQ) = req_too_late,
		ON(DREQ) = dreq_duplicate,
	},

	/* datagrams */
	[CM_STATE_SIDR_REQ_SENT] = {
		ON(SIDR_REP) = cm_sidr_reply_received,
	},
};

/* What comes for no id that there is. */
static void (*const unknown[MESSAGES])(struct cm *cm, const struct cm_message *message,
				       const struct link_frame *frame, uint64_t now) = {
	ON(REQ) = req_received,
	ON(REJ) = cm_pending_withdraw,
	ON(DREQ) = confirm_unknown,
	ON(SIDR_REQ) = cm_sidr_request_received,
	ON(LAP) = lap_unknown,
};
/* clang-format on */

/* --- the id of a message ------------------------------------------------------------------ */

/* The sender's comm id must be the peer's, unless the peer hasn't said its own yet. */
static struct cm_id *find_by_ids(struct cm *cm, const struct cm_message *message,
				 const struct link_frame *frame)
{
	struct cm_id *id = cm_id_find(cm, message->remote_id);

	if (!id || id->state == CM_STATE_IDLE ||
	    (id->remote_id && id->remote_id != message->local_id))
		return NULL;
	return id;
}

static struct cm_id *find_by_sender(struct cm *cm, const struct cm_message *message,
				    const struct link_frame *frame)
{
	struct cm_peer peer = peer_of(frame, message->ca_guid, message->local_id);

	return cm_peer_find_id(cm, &peer);
}

/* IBA 12.6.7.2: a peer that gives up on us needn't have got our comm id. */
static struct cm_id *find_rejected(struct cm *cm, const struct cm_message *rej,
				   const struct link_frame *frame)
{
	__be64 guid;
	struct cm_peer peer;
	struct cm_id *id;

	if (rej->reason == CM_REJECT_TIMEOUT) {
		memcpy(&guid, rej->info, sizeof(guid));
		peer = peer_of(frame, be64toh(guid), rej->local_id);
		id = cm_peer_find_id(cm, &peer);
		if (id)
			return id;
	}
	return find_by_ids(cm, rej, frame);
}

/* The application hasn't answered the first copy yet. */
static struct cm_id *find_by_requester(struct cm *cm, const struct cm_message *request,
				       const struct link_frame *frame)
{
	struct cm_peer peer = cm_requester(frame, request);

	return cm_peer_find_id(cm, &peer);
}

static struct cm_id *find_by_request(struct cm *cm, const struct cm_message *rep,
				     const struct link_frame *frame)
{
	return cm_id_find(cm, rep->local_id);
}

static struct cm_id *(*const finders[MESSAGES])(struct cm *cm, const struct cm_message *message,
						const struct link_frame *frame) = {
	ON(REQ) = find_by_sender,	ON(MRA) = find_by_ids,
	ON(REJ) = find_rejected,	ON(REP) = find_by_ids,
	ON(RTU) = find_by_ids,		ON(DREQ) = find_by_ids,
	ON(DREP) = find_by_ids,		ON(LAP) = find_by_ids,
	ON(APR) = find_by_ids,		ON(SIDR_REQ) = find_by_requester,
	ON(SIDR_REP) = find_by_request,
};

/*
 * Of the HCAs that share an address any may be given what comes for QP 1. Hand @frame on to the one
 * that has the id or listens for the service. Returns whether there is another one that does.
 */
static bool forward_message(struct cm *cm, const struct link_frame *frame)
{
	struct share *share = cm->hca->link->share;

	return share && share->ops->forward(share, frame);
}

void cm_dispatch(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		 uint64_t now)
{
	unsigned int number = message->attribute - CM_REQ;
	struct cm_id *id = finders[number](cm, message, frame);

	log_debug("cm %08x: receive %s", id ? id->local_id : 0,
		  cm_attribute_name(message->attribute));
	if (id) {
		if (machine[id->state][number])
			machine[id->state][number](id, message, frame, now);
		cm_reap(id);
	} else if (!forward_message(cm, frame) && unknown[number]) {
		unknown[number](cm, message, frame, now);
	}
}

void cm_receive(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		uint64_t now)
{
	pthread_mutex_lock(&cm->lock);
	cm_dispatch(cm, message, frame, now);
	pthread_mutex_unlock(&cm->lock);
}
