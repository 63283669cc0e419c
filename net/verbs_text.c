/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/verbs_text.h"

#include <infiniband/verbs.h>
#include <stddef.h>

#include "net/newer_verbs.h"

#define STATUS(name, text) [IBV_WC_##name] = {WC_STATUS_PREFIX #name, text}
#define EVENT(name, text) [IBV_EVENT_##name] = {EVENT_TYPE_PREFIX #name, text}

static const struct verbs_text statuses[VERBS_TEXTS] = {
	STATUS(SUCCESS, "success"),
	STATUS(LOC_LEN_ERR, "local length error"),
	STATUS(LOC_QP_OP_ERR, "local QP operation error"),
	STATUS(LOC_EEC_OP_ERR, "local EE context operation error"),
	STATUS(LOC_PROT_ERR, "local protection error"),
	STATUS(WR_FLUSH_ERR, "Work Request Flushed Error"),
	STATUS(MW_BIND_ERR, "memory management operation error"),
	STATUS(BAD_RESP_ERR, "bad response error"),
	STATUS(LOC_ACCESS_ERR, "local access error"),
	STATUS(REM_INV_REQ_ERR, "remote invalid request error"),
	STATUS(REM_ACCESS_ERR, "remote access error"),
	STATUS(REM_OP_ERR, "remote operation error"),
	STATUS(RETRY_EXC_ERR, "transport retry counter exceeded"),
	STATUS(RNR_RETRY_EXC_ERR, "RNR retry counter exceeded"),
	STATUS(LOC_RDD_VIOL_ERR, "local RDD violation error"),
	STATUS(REM_INV_RD_REQ_ERR, "remote invalid RD request"),
	STATUS(REM_ABORT_ERR, "aborted error"),
	STATUS(INV_EECN_ERR, "invalid EE context number"),
	STATUS(INV_EEC_STATE_ERR, "invalid EE context state"),
	STATUS(FATAL_ERR, "fatal error"),
	STATUS(RESP_TIMEOUT_ERR, "response timeout error"),
	STATUS(GENERAL_ERR, "general error"),
	STATUS(TM_ERR, "TM error"),
	STATUS(TM_RNDV_INCOMPLETE, "TM software rendezvous"),
};

static const struct verbs_text events[VERBS_TEXTS] = {
	EVENT(CQ_ERR, "CQ error"),
	EVENT(QP_FATAL, "local work queue catastrophic error"),
	EVENT(QP_REQ_ERR, "invalid request local work queue error"),
	EVENT(QP_ACCESS_ERR, "local access violation work queue error"),
	EVENT(COMM_EST, "communication established"),
	EVENT(SQ_DRAINED, "send queue drained"),
	EVENT(PATH_MIG, "path migrated"),
	EVENT(PATH_MIG_ERR, "path migration request error"),
	EVENT(DEVICE_FATAL, "local catastrophic error"),
	EVENT(PORT_ACTIVE, "port active"),
	EVENT(PORT_ERR, "port error"),
	EVENT(LID_CHANGE, "LID change"),
	EVENT(PKEY_CHANGE, "P_Key change"),
	EVENT(SM_CHANGE, "SM change"),
	EVENT(SRQ_ERR, "SRQ catastrophic error"),
	EVENT(SRQ_LIMIT_REACHED, "SRQ limit reached"),
	EVENT(QP_LAST_WQE_REACHED, "last WQE reached"),
	EVENT(CLIENT_REREGISTER, "client reregistration"),
	EVENT(GID_CHANGE, "GID table change"),
	EVENT(WQ_FATAL, "WQ fatal"),
	[EVENT_DEVICE_SPEED_CHANGE] = {EVENT_TYPE_PREFIX "DEVICE_SPEED_CHANGE",
				       "Device link speed change"},
};

static const struct verbs_text *find_text(const struct verbs_text *texts, unsigned int number)
{
	return number < VERBS_TEXTS && texts[number].constant ? &texts[number] : NULL;
}

const struct verbs_text *wc_status_text(unsigned int status)
{
	return find_text(statuses, status);
}

const struct verbs_text *event_type_text(unsigned int event)
{
	return find_text(events, event);
}
