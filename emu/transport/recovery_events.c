/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to a queue pair's packets, as events, and which of them leads where. */
#include "emu/transport/destination.h"
#include "emu/transport/recovery.h"
#include "emu/transport/recovery_internal.h"
#include "emu/transport/recovery_timers.h"
#include "net/tuning.h"

enum recovery_event {
	EVENT_ACKED,	     /* something new */
	EVENT_ACKED_BEYOND,  /* what was to be retransmitted: it hadn't been lost */
	EVENT_ACKED_KEPT,    /* what lies behind the packet that was retransmitted */
	EVENT_ACKED_LATE,    /* that packet, too soon for the retransmission: it hadn't been lost */
	EVENT_ANSWERED,	     /* a probe or a retransmission, and no more, though more was sent */
	EVENT_ANSWERED_KEPT, /* a retransmission, by a peer that keeps, and there is another gap */
	EVENT_ANSWERED_LATE, /* a retransmission that no NAK asked for, and more is in doubt */
	EVENT_FINISHED,	     /* everything */
	EVENT_NAK_ONE,	     /* IBA 9.7.5.2.3: one packet is missing, for all that is known */
	EVENT_NAK_ALL, /* and all behind it, too; or a response was passed over (IBA 9.9.2.3) */
	EVENT_MISSING, /* one was passed over, and what came behind it is kept */
	EVENT_RNR_NAK, /* IBA 9.7.5.2.8 */
	EVENT_PROBE_DUE,
	EVENT_RETRANSMIT_DUE, /* a probe, which may be a packet that was sent before */
	EVENT_EARLY_DUE,      /* one towards a peer that keeps what is behind a gap */
	EVENT_ASK_DUE,	      /* one when responses are known to be missing */
	EVENT_TIMEOUT,	      /* IBA 9.7.6.1.3 */
	EVENT_RNR_OVER,
	EVENT_MIGRATED, /* IBA 17.2.8 */
	RECOVERY_EVENTS
};

/* An action returns false when that was the last retry: the QP has failed. */
struct recovery_transition {
	bool (*action)(struct qp *qp, uint64_t now); /* NULL: the event changes nothing */
	enum recovery_state next;
};

/*
 * Which event leads where. During an RNR delay everything in flight is retransmitted later anyway,
 * and whatever else the responder says of it is an echo of that.
 */
static const struct recovery_transition transitions[RECOVERY_STATES][RECOVERY_EVENTS] = {
	[RECOVERY_SENDING][EVENT_ACKED] = {recovery_acked, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_ACKED_BEYOND] = {recovery_restore, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_NAK_ONE] = {recovery_retransmit_lost, RECOVERY_RETRANSMIT},
	[RECOVERY_SENDING][EVENT_NAK_ALL] = {recovery_retry_lost, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_MISSING] = {recovery_ask, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_RNR_NAK] = {recovery_pause, RECOVERY_RNR_WAIT},
	[RECOVERY_SENDING][EVENT_PROBE_DUE] = {recovery_probe_new, RECOVERY_NEXT_PROBE},
	[RECOVERY_SENDING][EVENT_RETRANSMIT_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SENDING][EVENT_EARLY_DUE] = {recovery_retransmit_early, RECOVERY_RETRANSMIT},
	[RECOVERY_SENDING][EVENT_ASK_DUE] = {recovery_ask_again, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_TIMEOUT] = {recovery_retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_SENDING][EVENT_MIGRATED] = {recovery_probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_RETRANSMIT][EVENT_ACKED] = {recovery_acked, RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_ACKED_BEYOND] = {recovery_restore, RECOVERY_SENDING},
	[RECOVERY_RETRANSMIT][EVENT_ACKED_KEPT] = {recovery_note_kept, RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_ACKED_LATE] = {recovery_note_kept, RECOVERY_SENDING},
	[RECOVERY_RETRANSMIT][EVENT_ANSWERED_KEPT] = {recovery_retransmit_next,
						      RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_ANSWERED_LATE] = {recovery_retransmit_doubtful,
						      RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_ANSWERED] = {recovery_drop_rest, RECOVERY_SENDING},
	[RECOVERY_RETRANSMIT][EVENT_FINISHED] = {recovery_go_on, RECOVERY_SENDING},
	[RECOVERY_RETRANSMIT][EVENT_NAK_ONE] = {recovery_retransmit_lost, RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_NAK_ALL] = {recovery_retry_lost, RECOVERY_SENDING},
	[RECOVERY_RETRANSMIT][EVENT_MISSING] = {recovery_ask, RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_RNR_NAK] = {recovery_pause, RECOVERY_RNR_WAIT},
	[RECOVERY_RETRANSMIT][EVENT_PROBE_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_RETRANSMIT][EVENT_RETRANSMIT_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_RETRANSMIT][EVENT_EARLY_DUE] = {recovery_retransmit_early, RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_ASK_DUE] = {recovery_ask_again, RECOVERY_RETRANSMIT},
	[RECOVERY_RETRANSMIT][EVENT_TIMEOUT] = {recovery_retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_RETRANSMIT][EVENT_MIGRATED] = {recovery_probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_NEXT_PROBE][EVENT_ACKED] = {recovery_acked, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_ACKED_BEYOND] = {recovery_restore, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_NAK_ONE] = {recovery_retransmit_lost, RECOVERY_RETRANSMIT},
	[RECOVERY_NEXT_PROBE][EVENT_NAK_ALL] = {recovery_retry_lost, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_MISSING] = {recovery_ask, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_RNR_NAK] = {recovery_pause, RECOVERY_RNR_WAIT},
	[RECOVERY_NEXT_PROBE][EVENT_PROBE_DUE] = {recovery_probe_new, RECOVERY_NEXT_PROBE},
	[RECOVERY_NEXT_PROBE][EVENT_RETRANSMIT_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_NEXT_PROBE][EVENT_EARLY_DUE] = {recovery_retransmit_early, RECOVERY_RETRANSMIT},
	[RECOVERY_NEXT_PROBE][EVENT_ASK_DUE] = {recovery_ask_again, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_TIMEOUT] = {recovery_retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_NEXT_PROBE][EVENT_MIGRATED] = {recovery_probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_HEAD_PROBE][EVENT_ACKED] = {recovery_answered, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_ACKED_BEYOND] = {recovery_restore, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_ANSWERED] = {recovery_probe_second, RECOVERY_SECOND_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_FINISHED] = {recovery_go_on, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_NAK_ONE] = {recovery_retransmit_lost, RECOVERY_RETRANSMIT},
	[RECOVERY_HEAD_PROBE][EVENT_NAK_ALL] = {recovery_retry_lost, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_MISSING] = {recovery_ask, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_RNR_NAK] = {recovery_pause, RECOVERY_RNR_WAIT},
	[RECOVERY_HEAD_PROBE][EVENT_PROBE_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_RETRANSMIT_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_ASK_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_TIMEOUT] = {recovery_retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_MIGRATED] = {recovery_probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_SECOND_PROBE][EVENT_ACKED] = {recovery_progressed, RECOVERY_SECOND_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_ACKED_BEYOND] = {recovery_restore, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_ANSWERED] = {recovery_lose_rest, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_FINISHED] = {recovery_go_on, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_NAK_ONE] = {recovery_retransmit_lost, RECOVERY_RETRANSMIT},
	[RECOVERY_SECOND_PROBE][EVENT_NAK_ALL] = {recovery_retry_lost, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_MISSING] = {recovery_ask, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_RNR_NAK] = {recovery_pause, RECOVERY_RNR_WAIT},
	[RECOVERY_SECOND_PROBE][EVENT_PROBE_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_RETRANSMIT_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_ASK_DUE] = {recovery_probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_TIMEOUT] = {recovery_retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_MIGRATED] = {recovery_probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_RNR_WAIT][EVENT_ACKED_BEYOND] = {recovery_acked, RECOVERY_RNR_WAIT},
	[RECOVERY_RNR_WAIT][EVENT_RNR_NAK] = {recovery_pause, RECOVERY_RNR_WAIT},
	[RECOVERY_RNR_WAIT][EVENT_RNR_OVER] = {recovery_resume, RECOVERY_SENDING},
};

static void recovery_event(struct qp *qp, enum recovery_event event, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	const struct recovery_transition *transition = &transitions[recovery->state][event];

	if (!transition->action)
		return;
	recovery->previous = recovery->state;
	/* Before the action: one that fails the QP leaves FAILED, whatever the table says. */
	recovery->state = transition->next;
	if (!transition->action(qp, now))
		recovery->state = RECOVERY_FAILED;
}

/* --- acknowledged ------------------------------------------------------------------------ */

/* Whether the packet that was retransmitted has been acknowledged. */
static bool retransmit_answered(const struct qp *qp)
{
	const struct recovery *recovery = &qp->recovery;

	return recovery->state == RECOVERY_RETRANSMIT && !recovery->retransmit_wanted &&
	       psn_distance(qp->requester.unacked, recovery->retransmit_end) >= 0;
}

/*
 * What the acknowledgement of a packet that was retransmitted says. A NAK has said that it was
 * missing: so it is the retransmission that is acknowledged, not what was sent before, unless that
 * was only late. How long a retransmission takes to be answered is measured.
 */
static enum recovery_event note_retransmit_answered(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t time = elapsed(recovery->retransmitted_at, now);

	if (recovery->retransmitted_at) {
		recovery->retransmitted_at = 0;
		if (destination_answers_later(recovery->destination, time))
			return EVENT_ACKED_LATE;
		destination_repaired(recovery->destination, time, now);
	}
	return qp->requester.unacked != recovery->retransmit_end ? EVENT_ACKED_KEPT : EVENT_ACKED;
}

void recovery_on_acked(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	enum recovery_event event = EVENT_ACKED;

	if (qp->state == IBV_QPS_ERR)
		return; /* a completion found its CQ full, and nothing is under way any more */
	if (retransmit_answered(qp))
		event = note_retransmit_answered(qp, now);
	if (recovery->beyond)
		event = EVENT_ACKED_BEYOND;
	recovery->beyond = false;
	recovery_event(qp, event, now);
}

/* What was kept behind the gap may need responses, which come one after the other. */
static bool responses_follow(const struct qp *qp)
{
	return qp->recovery.retransmit_response || qp->requester.rd_atomic;
}

/*
 * What was retransmitted has been received, and the very next packet hasn't: a responder has
 * dropped all behind the gap, or lost two packets in a row, which is likely only if it is known to
 * keep the others. Returns whether that is so.
 */
static bool missed_next(struct recovery *recovery)
{
	if (destination_keeps(recovery->destination) && recovery->retransmit_run < RETRANSMIT_RUN)
		return true;
	destination_note_dropped(recovery->destination);
	return false;
}

/*
 * Of what was sent before the retransmission, some isn't acknowledged by its answer: the oldest of
 * that is lost, too, for on a path that keeps the order it would have come before. No NAK asks
 * for it until another packet comes.
 */
static enum recovery_event answered_event(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->retransmit_unasked)
		return qp->requester.unacked != recovery->retransmit_end ? EVENT_ANSWERED_LATE
									 : EVENT_FINISHED;
	if (qp->requester.unacked != recovery->retransmit_end) {
		recovery->retransmit_run = 0;
		return EVENT_ANSWERED_KEPT;
	}
	return missed_next(recovery) ? EVENT_ANSWERED_KEPT : EVENT_ANSWERED;
}

void recovery_drain(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t sample = 0;

	if (!recovery->progress && !recovery->acked)
		return;
	if (recovery->timing && psn_distance(qp->requester.unacked, recovery->timed_psn) > 0) {
		sample = elapsed(recovery->timed_since, now);
		recovery->timing = false;
	}
	destination_acked(recovery->destination, recovery->acked, sample, recovery->ambiguous, now);
	recovery->acked = 0;
	if (!recovery->progress)
		return;
	recovery->progress = false;
	recovery_timers_restart(qp, now);
	if (retransmit_answered(qp) && !recovery_behind_probe(qp))
		recovery_event(qp, EVENT_FINISHED, now);
	else if (retransmit_answered(qp) && !responses_follow(qp))
		recovery_event(qp, answered_event(qp), now);
	else if (qp->requester.unacked == qp->requester.psn)
		recovery_event(qp, recovery_behind_probe(qp) ? EVENT_ANSWERED : EVENT_FINISHED,
			       now);
}

/* --- lost -------------------------------------------------------------------------------- */

/* Whether just the packet that the NAK names is to be retransmitted, or all from there on. */
static enum recovery_event nak_event(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;
	struct destination *destination = recovery->destination;

	if (recovery->state != RECOVERY_RETRANSMIT || recovery->retransmit_wanted ||
	    qp->requester.unacked != recovery->retransmit_end)
		recovery->retransmit_run = 0;
	else if (!missed_next(recovery))
		return EVENT_NAK_ALL;
	recovery->retransmit_run++;
	/*
	 * Without a retry left the QP fails over to its alternate path, if it has one. Nothing has
	 * been sent there yet, so everything is.
	 */
	return recovery->retries && destination_on_gap(destination) ? EVENT_NAK_ONE : EVENT_NAK_ALL;
}

/*
 * A NAK that follows the last one sooner than a retransmission can be answered isn't about that:
 * the network has doubled the last one.
 */
static bool is_doubled_nak(const struct recovery *recovery, uint64_t now)
{
	return recovery->nak_at &&
	       elapsed(recovery->nak_at, now) < destination_least_round_trip(recovery->destination);
}

void recovery_on_sequence_nak(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	/* The requester has gone back to it already, and not sent it again yet. */
	if (qp->requester.psn == qp->requester.unacked || is_doubled_nak(recovery, now))
		return;
	recovery->nak_at = now;
	if (recovery->state == RECOVERY_RETRANSMIT && recovery->nak_follows) {
		recovery->nak_follows = false;
		return;
	}
	recovery_event(qp, nak_event(qp), now);
}

/*
 * Once until there is progress: each acknowledgement that left before the responder had the
 * retransmitted request shows the same response to be missing.
 */
void recovery_on_response_missed(struct qp *qp, uint64_t now)
{
	if (qp->recovery.response_missed)
		return;
	qp->recovery.response_missed = true;
	qp->observed->done.losses.missed_responses++;
	recovery_event(qp, EVENT_NAK_ALL, now);
}

/* Without a retry left, all is retransmitted, as in nak_event(). */
void recovery_on_missing(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery_put_off_asking(qp, now);
	if (qp->missing.wanted || !missing_is_due(qp, !destination_keeps(recovery->destination)))
		return;
	if (!recovery->retries) {
		recovery_on_response_missed(qp, now);
		return;
	}
	qp->observed->done.losses.missed_responses++;
	recovery_event(qp, EVENT_MISSING, now);
}

void recovery_on_rnr_nak(struct qp *qp, uint64_t delay, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	/* One pause for all the packets that were under way, unless the receiver has gone on. */
	if (recovery->state == RECOVERY_RNR_WAIT && qp->requester.unacked == recovery->rnr_psn)
		return;
	recovery->rnr_psn = qp->requester.unacked;
	recovery->rnr_until = now + delay;
	recovery_event(qp, EVENT_RNR_NAK, now);
}

void recovery_on_migrated(struct qp *qp, uint64_t now)
{
	if (qp->type->reliable && qp->requester.unacked != qp->requester.highest)
		recovery_event(qp, EVENT_MIGRATED, now);
}

/* --- time -------------------------------------------------------------------------------- */

static enum recovery_event probe_event(const struct qp *qp, uint64_t now)
{
	if (qp->missing.any)
		return EVENT_ASK_DUE;
	if (recovery_early_due(qp, now))
		return EVENT_EARLY_DUE;
	return recovery_retransmit_due(qp, now) ? EVENT_RETRANSMIT_DUE : EVENT_PROBE_DUE;
}

void recovery_run(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (now >= recovery->rnr_until)
		recovery_event(qp, EVENT_RNR_OVER, now);
	if (now >= recovery->timeout_at && !recovery_put_off(qp, now) && recovery_is_unread(qp))
		recovery_timers_restart(qp, now);
	if (now >= recovery->timeout_at)
		recovery_event(qp, EVENT_TIMEOUT, now);
	if (now >= recovery->probe_at)
		recovery_event(qp, probe_event(qp, now), now);
}
