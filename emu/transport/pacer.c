/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/pacer.h"

#include "emu/transport/cwnd.h"
#include "emu/transport/rtt.h"
#include "net/clock.h"
#include "net/tuning.h"

static bool is_long(const struct rtt *rtt)
{
	return rtt->least > CWND_ROUND_LEAST && rtt->least < PACER_ROUND_MOST;
}

/*
 * How long @bytes take. Somewhat faster than they are acknowledged, so that it is the window that
 * bounds what is in flight; and twice as fast in slow start, where the window doubles meanwhile.
 * Of the shortest round trip: what a busy peer takes beyond that isn't the path's.
 */
static uint64_t time_of(uint64_t bytes, const struct cwnd *cwnd, const struct rtt *rtt)
{
	double time = (double)bytes / cwnd->size.limit * rtt->least;

	return cwnd->size.limit < cwnd->size.ssthresh ? time / 2 : time / PACER_GAIN;
}

static uint64_t slack(const struct rtt *rtt)
{
	return rtt->least / PACER_FRACTION;
}

/*
 * What may leave at once, as the time that it takes to drain: the more, the fewer calls and
 * wake-ups there are; the less, the shorter the queues on the way.
 */
static uint64_t burst(const struct cwnd *cwnd, const struct rtt *rtt)
{
	return later(earlier(slack(rtt), PACER_BURST_MOST), time_of(CWND_INITIAL, cwnd, rtt));
}

uint64_t pacer_wait(struct pacer *pacer, const struct cwnd *cwnd, const struct rtt *rtt,
		    uint64_t now)
{
	if (!is_long(rtt))
		return 0;
	/* The round trip may have been taken for a longer one. */
	pacer->drained = earlier(pacer->drained, now + rtt->least);
	return pacer->drained > now + burst(cwnd, rtt) ? pacer->drained : 0;
}

void pacer_on_sent(struct pacer *pacer, const struct cwnd *cwnd, const struct rtt *rtt,
		   uint64_t bytes, uint64_t now)
{
	if (!is_long(rtt))
		return;
	if (pacer->drained + slack(rtt) < now)
		pacer->drained = now - slack(rtt);
	pacer->drained += time_of(bytes, cwnd, rtt);
}
