/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of peers: which of them a listener takes, decided by the thread that
 * receives, and the id of a CONNECT_REQUEST, made by the thread that gets the
 * event. Until then a request is an id of the connection manager only.
 */
#include <arpa/inet.h>
#include <string.h>

#include "net/clock.h"
#include "verbs/context.h"
#include "verbs/rdma/rdma.h"

/* --- receiving a request ------------------------------------------------------------- */

static bool header_is_good(const struct cm_message *message)
{
	const struct rdma_header *header = (const void *)message->private_data;
	unsigned int version = header->ip_version >> 4;

	return header->version == 0 && (version == 4 || version == 6);
}

static bool accepts(const struct rdma_id *listener, const struct cm_event *event)
{
	if (rdma_header_length(listener) && !header_is_good(&event->message))
		return false;
	if (event->type == CM_EVENT_SIDR_REQ_RECEIVED)
		return listener->ibv.qp_type == IBV_QPT_UD;
	return (int)listener->ibv.qp_type == cm_req_qp_type(&event->message);
}

enum cm_verdict rdma_handle_request(void *device, const struct cm_event *event)
{
	struct rdma_id *listener = event->listener_context;

	if (!listener || !accepts(listener, event))
		return CM_REQUEST_REFUSED;
	return rdma_channel_add_request(listener, event, device);
}

/* --- getting it, with rdma.lock held -------------------------------------------------- */

static void set_header_address(struct sockaddr_storage *to, const struct rdma_header *header,
			       const uint8_t address[16], uint16_t port)
{
	union ibv_gid gid;

	memcpy(&gid, address, sizeof(gid));
	if (header->ip_version >> 4 == 4)
		gid_from_ipv4(&gid, (const struct in_addr *)(gid.raw + 12));
	gid_to_sockaddr(&gid, port, to);
}

/* What the header names needn't be what the packet came by. */
static void set_ip_route(struct rdma_id *id, const struct cm_event *event)
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

/* There is no header then: the addresses of the path. */
static void set_ib_route(struct rdma_id *id, const struct cm_event *event)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	struct sockaddr_ib path = {
		.sib_family = AF_IB,
		.sib_pkey = htons(PKEY_DEFAULT),
		.sib_flowinfo = htonl(event->path.flow_label),
	};

	memcpy(&addr->dst_storage, &path, sizeof(path));
	rdma_sockaddr_set_gid(&addr->dst_addr, &event->path.destination);
	path.sib_sid = htobe64(event->message.service_id);
	path.sib_sid_mask = UINT64_MAX;
	memcpy(&addr->src_storage, &path, sizeof(path));
	rdma_sockaddr_set_gid(&addr->src_addr, &event->path.source);
}

struct rdma_conn_param rdma_offer(const struct cm_message *message)
{
	return (struct rdma_conn_param){
		.responder_resources = message->initiator_depth,
		.initiator_depth = message->responder_resources,
		.flow_control = message->flow_control,
		.retry_count = message->retry_count,
		.rnr_retry_count = message->rnr_retry_count,
		.srq = message->srq,
		.qp_num = message->qpn,
	};
}

/* The ACK timeout is one more (cm.md 5); a SIDR_REQ says none. */
static uint8_t life_time_of(const struct cm_message *request)
{
	const uint8_t timeout = request->path[0].ack_timeout;

	return timeout ? timeout - 1 : CM_PACKET_LIFE_TIME;
}

static struct rdma_id *make_id(const struct rdma_record *request)
{
	struct rdma_id *listener = request->id, *id;
	const struct cm_event *event = &request->cause;

	if (!listener->channel)
		return NULL;
	if (rdma_id_new(listener->synchronous ? NULL : listener->channel, listener->ibv.context,
			listener->ibv.ps, listener->ibv.qp_type, &id))
		return NULL;
	id->path = event->path;
	id->mtu = event->message.mtu;
	id->packet_life_time = life_time_of(&event->message);
	id->tos = listener->tos;
	id->ack_timeout = listener->ack_timeout;
	if (rdma_header_length(listener))
		set_ip_route(id, event);
	else
		set_ib_route(id, event);
	if (rdma_id_use(id, request->device, &event->path.source) || rdma_route_set(id)) {
		rdma_id_free(id);
		return NULL;
	}
	id->state = RDMA_STATE_CONNECT;
	id->peer = rdma_offer(&event->message);
	id->remote_ece.vendor_id = event->message.vendor_id;
	id->remote_ece.options = event->message.modifier;
	return id;
}

bool rdma_adopt_request(struct rdma_record *record)
{
	struct cm_id *cm = record->cause.id;
	struct rdma_id *id = make_id(record);

	if (!id) {
		cm_id_destroy(cm, clock_now());
		return false;
	}
	id->cm = cm;
	cm_id_set_context(cm, id);
	record->event.id = &id->ibv;
	record->event.listen_id = &record->id->ibv;
	if (record->cause.type == CM_EVENT_REQ_RECEIVED)
		record->event.param.conn = id->peer;
	rdma_record_private(record, rdma_header_length(record->id));
	return true;
}
