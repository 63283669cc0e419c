/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/cwnd.h"

#include "emu/transport/rtt.h"
#include "net/clock.h"
#include "net/minmax.h"
#include "net/tuning.h"

void cwnd_init(struct cwnd *cwnd, const struct cwnd_algorithm *algorithm)
{
	*cwnd = (struct cwnd){
		.algorithm = algorithm,
		.size = {.limit = CWND_INITIAL, .ssthresh = UINT64_MAX},
		.most = CWND_MOST,
	};
	algorithm->init(cwnd);
}

void cwnd_bound(struct cwnd *cwnd, uint64_t most)
{
	cwnd->most = min_u64(cwnd->most, most);
	cwnd->size.limit = min_u64(cwnd->size.limit, most);
	cwnd->before.limit = min_u64(cwnd->before.limit, most);
}

bool cwnd_may_send(const struct cwnd *cwnd, uint64_t bytes)
{
	uint64_t limit = cwnd->size.limit, half = limit / 2;

	return !cwnd->in_flight || cwnd->in_flight + bytes <= limit ||
	       (bytes > half && cwnd->in_flight <= half);
}

void cwnd_on_sent(struct cwnd *cwnd, uint64_t bytes)
{
	cwnd->in_flight += bytes;
}

void cwnd_on_discarded(struct cwnd *cwnd, uint64_t bytes)
{
	cwnd->in_flight -= bytes < cwnd->in_flight ? bytes : cwnd->in_flight;
}

/*
 * Beyond what a LAN can use, a window only grows while it isn't what makes the round trip long:
 * more would wait in queues, and go back N retransmits all of it after a loss (IBA 9.7.5.1.2).
 */
static bool cwnd_may_grow(const struct cwnd *cwnd, const struct rtt *rtt)
{
	return cwnd->size.limit < CWND_LAN || !rtt_queueing(rtt);
}

static void grow(struct cwnd *cwnd, uint64_t bytes, const struct rtt *rtt, uint64_t now)
{
	cwnd->algorithm->on_acked(cwnd, bytes, rtt, now);
	cwnd_bound(cwnd, cwnd->most);
}

void cwnd_on_acked(struct cwnd *cwnd, uint64_t bytes, const struct rtt *rtt, uint64_t now)
{
	/* RFC 7661: a window that isn't used says nothing about its size. */
	if (cwnd->in_flight >= cwnd->size.limit / 2 && now >= cwnd->grows_at &&
	    cwnd_may_grow(cwnd, rtt))
		grow(cwnd, bytes, rtt, now);
	cwnd_on_discarded(cwnd, bytes);
}

/* What a reduction leaves at the least. */
static uint64_t least_after(const struct cwnd *cwnd, enum cwnd_loss loss, const struct rtt *rtt)
{
	if (loss != CWND_LOST_ONE || rtt->smoothed > CWND_SHORT_ROUND)
		return CWND_LEAST;
	return min_u64(cwnd->before.limit, CWND_SHORT_LEAST);
}

static void reduce(struct cwnd *cwnd, enum cwnd_loss loss, const struct rtt *rtt)
{
	uint64_t least = least_after(cwnd, loss, rtt);

	cwnd->algorithm->on_lost(cwnd, loss == CWND_MARKED);
	if (cwnd->size.limit < least)
		cwnd->size.limit = least;
	cwnd->size.ssthresh = cwnd->size.limit;
	cwnd->reduced_for = loss;
}

uint32_t cwnd_on_lost(struct cwnd *cwnd, enum cwnd_loss loss, const struct rtt *rtt, uint64_t now)
{
	uint64_t round = rtt->smoothed > CWND_ROUND_LEAST ? rtt->smoothed : CWND_ROUND_LEAST;

	if (cwnd->reductions && !cwnd->restored && elapsed(cwnd->reduced_at, now) < round) {
		if (loss != CWND_LOST_MANY)
			return 0;
		if (cwnd->reduced_for != CWND_LOST_ONE)
			return cwnd->reductions;
		cwnd->size = cwnd->before; /* it wasn't by chance */
		reduce(cwnd, loss, rtt);
		return ++cwnd->reductions;
	}
	cwnd->before = cwnd->size;
	cwnd->reduced_at = now;
	cwnd->restored = false;
	reduce(cwnd, loss, rtt);
	return ++cwnd->reductions;
}

void cwnd_on_spurious(struct cwnd *cwnd, uint32_t number)
{
	/* A mark was right, whatever is lost or not. */
	if (number != cwnd->reductions || cwnd->reduced_for == CWND_MARKED)
		return;
	cwnd->restored = true;
	if (cwnd->before.limit > cwnd->size.limit)
		cwnd->size = cwnd->before;
}

/* By slow start from @limit, up to what was reached; while it opens already, to that aim. */
static void reopen(struct cwnd *cwnd, uint64_t limit)
{
	if (cwnd->size.limit >= cwnd->size.ssthresh)
		cwnd->size.ssthresh = cwnd->size.limit;
	cwnd->size.limit = min_u64(cwnd->size.limit, limit);
}

void cwnd_drain(struct cwnd *cwnd, uint64_t until)
{
	if (cwnd->in_flight < cwnd->size.limit / 2)
		return;
	reopen(cwnd, max_u64(cwnd->size.limit / CWND_DRAIN_FRACTION, CWND_LEAST));
	cwnd->grows_at = until;
}

void cwnd_on_restart(struct cwnd *cwnd, const struct rtt *rtt)
{
	uint64_t limit = cwnd->in_flight + CWND_INITIAL;

	if (rtt->least <= CWND_ROUND_LEAST || cwnd->size.limit <= limit)
		return;
	/* Others have gone back before, for the same losses: what was reached then is the aim. */
	reopen(cwnd, limit);
}
