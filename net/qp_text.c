/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/qp_text.h"

static const char *const states[] = {
	[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
	[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
	[IBV_QPS_ERR] = "ERR",
};

static const char *const mig_states[] = {
	[IBV_MIG_MIGRATED] = "MIGRATED",
	[IBV_MIG_REARM] = "REARM",
	[IBV_MIG_ARMED] = "ARMED",
};

static const char *const types[] = {
	[IBV_QPT_RC] = "RC",
	[IBV_QPT_UC] = "UC",
	[IBV_QPT_UD] = "UD",
	[IBV_QPT_RAW_PACKET] = "RAW_PACKET",
	[IBV_QPT_XRC_SEND] = "XRC_SEND",
	[IBV_QPT_XRC_RECV] = "XRC_RECV",
	[IBV_QPT_DRIVER] = "DRIVER",
};

#define NAME(bit)                                                                                  \
	{                                                                                          \
		bit, #bit                                                                          \
	}

static const struct bit_name attributes[] = {
	NAME(IBV_QP_STATE),
	NAME(IBV_QP_CUR_STATE),
	NAME(IBV_QP_EN_SQD_ASYNC_NOTIFY),
	NAME(IBV_QP_ACCESS_FLAGS),
	NAME(IBV_QP_PKEY_INDEX),
	NAME(IBV_QP_PORT),
	NAME(IBV_QP_QKEY),
	NAME(IBV_QP_AV),
	NAME(IBV_QP_PATH_MTU),
	NAME(IBV_QP_TIMEOUT),
	NAME(IBV_QP_RETRY_CNT),
	NAME(IBV_QP_RNR_RETRY),
	NAME(IBV_QP_RQ_PSN),
	NAME(IBV_QP_MAX_QP_RD_ATOMIC),
	NAME(IBV_QP_ALT_PATH),
	NAME(IBV_QP_MIN_RNR_TIMER),
	NAME(IBV_QP_SQ_PSN),
	NAME(IBV_QP_MAX_DEST_RD_ATOMIC),
	NAME(IBV_QP_PATH_MIG_STATE),
	NAME(IBV_QP_CAP),
	NAME(IBV_QP_DEST_QPN),
	NAME(IBV_QP_RATE_LIMIT),
};

const char *qp_state_text(enum ibv_qp_state state)
{
	return word_text(states, sizeof(states) / sizeof(states[0]), state);
}

const char *qp_mig_state_text(enum ibv_mig_state state)
{
	return word_text(mig_states, sizeof(mig_states) / sizeof(mig_states[0]), state);
}

const char *qp_type_text(enum ibv_qp_type type)
{
	return word_text(types, sizeof(types) / sizeof(types[0]), type);
}

const char *qp_attributes_text(unsigned int mask, char text[BITS_TEXT])
{
	return bits_text(attributes, sizeof(attributes) / sizeof(attributes[0]), mask, text);
}
