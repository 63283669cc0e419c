/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the application sends to make and to end a connection (IBA 12.9.5 to
 * 12.9.8). Each function checks that the state allows its message, fills it in
 * as Linux does, and moves the state.
 */
#include "emu/cm/cm.h"
#include "emu/cm/cm_internal.h"
#include "emu/cm/gsi.h"
#include "emu/hca.h"
#include "net/random.h"

#define MAX_RETRIES 15 /* Linux: CMA_MAX_CM_RETRIES */

/* Before there is a REP that the peer may believe in, and with it. */
#define STATES_UNANSWERED                                                                          \
	(STATE(REQ_SENT) | STATE(MRA_REQ_RECEIVED) | STATE(REQ_RECEIVED) | STATE(MRA_REQ_SENT) |   \
	 STATE(REP_RECEIVED) | STATE(MRA_REP_SENT))
#define STATES_REPLIED (STATE(REP_SENT) | STATE(MRA_REP_RECEIVED))

/* The other half of the machine in cm_receive.c: in which states each message may be sent. */
static const uint32_t sending_states[] = {
	ON(REQ) = STATE(IDLE),
	ON(MRA) = STATE(REQ_RECEIVED) | STATE(REP_RECEIVED),
	ON(REJ) = STATES_UNANSWERED | STATES_REPLIED,
	ON(REP) = STATE(REQ_RECEIVED) | STATE(MRA_REQ_SENT),
	ON(RTU) = STATE(REP_RECEIVED) | STATE(MRA_REP_SENT),
	ON(DREQ) = STATE(ESTABLISHED),
	ON(LAP) = STATE(ESTABLISHED),
	ON(DREP) = STATE(DREQ_RECEIVED),
	ON(SIDR_REQ) = STATE(IDLE),
	ON(SIDR_REP) = STATE(SIDR_REQ_RECEIVED),
};

bool cm_may_send(const struct cm_id *id, enum cm_attribute message)
{
	return cm_is_in(id, sending_states[message - CM_REQ]);
}

static uint32_t random_psn(struct cm *cm)
{
	return random_next(&cm->random) & PSN_MASK;
}

/* --- REQ ---------------------------------------------------------------------------- */

static void set_terms(struct cm_id *id, const struct cm_request *request)
{
	id->path = request->path;
	id->service_id = request->service_id;
	id->max_retries = MAX_RETRIES;
	id->interval =
		2 * cm_duration(request->packet_life_time) + cm_duration(CM_RESPONSE_TIMEOUT);
	id->terms = (struct cm_terms){
		.qp_type = request->qp_type,
		.mtu = request->mtu,
		.local_qpn = request->qpn,
		.rq_psn = random_psn(id->cm),
		.responder_resources = request->responder_resources,
		.initiator_depth = request->initiator_depth,
		.retry_count = request->retry_count,
		.ack_timeout = request->packet_life_time + 1,
	};
	if (request->alternate)
		id->alternate = (struct cm_alternate){.known = true, .path = *request->alternate};
}

static void set_req(const struct cm_id *id, const struct cm_request *request,
		    struct cm_message *req)
{
	cm_begin(id, req, CM_REQ);
	req->modifier = request->options;
	req->vendor_id = request->vendor_id;
	req->service_id = request->service_id;
	req->ca_guid = id->cm->hca->node_guid;
	cm_set_req_qp(req, request);
	req->remote_response_timeout = CM_RESPONSE_TIMEOUT;
	req->local_response_timeout = CM_RESPONSE_TIMEOUT;
	req->flow_control = request->flow_control;
	req->starting_psn = id->terms.rq_psn;
	req->pkey = PKEY_DEFAULT;
	req->mtu = request->mtu;
	req->max_retries = MAX_RETRIES;
	cm_describe_path(id, &request->path, request->packet_life_time, &req->path[0]);
	if (request->alternate)
		cm_describe_path(id, request->alternate, request->packet_life_time, &req->path[1]);
}

static int send_req(struct cm_id *id, const struct cm_request *request, uint64_t now)
{
	struct cm_message req;
	int error;

	if (!cm_may_send(id, CM_REQ))
		return EINVAL;
	set_terms(id, request);
	id->transaction = 0;
	set_req(id, request, &req);
	error = cm_set_private(&req, request->private_data, request->private_length);
	if (error)
		return error;
	id->passive = false;
	cm_set_state(id, CM_STATE_REQ_SENT);
	cm_post_waiting(id, &req, now);
	return 0;
}

/* --- REP, RTU, MRA ------------------------------------------------------------------- */

static int send_rep(struct cm_id *id, const struct cm_reply *reply, uint64_t now)
{
	struct cm_message rep;
	int error;

	if (!cm_may_send(id, CM_REP))
		return EINVAL;
	cm_begin(id, &rep, CM_REP);
	error = cm_set_private(&rep, reply->private_data, reply->private_length);
	if (error)
		return error;
	rep.modifier = reply->options;
	rep.vendor_id = reply->vendor_id;
	cm_set_rep_qp(id, &rep, reply);
	rep.starting_psn = id->terms.rq_psn;
	rep.ack_delay = id->cm->hca->limits.device.local_ca_ack_delay;
	rep.ca_guid = id->cm->hca->node_guid;
	id->terms.local_qpn = reply->qpn;
	id->terms.responder_resources = reply->responder_resources;
	id->terms.initiator_depth = reply->initiator_depth;
	cm_set_state(id, CM_STATE_REP_SENT);
	cm_post_waiting(id, &rep, now);
	return 0;
}

static int send_rtu(struct cm_id *id, uint64_t now)
{
	struct cm_message rtu;

	if (!cm_may_send(id, CM_RTU))
		return EINVAL;
	if (id->injected) {
		cm_reject(id, id->injected, NULL, 0, now);
		return ECONNREFUSED;
	}
	cm_begin(id, &rtu, CM_RTU);
	cm_set_state(id, CM_STATE_ESTABLISHED);
	cm_post(id, &rtu, now);
	cm_watch_peer(id);
	return 0;
}

void cm_retransmit_rtu(struct cm_id *id, uint64_t transaction, uint64_t now)
{
	struct cm_message rtu;
	uint8_t mad[MAD_LENGTH];

	cm_begin(id, &rtu, CM_RTU);
	rtu.transaction = transaction;
	cm_message_encode(&rtu, mad);
	gsi_send(id->cm->hca, &id->path, mad, now);
}

int cm_mra(struct cm_id *id, uint8_t service_timeout, uint64_t now)
{
	bool passive = cm_is_in(id, STATE(REQ_RECEIVED));
	struct cm_message mra;

	if (!cm_may_send(id, CM_MRA))
		return EINVAL;
	cm_begin(id, &mra, CM_MRA);
	mra.answered = passive ? CM_ANSWERED_REQ : CM_ANSWERED_REP;
	mra.service_timeout = service_timeout;
	cm_set_state(id, passive ? CM_STATE_MRA_REQ_SENT : CM_STATE_MRA_REP_SENT);
	cm_post(id, &mra, now);
	return 0;
}

/* --- REJ ----------------------------------------------------------------------------- */

static enum cm_answered rejected_message(const struct cm_id *id)
{
	if (cm_is_in(id, STATE(REQ_RECEIVED) | STATE(MRA_REQ_SENT)))
		return CM_ANSWERED_REQ;
	if (cm_is_in(id, STATE(REP_RECEIVED) | STATE(MRA_REP_SENT)))
		return CM_ANSWERED_REP;
	return CM_ANSWERED_OTHER;
}

int cm_reject(struct cm_id *id, enum cm_reject_reason reason, const void *private_data,
	      uint8_t length, uint64_t now)
{
	__be64 guid = htobe64(id->cm->hca->node_guid);
	struct cm_message rej;
	int error;

	if (!cm_may_send(id, CM_REJ))
		return EINVAL;
	cm_begin(id, &rej, CM_REJ);
	error = cm_set_private(&rej, private_data, length);
	if (error)
		return error;
	rej.answered = rejected_message(id);
	rej.reason = reason;
	/* IBA 12.6.7.2: a silent peer may never have got our comm id; it knows us by the GUID. */
	if (reason == CM_REJECT_TIMEOUT) {
		memcpy(rej.info, &guid, sizeof(guid));
		rej.info_length = sizeof(guid);
	}
	cm_post(id, &rej, now);
	if (cm_is_in(id, STATES_REPLIED))
		cm_enter_timewait(id, now);
	else
		cm_enter_idle(id);
	return 0;
}

/* --- DREQ, DREP ----------------------------------------------------------------------- */

int cm_disconnect(struct cm_id *id, uint64_t now)
{
	struct cm_message dreq;

	if (!cm_may_send(id, CM_DREQ))
		return EINVAL;
	id->transaction = 0;
	cm_begin(id, &dreq, CM_DREQ);
	dreq.qpn = id->terms.remote_qpn;
	cm_set_state(id, CM_STATE_DREQ_SENT);
	cm_post_waiting(id, &dreq, now);
	return 0;
}

void cm_retransmit_drep(struct cm_id *id, uint64_t transaction, uint64_t now)
{
	struct cm_message drep;

	cm_begin(id, &drep, CM_DREP);
	drep.transaction = transaction;
	cm_post(id, &drep, now);
}

int cm_confirm_disconnect(struct cm_id *id, uint64_t now)
{
	if (!cm_may_send(id, CM_DREP))
		return EINVAL;
	cm_retransmit_drep(id, id->transaction, now);
	cm_enter_timewait(id, now);
	return 0;
}

/* --- the RTU that doesn't come ---------------------------------------------------------- */

static int notify(struct cm_id *id)
{
	if (cm_is_in(id, STATE(ESTABLISHED)))
		return EISCONN;
	if (!cm_is_in(id, STATES_REPLIED))
		return EINVAL;
	cm_raise(id, CM_EVENT_USER_ESTABLISHED, NULL);
	cm_set_state(id, CM_STATE_ESTABLISHED);
	cm_set_deadline(id, TIME_NEVER);
	cm_watch_peer(id);
	return 0;
}

/* --- the functions of cm.h ---------------------------------------------------------------- */

#define LOCKED(id, call)                                                                           \
	({                                                                                         \
		struct cm *locked_cm = (id)->cm;                                                   \
		int result;                                                                        \
                                                                                                   \
		pthread_mutex_lock(&locked_cm->lock);                                              \
		result = call;                                                                     \
		pthread_mutex_unlock(&locked_cm->lock);                                            \
		result;                                                                            \
	})

int cm_send_req(struct cm_id *id, const struct cm_request *request, uint64_t now)
{
	return LOCKED(id, send_req(id, request, now));
}

int cm_send_rep(struct cm_id *id, const struct cm_reply *reply, uint64_t now)
{
	return LOCKED(id, send_rep(id, reply, now));
}

int cm_send_rtu(struct cm_id *id, uint64_t now)
{
	return LOCKED(id, send_rtu(id, now));
}

int cm_send_mra(struct cm_id *id, uint8_t service_timeout, uint64_t now)
{
	return LOCKED(id, cm_mra(id, service_timeout, now));
}

int cm_send_rej(struct cm_id *id, enum cm_reject_reason reason, const void *private_data,
		uint8_t length, uint64_t now)
{
	return LOCKED(id, cm_reject(id, reason, private_data, length, now));
}

int cm_send_dreq(struct cm_id *id, uint64_t now)
{
	return LOCKED(id, cm_disconnect(id, now));
}

int cm_send_drep(struct cm_id *id, uint64_t now)
{
	return LOCKED(id, cm_confirm_disconnect(id, now));
}

int cm_send_lap(struct cm_id *id, const struct path *path, uint8_t packet_life_time, uint64_t now)
{
	return LOCKED(id, cm_lap(id, path, packet_life_time, now));
}

int cm_send_sidr_req(struct cm_id *id, const struct path *path, uint64_t service_id,
		     const void *private_data, uint8_t length, uint64_t now)
{
	return LOCKED(id, cm_sidr_request(id, path, service_id, private_data, length, now));
}

int cm_send_sidr_rep(struct cm_id *id, const struct cm_service_reply *reply, uint64_t now)
{
	return LOCKED(id, cm_sidr_reply(id, reply, now));
}

int cm_notify(struct cm_id *id)
{
	return LOCKED(id, notify(id));
}
