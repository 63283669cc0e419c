/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: binding an id to a local one, finding the local one from which a
 * remote one is reached, and the route, which on RoCE follows from the two.
 *
 * What Linux finds out later and tells by an event is an event here too, though most of
 * it is known at once: applications tell the two kinds of errors apart.
 */
#include <arpa/inet.h>
#include <infiniband/sa.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/syscalls.h"
#include "verbs/context.h"
#include "verbs/device.h"
#include "verbs/progress.h"
#include "verbs/rdma/rdma.h"

#define PORT_TRIES 64 /* of ports that other processes turn out to have */
#define FLOW_LABEL_MASK 0xfffff
#define SELECT_EQUAL 2	      /* of a path record: exactly this MTU, rate, life time */
#define PATH_VALUE 0x3f	      /* of an ibv_path_record's: without the selector */
#define PATH_LIFE_TIME_MAX 30 /* a five-bit ACK timeout is one more (Linux: cm_ack_timeout()) */

static bool lacks_scope(const struct sockaddr *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

	return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
	       in6->sin6_scope_id == 0;
}

/* 0 or EINVAL. */
static int check_address(const struct sockaddr *address)
{
	char text[RDMA_ADDRESS_TEXT];

	if (rdma_sockaddr_length(address) == 0)
		return refuse(EINVAL, CAUSE_CM_ADDRESS_FAMILY, "the address family is %d",
			      address ? address->sa_family : AF_UNSPEC);
	if (!lacks_scope(address))
		return 0;
	return refuse(EINVAL, CAUSE_CM_ADDRESS_SCOPE, "%s, with sin6_scope_id 0",
		      rdma_address_text(address, text));
}

/* As librdmacm, whatever a service id's mask says. */
static __be16 port_of(const struct rdma_cm_id *id, const struct sockaddr *address)
{
	if (!rdma_sockaddr_length(address))
		return 0;
	return htons((uint16_t)rdma_service_id(to_rdma_id((struct rdma_cm_id *)id), address));
}

__be16 urxe_rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(id, &id->route.addr.src_addr);
}

__be16 urxe_rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(id, &id->route.addr.dst_addr);
}

/* --- the source -------------------------------------------------------------------- */

static void family_options(struct rdma_id *id, int family)
{
	if (id->address_family_only_set)
		return;
	id->address_family_only =
		family == AF_INET || (family == AF_INET6 && rdma_port_ipv6_only());
}

static void unbind_source(struct rdma_id *id)
{
	rdma_port_release(id);
	rdma_id_detach(id);
	memset(&id->ibv.route.addr, 0, sizeof(id->ibv.route.addr));
	id->state = RDMA_STATE_IDLE;
}

/* With rdma.lock held. Returns 0 or an errno. */
static int bind_source(struct rdma_id *id, const struct sockaddr *address)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	size_t length = rdma_sockaddr_length(address);
	int error;

	error = id->state == RDMA_STATE_IDLE
			? check_address(address)
			: rdma_refuse_state(id, "rdma_bind_addr()", "not bound");
	if (error)
		return error;
	memcpy(&addr->src_storage, address, length);
	error = rdma_sockaddr_choose_service(&addr->src_addr, id->ibv.ps);
	if (error)
		refuse(error, CAUSE_CM_SERVICE_SPACE,
		       "rdma_bind_addr(): sib_sid is 0x%" PRIx64 ", of an id of port space 0x%x",
		       rdma_service_id(id, address), id->ibv.ps);
	if (!error && !rdma_sockaddr_is_any(address)) {
		rdma_sockaddr_gid(address, &addr->addr.ibaddr.sgid);
		error = rdma_id_attach(id, &addr->addr.ibaddr.sgid);
	}
	family_options(id, address->sa_family);
	if (!error)
		error = rdma_port_bind(id);
	if (error) {
		unbind_source(id);
		return error;
	}
	addr->dst_addr.sa_family = address->sa_family;
	id->state = RDMA_STATE_ADDRESS_BOUND;
	return 0;
}

/* Ids that share their port may be of several processes: the one that listens claims it. */
static int bind_and_claim(struct rdma_id *id, const struct sockaddr *address, bool *claimed)
{
	int error;

	rdma_enter();
	error = bind_source(id, address);
	*claimed = !error && !id->reuse_address;
	if (*claimed)
		error = rdma_make_listeners(id);
	rdma_leave();
	if (!*claimed)
		return error;
	if (!error)
		error = rdma_claim(id);
	if (!error)
		return 0;
	rdma_stop_listening(id);
	rdma_enter();
	unbind_source(id);
	rdma_leave();
	return error;
}

int urxe_rdma_bind_addr(struct rdma_cm_id *ibv, struct sockaddr *address)
{
	struct rdma_id *id = to_rdma_id(ibv);
	int error, tries = 0;
	bool claimed;

	/* Port 0 is any that is free, in this process and in the others. */
	do {
		error = bind_and_claim(id, address, &claimed);
		if (!error)
			return 0;
	} while (claimed && rdma_is_taken(error) && rdma_sockaddr_port(address) == 0 &&
		 ++tries < PORT_TRIES);
	if (claimed && rdma_is_taken(error) && !tries)
		rdma_tell_claimant(id, address);
	return rdma_fail(tries ? EADDRNOTAVAIL : error);
}

/* --- the way to a destination -------------------------------------------------------- */

/*
 * Ask the kernel's routing: what would a datagram to @destination have as its
 * source? *@source (any address: to be chosen) becomes it. Returns 0 or an errno.
 */
static int ask_routing(const struct sockaddr *destination, struct sockaddr_storage *source)
{
	int fd = sys_socket(destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage from = *source, to = {0};
	socklen_t length = rdma_sockaddr_length(destination);
	int error = 0;

	if (fd < 0)
		return errno;
	memcpy(&to, destination, length);
	/* connect() wants some port; binding must not collide with one. */
	((struct sockaddr_in *)&to)->sin_port = htons(ROCE_V2_UDP_PORT);
	((struct sockaddr_in *)&from)->sin_port = 0;
	if ((!rdma_sockaddr_is_any((struct sockaddr *)&from) &&
	     bind(fd, (struct sockaddr *)&from, length) < 0) ||
	    connect(fd, (struct sockaddr *)&to, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &length) < 0)
		error = errno;
	close(fd);
	if (!error)
		*source = from;
	return error;
}

enum kind { KIND_GLOBAL, KIND_LINK_LOCAL, KIND_LOOPBACK };

static enum kind kind_of(const union ibv_gid *gid)
{
	struct in6_addr address;

	memcpy(&address, gid, sizeof(address));
	if (gid_is_ipv4(gid))
		return gid->raw[12] == 127 ? KIND_LOOPBACK : KIND_GLOBAL;
	if (IN6_IS_ADDR_LOOPBACK(&address))
		return KIND_LOOPBACK;
	return IN6_IS_ADDR_LINKLOCAL(&address) ? KIND_LINK_LOCAL : KIND_GLOBAL;
}

static bool reaches(const union ibv_gid *source, const struct sockaddr *destination)
{
	union ibv_gid to;

	if (destination->sa_family != AF_IB &&
	    gid_is_ipv4(source) != (destination->sa_family == AF_INET))
		return false;
	rdma_sockaddr_gid(destination, &to);
	return rdma_sockaddr_is_any(destination) || gid_is_multicast(&to) ||
	       kind_of(source) == kind_of(&to);
}

static bool port_source(struct port *port, const struct sockaddr *destination,
			union ibv_gid *source)
{
	struct gid_entry entry;

	for (unsigned int i = 0; gid_table_next(&port->gids, &i, &entry); i++) {
		if (!reaches(&entry.gid, destination))
			continue;
		*source = entry.gid;
		return true;
	}
	return false;
}

/* The first of our addresses that looks as if it reached @destination, for nodes of few. */
static bool first_source(const struct sockaddr *destination, union ibv_gid *source)
{
	struct device *devices;
	unsigned int count = rdma_open_devices(&devices);
	bool found = false;
	struct port *port;

	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 1; !found && (port = device_port(&devices[i], j)); j++)
			found = port_source(port, destination, source);
	}
	return found;
}

static bool is_ours(const union ibv_gid *gid)
{
	struct device *devices;
	unsigned int count = rdma_open_devices(&devices);
	struct gid_place place;

	for (unsigned int i = 0; i < count; i++) {
		if (port_gids_find(&devices[i].gids, gid, &place))
			return true;
	}
	return false;
}

static int set_source(struct rdma_id *id, const union ibv_gid *gid)
{
	struct rdma_addr *addr = &id->ibv.route.addr;

	rdma_sockaddr_set_gid(&addr->src_addr, gid);
	if (addr->src_addr.sa_family == AF_INET6 && kind_of(gid) == KIND_LINK_LOCAL)
		addr->src_sin6.sin6_scope_id = gid_interface(gid);
	addr->addr.ibaddr.sgid = *gid;
	id->source_chosen = true;
	return rdma_id_attach(id, gid);
}

/* The family is the destination's, whatever an IPv4 address that is mapped has become. */
static void set_any_source(struct rdma_addr *addr)
{
	static const union ibv_gid any;

	if (addr->src_addr.sa_family == AF_IB) /* the service stays */
		rdma_sockaddr_set_gid(&addr->src_addr, &any);
	else
		rdma_sockaddr_set_any(&addr->src_storage, addr->dst_addr.sa_family);
}

/* Another destination may be reached from elsewhere (Linux: addr_handler()). */
void rdma_forget_source(struct rdma_id *id)
{
	struct rdma_addr *addr = &id->ibv.route.addr;

	if (!id->source_chosen)
		return;
	set_any_source(addr);
	memset(&addr->addr, 0, sizeof(addr->addr));
	rdma_id_detach(id);
	id->source_chosen = false;
}

static int refuse_route(const struct rdma_addr *addr, int error)
{
	char text[RDMA_ADDRESS_TEXT];

	return refuse(error, CAUSE_CM_NO_ROUTE, "to %s: %s",
		      rdma_address_text(&addr->dst_addr, text), strerror(error));
}

/* Packets would leave from @source, which is no device's. ENODEV, for an ADDR_ERROR. */
static int refuse_source(const struct rdma_addr *addr, const union ibv_gid *source)
{
	char to[RDMA_ADDRESS_TEXT], from[INET6_ADDRSTRLEN];

	return refuse(ENODEV, CAUSE_CM_NO_DEVICE, "to %s the way is from %s",
		      rdma_address_text(&addr->dst_addr, to), gid_to_text(source, from));
}

/*
 * From where @id reaches its destination, unless it is bound already. Returns what
 * the routing says against it; *@found: what becomes of the address that it chose.
 */
static int choose_source(struct rdma_id *id, int *found)
{
	const struct rdma_addr addr = rdma_ip_addresses(&id->ibv.route.addr);
	struct sockaddr_storage routed = addr.src_storage;
	bool bound = !rdma_sockaddr_is_any(&addr.src_addr);
	bool multicast = gid_is_multicast(&addr.addr.ibaddr.dgid);
	int error = ask_routing(&addr.dst_addr, &routed);
	union ibv_gid source;

	if (error && !multicast)
		return refuse_route(&addr, error);
	if (bound)
		return 0;
	gid_from_sockaddr(&source, (struct sockaddr *)&routed);
	if ((error || !is_ours(&source)) && !first_source(&addr.dst_addr, &source))
		*found = refuse_source(&addr, &source);
	else
		*found = set_source(id, &source);
	return 0;
}

/* No address is our own one, as Linux has it. */
static int choose_loopback(struct rdma_id *id)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	const struct sockaddr_storage asked = addr->dst_storage;
	const uint16_t port = rdma_sockaddr_port((const struct sockaddr *)&asked);
	union ibv_gid source;
	int error = 0;

	if (rdma_sockaddr_is_any(&addr->src_addr))
		error = first_source(&addr->dst_addr, &source)
				? set_source(id, &source)
				: refuse_source(addr, &addr->addr.ibaddr.dgid);
	if (error)
		return error;
	if (addr->dst_addr.sa_family == AF_IB) { /* the service stays */
		rdma_sockaddr_set_gid(&addr->dst_addr, &addr->addr.ibaddr.sgid);
		return 0;
	}
	addr->dst_storage = addr->src_storage;
	rdma_sockaddr_set_port(&addr->dst_addr, port);
	return 0;
}

/* Errors of routing are returned, those of what it found are *@found (Linux: addr_handler()). */
static int find_way(struct rdma_id *id, int *found)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	int error = 0;

	*found = 0;
	rdma_sockaddr_gid(&addr->dst_addr, &addr->addr.ibaddr.dgid);
	if (rdma_sockaddr_is_any(&addr->dst_addr))
		*found = choose_loopback(id);
	else
		error = choose_source(id, found);
	rdma_sockaddr_gid(&addr->dst_addr, &addr->addr.ibaddr.dgid);
	addr->addr.ibaddr.pkey = htons(PKEY_DEFAULT);
	return error;
}

/* 0 or EINVAL. */
static int check_families(const struct rdma_addr *addr, const struct sockaddr *destination)
{
	if (addr->src_addr.sa_family == destination->sa_family)
		return 0;
	return refuse(EINVAL, CAUSE_CM_ADDRESS_FAMILIES,
		      "rdma_resolve_addr(): the source's family is %d, the destination's %d",
		      addr->src_addr.sa_family, destination->sa_family);
}

/* Up to where errors are the call's own. With rdma.lock held. */
static int begin_resolving(struct rdma_id *id, const struct sockaddr *source,
			   const struct sockaddr *destination)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	size_t length = rdma_sockaddr_length(destination);
	struct sockaddr_storage none = {};
	int error;

	error = check_address(destination);
	if (error)
		return error;
	if (id->state != RDMA_STATE_IDLE && id->state != RDMA_STATE_ADDRESS_BOUND)
		return rdma_refuse_state(id, "rdma_resolve_addr()", "not bound, or bound");
	if (id->state == RDMA_STATE_ADDRESS_BOUND)
		return check_families(addr, destination);
	/* Known before the port is chosen: two connections may share one. */
	memcpy(&addr->dst_storage, destination, length);
	none.ss_family = destination->sa_family;
	error = bind_source(id, source && source->sa_family ? source : (struct sockaddr *)&none);
	return error ? error : check_families(addr, destination);
}

int urxe_rdma_resolve_addr(struct rdma_cm_id *ibv, struct sockaddr *source,
			   struct sockaddr *destination, int timeout_ms)
{
	struct rdma_id *id = to_rdma_id(ibv);
	struct context *context;
	int error, found;

	rdma_enter();
	error = begin_resolving(id, source, destination);
	if (!error) {
		memcpy(&ibv->route.addr.dst_storage, destination,
		       rdma_sockaddr_length(destination));
		error = find_way(id, &found);
	}
	context = id->context;
	if (!error && found) {
		rdma_forget_source(id);
		rdma_event(id, RDMA_CM_EVENT_ADDR_ERROR, -found);
	} else if (!error) {
		rdma_neighbour_resolve(id, timeout_ms);
	}
	rdma_leave();
	if (error)
		return rdma_fail(error);
	/* A thread that has polled until now connects instead: send its peers the ACKs that wait.
	 */
	if (context)
		hca_acknowledge(context->hca, clock_now());
	return rdma_complete(id);
}

/* --- the route --------------------------------------------------------------------- */

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

int rdma_route_set(struct rdma_id *id)
{
	struct rdma_route *route = &id->ibv.route;

	if (!route->path_rec)
		route->path_rec = calloc(1, sizeof(*route->path_rec));
	if (!route->path_rec)
		return ENOMEM;
	route->addr.addr.ibaddr.sgid = id->path.source;
	route->addr.addr.ibaddr.dgid = id->path.destination;
	route->addr.addr.ibaddr.pkey = htons(PKEY_DEFAULT);
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

/* What the routing says now, as addresses come and go. Returns 0 or an errno. */
static int check_route(const struct rdma_addr *addr)
{
	struct rdma_addr ip = rdma_ip_addresses(addr);

	int error = gid_is_multicast(&ip.addr.ibaddr.dgid)
			    ? 0
			    : ask_routing(&ip.dst_addr, &ip.src_storage);

	return error ? refuse_route(&ip, error) : 0;
}

static void set_default_path(struct rdma_id *id)
{
	const struct rdma_addr *addr = &id->ibv.route.addr;

	id->path = (struct path){
		.source = addr->addr.ibaddr.sgid,
		.destination = addr->addr.ibaddr.dgid,
		.flow_label = flow_label(addr),
		.traffic_class = id->tos,
		.hop_limit = HOP_LIMIT_DEFAULT,
	};
	id->mtu = source_mtu(id);
	/* A timer that is off says nothing of the path. */
	id->packet_life_time = id->ack_timeout ? id->ack_timeout - 1 : CM_PACKET_LIFE_TIME;
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
	int error;

	if (id->state != RDMA_STATE_ADDRESS_RESOLVED)
		return rdma_refuse_state(id, "rdma_resolve_route()", "at ADDR_RESOLVED");
	set_default_path(id);
	error = asked ? apply_asked_path(id, asked) : 0;
	if (error)
		return error;
	error = check_route(&id->ibv.route.addr);
	if (!error)
		error = rdma_route_set(id);
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
	int error;

	rdma_enter();
	error = rdma_resolve_path(id, NULL);
	rdma_leave();
	return error ? rdma_fail(error) : rdma_complete(id);
}
