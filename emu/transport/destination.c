/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/destination.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/hca.h"
#include "net/tuning.h"

static struct destination *destination_create(struct hca *hca, const union ibv_gid *gid)
{
	struct destination *destination = calloc(1, sizeof(*destination));

	if (!destination)
		return NULL;
	destination->gid = *gid;
	destination->hca = hca;
	destination->probe_timeout = PROBE_TIMEOUT_INITIAL;
	destination->repeat_least = REPEAT_TIMEOUT_INITIAL;
	cwnd_init(&destination->cwnd, &cwnd_cubic);
	pthread_mutex_init(&destination->lock, NULL);
	HASH_ADD(hh, hca->destinations, gid, sizeof(destination->gid), destination);
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
	pthread_mutex_destroy(&destination->lock);
	free(destination);
}

uint32_t destination_take(struct destination *destination, struct arbiter_member *member,
			  uint64_t cost, uint32_t count)
{
	uint32_t granted;

	pthread_mutex_lock(&destination->lock);
	granted = arbiter_grant(&destination->arbiter, &destination->cwnd, member, cost, count);
	cwnd_on_sent(&destination->cwnd, granted * cost);
	pthread_mutex_unlock(&destination->lock);
	return granted;
}

void destination_sent(struct destination *destination, uint64_t bytes)
{
	pthread_mutex_lock(&destination->lock);
	cwnd_on_sent(&destination->cwnd, bytes);
	pthread_mutex_unlock(&destination->lock);
}

static bool lost_lately(const struct destination *destination, uint64_t now)
{
	return destination->lost_at && now - destination->lost_at < RTT_PERIOD;
}

static void update_timeouts(struct destination *destination, uint64_t now)
{
	const struct rtt *rtt = &destination->rtt;
	uint64_t timeout = rtt_probe_timeout(rtt, PROBE_TIMEOUT_LEAST);

	/* Where packets get lost, a stall some seconds ago is no reason to wait (RFC 9002, 6.2.1).
	 */
	if (lost_lately(destination, now)) {
		timeout = rtt->smoothed + 4 * rtt->variation;
		if (timeout < PROBE_TIMEOUT_LEAST)
			timeout = PROBE_TIMEOUT_LEAST;
	}
	atomic_store_explicit(&destination->probe_timeout, timeout, memory_order_relaxed);
	atomic_store_explicit(&destination->repeat_least,
			      lost_lately(destination, now) ? PROBE_TIMEOUT_LEAST
							    : REPEAT_TIMEOUT_LEAST,
			      memory_order_relaxed);
}

void destination_acked(struct destination *destination, uint64_t bytes, uint64_t sample,
		       bool ambiguous, uint64_t now)
{
	if (!bytes && !sample)
		return;
	pthread_mutex_lock(&destination->lock);
	if (sample && !(ambiguous && lost_lately(destination, now))) {
		rtt_sample(&destination->rtt, sample, now);
		update_timeouts(destination, now);
	}
	atomic_store_explicit(&destination->acked_at, now, memory_order_relaxed);
	cwnd_on_acked(&destination->cwnd, bytes, &destination->rtt, now);
	arbiter_wake(&destination->arbiter, &destination->cwnd);
	pthread_mutex_unlock(&destination->lock);
}

bool destination_acked_since(const struct destination *destination, uint64_t time)
{
	return atomic_load_explicit(&destination->acked_at, memory_order_relaxed) > time;
}

void destination_discard(struct destination *destination, uint64_t bytes)
{
	if (!bytes)
		return;
	pthread_mutex_lock(&destination->lock);
	cwnd_on_discarded(&destination->cwnd, bytes);
	arbiter_wake(&destination->arbiter, &destination->cwnd);
	pthread_mutex_unlock(&destination->lock);
}

uint32_t destination_lost(struct destination *destination, bool marked, uint64_t now)
{
	uint32_t reduction;

	pthread_mutex_lock(&destination->lock);
	if (!marked)
		destination->lost_at = now;
	reduction = cwnd_on_lost(&destination->cwnd, marked, &destination->rtt, now);
	if (destination->rtt.smoothed)
		update_timeouts(destination, now);
	pthread_mutex_unlock(&destination->lock);
	return reduction;
}

void destination_spurious(struct destination *destination, uint32_t reduction)
{
	pthread_mutex_lock(&destination->lock);
	cwnd_on_spurious(&destination->cwnd, reduction);
	arbiter_wake(&destination->arbiter, &destination->cwnd);
	pthread_mutex_unlock(&destination->lock);
}

uint64_t destination_limit(struct destination *destination)
{
	uint64_t limit;

	pthread_mutex_lock(&destination->lock);
	limit = destination->cwnd.size.limit;
	pthread_mutex_unlock(&destination->lock);
	return limit;
}

void destination_forget(struct destination *destination, struct arbiter_member *member)
{
	pthread_mutex_lock(&destination->lock);
	arbiter_forget(&destination->arbiter, member);
	pthread_mutex_unlock(&destination->lock);
}
