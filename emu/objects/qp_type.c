/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/qp_type.h"

#include <stddef.h>

#include "emu/objects/qp_state.h"
#include "net/wire/wire.h"

#define ROW(type, wire, ...) [IBV_QPT_##type] = {IBV_QPT_##type, WIRE_##wire, __VA_ARGS__}

#define BOTH                                                                                       \
	(QP_POST_SEND | QP_SEND | QP_FINISH_SEND | QP_FLUSH_SEND | QP_POST_RECV | QP_RECEIVE |     \
	 QP_FLUSH_RECV)
/* Annex A14: each has one half. What is received goes to the SRQ that the request names. */
#define INITIATOR (QP_POST_SEND | QP_SEND | QP_FINISH_SEND | QP_FLUSH_SEND)
#define TARGET QP_RECEIVE

#define OF_TARGET (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define OF_INITIATOR (IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY)

/* clang-format off */
static const struct qp_type types[] = {
	/*             wire  reliable, connected, srq,   xrcd,  abilities, ignored,      state_on_error */
	ROW(RC,        RC,   true,     true,      true,  false, BOTH,      0,            IBV_QPS_ERR),
	ROW(UC,        UC,   false,    true,      false, false, BOTH,      0,            IBV_QPS_SQE),
	ROW(UD,        UD,   false,    false,     true,  false, BOTH,      0,            IBV_QPS_SQE),
	ROW(XRC_SEND,  XRC,  true,     true,      false, false, INITIATOR, OF_TARGET,    IBV_QPS_ERR),
	ROW(XRC_RECV,  XRC,  true,     true,      false, true,  TARGET,    OF_INITIATOR, IBV_QPS_ERR),
};
/* clang-format on */

#define TYPES (sizeof(types) / sizeof(types[0]))

const struct qp_type *qp_type_find(enum ibv_qp_type type)
{
	/* No type is 0: that marks an absent row. */
	return (unsigned int)type < TYPES && types[type].ibv ? &types[type] : NULL;
}
