/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a host can be reached at all: rdma_resolve_addr(3) takes until its hardware
 * address is known, and fails if it doesn't come in time, as Linux has it (addr.c). The
 * kernel does the asking, by ARP or ND: a datagram makes it ask, its neighbour table has
 * the outcome.
 *
 * Ids that wait are in RDMA_STATE_ADDRESS_QUERY. While there are any, the progress thread
 * reads a netlink socket that tells of neighbours; rdma.lock protects the rest.
 */
#include <errno.h>
#include <linux/neighbour.h>
#include <net/if.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/log.h"
#include "verbs/netlink.h"
#include "verbs/progress.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

#define NS_PER_MS 1000000u

/* Linux: NUD_VALID. A neighbour that is there, or was a moment ago. */
#define VALID (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

static struct {
	struct netlink_socket socket;
	struct progress_client *client;
	_Atomic uint64_t deadline; /* the earliest of the ids that wait, or TIME_NEVER */
} neighbours = {.socket.fd = -1, .deadline = TIME_NEVER};

/* --- what the kernel knows ------------------------------------------------------------ */

static size_t address_length(int family)
{
	return family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

static const void *address_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET
		       ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
		       : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

static void set_next_hop(struct rdma_neighbour *neighbour, int family, const void *address)
{
	neighbour->family = family;
	memcpy(neighbour->address, address, address_length(family));
}

/* Fill in interface and next hop. Returns false if no host on a link has to be found. */
static bool find_next_hop(const struct rdma_addr *addr, struct rdma_neighbour *neighbour)
{
	const int family = addr->dst_addr.sa_family;
	const uint32_t scope = family == AF_INET6 ? addr->dst_sin6.sin6_scope_id : 0;
	const size_t length = address_length(family);
	const struct rtmsg question = {
		.rtm_family = family, .rtm_dst_len = 8 * length, .rtm_src_len = 8 * length};
	const struct rtmsg *answer;
	const struct rtvia *via;
	const uint32_t *interface;
	const void *gateway;
	struct netlink_message message;

	netlink_begin(&message, RTM_GETROUTE, &question, sizeof(question));
	netlink_put(&message, RTA_DST, address_of(&addr->dst_addr), length);
	netlink_put(&message, RTA_SRC, address_of(&addr->src_addr), length);
	if (scope)
		netlink_put(&message, RTA_OIF, &scope, sizeof(scope));
	if (netlink_ask(&message) != 0)
		return false;
	answer = NLMSG_DATA(&message.header);
	interface = netlink_get(&message, sizeof(*answer), RTA_OIF, sizeof(*interface));
	if (answer->rtm_type != RTN_UNICAST || !interface)
		return false;
	neighbour->interface = *interface;
	gateway = netlink_get(&message, sizeof(*answer), RTA_GATEWAY, length);
	via = netlink_get(&message, sizeof(*answer), RTA_VIA,
			  sizeof(*via) + sizeof(struct in6_addr));
	if (via) /* IPv4 by a gateway of IPv6 */
		set_next_hop(neighbour, via->rtvia_family, via->rtvia_addr);
	else
		set_next_hop(neighbour, family, gateway ? gateway : address_of(&addr->dst_addr));
	return true;
}

/* Hosts there have no hardware addresses, or none that has to be asked for. */
static bool is_without_neighbours(unsigned int interface)
{
	struct ifreq request = {};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool without;

	if (fd < 0)
		return true;
	without = !if_indextoname(interface, request.ifr_name) ||
		  ioctl(fd, SIOCGIFFLAGS, &request) < 0 ||
		  (request.ifr_flags & (IFF_LOOPBACK | IFF_NOARP));
	close(fd);
	return without;
}

/* NUD_...: NUD_NONE when nothing was asked yet; NUD_NOARP when the kernel can't tell. */
static unsigned int neighbour_state(const struct rdma_neighbour *neighbour)
{
	const struct ndmsg question = {.ndm_family = neighbour->family,
				       .ndm_ifindex = (int)neighbour->interface};
	struct netlink_message message;
	int error;

	netlink_begin(&message, RTM_GETNEIGH, &question, sizeof(question));
	netlink_put(&message, NDA_DST, neighbour->address, address_length(neighbour->family));
	error = netlink_ask(&message);
	if (error)
		return error == ENOENT ? NUD_NONE : NUD_NOARP;
	return ((const struct ndmsg *)NLMSG_DATA(&message.header))->ndm_state;
}

/*
 * An empty datagram, which the host drops: to RoCE's port, for that is what firewalls have
 * to let through.
 */
static void provoke(const struct rdma_addr *addr)
{
	struct sockaddr_storage from = addr->src_storage, to = addr->dst_storage;
	const socklen_t length = rdma_sockaddr_length(&addr->dst_addr);
	int fd = socket(addr->dst_addr.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	((struct sockaddr_in *)&from)->sin_port = 0;
	((struct sockaddr_in *)&to)->sin_port = htons(ROCE_V2_UDP_PORT);
	if (bind(fd, (struct sockaddr *)&from, length) == 0)
		sendto(fd, "", 0, 0, (struct sockaddr *)&to, length);
	close(fd);
}

/* --- ids that wait -------------------------------------------------------------------- */

/* The address of @id is resolved, or isn't. */
static void end(struct rdma_id *id, int error)
{
	id->state = error ? RDMA_STATE_ADDRESS_BOUND : RDMA_STATE_ADDRESS_RESOLVED;
	rdma_event(id, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -error);
}

/* Returns whether it still waits. */
static bool check(struct rdma_id *id, uint64_t now)
{
	unsigned int state = neighbour_state(&id->neighbour);

	if (state & VALID)
		end(id, 0);
	else if (state == NUD_FAILED || now >= id->neighbour.deadline)
		end(id, ETIMEDOUT);
	return id->state == RDMA_STATE_ADDRESS_QUERY;
}

static void listen_to_neighbours(bool on)
{
	const int group = RTNLGRP_NEIGH;

	if (neighbours.socket.fd >= 0)
		setsockopt(neighbours.socket.fd, SOL_NETLINK,
			   on ? NETLINK_ADD_MEMBERSHIP : NETLINK_DROP_MEMBERSHIP, &group,
			   sizeof(group));
}

static void check_all(uint64_t now)
{
	uint64_t earliest = TIME_NEVER;
	bool any = false;

	for (struct rdma_id *id = rdma_ids(); id; id = id->next) {
		if (id->state != RDMA_STATE_ADDRESS_QUERY || !check(id, now))
			continue;
		any = true;
		if (id->neighbour.deadline < earliest)
			earliest = id->neighbour.deadline;
	}
	atomic_store(&neighbours.deadline, earliest);
	if (!any)
		listen_to_neighbours(false);
}

static void ignore(void *context, const struct nlmsghdr *message)
{
}

/* The application has closed the socket. */
static void watch_again(void)
{
	netlink_open(&neighbours.socket, 0);
	listen_to_neighbours(true);
	progress_refresh(neighbours.client);
}

/* Whatever neighbour the message is about: those that ids wait for are asked for anew. */
static bool neighbour_progress(void *context, uint64_t now)
{
	bool any;

	if (!netlink_verify(&neighbours.socket))
		watch_again();
	any = netlink_receive(&neighbours.socket, ignore, NULL);
	if (!any && now < atomic_load(&neighbours.deadline))
		return false;
	rdma_enter();
	check_all(now);
	rdma_leave();
	return true;
}

static uint64_t neighbour_deadline(void *context)
{
	return atomic_load(&neighbours.deadline);
}

static unsigned int neighbour_descriptors(void *context, int *fds, unsigned int max)
{
	if (max == 0 || neighbours.socket.fd < 0)
		return 0;
	fds[0] = neighbours.socket.fd;
	return 1;
}

/* Once, for as long as the process lives. Returns 0 or an errno. */
static int start(void)
{
	static const struct progress_ops ops = {.progress = neighbour_progress,
						.deadline = neighbour_deadline,
						.descriptors = neighbour_descriptors};
	struct progress *progress;
	struct capture *capture;
	int error;

	if (neighbours.client)
		return 0;
	error = registry_acquire(&progress, &capture);
	if (error)
		return error;
	error = netlink_open(&neighbours.socket, 0);
	if (!error)
		error = progress_attach(progress, &ops, &neighbours, &neighbours.client);
	if (!error)
		return 0;
	log_info("neighbours can't be watched: %s", strerror(error));
	netlink_close(&neighbours.socket);
	registry_release();
	return error;
}

static void wait_for(struct rdma_id *id, const struct rdma_addr *addr, int timeout_ms)
{
	uint64_t now = clock_now();
	uint64_t deadline = timeout_ms < 0 ? TIME_NEVER : now + (uint64_t)timeout_ms * NS_PER_MS;

	id->neighbour.deadline = deadline;
	id->state = RDMA_STATE_ADDRESS_QUERY;
	listen_to_neighbours(true);
	provoke(addr);
	/* It may have been found before the socket listened. */
	if (!check(id, now))
		return;
	if (deadline < atomic_load(&neighbours.deadline))
		atomic_store(&neighbours.deadline, deadline);
	progress_deadline(neighbours.client, deadline);
}

void rdma_neighbour_resolve(struct rdma_id *id, int timeout_ms)
{
	const struct rdma_addr addr = rdma_ip_addresses(&id->ibv.route.addr);

	memset(&id->neighbour, 0, sizeof(id->neighbour));
	if (gid_is_multicast(&addr.addr.ibaddr.dgid) ||
	    gid_equal(&addr.addr.ibaddr.sgid, &addr.addr.ibaddr.dgid) ||
	    !find_next_hop(&addr, &id->neighbour) ||
	    is_without_neighbours(id->neighbour.interface) ||
	    (neighbour_state(&id->neighbour) & VALID) || start() != 0)
		end(id, 0);
	else
		wait_for(id, &addr, timeout_ms);
}

void rdma_neighbour_after_fork_child(void)
{
	netlink_close(&neighbours.socket);
	neighbours.client = NULL;
	atomic_store(&neighbours.deadline, TIME_NEVER);
}
