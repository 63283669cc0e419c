/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/recovery.h"

#include "emu/transport/destination.h"
#include "emu/transport/recovery_internal.h"
#include "emu/transport/recovery_timers.h"

/* --- in flight --------------------------------------------------------------------------- */

void recovery_discard_in_flight(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	destination_discard(recovery->destination, recovery->member.in_flight);
	recovery->member.in_flight = recovery->uncounted = 0;
}

void recovery_stop_counting(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t uncounted = recovery->uncounted + recovery->member.in_flight;

	recovery_discard_in_flight(qp);
	recovery->uncounted = uncounted;
}

void recovery_count_again(struct recovery *recovery)
{
	destination_sent(recovery->destination, recovery->uncounted);
	recovery->member.in_flight += recovery->uncounted;
	recovery->uncounted = 0;
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

/* --- what may be sent, and what was ------------------------------------------------------ */

bool recovery_may_send(const struct qp *qp)
{
	switch (qp->recovery.state) {
	case RECOVERY_SENDING:
	case RECOVERY_RETRANSMIT:
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

uint32_t recovery_take(struct qp *qp, uint64_t cost, uint32_t count, uint64_t now, uint64_t *until)
{
	return destination_take(qp->recovery.destination, &qp->recovery.member, cost, count, now,
				until);
}

uint64_t recovery_take_probe(struct qp *qp, uint64_t cost)
{
	if (!recovery_retransmits_one(qp->recovery.state))
		destination_sent(qp->recovery.destination, cost);
	return cost;
}

void recovery_end_run(struct qp *qp, uint64_t unused)
{
	struct recovery *recovery = &qp->recovery;

	if (!recovery->destination)
		return;
	/* It was woken since there was space in the window, and asked for none. */
	if (atomic_load_explicit(&recovery->member.woken, memory_order_relaxed))
		destination_forget(recovery->destination, &recovery->member);
	/* What recovery_take_probe() gave isn't in the window there. */
	if (!recovery_retransmits_one(recovery->state))
		destination_discard(recovery->destination, unused);
}

/* What lies before @end was retransmitted. */
static void note_retransmitted(struct qp *qp, uint32_t end)
{
	struct recovery *recovery = &qp->recovery;

	/* Karn's rule: it may be the retransmission that is answered, long after what is timed. */
	recovery->timing = false;
	if (psn_distance(end, recovery->highest_retransmitted) > 0)
		recovery->highest_retransmitted = end;
}

void recovery_on_sent(struct qp *qp, uint32_t psn, uint64_t cost, bool again, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (!recovery_retransmits_one(recovery->state))
		recovery->member.in_flight += cost;
	/* The next packet may have come a while after it was wanted: give it its time. */
	if (recovery->probe_wanted && recovery->state == RECOVERY_NEXT_PROBE)
		recovery->probe_at = now + recovery_retransmit_timeout(recovery);
	if (recovery->probe_wanted && again) {
		recovery->probed_at = now;
		recovery->probed_psn = psn;
	}
	recovery->probe_wanted = recovery->nothing_new = false;
	if (again)
		note_retransmitted(qp, qp->requester.psn);
	if (again || recovery->timing)
		return;
	recovery->timing = true;
	recovery->ambiguous = false;
	recovery->timed_psn = psn;
	recovery->timed_since = now;
}

bool recovery_retransmits_more(const struct qp *qp, uint64_t now)
{
	struct destination *destination = qp->recovery.destination;

	return destination_very_lossy(destination, now) && destination_keeps(destination);
}

void recovery_on_retransmitted(struct qp *qp, uint32_t end, bool response, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	note_retransmitted(qp, end);
	recovery->retransmit_wanted = false;
	recovery->retransmit_response = response;
	recovery->retransmitted_at = recovery->retransmit_unasked ? 0 : now;
	recovery->retransmit_end = end;
	if (!recovery->retransmit_unasked)
		recovery->resume_psn = qp->requester.psn;
}

/* So the oldest packet will be retransmitted, but not before its time. */
void recovery_nothing_new(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t due = recovery->since + recovery_retransmit_timeout(recovery);

	if (recovery->state != RECOVERY_NEXT_PROBE)
		return;
	recovery->nothing_new = true;
	recovery->probe_at = due > now ? due : now;
	hca_arm(qp->hca, &qp->timer, recovery->probe_at);
}

uint32_t recovery_sent_end(const struct qp *qp)
{
	bool probing = recovery_retransmits_one(qp->recovery.state) && recovery_behind_probe(qp);

	return probing ? qp->recovery.resume_psn : qp->requester.psn;
}

/* --- life -------------------------------------------------------------------------------- */

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

void recovery_begin(struct recovery *recovery, uint32_t psn)
{
	recovery->resume_psn = recovery->retransmit_end = psn;
	recovery->highest_retransmitted = recovery->reduced_end = psn;
}

void recovery_reload(struct recovery *recovery, const struct ibv_qp_attr *attr)
{
	recovery->retries = attr->retry_cnt;
	recovery->rnr_retries = attr->rnr_retry;
}

/* Nothing is in flight there any more. */
static void leave_destination(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	destination_forget(recovery->destination, &recovery->member);
	destination_discard(recovery->destination, recovery->acked);
	recovery_discard_in_flight(qp);
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
	recovery->timed_out = recovery->unread = false;
	recovery->response_missed = false;
	recovery_reload(recovery, &qp->attr);
	return before;
}

void recovery_stop(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->destination) {
		destination_forget(recovery->destination, &recovery->member);
		recovery_discard_in_flight(qp);
	}
	recovery_timers_stop(recovery);
	recovery->rnr_until = TIME_NEVER;
	recovery->timing = recovery->retransmit_wanted = false;
}
