/* SPDX-License-Identifier: BSD-2-Clause */
/* What is done about an event (emu/transport/recovery_events.c). */
#include "emu/transport/completer.h"
#include "emu/transport/destination.h"
#include "emu/transport/recovery.h"
#include "emu/transport/recovery_internal.h"
#include "emu/transport/recovery_timers.h"
#include "net/tuning.h"

/* --- going back -------------------------------------------------------------------------- */

static void go_back(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	requester_restart(qp);
	recovery->timing = recovery->retransmit_wanted = qp->missing.wanted = false;
	recovery_timers_stop(recovery);
	hca_schedule(qp->hca, qp);
}

/* Go back N (IBA 9.7.5.1.2): everything from requester.unacked on is to be retransmitted. */
static void restart(struct qp *qp)
{
	go_back(qp);
	missing_clear(&qp->missing);
	qp->recovery.resume_psn = qp->recovery.reduced_end = qp->requester.unacked;
	recovery_discard_in_flight(qp);
}

/* The same, since some of it was lost. */
static void restart_lost(struct qp *qp)
{
	restart(qp);
	destination_restarted(qp->recovery.destination);
}

/* The oldest packet is to be retransmitted. What became of the others its answer shows. */
static void go_back_for_head(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	if (!recovery_retransmits_one(recovery->previous)) {
		recovery->resume_psn = qp->requester.psn;
		recovery_stop_counting(qp);
	}
	go_back(qp);
	recovery->probe_wanted = true;
}

/* --- the window -------------------------------------------------------------------------- */

static void reduce(struct qp *qp, enum cwnd_loss loss, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery->reduction = destination_lost(recovery->destination, loss, now);
	recovery->reduced_at = now;
	recovery->reduced_all = false;
	recovery->reduced_end = qp->requester.highest;
}

/*
 * The packet with @psn, and perhaps some behind it: unless it was only late, which shows when it is
 * acknowledged (settle_reduction()).
 */
static void lost_from(struct qp *qp, uint32_t psn, enum cwnd_loss loss, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (psn_distance(psn, recovery->reduced_end) < 0) {
		destination_lost_before(recovery->destination, now);
		return;
	}
	reduce(qp, loss, now);
	recovery->doubt_end = psn_add(psn, 1);
}

/*
 * What was missing is acknowledged sooner than its retransmission can be: the network has changed
 * the order of packets, which is no reason to send less (RFC 3522).
 */
static void settle_reduction(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (!recovery->reduction || recovery->reduced_all ||
	    psn_distance(qp->requester.unacked, recovery->doubt_end) < 0)
		return;
	if (destination_answers_later(recovery->destination, elapsed(recovery->reduced_at, now))) {
		destination_spurious(recovery->destination, recovery->reduction);
		recovery->reduced_end = qp->requester.unacked;
	}
	recovery->reduction = 0;
}

static void lost_one(struct qp *qp, uint64_t now)
{
	lost_from(qp, qp->requester.unacked, CWND_LOST_ONE, now);
}

/*
 * All that was in flight is taken for lost. If it turns out to be late, recovery_restore() takes
 * the reduction back.
 */
static void lost_many(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery->reduction = destination_lost(recovery->destination, CWND_LOST_MANY, now);
	recovery->reduced_at = now;
	recovery->reduced_all = true;
}

/* --- acknowledged ------------------------------------------------------------------------ */

/* A mark at *@psn moves on with @unacked. */
static void keep_up(uint32_t *psn, uint32_t unacked)
{
	if (psn_distance(*psn, unacked) < 0)
		*psn = unacked;
}

bool recovery_progressed(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery->progress = true;
	settle_reduction(qp, now);
	if (recovery->timed_out)
		destination_answered_late(recovery->destination,
					  elapsed(recovery->silent_since, now));
	recovery->timed_out = recovery->unread = false;
	recovery->response_missed = false;
	recovery->nak_at = 0;
	recovery->probes = 0;
	recovery->nak_follows = false;
	if (recovery->retransmit_wanted) { /* it was only late */
		recovery->retransmit_wanted = false;
		recovery->retransmit_end = recovery->resume_psn = qp->requester.unacked;
	}
	keep_up(&recovery->resume_psn, qp->requester.unacked);
	keep_up(&recovery->highest_retransmitted, qp->requester.unacked);
	keep_up(&recovery->reduced_end, qp->requester.unacked);
	/* IBA 9.9.2: on any response that acknowledges something new. */
	recovery_reload(recovery, &qp->attr);
	return true;
}

bool recovery_acked(struct qp *qp, uint64_t now)
{
	if (qp->recovery.uncounted)
		recovery_count_again(&qp->recovery);
	return recovery_progressed(qp, now);
}

bool recovery_go_on(struct qp *qp, uint64_t now)
{
	hca_schedule(qp->hca, qp);
	return true;
}

/*
 * A peer that was silent answers a probe: it was slow, or what the probe has retransmitted had been
 * lost, which is a reason to reduce the window as any other (RFC 8985, 7.4.2). If more had been
 * sent behind that, what becomes of it shows how much was lost.
 */
bool recovery_answered(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t time = elapsed(recovery->probed_at, now);
	int32_t retransmitted = psn_distance(qp->requester.psn, recovery->probed_psn);

	if (recovery->probed_at && recovery_sent_end(qp) == qp->requester.psn &&
	    destination_probe_answered(recovery->destination, time, now)) {
		reduce(qp, retransmitted > RETRANSMIT_RUN ? CWND_LOST_MANY : CWND_LOST_ONE, now);
		recovery->reduction = 0; /* it was right */
	}
	recovery->probed_at = 0;
	return recovery_progressed(qp, now);
}

bool recovery_probe_second(struct qp *qp, uint64_t now)
{
	qp->recovery.probe_wanted = true;
	return recovery_go_on(qp, now);
}

/* What had been sent behind the probes. This costs no retry, for the responder answers. */
bool recovery_lose_rest(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	missing_clear(&qp->missing);
	recovery->uncounted = 0;
	lost_many(qp, now);
	destination_restarted(recovery->destination);
	return recovery_go_on(qp, now);
}

/*
 * What a probe put in doubt has arrived. If that is sooner than any retransmission can be answered
 * it was only late, and the window is restored; if it is later, the responder had kept it.
 */
bool recovery_restore(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	struct destination *destination = recovery->destination;

	if (recovery->reduction && recovery->reduced_all) {
		if (elapsed(recovery->reduced_at, now) < destination_least_round_trip(destination))
			destination_spurious(destination, recovery->reduction);
		else
			destination_note_kept(destination);
		recovery->reduction = 0;
	}
	if (recovery_behind_probe(qp))
		requester_resume(qp, recovery->resume_psn);
	/* The probe has been answered: what was asked for before it has been lost again. */
	if (qp->missing.any && recovery_retransmits_one(recovery->previous)) {
		missing_ask_all(&qp->missing, false);
		qp->missing.wanted = true;
	}
	hca_schedule(qp->hca, qp);
	return recovery_acked(qp, now);
}

/*
 * What was sent before the packet that was retransmitted, and not again, has arrived: the responder
 * kept it.
 */
bool recovery_note_kept(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (psn_distance(recovery->resume_psn, recovery->highest_retransmitted) > 0 &&
	    psn_distance(qp->requester.unacked, recovery->highest_retransmitted) > 0)
		destination_note_kept(recovery->destination);
	return recovery_acked(qp, now);
}

/* --- lost -------------------------------------------------------------------------------- */

/* One more try, if there is one left (IBA 9.9.2.1.1), on this path or the alternate one. */
static bool retry(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	COUNT(qp->hca, completer_retry_err, 1);
	if (recovery->retries == qp->attr.retry_cnt)
		recovery->silent_since = recovery->since;
	if (qp->attr.retry_cnt == 7 && qp->hca->behaviour.retry_cnt_7_infinite)
		return true;
	if (recovery->retries == 0 && migration_fail_over(qp))
		return true;
	if (recovery->retries == 0) {
		COUNT(qp->hca, retry_exceeded_err, 1);
		completer_fail(qp, IBV_WC_RETRY_EXC_ERR, NULL);
		return false;
	}
	recovery->retries--;
	return true;
}

bool recovery_retry_lost(struct qp *qp, uint64_t now)
{
	lost_many(qp, now);
	if (!retry(qp))
		return false;
	restart_lost(qp);
	return true;
}

static void want_retransmission(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	recovery->timing = false;
	recovery_timers_stop(recovery);
	recovery->retransmit_wanted = true;
	recovery->retransmitted_at = 0; /* that was another one */
	recovery->nak_follows = false;
	hca_schedule(qp->hca, qp);
}

/* What was sent before a probe isn't taken for lost: sending goes on behind it. */
static void end_probe(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->uncounted)
		recovery_count_again(recovery);
	if (recovery_retransmits_one(recovery->previous) && recovery_behind_probe(qp))
		requester_resume(qp, recovery->resume_psn);
}

/* What is behind the packet isn't taken for lost: it stays in flight. */
bool recovery_retransmit_lost(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	lost_one(qp, now);
	if (!retry(qp))
		return false;
	end_probe(qp);
	recovery->retransmit_unasked = false;
	want_retransmission(qp);
	return true;
}

/*
 * The responder has dropped what came behind the packet that was retransmitted, or it was lost,
 * too: either way all of it is retransmitted.
 */
bool recovery_drop_rest(struct qp *qp, uint64_t now)
{
	restart_lost(qp);
	return true;
}

/*
 * The packet behind the one that was retransmitted is missing, too, and is retransmitted before its
 * NAK comes. The responder sends that NAK when the next packet arrives: it is to be ignored.
 */
bool recovery_retransmit_next(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	lost_one(qp, now);
	recovery->retransmit_unasked = false;
	want_retransmission(qp);
	recovery->retransmit_run++;
	recovery->nak_follows = true;
	return true;
}

/* The same, but the packet may be late rather than lost: the window stays as it is. */
bool recovery_retransmit_doubtful(struct qp *qp, uint64_t now)
{
	want_retransmission(qp);
	qp->recovery.nak_follows = true;
	return true;
}

/*
 * Begin with the oldest packet alone, as TCP does (RFC 5681, 3.1): nothing says that the peer
 * exists, or that it isn't just slow; and the window is shared with others that do get answers.
 */
bool recovery_retry_timeout(struct qp *qp, uint64_t now)
{
	COUNT(qp->hca, timeouts, 1);
	qp->observed->done.losses.timeouts++;
	qp->recovery.response_missed = false;
	if (!retry(qp))
		return false;
	qp->recovery.timed_out = true;
	go_back_for_head(qp);
	return true;
}

/* --- missing responses ------------------------------------------------------------------- */

static void want_missing(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	end_probe(qp);
	recovery->timing = false;
	recovery_timers_stop(recovery);
	qp->missing.wanted = true;
	hca_schedule(qp->hca, qp);
}

/* Ask for the responses that are missing: one retry, however many there are. */
bool recovery_ask(struct qp *qp, uint64_t now)
{
	bool many = missing_run(qp) > RETRANSMIT_RUN;

	lost_from(qp, qp->missing.asked_end, many ? CWND_LOST_MANY : CWND_LOST_ONE, now);
	if (missing_oldest_is_due(qp) && !retry(qp))
		return false;
	want_missing(qp);
	return true;
}

/* --- receiver not ready ------------------------------------------------------------------ */

bool recovery_pause(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (qp->attr.rnr_retry != 7) { /* IBA 9.7.5.2.8: 7 is without limit */
		if (recovery->rnr_retries == 0) {
			COUNT(qp->hca, retry_rnr_exceeded_err, 1);
			completer_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
			return false;
		}
		recovery->rnr_retries--;
	}
	restart(qp);
	hca_arm(qp->hca, &qp->timer, recovery->rnr_until);
	return true;
}

bool recovery_resume(struct qp *qp, uint64_t now)
{
	qp->recovery.rnr_until = TIME_NEVER;
	return true;
}

/* --- probes ------------------------------------------------------------------------------ */

/*
 * A probe, and when the next one is due. @wanted: the requester is to send it with its next packet;
 * else it is what was asked for already. The ACK timeout goes on: a probe isn't a retry, for
 * nothing says that anything was lost.
 */
static void probe(struct qp *qp, bool wanted, uint64_t timeout_at, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	qp->observed->done.losses.probes++;
	recovery->ambiguous = true;
	recovery->timeout_at = timeout_at;
	recovery->probe_wanted = wanted;
	recovery->probe_at = recovery_next_probe(qp, now);
	if (recovery->probes < PROBE_COUNT)
		recovery->probes++;
}

/*
 * While its peer answers other queue pairs, what this one has in flight isn't slow but lost, or
 * its receiver is gone: it needn't keep the window from them, and would fill it again.
 */
bool recovery_probe_new(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (destination_acked_since(recovery->destination, recovery->since)) {
		recovery_stop_counting(qp);
		recovery->probes_only = true;
	}
	probe(qp, true, recovery->timeout_at, now);
	return true;
}

bool recovery_probe_head(struct qp *qp, uint64_t now)
{
	uint64_t timeout_at = qp->recovery.timeout_at;

	go_back_for_head(qp);
	probe(qp, true, timeout_at, now);
	return true;
}

/*
 * The oldest packet, or the NAK of it, may have been lost, to a peer that keeps what it does get:
 * sending goes on.
 */
bool recovery_retransmit_early(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t timeout_at = recovery->timeout_at;

	if (qp->requester.unacked != recovery->retransmit_end)
		recovery->retransmit_run = 0;
	recovery->retransmit_run++;
	end_probe(qp);
	want_retransmission(qp);
	recovery->retransmit_unasked = recovery->nak_follows = true;
	recovery->resume_psn = qp->requester.psn;
	probe(qp, false, timeout_at, now);
	return true;
}

/* A request or its responses were lost again, or are late. */
bool recovery_ask_again(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t timeout_at = recovery->timeout_at;

	want_missing(qp);
	missing_ask_all(&qp->missing, !destination_keeps(recovery->destination));
	probe(qp, false, timeout_at, now);
	return true;
}

/*
 * The path has changed, and what was in flight on the old one, or its acknowledgements, may be
 * lost with it. The answer to the oldest packet, sent on the new one, shows what has arrived.
 */
bool recovery_probe_path(struct qp *qp, uint64_t now)
{
	go_back_for_head(qp);
	return true;
}
