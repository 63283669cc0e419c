/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection says of its QP's attributes (Linux: ib_cm_init_qp_attr), and how its messages
 * name the QP: an initiator of XRC (XRC_SEND) asks for a target (XRC_RECV), which answers by its
 * EE context number (tables 106 and 110).
 */
#include "emu/capacity.h"
#include "emu/cm/cm_internal.h"
#include "emu/hca.h"
#include "emu/objects/pd.h"
#include "net/newer_verbs.h"

/* Once the peer's message is here; the passive side may go to RTS before it sends its REP. */
#define STATES_READY                                                                               \
	(STATE(REQ_RECEIVED) | STATE(MRA_REQ_SENT) | STATE(REP_SENT) | STATE(MRA_REP_RECEIVED) |   \
	 STATE(REP_RECEIVED) | STATE(MRA_REP_SENT) | STATE(ESTABLISHED))

/* --- in messages ------------------------------------------------------------------------- */

enum { EXTENDED_XRC = 1 }; /* Extended Transport Type */

int cm_req_qp_type(const struct cm_message *req)
{
	switch (req->transport) {
	case CM_TRANSPORT_RC:
		return IBV_QPT_RC;
	case CM_TRANSPORT_UC:
		return IBV_QPT_UC;
	case CM_TRANSPORT_EXTENDED:
		return req->extended_transport == EXTENDED_XRC ? IBV_QPT_XRC_RECV : -1;
	default:
		return -1;
	}
}

/* An XRC_SEND QP gets no requests: its REQ leaves out what is about those of the peer. */
void cm_set_req_qp(struct cm_message *req, const struct cm_request *request)
{
	req->qpn = request->qpn;
	req->initiator_depth = request->initiator_depth;
	if (request->qp_type == IBV_QPT_XRC_SEND) {
		req->transport = CM_TRANSPORT_EXTENDED;
		req->extended_transport = EXTENDED_XRC;
		return;
	}
	req->transport = request->qp_type == IBV_QPT_UC ? CM_TRANSPORT_UC : CM_TRANSPORT_RC;
	req->responder_resources = request->responder_resources;
	req->retry_count = request->retry_count;
	req->rnr_retry_count = request->rnr_retry_count;
	req->srq = request->srq;
}

void cm_set_rep_qp(const struct cm_id *id, struct cm_message *rep, const struct cm_reply *reply)
{
	rep->responder_resources = reply->responder_resources;
	rep->rnr_retry_count = reply->rnr_retry_count;
	if (id->terms.qp_type == IBV_QPT_XRC_RECV) {
		rep->eecn = reply->qpn;
		rep->srq = 1;
		return;
	}
	rep->qpn = reply->qpn;
	rep->initiator_depth = reply->initiator_depth;
	rep->flow_control = reply->flow_control;
	rep->srq = reply->srq;
}

uint32_t cm_rep_qpn(const struct cm_id *id, const struct cm_message *rep)
{
	return id->terms.qp_type == IBV_QPT_XRC_SEND ? rep->eecn : rep->qpn;
}

/* --- attributes -------------------------------------------------------------------------- */

uint8_t cm_ack_timeout(uint8_t ca_ack_delay, uint8_t packet_life_time)
{
	/* Twice the way, and the CA's delay; sums of powers of two, rounded up. */
	unsigned int way = packet_life_time + 1, delay = ca_ack_delay, timeout;

	if (way >= delay)
		timeout = way + (delay + 1 >= way);
	else
		timeout = delay + (way + 1 >= delay);
	return timeout < 31 ? timeout : 31;
}

static void init_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	struct gid_place source;

	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->terms.responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (id->terms.responder_resources && capacity_has(id->cm->hca, DEVICE_FLUSH_GLOBAL))
		attr->qp_access_flags |= ACCESS_FLUSH_GLOBAL;
	attr->pkey_index = 0;
	port_gids_find(&id->cm->hca->gids, &id->path.source, &source);
	attr->port_num = source.port_num;
}

static void rtr_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	attr->ah_attr = path_ah_attr(&id->path, &id->cm->hca->gids);
	attr->path_mtu = id->terms.mtu;
	attr->dest_qp_num = id->terms.remote_qpn;
	attr->rq_psn = id->terms.rq_psn;
	if (id->alternate.known) {
		*mask |= IBV_QP_ALT_PATH;
		cm_alternate_attr(id->cm, &id->alternate, attr);
	}
	if (id->terms.qp_type == IBV_QPT_UC || id->terms.qp_type == IBV_QPT_XRC_SEND)
		return;
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	attr->max_dest_rd_atomic = id->terms.responder_resources;
	attr->min_rnr_timer = 0;
}

static void rts_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	attr->sq_psn = id->terms.sq_psn;
	if (id->alternate.known) {
		*mask |= IBV_QP_PATH_MIG_STATE;
		attr->path_mig_state = IBV_MIG_REARM;
	}
	if (id->terms.qp_type == IBV_QPT_UC)
		return;
	*mask |= IBV_QP_TIMEOUT;
	attr->timeout = id->terms.ack_timeout;
	if (id->terms.qp_type == IBV_QPT_XRC_RECV)
		return;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	attr->retry_cnt = id->terms.retry_count;
	attr->rnr_retry = id->terms.rnr_retry_count;
	attr->max_rd_atomic = id->terms.initiator_depth;
}

static const struct step {
	uint32_t states;
	void (*fill)(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask);
} steps[] = {
	[IBV_QPS_INIT] = {STATES_READY | STATE(REQ_SENT) | STATE(MRA_REQ_RECEIVED), init_attr},
	[IBV_QPS_RTR] = {STATES_READY, rtr_attr},
	[IBV_QPS_RTS] = {STATES_READY, rts_attr},
};

int cm_qp_attr(struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	unsigned int state = attr->qp_state;
	int error = EINVAL;

	if (state >= sizeof(steps) / sizeof(steps[0]))
		return EINVAL;
	pthread_mutex_lock(&id->cm->lock);
	if (cm_is_in(id, steps[state].states)) {
		steps[state].fill(id, attr, mask);
		error = 0;
	}
	pthread_mutex_unlock(&id->cm->lock);
	return error;
}
