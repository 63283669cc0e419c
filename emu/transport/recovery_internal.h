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

/* One packet at a time is sent again. It isn't counted: it is in flight already, or was. */
static inline bool recovery_retransmits_one(enum recovery_state state)
{
	return state == RECOVERY_HEAD_PROBE || state == RECOVERY_SECOND_PROBE;
}

/* Whether something was sent behind the cursor, and it isn't known what became of it. */
static inline bool recovery_behind_probe(const struct qp *qp)
{
	return psn_distance(qp->recovery.resume_psn, qp->requester.unacked) > 0;
}

/* What was sent doesn't count any more: it was lost, or it is to be sent again. */
void recovery_discard_in_flight(struct qp *qp);
/* It may still be in flight, but others needn't wait for it; until it counts again. */
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
