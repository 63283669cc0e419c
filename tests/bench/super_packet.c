/* SPDX-License-Identifier: BSD-2-Clause */
#include "super_packet.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* since Linux 6.2 */
#endif

#define CE 3 /* of two bits, all but zero of which are from an ECN-capable sender */

struct layout frame_layout(const struct frame *frame)
{
	const struct ethhdr *ethernet = (const struct ethhdr *)frame->data;
	uint32_t type = frame->offload.gso_type & ~VIRTIO_NET_HDR_GSO_ECN;
	struct layout layout = {.network = ETH_HLEN, .packets = 1};

	layout.ipv4 = ethernet->h_proto == htons(ETH_P_IP);
	layout.ip = layout.ipv4 || ethernet->h_proto == htons(ETH_P_IPV6);
	if (type == VIRTIO_NET_HDR_GSO_NONE)
		return layout;
	/*
	 * The checksums of a super-packet are left to the device, which is told where they begin.
	 */
	layout.transport = frame->offload.csum_start;
	layout.payload = layout.transport + sizeof(struct udphdr);
	layout.tcp = type != VIRTIO_NET_HDR_GSO_UDP_L4;
	if (layout.tcp) {
		const uint8_t *header = frame->data + layout.transport;

		layout.payload = layout.transport + ((const struct tcphdr *)header)->doff * 4;
	}
	layout.packets = (frame->length - layout.payload + frame->offload.gso_size - 1) /
			 frame->offload.gso_size;
	return layout;
}

/* --- headers ---------------------------------------------------------------------- */

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void seal_ipv4(struct iphdr *ip)
{
	const uint16_t *words = (const uint16_t *)ip;
	uint32_t sum = 0;

	ip->check = 0;
	for (unsigned int i = 0; i < ip->ihl * 2u; i++)
		sum += words[i];
	ip->check = ~fold(sum);
}

bool frame_mark(struct frame *frame)
{
	struct layout layout = frame_layout(frame);
	uint8_t *header = frame->data + layout.network;

	if (!layout.ip)
		return false;
	if (layout.ipv4) {
		struct iphdr *ip = (struct iphdr *)header;

		if (!(ip->tos & CE))
			return false;
		ip->tos |= CE;
		seal_ipv4(ip);
	} else { /* the traffic class begins in the middle of the first byte */
		if (!(header[1] & CE << 4))
			return false;
		header[1] |= CE << 4;
	}
	return true;
}

static void set_network_header(struct frame *part, const struct layout *layout, uint32_t first)
{
	uint8_t *header = part->data + layout->network;
	uint32_t length = part->length - layout->network;

	if (layout->ipv4) {
		struct iphdr *ip = (struct iphdr *)header;

		ip->id = htons(ntohs(ip->id) + first);
		ip->tot_len = htons(length);
		seal_ipv4(ip);
	} else {
		((struct ip6_hdr *)header)->ip6_plen = htons(length - sizeof(struct ip6_hdr));
	}
}

/* The checksum is that of the pseudo header still, whose length field changes. */
static void set_checksum(struct frame *part, const struct frame *whole, const struct layout *layout)
{
	uint8_t *header = part->data + layout->transport;
	uint16_t *check = (uint16_t *)(header + part->offload.csum_offset);
	uint16_t old = htons(whole->length - layout->transport);
	uint16_t length = htons(part->length - layout->transport);

	*check = fold((uint32_t)*check + (uint16_t)~old + length);
	if (!layout->tcp)
		((struct udphdr *)header)->len = length;
}

static void set_tcp_header(struct tcphdr *tcp, uint32_t offset, bool last)
{
	tcp->seq = htonl(ntohl(tcp->seq) + offset);
	if (!last)
		tcp->fin = tcp->psh = 0;
	if (offset)
		tcp->res2 &= 1; /* of ECE and CWR, the latter is the first packet's only */
}

struct frame *frame_carve(const struct frame *whole, uint32_t first, uint32_t count)
{
	struct layout layout = frame_layout(whole);
	uint32_t size = whole->offload.gso_size, offset = first * size;
	bool last = first + count == layout.packets;
	uint32_t length = last ? whole->length - layout.payload - offset : count * size;
	struct frame *part = malloc(sizeof(*part) + layout.payload + length);

	part->length = layout.payload + length;
	part->offload = whole->offload;
	memcpy(part->data, whole->data, layout.payload);
	memcpy(part->data + layout.payload, whole->data + layout.payload + offset, length);
	if (count == 1) {
		part->offload.gso_type = VIRTIO_NET_HDR_GSO_NONE;
		part->offload.gso_size = 0;
	}
	set_network_header(part, &layout, first);
	set_checksum(part, whole, &layout);
	if (layout.tcp)
		set_tcp_header((struct tcphdr *)(part->data + layout.transport), offset, last);
	return part;
}
