/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The route of an id. On RoCE there is no subnet manager to ask for one: it follows from the two
 * addresses (rdma_address.c), the id's options and the path that the application may have named.
 */
#include <infiniband/sa.h>
#include <stdlib.h>

#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/minmax.h"
#include "verbs/device.h"
#include "verbs/rdma/rdma.h"

#define SELECT_EQUAL 2	      /* of a path record: exactly this MTU, rate, life time */
#define PATH_VALUE 0x3f	      /* of an ibv_path_record's: without the selector */
#define PATH_LIFE_TIME_MAX 30 /* a five-bit ACK timeout is one more (Linux: cm_ack_timeout()) */

static uint32_t flow_information(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET6:
		return ntohl(((const struct sockaddr_in6 *)address)->sin6_flowinfo);
	case AF_IB:
		return ntohl(((const struct sockaddr_ib *)address)->sib_flowinfo);
	default:
		return 0;
	}
}

/* What the sender of a flow says, else what its ports give (Linux: rdma_calc_flow_label()). */
static uint32_t flow_label(const struct rdma_addr *addr)
{
	const uint32_t said = flow_information(&addr->dst_addr);

	if (said)
		return said & FLOW_LABEL_MASK;
	return (rdma_sockaddr_port(&addr->src_addr) * 31u + rdma_sockaddr_port(&addr->dst_addr)) &
	       FLOW_LABEL_MASK;
}

void rdma_route_set_gids(struct rdma_id *id)
{
	struct rdma_ib_addr *gids = &id->ibv.route.addr.addr.ibaddr;

	gids->sgid = id->path.source;
	gids->dgid = id->path.destination;
	gids->pkey = htons(PKEY_DEFAULT);
}

int rdma_route_set(struct rdma_id *id)
{
	struct rdma_route *route = &id->ibv.route;

	if (!route->path_rec)
		route->path_rec = calloc(1, sizeof(*route->path_rec));
	if (!route->path_rec)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a route");
	rdma_route_set_gids(id);
	*route->path_rec = (struct ibv_sa_path_rec){
		.dgid = id->path.destination,
		.sgid = id->path.source,
		.flow_label = htonl(id->path.flow_label),
		.hop_limit = id->path.hop_limit,
		.traffic_class = id->path.traffic_class,
		.reversible = 1,
		.pkey = htons(PKEY_DEFAULT),
		.mtu_selector = SELECT_EQUAL,
		.mtu = id->mtu,
		.rate_selector = SELECT_EQUAL,
		.packet_life_time_selector = SELECT_EQUAL,
		.packet_life_time = id->packet_life_time,
	};
	route->num_paths = 1;
	return 0;
}

static enum ibv_mtu source_mtu(struct rdma_id *id)
{
	struct gid_place place;

	if (!port_gids_find(&id->device->gids, &id->path.source, &place))
		return IBV_MTU_1024;
	return hca_mtu(place.entry.mtu);
}

/* @mtu: the way's. That of the source's network device says nothing of the route. */
static void set_default_path(struct rdma_id *id, uint32_t mtu)
{
	const struct rdma_addr *addr = &id->ibv.route.addr;

	id->path = (struct path){
		.source = addr->addr.ibaddr.sgid,
		.destination = addr->addr.ibaddr.dgid,
		.flow_label = flow_label(addr),
		.traffic_class = id->tos,
		.hop_limit = HOP_LIMIT_DEFAULT,
	};
	id->mtu = min_u32(source_mtu(id), hca_mtu(mtu));
	/* A timer that is off says nothing of the path. */
	id->packet_life_time = id->ack_timeout ? min_u32(id->ack_timeout - 1, PATH_LIFE_TIME_MAX)
					       : CM_PACKET_LIFE_TIME;
}

/* A GID that isn't that of the address is another route than the one that was resolved. */
static bool is_path_of(const struct ibv_path_record *asked, const struct path *path)
{
	static const union ibv_gid none;

	return (gid_equal(&asked->sgid, &none) || gid_equal(&asked->sgid, &path->source)) &&
	       (gid_equal(&asked->dgid, &none) || gid_equal(&asked->dgid, &path->destination));
}

/* What @asked says; what it leaves 0 stays. Returns 0 or EINVAL. */
static int apply_asked_path(struct rdma_id *id, const struct ibv_path_record *asked)
{
	const uint32_t flow = ntohl(asked->flowlabel_hoplimit);
	const enum ibv_mtu mtu = asked->mtu & PATH_VALUE;
	const uint8_t life_time = asked->packetlifetime & PATH_VALUE;

	if (!is_path_of(asked, &id->path))
		return refuse(EINVAL, CAUSE_CM_PATH_RECORD,
			      "the GIDs aren't those of the addresses");
	if (mtu > id->mtu || life_time > PATH_LIFE_TIME_MAX)
		return refuse(
			EINVAL, CAUSE_CM_PATH_RECORD,
			"MTU %u of at most %u (enum ibv_mtu), packet life time %u of at most %d",
			mtu, id->mtu, life_time, PATH_LIFE_TIME_MAX);
	if (flow >> 8 & FLOW_LABEL_MASK)
		id->path.flow_label = flow >> 8 & FLOW_LABEL_MASK;
	if (flow & 0xff)
		id->path.hop_limit = flow & 0xff;
	if (asked->tclass)
		id->path.traffic_class = asked->tclass;
	if (mtu)
		id->mtu = mtu;
	if (life_time)
		id->packet_life_time = life_time;
	return 0;
}

int rdma_resolve_path(struct rdma_id *id, const struct ibv_path_record *asked)
{
	int error, no_way;
	uint32_t mtu;

	if (id->state != RDMA_STATE_ADDRESS_RESOLVED)
		return rdma_refuse_state(id, "rdma_resolve_route()", "at ADDR_RESOLVED");
	no_way = rdma_check_way(&id->ibv.route.addr, &mtu);
	set_default_path(id, mtu);
	error = asked ? apply_asked_path(id, asked) : 0;
	if (error)
		return error;
	error = no_way ? rdma_refuse_route(&id->ibv.route.addr, no_way) : rdma_route_set(id);
	if (!error)
		error = rdma_injected(FAULT_ROUTE_ERROR);
	if (rdma_event(id, error ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED,
		       -error))
		return ENOMEM;
	if (!error)
		id->state = RDMA_STATE_ROUTE_RESOLVED;
	return 0;
}

int urxe_rdma_resolve_route(struct rdma_cm_id *ibv, int timeout_ms)
{
	struct rdma_id *id = to_rdma_id(ibv);
	bool synchronous;
	int error;

	/* Linux looks at it on RoCE, too, where there is nothing to wait for. */
	if (timeout_ms == 0)
		return rdma_fail(
			refuse(EINVAL, CAUSE_CM_ARGUMENT, "rdma_resolve_route(): timeout_ms is 0"));
	rdma_enter();
	synchronous = id->synchronous;
	error = rdma_resolve_path(id, NULL);
	rdma_leave();
	return error ? rdma_fail(error) : rdma_complete(id, synchronous);
}
