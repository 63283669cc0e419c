/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a host can be reached at all: rdma_resolve_addr(3) takes until its hardware
 * address is known, and fails if it doesn't come in time, as Linux has it (addr.c). The
 * kernel does the asking (verbs/neighbour.h).
 *
 * Ids that wait are in RDMA_STATE_ADDRESS_QUERY. While there are any, the progress thread
 * reads a netlink socket that tells of neighbours; rdma.lock protects the rest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/log.h"
#include "verbs/neighbour.h"
#include "verbs/netlink.h"
#include "verbs/progress.h"
#include "verbs/rdma/rdma.h"
#include "verbs/registry.h"

static struct {
	struct netlink_socket socket;
	struct progress_client *client;
	_Atomic uint64_t deadline; /* the earliest of the ids that wait, or TIME_NEVER */
} neighbours = {.socket.fd = -1, .deadline = TIME_NEVER};

/* --- ids that wait -------------------------------------------------------------------- */

/* End the wait of @id: its address is resolved, or isn't, for @error. */
static void end_query(struct rdma_id *id, int error)
{
	if (!error)
		error = rdma_injected(FAULT_ADDR_ERROR);
	id->state = error ? RDMA_STATE_ADDRESS_BOUND : RDMA_STATE_ADDRESS_RESOLVED;
	if (error)
		rdma_forget_source(id);
	rdma_event(id, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -error);
}

/* No host has answered ARP or ND. */
static int refuse_silent(const struct rdma_id *id, unsigned int state)
{
	char to[RDMA_ADDRESS_TEXT], host[INET6_ADDRSTRLEN], interface[IF_NAMESIZE] = "?";

	if_indextoname(id->neighbour.host.interface, interface);
	cause_report(CAUSE_CM_NO_NEIGHBOUR, "to %s by %s on %s: %s",
		     rdma_address_text(&id->ibv.route.addr.dst_addr, to),
		     inet_ntop(id->neighbour.host.family, id->neighbour.host.address, host,
			       sizeof(host)),
		     interface,
		     state == NUD_FAILED ? "the kernel gave up" : "no answer in the time given");
	return ETIMEDOUT;
}

/* Look what the kernel knows of the neighbour of @id. Returns whether it still waits. */
static bool check_query(struct rdma_id *id, uint64_t now)
{
	unsigned int state = neighbour_state(&id->neighbour.host, NULL);

	if (state & NEIGHBOUR_VALID)
		end_query(id, 0);
	else if (state == NUD_FAILED || now >= id->neighbour.deadline)
		end_query(id, refuse_silent(id, state));
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
		if (id->state != RDMA_STATE_ADDRESS_QUERY || !check_query(id, now))
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

/* Messages only say that it is time: what ids wait for the kernel is asked, each for itself. */
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
	return progress_one_descriptor(neighbours.socket.fd, fds);
}

/* Listen for neighbours, from the first use on until the process ends. Returns 0 or an errno. */
static int start_watching(void)
{
	static const struct progress_ops ops = {.progress = neighbour_progress,
						.deadline = neighbour_deadline,
						.descriptors = neighbour_descriptors};
	int error;

	if (neighbours.client)
		return 0;
	error = netlink_open(&neighbours.socket, 0);
	if (!error)
		error = registry_attach(&ops, &neighbours, &neighbours.client);
	if (!error)
		return 0;
	log_info("neighbours can't be watched: %s", strerror(error));
	netlink_close(&neighbours.socket);
	return error;
}

static void wait_for(struct rdma_id *id, const struct rdma_addr *addr, int timeout_ms)
{
	uint64_t now = clock_now();
	uint64_t deadline = timeout_ms < 0 ? TIME_NEVER : now + (uint64_t)timeout_ms * NS_PER_MS;

	id->neighbour.deadline = deadline;
	id->state = RDMA_STATE_ADDRESS_QUERY;
	listen_to_neighbours(true);
	neighbour_provoke(&addr->src_addr, &addr->dst_addr);
	/* It may have been found before the socket listened. */
	if (!check_query(id, now))
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
	    neighbour_find(&addr.src_addr, &addr.dst_addr, &id->neighbour.host) != 0 ||
	    neighbour_has_none(id->neighbour.host.interface) ||
	    (neighbour_state(&id->neighbour.host, NULL) & NEIGHBOUR_VALID) || start_watching() != 0)
		end_query(id, 0);
	else
		wait_for(id, &addr, timeout_ms);
}

void rdma_neighbour_after_fork_child(void)
{
	netlink_close(&neighbours.socket);
	neighbours.client = NULL;
	atomic_store(&neighbours.deadline, TIME_NEVER);
}
