/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles, and the way back to the sender of a received datagram. A
 * RoCEv2 receive shows the IP header that carried it in its first 40 bytes:
 * IPv6 all of them, IPv4 the last 20 (Annex A17.4.5.2).
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <string.h>

#include "verbs/context.h"
#include "verbs/domain.h"

struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ah *ah;
	int error = domain_is_good(pd) ? ah_create(to_pd(pd), attr, &ah)
				       : domain_refuse(EINVAL, "ibv_create_ah(), pd", pd);

	if (error)
		return fail(error);
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	domain_get(pd);
	return &ah->ibv;
}

int urxe_destroy_ah(struct ibv_ah *ah)
{
	struct ibv_pd *pd = ah->pd;

	if (!HANDLE_IS_GOOD((struct ah *)ah))
		return REFUSE_HANDLE(ENOENT, "ibv_destroy_ah()", (struct ah *)ah);
	ah_destroy((struct ah *)ah);
	domain_put(pd);
	return 0;
}

/* One's complement sum over an IPv4 header without options: 0xffff when it is intact. */
static bool ipv4_header_is_intact(const struct iphdr *header)
{
	const uint8_t *bytes = (const uint8_t *)header;
	uint32_t sum = 0;

	for (unsigned int i = 0; i < sizeof(*header); i += 2)
		sum += bytes[i] << 8 | bytes[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/*
 * 4, 6, or 0 for neither. What lies before an IPv4 header is undefined and may
 * look like IPv6, so the checksum decides.
 */
static int header_version(const struct ibv_grh *grh, const struct iphdr *ipv4)
{
	if (be32toh(grh->version_tclass_flow) >> 28 != 6)
		return ipv4->version == 4 ? 4 : 0;
	if (ipv4->version == 4 && ipv4->ihl == 5 && ipv4_header_is_intact(ipv4))
		return 4;
	return 6;
}

/* 0 or ENODATA. */
static int set_source(struct port *port, struct ibv_global_route *route, const union ibv_gid *local,
		      const union ibv_gid *remote)
{
	int index = gid_table_find(&port->gids, local);
	char text[INET6_ADDRSTRLEN];

	/* ibv_ah_attr has eight bits for it. */
	if (index < 0 || index > UINT8_MAX)
		return refuse(ENODATA, CAUSE_AH_NO_SENDER,
			      "it came to %s, which port %u does not have",
			      gid_to_text(local, text), port->number);
	route->sgid_index = index;
	route->dgid = *remote;
	return 0;
}

/* 0 or ENODATA. */
static int route_back(struct port *port, const struct ibv_grh *grh, struct ibv_global_route *route)
{
	union ibv_gid local, remote;
	struct iphdr ipv4;
	uint32_t word;

	memcpy(&ipv4, (const uint8_t *)grh + sizeof(*grh) - sizeof(ipv4), sizeof(ipv4));
	switch (header_version(grh, &ipv4)) {
	case 4:
		gid_from_ipv4(&local, &(struct in_addr){ipv4.daddr});
		gid_from_ipv4(&remote, &(struct in_addr){ipv4.saddr});
		route->hop_limit = ipv4.ttl;
		route->traffic_class = ipv4.tos;
		return set_source(port, route, &local, &remote);
	case 6:
		word = be32toh(grh->version_tclass_flow);
		route->flow_label = word & FLOW_LABEL_MASK;
		route->traffic_class = word >> 20 & 0xff;
		route->hop_limit = grh->hop_limit;
		return set_source(port, route, &grh->dgid, &grh->sgid);
	default:
		return refuse(ENODATA, CAUSE_AH_NO_SENDER,
			      "there is no header of IPv4 or IPv6 in it");
	}
}

int urxe_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct port *port = device_port(to_context(context)->device, port_num);
	int error = 0;

	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	if (wc->wc_flags & IBV_WC_GRH) {
		attr->is_global = 1;
		error = port ? route_back(port, grh, &attr->grh)
			     : refuse(EINVAL, CAUSE_NO_PORT,
				      "ibv_init_ah_from_wc(): port_num is %u", port_num);
	}
	return errno_result(error);
}

struct ibv_ah *urxe_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				      uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (urxe_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return urxe_create_ah(pd, &attr);
}
