/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/recovery.h"

#include "emu/explain/peer.h"
#include "emu/objects/qp.h"
#include "emu/transport/completer.h"
#include "emu/transport/destination.h"
#include "net/tuning.h"

enum recovery_event {
	EVENT_ACKED,	       /* something new */
	EVENT_ACKED_BEYOND,    /* what was to be sent again: it hadn't been lost */
	EVENT_ANSWERED,	       /* a probe, and no more, though more was sent before */
	EVENT_FINISHED,	       /* everything */
	EVENT_SEQUENCE_NAK,    /* IBA 9.7.5.2.3 */
	EVENT_RESPONSE_MISSED, /* IBA 9.9.2.3 */
	EVENT_RNR_NAK,	       /* IBA 9.7.5.2.8 */
	EVENT_PROBE_DUE,
	EVENT_REPEAT_DUE, /* a probe, which may be a packet that was sent before */
	EVENT_TIMEOUT,	  /* IBA 9.7.6.1.3 */
	EVENT_RNR_OVER,
	EVENT_MIGRATED, /* IBA 17.2.8 */
	RECOVERY_EVENTS
};

/* An action returns false when that was the last retry: the QP has failed. */
struct recovery_transition {
	bool (*action)(struct qp *qp, uint64_t now); /* NULL: the event changes nothing */
	enum recovery_state next;
};

static bool progressed(struct qp *qp, uint64_t now);
static bool acked(struct qp *qp, uint64_t now);
static bool restore(struct qp *qp, uint64_t now);
static bool go_on(struct qp *qp, uint64_t now);
static bool probe_second(struct qp *qp, uint64_t now);
static bool lose_rest(struct qp *qp, uint64_t now);
static bool retry_lost(struct qp *qp, uint64_t now);
static bool retry_timeout(struct qp *qp, uint64_t now);
static bool pause_for_receiver(struct qp *qp, uint64_t now);
static bool resume(struct qp *qp, uint64_t now);
static bool probe_next(struct qp *qp, uint64_t now);
static bool probe_head(struct qp *qp, uint64_t now);
static bool probe_path(struct qp *qp, uint64_t now);

/*
 * Which event leads where. During an RNR delay everything in flight is sent again later anyway,
 * and whatever else the responder says of it is an echo of that.
 */
static const struct recovery_transition transitions[RECOVERY_STATES][RECOVERY_EVENTS] = {
	[RECOVERY_SENDING][EVENT_ACKED] = {acked, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_ACKED_BEYOND] = {restore, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_SEQUENCE_NAK] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_RESPONSE_MISSED] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_SENDING][EVENT_RNR_NAK] = {pause_for_receiver, RECOVERY_RNR_WAIT},
	[RECOVERY_SENDING][EVENT_PROBE_DUE] = {probe_next, RECOVERY_NEXT_PROBE},
	[RECOVERY_SENDING][EVENT_REPEAT_DUE] = {probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SENDING][EVENT_TIMEOUT] = {retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_SENDING][EVENT_MIGRATED] = {probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_NEXT_PROBE][EVENT_ACKED] = {acked, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_ACKED_BEYOND] = {restore, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_SEQUENCE_NAK] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_RESPONSE_MISSED] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_NEXT_PROBE][EVENT_RNR_NAK] = {pause_for_receiver, RECOVERY_RNR_WAIT},
	[RECOVERY_NEXT_PROBE][EVENT_PROBE_DUE] = {probe_next, RECOVERY_NEXT_PROBE},
	[RECOVERY_NEXT_PROBE][EVENT_REPEAT_DUE] = {probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_NEXT_PROBE][EVENT_TIMEOUT] = {retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_NEXT_PROBE][EVENT_MIGRATED] = {probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_HEAD_PROBE][EVENT_ACKED] = {progressed, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_ACKED_BEYOND] = {restore, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_ANSWERED] = {probe_second, RECOVERY_SECOND_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_FINISHED] = {go_on, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_SEQUENCE_NAK] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_RESPONSE_MISSED] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_HEAD_PROBE][EVENT_RNR_NAK] = {pause_for_receiver, RECOVERY_RNR_WAIT},
	[RECOVERY_HEAD_PROBE][EVENT_PROBE_DUE] = {probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_REPEAT_DUE] = {probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_TIMEOUT] = {retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_HEAD_PROBE][EVENT_MIGRATED] = {probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_SECOND_PROBE][EVENT_ACKED] = {progressed, RECOVERY_SECOND_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_ACKED_BEYOND] = {restore, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_ANSWERED] = {lose_rest, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_FINISHED] = {go_on, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_SEQUENCE_NAK] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_RESPONSE_MISSED] = {retry_lost, RECOVERY_SENDING},
	[RECOVERY_SECOND_PROBE][EVENT_RNR_NAK] = {pause_for_receiver, RECOVERY_RNR_WAIT},
	[RECOVERY_SECOND_PROBE][EVENT_PROBE_DUE] = {probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_REPEAT_DUE] = {probe_head, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_TIMEOUT] = {retry_timeout, RECOVERY_HEAD_PROBE},
	[RECOVERY_SECOND_PROBE][EVENT_MIGRATED] = {probe_path, RECOVERY_HEAD_PROBE},

	[RECOVERY_RNR_WAIT][EVENT_ACKED] = {acked, RECOVERY_RNR_WAIT},
	[RECOVERY_RNR_WAIT][EVENT_ACKED_BEYOND] = {acked, RECOVERY_RNR_WAIT},
	[RECOVERY_RNR_WAIT][EVENT_RNR_OVER] = {resume, RECOVERY_SENDING},
};

static void recovery_event(struct qp *qp, enum recovery_event event, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	const struct recovery_transition *transition = &transitions[recovery->state][event];

	if (!transition->action)
		return;
	recovery->previous = recovery->state;
	/* First, for an action that fails the QP ends in FAILED whatever the table says. */
	recovery->state = transition->next;
	if (!transition->action(qp, now))
		recovery->state = RECOVERY_FAILED;
}

/* What sends a packet twice waits longer than what doesn't, where losses are unlikely. */
static uint64_t repeat_timeout(const struct recovery *recovery)
{
	struct destination *destination = recovery->destination;
	uint64_t timeout = atomic_load_explicit(&destination->probe_timeout, memory_order_relaxed);
	uint64_t least = atomic_load_explicit(&destination->repeat_least, memory_order_relaxed);

	return timeout > least ? timeout : least;
}

/* --- in flight -------------------------------------------------------------- */

/* What was sent doesn't count any more: it was lost, or it is to be sent again. */
static void discard_in_flight(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	destination_discard(recovery->destination, recovery->member.in_flight);
	recovery->member.in_flight = recovery->uncounted = 0;
}

/* It may still be in flight, but others needn't wait for it. */
static void stop_counting(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t uncounted = recovery->uncounted + recovery->member.in_flight;

	discard_in_flight(qp);
	recovery->uncounted = uncounted;
}

static void count_again(struct recovery *recovery)
{
	destination_sent(recovery->destination, recovery->uncounted);
	recovery->member.in_flight += recovery->uncounted;
	recovery->uncounted = 0;
}

static void stop_timers(struct recovery *recovery)
{
	recovery->timeout_at = recovery->probe_at = TIME_NEVER;
	recovery->probe_wanted = recovery->nothing_new = false;
	recovery->probes_only = false;
}

static void go_back(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	requester_restart(qp);
	recovery->timing = false;
	stop_timers(recovery);
	hca_schedule(qp->hca, qp);
}

/* Go back N (IBA 9.7.5.1.2): everything from requester.unacked on is to be sent again. */
static void restart(struct qp *qp)
{
	go_back(qp);
	qp->recovery.resume_psn = qp->requester.unacked;
	discard_in_flight(qp);
}

/* One packet at a time is sent again. It isn't counted: it is in flight already, or was. */
static bool repeats(enum recovery_state state)
{
	return state == RECOVERY_HEAD_PROBE || state == RECOVERY_SECOND_PROBE;
}

/* The oldest packet is to be sent again. What the others come to, its answer shows. */
static void go_back_for_head(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	if (!repeats(recovery->previous)) {
		recovery->resume_psn = qp->requester.psn;
		stop_counting(qp);
	}
	go_back(qp);
	recovery->probe_wanted = true;
}

bool recovery_may_send(const struct qp *qp)
{
	switch (qp->recovery.state) {
	case RECOVERY_SENDING:
		return true;
	case RECOVERY_NEXT_PROBE:
		return !qp->recovery.probes_only || qp->recovery.probe_wanted;
	case RECOVERY_HEAD_PROBE:
	case RECOVERY_SECOND_PROBE:
		return qp->recovery.probe_wanted;
	default:
		return false;
	}
}

uint32_t recovery_take(struct qp *qp, uint64_t cost, uint32_t count)
{
	return destination_take(qp->recovery.destination, &qp->recovery.member, cost, count);
}

uint64_t recovery_take_probe(struct qp *qp, uint64_t cost)
{
	if (!repeats(qp->recovery.state))
		destination_sent(qp->recovery.destination, cost);
	return cost;
}

void recovery_end_run(struct qp *qp, uint64_t unused)
{
	struct recovery *recovery = &qp->recovery;

	if (!recovery->destination)
		return;
	destination_discard(recovery->destination, unused);
	/* It was woken for space in the window, and didn't ask for it. */
	if (atomic_load_explicit(&recovery->member.woken, memory_order_relaxed))
		destination_forget(recovery->destination, &recovery->member);
}

void recovery_on_sent(struct qp *qp, uint32_t psn, uint64_t cost, bool again, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (!repeats(recovery->state))
		recovery->member.in_flight += cost;
	/* The next packet may have come a while after it was wanted: give it its time. */
	if (recovery->probe_wanted && recovery->state == RECOVERY_NEXT_PROBE)
		recovery->probe_at = now + repeat_timeout(recovery);
	recovery->probe_wanted = recovery->nothing_new = false;
	/* Karn's rule: an answer may be the repetition's, which came long after what is timed. */
	if (again)
		recovery->timing = false;
	if (again || recovery->timing)
		return;
	recovery->timing = true;
	recovery->ambiguous = false;
	recovery->timed_psn = psn;
	recovery->timed_since = now;
}

/* --- deadlines ----------------------------------------------------------------- */

static uint64_t nominal_timeout(const struct qp *qp)
{
	unsigned int least = qp->hca->behaviour.ack_timeout_least;

	return UINT64_C(4096) << (qp->attr.timeout > least ? qp->attr.timeout : least);
}

/*
 * IBA 9.7.6.1.3: 4.096 us * 2^timeout at the least, four times that at the most. The least at
 * first, since a lost packet is the likely reason; more with every try in vain, since a peer that
 * is a process may not get the CPU for a while.
 */
static uint64_t timeout_period(const struct qp *qp)
{
	unsigned int vain = qp->attr.retry_cnt - qp->recovery.retries;
	const struct hca_behaviour *card = &qp->hca->behaviour;

	if (card->ack_timeout_hundredths)
		return nominal_timeout(qp) * card->ack_timeout_hundredths / 100;
	return nominal_timeout(qp) << (vain < 2 ? vain : 2);
}

/* The first one. A timeout that comes as soon needs no help. */
static uint64_t first_probe(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;
	uint64_t wait =
		atomic_load_explicit(&recovery->destination->probe_timeout, memory_order_relaxed);

	if (qp->attr.timeout && nominal_timeout(qp) < 2 * wait)
		return TIME_NEVER;
	return now + wait;
}

/* RFC 9002, 6.2.1: each further one waits twice as long as the one before. */
static uint64_t next_probe(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;

	if (recovery->probes < PROBE_COUNT)
		return now + (repeat_timeout(recovery) << recovery->probes);
	/* IBA 9.7.6.1.3: with timeout 0 it waits for ever, but for what may have been lost. */
	return qp->attr.timeout ? TIME_NEVER : now + (repeat_timeout(recovery) << PROBE_COUNT);
}

static void restart_timers(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	stop_timers(recovery);
	if (qp->requester.psn == qp->requester.unacked)
		return;
	recovery->since = now;
	recovery->probe_at = recovery->probes ? next_probe(qp, now) : first_probe(qp, now);
	if (qp->attr.timeout) /* 0 waits for ever */
		recovery->timeout_at = now + timeout_period(qp);
	hca_arm(qp->hca, &qp->timer, recovery_deadline(recovery));
}

void recovery_arm(struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;

	if (recovery->timeout_at == TIME_NEVER && recovery->probe_at == TIME_NEVER)
		restart_timers(qp, now);
}

uint64_t recovery_deadline(const struct recovery *recovery)
{
	uint64_t due = recovery->timeout_at;

	if (recovery->probe_at < due)
		due = recovery->probe_at;
	return recovery->rnr_until < due ? recovery->rnr_until : due;
}

/*
 * New packets first, for if nothing was lost they cost nothing. But where packets are lost, so
 * is a NAK now and then, and a packet that was sent again.
 */
static enum recovery_event probe_event(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;
	const struct destination *destination = recovery->destination;
	unsigned int new_packets = destination_very_lossy(destination, now) ? 0
				   : destination_lossy(destination, now)    ? 1
									    : PROBE_NEXT_COUNT;

	return recovery->nothing_new || recovery->probes >= new_packets ? EVENT_REPEAT_DUE
									: EVENT_PROBE_DUE;
}

/*
 * Whether the receiver, a process of this machine, has our packets and hasn't read anything: it
 * is stopped by a debugger, or doesn't get the CPU. Hardware would have answered for such a
 * process, so this is no retry. If less waits than before, it does read.
 */
static bool is_unread(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;
	struct link *link = qp->hca->link;
	uint32_t before = recovery->unread;

	recovery->unread = link->ops->unread(link, &qp->path, qp->attr.dest_qp_num);
	if (recovery->unread && !before)
		explain_not_reading(qp, recovery->unread);
	return recovery->unread && recovery->unread >= before;
}

void recovery_run(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (now >= recovery->rnr_until)
		recovery_event(qp, EVENT_RNR_OVER, now);
	if (now >= recovery->timeout_at && is_unread(qp))
		restart_timers(qp, now);
	if (now >= recovery->timeout_at)
		recovery_event(qp, EVENT_TIMEOUT, now);
	if (now >= recovery->probe_at)
		recovery_event(qp, probe_event(qp, now), now);
}

void recovery_reload(struct recovery *recovery, const struct ibv_qp_attr *attr)
{
	recovery->retries = attr->retry_cnt;
	recovery->rnr_retries = attr->rnr_retry;
}

/* --- actions: acknowledged -------------------------------------------------- */

static bool progressed(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery->progress = true;
	recovery->unread = 0;
	recovery->response_missed = false;
	recovery->probes = 0;
	if (psn_distance(recovery->resume_psn, qp->requester.unacked) < 0)
		recovery->resume_psn = qp->requester.unacked;
	/* transport.md 6: on any response that acknowledges something new. */
	recovery_reload(recovery, &qp->attr);
	return true;
}

static bool acked(struct qp *qp, uint64_t now)
{
	if (qp->recovery.uncounted)
		count_again(&qp->recovery);
	return progressed(qp, now);
}

static bool go_on(struct qp *qp, uint64_t now)
{
	hca_schedule(qp->hca, qp);
	return true;
}

static bool probe_second(struct qp *qp, uint64_t now)
{
	qp->recovery.probe_wanted = true;
	return go_on(qp, now);
}

/* What had been sent behind the probes. This costs no retry, for the responder answers. */
static bool lose_rest(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery->uncounted = 0;
	recovery->reduction = destination_lost(recovery->destination, false, now);
	return go_on(qp, now);
}

/* Whether something was sent behind the cursor, and it isn't known what became of it. */
static bool behind_probe(const struct qp *qp)
{
	return psn_distance(qp->recovery.resume_psn, qp->requester.unacked) > 0;
}

/* The window was reduced in vain, and what a probe put in doubt arrives. */
static bool restore(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->reduction)
		destination_spurious(recovery->destination, recovery->reduction);
	recovery->reduction = 0;
	if (behind_probe(qp))
		requester_resume(qp, recovery->resume_psn);
	hca_schedule(qp->hca, qp);
	return acked(qp, now);
}

void recovery_count_acked(struct qp *qp, uint64_t cost, bool beyond)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t *in_flight = &recovery->member.in_flight;
	uint64_t counted = cost < *in_flight ? cost : *in_flight;
	uint64_t rest = cost - counted < recovery->uncounted ? cost - counted : recovery->uncounted;

	*in_flight -= counted;
	if (rest) {
		recovery->uncounted -= rest;
		destination_sent(recovery->destination, rest);
	}
	recovery->acked += counted + rest;
	recovery->beyond |= beyond;
}

void recovery_on_acked(struct qp *qp, uint64_t now)
{
	bool beyond = qp->recovery.beyond;

	qp->recovery.beyond = false;
	recovery_event(qp, beyond ? EVENT_ACKED_BEYOND : EVENT_ACKED, now);
}

void recovery_drain(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t sample = 0;

	if (!recovery->progress)
		return;
	recovery->progress = false;
	if (recovery->timing && psn_distance(qp->requester.unacked, recovery->timed_psn) > 0) {
		sample = now - recovery->timed_since;
		recovery->timing = false;
	}
	destination_acked(recovery->destination, recovery->acked, sample, recovery->ambiguous, now);
	recovery->acked = 0;
	if (recovery->state != RECOVERY_RNR_WAIT)
		restart_timers(qp, now);
	if (qp->requester.unacked == qp->requester.psn)
		recovery_event(qp, behind_probe(qp) ? EVENT_ANSWERED : EVENT_FINISHED, now);
}

/* --- actions: lost ------------------------------------------------------------- */

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

static bool retry_lost(struct qp *qp, uint64_t now)
{
	qp->recovery.reduction = destination_lost(qp->recovery.destination, false, now);
	if (!retry(qp))
		return false;
	restart(qp);
	return true;
}

/*
 * Begin with the oldest packet alone, as TCP does (RFC 5681, 3.1): nothing says that the peer
 * exists, or that it isn't just slow; and the window is shared with others that do get answers.
 */
static bool retry_timeout(struct qp *qp, uint64_t now)
{
	COUNT(qp->hca, timeouts, 1);
	qp->shown->done.losses.timeouts++;
	qp->recovery.response_missed = false;
	if (!retry(qp))
		return false;
	go_back_for_head(qp);
	return true;
}

void recovery_on_sequence_nak(struct qp *qp, uint64_t now)
{
	recovery_event(qp, EVENT_SEQUENCE_NAK, now);
}

/* Stale acknowledgements may say so many times over. */
void recovery_on_response_missed(struct qp *qp, uint64_t now)
{
	if (qp->recovery.response_missed)
		return;
	qp->recovery.response_missed = true;
	qp->shown->done.losses.missed_responses++;
	recovery_event(qp, EVENT_RESPONSE_MISSED, now);
}

/* --- actions: receiver not ready -------------------------------------------- */

static bool pause_for_receiver(struct qp *qp, uint64_t now)
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

static bool resume(struct qp *qp, uint64_t now)
{
	qp->recovery.rnr_until = TIME_NEVER;
	return true;
}

void recovery_on_rnr_nak(struct qp *qp, uint64_t delay, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->state == RECOVERY_RNR_WAIT)
		return; /* one pause for all the packets that were under way */
	recovery->rnr_until = now + delay;
	recovery_event(qp, EVENT_RNR_NAK, now);
}

/* --- actions: probes -------------------------------------------------------------- */

static void want_probe(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	qp->shown->done.losses.probes++;
	recovery->ambiguous = true;
	recovery->probe_wanted = true;
	recovery->probe_at = next_probe(qp, now);
	if (recovery->probes < PROBE_COUNT)
		recovery->probes++;
}

/*
 * While its peer answers other queue pairs, what this one has in flight isn't slow but lost, or
 * its receiver is gone: it needn't keep the window from them, and would fill it again.
 */
static bool probe_next(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (destination_acked_since(recovery->destination, recovery->since)) {
		stop_counting(qp);
		recovery->probes_only = true;
	}
	want_probe(qp, now);
	return true;
}

/* Then it is the oldest packet that will be sent again, but not before its time. */
void recovery_nothing_new(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t due = recovery->since + repeat_timeout(recovery);

	if (recovery->state != RECOVERY_NEXT_PROBE)
		return;
	recovery->nothing_new = true;
	recovery->probe_at = due > now ? due : now;
	hca_arm(qp->hca, &qp->timer, recovery->probe_at);
}

/* Isn't a retry, for nothing says that anything was lost. The timeout goes on. */
static bool probe_head(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t timeout_at = recovery->timeout_at;

	go_back_for_head(qp);
	recovery->timeout_at = timeout_at;
	want_probe(qp, now);
	return true;
}

/* Whatever the oldest packet's answer says hasn't been lost with the path. */
static bool probe_path(struct qp *qp, uint64_t now)
{
	go_back_for_head(qp);
	return true;
}

void recovery_on_migrated(struct qp *qp, uint64_t now)
{
	if (qp->type->reliable && qp->requester.unacked != qp->requester.highest)
		recovery_event(qp, EVENT_MIGRATED, now);
}

/* --- life --------------------------------------------------------------------------- */

void recovery_reset(struct recovery *recovery)
{
	struct qp *qp = recovery->member.qp;

	*recovery = (struct recovery){
		.member.qp = qp,
		.timeout_at = TIME_NEVER,
		.probe_at = TIME_NEVER,
		.rnr_until = TIME_NEVER,
	};
}

/* Nothing is in flight there any more. */
static void leave_destination(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	destination_forget(recovery->destination, &recovery->member);
	destination_discard(recovery->destination, recovery->acked);
	discard_in_flight(qp);
	recovery->acked = 0;
	recovery->reduction = 0;
	recovery->timing = false;
}

void recovery_set_destination(struct qp *qp, struct destination *destination)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->destination) {
		leave_destination(qp);
		destination_put(recovery->destination);
	}
	recovery->destination = destination;
}

struct destination *recovery_migrate(struct qp *qp, struct destination *destination)
{
	struct recovery *recovery = &qp->recovery;
	struct destination *before = recovery->destination;

	leave_destination(qp);
	recovery->destination = destination;
	recovery->probes = 0;
	recovery->unread = 0;
	recovery->response_missed = false;
	recovery_reload(recovery, &qp->attr);
	return before;
}

void recovery_stop(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->destination) {
		destination_forget(recovery->destination, &recovery->member);
		discard_in_flight(qp);
	}
	stop_timers(recovery);
	recovery->rnr_until = TIME_NEVER;
	recovery->timing = false;
}
