/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: binding an id to a local one, and finding the local one from which a
 * remote one is reached. The route, which follows from the two, is in rdma_route.c.
 *
 * What Linux finds out later and tells by an event is an event here too, though most of
 * it is known at once: applications tell the two kinds of errors apart.
 */
#include <arpa/inet.h>
#include <infiniband/sa.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "emu/hca.h"
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/route.h"
#include "verbs/context.h"
#include "verbs/device.h"
#include "verbs/rdma/rdma.h"

#define PORT_TRIES 64 /* of ports that other processes turn out to have */

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

/* ENODEV, as Linux has it: a link-local address is one of the interface that is named with it. */
static int check_scope(const struct sockaddr *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	char text[RDMA_ADDRESS_TEXT];
	union ibv_gid gid;

	if (address->sa_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		return 0;
	gid_from_sockaddr(&gid, address);
	if (gid_is_on_interface(&gid, in6->sin6_scope_id))
		return 0;
	return refuse(ENODEV, CAUSE_CM_NOT_LOCAL, "%s: the interface %u hasn't it",
		      rdma_address_text(address, text), in6->sin6_scope_id);
}

/*
 * A GID has no scope: of two interfaces that have the same link-local address one has the GID. From
 * there packets would go to the hosts of its own link. ENODEV.
 */
static int check_interface(const struct rdma_id *id, const struct sockaddr *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	char text[RDMA_ADDRESS_TEXT];

	if (address->sa_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ||
	    !id->interface || id->interface == in6->sin6_scope_id)
		return 0;
	return refuse(ENODEV, CAUSE_CM_NOT_LOCAL, "%s: %s has it on the interface %u, not on %u",
		      rdma_address_text(address, text), id->device->ibv.name, id->interface,
		      in6->sin6_scope_id);
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
	if (!error)
		error = check_scope(address);
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
		if (!error)
			error = check_interface(id, address);
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

/* Port 0 is any that is free, in this process and in the others. Returns 0 or an errno. */
static int bind_claimed(struct rdma_id *id, const struct sockaddr *address)
{
	int error, tries = 0;
	bool claimed;

	do {
		error = bind_and_claim(id, address, &claimed);
		if (!error)
			return 0;
	} while (claimed && rdma_is_taken(error) && rdma_sockaddr_port(address) == 0 &&
		 ++tries < PORT_TRIES);
	if (claimed && rdma_is_taken(error) && !tries)
		rdma_tell_claimant(id, address);
	return tries ? EADDRNOTAVAIL : rdma_claim_error(error);
}

int urxe_rdma_bind_addr(struct rdma_cm_id *ibv, struct sockaddr *address)
{
	int error = bind_claimed(to_rdma_id(ibv), address);

	return error ? rdma_fail(error) : 0;
}

/* --- the way to a destination -------------------------------------------------------- */

enum kind { KIND_GLOBAL, KIND_LINK_LOCAL, KIND_LOOPBACK };

static enum kind kind_of(const union ibv_gid *gid)
{
	if (gid_is_loopback(gid))
		return KIND_LOOPBACK;
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid) ? KIND_LINK_LOCAL : KIND_GLOBAL;
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

int rdma_refuse_route(const struct rdma_addr *addr, int error)
{
	const struct rdma_addr ip = rdma_ip_addresses(addr);
	char text[RDMA_ADDRESS_TEXT];

	if (is_descriptor_error(error)) /* the routing wasn't asked */
		return refuse_system_error(error, "a route");
	rdma_address_text(&ip.dst_addr, text);
	if (error == EAGAIN || error == EADDRINUSE) /* of connect(2), of bind(2) */
		return refuse(error, CAUSE_CM_NO_UDP_PORT, "to %s", text);
	return refuse(error, CAUSE_CM_NO_ROUTE, "to %s: %s", text, strerror(error));
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
	int error = route_ask(&addr.dst_addr, &routed, NULL);
	union ibv_gid source;

	if (error && !multicast)
		return rdma_refuse_route(&addr, error);
	if (bound)
		return 0;
	gid_from_sockaddr(&source, (struct sockaddr *)&routed);
	if ((error || !is_ours(&source)) && !first_source(&addr.dst_addr, &source))
		*found = refuse_source(&addr, &source);
	else
		*found = set_source(id, &source);
	if (!*found && !error)
		*found = check_interface(id, (struct sockaddr *)&routed);
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

int rdma_check_way(const struct rdma_addr *addr, uint32_t *mtu)
{
	const struct rdma_addr ip = rdma_ip_addresses(addr);
	struct sockaddr_storage source = ip.src_storage;

	*mtu = UINT32_MAX;
	if (gid_is_multicast(&ip.addr.ibaddr.dgid))
		return 0;
	return route_ask(&ip.dst_addr, &source, mtu);
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

/* 0 or EINVAL, whether the source is needed or not. NULL: any. */
static int check_source_family(const struct sockaddr *source)
{
	if (!source || rdma_sockaddr_length(source))
		return 0;
	return refuse(EINVAL, CAUSE_CM_ADDRESS_FAMILY,
		      "rdma_resolve_addr(): the source's family is %d", source->sa_family);
}

/* 0 or EINVAL. */
static int check_ends(const struct sockaddr *source, const struct sockaddr *destination)
{
	int error = check_address(destination);

	return error ? error : check_source_family(source);
}

/* A port that the caller names is claimed, as by rdma_bind_addr(). Returns 0 or an errno. */
static int bind_named_port(struct rdma_id *id, const struct sockaddr *source)
{
	if (id->state != RDMA_STATE_IDLE || !source || rdma_sockaddr_port(source) == 0)
		return 0;
	return bind_claimed(id, source);
}

/* Up to where errors are the call's own. With rdma.lock held. */
static int begin_resolving(struct rdma_id *id, const struct sockaddr *source,
			   const struct sockaddr *destination)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	struct sockaddr_storage none = {.ss_family = destination->sa_family};
	int error;

	if (id->state != RDMA_STATE_IDLE && id->state != RDMA_STATE_ADDRESS_BOUND)
		return rdma_refuse_state(id, "rdma_resolve_addr()", "not bound, or bound");
	if (id->state == RDMA_STATE_ADDRESS_BOUND)
		return check_families(addr, destination);
	/* Known before the port is chosen: two connections may share one. */
	memcpy(&addr->dst_storage, destination, rdma_sockaddr_length(destination));
	error = bind_source(id, source ? source : (struct sockaddr *)&none);
	if (!error)
		return check_families(addr, destination);
	memset(&addr->dst_storage, 0, sizeof(addr->dst_storage));
	return error;
}

int urxe_rdma_resolve_addr(struct rdma_cm_id *ibv, struct sockaddr *source,
			   struct sockaddr *destination, int timeout_ms)
{
	struct rdma_id *id = to_rdma_id(ibv);
	int error = check_ends(source, destination), found;
	struct context *context;
	bool synchronous;

	if (!error)
		error = bind_named_port(id, source);
	if (error)
		return rdma_fail(error);
	rdma_enter();
	synchronous = id->synchronous;
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
	/*
	 * The caller may have polled for completions until now, and does something else from here
	 * on: the ACKs that wait for its next poll are sent.
	 */
	if (context)
		hca_acknowledge(context->hca, clock_now());
	return rdma_complete(id, synchronous);
}
