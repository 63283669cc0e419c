/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/recovery_timers.h"

#include "emu/explain/peer.h"
#include "emu/objects/qp.h"
#include "emu/transport/destination.h"
#include "net/tuning.h"

uint64_t recovery_retransmit_timeout(const struct recovery *recovery)
{
	struct destination *destination = recovery->destination;
	uint64_t timeout = atomic_load_explicit(&destination->probe_timeout, memory_order_relaxed);
	uint64_t least = atomic_load_explicit(&destination->retransmit_least, memory_order_relaxed);

	return timeout > least ? timeout : least;
}

/* Whether the oldest packet is likely to have been lost, and costs little to retransmit in vain. */
static bool retransmits_early(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;

	return recovery->state <= RECOVERY_NEXT_PROBE &&
	       recovery->probes < RETRANSMIT_EARLY_COUNT && recovery_retransmits_more(qp, now);
}

/*
 * How long the answer to a retransmission takes; 0: it isn't known. Responses that are asked for
 * again come behind all others that are under way, and waiting for them begins when those have
 * come: for a round trip without any queue.
 */
static uint64_t answer_time(const struct qp *qp)
{
	struct destination *destination = qp->recovery.destination;

	return qp->missing.any
		       ? later(2 * destination_least_round_trip(destination),
			       PROBE_TIMEOUT_VERY_LOSSY)
		       : atomic_load_explicit(&destination->repair_timeout, memory_order_relaxed);
}

static uint64_t shorten(const struct qp *qp, uint64_t wait, uint64_t now)
{
	uint64_t answer = retransmits_early(qp, now) ? answer_time(qp) : 0;

	return answer && answer < wait ? answer : wait;
}

/* IBA 9.7.6.1.3: 4.096 us * 2^timeout. */
static uint64_t nominal_timeout(const struct qp *qp)
{
	unsigned int least = qp->hca->behaviour.ack_timeout_least;

	return UINT64_C(4096) << (qp->attr.timeout > least ? qp->attr.timeout : least);
}

uint64_t recovery_least_timeout(const struct qp *qp)
{
	uint16_t hundredths = qp->hca->behaviour.ack_timeout_hundredths;
	uint64_t nominal = nominal_timeout(qp);

	return hundredths ? nominal * hundredths / 100 : nominal;
}

/*
 * IBA 9.7.6.1.3: the nominal time at the least, four times that at the most. The least at
 * first, since a lost packet is the likely reason, unless a round trip takes longer; more with
 * every try in vain, since a peer that is a process may not get the CPU for a while.
 */
static uint64_t timeout_period(const struct qp *qp)
{
	unsigned int vain = qp->attr.retry_cnt - qp->recovery.retries;
	uint64_t nominal = nominal_timeout(qp), period;

	if (qp->hca->behaviour.ack_timeout_hundredths)
		return recovery_least_timeout(qp);
	period = later(nominal << (vain < 2 ? vain : 2),
		       destination_slowest_answer(qp->recovery.destination));
	return earlier(period, 4 * nominal);
}

/* When the first probe is due. None is where the ACK timeout comes nearly as soon. */
static uint64_t first_probe(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;
	uint64_t wait =
		atomic_load_explicit(&recovery->destination->probe_timeout, memory_order_relaxed);

	if (qp->attr.timeout && nominal_timeout(qp) < 2 * wait)
		return TIME_NEVER;
	return now + shorten(qp, wait, now);
}

/* RFC 9002, 6.2.1: each further one waits twice as long as the one before. */
uint64_t recovery_next_probe(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;

	if (recovery->probes < PROBE_COUNT)
		return now + (shorten(qp, recovery_retransmit_timeout(recovery), now)
			      << recovery->probes);
	/* IBA 9.7.6.1.3: with timeout 0 it waits for ever, but for what may have been lost. */
	return qp->attr.timeout ? TIME_NEVER
				: now + (recovery_retransmit_timeout(recovery) << PROBE_COUNT);
}

void recovery_timers_stop(struct recovery *recovery)
{
	recovery->timeout_at = recovery->probe_at = TIME_NEVER;
	recovery->expired_at = 0;
	recovery->probe_wanted = recovery->nothing_new = false;
	recovery->probes_only = false;
}

void recovery_timers_restart(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	recovery_timers_stop(recovery);
	if (qp->requester.psn == qp->requester.unacked)
		return;
	recovery->since = now;
	recovery->probe_at = recovery->probes ? recovery_next_probe(qp, now) : first_probe(qp, now);
	if (qp->attr.timeout) /* 0 waits for ever */
		recovery->timeout_at = now + timeout_period(qp);
	hca_arm(qp->hca, &qp->timer, recovery_deadline(recovery));
}

void recovery_put_off_asking(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;

	if (recovery->probe_at == TIME_NEVER || !retransmits_early(qp, now))
		return;
	recovery->probe_at = recovery_next_probe(qp, now);
	hca_arm(qp->hca, &qp->timer, recovery_deadline(recovery));
}

void recovery_arm(struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;

	if (recovery->timeout_at == TIME_NEVER && recovery->probe_at == TIME_NEVER)
		recovery_timers_restart(qp, now);
}

uint64_t recovery_deadline(const struct recovery *recovery)
{
	return earlier(earlier(recovery->timeout_at, recovery->probe_at), recovery->rnr_until);
}

/*
 * New packets first, for if nothing was lost they cost nothing. But where packets are lost, so
 * is a NAK now and then, and a retransmission.
 */
bool recovery_retransmit_due(const struct qp *qp, uint64_t now)
{
	const struct recovery *recovery = &qp->recovery;
	const struct destination *destination = recovery->destination;
	unsigned int new_packets = destination_very_lossy(destination, now) ? 0
				   : destination_lossy(destination, now)    ? 1
									    : PROBE_NEXT_COUNT;

	return recovery->nothing_new || recovery->probes >= new_packets;
}

/* The answers to a run of retransmissions acknowledged one packet each: all is lost, it seems. */
static bool is_lost_run(const struct qp *qp)
{
	const struct recovery *recovery = &qp->recovery;

	return recovery->retransmit_run >= RETRANSMIT_RUN &&
	       qp->requester.unacked == recovery->retransmit_end;
}

bool recovery_early_due(const struct qp *qp, uint64_t now)
{
	const struct requester *req = &qp->requester;

	/* Not a request that has responses of its own (emu/transport/missing.h). */
	return retransmits_early(qp, now) && !is_lost_run(qp) &&
	       psn_distance(req->psn, req->unacked) > 1 &&
	       !send_queue_at(&qp->sq, qp->sq.done)->kind->response;
}

bool recovery_put_off(struct qp *qp, uint64_t now)
{
	struct recovery *recovery = &qp->recovery;
	uint64_t read = atomic_load_explicit(&qp->hca->all_read_at, memory_order_relaxed);
	uint64_t expired = recovery->expired_at ? recovery->expired_at : recovery->timeout_at;

	if (read >= expired || elapsed(expired, now) >= TIMEOUT_PUT_OFF_MOST)
		return false;
	recovery->expired_at = expired;
	recovery->timeout_at = now + TIMEOUT_PUT_OFF;
	return true;
}

bool recovery_is_unread(struct qp *qp)
{
	struct recovery *recovery = &qp->recovery;
	struct link *link = qp->hca->link;
	bool before = recovery->unread;
	uint64_t read;
	uint32_t unread = link->ops->unread(link, &qp->path, qp->attr.dest_qp_num, &read);

	recovery->unread = unread != 0;
	if (!unread)
		return false;
	if (!before)
		explain_not_reading(qp, unread);
	else if ((int64_t)(recovery->read_until - read) > 0)
		return true;
	recovery->read_until = read + unread;
	return !before;
}
