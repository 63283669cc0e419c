/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC, IBA 7.8.1 and Annex A17.3.3. The CRC runs over eight bytes of ones
 * (for an LRH that isn't there), the IP and UDP headers, the BTH and the rest,
 * with every field that routers may change replaced by ones.
 *
 * The packets of a super-packet differ, up to the BTH, in the identification
 * only; so what they have in common is computed once (struct icrc_flow). For
 * CRC is linear: xor'ing an error pattern into the bytes that follow is the same
 * as xor'ing it into the CRC so far. That's how the identification gets into it,
 * and how a byte of the BTH becomes ones without being written.
 *
 * IPv4's identification is not such a field, and a UDP socket doesn't tell it.
 * It follows from the CRC: an error pattern e(x) that n bytes follow changes
 * the CRC by e(x) * x^(8n) mod P(x). So we divide the difference between the
 * received and the expected CRC by that power of x; if all but the identification
 * was right, a polynomial of 16 bits remains, and that is the identification.
 */
#include "net/wire/icrc.h"

#include <isa-l/crc.h>
#include <pthread.h>

#include "net/guard.h"
#include "net/random.h"
#include "net/wire/gid.h"
#include "net/wire/ip.h"

#define LRH_LENGTH 8
#define BTH_RESERVED_BYTE 4 /* FECN, BECN and reserved: "resv8a" */
#define IPV4_ID_OFFSET 4

/*
 * isa-l leaves the upper halves of the vector registers dirty, which makes the
 * SSE code that follows wait for them: three times as long as the CRC itself.
 */
static void clean_vectors(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper" ::: "memory");
#endif
}

static uint32_t crc_over(uint32_t crc, const void *bytes, uint32_t length)
{
	if (!length)
		return crc;
	crc = crc32_gzip_refl(crc, bytes, length);
	clean_vectors();
	return crc;
}

/* What the CRC sees in front of the BTH. */
struct masked_headers {
	uint8_t bytes[LRH_LENGTH + sizeof(struct ip6_hdr) + sizeof(struct udphdr)];
	uint32_t length;
};

static void masked_append(struct masked_headers *masked, const void *bytes, uint32_t length)
{
	memcpy(masked->bytes + masked->length, bytes, length);
	masked->length += length;
}

static void masked_append_ip(struct masked_headers *masked, const struct ip_fields *fields)
{
	struct ip6_hdr ip6;
	struct iphdr ip4;

	if (gid_is_ipv4(fields->destination)) {
		ip4 = ip4_header(fields);
		ip4.check = 0xffff;
		masked_append(masked, &ip4, sizeof(ip4));
	} else {
		ip6 = ip6_header(fields);
		ip6.ip6_flow |= htobe32(0x0fffffff); /* traffic class and flow label */
		masked_append(masked, &ip6, sizeof(ip6));
	}
}

/* --- Error patterns ---------------------------------------------------------- */

/*
 * Polynomials modulo P in reflected order: bit 31 is the coefficient of x^0, bit
 * 0 that of x^31.
 */
#define POLYNOMIAL 0xedb88320u
#define X_TO_THE_0 0x80000000u

/* x^(-8i) and x^(-8*256*i) mod P: two factors give the inverse of any x^(8n), n < 2^16. */
static uint32_t inverse_low[256], inverse_high[257];
static pthread_once_t patterns_once = PTHREAD_ONCE_INIT;

/* From the beginning of the identification to the end of the UDP header. */
#define IPV4_ID_DISTANCE (sizeof(struct iphdr) - IPV4_ID_OFFSET + sizeof(struct udphdr))

/* What an identification is at the end of the UDP header: its low byte, its high byte. */
static uint32_t id_low[256], id_high[256];
static uint32_t ones_pattern; /* what ones in BTH_RESERVED_BYTE are at the BTH's begin */

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		product ^= b & -(a >> 31);
		b = (b >> 1) ^ (POLYNOMIAL & -(b & 1));
	}
	return product;
}

static uint32_t divide_by_x(uint32_t a)
{
	return a & X_TO_THE_0 ? (a ^ POLYNOMIAL) << 1 | 1 : a << 1;
}

static uint32_t multiply_by_x(uint32_t a)
{
	return a & 1 ? a >> 1 ^ POLYNOMIAL : a >> 1;
}

static inline uint32_t id_pattern(uint16_t ip_id)
{
	return id_low[ip_id & 255] ^ id_high[ip_id >> 8];
}

/* The CRC takes bytes in wire order, low bits first. */
static void id_patterns_init(void)
{
	uint32_t shift = X_TO_THE_0; /* x^(8 * IPV4_ID_DISTANCE) */

	for (unsigned int bit = 0; bit < 8 * IPV4_ID_DISTANCE; bit++)
		shift = multiply_by_x(shift);
	for (uint16_t i = 0; i < 256; i++) {
		id_low[i] = multiply(le16toh(htobe16(i)), shift);
		id_high[i] = multiply(le16toh(htobe16(i << 8)), shift);
	}
}

static void patterns_init(void)
{
	uint32_t power = X_TO_THE_0;

	for (unsigned int i = 0; i < 256; i++) {
		inverse_low[i] = power;
		for (unsigned int bit = 0; bit < 8; bit++)
			power = divide_by_x(power);
	}

	inverse_high[0] = X_TO_THE_0;
	for (unsigned int i = 1; i < 257; i++)
		inverse_high[i] = multiply(inverse_high[i - 1], power);

	id_patterns_init();
	ones_pattern = multiply(0xff, inverse_low[BTH_RESERVED_BYTE]);
}

/* --- Flows -------------------------------------------------------------------- */

void icrc_flow_init(struct icrc_flow *flow, const union ibv_gid *source,
		    const union ibv_gid *destination, uint16_t source_port, uint32_t length)
{
	struct masked_headers masked = {.length = LRH_LENGTH};
	const struct ip_fields ip = {
		.source = source,
		.destination = destination,
		.length = length,
		.traffic_class = 0xff,
		.hop_limit = 0xff,
	};
	const struct udphdr udp = {
		.uh_sport = htobe16(source_port),
		.uh_dport = htobe16(ROCE_V2_UDP_PORT),
		.uh_ulen = htobe16(sizeof(udp) + length),
		.uh_sum = 0xffff,
	};

	pthread_once(&patterns_once, patterns_init);
	*flow = (struct icrc_flow){
		.source = *source,
		.destination = *destination,
		.source_port = source_port,
		.ipv4 = gid_is_ipv4(destination),
		.length = length,
	};
	memset(masked.bytes, 0xff, LRH_LENGTH);
	masked_append_ip(&masked, &ip);
	masked_append(&masked, &udp, sizeof(udp));
	flow->crc = crc_over(0, masked.bytes, masked.length);
}

static bool flow_is(const struct icrc_flow *flow, const union ibv_gid *source,
		    const union ibv_gid *destination, uint16_t source_port, uint32_t length)
{
	return flow->length == length && flow->source_port == source_port &&
	       gid_equal(&flow->source, source) && gid_equal(&flow->destination, destination);
}

const struct icrc_flow *icrc_flow(struct icrc_flows *flows, const union ibv_gid *source,
				  const union ibv_gid *destination, uint16_t source_port,
				  uint32_t length)
{
	/* The lengths of packets differ by multiples of four. */
	unsigned int place = length / 4 + source->raw[15] + destination->raw[15];
	struct icrc_flow *flow = &flows->flow[place % ICRC_FLOWS];

	if (!flow_is(flow, source, destination, source_port, length))
		icrc_flow_init(flow, source, destination, source_port, length);
	return flow;
}

/* The CRC up to the BTH, so that the BTH can follow as it is. */
static uint32_t crc_before_bth(const struct icrc_flow *flow, uint16_t ip_id, const uint8_t *bth)
{
	uint8_t ones = ~bth[BTH_RESERVED_BYTE];
	uint32_t crc = flow->crc;

	if (flow->ipv4)
		crc ^= id_pattern(ip_id);
	return crc ^ (ones == 0xff ? ones_pattern : multiply(ones, inverse_low[BTH_RESERVED_BYTE]));
}

static void flip_bit(struct link_packet *packet, unsigned int bit)
{
	unsigned int byte = bit / 8 % (packet->headers_length + packet->trailer_length);
	uint8_t mask = 1 << bit % 8;

	if (byte < packet->headers_length)
		packet->headers[byte] ^= mask;
	else
		packet->trailer[byte - packet->headers_length] ^= mask;
}

/* As on the wire, of @length bytes from the BTH on. */
static uint32_t icrc_of_bytes(const struct icrc_flow *flow, uint16_t ip_id, const uint8_t *bth,
			      uint32_t length)
{
	return htole32(crc_over(crc_before_bth(flow, ip_id, bth), bth, length));
}

uint32_t icrc_seal_bytes(const struct icrc_flow *flow, uint16_t ip_id, uint8_t *bth,
			 uint32_t length)
{
	uint32_t end = length - ICRC_LENGTH, icrc = icrc_of_bytes(flow, ip_id, bth, end);

	memcpy(bth + end, &icrc, sizeof(icrc));
	return icrc;
}

/* Into the trailer; and corrupt what is to be corrupted. */
static void put_icrc(struct link_packet *packet, uint32_t icrc)
{
	memcpy(packet->trailer + packet->trailer_length - ICRC_LENGTH, &icrc, sizeof(icrc));
	if (packet->corrupt_bit)
		flip_bit(packet, packet->corrupt_bit - 1);
}

void icrc_seal_copy(struct link_packet *packet, const struct icrc_flow *flow, uint16_t ip_id,
		    uint8_t *copy)
{
	put_icrc(packet, icrc_seal_bytes(flow, ip_id, copy, link_packet_length(packet)));
	if (!packet->corrupt_bit)
		return;
	memcpy(copy, packet->headers, packet->headers_length);
	memcpy(copy + packet->headers_length + packet->payload_length, packet->trailer,
	       packet->trailer_length);
}

struct payload_crc {
	const struct link_packet *packet;
	uint32_t crc;
};

static void crc_over_payload(void *context)
{
	struct payload_crc *payload = context;
	const struct link_packet *packet = payload->packet;
	uint32_t left = packet->payload_length, crc = payload->crc;

	for (unsigned int i = 0; i < packet->payload_count && left; i++) {
		uint32_t part =
			packet->payload[i].iov_len < left ? packet->payload[i].iov_len : left;

		crc = crc_over(crc, packet->payload[i].iov_base, part);
		left -= part;
	}
	payload->crc = crc;
}

/* The same of a packet in several iovs. False when its payload can't be read. */
static bool icrc_of_packet(const struct icrc_flow *flow, uint16_t ip_id,
			   const struct link_packet *packet, uint32_t *icrc)
{
	struct payload_crc payload = {packet, crc_before_bth(flow, ip_id, packet->headers)};

	payload.crc = crc_over(payload.crc, packet->headers, packet->headers_length);
	if (packet->payload_length &&
	    !guard_run(packet->payload, packet->payload_count, crc_over_payload, &payload, NULL))
		return false;
	*icrc = htole32(
		crc_over(payload.crc, packet->trailer, packet->trailer_length - ICRC_LENGTH));
	return true;
}

bool icrc_seal(struct link_packet *packet, uint16_t source_port, uint16_t ip_id)
{
	struct icrc_flow flow;
	uint32_t icrc;

	icrc_flow_init(&flow, &packet->path->source, &packet->path->destination, source_port,
		       link_packet_length(packet));
	if (!icrc_of_packet(&flow, ip_id, packet, &icrc))
		return false;
	put_icrc(packet, icrc);
	return true;
}

/* --- Checking -------------------------------------------------------------------- */

/*
 * The identification that, xor'ed in, changes the CRC by @difference when @bytes
 * bytes lie between its begin and the end of what the CRC covers; -1 if none does.
 */
static int32_t solve_ip_id(uint32_t difference, uint32_t bytes)
{
	uint32_t error;

	error = multiply(difference, inverse_low[bytes & 255]);
	error = multiply(error, inverse_high[bytes >> 8]);
	if (error >> 16)
		return -1;
	return be16toh(htole16(error)); /* the CRC takes bytes in wire order, low bits first */
}

static struct icrc_numbering *numbering(struct icrc_flows *flows, const struct link_frame *frame)
{
	struct icrc_numbering *sender =
		&flows->sender[(frame->source_port + frame->source.raw[15]) % ICRC_SENDERS];

	if (sender->source_port != frame->source_port ||
	    !gid_equal(&sender->source, &frame->source))
		*sender = (struct icrc_numbering){.source = frame->source,
						  .source_port = frame->source_port};
	return sender;
}

/* The @index-th of its super-packet had @ip_id, which was expected, or solved for. */
static void note_id(struct icrc_numbering *sender, uint16_t index, uint16_t ip_id, bool expected)
{
	uint16_t first = ip_id - index;

	if (!expected)
		sender->step = first != 0;
	sender->last = first;
}

bool icrc_check_flow(struct link_frame *frame, struct icrc_flows *flows)
{
	const struct icrc_flow *flow;
	struct icrc_numbering *sender = numbering(flows, frame);
	uint16_t index = frame->ip_id != IP_ID_UNKNOWN ? frame->ip_id : 0;
	uint16_t expected = sender->last + (index ? index : sender->step);
	uint32_t icrc, received;
	int32_t error;

	if (frame->length < sizeof(struct bth) + ICRC_LENGTH || frame->length > UINT16_MAX)
		return false;

	flow = icrc_flow(flows, &frame->source, &frame->destination, frame->source_port,
			 frame->length);
	icrc = icrc_of_bytes(flow, expected, frame->data, frame->length - ICRC_LENGTH);
	memcpy(&received, frame->data + frame->length - ICRC_LENGTH, sizeof(received));
	if (icrc == received) {
		if (flow->ipv4) {
			frame->ip_id = expected;
			note_id(sender, index, expected, true);
		}
		return true;
	}
	if (!flow->ipv4)
		return false;

	/* One solution at most, so there is nothing to gain from trying 0 apart. */
	error = solve_ip_id(le32toh(icrc) ^ le32toh(received),
			    IPV4_ID_DISTANCE + frame->length - ICRC_LENGTH);
	if (error < 0)
		return false;
	frame->ip_id = expected ^ error;
	note_id(sender, index, frame->ip_id, false);
	return true;
}

bool icrc_check(struct link_frame *frame)
{
	struct icrc_flows flows = {};

	return icrc_check_flow(frame, &flows);
}

uint32_t icrc_covered_bit(uint64_t *random, uint32_t length)
{
	uint32_t byte;

	if (length <= BTH_RESERVED_BYTE + 1)
		return 0;
	byte = random_below(random, length - 1);
	byte += byte >= BTH_RESERVED_BYTE;
	return 8 * byte + random_below(random, 8);
}
