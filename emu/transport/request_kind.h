/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of send work requests as data, one for each verbs opcode: the packets that
 * it becomes, what it does with its memory, what answers it. The send queue, the
 * requester, the completer and the verbs layer read this table; a new operation is
 * a line of it. Constant: no lock.
 */
#ifndef URXE_EMU_REQUEST_KIND_H
#define URXE_EMU_REQUEST_KIND_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "emu/objects/qp_type.h"

/* What becomes of the memory that the SGEs name. */
enum request_data {
	DATA_NONE,     /* there must be no SGE */
	DATA_SENT,     /* the packets carry it; so it may be inline */
	DATA_READ,     /* the responses fill it, and take its PSNs (IBA 9.7.5.1.3) */
	DATA_ORIGINAL, /* gets the eight bytes that the remote memory held before (IBA 9.4.5) */
};

enum request_flags {
	REQUEST_REMOTE = 1 << 0,     /* names remote memory */
	REQUEST_INVALIDATE = 1 << 1, /* names an R_Key that ends; otherwise immediate data may be */
	REQUEST_BIND = 1 << 2,	     /* names a memory window, and what it is bound to */
	REQUEST_LOCAL = 1 << 3,	     /* is executed at the requester: there are no packets */
	REQUEST_EXACT = 1 << 4,	     /* sends ATOMIC_LENGTH bytes, no more and no less */
	REQUEST_FLUSH = 1 << 5,	     /* struct flush says what is to be flushed */
	REQUEST_SIMPLE = 1 << 6,     /* sends data, and is none of the above but REMOTE */
};

struct request_kind {
	const char *name;
	uint16_t types;			   /* enum qp_type_set; none: the device lacks it */
	uint8_t first, middle, last, only; /* enum wire_operation; a single packet has only */
	uint8_t data;			   /* enum request_data */
	uint8_t flags;			   /* enum request_flags */
	uint16_t response;		   /* enum opcode_flags of the packet that answers it;
					      0: an acknowledgement does */
	enum ibv_wc_opcode completion;
	uint64_t send_ops_flag; /* IBV_QP_EX_WITH_*, which allows it to ibv_wr_*() */
};

/* NULL for an opcode that verbs.h doesn't define. */
const struct request_kind *request_kind_find(enum ibv_wr_opcode opcode);
/* The opcode of a kind that it found. */
enum ibv_wr_opcode request_kind_opcode(const struct request_kind *kind);

/*
 * The IBV_QP_EX_WITH_* of all operations that QPs of @type have, but for those of the bits
 * 1 << IBV_WR_* in @lacking.
 */
uint64_t request_kind_send_ops(const struct qp_type *type, uint32_t lacking);

#endif
