/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feed every packet of the capture files on the command line through
 * packet_parse(), icrc_check() and cm_message_decode(), as the core does with what
 * arrives: once with the IPv4 identification known, once without. A second ICRC here,
 * bit by bit over the raw frame, says which packets are intact. Damage is
 * expected only in files with "corrupt" in their name, and there for certain.
 *
 * Exit code 0 if all went as it must, else 1 with the packet's number.
 */
#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/cm/cm_message.h"
#include "net/wire/icrc.h"

#define FRAME_MAX 65536
#define ALIGNMENT 2 /* puts the IP header behind 14 bytes of Ethernet on a boundary of 4 */

/* A captured frame, taken apart without any code of net/. */
struct captured {
	const uint8_t *ip;
	uint32_t ip_length; /* header and payload */
	uint32_t ip_header_length;
	int32_t ip_id; /* -1: IPv6 */
	struct link_frame frame;
};

struct tally {
	unsigned int intact, corrupted, other, connecting;
};

static uint32_t crc32_slow(const uint8_t *data, size_t length)
{
	uint32_t crc = 0xffffffff;

	while (length--) {
		crc ^= *data++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* Whether the ICRC is right if the identification was @ip_id. IBA 7.8.1, A17.3.3. */
static bool intact(const struct captured *captured, int32_t ip_id)
{
	static uint8_t copy[8 + FRAME_MAX];
	uint8_t *ip = copy + 8, *udp = ip + captured->ip_header_length;
	uint32_t covered = captured->ip_length - ICRC_LENGTH, found;

	memset(copy, 0xff, 8);
	memcpy(ip, captured->ip, captured->ip_length);
	if (captured->ip_id >= 0) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
		ip[4] = ip_id >> 8;
		ip[5] = ip_id;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
	}
	udp[6] = udp[7] = udp[8 + 4] = 0xff;
	memcpy(&found, ip + covered, sizeof(found));
	return le32toh(found) == crc32_slow(copy, 8 + covered);
}

static bool ip_checksum_right(const struct iphdr *ip)
{
	const uint8_t *bytes = (const uint8_t *)ip;
	uint32_t sum = 0;

	for (unsigned int i = 0; i < ip->ihl * 4u; i += 2)
		sum += bytes[i] << 8 | bytes[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

static bool take_ipv4(struct captured *captured, uint32_t available)
{
	const struct iphdr *ip = (const struct iphdr *)captured->ip;
	struct link_frame *frame = &captured->frame;

	if (available < sizeof(*ip) || ip->protocol != IPPROTO_UDP || ip->ihl != 5)
		return false;
	/* A kernel doesn't deliver such a packet to a socket. */
	if (!ip_checksum_right(ip))
		return false;
	captured->ip_length = ntohs(ip->tot_len);
	captured->ip_header_length = sizeof(*ip);
	captured->ip_id = ntohs(ip->id);
	frame->source.raw[10] = frame->source.raw[11] = 0xff;
	frame->destination = frame->source;
	memcpy(frame->source.raw + 12, &ip->saddr, 4);
	memcpy(frame->destination.raw + 12, &ip->daddr, 4);
	return true;
}

static bool take_ipv6(struct captured *captured, uint32_t available)
{
	const struct ip6_hdr *ip = (const struct ip6_hdr *)captured->ip;

	if (available < sizeof(*ip) || ip->ip6_nxt != IPPROTO_UDP)
		return false;
	captured->ip_length = sizeof(*ip) + ntohs(ip->ip6_plen);
	captured->ip_header_length = sizeof(*ip);
	captured->ip_id = -1;
	memcpy(&captured->frame.source, &ip->ip6_src, 16);
	memcpy(&captured->frame.destination, &ip->ip6_dst, 16);
	return true;
}

/* Returns false for what isn't RoCEv2, or what no socket would be given. */
static bool take_apart(struct captured *captured, const uint8_t *bytes, uint32_t length)
{
	const struct ether_header *ether = (const struct ether_header *)bytes;
	const struct udphdr *udp;
	bool taken = false;

	memset(captured, 0, sizeof(*captured));
	if (length < sizeof(*ether))
		return false;
	captured->ip = bytes + sizeof(*ether);
	length -= sizeof(*ether);
	if (ether->ether_type == htons(ETHERTYPE_IP))
		taken = take_ipv4(captured, length);
	else if (ether->ether_type == htons(ETHERTYPE_IPV6))
		taken = take_ipv6(captured, length);
	if (!taken || captured->ip_length > length ||
	    captured->ip_length < captured->ip_header_length + sizeof(*udp))
		return false;

	udp = (const struct udphdr *)(captured->ip + captured->ip_header_length);
	if (ntohs(udp->uh_dport) != ROCE_V2_UDP_PORT ||
	    ntohs(udp->uh_ulen) != captured->ip_length - captured->ip_header_length)
		return false;
	captured->frame.source_port = ntohs(udp->uh_sport);
	captured->frame.data = (const uint8_t *)(udp + 1);
	captured->frame.length = ntohs(udp->uh_ulen) - sizeof(*udp);
	return captured->frame.length >= sizeof(struct bth) + ICRC_LENGTH;
}

/* icrc_check() must agree with intact(), and find the identification by itself. */
static const char *check_icrc(const struct captured *captured, int32_t told)
{
	struct link_frame frame = captured->frame;
	bool good;

	frame.ip_id = told;
	good = icrc_check(&frame);
	if (intact(captured, captured->ip_id)) {
		if (!good)
			return "icrc_check() refuses an intact packet";
		if (captured->ip_id >= 0 && frame.ip_id != captured->ip_id)
			return "icrc_check() found another identification";
		return NULL;
	}
	/* What one identification explains can't be told from an intact packet. */
	if (good && (captured->ip_id < 0 || !intact(captured, frame.ip_id)))
		return "icrc_check() accepts a corrupted packet";
	return NULL;
}

static const char *check_parse(const struct captured *captured)
{
	const struct link_frame *frame = &captured->frame;
	struct packet packet;

	if (packet_parse(&packet, frame->data, frame->length))
		return "packet_parse() refuses an intact packet";
	if (packet.opcode != frame->data[0] || packet.headers != frame->data)
		return "packet_parse() reports another opcode";
	if (packet.op->headers_length + packet.payload_length + packet.pad + ICRC_LENGTH !=
	    frame->length)
		return "headers, payload, pad and ICRC don't add up";
	if (packet.pad != pad_length(packet.payload_length))
		return "the pad isn't what the payload needs";
	return NULL;
}

/* What is a message of the connection manager is the same when it is written again. */
static const char *check_connecting(const struct captured *captured, struct tally *tally)
{
	struct cm_message message;
	uint8_t mad[MAD_LENGTH];
	struct packet packet;

	packet_parse(&packet, captured->frame.data, captured->frame.length);
	if (packet.dest_qp != QPN_GSI || packet.payload_length != MAD_LENGTH ||
	    packet.payload[1] != MAD_CLASS_CM)
		return NULL;
	if (cm_message_decode(&message, packet.payload) != 0)
		return "cm_message_decode() refuses a message";
	cm_message_encode(&message, mad);
	if (memcmp(mad, packet.payload, MAD_LENGTH) != 0)
		return "cm_message_encode() writes other bytes than were read";
	tally->connecting++;
	return NULL;
}

static const char *check_packet(const uint8_t *bytes, uint32_t length, struct tally *tally)
{
	static uint8_t frame[ALIGNMENT + FRAME_MAX] __attribute__((aligned(4)));
	struct captured captured;
	const char *wrong;

	if (length > FRAME_MAX)
		return "longer than any IP packet";
	memcpy(frame + ALIGNMENT, bytes, length);
	if (!take_apart(&captured, frame + ALIGNMENT, length)) {
		tally->other++;
		return NULL;
	}
	wrong = check_icrc(&captured, IP_ID_UNKNOWN);
	if (!wrong && captured.ip_id >= 0)
		wrong = check_icrc(&captured, captured.ip_id);
	if (wrong)
		return wrong;
	if (!intact(&captured, captured.ip_id)) {
		tally->corrupted++;
		return NULL;
	}
	tally->intact++;
	wrong = check_parse(&captured);
	return wrong ? wrong : check_connecting(&captured, tally);
}

static int check_file(const char *name)
{
	bool corrupt = strstr(name, "corrupt");
	char error[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	const uint8_t *bytes;
	struct tally tally = {0};
	const char *wrong = NULL;
	unsigned int number = 0;
	pcap_t *pcap;

	pcap = pcap_open_offline(name, error);
	if (!pcap) {
		printf("%s\n", error);
		return 1;
	}
	while (!wrong && pcap_next_ex(pcap, &header, &bytes) == 1) {
		number++;
		wrong = check_packet(bytes, header->caplen, &tally);
	}
	pcap_close(pcap);
	if (wrong) {
		printf("%s: packet %u: %s\n", name, number, wrong);
		return 1;
	}
	if (strstr(name, "cm_") && !tally.connecting) {
		printf("%s: no message of the connection manager\n", name);
		return 1;
	}
	if (!tally.intact || !corrupt != !tally.corrupted) {
		printf("%s: %u intact and %u corrupted packets\n", name, tally.intact,
		       tally.corrupted);
		return 1;
	}
	printf("%s: %u intact (%u of the connection manager), %u corrupted, %u others\n", name,
	       tally.intact, tally.connecting, tally.corrupted, tally.other);
	return 0;
}

int main(int argc, char **argv)
{
	int result = argc < 2;

	for (int i = 1; i < argc; i++)
		result |= check_file(argv[i]);
	return result;
}
