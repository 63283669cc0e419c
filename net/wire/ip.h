/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network header of a RoCE v2 packet (Annex A17.3.1), remade from what a UDP socket is given
 * and tells: for captures, for the GRH that a receive of UD shows, and for the ICRC, which covers
 * it. No locks.
 */
#ifndef URXE_NET_WIRE_IP_H
#define URXE_NET_WIRE_IP_H

#include <endian.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <string.h>

#include "net/wire/gid.h"

struct ip_fields {
	const union ibv_gid *source, *destination;
	uint32_t length; /* from the BTH to the ICRC */
	uint16_t id;	 /* of IPv4 alone */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label; /* of IPv6 alone */
};

/* RFC 1071 */
static inline uint16_t ip4_checksum(const struct iphdr *header)
{
	uint16_t words[sizeof(*header) / sizeof(uint16_t)];
	uint32_t sum = 0;

	memcpy(words, header, sizeof(words));
	for (size_t i = 0; i < sizeof(*header) / sizeof(uint16_t); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

static inline struct iphdr ip4_header(const struct ip_fields *fields)
{
	struct iphdr header = {
		.version = 4,
		.ihl = 5,
		.tos = fields->traffic_class,
		.tot_len = htobe16(sizeof(header) + sizeof(struct udphdr) + fields->length),
		.id = htobe16(fields->id),
		.frag_off = htobe16(IP_DF),
		.ttl = fields->hop_limit,
		.protocol = IPPROTO_UDP,
	};

	memcpy(&header.saddr, fields->source->raw + 12, sizeof(header.saddr));
	memcpy(&header.daddr, fields->destination->raw + 12, sizeof(header.daddr));
	header.check = ip4_checksum(&header);
	return header;
}

static inline struct ip6_hdr ip6_header(const struct ip_fields *fields)
{
	struct ip6_hdr header = {
		.ip6_flow = htobe32(6u << 28 | (uint32_t)fields->traffic_class << 20 |
				    fields->flow_label),
		.ip6_plen = htobe16(sizeof(struct udphdr) + fields->length),
		.ip6_nxt = IPPROTO_UDP,
		.ip6_hlim = fields->hop_limit,
	};

	memcpy(&header.ip6_src, fields->source, sizeof(header.ip6_src));
	memcpy(&header.ip6_dst, fields->destination, sizeof(header.ip6_dst));
	return header;
}

/* The one of the destination's family. Returns where it ends. */
static inline uint8_t *ip_write(uint8_t *to, const struct ip_fields *fields)
{
	struct ip6_hdr ip6;
	struct iphdr ip4;

	if (gid_is_ipv4(fields->destination)) {
		ip4 = ip4_header(fields);
		return (uint8_t *)memcpy(to, &ip4, sizeof(ip4)) + sizeof(ip4);
	}
	ip6 = ip6_header(fields);
	return (uint8_t *)memcpy(to, &ip6, sizeof(ip6)) + sizeof(ip6);
}

#endif
