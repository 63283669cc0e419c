/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the connection manager tells: each of its events becomes one for the
 * application, or none, by the id's state (cm.md 9). A request makes a new id.
 *
 * Called by the thread that delivers, with no lock held.
 */
#include <arpa/inet.h>
#include <string.h>

#include "net/clock.h"
#include "net/log.h"
#include "verbs/context.h"
#include "verbs/progress.h"
#include "verbs/rdma/rdma.h"

/* --- requests ---------------------------------------------------------------------- */

static enum ibv_qp_type request_qp_type(const struct cm_message *request)
{
	switch (request->transport) {
	case CM_TRANSPORT_RC:
		return IBV_QPT_RC;
	case CM_TRANSPORT_UC:
		return IBV_QPT_UC;
	default:
		return IBV_QPT_XRC_SEND;
	}
}

static void set_header_address(struct sockaddr_storage *to, const struct rdma_header *header,
			       const uint8_t address[16], uint16_t port)
{
	union ibv_gid gid;

	memcpy(&gid, address, sizeof(gid));
	if (header->ip_version >> 4 == 4)
		gid_from_ipv4(&gid, (const struct in_addr *)(gid.raw + 12));
	gid_to_sockaddr(&gid, port, to);
}

/* The addresses that the header names, which needn't be those that the packet came by. */
static void set_route(struct rdma_id *id, const struct cm_event *event)
{
	const struct rdma_header *header = (const void *)event->message.private_data;
	struct rdma_addr *addr = &id->ibv.route.addr;
	union ibv_gid gid;

	set_header_address(&addr->src_storage, header, header->destination,
			   event->message.service_id);
	set_header_address(&addr->dst_storage, header, header->source, ntohs(header->port));
	gid_from_sockaddr(&gid, &addr->src_addr);
	if (addr->src_addr.sa_family == AF_INET6 &&
	    IN6_IS_ADDR_LINKLOCAL(&addr->src_sin6.sin6_addr)) {
		addr->src_sin6.sin6_scope_id = gid_interface(&gid);
		addr->dst_sin6.sin6_scope_id = addr->src_sin6.sin6_scope_id;
	}
}

static bool header_is_good(const struct cm_message *message)
{
	const struct rdma_header *header = (const void *)message->private_data;
	unsigned int version = header->ip_version >> 4;

	return header->version == 0 && (version == 4 || version == 6);
}

static bool accepts(const struct rdma_id *listener, const struct cm_event *event)
{
	if (listener->destroying || listener->state != RDMA_STATE_LISTEN || !listener->channel ||
	    !header_is_good(&event->message))
		return false;
	if (event->type == CM_EVENT_SIDR_REQ_RECEIVED)
		return listener->ibv.qp_type == IBV_QPT_UD;
	return listener->ibv.qp_type == request_qp_type(&event->message);
}

/* What the peer offers is ours to use, the other way round. */
static void set_offer(struct rdma_conn_param *param, const struct cm_message *message)
{
	*param = (struct rdma_conn_param){
		.responder_resources = message->initiator_depth,
		.initiator_depth = message->responder_resources,
		.flow_control = message->flow_control,
		.retry_count = message->retry_count,
		.rnr_retry_count = message->rnr_retry_count,
		.srq = message->srq,
		.qp_num = message->qpn,
	};
}

static void set_consumer_data(struct rdma_record *record, const struct cm_message *message)
{
	record->event.param.ud.private_data = NULL;
	rdma_record_private(record, message->private_data + sizeof(struct rdma_header),
			    message->private_length - sizeof(struct rdma_header));
}

/* The id of @event's request, or NULL. rdma.lock is held. */
static struct rdma_id *make_id(struct rdma_id *listener, const struct cm_event *event,
			       struct device *device)
{
	struct rdma_id *id;

	if (rdma_id_new(listener->channel, listener->ibv.context, listener->ibv.ps,
			listener->ibv.qp_type, &id))
		return NULL;
	id->path = event->path;
	id->mtu = event->message.mtu;
	id->tos = listener->tos;
	id->ack_timeout = listener->ack_timeout;
	set_route(id, event);
	if (rdma_id_use(id, device) || rdma_route_set(id)) {
		rdma_id_free(id);
		return NULL;
	}
	id->passive = true;
	id->state = RDMA_STATE_CONNECT;
	set_offer(&id->peer, &event->message);
	id->remote_ece.vendor_id = event->message.vendor_id;
	id->remote_ece.options = event->message.modifier;
	return id;
}

/* Whether @event's id is the application's now. rdma.lock is held. */
static bool queue_request(struct rdma_id *listener, const struct cm_event *event,
			  struct device *device)
{
	struct rdma_record *record;
	struct rdma_id *id;

	if (listener->pending >= (uint32_t)listener->backlog)
		return false;
	id = make_id(listener, event, device);
	if (!id)
		return false;
	record = rdma_event(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (!record) {
		rdma_id_free(id);
		return false;
	}
	listener->pending++;
	id->cm = event->id;
	cm_id_set_context(event->id, id);
	record->event.id = &id->ibv;
	record->event.listen_id = &listener->ibv;
	if (event->type == CM_EVENT_REQ_RECEIVED)
		record->event.param.conn = id->peer;
	set_consumer_data(record, &event->message);
	return true;
}

/* As Linux does, requests that there is no room for are left to their retransmission. */
static void handle_request(struct cm_event *event, struct device *device)
{
	struct rdma_id *listener = event->listener_context;
	bool accepted, queued;

	rdma_enter();
	accepted = listener && accepts(listener, event);
	queued = accepted && queue_request(listener, event, device);
	rdma_leave();
	if (!accepted)
		cm_id_destroy(event->id, clock_now());
	else if (!queued)
		cm_id_ignore(event->id, clock_now());
}

/* --- the rest ---------------------------------------------------------------------- */

static void replied(struct rdma_id *id, const struct cm_event *event)
{
	struct rdma_record *record = rdma_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	set_offer(&id->peer, &event->message);
	id->remote_ece.vendor_id = event->message.vendor_id;
	id->remote_ece.options = event->message.modifier;
	if (!record)
		return;
	record->event.param.conn = id->peer;
	rdma_record_private(record, event->message.private_data, event->message.private_length);
}

static void established(struct rdma_id *id, const struct cm_event *event)
{
	rdma_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/*
 * That the peer has given up is no news to an application that hasn't answered
 * yet: Linux tells it nothing, and accepting fails.
 */
static void rejected(struct rdma_id *id, const struct cm_event *event)
{
	struct rdma_record *record;

	if (id->passive && !id->accepted)
		return;
	record = rdma_event(id, RDMA_CM_EVENT_REJECTED, event->message.reason);
	if (record)
		rdma_record_private(record, event->message.private_data,
				    event->message.private_length);
}

static void unanswered(struct rdma_id *id, const struct cm_event *event)
{
	rdma_event(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

static void disconnected(struct rdma_id *id, const struct cm_event *event)
{
	id->state = RDMA_STATE_DISCONNECT;
	rdma_event(id, RDMA_CM_EVENT_DISCONNECTED,
		   event->type == CM_EVENT_DREQ_ERROR ? -ETIMEDOUT : 0);
}

static void timewait_over(struct rdma_id *id, const struct cm_event *event)
{
	rdma_event(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
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

static void set_address_handle(struct rdma_id *id, struct ibv_ah_attr *attr)
{
	int index = gid_table_find(&id->device->gids, &id->path.source);

	*attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = id->ibv.port_num,
		.grh = {.dgid = id->path.destination,
			.flow_label = id->path.flow_label,
			.sgid_index = index < 0 ? 0 : index,
			.hop_limit = id->path.hop_limit,
			.traffic_class = id->path.traffic_class},
	};
}

static void service_replied(struct rdma_id *id, const struct cm_event *event)
{
	const struct cm_message *message = &event->message;
	struct rdma_record *record;

	if (message->status != CM_SIDR_SUCCESS)
		record = rdma_event(id, RDMA_CM_EVENT_UNREACHABLE, message->status);
	else if (!qkey_fits(id, message->qkey))
		record = rdma_event(id, RDMA_CM_EVENT_ADDR_ERROR, -EINVAL);
	else
		record = rdma_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (!record)
		return;
	if (record->event.event == RDMA_CM_EVENT_ESTABLISHED) {
		record->event.param.ud.qp_num = message->qpn;
		record->event.param.ud.qkey = message->qkey;
		set_address_handle(id, &record->event.param.ud.ah_attr);
	}
	rdma_record_private(record, message->private_data, message->private_length);
}

/* Events come to an id only in the state in which Linux passes them on. */
static const struct event_handler {
	enum rdma_state state;
	void (*tell)(struct rdma_id *id, const struct cm_event *event);
} event_handlers[] = {
	[CM_EVENT_REQ_ERROR] = {RDMA_STATE_CONNECT, unanswered},
	[CM_EVENT_REP_RECEIVED] = {RDMA_STATE_CONNECT, replied},
	[CM_EVENT_REP_ERROR] = {RDMA_STATE_CONNECT, unanswered},
	[CM_EVENT_RTU_RECEIVED] = {RDMA_STATE_CONNECT, established},
	[CM_EVENT_USER_ESTABLISHED] = {RDMA_STATE_CONNECT, established},
	[CM_EVENT_REJ_RECEIVED] = {RDMA_STATE_CONNECT, rejected},
	[CM_EVENT_MRA_RECEIVED] = {0},
	[CM_EVENT_DREQ_RECEIVED] = {RDMA_STATE_CONNECT, disconnected},
	[CM_EVENT_DREP_RECEIVED] = {RDMA_STATE_CONNECT, disconnected},
	[CM_EVENT_DREQ_ERROR] = {RDMA_STATE_CONNECT, disconnected},
	[CM_EVENT_TIMEWAIT_EXIT] = {RDMA_STATE_DISCONNECT, timewait_over},
	[CM_EVENT_SIDR_REP_RECEIVED] = {RDMA_STATE_CONNECT, service_replied},
	[CM_EVENT_SIDR_REQ_ERROR] = {RDMA_STATE_CONNECT, unanswered},
};

void rdma_handle_event(void *context, struct cm_event *event)
{
	const struct event_handler *handler = &event_handlers[event->type];
	struct rdma_id *id;

	if (event->type == CM_EVENT_REQ_RECEIVED || event->type == CM_EVENT_SIDR_REQ_RECEIVED) {
		handle_request(event, context);
		return;
	}
	rdma_enter();
	id = event->id->context;
	if (id && !id->destroying && handler->tell && id->state == handler->state)
		handler->tell(id, event);
	rdma_leave();
}
