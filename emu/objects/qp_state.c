/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP state table (IBA 10.3.1 and 11.2.5.2), as Linux has it:
 * emu/objects/qp_state.h.
 */
#include "emu/objects/qp_state.h"

#include <errno.h>
#include <stdio.h>

#include "emu/objects/qp_type.h"
#include "net/qp_text.h"

enum {
	RC = QP_RC,
	UC = QP_UC,
	UD = QP_UD,
	INI = QP_XRC_SEND, /* initiator and target, as the kernel calls them */
	TGT = QP_XRC_RECV,
	XRC = INI | TGT,
	ALL = RC | UC | UD | XRC,
};

enum {
	RESET = IBV_QPS_RESET,
	INIT = IBV_QPS_INIT,
	RTR = IBV_QPS_RTR,
	RTS = IBV_QPS_RTS,
	SQD = IBV_QPS_SQD,
	SQE = IBV_QPS_SQE,
	ERR = IBV_QPS_ERR
};

/* The attributes, short enough for a table. */
#define CUR IBV_QP_CUR_STATE
#define SQDN IBV_QP_EN_SQD_ASYNC_NOTIFY
#define ACC IBV_QP_ACCESS_FLAGS
#define PKEY IBV_QP_PKEY_INDEX
#define PORT IBV_QP_PORT
#define QKEY IBV_QP_QKEY
#define AV IBV_QP_AV
#define MTU IBV_QP_PATH_MTU
#define TMO IBV_QP_TIMEOUT
#define RETRY IBV_QP_RETRY_CNT
#define RNR IBV_QP_RNR_RETRY
#define RNRT IBV_QP_MIN_RNR_TIMER
#define RQPSN IBV_QP_RQ_PSN
#define SQPSN IBV_QP_SQ_PSN
#define RA IBV_QP_MAX_QP_RD_ATOMIC
#define DRA IBV_QP_MAX_DEST_RD_ATOMIC
#define ALT IBV_QP_ALT_PATH
#define MIG IBV_QP_PATH_MIG_STATE
#define DQPN IBV_QP_DEST_QPN

static const struct transition {
	uint8_t from, to;
	uint16_t types;
	int required, optional;
} transitions[] = {
	/* clang-format off */
	{RESET, RESET, ALL,           0,                             0},
	{RESET, INIT,  RC | UC | XRC, PKEY | PORT | ACC,             0},
	{RESET, INIT,  UD,            PKEY | PORT | QKEY,            0},

	{INIT,  RESET, ALL,           0,                             0},
	{INIT,  ERR,   ALL,           0,                             0},
	{INIT,  INIT,  RC | UC | XRC, 0,                             PKEY | PORT | ACC},
	{INIT,  INIT,  UD,            0,                             PKEY | PORT | QKEY},
	{INIT,  RTR,   RC | TGT,      AV | MTU | DQPN | RQPSN |
	                              DRA | RNRT,                    ALT | ACC | PKEY},
	{INIT,  RTR,   UC | INI,      AV | MTU | DQPN | RQPSN,       ALT | ACC | PKEY},
	{INIT,  RTR,   UD,            0,                             PKEY | QKEY},

	{RTR,   RESET, ALL,           0,                             0},
	{RTR,   ERR,   ALL,           0,                             0},
	{RTR,   RTS,   RC,            TMO | RETRY | RNR | SQPSN | RA, CUR | ALT | ACC | RNRT | MIG},
	{RTR,   RTS,   UC,            SQPSN,                         CUR | ALT | ACC | MIG},
	{RTR,   RTS,   INI,           TMO | RETRY | RNR | SQPSN | RA, CUR | ALT | ACC | MIG},
	{RTR,   RTS,   TGT,           TMO | SQPSN,                   CUR | ALT | ACC | RNRT | MIG},
	{RTR,   RTS,   UD,            SQPSN,                         CUR | QKEY},

	{RTS,   RESET, ALL,           0,                             0},
	{RTS,   ERR,   ALL,           0,                             0},
	{RTS,   RTS,   RC | TGT,      0,                             CUR | ACC | ALT | MIG | RNRT},
	{RTS,   RTS,   UC | INI,      0,                             CUR | ACC | ALT | MIG},
	{RTS,   RTS,   UD,            0,                             CUR | QKEY},
	{RTS,   SQD,   ALL,           0,                             SQDN},

	{SQD,   RESET, ALL,           0,                             0},
	{SQD,   ERR,   ALL,           0,                             0},
	{SQD,   RTS,   RC | TGT,      0,                             CUR | ALT | ACC | RNRT | MIG},
	{SQD,   RTS,   UC | INI,      0,                             CUR | ALT | ACC | MIG},
	{SQD,   RTS,   UD,            0,                             CUR | QKEY},
	{SQD,   SQD,   RC,            0,                             PORT | AV | TMO | RETRY | RNR | RA |
	                                                             DRA | ALT | ACC | PKEY | RNRT | MIG},
	{SQD,   SQD,   UC,            0,                             AV | ALT | ACC | PKEY | MIG},
	{SQD,   SQD,   INI,           0,                             PORT | AV | TMO | RETRY | RNR | RA |
	                                                             ALT | ACC | PKEY | MIG},
	{SQD,   SQD,   TGT,           0,                             PORT | AV | TMO | DRA | ALT | ACC |
	                                                             PKEY | RNRT | MIG},
	{SQD,   SQD,   UD,            0,                             PKEY | QKEY},

	{SQE,   RESET, ALL,           0,                             0},
	{SQE,   ERR,   ALL,           0,                             0},
	{SQE,   RTS,   RC | XRC,      0,                             0},
	{SQE,   RTS,   UC,            0,                             CUR | ACC},
	{SQE,   RTS,   UD,            0,                             CUR | QKEY},

	{ERR,   RESET, ALL,           0,                             0},
	{ERR,   ERR,   ALL,           0,                             0},
	/* clang-format on */
};

#define TRANSITIONS (sizeof(transitions) / sizeof(transitions[0]))

/* Mask bits above DEST_QPN are the kernel's own, but for the rate limit of raw packet QPs. */
#define USER_BITS ((((unsigned int)IBV_QP_DEST_QPN << 1) - 1) | IBV_QP_RATE_LIMIT)

static const struct transition *transition_find(const struct qp_type *type,
						enum ibv_qp_state current, enum ibv_qp_state next)
{
	for (unsigned int i = 0; i < TRANSITIONS; i++) {
		const struct transition *transition = &transitions[i];

		if (transition->from == current && transition->to == next &&
		    qp_type_in(transition->types, type))
			return transition;
	}
	return NULL;
}

/* What @mask has, and mustn't have. */
static int surplus(const struct transition *transition, int mask)
{
	return mask & ~(transition->required | transition->optional | IBV_QP_STATE);
}

int qp_state_check(enum ibv_qp_type type, enum ibv_qp_state current, enum ibv_qp_state next,
		   int mask)
{
	const struct qp_type *known = qp_type_find(type);
	const struct transition *transition;

	if (mask & ~USER_BITS)
		return EOPNOTSUPP;
	transition = known ? transition_find(known, current, next) : NULL;
	if (!transition)
		return EINVAL;
	if ((mask & transition->required) != transition->required)
		return EINVAL;
	if (surplus(transition, mask))
		return EINVAL;
	return 0;
}

/* "INIT, ERR": where a QP may go from @current. */
static void list_transitions(const struct qp_type *type, enum ibv_qp_state current, char *text,
			     size_t size)
{
	size_t used = 0;

	for (unsigned int i = 0; i < TRANSITIONS && used < size; i++) {
		const struct transition *transition = &transitions[i];

		if (transition->from == current && qp_type_in(transition->types, type))
			used += snprintf(text + used, size - used, "%s%s", used ? ", " : "",
					 qp_state_text(transition->to));
	}
}

static void explain_mask(const struct transition *transition, int mask, struct finding *finding)
{
	int missing = transition->required & ~mask, unwanted = surplus(transition, mask);
	char one[BITS_TEXT], other[BITS_TEXT];

	if (missing && unwanted)
		finding_set(finding, CAUSE_QP_ATTRIBUTE_MISSING, "missing: %s; not allowed: %s",
			    qp_attributes_text(missing, one), qp_attributes_text(unwanted, other));
	else if (missing)
		finding_set(finding, CAUSE_QP_ATTRIBUTE_MISSING, "missing: %s",
			    qp_attributes_text(missing, one));
	else
		finding_set(finding, CAUSE_QP_ATTRIBUTE_SURPLUS, "not allowed: %s; allowed: %s",
			    qp_attributes_text(unwanted, one),
			    qp_attributes_text(transition->required | transition->optional, other));
}

void qp_state_explain(enum ibv_qp_type type, enum ibv_qp_state current, enum ibv_qp_state next,
		      int mask, struct finding *finding)
{
	const struct qp_type *known = qp_type_find(type);
	const struct transition *transition = transition_find(known, current, next);
	char text[64];

	if (mask & ~USER_BITS) {
		finding_set(finding, CAUSE_QP_ATTRIBUTE_UNKNOWN, "attr_mask has 0x%x",
			    mask & ~USER_BITS);
	} else if (transition) {
		explain_mask(transition, mask, finding);
	} else {
		list_transitions(known, current, text, sizeof(text));
		finding_set(finding, CAUSE_QP_NO_TRANSITION, "it can go to %s", text);
	}
}

unsigned int qp_state_abilities(enum ibv_qp_state state)
{
	static const uint8_t abilities[] = {
		[IBV_QPS_RESET] = 0,
		[IBV_QPS_INIT] = QP_POST_RECV,
		[IBV_QPS_RTR] = QP_POST_RECV | QP_RECEIVE,
		[IBV_QPS_RTS] = QP_POST_SEND | QP_POST_RECV | QP_SEND | QP_FINISH_SEND | QP_RECEIVE,
		[IBV_QPS_SQD] = QP_POST_SEND | QP_POST_RECV | QP_FINISH_SEND | QP_RECEIVE,
		[IBV_QPS_SQE] = QP_POST_SEND | QP_POST_RECV | QP_RECEIVE | QP_FLUSH_SEND,
		[IBV_QPS_ERR] = QP_POST_SEND | QP_POST_RECV | QP_FLUSH_SEND | QP_FLUSH_RECV,
	};

	return (unsigned int)state <= IBV_QPS_ERR ? abilities[state] : 0;
}
