/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the connection manager to and from bytes: emu/cm/cm_message.h. The
 * tables below are tables 106 to 120 of IBA volume 1, a line each: first byte
 * and first bit (from the most significant one) behind the MAD header, width
 * in bits, and where the value lives in struct cm_message.
 */
#include "emu/cm/cm_message.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "net/sized.h"

#define MAD_BASE_VERSION 1
#define MAD_CM_CLASS_VERSION 2
#define MAD_METHOD_SEND 3

struct field {
	uint16_t first, width; /* in bits */
	uint16_t member;       /* offset in struct cm_message */
	uint16_t size;	       /* of the member; above 8 it is a string of bytes */
	uint8_t shift;	       /* the field is this part of a value that lies in pieces */
};

#define PART(byte, bit, bits, name, shift)                                                         \
	{                                                                                          \
		(MAD_HEADER_LENGTH + (byte)) * 8 + (bit), bits, offsetof(struct cm_message, name), \
			sizeof(((struct cm_message *)0)->name), shift                              \
	}
#define FIELD(byte, bit, bits, name) PART(byte, bit, bits, name, 0)
#define BYTES(byte, name) FIELD(byte, 0, sizeof(((struct cm_message *)0)->name) * 8, name)

/* clang-format off */
static const struct field req_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(5, 0, 24, vendor_id),
	FIELD(CM_SERVICE_ID, 0, 64, service_id),
	FIELD(16, 0, 64, ca_guid),
	FIELD(28, 0, 32, qkey),
	FIELD(32, 0, 24, qpn),
	FIELD(35, 0, 8, responder_resources),
	FIELD(36, 0, 24, eecn),
	FIELD(39, 0, 8, initiator_depth),
	FIELD(40, 0, 24, remote_eecn),
	FIELD(43, 0, 5, remote_response_timeout),
	FIELD(43, 5, 2, transport),
	FIELD(43, 7, 1, flow_control),
	FIELD(44, 0, 24, starting_psn),
	FIELD(47, 0, 5, local_response_timeout),
	FIELD(47, 5, 3, retry_count),
	FIELD(48, 0, 16, pkey),
	FIELD(50, 0, 4, mtu),
	FIELD(50, 4, 1, rdc_exists),
	FIELD(50, 5, 3, rnr_retry_count),
	FIELD(51, 0, 4, max_retries),
	FIELD(51, 4, 1, srq),
	FIELD(51, 5, 3, extended_transport),
	FIELD(52, 0, 16, path[0].local_lid),
	FIELD(54, 0, 16, path[0].remote_lid),
	BYTES(56, path[0].local_gid),
	BYTES(72, path[0].remote_gid),
	FIELD(88, 0, 20, path[0].flow_label),
	FIELD(91, 2, 6, path[0].rate),
	FIELD(92, 0, 8, path[0].traffic_class),
	FIELD(93, 0, 8, path[0].hop_limit),
	FIELD(94, 0, 4, path[0].sl),
	FIELD(94, 4, 1, path[0].subnet_local),
	FIELD(95, 0, 5, path[0].ack_timeout),
	FIELD(96, 0, 16, path[1].local_lid),
	FIELD(98, 0, 16, path[1].remote_lid),
	BYTES(100, path[1].local_gid),
	BYTES(116, path[1].remote_gid),
	FIELD(132, 0, 20, path[1].flow_label),
	FIELD(135, 2, 6, path[1].rate),
	FIELD(136, 0, 8, path[1].traffic_class),
	FIELD(137, 0, 8, path[1].hop_limit),
	FIELD(138, 0, 4, path[1].sl),
	FIELD(138, 4, 1, path[1].subnet_local),
	FIELD(139, 0, 5, path[1].ack_timeout),
	{0},
};

static const struct field mra_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	FIELD(8, 0, 2, answered),
	FIELD(9, 0, 5, service_timeout),
	{0},
};

static const struct field rej_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	FIELD(8, 0, 2, answered),
	FIELD(9, 0, 7, info_length),
	FIELD(10, 0, 16, reason),
	BYTES(12, info),
	{0},
};

static const struct field rep_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	FIELD(8, 0, 32, qkey),
	FIELD(12, 0, 24, qpn),
	PART(15, 0, 8, vendor_id, 16),
	FIELD(16, 0, 24, eecn),
	PART(19, 0, 8, vendor_id, 8),
	FIELD(20, 0, 24, starting_psn),
	PART(23, 0, 8, vendor_id, 0),
	FIELD(24, 0, 8, responder_resources),
	FIELD(25, 0, 8, initiator_depth),
	FIELD(26, 0, 5, ack_delay),
	FIELD(26, 5, 2, failover),
	FIELD(26, 7, 1, flow_control),
	FIELD(27, 0, 3, rnr_retry_count),
	FIELD(27, 3, 1, srq),
	FIELD(28, 0, 64, ca_guid),
	{0},
};

/* RTU, DREP */
static const struct field ids_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	{0},
};

static const struct field dreq_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	FIELD(8, 0, 24, qpn),
	{0},
};

static const struct field lap_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	FIELD(12, 0, 24, qpn),
	FIELD(15, 0, 5, remote_response_timeout),
	FIELD(20, 0, 16, path[1].local_lid),
	FIELD(22, 0, 16, path[1].remote_lid),
	BYTES(24, path[1].local_gid),
	BYTES(40, path[1].remote_gid),
	FIELD(56, 0, 20, path[1].flow_label),
	FIELD(59, 0, 8, path[1].traffic_class),
	FIELD(60, 0, 8, path[1].hop_limit),
	FIELD(61, 2, 6, path[1].rate),
	FIELD(62, 0, 4, path[1].sl),
	FIELD(62, 4, 1, path[1].subnet_local),
	FIELD(63, 0, 5, path[1].ack_timeout),
	{0},
};

static const struct field apr_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(CM_REMOTE_ID, 0, 32, remote_id),
	FIELD(8, 0, 8, info_length),
	FIELD(9, 0, 8, status),
	BYTES(12, info),
	{0},
};

static const struct field sidr_req_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(4, 0, 16, pkey),
	FIELD(CM_SERVICE_ID, 0, 64, service_id),
	{0},
};

static const struct field sidr_rep_fields[] = {
	FIELD(CM_LOCAL_ID, 0, 32, local_id),
	FIELD(4, 0, 8, status),
	FIELD(5, 0, 8, info_length),
	PART(6, 0, 16, vendor_id, 8),
	FIELD(8, 0, 24, qpn),
	PART(11, 0, 8, vendor_id, 0),
	FIELD(12, 0, 64, service_id),
	FIELD(20, 0, 32, qkey),
	BYTES(24, info),
	{0},
};

static const struct layout {
	const char *name;
	const struct field *fields;
	uint8_t private_offset; /* to the end of the MAD */
} layouts[] = {
	[CM_REQ] = {"REQ", req_fields, 140},
	[CM_MRA] = {"MRA", mra_fields, 10},
	[CM_REJ] = {"REJ", rej_fields, 84},
	[CM_REP] = {"REP", rep_fields, 36},
	[CM_RTU] = {"RTU", ids_fields, 8},
	[CM_DREQ] = {"DREQ", dreq_fields, 12},
	[CM_DREP] = {"DREP", ids_fields, 8},
	[CM_SIDR_REQ] = {"SIDR_REQ", sidr_req_fields, 16},
	[CM_SIDR_REP] = {"SIDR_REP", sidr_rep_fields, 96},
	[CM_LAP] = {"LAP", lap_fields, 64},
	[CM_APR] = {"APR", apr_fields, 84},
};
/* clang-format on */

static const struct layout *layout_of(uint16_t attribute)
{
	if (attribute >= sizeof(layouts) / sizeof(layouts[0]) || !layouts[attribute].name)
		return NULL;
	return &layouts[attribute];
}

uint8_t cm_private_length(uint16_t attribute)
{
	const struct layout *layout = layout_of(attribute);

	return layout ? MAD_LENGTH - MAD_HEADER_LENGTH - layout->private_offset : 0;
}

const char *cm_attribute_name(uint16_t attribute)
{
	const struct layout *layout = layout_of(attribute);

	return layout ? layout->name : "unknown";
}

/* --- fields ------------------------------------------------------------------------- */

static uint64_t get_bits(const uint8_t *mad, const struct field *field)
{
	unsigned int end = field->first + field->width;
	uint64_t value = 0;

	for (unsigned int bit = field->first; bit < end; bit++)
		value = value << 1 | (mad[bit / 8] >> (7 - bit % 8) & 1);
	return value;
}

/* The MAD is zeros before. */
static void put_bits(uint8_t *mad, const struct field *field, uint64_t value)
{
	unsigned int end = field->first + field->width;

	for (unsigned int i = 0; i < field->width; i++, value >>= 1) {
		unsigned int bit = end - 1 - i;

		mad[bit / 8] |= (value & 1) << (7 - bit % 8);
	}
}

static uint64_t get_member(const struct cm_message *message, const struct field *field)
{
	return sized_get((const uint8_t *)message + field->member, field->size);
}

static void put_member(struct cm_message *message, const struct field *field, uint64_t value)
{
	sized_put((uint8_t *)message + field->member, field->size, value);
}

/* --- messages ----------------------------------------------------------------------- */

int cm_message_decode(struct cm_message *message, const uint8_t *mad)
{
	const struct mad_header *header = (const struct mad_header *)mad;
	const struct layout *layout = layout_of(be16toh(header->attribute));
	const struct field *field;

	if (header->base_version != MAD_BASE_VERSION || header->class != MAD_CLASS_CM ||
	    header->class_version != MAD_CM_CLASS_VERSION || header->method != MAD_METHOD_SEND ||
	    !layout)
		return -1;
	memset(message, 0, sizeof(*message));
	message->attribute = be16toh(header->attribute);
	message->modifier = be32toh(header->modifier);
	message->transaction = be64toh(header->transaction);
	for (field = layout->fields; field->width; field++) {
		if (field->size > sizeof(uint64_t))
			memcpy((uint8_t *)message + field->member, mad + field->first / 8,
			       field->size);
		else
			put_member(message, field,
				   get_member(message, field) | get_bits(mad, field)
									<< field->shift);
	}
	message->private_length = cm_private_length(message->attribute);
	memcpy(message->private_data, mad + MAD_LENGTH - message->private_length,
	       message->private_length);
	return 0;
}

void cm_message_encode(const struct cm_message *message, uint8_t *mad)
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.class = MAD_CLASS_CM,
		.class_version = MAD_CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.transaction = htobe64(message->transaction),
		.attribute = htobe16(message->attribute),
		.modifier = htobe32(message->modifier),
	};
	const struct layout *layout = layout_of(message->attribute);
	uint8_t space = cm_private_length(message->attribute);
	const struct field *field;

	memset(mad, 0, MAD_LENGTH);
	memcpy(mad, &header, sizeof(header));
	if (!layout)
		return;
	for (field = layout->fields; field->width; field++) {
		if (field->size > sizeof(uint64_t))
			memcpy(mad + field->first / 8, (const uint8_t *)message + field->member,
			       field->size);
		else
			put_bits(mad, field, get_member(message, field) >> field->shift);
	}
	memcpy(mad + MAD_LENGTH - space, message->private_data,
	       message->private_length < space ? message->private_length : space);
}
