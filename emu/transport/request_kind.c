/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/request_kind.h"

#include <stddef.h>

#include "net/newer_verbs.h"
#include "net/wire/wire.h"

/* In the order of the fields first, middle, last, only: IBA 9.2.1 (table 38). */
#define SEND WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST, WIRE_SEND_ONLY
#define SEND_IMM WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_IMM, WIRE_SEND_ONLY_IMM
#define SEND_INV                                                                                   \
	WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_INVALIDATE, WIRE_SEND_ONLY_INVALIDATE
#define WRITE WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST, WIRE_WRITE_ONLY
#define WRITE_IMM WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST_IMM, WIRE_WRITE_ONLY_IMM
#define ONLY(operation) 0, 0, 0, WIRE_##operation
#define NO_PACKETS 0, 0, 0, 0

/* XRC has the operations of RC (Annex A14). */
#define RC (QP_RC | QP_XRC_SEND)
#define RC_UC (RC | QP_UC)
#define RC_UC_UD (RC_UC | QP_UD)

#define REMOTE REQUEST_REMOTE
#define INVALIDATE REQUEST_INVALIDATE
#define LOCAL REQUEST_LOCAL
#define BIND REQUEST_BIND
#define EXACT REQUEST_EXACT
#define SIMPLE REQUEST_SIMPLE

/* IBA table 38 and 11.4.1.1: which transport has which operation. */
/* clang-format off */
#define ROW(opcode, types, packets, data, flags, response, completion) \
	[IBV_WR_##opcode] = {#opcode, types, packets, data, flags, response, IBV_WC_##completion, IBV_QP_EX_WITH_##opcode}

static const struct request_kind kinds[] = {
	ROW(SEND,                 RC_UC_UD, SEND,                DATA_SENT,     SIMPLE,             0,             SEND),
	ROW(SEND_WITH_IMM,        RC_UC_UD, SEND_IMM,            DATA_SENT,     SIMPLE,             0,             SEND),
	ROW(SEND_WITH_INV,        RC,       SEND_INV,            DATA_SENT,     INVALIDATE,         0,             SEND),
	ROW(RDMA_WRITE,           RC_UC,    WRITE,               DATA_SENT,     SIMPLE | REMOTE,    0,             RDMA_WRITE),
	ROW(RDMA_WRITE_WITH_IMM,  RC_UC,    WRITE_IMM,           DATA_SENT,     SIMPLE | REMOTE,    0,             RDMA_WRITE),
	ROW(RDMA_READ,            RC,       ONLY(READ_REQUEST),  DATA_READ,     REMOTE,             OPCODE_READ,   RDMA_READ),
	ROW(ATOMIC_CMP_AND_SWP,   RC,       ONLY(COMPARE_SWAP),  DATA_ORIGINAL, REMOTE,             OPCODE_ATOMIC, COMP_SWAP),
	ROW(ATOMIC_FETCH_AND_ADD, RC,       ONLY(FETCH_ADD),     DATA_ORIGINAL, REMOTE,             OPCODE_ATOMIC, FETCH_ADD),
	ROW(ATOMIC_WRITE,         RC,       ONLY(ATOMIC_WRITE),  DATA_SENT,     REMOTE | EXACT,     OPCODE_READ,   ATOMIC_WRITE),
	ROW(LOCAL_INV,            RC_UC,    NO_PACKETS,          DATA_NONE,     LOCAL | INVALIDATE, 0,             LOCAL_INV),
	ROW(BIND_MW,              RC_UC,    NO_PACKETS,          DATA_NONE,     LOCAL | BIND,       0,             BIND_MW),

	[WR_FLUSH] = {"FLUSH", RC, ONLY(FLUSH), DATA_NONE, REMOTE | REQUEST_FLUSH, OPCODE_READ, WC_FLUSH, QP_EX_WITH_FLUSH},

	/* What verbs.h defines and this device lacks. */
	[IBV_WR_TSO] = {.name = "TSO"},
	[IBV_WR_DRIVER1] = {.name = "DRIVER1"},
};
/* clang-format on */

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const struct request_kind *request_kind_find(enum ibv_wr_opcode opcode)
{
	return (unsigned int)opcode < KINDS && kinds[opcode].name ? &kinds[opcode] : NULL;
}

enum ibv_wr_opcode request_kind_opcode(const struct request_kind *kind)
{
	return kind - kinds;
}

uint64_t request_kind_send_ops(const struct qp_type *type, uint32_t lacking)
{
	uint64_t flags = 0;

	for (unsigned int i = 0; i < KINDS; i++) {
		if (qp_type_in(kinds[i].types, type) && !(lacking & 1u << i))
			flags |= kinds[i].send_ops_flag;
	}
	return flags;
}
