/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion statuses and asynchronous events: the names of their constants, and the texts that
 * rdma-core has for them. For ibv_wc_status_str() and ibv_event_type_str(), for what faults are
 * called (net/fault), and for the program urxe. Called by any thread, without state.
 */
#ifndef URXE_NET_VERBS_TEXT_H
#define URXE_NET_VERBS_TEXT_H

struct verbs_text {
	const char *constant; /* IBV_WC_RETRY_EXC_ERR */
	const char *text;     /* transport retry counter exceeded */
};

#define WC_STATUS_PREFIX "IBV_WC_"
#define EVENT_TYPE_PREFIX "IBV_EVENT_"

/* Higher numbers mean nothing. */
#define VERBS_TEXTS 32

/* Of enum ibv_wc_status and of enum ibv_event_type; NULL for a number that is none. */
const struct verbs_text *wc_status_text(unsigned int status);
const struct verbs_text *event_type_text(unsigned int event);

#endif
