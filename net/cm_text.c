/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cm_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "net/cause/words.h"

static const char *const states[CM_STATE_COUNT] = {
	[CM_STATE_IDLE] = "IDLE",
	[CM_STATE_LISTEN] = "LISTEN",
	[CM_STATE_REQ_SENT] = "REQ_SENT",
	[CM_STATE_REQ_RECEIVED] = "REQ_RECEIVED",
	[CM_STATE_MRA_REQ_SENT] = "MRA_REQ_SENT",
	[CM_STATE_MRA_REQ_RECEIVED] = "MRA_REQ_RECEIVED",
	[CM_STATE_REP_SENT] = "REP_SENT",
	[CM_STATE_REP_RECEIVED] = "REP_RECEIVED",
	[CM_STATE_MRA_REP_SENT] = "MRA_REP_SENT",
	[CM_STATE_MRA_REP_RECEIVED] = "MRA_REP_RECEIVED",
	[CM_STATE_ESTABLISHED] = "ESTABLISHED",
	[CM_STATE_DREQ_SENT] = "DREQ_SENT",
	[CM_STATE_DREQ_RECEIVED] = "DREQ_RECEIVED",
	[CM_STATE_TIMEWAIT] = "TIMEWAIT",
	[CM_STATE_SIDR_REQ_SENT] = "SIDR_REQ_SENT",
	[CM_STATE_SIDR_REQ_RECEIVED] = "SIDR_REQ_RECEIVED",
};

/* Annex A11: RDMA CM's service ids have the port space above the port. */
static const struct {
	uint64_t space;
	const char *name;
} port_spaces[] = {{0x0106, "TCP"}, {0x0111, "UDP"}, {0x0002, "IPOIB"}, {0x013f, "IB"}};

const char *cm_state_text(enum cm_state state)
{
	return word_text(states, CM_STATE_COUNT, state);
}

const char *cm_service_text(uint64_t service_id, char text[CM_SERVICE_TEXT])
{
	snprintf(text, CM_SERVICE_TEXT, "service 0x%" PRIx64, service_id);
	for (unsigned int i = 0; i < sizeof(port_spaces) / sizeof(port_spaces[0]); i++) {
		if (service_id >> 16 != port_spaces[i].space)
			continue;
		snprintf(text, CM_SERVICE_TEXT, "port %u (%s)", (unsigned int)service_id & 0xffff,
			 port_spaces[i].name);
	}
	return text;
}
