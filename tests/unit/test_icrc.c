/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC against packets of other implementations: known vectors (scapy, a ConnectX-4 Lx),
 * and the solver for the IPv4 identification.
 */
#include <check.h>
#include <stdlib.h>

#include "gid_of.h"
#include "net/wire/icrc.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define ONE "192.168.0.1"
#define TWO "192.168.0.2"

/* The UDP payload with its ICRC. A to G also pin ports, identification, addresses. */
static const struct vector {
	const char *source, *destination;
	const char *bytes;
	uint16_t source_port;
	uint16_t ip_id;
} vectors[] = {
	/* A: RC SEND_ONLY */
	{ONE, TWO, "0400ffff0000001180000001 52444d4174657374 3e55a7fe", 0xc000, 0},
	/* B: ACK */
	{TWO, ONE, "1100ffff0000001200000001 1f000001 4411b2d7", 0xc000, 0},
	/* C: solicited, migrated, three bytes of pad */
	{ONE, TWO, "04f0ffff0000001180000002 68656c6c6f000000 220d6159", 0xc001, 0},
	/* D: CNP */
	{TWO, ONE, "8100ffff4000001200000000 00000000000000000000000000000000 d749a89c", 0xc000, 0},
	/* E: CNP captured from a ConnectX-4 Lx */
	{"10.0.17.1", "10.0.18.1",
	 "8100ffff4000011800000000 00000000000000000000000000000000 82fd002a", 0, 0x718c},
	/* F: UC SEND_ONLY, of scapy's tests */
	{"192.168.0.7", "192.168.0.7",
	 "2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3", 49152, 1144},
	/* G: IPv6 */
	{"fe80::1", "fe80::2", "0400ffff0000001180000001 52444d4174657374 3189779f", 0xc000, 0},
	/* H to U: one of each chain of headers */
	{ONE, TWO, "0a00ffff00000011800000031122334455667788aabbccdd00000004deadbeef f5eaaa22",
	 0xc000, 0},
	{ONE, TWO, "0c00ffff000000118000000400000000000010000000010100001000 b822040d", 0xc000, 0},
	{TWO, ONE, "1000ffff00000012000000051f0000033031323334353637 f311bbc3", 0xc000, 0},
	{ONE, TWO,
	 "1300ffff000000118000000800000000000020000000010211111111111111112222222222222222 "
	 "f18d4cec",
	 0xc000, 0},
	{ONE, TWO,
	 "1400ffff000000118000000900000000000020000000010200000000000000050000000000000000 "
	 "64ca3dc2",
	 0xc000, 0},
	{TWO, ONE, "1200ffff00000012000000081f0000042222222222222222 ef525b20", 0xc000, 0},
	{TWO, ONE, "1100ffff000000120000000760000002 9405a7f2", 0xc000, 0},
	{TWO, ONE, "1100ffff00000012000000062c000002 a1cb051e", 0xc000, 0},
	{ONE, TWO, "6500ffff000000200000000111111111000000210000002a64617461 dc6691a8", 0xc000, 0},
	{ONE, TWO, "1700ffff000000118000000a0000010361626364 fefa8efb", 0xc000, 0},
	{ONE, TWO, "0b80ffff000000118000000b0000000000000000000000000000000000000007 1cc59d70",
	 0xc000, 0},
	{ONE, TWO, "1c00ffff000000118000000c0000000100000000000030000000010400000040 91a6b79b",
	 0xc000, 0},
	{ONE, TWO,
	 "1d00ffff000000118000000d000000000000300800000104000000080000000000000001 6bbbde38",
	 0xc000, 0},
	{ONE, TWO, "a500ffff0000001180000001000000050000000164617461 6127d7dd", 0xc000, 0},
};

#define VECTORS ((int)(sizeof(vectors) / sizeof(vectors[0])))

static uint32_t from_hex(uint8_t *bytes, const char *hex)
{
	uint32_t length = 0;

	for (; *hex; hex++) {
		char digits[3] = {hex[0], hex[1]};

		if (*hex == ' ')
			continue;
		bytes[length++] = strtoul(digits, NULL, 16);
		hex++;
	}
	return length;
}

static struct link_frame frame_of(const struct vector *vector, uint8_t *bytes)
{
	return (struct link_frame){
		.data = bytes,
		.length = from_hex(bytes, vector->bytes),
		.source = gid_of(vector->source),
		.destination = gid_of(vector->destination),
		.source_port = vector->source_port,
		.ip_id = IP_ID_UNKNOWN,
	};
}

START_TEST(check_vectors)
{
	const struct vector *vector = &vectors[_i];
	bool ipv4 = !strchr(vector->source, ':');
	const int32_t hints[] = {vector->ip_id, IP_ID_UNKNOWN, 0, 1, 0xffff};
	uint8_t bytes[128];

	for (unsigned int i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		struct link_frame frame = frame_of(vector, bytes);

		frame.ip_id = hints[i];
		ck_assert(icrc_check(&frame));
		if (ipv4)
			ck_assert_int_eq(frame.ip_id, vector->ip_id);
	}
}
END_TEST

/*
 * Any corrupted bit is seen, in the bytes and in what the pseudo header says, but
 * in the reserved byte of the BTH. No hint and no ID: what the solver finds
 * must not be taken for an intact packet (2^-16 of all corruptions would be; none
 * of these).
 */
START_TEST(check_corruption)
{
	const struct vector *vector = &vectors[_i];
	uint8_t bytes[128];
	struct link_frame frame = frame_of(vector, bytes);

	for (uint32_t bit = 0; bit < frame.length * 8; bit++) {
		bytes[bit / 8] ^= 1 << bit % 8;
		frame.ip_id = vector->ip_id;
		ck_assert_int_eq(icrc_check(&frame), bit / 8 == 4);
		bytes[bit / 8] ^= 1 << bit % 8;
	}

	frame.source_port ^= 1;
	ck_assert(!icrc_check(&frame));
	frame.source_port ^= 1;
	frame.source.raw[15] ^= 4;
	ck_assert(!icrc_check(&frame));
	frame.source.raw[15] ^= 4;
	frame.destination.raw[15] ^= 4;
	ck_assert(!icrc_check(&frame));
	frame.destination.raw[15] ^= 4;
	frame.length--;
	ck_assert(!icrc_check(&frame));
}
END_TEST

/* Sealing: the same packets from headers, scattered payload and trailer. */
START_TEST(seal_vectors)
{
	const struct vector *vector = &vectors[_i];
	uint8_t bytes[128];
	uint32_t length = from_hex(bytes, vector->bytes);
	struct path path = {.source = gid_of(vector->source),
			    .destination = gid_of(vector->destination)};

	for (uint32_t pad = 0; pad <= (length - 12 - 4 > 3 ? 3 : length - 12 - 4); pad++) {
		struct link_packet packet = {.path = &path,
					     .headers_length = 12,
					     .payload_length = length - 12 - 4 - pad,
					     .trailer_length = pad + 4};
		struct iovec payload[3] = {
			{bytes + 12, packet.payload_length / 3},
			{bytes + 12 + packet.payload_length / 3, 0},
			{bytes + 12 + packet.payload_length / 3,
			 packet.payload_length - packet.payload_length / 3},
		};

		packet.payload = payload;
		packet.payload_count = 3;
		memcpy(packet.headers, bytes, 12);
		memcpy(packet.trailer, bytes + length - 4 - pad, pad);
		icrc_seal(&packet, vector->source_port, vector->ip_id);
		ck_assert_mem_eq(packet.trailer, bytes + length - 4 - pad, pad + 4);
		ck_assert_mem_eq(packet.headers, bytes, 12);
	}
}
END_TEST

static void assert_one_bit_differs(const uint8_t *a, const uint8_t *b, size_t length,
				   unsigned int bit)
{
	for (size_t i = 0; i < length; i++)
		ck_assert_uint_eq(a[i] ^ b[i], i == bit / 8 ? 1 << bit % 8 : 0);
}

/* Damage is done after sealing, in headers, then trailer. */
START_TEST(seal_corruption)
{
	uint8_t bytes[128], whole[128];
	uint32_t length = from_hex(bytes, vectors[0].bytes);
	struct path path = {.source = gid_of(ONE), .destination = gid_of(TWO)};
	struct iovec payload = {bytes + 12, 8};

	for (unsigned int corrupt_bit = 1; corrupt_bit <= 16 * 8; corrupt_bit++) {
		struct link_packet packet = {.path = &path,
					     .payload = &payload,
					     .payload_count = 1,
					     .payload_length = 8,
					     .headers_length = 12,
					     .trailer_length = 4,
					     .corrupt_bit = corrupt_bit};

		memcpy(packet.headers, bytes, 12);
		icrc_seal(&packet, 0xc000, 0);
		memcpy(whole, bytes, length);
		memcpy(whole, packet.headers, 12);
		memcpy(whole + length - 4, packet.trailer, 4);
		assert_one_bit_differs(whole, bytes, length,
				       corrupt_bit - 1 + (corrupt_bit > 12 * 8 ? 8 * 8 : 0));
	}
}
END_TEST

static const uint32_t solver_lengths[] = {16, 20, 255, 1040, 4112, 65507};

START_TEST(solve_all_ids)
{
	uint32_t length = solver_lengths[_i];
	uint32_t payload_length = length - 12 - 4;
	uint8_t *bytes = malloc(length);
	struct path path = {.source = gid_of("10.1.2.3"), .destination = gid_of("10.4.5.6")};
	struct iovec payload = {bytes + 12, payload_length};
	struct link_packet packet = {.path = &path,
				     .payload = &payload,
				     .payload_count = 1,
				     .payload_length = payload_length,
				     .headers_length = 12,
				     .trailer_length = 4};
	struct link_frame frame = {.data = bytes,
				   .length = length,
				   .source = path.source,
				   .destination = path.destination,
				   .source_port = 0xdead};
	/* The longest are slow to seal; every 251st identification has all bits in turn. */
	unsigned int step = length > 5000 ? 251 : 1;

	for (uint32_t i = 0; i < length; i++)
		bytes[i] = i * 7 + (i >> 8);
	memcpy(packet.headers, bytes, 12);
	for (uint32_t id = 0; id < 0x10000; id += step) {
		icrc_seal(&packet, frame.source_port, id);
		memcpy(bytes + length - 4, packet.trailer, 4);
		frame.ip_id = IP_ID_UNKNOWN;
		must(icrc_check(&frame));
		must(frame.ip_id == (int32_t)id);
		frame.ip_id = 0xffff - id;
		must(icrc_check(&frame));
		must(frame.ip_id == (int32_t)id);
	}
	free(bytes);
}
END_TEST

/*
 * The first identifications of a sender's super-packets; what is likely next is found, and the
 * rest.
 */
static const uint16_t numbered[] = {0,	 0,   0,   500,	  501,	 503, 504, 0,	 505,
				    506, 506, 507, 65534, 65535, 0,   1,   1000, 0};

START_TEST(ids_of_super_packets)
{
	struct icrc_flows flows = {};
	struct icrc_flow flow;
	uint8_t bytes[64] = {WIRE_RC | WIRE_SEND_ONLY, 0, 0xff, 0xff};
	struct link_frame frame = {.data = bytes,
				   .length = sizeof(bytes),
				   .source = gid_of("10.1.2.3"),
				   .destination = gid_of("10.4.5.6"),
				   .source_port = 0xdead};

	icrc_flow_init(&flow, &frame.source, &frame.destination, frame.source_port, frame.length);
	for (unsigned int i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++) {
		for (uint16_t k = 0; k < 3; k++) {
			uint16_t id = numbered[i] + k;

			icrc_seal_bytes(&flow, id, bytes, sizeof(bytes));
			frame.ip_id = k;
			ck_assert(icrc_check_flow(&frame, &flows));
			ck_assert_int_eq(frame.ip_id, id);
			bytes[20] ^= 1; /* but none is found for what isn't intact */
			frame.ip_id = k;
			ck_assert(!icrc_check_flow(&frame, &flows));
			bytes[20] ^= 1;
		}
	}
}
END_TEST

/* Of one place of the cache; each differs from the first in one thing. */
static const struct {
	const char *source, *destination;
	uint16_t source_port;
	uint32_t length;
} flows_of_one_place[] = {
	{"10.1.2.3", "10.4.5.6", 0xc000, 64},
	{"10.1.9.3", "10.4.5.6", 0xc000, 64},
	{"10.1.2.3", "10.4.9.6", 0xc000, 64},
	{"10.1.2.3", "10.4.5.6", 0xc001, 64},
	{"10.1.2.3", "10.4.5.6", 0xc000, 64 + 4 * ICRC_FLOWS},
};

#define FLOWS_OF_ONE_PLACE ((int)(sizeof(flows_of_one_place) / sizeof(flows_of_one_place[0])))

static void expect_flow(struct icrc_flows *flows, int i)
{
	const union ibv_gid source = gid_of(flows_of_one_place[i].source);
	const union ibv_gid destination = gid_of(flows_of_one_place[i].destination);
	const uint16_t port = flows_of_one_place[i].source_port;
	const uint32_t length = flows_of_one_place[i].length;
	struct icrc_flow expected;

	icrc_flow_init(&expected, &source, &destination, port, length);
	ck_assert_uint_eq(icrc_flow(flows, &source, &destination, port, length)->crc, expected.crc);
}

START_TEST(flows_of_one_place_are_told_apart)
{
	struct icrc_flows flows = {};

	expect_flow(&flows, 0);
	expect_flow(&flows, _i);
}
END_TEST

/* All bits but those of the BTH's reserved byte, and none beyond the packet. */
START_TEST(every_covered_bit_can_be_corrupted)
{
	const uint32_t length = 12 + ICRC_LENGTH;
	bool hit[8 * (12 + ICRC_LENGTH)] = {};
	uint64_t random = 1;

	for (unsigned int i = 0; i < 100 * sizeof(hit); i++) {
		uint32_t bit = icrc_covered_bit(&random, length);

		ck_assert_uint_lt(bit, sizeof(hit));
		hit[bit] = true;
	}
	for (uint32_t bit = 0; bit < sizeof(hit); bit++)
		ck_assert_int_eq(hit[bit], bit / 8 != 4);
}
END_TEST

START_TEST(check_runts)
{
	uint8_t bytes[128];
	struct link_frame frame = frame_of(&vectors[0], bytes);

	for (frame.length = 0; frame.length < 16; frame.length++)
		ck_assert(!icrc_check(&frame));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("icrc");
	TCase *tests = tcase_create("icrc");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, check_vectors, 0, VECTORS);
	tcase_add_loop_test(tests, check_corruption, 0, VECTORS);
	tcase_add_loop_test(tests, seal_vectors, 0, VECTORS);
	tcase_add_test(tests, seal_corruption);
	tcase_add_loop_test(tests, solve_all_ids, 0,
			    sizeof(solver_lengths) / sizeof(solver_lengths[0]));
	tcase_add_test(tests, ids_of_super_packets);
	tcase_add_loop_test(tests, flows_of_one_place_are_told_apart, 1, FLOWS_OF_ONE_PLACE);
	tcase_add_test(tests, every_covered_bit_can_be_corrupted);
	tcase_add_test(tests, check_runts);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
