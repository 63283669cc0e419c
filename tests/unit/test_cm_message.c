/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The codec of CM messages: where each field lies (IBA 12.6, tables 106 to
 * 120), what is refused, and that nothing is lost on the way. Real messages:
 * tests/wire/decode_captures.c.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cm/cm_message.h"
#include "net/random.h"
#include "tests/must.h"
#include "tests/run_suite.h"

static const uint16_t attributes[] = {
	CM_REQ,	 CM_MRA,      CM_REJ,	   CM_REP, CM_RTU, CM_DREQ,
	CM_DREP, CM_SIDR_REQ, CM_SIDR_REP, CM_LAP, CM_APR,
};
#define ATTRIBUTES ((int)(sizeof(attributes) / sizeof(attributes[0])))

static void make_header(uint8_t *mad, uint16_t attribute)
{
	const uint8_t header[MAD_HEADER_LENGTH] = {1, 7, 2, 3, [16] = attribute >> 8, attribute};

	memset(mad, 0, MAD_LENGTH);
	memcpy(mad, header, sizeof(header));
}

/* One field: the bits of @value at byte @offset behind the header, and nothing else. */
struct place {
	uint16_t attribute;
	uint8_t offset, length; /* bytes that the field touches */
	uint64_t bytes;		/* what is in them */
	size_t member, size;
	uint64_t value;
};

#define PLACE(attribute, offset, length, bytes, name, value)                                       \
	{                                                                                          \
		attribute, offset, length, bytes, offsetof(struct cm_message, name),               \
			sizeof(((struct cm_message *)0)->name), value                              \
	}

static const struct place places[] = {
	PLACE(CM_REQ, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_REQ, 5, 3, 0xfedcba, vendor_id, 0xfedcba),
	PLACE(CM_REQ, 8, 8, 0xf1f2f3f4f5f6f7f8, service_id, 0xf1f2f3f4f5f6f7f8),
	PLACE(CM_REQ, 16, 8, 0xe1f2f3f4f5f6f7f8, ca_guid, 0xe1f2f3f4f5f6f7f8),
	PLACE(CM_REQ, 28, 4, 0x81234567, qkey, 0x81234567),
	PLACE(CM_REQ, 32, 3, 0xc00011, qpn, 0xc00011),
	PLACE(CM_REQ, 35, 1, 0x81, responder_resources, 0x81),
	PLACE(CM_REQ, 36, 3, 0x800001, eecn, 0x800001),
	PLACE(CM_REQ, 39, 1, 0x82, initiator_depth, 0x82),
	PLACE(CM_REQ, 40, 3, 0x800002, remote_eecn, 0x800002),
	PLACE(CM_REQ, 43, 1, 0xa0, remote_response_timeout, 20),
	PLACE(CM_REQ, 43, 1, 0x06, transport, CM_TRANSPORT_EXTENDED),
	PLACE(CM_REQ, 43, 1, 0x01, flow_control, 1),
	PLACE(CM_REQ, 44, 3, 0x923456, starting_psn, 0x923456),
	PLACE(CM_REQ, 47, 1, 0xa8, local_response_timeout, 21),
	PLACE(CM_REQ, 47, 1, 0x07, retry_count, 7),
	PLACE(CM_REQ, 48, 2, 0xfffe, pkey, 0xfffe),
	PLACE(CM_REQ, 50, 1, 0xf0, mtu, 15),
	PLACE(CM_REQ, 50, 1, 0x08, rdc_exists, 1),
	PLACE(CM_REQ, 50, 1, 0x07, rnr_retry_count, 7),
	PLACE(CM_REQ, 51, 1, 0xf0, max_retries, 15),
	PLACE(CM_REQ, 51, 1, 0x08, srq, 1),
	PLACE(CM_REQ, 51, 1, 0x05, extended_transport, 5),
	PLACE(CM_REQ, 52, 2, 0xfff1, path[0].local_lid, 0xfff1),
	PLACE(CM_REQ, 54, 2, 0xfff2, path[0].remote_lid, 0xfff2),
	PLACE(CM_REQ, 88, 3, 0xd4321 << 4, path[0].flow_label, 0xd4321),
	PLACE(CM_REQ, 91, 1, 0x3f, path[0].rate, 63),
	PLACE(CM_REQ, 92, 1, 0xb8, path[0].traffic_class, 0xb8),
	PLACE(CM_REQ, 93, 1, 0x40, path[0].hop_limit, 64),
	PLACE(CM_REQ, 94, 1, 0xf0, path[0].sl, 15),
	PLACE(CM_REQ, 94, 1, 0x08, path[0].subnet_local, 1),
	PLACE(CM_REQ, 95, 1, 0x98, path[0].ack_timeout, 19),
	PLACE(CM_REQ, 96, 2, 0xfff3, path[1].local_lid, 0xfff3),
	PLACE(CM_REQ, 98, 2, 0xfff4, path[1].remote_lid, 0xfff4),
	PLACE(CM_REQ, 132, 3, 0xd4321 << 4, path[1].flow_label, 0xd4321),
	PLACE(CM_REQ, 135, 1, 0x3f, path[1].rate, 63),
	PLACE(CM_REQ, 136, 1, 0xb8, path[1].traffic_class, 0xb8),
	PLACE(CM_REQ, 137, 1, 0x41, path[1].hop_limit, 65),
	PLACE(CM_REQ, 138, 1, 0xf0, path[1].sl, 15),
	PLACE(CM_REQ, 138, 1, 0x08, path[1].subnet_local, 1),
	PLACE(CM_REQ, 139, 1, 0xf8, path[1].ack_timeout, 31),

	PLACE(CM_MRA, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_MRA, 4, 4, 0xb1b2b3b4, remote_id, 0xb1b2b3b4),
	PLACE(CM_MRA, 8, 1, 0x80, answered, CM_ANSWERED_OTHER),
	PLACE(CM_MRA, 9, 1, 0xc0, service_timeout, 24),

	PLACE(CM_REJ, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_REJ, 4, 4, 0xb1b2b3b4, remote_id, 0xb1b2b3b4),
	PLACE(CM_REJ, 8, 1, 0x40, answered, CM_ANSWERED_REP),
	PLACE(CM_REJ, 9, 1, 0x90, info_length, 72),
	PLACE(CM_REJ, 10, 2, 0x801c, reason, 0x801c),
	PLACE(CM_REJ, 83, 1, 0x99, info[71], 0x99),

	PLACE(CM_REP, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_REP, 4, 4, 0xb1b2b3b4, remote_id, 0xb1b2b3b4),
	PLACE(CM_REP, 8, 4, 0x81234567, qkey, 0x81234567),
	PLACE(CM_REP, 12, 3, 0xc00012, qpn, 0xc00012),
	PLACE(CM_REP, 15, 1, 0xfe, vendor_id, 0xfe0000),
	PLACE(CM_REP, 16, 3, 0xc00013, eecn, 0xc00013),
	PLACE(CM_REP, 19, 1, 0xdc, vendor_id, 0xdc00),
	PLACE(CM_REP, 20, 3, 0x954321, starting_psn, 0x954321),
	PLACE(CM_REP, 23, 1, 0xba, vendor_id, 0xba),
	PLACE(CM_REP, 24, 1, 0x81, responder_resources, 0x81),
	PLACE(CM_REP, 25, 1, 0x82, initiator_depth, 0x82),
	PLACE(CM_REP, 26, 1, 0x78, ack_delay, 15),
	PLACE(CM_REP, 26, 1, 0x06, failover, 3),
	PLACE(CM_REP, 26, 1, 0x01, flow_control, 1),
	PLACE(CM_REP, 27, 1, 0xe0, rnr_retry_count, 7),
	PLACE(CM_REP, 27, 1, 0x10, srq, 1),
	PLACE(CM_REP, 28, 8, 0xe1f2f3f4f5f6f7f8, ca_guid, 0xe1f2f3f4f5f6f7f8),

	PLACE(CM_RTU, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_RTU, 4, 4, 0xb1b2b3b4, remote_id, 0xb1b2b3b4),
	PLACE(CM_DREQ, 8, 3, 0xc00012, qpn, 0xc00012),
	PLACE(CM_DREQ, 4, 4, 0xb1b2b3b4, remote_id, 0xb1b2b3b4),
	PLACE(CM_DREP, 4, 4, 0xb1b2b3b4, remote_id, 0xb1b2b3b4),

	PLACE(CM_LAP, 12, 3, 0xc00012, qpn, 0xc00012),
	PLACE(CM_LAP, 15, 1, 0xa0, remote_response_timeout, 20),
	PLACE(CM_LAP, 20, 2, 0xfff3, path[1].local_lid, 0xfff3),
	PLACE(CM_LAP, 22, 2, 0xfff4, path[1].remote_lid, 0xfff4),
	PLACE(CM_LAP, 56, 3, 0xd4321 << 4, path[1].flow_label, 0xd4321),
	PLACE(CM_LAP, 59, 1, 0xb8, path[1].traffic_class, 0xb8),
	PLACE(CM_LAP, 60, 1, 0x41, path[1].hop_limit, 65),
	PLACE(CM_LAP, 61, 1, 0x3f, path[1].rate, 63),
	PLACE(CM_LAP, 62, 1, 0xf0, path[1].sl, 15),
	PLACE(CM_LAP, 62, 1, 0x08, path[1].subnet_local, 1),
	PLACE(CM_LAP, 63, 1, 0xf8, path[1].ack_timeout, 31),

	PLACE(CM_APR, 8, 1, 72, info_length, 72),
	PLACE(CM_APR, 9, 1, 13, status, 13),
	PLACE(CM_APR, 12, 1, 0x99, info[0], 0x99),

	PLACE(CM_SIDR_REQ, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_SIDR_REQ, 4, 2, 0xfffe, pkey, 0xfffe),
	PLACE(CM_SIDR_REQ, 8, 8, 0xf1f2f3f4f5f6f7f8, service_id, 0xf1f2f3f4f5f6f7f8),

	PLACE(CM_SIDR_REP, 0, 4, 0xa1a2a3a4, local_id, 0xa1a2a3a4),
	PLACE(CM_SIDR_REP, 4, 1, 5, status, 5),
	PLACE(CM_SIDR_REP, 5, 1, 72, info_length, 72),
	PLACE(CM_SIDR_REP, 6, 2, 0xfedc, vendor_id, 0xfedc00),
	PLACE(CM_SIDR_REP, 8, 3, 0xc00012, qpn, 0xc00012),
	PLACE(CM_SIDR_REP, 11, 1, 0xba, vendor_id, 0xba),
	PLACE(CM_SIDR_REP, 12, 8, 0xf1f2f3f4f5f6f7f8, service_id, 0xf1f2f3f4f5f6f7f8),
	PLACE(CM_SIDR_REP, 20, 4, 0x81234567, qkey, 0x81234567),
	PLACE(CM_SIDR_REP, 95, 1, 0x99, info[71], 0x99),
};

/* Where the lowest @size bytes of @value are. */
static const uint8_t *low_bytes(const uint64_t *value, size_t size)
{
	size_t first = __BYTE_ORDER == __BIG_ENDIAN ? sizeof(*value) - size : 0;

	return (const uint8_t *)value + first;
}

START_TEST(test_places)
{
	const struct place *place = &places[_i];
	struct cm_message expected = {.attribute = place->attribute}, message;
	uint8_t mad[MAD_LENGTH], again[MAD_LENGTH];

	make_header(mad, place->attribute);
	for (unsigned int i = 0; i < place->length; i++)
		mad[MAD_HEADER_LENGTH + place->offset + i] =
			place->bytes >> 8 * (place->length - 1 - i);
	memcpy((uint8_t *)&expected + place->member, low_bytes(&place->value, place->size),
	       place->size);
	expected.private_length = cm_private_length(place->attribute);
	ck_assert_int_eq(cm_message_decode(&message, mad), 0);
	ck_assert_mem_eq(&message, &expected, sizeof(message));
	cm_message_encode(&message, again);
	ck_assert_mem_eq(again, mad, sizeof(mad));
}
END_TEST

/* GIDs in REQ and LAP. */
START_TEST(test_gids)
{
	static const struct {
		uint16_t attribute;
		uint8_t offset;
		size_t member;
	} gids[] = {
		{CM_REQ, 56, offsetof(struct cm_message, path[0].local_gid)},
		{CM_REQ, 72, offsetof(struct cm_message, path[0].remote_gid)},
		{CM_REQ, 100, offsetof(struct cm_message, path[1].local_gid)},
		{CM_REQ, 116, offsetof(struct cm_message, path[1].remote_gid)},
		{CM_LAP, 24, offsetof(struct cm_message, path[1].local_gid)},
		{CM_LAP, 40, offsetof(struct cm_message, path[1].remote_gid)},
	};

	for (unsigned int i = 0; i < sizeof(gids) / sizeof(gids[0]); i++) {
		uint8_t mad[MAD_LENGTH], again[MAD_LENGTH];
		struct cm_message message;

		make_header(mad, gids[i].attribute);
		for (unsigned int j = 0; j < 16; j++)
			mad[MAD_HEADER_LENGTH + gids[i].offset + j] = 0x80 + j;
		ck_assert_int_eq(cm_message_decode(&message, mad), 0);
		ck_assert_mem_eq((uint8_t *)&message + gids[i].member,
				 mad + MAD_HEADER_LENGTH + gids[i].offset, 16);
		cm_message_encode(&message, again);
		ck_assert_mem_eq(again, mad, sizeof(mad));
	}
}
END_TEST

START_TEST(test_header)
{
	struct cm_message message = {
		.attribute = CM_REP, .modifier = 0x01020304, .transaction = 0x1112131415161718};
	const uint8_t expected[MAD_HEADER_LENGTH] = {1,	   7,	 2,    3,    0,	   0,	 0,    0,
						     0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
						     0,	   0x13, 0,    0,    1,	   2,	 3,    4};
	struct cm_message back;
	uint8_t mad[MAD_LENGTH];

	cm_message_encode(&message, mad);
	ck_assert_mem_eq(mad, expected, sizeof(expected));
	ck_assert_int_eq(cm_message_decode(&back, mad), 0);
	ck_assert_uint_eq(back.modifier, message.modifier);
	ck_assert_uint_eq(back.transaction, message.transaction);
}
END_TEST

/* IBA 13.4.2: what isn't a Send of the CM, class version 2, is none of our business. */
START_TEST(test_refused)
{
	static const struct {
		uint8_t offset, value;
	} wrong[] = {{0, 2},  {1, 3},	  {2, 1},     {3, 1}, {3, 0x83},
		     {16, 1}, {17, 0x0f}, {17, 0x1b}, {17, 0}};
	uint8_t mad[MAD_LENGTH];
	struct cm_message message;

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		make_header(mad, CM_REQ);
		ck_assert_int_eq(cm_message_decode(&message, mad), 0);
		mad[wrong[i].offset] = wrong[i].value;
		ck_assert_int_eq(cm_message_decode(&message, mad), -1);
	}
}
END_TEST

START_TEST(test_private_data)
{
	static const uint8_t lengths[] = {92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148};
	struct cm_message message = {.attribute = attributes[_i]}, back;
	uint8_t length = cm_private_length(attributes[_i]), mad[MAD_LENGTH];

	ck_assert_uint_eq(length, lengths[_i]);
	memset(message.private_data, 0xee, sizeof(message.private_data));
	/* More than there is room for changes nothing else. */
	for (unsigned int fill = 0; fill <= UINT8_MAX; fill += 5) {
		uint8_t filled = fill < length ? fill : length;

		message.private_length = fill;
		cm_message_encode(&message, mad);
		ck_assert_int_eq(cm_message_decode(&back, mad), 0);
		ck_assert_uint_eq(back.private_length, length);
		for (unsigned int i = 0; i < sizeof(back.private_data); i++)
			must(back.private_data[i] == (i < filled ? 0xee : 0));
		for (int i = MAD_HEADER_LENGTH; i < MAD_LENGTH - length; i++)
			must(mad[i] == 0);
	}
	ck_assert_uint_eq(cm_private_length(0), 0);
	ck_assert_uint_eq(cm_private_length(CM_APR + 1), 0);
	ck_assert_uint_eq(cm_private_length(UINT16_MAX), 0);
	ck_assert_str_eq(cm_attribute_name(CM_SIDR_REP), "SIDR_REP");
	ck_assert_str_eq(cm_attribute_name(CM_REQ - 1), "unknown");
}
END_TEST

/* Any bytes: what was understood is understood again after a rewrite. */
START_TEST(test_random)
{
	uint64_t random = _i;
	struct cm_message message, back;
	uint8_t mad[MAD_LENGTH], again[MAD_LENGTH];

	for (unsigned int round = 0; round < 200; round++) {
		make_header(mad, attributes[_i]);
		for (unsigned int i = MAD_HEADER_LENGTH; i < MAD_LENGTH; i++)
			mad[i] = random_next(&random);
		ck_assert_int_eq(cm_message_decode(&message, mad), 0);
		cm_message_encode(&message, again);
		ck_assert_int_eq(cm_message_decode(&back, again), 0);
		ck_assert_mem_eq(&message, &back, sizeof(back));
		/* What was written is what was there, but for what is reserved. */
		for (unsigned int i = 0; i < MAD_LENGTH; i++)
			must((again[i] & ~mad[i]) == 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cm_message");
	TCase *tcase = tcase_create("cm_message");

	tcase_add_loop_test(tcase, test_places, 0, sizeof(places) / sizeof(places[0]));
	tcase_add_test(tcase, test_gids);
	tcase_add_test(tcase, test_header);
	tcase_add_test(tcase, test_refused);
	tcase_add_loop_test(tcase, test_private_data, 0, ATTRIBUTES);
	tcase_add_loop_test(tcase, test_random, 0, ATTRIBUTES);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
