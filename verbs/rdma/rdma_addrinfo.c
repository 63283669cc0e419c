/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address information: the system's resolver with RDMA's hints and answers (rdma_getaddrinfo(3)),
 * and the same in a thread of its own, whose end is an event (rdma_resolve_addrinfo(3)). Only
 * the latter takes rdma.lock.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/cause.h"
#include "net/quarantine.h"
#include "verbs/rdma/rdma.h"
#include "verbs/thread.h"

/* Newer than the oldest headers that urxe builds with: neither changes anything on RoCE. */
#ifndef RAI_SA
#define RAI_SA 0x10
#define RAI_DNS 0x20
#endif
#define RAI_KNOWN (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY | RAI_SA | RAI_DNS)

/*
 * Which QP type and port space go together, and what follows from one of them
 * (rdma_getaddrinfo(3)).
 */
static const struct {
	int socket_type, port_space, qp_type;
} services[] = {
	{SOCK_STREAM, RDMA_PS_TCP, IBV_QPT_RC},
	{SOCK_STREAM, RDMA_PS_TCP, IBV_QPT_XRC_SEND},
	{SOCK_STREAM, RDMA_PS_TCP, IBV_QPT_XRC_RECV},
	{SOCK_DGRAM, RDMA_PS_UDP, IBV_QPT_UD},
	{SOCK_DGRAM, RDMA_PS_IPOIB, IBV_QPT_UD},
	{0, RDMA_PS_IB, IBV_QPT_RC},
	{0, RDMA_PS_IB, IBV_QPT_UC},
	{0, RDMA_PS_IB, IBV_QPT_UD},
	{SOCK_STREAM, RDMA_PS_IB, IBV_QPT_XRC_SEND},
	{SOCK_STREAM, RDMA_PS_IB, IBV_QPT_XRC_RECV},
};

/* The socket type that getaddrinfo(3) is asked for, or EAI_SOCKTYPE (as EAI_QPTYPE is spelt). */
static int choose_service(const struct rdma_addrinfo *hints, struct rdma_addrinfo *info,
			  int *socket_type)
{
	for (unsigned int i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
		if ((hints->ai_port_space && hints->ai_port_space != services[i].port_space) ||
		    (hints->ai_qp_type && hints->ai_qp_type != services[i].qp_type))
			continue;
		info->ai_port_space = services[i].port_space;
		info->ai_qp_type = services[i].qp_type;
		*socket_type = services[i].socket_type;
		return 0;
	}
	return refuse(EAI_SOCKTYPE, CAUSE_CM_ADDRINFO_HINTS,
		      "rdma_getaddrinfo(): ai_port_space 0x%x, ai_qp_type %d", hints->ai_port_space,
		      hints->ai_qp_type);
}

/* A copy of @address in place of what was there. Returns 0 or EAI_MEMORY. */
static int copy_address(struct sockaddr **to, socklen_t *to_length, const struct sockaddr *address,
			socklen_t length)
{
	struct sockaddr *copy = malloc(length);

	if (!copy)
		return EAI_MEMORY;
	memcpy(copy, address, length);
	free(*to);
	*to = copy;
	*to_length = length;
	return 0;
}

/* On RoCE the GID of a host is its IP address. */
static bool wants_ib(const struct rdma_addrinfo *info)
{
	return info->ai_flags & RAI_FAMILY && info->ai_family == AF_IB;
}

/* Fill in what @found says: the destination, or for RAI_PASSIVE the source. */
static int take_answer(struct rdma_addrinfo *info, const struct addrinfo *found)
{
	bool passive = info->ai_flags & RAI_PASSIVE;
	char **name = passive ? &info->ai_src_canonname : &info->ai_dst_canonname;
	struct sockaddr **to = passive ? &info->ai_src_addr : &info->ai_dst_addr;
	socklen_t *length = passive ? &info->ai_src_len : &info->ai_dst_len;
	struct sockaddr_ib ib;

	if (found->ai_canonname && !(*name = strdup(found->ai_canonname)))
		return EAI_MEMORY;
	if (wants_ib(info)) {
		rdma_sockaddr_to_ib(&ib, found->ai_addr, info->ai_port_space);
		return copy_address(to, length, (struct sockaddr *)&ib, sizeof(ib));
	}
	info->ai_family = found->ai_family;
	return copy_address(to, length, found->ai_addr, found->ai_addrlen);
}

static int look_up(const char *node, const char *service, int socket_type,
		   struct rdma_addrinfo *info)
{
	struct addrinfo wanted = {.ai_socktype = socket_type}, *found;
	int error;

	if (info->ai_flags & RAI_PASSIVE)
		wanted.ai_flags |= AI_PASSIVE;
	if (info->ai_flags & RAI_NUMERICHOST)
		wanted.ai_flags |= AI_NUMERICHOST;
	/* As librdmacm: RAI_FAMILY is needed for AF_IB alone, whose addresses are those of IP. */
	if (info->ai_family != AF_IB)
		wanted.ai_family = info->ai_family;
	error = getaddrinfo(node, service, &wanted, &found);
	if (error == EAI_MEMORY)
		return error; /* as where any other memory is lacking: find_info() */
	if (error)
		return refuse(error, CAUSE_CM_ADDRINFO, "rdma_getaddrinfo(): %s, %s: %s",
			      node ? node : "no host", service ? service : "no service",
			      error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
	error = take_answer(info, found);
	freeaddrinfo(found);
	return error;
}

static int fill_in(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *info)
{
	int socket_type = 0, error;

	info->ai_flags = hints->ai_flags;
	info->ai_family = hints->ai_family;
	error = choose_service(hints, info, &socket_type);
	if (!error && (node || service))
		error = look_up(node, service, socket_type, info);
	if (!error && !info->ai_dst_len && hints->ai_dst_addr && hints->ai_dst_len &&
	    !(hints->ai_flags & RAI_PASSIVE))
		error = copy_address(&info->ai_dst_addr, &info->ai_dst_len, hints->ai_dst_addr,
				     hints->ai_dst_len);
	if (!error && !info->ai_src_len && hints->ai_src_addr && hints->ai_src_len)
		error = copy_address(&info->ai_src_addr, &info->ai_src_len, hints->ai_src_addr,
				     hints->ai_src_len);
	return error;
}

static void free_info(void *info)
{
	urxe_rdma_freeaddrinfo(info);
}

/* Returns 0 or EAI_... A thread may be cancelled in the resolver, which may ask other hosts. */
static int find_info(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **result)
{
	static const struct rdma_addrinfo no_hints;
	struct rdma_addrinfo *info;
	int error;

	if (hints && hints->ai_flags & ~RAI_KNOWN) {
		errno = EINVAL; /* EAI_BADFLAGS is -1, with which errno tells more */
		return refuse(EAI_BADFLAGS, CAUSE_CM_ADDRINFO_HINTS,
			      "rdma_getaddrinfo(): ai_flags is 0x%x", hints->ai_flags);
	}
	info = calloc(1, sizeof(*info));
	pthread_cleanup_push(free_info, info);
	error = info ? fill_in(node, service, hints ? hints : &no_hints, info) : EAI_MEMORY;
	pthread_cleanup_pop(error != 0);
	if (error == EAI_MEMORY)
		return refuse(error, CAUSE_OUT_OF_MEMORY, "for rdma_getaddrinfo()");
	if (!error)
		*result = info;
	return error;
}

int urxe_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			  struct rdma_addrinfo **result)
{
	if (!node && !service && !hints)
		return rdma_fail(refuse(EINVAL, CAUSE_CM_ADDRINFO_HINTS,
					"rdma_getaddrinfo(): neither host nor service nor hints"));
	return find_info(node, service, hints, result);
}

void urxe_rdma_freeaddrinfo(struct rdma_addrinfo *info)
{
	while (info) {
		struct rdma_addrinfo *next = info->ai_next;

		free(info->ai_src_addr);
		free(info->ai_dst_addr);
		free(info->ai_src_canonname);
		free(info->ai_dst_canonname);
		free(info->ai_route);
		free(info->ai_connect);
		quarantine_free(info, sizeof(*info));
		info = next;
	}
}

/* --- asynchronously ---------------------------------------------------------------------- */

/* What its thread is to look up. The thread frees it; rdma.lock protects @id. */
struct rdma_lookup {
	struct rdma_id *id; /* NULL: it is destroyed */
	char *node, *service;
	struct rdma_addrinfo *hints;
};

static void lookup_free(struct rdma_lookup *lookup)
{
	free(lookup->node);
	free(lookup->service);
	urxe_rdma_freeaddrinfo(lookup->hints);
	free(lookup);
}

/* Without what the resolver doesn't give: ai_route and ai_connect. NULL without memory. */
static struct rdma_addrinfo *copy_info(const struct rdma_addrinfo *info)
{
	struct rdma_addrinfo *copy = malloc(sizeof(*copy));
	int error = 0;

	if (!copy)
		return NULL;
	*copy = (struct rdma_addrinfo){
		.ai_flags = info->ai_flags,
		.ai_family = info->ai_family,
		.ai_qp_type = info->ai_qp_type,
		.ai_port_space = info->ai_port_space,
	};
	if (info->ai_src_len)
		error = copy_address(&copy->ai_src_addr, &copy->ai_src_len, info->ai_src_addr,
				     info->ai_src_len);
	if (!error && info->ai_dst_len)
		error = copy_address(&copy->ai_dst_addr, &copy->ai_dst_len, info->ai_dst_addr,
				     info->ai_dst_len);
	if (!error && info->ai_src_canonname &&
	    !(copy->ai_src_canonname = strdup(info->ai_src_canonname)))
		error = EAI_MEMORY;
	if (!error && info->ai_dst_canonname &&
	    !(copy->ai_dst_canonname = strdup(info->ai_dst_canonname)))
		error = EAI_MEMORY;
	if (!error)
		return copy;
	urxe_rdma_freeaddrinfo(copy);
	return NULL;
}

static struct rdma_lookup *lookup_new(struct rdma_id *id, const char *node, const char *service,
				      const struct rdma_addrinfo *hints)
{
	struct rdma_lookup *lookup = calloc(1, sizeof(*lookup));

	if (!lookup)
		return NULL;
	lookup->id = id;
	lookup->node = node ? strdup(node) : NULL;
	lookup->service = service ? strdup(service) : NULL;
	lookup->hints = hints ? copy_info(hints) : NULL;
	if (!lookup->node == !node && !lookup->service == !service && !lookup->hints == !hints)
		return lookup;
	lookup_free(lookup);
	return NULL;
}

/* The status of the event, as of all others: 0 or a negative errno. */
static int event_status(int error)
{
	static const struct {
		int error, status;
	} statuses[] = {
		{0, 0},
		{EAI_MEMORY, -ENOMEM},
		{EAI_AGAIN, -EAGAIN},
		{EAI_BADFLAGS, -EINVAL},
		{EAI_SOCKTYPE, -EINVAL},
		{EAI_FAMILY, -EAFNOSUPPORT},
		{EAI_ADDRFAMILY, -EAFNOSUPPORT},
	};

	if (error == EAI_SYSTEM)
		return -errno;
	for (unsigned int i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i].error == error)
			return statuses[i].status;
	}
	return -ENOENT; /* no such name or service */
}

/* With rdma.lock held. */
static void end_lookup(struct rdma_id *id, struct rdma_addrinfo *info, int status)
{
	id->lookup = NULL;
	id->addrinfo = info;
	rdma_event(id, status ? RDMA_EVENT_ADDRINFO_ERROR : RDMA_EVENT_ADDRINFO_RESOLVED, status);
}

static void *run_lookup(void *argument)
{
	struct rdma_lookup *lookup = argument;
	struct rdma_addrinfo *info = NULL;
	int status = event_status(
		urxe_rdma_getaddrinfo(lookup->node, lookup->service, lookup->hints, &info));

	rdma_enter();
	if (lookup->id)
		end_lookup(lookup->id, info, status);
	else
		urxe_rdma_freeaddrinfo(info);
	rdma_leave();
	lookup_free(lookup);
	return NULL;
}

/* A subnet administrator, which RoCE hasn't, is asked by the port that the id is bound to. */
static int check_lookup(const struct rdma_id *id, const char *node, const char *service,
			const struct rdma_addrinfo *hints)
{
	const int flags = hints ? hints->ai_flags : 0;

	if ((!node && !service && !hints) || id->lookup || (flags & RAI_SA && flags & RAI_DNS))
		return refuse(EINVAL, CAUSE_CM_ADDRINFO_HINTS, "rdma_resolve_addrinfo(): %s",
			      id->lookup ? "the last one isn't resolved yet"
					 : "neither host nor service nor hints, or RAI_SA with "
					   "RAI_DNS");
	if (!(flags & RAI_SA))
		return 0;
	return refuse(node || !id->device ? EINVAL : EOPNOTSUPP, CAUSE_CM_ADDRINFO_SA,
		      "rdma_resolve_addrinfo(): ai_flags is 0x%x", flags);
}

/* With rdma.lock held. Returns 0 or an errno. */
static int begin_lookup(struct rdma_id *id, const char *node, const char *service,
			const struct rdma_addrinfo *hints)
{
	int error = check_lookup(id, node, service, hints);
	struct rdma_lookup *lookup;

	if (error)
		return error;
	lookup = lookup_new(id, node, service, hints);
	if (!lookup)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for rdma_resolve_addrinfo()");
	error = thread_start(NULL, run_lookup, lookup);
	if (error) {
		lookup_free(lookup);
		return refuse(error, CAUSE_OUT_OF_MEMORY,
			      "for the thread of rdma_resolve_addrinfo(): %s", strerror(error));
	}
	id->lookup = lookup;
	urxe_rdma_freeaddrinfo(id->addrinfo);
	id->addrinfo = NULL;
	return 0;
}

int urxe_rdma_resolve_addrinfo(struct rdma_cm_id *ibv, const char *node, const char *service,
			       const struct rdma_addrinfo *hints)
{
	struct rdma_id *id = to_rdma_id(ibv);
	bool synchronous;
	int error;

	rdma_enter();
	synchronous = id->synchronous;
	error = begin_lookup(id, node, service, hints);
	rdma_leave();
	return error ? rdma_fail(error) : rdma_complete(id, synchronous);
}

int urxe_rdma_query_addrinfo(struct rdma_cm_id *ibv, struct rdma_addrinfo **info)
{
	struct rdma_id *id = to_rdma_id(ibv);
	int error = EINVAL;

	rdma_enter();
	if (id->addrinfo) {
		*info = copy_info(id->addrinfo);
		error = *info ? 0 : refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for an rdma_addrinfo");
	} else {
		refuse(EINVAL, CAUSE_CM_ARGUMENT,
		       "rdma_query_addrinfo(): rdma_resolve_addrinfo() has found nothing yet");
	}
	rdma_leave();
	return error ? rdma_fail(error) : 0;
}

void rdma_addrinfo_leave(struct rdma_id *id)
{
	if (id->lookup)
		id->lookup->id = NULL;
	id->lookup = NULL;
	urxe_rdma_freeaddrinfo(id->addrinfo);
	id->addrinfo = NULL;
}

void rdma_addrinfo_after_fork_child(struct rdma_id *id)
{
	if (id->lookup)
		lookup_free(id->lookup);
	id->lookup = NULL;
}
