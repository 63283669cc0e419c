/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the connection manager: what a MAD of class CM holds (IBA
 * 12.6, tables 106 to 120). Encoding and decoding are driven by one table of
 * fields per message, which is the specification's. Called by emu/cm/cm*.c and
 * tests; no state, no lock.
 */
#ifndef URXE_EMU_CM_MESSAGE_H
#define URXE_EMU_CM_MESSAGE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "net/wire/mad.h"

#define CM_PRIVATE_MAX 224

/* What an MRA or a REJ answers to (tables 107 and 108). */
enum cm_answered { CM_ANSWERED_REQ, CM_ANSWERED_REP, CM_ANSWERED_OTHER };

enum cm_sidr_status {
	CM_SIDR_SUCCESS,
	CM_SIDR_UNSUPPORTED, /* no such service */
	CM_SIDR_REJECTED,
	CM_SIDR_NO_QP,
	CM_SIDR_REDIRECT,
	CM_SIDR_UNSUPPORTED_VERSION,
};

/* AP status of an APR (table 117). */
enum cm_apr_status {
	CM_APR_SUCCESS = 0,
	CM_APR_INVALID_ID = 1,
	CM_APR_UNSUPPORTED = 2,
	CM_APR_REJECTED = 3,
	CM_APR_IS_CURRENT = 5,
	CM_APR_INVALID_QPN = 6,
	CM_APR_INVALID_GID = 8,
};

enum cm_transport { CM_TRANSPORT_RC, CM_TRANSPORT_UC, CM_TRANSPORT_RD, CM_TRANSPORT_EXTENDED };

/* A path as REQ and LAP describe it. */
struct cm_path {
	uint16_t local_lid, remote_lid;
	union ibv_gid local_gid, remote_gid;
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl;
	uint8_t subnet_local;
	uint8_t ack_timeout;
};

struct cm_message {
	uint16_t attribute;   /* enum cm_attribute */
	uint32_t modifier;    /* ECE options, or 0 */
	uint64_t transaction; /* host order of the eight bytes */

	uint32_t local_id;  /* of the sender; SIDR: the request id */
	uint32_t remote_id; /* of the receiver, as the sender knows it */

	/* REQ, REP and others, by their names; what a message lacks is 0. */
	uint32_t vendor_id; /* ECE */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn;  /* the sender's; DREQ and LAP: the receiver's */
	uint32_t eecn; /* REP for XRC: the target QP */
	uint32_t remote_eecn;
	uint32_t starting_psn; /* the first one that the receiver of the message sends */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t remote_response_timeout;
	uint8_t local_response_timeout;
	uint8_t transport; /* enum cm_transport */
	uint8_t extended_transport;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t mtu;
	uint8_t rdc_exists;
	uint8_t srq;
	uint8_t max_retries;
	uint16_t pkey;
	uint8_t ack_delay; /* REP: Target ACK Delay */
	uint8_t failover;
	uint8_t answered;	 /* enum cm_answered: MRA, REJ */
	uint8_t service_timeout; /* MRA */
	uint16_t reason;	 /* REJ */
	uint8_t status;		 /* SIDR_REP, APR */
	uint8_t info_length;	 /* of @info that counts: REJ, APR, SIDR_REP */
	uint8_t info[72];
	struct cm_path path[2]; /* REQ: primary and alternate; LAP: [1] */

	uint8_t private_length; /* encode: how much of it the sender fills; decode: the field's */
	/* Applications have their structures there. */
	_Alignas(max_align_t) uint8_t private_data[CM_PRIVATE_MAX];
};

/* The size of the private data field of @attribute, 0 for an unknown one. */
uint8_t cm_private_length(uint16_t attribute);

/*
 * The one place where bytes of the network become a CM message. @mad is
 * MAD_LENGTH bytes. Returns 0, or -1 for what isn't a CM message that we know
 * (IBA 13.4.2, 12.6: base version 1, class version 2, method Send), which is
 * dropped silently.
 */
int cm_message_decode(struct cm_message *message, const uint8_t *mad);

/* Write @message to the MAD_LENGTH bytes at @mad. */
void cm_message_encode(const struct cm_message *message, uint8_t *mad);

/* "REQ", for logs. */
const char *cm_attribute_name(uint16_t attribute);

#endif
