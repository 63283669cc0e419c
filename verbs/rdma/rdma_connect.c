/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From connecting to disconnecting: what the connection manager is told to send,
 * and what that does to the QP (rdma_cm(7)).
 *
 * The QP is moved without rdma.lock, which the attributes of each step are
 * looked up under; the application doesn't destroy an id that it connects.
 */
#include <string.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "verbs/context.h"
#include "verbs/rdma/rdma.h"

#define RETRY_MAX 7

/* --- parameters -------------------------------------------------------------------- */

static const struct rdma_conn_param no_param = {
	.responder_resources = RDMA_MAX_RESP_RES,
	.initiator_depth = RDMA_MAX_INIT_DEPTH,
	.retry_count = RETRY_MAX,
	.rnr_retry_count = RETRY_MAX,
};

static uint8_t at_most(unsigned int value, uint8_t limit)
{
	return value < limit ? value : limit;
}

/* What the device can do: as responder, as initiator. */
static uint8_t device_resources(const struct rdma_id *id)
{
	return at_most(id->context->hca->limits.device.max_qp_rd_atom, RDMA_MAX_RESP_RES - 1);
}

static uint8_t device_depth(const struct rdma_id *id)
{
	return at_most(id->context->hca->limits.device.max_qp_init_rd_atom,
		       RDMA_MAX_INIT_DEPTH - 1);
}

/*
 * *@param: what is asked for, with RDMA_MAX_* replaced by @resources and @depth,
 * and what a QP of the id says itself. EINVAL for more than the device can do.
 */
static int negotiate_param(const struct rdma_id *id, const struct rdma_conn_param *asked,
			   uint8_t resources, uint8_t depth, struct rdma_conn_param *param)
{
	*param = asked ? *asked : no_param;
	if (!id->ibv.qp && !asked && id->ibv.ps == RDMA_PS_TCP)
		return refuse(EINVAL, CAUSE_CM_CONN_PARAM,
			      "conn_param is NULL, and the id has no queue pair");
	if (param->responder_resources == RDMA_MAX_RESP_RES)
		param->responder_resources = resources;
	if (param->initiator_depth == RDMA_MAX_INIT_DEPTH)
		param->initiator_depth = depth;
	if (id->ibv.ps == RDMA_PS_TCP && (param->responder_resources > device_resources(id) ||
					  param->initiator_depth > device_depth(id)))
		return refuse(EINVAL, CAUSE_CM_RESOURCES,
			      "responder_resources %u of at most %u, initiator_depth %u of at most "
			      "%u",
			      param->responder_resources, device_resources(id),
			      param->initiator_depth, device_depth(id));
	if (id->ibv.qp) {
		param->qp_num = id->ibv.qp->qp_num;
		param->srq = id->ibv.qp->srq != NULL;
	}
	param->retry_count = at_most(param->retry_count, RETRY_MAX);
	param->rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX);
	if (!param->private_data)
		param->private_data_len = 0;
	return 0;
}

/* --- connecting -------------------------------------------------------------------- */

static void set_header(const struct rdma_id *id, struct rdma_header *header)
{
	const struct rdma_addr *addr = &id->ibv.route.addr;
	union ibv_gid source, destination;
	size_t skip = 0;

	gid_from_sockaddr(&source, &addr->src_addr);
	gid_from_sockaddr(&destination, &addr->dst_addr);
	*header = (struct rdma_header){
		.ip_version = (addr->src_addr.sa_family == AF_INET ? 4 : 6) << 4,
		.port = addr->src_sin.sin_port,
	};
	/* IPv4 stands there without the rest of its GID. */
	if (addr->src_addr.sa_family == AF_INET)
		skip = 12;
	memcpy(header->source + skip, source.raw + skip, 16 - skip);
	memcpy(header->destination + skip, destination.raw + skip, 16 - skip);
}

/*
 * Header, what rdma_create_ep() was given, what the caller gives. Returns the length, -1: too long.
 */
static int set_private(const struct rdma_id *id, const struct rdma_conn_param *param, uint8_t *data,
		       unsigned int max)
{
	unsigned int length = rdma_header_length(id);

	if (length + id->connect_length + param->private_data_len > max)
		return -1;
	if (length)
		set_header(id, (struct rdma_header *)data);
	if (id->connect_length)
		memcpy(data + length, id->connect_data, id->connect_length);
	length += id->connect_length;
	if (param->private_data_len)
		memcpy(data + length, param->private_data, param->private_data_len);
	return length + param->private_data_len;
}

static int refuse_private(const struct rdma_id *id, const struct rdma_conn_param *param,
			  enum cm_attribute message)
{
	return refuse(EINVAL, CAUSE_CM_PRIVATE_DATA, "%s: %u bytes of private data, of at most %u",
		      cm_attribute_name(message), id->connect_length + param->private_data_len,
		      cm_private_length(message) - rdma_header_length(id));
}

static int send_request(struct rdma_id *id, const struct rdma_conn_param *param)
{
	uint64_t service_id = rdma_service_id(id, &id->ibv.route.addr.dst_addr);
	bool datagram = id->ibv.qp_type == IBV_QPT_UD;
	uint8_t data[CM_PRIVATE_MAX];
	int length =
		set_private(id, param, data, cm_private_length(datagram ? CM_SIDR_REQ : CM_REQ));
	const struct cm_request request = {
		.path = id->path,
		.service_id = service_id,
		.qpn = param->qp_num,
		.qp_type = id->ibv.qp_type,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.retry_count = param->retry_count,
		.rnr_retry_count = param->rnr_retry_count,
		.flow_control = param->flow_control,
		.srq = param->srq,
		.mtu = id->mtu,
		.packet_life_time = id->packet_life_time,
		.vendor_id = id->local_ece.vendor_id,
		.options = id->local_ece.options,
		.private_data = data,
		.private_length = length,
	};

	if (length < 0)
		return refuse_private(id, param, datagram ? CM_SIDR_REQ : CM_REQ);
	if (datagram)
		return cm_send_sidr_req(id->cm, &id->path, service_id, data, length, clock_now());
	return cm_send_req(id->cm, &request, clock_now());
}

/* With rdma.lock held. Returns 0 or an errno. */
static int begin_connecting(struct rdma_id *id, const struct rdma_conn_param *asked)
{
	struct rdma_conn_param param;
	int error;

	if (id->state != RDMA_STATE_ROUTE_RESOLVED)
		return rdma_refuse_state(id, "rdma_connect()", "at ROUTE_RESOLVED");
	error = negotiate_param(id, asked, device_resources(id), device_depth(id), &param);
	if (!error)
		error = cm_id_create(id->context->hca->cm, id, &id->cm);
	if (error)
		return error;
	id->state = RDMA_STATE_CONNECT;
	error = send_request(id, &param);
	if (error) {
		id->state = RDMA_STATE_ROUTE_RESOLVED;
		cm_id_destroy(id->cm, clock_now());
		id->cm = NULL;
	}
	return error;
}

int urxe_rdma_connect(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct rdma_id *id = to_rdma_id(ibv);
	bool synchronous;
	int error;

	rdma_enter();
	synchronous = id->synchronous;
	error = begin_connecting(id, param);
	rdma_leave();
	return error ? rdma_fail(error) : rdma_complete(id, synchronous);
}

int rdma_complete_connect(struct rdma_id *id)
{
	uint64_t now = clock_now();
	int error = 0;

	if (id->ibv.qp)
		error = rdma_qp_connect(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
	rdma_enter();
	if (!error)
		error = id->cm ? cm_send_rtu(id->cm, now) : EINVAL;
	if (error && id->cm)
		cm_send_rej(id->cm, CM_REJECT_CONSUMER, NULL, 0, now);
	rdma_leave();
	if (error)
		rdma_qp_error(id);
	return error;
}

int urxe_rdma_establish(struct rdma_cm_id *ibv)
{
	struct rdma_id *id = to_rdma_id(ibv);
	int error = EINVAL;

	if (ibv->qp)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_QP,
					"rdma_establish(): the id has QP 0x%06x", ibv->qp->qp_num));
	rdma_enter();
	if (id->cm && id->state == RDMA_STATE_CONNECT)
		error = cm_send_rtu(id->cm, clock_now());
	if (error)
		rdma_refuse_state(id, "rdma_establish()", "REP_RECEIVED");
	rdma_leave();
	return error ? rdma_fail(error) : 0;
}

/* --- accepting --------------------------------------------------------------------- */

static int send_reply(struct rdma_id *id, const struct rdma_conn_param *param)
{
	const struct cm_reply reply = {
		.qpn = param->qp_num,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.rnr_retry_count = param->rnr_retry_count,
		.flow_control = param->flow_control,
		.srq = param->srq,
		.vendor_id = id->local_ece.vendor_id,
		.options = id->local_ece.options,
		.private_data = param->private_data,
		.private_length = param->private_data_len,
	};

	return cm_send_rep(id->cm, &reply, clock_now());
}

static int send_service_reply(struct rdma_id *id, enum cm_sidr_status status,
			      const struct rdma_conn_param *param)
{
	const struct cm_service_reply reply = {
		.status = status,
		.qpn = status ? 0 : param->qp_num,
		.qkey = status ? 0 : RDMA_UDP_QKEY,
		.vendor_id = id->local_ece.vendor_id,
		.options = id->local_ece.options,
		.private_data = param->private_data,
		.private_length = param->private_data_len,
	};

	return cm_send_sidr_rep(id->cm, &reply, clock_now());
}

static int accept_datagram(struct rdma_id *id, const struct rdma_conn_param *param)
{
	static const struct rdma_conn_param none;
	int error = EINVAL;

	rdma_enter();
	if (id->cm)
		error = send_service_reply(id, CM_SIDR_SUCCESS, param);
	if (error && id->cm)
		send_service_reply(id, CM_SIDR_REJECTED, &none);
	rdma_leave();
	return error;
}

/*
 * The QP is ready before the peer hears of it. A reply that can't be sent, for its private data,
 * is a rejection, as Linux has it (rdma_accept()): else the peer would wait in vain.
 */
static int accept_connection(struct rdma_id *id, const struct rdma_conn_param *param)
{
	int error = 0;

	if (id->ibv.qp)
		error = rdma_qp_connect(id, param->responder_resources, param->initiator_depth);
	if (error)
		return error;
	rdma_enter();
	error = id->cm ? send_reply(id, param) : EINVAL;
	if (error && id->cm)
		cm_send_rej(id->cm, CM_REJECT_CONSUMER, NULL, 0, clock_now());
	rdma_leave();
	if (error)
		rdma_qp_error(id);
	return error;
}

/* Whether the application is to answer a request. */
static bool is_requested(const struct rdma_id *id)
{
	switch (id->cm ? cm_id_state(id->cm) : CM_STATE_IDLE) {
	case CM_STATE_REQ_RECEIVED:
	case CM_STATE_MRA_REQ_SENT:
	case CM_STATE_SIDR_REQ_RECEIVED:
		return id->state == RDMA_STATE_CONNECT;
	default:
		return false;
	}
}

static int can_accept(struct rdma_id *id, const struct rdma_conn_param *asked,
		      struct rdma_conn_param *param)
{
	if (!is_requested(id))
		return EINVAL; /* told by the caller: it may be the older way to establish */
	return negotiate_param(id, asked,
			       at_most(id->peer.responder_resources, device_resources(id)),
			       at_most(id->peer.initiator_depth, device_depth(id)), param);
}

int urxe_rdma_accept(struct rdma_cm_id *ibv, struct rdma_conn_param *asked)
{
	struct rdma_id *id = to_rdma_id(ibv);
	struct rdma_conn_param param;
	bool requested, synchronous;
	int error;

	rdma_enter();
	synchronous = id->synchronous;
	requested = is_requested(id);
	error = can_accept(id, asked, &param);
	rdma_leave();
	/* The older way to say rdma_establish(). */
	if (!asked && !requested && !ibv->qp)
		return urxe_rdma_establish(ibv);
	if (!requested)
		return rdma_fail(rdma_refuse_state_unlocked(id, "rdma_accept()",
							    "REQ_RECEIVED (a CONNECT_REQUEST's)"));
	if (error)
		return rdma_fail(error);
	if (ibv->qp_type == IBV_QPT_UD) {
		error = accept_datagram(id, &param);
		if (!error)
			rdma_drop_event(id);
		return error ? rdma_fail(error) : 0;
	}
	error = accept_connection(id, &param);
	return error ? rdma_fail(error) : rdma_complete(id, synchronous);
}

/* --- rejecting, disconnecting, and the rest --------------------------------------------- */

static int reject(struct rdma_cm_id *ibv, enum cm_reject_reason reason, const void *data,
		  uint8_t length)
{
	const struct rdma_conn_param param = {.private_data = data,
					      .private_data_len = data ? length : 0};
	struct rdma_id *id = to_rdma_id(ibv);
	const bool datagram = ibv->qp_type == IBV_QPT_UD;
	char text[RDMA_ADDRESS_TEXT];
	int error = EINVAL;

	rdma_enter();
	if (id->cm && datagram)
		error = send_service_reply(id, CM_SIDR_REJECTED, &param);
	else if (id->cm)
		error = cm_send_rej(id->cm, reason, data, param.private_data_len, clock_now());
	if (error && param.private_data_len <= cm_private_length(datagram ? CM_SIDR_REP : CM_REJ))
		rdma_refuse_state(id, "rdma_reject()", "REQ_RECEIVED, or not ESTABLISHED yet");
	rdma_leave();
	if (error)
		return rdma_fail(error);
	cause_report(CAUSE_CM_REJECT_SENT, "rdma_reject() of a request of %s",
		     rdma_address_text(&ibv->route.addr.dst_addr, text));
	return 0;
}

int urxe_rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return reject(id, CM_REJECT_CONSUMER, data, length);
}

int urxe_rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	return reject(id, CM_REJECT_VENDOR_OPTION, data, length);
}

/*
 * Whether an event will be told of the connection of @id, which has a cm_id, whatever either
 * application does. What is on the channel already isn't counted.
 */
static bool awaits_event(struct rdma_id *id)
{
	const enum cm_state state = cm_id_state(id->cm);
	const enum rdma_phase phase = rdma_channel_phase(id);

	switch (state) {
	case CM_STATE_REQ_SENT:
	case CM_STATE_MRA_REQ_RECEIVED:
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RECEIVED:
	case CM_STATE_DREQ_SENT:
	case CM_STATE_SIDR_REQ_SENT:
		return phase == RDMA_PHASE_CONNECTION;
	case CM_STATE_TIMEWAIT:
		return phase == RDMA_PHASE_DISCONNECTED;
	default:
		return false;
	}
}

/*
 * As with Linux, it is no error if there is nothing to disconnect any more. But a synchronous id
 * doesn't wait then: on Linux it waits for an event that never comes.
 */
int urxe_rdma_disconnect(struct rdma_cm_id *ibv)
{
	struct rdma_id *id = to_rdma_id(ibv);
	uint64_t now = clock_now();
	bool pending = false;
	int error = EINVAL;

	rdma_qp_error(id);
	rdma_enter();
	/* Linux's listener on a device has a communication id, too. */
	if (id->cm || (id->state == RDMA_STATE_LISTEN && ibv->verbs))
		error = 0;
	if (id->cm) {
		if (cm_send_dreq(id->cm, now) != 0)
			cm_send_drep(id->cm, now);
		/* In this order: what comes meanwhile is on the channel. */
		pending = id->synchronous &&
			  (awaits_event(id) || !rdma_channel_is_empty(id->channel));
	}
	rdma_leave();
	if (error)
		return rdma_fail(refuse(error, CAUSE_CM_NOT_CONNECTED, "rdma_disconnect()"));
	return rdma_complete(id, pending);
}

int urxe_rdma_notify(struct rdma_cm_id *ibv, enum ibv_event_type event)
{
	struct rdma_id *id = to_rdma_id(ibv);
	int error = EINVAL;

	rdma_enter();
	if (id->cm && event == IBV_EVENT_COMM_EST)
		error = cm_notify(id->cm);
	if (event != IBV_EVENT_COMM_EST)
		refuse(error, CAUSE_CM_ARGUMENT, "rdma_notify(): event %d, of COMM_EST alone",
		       event);
	else if (error == EINVAL)
		rdma_refuse_state(id, "rdma_notify()", "REP_SENT");
	rdma_leave();
	return error ? rdma_fail(error) : 0;
}

int urxe_rdma_set_local_ece(struct rdma_cm_id *ibv, struct ibv_ece *ece)
{
	if (!ibv || ibv->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_ECE, "rdma_set_local_ece(): %s",
					ibv && ibv->qp		? "the id has a queue pair"
					: ece && ece->comp_mask ? "comp_mask isn't 0"
								: "no options, or no vendor_id"));
	rdma_enter();
	to_rdma_id(ibv)->local_ece = *ece;
	rdma_leave();
	return 0;
}

int urxe_rdma_get_remote_ece(struct rdma_cm_id *ibv, struct ibv_ece *ece)
{
	if (!ibv || ibv->qp || !ece)
		return rdma_fail(
			refuse(EINVAL, CAUSE_CM_ECE, "rdma_get_remote_ece(): %s",
			       ibv && ibv->qp ? "the id has a queue pair" : "NULL was given"));
	rdma_enter();
	*ece = to_rdma_id(ibv)->remote_ece;
	rdma_leave();
	return 0;
}
