/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket addresses of rdma_cm: IPv4, IPv6, and InfiniBand's, whose GID is an IP address on RoCE
 * (Annex A17) and whose service id takes the place of port space and port. Routing and
 * neighbours are asked for the IP addresses that they stand for, and for those of IPv4 that
 * IPv6's have mapped.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "net/wire/gid.h"
#include "net/wire/gid_table.h"
#include "verbs/rdma/rdma.h"

#define PORT_MASK UINT64_C(0xffff)

size_t rdma_sockaddr_length(const struct sockaddr *address)
{
	int family = address ? address->sa_family : AF_UNSPEC;

	return family == AF_IB ? sizeof(struct sockaddr_ib) : ip_sockaddr_length(family);
}

/* Bits of the service id that @address leaves open (sib_sid_mask) count as 0. */
uint16_t rdma_sockaddr_port(const struct sockaddr *address)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)address;

	if (address->sa_family == AF_IB)
		return be64toh(ib->sib_sid & ib->sib_sid_mask) & PORT_MASK;
	/* Those of IPv4 and IPv6 have the port in the same place. */
	return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void rdma_sockaddr_set_port(struct sockaddr *address, uint16_t port)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)address;

	if (address->sa_family == AF_IB)
		ib->sib_sid = htobe64((be64toh(ib->sib_sid) & ~PORT_MASK) | port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

void rdma_sockaddr_set_any(struct sockaddr_storage *address, int family)
{
	const uint16_t port = rdma_sockaddr_port((const struct sockaddr *)address);

	*address = (struct sockaddr_storage){.ss_family = family};
	rdma_sockaddr_set_port((struct sockaddr *)address, port);
}

bool rdma_sockaddr_is_any(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)address)->sin_addr.s_addr == INADDR_ANY;
	case AF_INET6:
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
	case AF_IB:
		return ib_addr_any(&((const struct sockaddr_ib *)address)->sib_addr);
	default:
		return true;
	}
}

void rdma_sockaddr_gid(const struct sockaddr *address, union ibv_gid *gid)
{
	if (address->sa_family == AF_IB)
		memcpy(gid, &((const struct sockaddr_ib *)address)->sib_addr, sizeof(*gid));
	else
		gid_from_sockaddr(gid, address);
}

void rdma_sockaddr_set_gid(struct sockaddr *address, const union ibv_gid *gid)
{
	uint16_t port = rdma_sockaddr_port(address);

	if (address->sa_family == AF_IB)
		memcpy(&((struct sockaddr_ib *)address)->sib_addr, gid, sizeof(*gid));
	else
		gid_to_sockaddr(gid, port, (struct sockaddr_storage *)address);
}

const char *rdma_address_text(const struct sockaddr *address, char text[RDMA_ADDRESS_TEXT])
{
	char ip[INET6_ADDRSTRLEN];
	union ibv_gid gid;

	if (!rdma_sockaddr_length(address)) {
		snprintf(text, RDMA_ADDRESS_TEXT, "no address");
		return text;
	}
	rdma_sockaddr_gid(address, &gid);
	snprintf(text, RDMA_ADDRESS_TEXT, "%s port %u", gid_to_text(&gid, ip),
		 rdma_sockaddr_port(address));
	return text;
}

/* A link-local address says nothing without its interface, which is @scope. */
static void set_scope(struct sockaddr_in6 *address, uint32_t scope)
{
	if (address->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr))
		address->sin6_scope_id = scope;
}

/* Replace an @address of AF_IB by the IP address that its GID is: of @family if unspecified. */
static void make_ip(struct sockaddr_storage *address, int family)
{
	const struct sockaddr_ib ib = *(const struct sockaddr_ib *)address;
	union ibv_gid gid;

	if (ib.sib_family != AF_IB)
		return;
	rdma_sockaddr_gid((const struct sockaddr *)&ib, &gid);
	if (ib_addr_any(&ib.sib_addr))
		rdma_sockaddr_set_any(address, family);
	else
		gid_to_sockaddr(&gid, rdma_sockaddr_port((const struct sockaddr *)&ib), address);
	set_scope((struct sockaddr_in6 *)address, ib.sib_scope_id);
}

/* Replace an IPv4-mapped @address by that of IPv4; an unspecified one by that of @family. */
static void unmap(struct sockaddr_storage *address, int family)
{
	union ibv_gid gid;

	if (address->ss_family != AF_INET6)
		return;
	rdma_sockaddr_gid((const struct sockaddr *)address, &gid);
	if (gid_is_ipv4(&gid))
		gid_to_sockaddr(&gid, rdma_sockaddr_port((const struct sockaddr *)address),
				address);
	else if (rdma_sockaddr_is_any((const struct sockaddr *)address))
		rdma_sockaddr_set_any(address, family);
}

struct rdma_addr rdma_ip_addresses(const struct rdma_addr *addr)
{
	struct rdma_addr ip = *addr;
	uint32_t scope = 0;

	if (addr->dst_addr.sa_family != AF_IB) {
		unmap(&ip.dst_storage, AF_INET6);
		unmap(&ip.src_storage, ip.dst_addr.sa_family);
		return ip;
	}
	make_ip(&ip.dst_storage, AF_INET6);
	make_ip(&ip.src_storage, ip.dst_addr.sa_family);
	if (!rdma_sockaddr_is_any(&ip.src_addr))
		scope = gid_interface(&addr->addr.ibaddr.sgid);
	if (!ip.src_sin6.sin6_scope_id)
		set_scope(&ip.src_sin6, scope);
	if (!ip.dst_sin6.sin6_scope_id)
		set_scope(&ip.dst_sin6, scope);
	return ip;
}

uint64_t rdma_service_id(const struct rdma_id *id, const struct sockaddr *address)
{
	if (address->sa_family == AF_IB)
		return be64toh(((const struct sockaddr_ib *)address)->sib_sid);
	return (uint64_t)id->ibv.ps << 16 | rdma_sockaddr_port(address);
}

/* The spaces that service ids of an id may be in, by its own (Linux: cma_select_ib_ps()). */
static const struct {
	int ps;
	uint64_t space;
} spaces[] = {
	{RDMA_PS_IB, RDMA_IB_PS_IB},	  {RDMA_PS_IB, RDMA_IB_IP_PS_TCP},
	{RDMA_PS_TCP, RDMA_IB_IP_PS_TCP}, {RDMA_PS_IB, RDMA_IB_IP_PS_UDP},
	{RDMA_PS_UDP, RDMA_IB_IP_PS_UDP},
};

int rdma_sockaddr_choose_service(struct sockaddr *address, int ps)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)address;
	uint64_t mask = be64toh(ib->sib_sid_mask) & RDMA_IB_IP_PS_MASK;

	if (address->sa_family != AF_IB)
		return 0;
	for (unsigned int i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		if (spaces[i].ps != ps || (be64toh(ib->sib_sid) & mask) != (spaces[i].space & mask))
			continue;
		ib->sib_sid = htobe64(spaces[i].space | rdma_sockaddr_port(address));
		ib->sib_sid_mask = UINT64_MAX;
		return 0;
	}
	return EPROTONOSUPPORT;
}

void rdma_sockaddr_to_ib(struct sockaddr_ib *ib, const struct sockaddr *address, int ps)
{
	uint16_t port = rdma_sockaddr_port(address);
	union ibv_gid gid;

	*ib = (struct sockaddr_ib){
		.sib_family = AF_IB,
		.sib_pkey = htons(PKEY_DEFAULT),
		.sib_sid = htobe64((uint64_t)ps << 16 | port),
		.sib_sid_mask = htobe64((ps ? RDMA_IB_IP_PS_MASK : 0) | (port ? PORT_MASK : 0)),
	};
	/* The unspecified address of either family is the unspecified GID, zeros. */
	if (!rdma_sockaddr_is_any(address)) {
		gid_from_sockaddr(&gid, address);
		memcpy(&ib->sib_addr, &gid, sizeof(gid));
	}
	if (address->sa_family == AF_INET6)
		ib->sib_scope_id = ((const struct sockaddr_in6 *)address)->sin6_scope_id;
}
