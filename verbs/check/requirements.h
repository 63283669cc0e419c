/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an application can ask a card for, as a table: the key of profiles that says what a card
 * has, how both compare, and the cause that is reported where another card hasn't as much.
 *
 * Called by verbs/check/portability.c, in any thread, without locks.
 */
#ifndef URXE_VERBS_CHECK_REQUIREMENTS_H
#define URXE_VERBS_CHECK_REQUIREMENTS_H

#include <stdint.h>

enum ask_what {
	ASK_SEND_WR,
	ASK_RECV_WR,
	ASK_CQE,
	ASK_SRQ_WR,
	ASK_SEND_SGE,
	ASK_RECV_SGE,
	ASK_READ_SGE,
	ASK_SRQ_SGE,
	ASK_INLINE_DATA,
	ASK_INITIATOR_DEPTH,
	ASK_RESPONDER_RESOURCES,
	ASK_PDS,
	ASK_KEYS,
	ASK_AHS,
	ASK_CQS,
	ASK_SRQS,
	ASK_QPS,
	ASK_REGION,
	ASK_MESSAGE,
	ASK_DEVICE_MEMORY,
	ASK_ATOMICS,
	ASK_SRQ,
	ASK_WINDOW_1,
	ASK_WINDOW_2,
	ASK_ON_DEMAND,
	ASK_XRC,
	ASK_MULTICAST,
	ASK_QP_TYPE,
	ASK_FLUSH,
	ASK_WRITE_ATOMIC,
	ASK_INVALIDATE,
	ASK_RESIZE,
	ASK_CREATE_FLAGS,
};

/* What a call asked for: 0 is nothing. */
struct ask {
	enum ask_what what;
	uint64_t amount;
};

/* Once, before any device opens. */
void requirements_prepare(void);

/*
 * Report what @call was granted and other cards don't have: one report for all asks of a cause,
 * which stand together.
 */
void requirements_compare(const char *call, const struct ask *asks, unsigned int count);

#define COMPARE(call, ...)                                                                         \
	requirements_compare(call, (const struct ask[]){__VA_ARGS__},                              \
			     sizeof((const struct ask[]){__VA_ARGS__}) / sizeof(struct ask))

#endif
