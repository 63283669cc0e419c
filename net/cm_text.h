/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The states of connections and the service ids of the connection manager (emu/cm/cm.h), and both
 * in words: for what is said of a failure, and for the program urxe, which reads them from other
 * processes (net/observe/record.h). Called by any thread, without state.
 */
#ifndef URXE_NET_CM_TEXT_H
#define URXE_NET_CM_TEXT_H

#include <stdint.h>

/* IBA 12.9.5 to 12.9.8, by their names there. */
enum cm_state {
	CM_STATE_IDLE,
	CM_STATE_LISTEN,
	CM_STATE_REQ_SENT,
	CM_STATE_REQ_RECEIVED,
	CM_STATE_MRA_REQ_SENT,
	CM_STATE_MRA_REQ_RECEIVED,
	CM_STATE_REP_SENT,
	CM_STATE_REP_RECEIVED,
	CM_STATE_MRA_REP_SENT,
	CM_STATE_MRA_REP_RECEIVED,
	CM_STATE_ESTABLISHED,
	CM_STATE_DREQ_SENT,
	CM_STATE_DREQ_RECEIVED,
	CM_STATE_TIMEWAIT,
	CM_STATE_SIDR_REQ_SENT,
	CM_STATE_SIDR_REQ_RECEIVED,
	CM_STATE_COUNT
};

/* "REQ_SENT"; "unknown" for what is no state. */
const char *cm_state_text(enum cm_state state);

#define CM_SERVICE_TEXT 40

/* "port 7471 (TCP)" of a service id of RDMA CM's, "service 0x..." of another one. Returns @text. */
const char *cm_service_text(uint64_t service_id, char text[CM_SERVICE_TEXT]);

#endif
