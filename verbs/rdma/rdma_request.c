/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of peers: which of them a listener takes, decided by the thread that
 * receives, and the id of a CONNECT_REQUEST, made by the thread that gets the
 * event. Until then a request is an id of the connection manager only.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "emu/cm/cm_cause.h"
#include "net/clock.h"
#include "verbs/context.h"
#include "verbs/rdma/rdma.h"

/* --- receiving a request ------------------------------------------------------------- */

static const struct rdma_header *header_of(const struct cm_event *event)
{
	return (const void *)event->message.private_data;
}

static union ibv_gid header_gid(const struct rdma_header *header, const uint8_t address[16])
{
	union ibv_gid gid;

	memcpy(&gid, address, sizeof(gid));
	if (header->ip_version >> 4 == 4)
		gid_from_ipv4(&gid, (const struct in_addr *)(gid.raw + 12));
	return gid;
}

static bool header_is_known(const struct cm_event *event)
{
	const struct rdma_header *header = header_of(event);
	unsigned int version = header->ip_version >> 4;
	char found[64];

	if (header->version == 0 && (version == 4 || version == 6))
		return true;
	snprintf(found, sizeof(found), "a header of version %u, IP version %u", header->version,
		 version);
	cm_report_refused(CAUSE_CM_REQ_HEADER, &event->message, &event->path.destination, found);
	return false;
}

/*
 * As Linux has it (cma_match_private_data()): the address that the header is for is the listener's,
 * or any of the device's. Link-local ones are said without their interface.
 */
static bool header_is_ours(const struct rdma_id *listener, const struct device *device,
			   const struct cm_event *event)
{
	union ibv_gid gid = header_gid(header_of(event), header_of(event)->destination);
	char found[64 + INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN];
	bool any = rdma_sockaddr_is_any(&listener->ibv.route.addr.src_addr);
	struct gid_place place;

	if (gid_equal(&gid, &event->path.source) ||
	    IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)&gid))
		return true;
	if (any && gid_is_ipv4(&gid) == gid_is_ipv4(&event->path.source) &&
	    port_gids_find(&device->hca->gids, &gid, &place))
		return true;
	snprintf(found, sizeof(found), "a header for %s, where the listener isn't",
		 gid_to_text(&gid, text));
	cm_report_refused(CAUSE_CM_REQ_HEADER, &event->message, &event->path.destination, found);
	return false;
}

static bool has_type(const struct rdma_id *listener, const struct cm_event *event)
{
	bool datagram = event->type == CM_EVENT_SIDR_REQ_RECEIVED;
	int type = datagram ? IBV_QPT_UD : cm_req_qp_type(&event->message);
	char found[96];

	if ((int)listener->ibv.qp_type == type)
		return true;
	snprintf(found, sizeof(found),
		 "the listener is for queue pairs of type %d, the request of %d",
		 listener->ibv.qp_type, type);
	cm_report_refused(CAUSE_CM_REQ_TYPE, &event->message, &event->path.destination, found);
	return false;
}

static bool accepts(const struct rdma_id *listener, const struct device *device,
		    const struct cm_event *event)
{
	if (rdma_header_length(listener) &&
	    (!header_is_known(event) || !header_is_ours(listener, device, event)))
		return false;
	return has_type(listener, event);
}

enum cm_verdict rdma_handle_request(void *device, const struct cm_event *event)
{
	struct rdma_id *listener = event->listener_context;
	enum cm_verdict verdict;
	char found[64];

	if (!listener || !accepts(listener, device, event))
		return CM_REQUEST_REFUSED;
	verdict = rdma_channel_add_request(listener, event, device);
	if (verdict == CM_REQUEST_REFUSED) {
		cm_report_refused(CAUSE_CM_LISTENER_GONE, &event->message, &event->path.destination,
				  "its event channel was destroyed, or its device removed");
	} else if (verdict == CM_REQUEST_IGNORED) {
		snprintf(found, sizeof(found), "the backlog is %d", listener->backlog);
		cm_report_refused(CAUSE_CM_BACKLOG, &event->message, &event->path.destination,
				  found);
	}
	return verdict;
}

/* --- getting it, with rdma.lock held -------------------------------------------------- */

static void set_header_address(struct sockaddr_storage *to, const struct rdma_header *header,
			       const uint8_t address[16], uint16_t port)
{
	union ibv_gid gid = header_gid(header, address);

	gid_to_sockaddr(&gid, port, to);
}

/* What the header names needn't be what the packet came by. */
static void set_ip_route(struct rdma_id *id, const struct cm_event *event)
{
	const struct rdma_header *header = header_of(event);
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

/* The ACK timeout is one more (Linux: cm_ack_timeout()); a SIDR_REQ says none. */
static uint8_t life_time_of(const struct cm_message *request)
{
	const uint8_t timeout = request->path[0].ack_timeout;

	return timeout ? timeout - 1 : CM_PACKET_LIFE_TIME;
}

/* A SIDR_REQ says nothing of the path: as with Linux such an id has none. */
static int set_route(struct rdma_id *id, const struct cm_event *event)
{
	if (event->type == CM_EVENT_REQ_RECEIVED)
		return rdma_route_set(id);
	rdma_route_set_gids(id);
	return 0;
}

static struct rdma_id *make_id(const struct rdma_record *request)
{
	struct rdma_id *listener = request->id, *id;
	const struct cm_event *event = &request->cause;

	if (!listener->channel)
		return NULL;
	if (rdma_id_new(request->channel, listener->ibv.context, listener->ibv.ps,
			listener->ibv.qp_type, &id))
		return NULL;
	id->path = event->path;
	id->mtu = event->message.mtu;
	id->packet_life_time = life_time_of(&event->message);
	id->ack_timeout = listener->ack_timeout;
	id->ack_timeout_set = listener->ack_timeout_set;
	if (rdma_header_length(listener))
		set_ip_route(id, event);
	else
		set_ib_route(id, event);
	if (rdma_id_use(id, request->device, &event->path.source) || set_route(id, event)) {
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
