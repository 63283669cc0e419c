/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/arbiter.h"

#include <utlist.h>

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "emu/transport/cwnd.h"
#include "net/tuning.h"

/* A queue pair that found too little space this often goes before those that need less. */
#define ARBITER_SKIPPED_MOST 8

static bool arbiter_is_starving(const struct arbiter_member *member)
{
	return member->skipped >= ARBITER_SKIPPED_MOST;
}

static void arbiter_remove(struct arbiter *arbiter, struct arbiter_member *member)
{
	member->waiting = false;
	member->woken = false;
	arbiter->waiting--;
	DL_DELETE(arbiter->head, member);
}

/* One that has been woken in vain keeps its place. */
void arbiter_wait(struct arbiter *arbiter, struct arbiter_member *member)
{
	bool starving = arbiter_is_starving(member);

	member->woken = false;
	if (member->waiting && !starving)
		return;
	if (member->waiting)
		arbiter_remove(arbiter, member);
	member->waiting = true;
	arbiter->waiting++;
	if (starving)
		DL_PREPEND(arbiter->head, member);
	else
		DL_APPEND(arbiter->head, member);
}

/* How many wait beside @member. */
static uint32_t arbiter_others(const struct arbiter *arbiter, const struct arbiter_member *member)
{
	return arbiter->waiting - member->waiting;
}

/*
 * While others wait, a queue pair that has its share already waits too: the one that gets an
 * acknowledgement runs at once, and would keep the window to itself.
 */
static uint64_t arbiter_share(const struct arbiter *arbiter, const struct cwnd *cwnd,
			      const struct arbiter_member *member)
{
	return cwnd->size.limit / (arbiter_others(arbiter, member) + 1);
}

static bool arbiter_may_send(const struct arbiter *arbiter, const struct cwnd *cwnd,
			     const struct arbiter_member *member, uint64_t cost)
{
	if (!cwnd_may_send(cwnd, cost))
		return false;
	if (!arbiter_others(arbiter, member) || !cwnd->in_flight)
		return true;
	/* Let the window drain until the starving one, which needs most space, has it. */
	if (arbiter_is_starving(arbiter->head) && !arbiter_is_starving(member))
		return false;
	return member->in_flight < arbiter_share(arbiter, cwnd, member);
}

/* Packets of @cost between @used and @limit; one, if the limit is reached. */
static uint64_t packets_up_to(uint64_t limit, uint64_t used, uint64_t cost)
{
	return used + cost < limit ? (limit - used) / cost : 1;
}

static uint32_t arbiter_fit(const struct arbiter *arbiter, const struct cwnd *cwnd,
			    const struct arbiter_member *member, uint64_t cost, uint32_t count)
{
	uint64_t share = arbiter_share(arbiter, cwnd, member), fit, fair;
	uint64_t burst = share / CWND_BURST_FRACTION;

	if (!arbiter_may_send(arbiter, cwnd, member, cost))
		return 0;
	fit = packets_up_to(cwnd->size.limit, cwnd->in_flight, cost);
	fair = packets_up_to(share, member->in_flight, cost);
	if (arbiter_others(arbiter, member) && fit > fair)
		fit = fair;
	/* What it has in flight will be acknowledged: it pays to wait for more space. */
	if (fit < count && member->in_flight && fit * cost < burst && fit * cost < CWND_BURST_MOST)
		return 0;
	return fit < count ? fit : count;
}

uint32_t arbiter_grant(struct arbiter *arbiter, const struct cwnd *cwnd,
		       struct arbiter_member *member, uint64_t cost, uint32_t count)
{
	uint32_t fit = arbiter_fit(arbiter, cwnd, member, cost, count);

	member->window = cwnd->size.limit;
	member->alone = arbiter_others(arbiter, member) == 0;
	if (fit) {
		arbiter_forget(arbiter, member);
		return fit;
	}
	if (!cwnd_may_send(cwnd, cost) && !arbiter_is_starving(member))
		member->skipped++;
	arbiter_wait(arbiter, member);
	return 0;
}

/*
 * As many QPs as packets fit into the window, since each may send one. A QP that is woken need not
 * send anything: so when nothing is in flight, and no acknowledgement would wake the others, all
 * are woken. They stay in the queue until they have run: else the first one would take what is
 * meant for all, and be in front again.
 */
void arbiter_wake(struct arbiter *arbiter, const struct cwnd *cwnd)
{
	struct arbiter_member *member;
	uint64_t space = 0;

	if (cwnd->in_flight < cwnd->size.limit)
		space = cwnd->size.limit - cwnd->in_flight;
	DL_FOREACH (arbiter->head, member) {
		if (cwnd->in_flight && space < CWND_SEGMENT)
			return;
		space = space > CWND_SEGMENT ? space - CWND_SEGMENT : 0;
		/* Before it is scheduled: it may run at once, and sees by this that it waited. */
		if (!atomic_exchange_explicit(&member->woken, true, memory_order_relaxed))
			hca_schedule(member->qp->hca, member->qp);
	}
}

void arbiter_forget(struct arbiter *arbiter, struct arbiter_member *member)
{
	member->skipped = 0;
	if (member->waiting)
		arbiter_remove(arbiter, member);
}
