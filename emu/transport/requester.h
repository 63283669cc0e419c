/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: send work requests become request packets (IBA 9.7.2 to 9.7.3,
 * 9.7.5.1). Packets are never kept: a retransmission is built again from the
 * work request and the application's memory, by moving the cursor back.
 *
 * Called by emu/objects/qp and qp_post to send, and by recovery to move the cursor. Its state
 * belongs to the QP and is protected by qp.lock.
 */
#ifndef URXE_EMU_REQUESTER_H
#define URXE_EMU_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/objects/mr.h"

struct qp;
struct outbox;

struct requester {
	/* The send sequence space: unacked <= psn <= highest. */
	uint32_t unacked;	/* the oldest PSN without acknowledgement; == psn when nothing is
				   outstanding */
	uint32_t psn;		/* of the next packet to send: the cursor */
	uint32_t highest;	/* one beyond the highest PSN ever sent */
	uint32_t rd_atomic;	/* READ and atomic request packets without their response */
	uint32_t since_request; /* packets since the last AckReq */

	uint32_t posted_msn; /* responder.msn when the last request was posted: has_answered() */

	uint32_t ghost_expects; /* the PSN that the peer expects, as the latest ghost says */
	bool ghost;		/* there was one */
	bool responded;		/* responses came since completer_receive_end() */
	uint64_t paced_until;	/* TIME_NEVER when not paced */

	/* What a response was placed in last: pinned until the QP has received all that came. */
	struct mr_pin response_pin;
};

void requester_reset(struct requester *requester);

/* Send what may be sent now. The caller flushes the outbox before it unlocks the QP. */
void requester_run(struct qp *qp, struct outbox *outbox);

/* Move the cursor back to requester.unacked: everything from there on is retransmitted. */
void requester_restart(struct qp *qp);
/* Move it on again to @psn, where it was: what lies before that is on its way, or arrived. */
void requester_resume(struct qp *qp, uint32_t psn);

/*
 * Whether what was posted may wait for more: a call that sends one message costs as much as one
 * that sends many, so while many are under way new ones are coalesced. They are sent when an
 * acknowledgement comes, or when they fill a super-packet if all are as long as the latest one.
 */
bool requester_coalesces(struct qp *qp);

#endif
