/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams (MADs), the payload of packets to QP 1: their header, and those
 * fields of the connection manager's messages by which the process is found that a
 * message is for. emu/cm/cm_message reads and writes the whole of the messages;
 * net/share/steer has the kernel look at these fields, net/fault knows the messages by name.
 * Includes nothing of ours.
 */
#ifndef URXE_NET_MAD_H
#define URXE_NET_MAD_H

#include <endian.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAD_LENGTH 256
#define MAD_CLASS_CM 0x07

/* IBA 13.4.2 */
struct mad_header {
	__u8 base_version, class, class_version, method;
	__be16 status, class_specific;
	__be64 transaction;
	__be16 attribute, reserved;
	__be32 modifier;
} __attribute__((packed));

#define MAD_HEADER_LENGTH 24

_Static_assert(sizeof(struct mad_header) == MAD_HEADER_LENGTH, "IBA 13.4.2");

/* The messages of the connection manager, IBA 12.6. */
enum cm_attribute {
	CM_REQ = 0x10,
	CM_MRA = 0x11,
	CM_REJ = 0x12,
	CM_REP = 0x13,
	CM_RTU = 0x14,
	CM_DREQ = 0x15,
	CM_DREP = 0x16,
	CM_SIDR_REQ = 0x17,
	CM_SIDR_REP = 0x18,
	CM_LAP = 0x19,
	CM_APR = 0x1a,
};

/* Why a REQ or REP is rejected (table 109). */
enum cm_reject_reason {
	CM_REJECT_NO_QP = 1,
	CM_REJECT_NO_EEC = 2,
	CM_REJECT_NO_RESOURCES = 3,
	CM_REJECT_TIMEOUT = 4,
	CM_REJECT_UNSUPPORTED = 5,
	CM_REJECT_INVALID_COMM_ID = 6,
	CM_REJECT_INVALID_COMM_INSTANCE = 7,
	CM_REJECT_INVALID_SERVICE_ID = 8,
	CM_REJECT_INVALID_TRANSPORT = 9,
	CM_REJECT_STALE = 10,
	CM_REJECT_NO_RDC = 11,
	CM_REJECT_INVALID_GID = 12,
	CM_REJECT_INVALID_LID = 13,
	CM_REJECT_INVALID_SL = 14,
	CM_REJECT_INVALID_TRAFFIC_CLASS = 15,
	CM_REJECT_INVALID_HOP_LIMIT = 16,
	CM_REJECT_INVALID_PACKET_RATE = 17,
	CM_REJECT_INVALID_ALTERNATE_GID = 18,
	CM_REJECT_INVALID_ALTERNATE_LID = 19,
	CM_REJECT_INVALID_ALTERNATE_SL = 20,
	CM_REJECT_INVALID_ALTERNATE_TRAFFIC_CLASS = 21,
	CM_REJECT_INVALID_ALTERNATE_HOP_LIMIT = 22,
	CM_REJECT_INVALID_ALTERNATE_PACKET_RATE = 23,
	CM_REJECT_CM_REDIRECT = 24,
	CM_REJECT_PORT_REDIRECT = 25,
	CM_REJECT_INVALID_MTU = 26,
	CM_REJECT_INSUFFICIENT_RESOURCES = 27,
	CM_REJECT_CONSUMER = 28,
	CM_REJECT_RNR_RETRY_COUNT = 29,
	CM_REJECT_DUPLICATE_COMM_ID = 30,
	CM_REJECT_INVALID_CLASS_VERSION = 31,
	CM_REJECT_INVALID_FLOW_LABEL = 32,
	CM_REJECT_INVALID_ALTERNATE_FLOW_LABEL = 33,
	CM_REJECT_VENDOR_OPTION = 35,
};

/* Where fields are, in bytes behind the header (tables 106 to 120). */
enum cm_offset {
	CM_LOCAL_ID = 0, /* of the sender; in SIDR_REP of the request that it answers */
	CM_REMOTE_ID =
		4, /* of the receiver, as the sender knows it: not in REQ, SIDR_REQ, SIDR_REP */
	CM_SERVICE_ID = 8, /* in REQ and SIDR_REQ: what is asked for */
};

static inline uint16_t mad_attribute(const void *mad)
{
	__be16 attribute;

	memcpy(&attribute, (const uint8_t *)mad + offsetof(struct mad_header, attribute),
	       sizeof(attribute));
	return be16toh(attribute);
}

#endif
