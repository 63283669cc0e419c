/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of loss recovery share: recovery.c (what is in flight, what may be sent),
 * recovery_events.c (what happens, and the table of what follows from it in which state) and
 * recovery_actions.c (what is done about it). recovery_timers.c has a header of its own.
 *
 * Under qp.lock.
 */
#ifndef URXE_EMU_RECOVERY_INTERNAL_H
#define URXE_EMU_RECOVERY_INTERNAL_H

#include "emu/objects/qp.h"

/*
 * States in which one packet at a time is retransmitted, outside of the window: it is in flight
 * already, or was.
 */
static inline bool recovery_retransmits_one(enum recovery_state state)
{
	return state == RECOVERY_HEAD_PROBE || state == RECOVERY_SECOND_PROBE;
}

/* Whether the cursor was moved back, and what became of the packets beyond it isn't known. */
static inline bool recovery_behind_probe(const struct qp *qp)
{
	return psn_distance(qp->recovery.resume_psn, qp->requester.unacked) > 0;
}

/* What is in flight leaves the window: it was lost, or is to be retransmitted. */
void recovery_discard_in_flight(struct qp *qp);
/* The same for a while: it may still be in flight, but other queue pairs needn't wait for it. */
void recovery_stop_counting(struct qp *qp);
void recovery_count_again(struct recovery *recovery);

/* --- actions ------------------------------------------------------------------------------ */

/* Each returns false when that was the last retry: the QP has failed. */

/* Something was acknowledged. */
bool recovery_progressed(struct qp *qp, uint64_t now);
bool recovery_acked(struct qp *qp, uint64_t now);
bool recovery_restore(struct qp *qp, uint64_t now);
bool recovery_note_kept(struct qp *qp, uint64_t now);
bool recovery_go_on(struct qp *qp, uint64_t now);
bool recovery_answered(struct qp *qp, uint64_t now);
bool recovery_probe_second(struct qp *qp, uint64_t now);
bool recovery_lose_rest(struct qp *qp, uint64_t now);

/* Something was lost. */
bool recovery_retry_lost(struct qp *qp, uint64_t now);
bool recovery_retransmit_lost(struct qp *qp, uint64_t now);
bool recovery_retransmit_next(struct qp *qp, uint64_t now);
bool recovery_retransmit_doubtful(struct qp *qp, uint64_t now);
bool recovery_drop_rest(struct qp *qp, uint64_t now);
bool recovery_retry_timeout(struct qp *qp, uint64_t now);
bool recovery_ask(struct qp *qp, uint64_t now);

/* The receiver isn't ready, and may be again. */
bool recovery_pause(struct qp *qp, uint64_t now);
bool recovery_resume(struct qp *qp, uint64_t now);

/* Nothing was heard for too long. */
bool recovery_probe_new(struct qp *qp, uint64_t now);
bool recovery_probe_head(struct qp *qp, uint64_t now);
bool recovery_retransmit_early(struct qp *qp, uint64_t now);
bool recovery_ask_again(struct qp *qp, uint64_t now);
bool recovery_probe_path(struct qp *qp, uint64_t now);

#endif
