/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that fault specifications have for things: each vocabulary is names of numbers from 0
 * on. Called by net/fault/fault_clause, which reads them. Constant: no lock.
 */
#ifndef URXE_NET_FAULT_WORDS_H
#define URXE_NET_FAULT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fault_words {
	unsigned int count;
	const char *(*name)(unsigned int number); /* NULL: the number has none */
};

extern const struct fault_words fault_errnos;	 /* ENOMEM */
extern const struct fault_words fault_statuses;	 /* enum ibv_wc_status: RETRY_EXC_ERR */
extern const struct fault_words fault_events;	 /* enum ibv_event_type: PORT_ERR */
extern const struct fault_words fault_cm_events; /* enum fault_cm_event: ADDR_ERROR */
extern const struct fault_words fault_reasons;	 /* enum cm_reject_reason: NO_RESOURCES */

/* Packets: enum opcodes, and behind them the messages of the connection manager. */
extern const struct fault_words fault_packets; /* RC_SEND_ONLY, CM_REP */
#define FAULT_PACKET_CM(attribute) (256 + (attribute))

extern const struct fault_words fault_call_names; /* enum fault_call: ibv_reg_mr */
extern const struct fault_words fault_requests;	  /* what may be rejected: CM_REQ, CM_REP */

/*
 * Events of librdmacm, without their RDMA_CM_EVENT_, that neither a message that is lost nor one
 * that is rejected brings about soon.
 */
enum fault_cm_event {
	FAULT_ADDR_ERROR,
	FAULT_ROUTE_ERROR,
	FAULT_UNREACHABLE,
	FAULT_MULTICAST_ERROR,
	FAULT_ADDR_CHANGE,
};

/* Work requests: enum ibv_wr_opcode, and those of receive queues. */
extern const struct fault_words fault_works; /* RDMA_WRITE, RECV */
#define FAULT_WORK_RECV 16

/* A set of numbers of a vocabulary. */
#define FAULT_WORDS_MAX 320

struct fault_set {
	uint64_t bits[FAULT_WORDS_MAX / 64];
};

static inline bool fault_set_has(const struct fault_set *set, unsigned int number)
{
	return number < FAULT_WORDS_MAX && set->bits[number / 64] >> number % 64 & 1;
}

/* The number of the name that is @length bytes at @text. */
bool fault_words_find(const struct fault_words *words, const char *text, size_t length,
		      unsigned int *number);
/* Add all numbers to @set whose names begin so. False when there are none. */
bool fault_words_match(const struct fault_words *words, const char *text, size_t length,
		       struct fault_set *set);

#endif
