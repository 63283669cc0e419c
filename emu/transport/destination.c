/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/destination.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/hca.h"
#include "net/spin.h"
#include "net/tuning.h"

static struct destination *destination_create(struct hca *hca, const union ibv_gid *gid)
{
	struct destination *destination = calloc(1, sizeof(*destination));

	if (!destination)
		return NULL;
	destination->gid = *gid;
	HASH_ADD(hh, hca->destinations, gid, sizeof(destination->gid), destination);
	if (!destination->hh.tbl) {
		free(destination);
		return NULL;
	}
	destination->hca = hca;
	destination->probe_timeout = PROBE_TIMEOUT_INITIAL;
	destination->retransmit_least = RETRANSMIT_TIMEOUT_INITIAL;
	cwnd_init(&destination->cwnd, &cwnd_cubic);
	spin_init(&destination->lock);
	return destination;
}

int destination_get(struct hca *hca, const union ibv_gid *gid, struct destination **destination)
{
	struct destination *found;

	pthread_mutex_lock(&hca->destinations_lock);
	HASH_FIND(hh, hca->destinations, gid, sizeof(*gid), found);
	if (!found)
		found = destination_create(hca, gid);
	if (found)
		found->users++;
	pthread_mutex_unlock(&hca->destinations_lock);
	*destination = found;
	return found ? 0 : ENOMEM;
}

void destination_put(struct destination *destination)
{
	struct hca *hca = destination->hca;
	bool last;

	pthread_mutex_lock(&hca->destinations_lock);
	last = --destination->users == 0;
	if (last)
		HASH_DEL(hca->destinations, destination);
	pthread_mutex_unlock(&hca->destinations_lock);
	if (!last)
		return;
	pthread_spin_destroy(&destination->lock);
	free(destination);
}

void destination_bound(struct destination *destination, uint64_t bytes)
{
	spin_lock(&destination->lock);
	cwnd_bound(&destination->cwnd, bytes);
	pthread_spin_unlock(&destination->lock);
}

uint32_t destination_take(struct destination *destination, struct arbiter_member *member,
			  uint64_t cost, uint32_t count, uint64_t now, uint64_t *until)
{
	struct cwnd *cwnd = &destination->cwnd;
	uint32_t granted = 0;

	spin_lock(&destination->lock);
	*until = pacer_wait(&destination->pacer, cwnd, &destination->rtt, now);
	if (*until)
		arbiter_wait(&destination->arbiter, member);
	else
		granted = arbiter_grant(&destination->arbiter, cwnd, member, cost, count);
	if (granted) {
		cwnd_on_sent(cwnd, granted * cost);
		pacer_on_sent(&destination->pacer, cwnd, &destination->rtt, granted * cost, now);
	}
	pthread_spin_unlock(&destination->lock);
	return granted;
}

void destination_sent(struct destination *destination, uint64_t bytes)
{
	spin_lock(&destination->lock);
	cwnd_on_sent(&destination->cwnd, bytes);
	pthread_spin_unlock(&destination->lock);
}

bool destination_lossy(const struct destination *destination, uint64_t now)
{
	uint64_t lost_at = atomic_load_explicit(&destination->lost_at, memory_order_relaxed);

	return lost_at && elapsed(lost_at, now) < RTT_PERIOD;
}

bool destination_very_lossy(const struct destination *destination, uint64_t now)
{
	return destination_lossy(destination, now) &&
	       atomic_load_explicit(&destination->loss_interval, memory_order_relaxed) <
		       VERY_LOSSY_INTERVAL;
}

/* A single loss, after a while without, is no rate. */
static void update_loss_interval(struct destination *destination, uint64_t now)
{
	uint64_t interval = destination->acked_since_loss;

	if (destination_lossy(destination, now))
		interval = (3 * destination->loss_interval + interval) / 4;
	else if (interval < 4 * VERY_LOSSY_INTERVAL)
		interval = 4 * VERY_LOSSY_INTERVAL;
	atomic_store_explicit(&destination->loss_interval, interval, memory_order_relaxed);
	destination->acked_since_loss = 0;
}

static void update_timeouts(struct destination *destination, uint64_t now)
{
	const struct rtt *rtt = &destination->rtt;
	uint64_t retransmit_least = PROBE_TIMEOUT_LEAST, timeout;

	/*
	 * The timeout allows for the longest stall of the last seconds. Where packets get lost it
	 * allows for no more than the variation of round trips, and where many do for no stalls.
	 */
	if (!destination_lossy(destination, now)) {
		timeout = rtt_probe_timeout(rtt, PROBE_TIMEOUT_LEAST);
		retransmit_least = RETRANSMIT_TIMEOUT_LEAST;
	} else if (!destination_very_lossy(destination, now)) {
		timeout = rtt_timeout(rtt, PROBE_TIMEOUT_LEAST);
	} else {
		timeout = rtt_typical_timeout(rtt, PROBE_TIMEOUT_VERY_LOSSY);
		retransmit_least = PROBE_TIMEOUT_VERY_LOSSY;
	}
	atomic_store_explicit(&destination->probe_timeout, timeout, memory_order_relaxed);
	atomic_store_explicit(&destination->retransmit_least, retransmit_least,
			      memory_order_relaxed);
}

/* With destination.lock. */
static void note_loss(struct destination *destination, uint64_t now)
{
	update_loss_interval(destination, now);
	atomic_store_explicit(&destination->lost_at, now, memory_order_relaxed);
	if (destination->rtt.smoothed)
		update_timeouts(destination, now);
}

void destination_acked(struct destination *destination, uint64_t bytes, uint64_t sample,
		       bool ambiguous, uint64_t now)
{
	if (!bytes && !sample)
		return;
	spin_lock(&destination->lock);
	if (sample && !(ambiguous && destination_lossy(destination, now))) {
		rtt_sample(&destination->rtt, sample, now);
		if (rtt_measure_anew(&destination->rtt, now))
			cwnd_drain(&destination->cwnd, destination->rtt.anew_until);
		update_timeouts(destination, now);
		atomic_store_explicit(&destination->late_answer, 0, memory_order_relaxed);
		if (destination->rtt.least <= COALESCE_ROUND_MOST)
			atomic_store_explicit(&destination->near, true, memory_order_relaxed);
	}
	atomic_store_explicit(&destination->acked_at, now, memory_order_relaxed);
	cwnd_on_acked(&destination->cwnd, bytes, &destination->rtt, now);
	destination->acked_since_loss += bytes;
	arbiter_wake(&destination->arbiter, &destination->cwnd);
	pthread_spin_unlock(&destination->lock);
}

bool destination_acked_since(const struct destination *destination, uint64_t time)
{
	return atomic_load_explicit(&destination->acked_at, memory_order_relaxed) > time;
}

void destination_discard(struct destination *destination, uint64_t bytes)
{
	if (!bytes)
		return;
	spin_lock(&destination->lock);
	cwnd_on_discarded(&destination->cwnd, bytes);
	arbiter_wake(&destination->arbiter, &destination->cwnd);
	pthread_spin_unlock(&destination->lock);
}

uint32_t destination_lost(struct destination *destination, enum cwnd_loss loss, uint64_t now)
{
	uint32_t reduction;

	spin_lock(&destination->lock);
	if (loss != CWND_MARKED)
		note_loss(destination, now);
	reduction = cwnd_on_lost(&destination->cwnd, loss, &destination->rtt, now);
	pthread_spin_unlock(&destination->lock);
	return reduction;
}

void destination_lost_before(struct destination *destination, uint64_t now)
{
	spin_lock(&destination->lock);
	note_loss(destination, now);
	pthread_spin_unlock(&destination->lock);
}

void destination_restarted(struct destination *destination)
{
	spin_lock(&destination->lock);
	cwnd_on_restart(&destination->cwnd, &destination->rtt);
	pthread_spin_unlock(&destination->lock);
}

bool destination_probe_answered(struct destination *destination, uint64_t time, uint64_t now)
{
	const struct rtt *rtt = &destination->rtt;
	bool lost;

	spin_lock(&destination->lock);
	lost = rtt->smoothed && 4 * time >= 3 * rtt->least &&
	       time <= 2 * rtt_recent_least(rtt) + PROBE_ANSWER_SLACK;
	if (lost)
		note_loss(destination, now);
	pthread_spin_unlock(&destination->lock);
	return lost;
}

void destination_answered_late(struct destination *destination, uint64_t time)
{
	spin_lock(&destination->lock);
	if (!destination->rtt.smoothed)
		atomic_store_explicit(&destination->late_answer, time, memory_order_relaxed);
	pthread_spin_unlock(&destination->lock);
}

uint64_t destination_slowest_answer(const struct destination *destination)
{
	uint64_t late = atomic_load_explicit(&destination->late_answer, memory_order_relaxed);

	/* The next answer may take longer than the one that came late: allow twice its time. */
	return later(2 * late,
		     atomic_load_explicit(&destination->probe_timeout, memory_order_relaxed));
}

void destination_repaired(struct destination *destination, uint64_t time, uint64_t now)
{
	spin_lock(&destination->lock);
	rtt_sample(&destination->repair, time, now);
	atomic_store_explicit(&destination->repair_timeout,
			      rtt_timeout(&destination->repair, PROBE_TIMEOUT_VERY_LOSSY),
			      memory_order_relaxed);
	pthread_spin_unlock(&destination->lock);
}

void destination_spurious(struct destination *destination, uint32_t reduction)
{
	spin_lock(&destination->lock);
	cwnd_on_spurious(&destination->cwnd, reduction);
	arbiter_wake(&destination->arbiter, &destination->cwnd);
	pthread_spin_unlock(&destination->lock);
}

bool destination_on_gap(struct destination *destination)
{
	bool alone;

	spin_lock(&destination->lock);
	alone = destination->behind_gap != BEHIND_GAP_DROPPED ||
		destination->drops++ % DROPS_UNTIL_RETRANSMIT == DROPS_UNTIL_RETRANSMIT - 1;
	pthread_spin_unlock(&destination->lock);
	return alone;
}

bool destination_keeps(struct destination *destination)
{
	bool keeps;

	spin_lock(&destination->lock);
	keeps = destination->behind_gap == BEHIND_GAP_KEPT;
	pthread_spin_unlock(&destination->lock);
	return keeps;
}

void destination_note_kept(struct destination *destination)
{
	spin_lock(&destination->lock);
	destination->behind_gap = BEHIND_GAP_KEPT;
	pthread_spin_unlock(&destination->lock);
}

/* By one step at a time, from KEPT to DROPPED: a single time may have been a run of losses. */
void destination_note_dropped(struct destination *destination)
{
	spin_lock(&destination->lock);
	switch (destination->behind_gap) {
	case BEHIND_GAP_KEPT:
		destination->behind_gap = BEHIND_GAP_UNKNOWN;
		break;
	case BEHIND_GAP_UNKNOWN:
		destination->behind_gap = BEHIND_GAP_DROPPED_ONCE;
		break;
	default:
		destination->behind_gap = BEHIND_GAP_DROPPED;
		destination->drops = 0;
	}
	pthread_spin_unlock(&destination->lock);
}

bool destination_answers_later(struct destination *destination, uint64_t time)
{
	uint64_t least = destination_least_round_trip(destination);

	return least >= LATE_ROUND_LEAST && 4 * time < 3 * least;
}

uint64_t destination_least_round_trip(struct destination *destination)
{
	uint64_t least;

	spin_lock(&destination->lock);
	least = destination->rtt.least;
	pthread_spin_unlock(&destination->lock);
	return least;
}

bool destination_is_near(const struct destination *destination)
{
	return atomic_load_explicit(&destination->near, memory_order_relaxed);
}

uint64_t destination_limit(struct destination *destination)
{
	uint64_t limit;

	spin_lock(&destination->lock);
	limit = destination->cwnd.size.limit;
	pthread_spin_unlock(&destination->lock);
	return limit;
}

void destination_forget(struct destination *destination, struct arbiter_member *member)
{
	spin_lock(&destination->lock);
	arbiter_forget(&destination->arbiter, member);
	pthread_spin_unlock(&destination->lock);
}
