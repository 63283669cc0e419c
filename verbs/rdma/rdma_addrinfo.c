/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address information (rdma_getaddrinfo(3)): the system's resolver with RDMA's hints and answers.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/context.h"
#include "verbs/rdma/rdma.h"

/* Newer than the oldest headers that urxe builds with: neither changes anything on RoCE. */
#ifndef RAI_SA
#define RAI_SA 0x10
#define RAI_DNS 0x20
#endif
#define RAI_KNOWN (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY | RAI_SA | RAI_DNS)

/* Which QP type and port space go together, and what follows from one of them (cm.md 12). */
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
	return EAI_SOCKTYPE;
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

/* Fill in what @found says: the destination, or for RAI_PASSIVE the source. */
static int take_answer(struct rdma_addrinfo *info, const struct addrinfo *found)
{
	bool passive = info->ai_flags & RAI_PASSIVE;
	char **name = passive ? &info->ai_src_canonname : &info->ai_dst_canonname;

	info->ai_family = found->ai_family;
	if (found->ai_canonname && !(*name = strdup(found->ai_canonname)))
		return EAI_MEMORY;
	return copy_address(passive ? &info->ai_src_addr : &info->ai_dst_addr,
			    passive ? &info->ai_src_len : &info->ai_dst_len, found->ai_addr,
			    found->ai_addrlen);
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
	if (info->ai_flags & RAI_FAMILY)
		wanted.ai_family = info->ai_family;
	error = getaddrinfo(node, service, &wanted, &found);
	if (error)
		return error;
	error = take_answer(info, found);
	freeaddrinfo(found);
	return error;
}

static int fill_in(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *info)
{
	int socket_type, error;

	info->ai_flags = hints->ai_flags;
	info->ai_family = hints->ai_family;
	error = choose_service(hints, info, &socket_type);
	if (!error && (node || service))
		error = look_up(node, service, socket_type, info);
	if (!error && !info->ai_dst_len && hints->ai_dst_len && !(hints->ai_flags & RAI_PASSIVE))
		error = copy_address(&info->ai_dst_addr, &info->ai_dst_len, hints->ai_dst_addr,
				     hints->ai_dst_len);
	if (!error && !info->ai_src_len && hints->ai_src_len)
		error = copy_address(&info->ai_src_addr, &info->ai_src_len, hints->ai_src_addr,
				     hints->ai_src_len);
	return error;
}

int urxe_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			  struct rdma_addrinfo **result)
{
	static const struct rdma_addrinfo no_hints;
	struct rdma_addrinfo *info;
	int error;

	if (!node && !service && !hints)
		return rdma_fail(EINVAL);
	if (hints && hints->ai_flags & ~RAI_KNOWN)
		return EAI_BADFLAGS;
	info = calloc(1, sizeof(*info));
	if (!info)
		return rdma_fail(ENOMEM);
	error = fill_in(node, service, hints ? hints : &no_hints, info);
	if (error) {
		urxe_rdma_freeaddrinfo(info);
		return error;
	}
	*result = info;
	return 0;
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
		free(info);
		info = next;
	}
}
