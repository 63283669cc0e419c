/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP and the SRQ of an id: creating them with what else they need, and the
 * QP's way through its states, which the application leaves to the connection
 * manager. As with an id's other verbs objects, the application calls these for
 * one id from one thread at a time; rdma.lock isn't needed for the QP itself.
 */
#include <string.h>

#include "net/cause/cause.h"
#include "verbs/context.h"
#include "verbs/rdma/rdma.h"

/* --- completion queues that the application didn't bring ------------------------- */

/* A CQ that the id's QP or SRQ still uses stays; it is destroyed when that is. */
static void destroy_queue(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq && ibv_destroy_cq(*cq) != 0)
		return;
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static int create_queue(struct rdma_cm_id *id, uint32_t size, struct ibv_comp_channel **channel,
			struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (*channel)
		*cq = ibv_create_cq(id->verbs, size ? size : 1, id, *channel, 0);
	if (*cq)
		return 0;
	destroy_queue(channel, cq);
	return -1;
}

static void destroy_queues(struct rdma_cm_id *id)
{
	/*
	 * An SRQ of XRC may complete to it: to try in vain would be reported, as the application's.
	 */
	if (!id->srq || to_srq(id->srq)->cq != to_cq(id->recv_cq))
		destroy_queue(&id->recv_cq_channel, &id->recv_cq);
	destroy_queue(&id->send_cq_channel, &id->send_cq);
}

/* --- QPs ------------------------------------------------------------------------- */

/*
 * Before there is anything to connect to, whatever state is asked for. Datagram QPs have nothing
 * else (Linux: cma_init_ud_qp()).
 */
static void initial_attr(const struct rdma_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->pkey_index = 0;
	attr->port_num = id->ibv.port_num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id->ibv.qp_type == IBV_QPT_UD) {
		attr->qkey = id->qkey ? id->qkey : RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
	} else {
		attr->qp_access_flags = 0;
		*mask |= IBV_QP_ACCESS_FLAGS;
	}
}

/* What the id isn't, but has to be for a QP's way to @state. */
static const char *needed_for(const struct rdma_cm_id *ibv, enum ibv_qp_state state)
{
	if (!ibv->verbs)
		return "bound to a device";
	if (state == IBV_QPS_INIT)
		return "a connection that the peer hasn't given up";
	return "a connection whose peer has sent its REQ or REP";
}

int urxe_rdma_init_qp_attr(struct rdma_cm_id *ibv, struct ibv_qp_attr *attr, int *mask)
{
	struct rdma_id *id = to_rdma_id(ibv);
	int error = 0;

	rdma_enter();
	if (!ibv->verbs)
		error = EINVAL;
	else if (id->cm && ibv->qp_type != IBV_QPT_UD)
		error = cm_qp_attr(id->cm, attr, mask);
	else if (ibv->qp_type == IBV_QPT_UD || id->state != RDMA_STATE_LISTEN)
		initial_attr(id, attr, mask);
	else
		error = EINVAL;
	if (error)
		rdma_refuse_state(id, "rdma_init_qp_attr()", needed_for(ibv, attr->qp_state));
	if (!error && *mask & IBV_QP_TIMEOUT && id->ack_timeout_set)
		attr->timeout = id->ack_timeout;
	rdma_leave();
	return error ? rdma_fail(error) : 0;
}

static int modify(struct rdma_id *id, struct ibv_qp *qp, enum ibv_qp_state state,
		  uint8_t responder_resources, uint8_t initiator_depth)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (urxe_rdma_init_qp_attr(&id->ibv, &attr, &mask) != 0)
		return errno;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && responder_resources != RDMA_MAX_RESP_RES)
		attr.max_dest_rd_atomic = responder_resources;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && initiator_depth != RDMA_MAX_INIT_DEPTH)
		attr.max_rd_atomic = initiator_depth;
	return ibv_modify_qp(qp, &attr, mask);
}

int rdma_qp_connect(struct rdma_id *id, uint8_t responder_resources, uint8_t initiator_depth)
{
	/* Once more into INIT: only now the access rights are known. */
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		int error = modify(id, id->ibv.qp, states[i], responder_resources, initiator_depth);

		if (error)
			return error;
	}
	return 0;
}

int rdma_qp_error(struct rdma_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return id->ibv.qp ? ibv_modify_qp(id->ibv.qp, &attr, IBV_QP_STATE) : 0;
}

static int initialize_datagram(struct rdma_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int error;

	error = modify(id, qp, IBV_QPS_INIT, 0, 0);
	if (!error)
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!error)
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return error;
}

/* Whether another CQ is @given than the id has: its QP can only use the id's. */
static bool is_another(const struct ibv_cq *ours, const struct ibv_cq *given)
{
	return ours && given && ours != given;
}

/* The objects that @attr doesn't name are the id's: its own, or those of its device. */
static int set_domains(struct rdma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->ibv.pd;
	}
	if (attr->pd->context != id->ibv.verbs)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_PD,
					"rdma_create_qp(): the protection domain is of another "
					"context of %s",
					attr->pd->context->device->name));
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return 0;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		attr->xrcd = rdma_default_xrcd(id);
	}
	return attr->xrcd ? 0 : -1;
}

/* A CQ each for sending and receiving, if the type does that: @attr's, the id's, or a new one. */
static int set_queues(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	bool sends = attr->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && attr->qp_type != IBV_QPT_XRC_SEND;

	if (is_another(id->recv_cq, attr->recv_cq) || is_another(id->send_cq, attr->send_cq))
		return rdma_fail(
			refuse(EINVAL, CAUSE_CM_CQ,
			       "rdma_create_qp(): %s is given, and the id has another one",
			       is_another(id->recv_cq, attr->recv_cq) ? "recv_cq" : "send_cq"));
	if (receives && !attr->recv_cq && !id->recv_cq &&
	    create_queue(id, attr->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq) != 0)
		return -1;
	if (sends && !attr->send_cq && !id->send_cq &&
	    create_queue(id, attr->cap.max_send_wr, &id->send_cq_channel, &id->send_cq) != 0)
		return -1;
	if (receives && !attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (sends && !attr->send_cq)
		attr->send_cq = id->send_cq;
	if (receives && id->srq && !attr->srq)
		attr->srq = id->srq;
	return 0;
}

static int initialize(struct rdma_id *id, struct ibv_qp *qp)
{
	return qp->qp_type == IBV_QPT_UD ? initialize_datagram(id, qp)
					 : modify(id, qp, IBV_QPS_INIT, 0, 0);
}

static int refuse_unbound(struct rdma_cm_id *id, const char *call)
{
	return rdma_refuse_state_unlocked(to_rdma_id(id), call, "bound to an address of a device");
}

int urxe_rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = NULL;
	int error;

	if (id->qp)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_QP,
					"rdma_create_qp(): the id has QP 0x%06x already",
					id->qp->qp_num));
	if (!id->verbs)
		return rdma_fail(refuse_unbound(id, "rdma_create_qp()"));
	if (set_domains(to_rdma_id(id), attr) != 0)
		return -1;
	if (set_queues(id, attr) == 0)
		qp = ibv_create_qp_ex(id->verbs, attr);
	error = qp ? initialize(to_rdma_id(id), qp) : errno;
	if (error) {
		if (qp)
			ibv_destroy_qp(qp);
		destroy_queues(id);
		return rdma_fail(error);
	}
	id->pd = attr->pd; /* also of a target of XRC, which is in none */
	id->qp = qp;
	return 0;
}

/* The first part of the extended attributes is the plain ones. */
_Static_assert(offsetof(struct ibv_qp_init_attr_ex, sq_sig_all) ==
		       offsetof(struct ibv_qp_init_attr, sq_sig_all),
	       "ibv_qp_init_attr");

int urxe_rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex extended = {};
	int result;

	memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_QP_INIT_ATTR_PD;
	extended.pd = pd;
	result = urxe_rdma_create_qp_ex(id, &extended);
	/* What was granted, and the queues that came with it, are the application's to know. */
	memcpy(attr, &extended, sizeof(*attr));
	return result;
}

void urxe_rdma_destroy_qp(struct rdma_cm_id *id)
{
	rdma_enter();
	rdma_multicast_detach(to_rdma_id(id));
	rdma_leave();
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_queues(id);
}

/* --- SRQs ------------------------------------------------------------------------ */

/* What an SRQ of XRC has besides, where @attr doesn't name it. */
static int set_xrc(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		attr->xrcd = rdma_default_xrcd(to_rdma_id(id));
	if (!attr->xrcd)
		return -1;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (!id->recv_cq &&
		    create_queue(id, attr->attr.max_wr, &id->recv_cq_channel, &id->recv_cq) != 0)
			return -1;
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

int urxe_rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int error;

	if (id->srq)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_QP,
					"rdma_create_srq(): the id has an SRQ already"));
	if (!id->verbs)
		return rdma_fail(refuse_unbound(id, "rdma_create_srq()"));
	/* librdmacm doesn't take BASIC for granted, unlike ibv_create_srq_ex(). */
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return rdma_fail(refuse(
			EINVAL, CAUSE_CM_ARGUMENT,
			"rdma_create_srq_ex(): comp_mask is without IBV_SRQ_INIT_ATTR_TYPE"));
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (!attr->pd || attr->pd->context != id->verbs)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_PD,
					"rdma_create_srq(): the protection domain is %s",
					attr->pd ? "of another context" : "NULL"));
	if (attr->srq_type == IBV_SRQT_XRC && set_xrc(id, attr) != 0)
		return -1;
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	if (!id->srq) {
		error = errno;
		if (!id->qp)
			destroy_queues(id);
		return rdma_fail(error);
	}
	if (!id->pd)
		id->pd = attr->pd;
	return 0;
}

int urxe_rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex extended = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | (pd ? IBV_SRQ_INIT_ATTR_PD : 0),
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int result = urxe_rdma_create_srq_ex(id, &extended);

	if (result == 0)
		attr->attr = extended.attr;
	return result;
}

void urxe_rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		destroy_queues(id);
}
