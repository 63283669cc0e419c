/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/rtt.h"

#include "net/clock.h"
#include "net/tuning.h"

static void rtt_note_longest(struct rtt *rtt, uint64_t sample, uint64_t now)
{
	uint64_t period = elapsed(rtt->period_began, now);

	if (period >= RTT_PERIOD) {
		/* After a pause of two periods the earlier one says nothing any more. */
		rtt->longest[1] = period < 2 * RTT_PERIOD ? rtt->longest[0] : 0;
		rtt->longest[0] = 0;
		rtt->period_began = now;
	}
	rtt->longest[0] = later(rtt->longest[0], sample);
}

static void rtt_note_recent(struct rtt *rtt, uint64_t sample)
{
	if (rtt->recent_count == RTT_RECENT || rtt->smoothed == 0) {
		rtt->recent_least[1] = rtt->smoothed == 0 ? sample : rtt->recent_least[0];
		rtt->recent_least[0] = sample;
		rtt->recent_count = 0;
	}
	if (sample < rtt->recent_least[0])
		rtt->recent_least[0] = sample;
	rtt->recent_count++;
}

static void rtt_note_least(struct rtt *rtt, uint64_t sample, uint64_t now)
{
	if (sample <= rtt->least + rtt->least / 8) {
		rtt->least = earlier(rtt->least, sample);
		rtt->least_at = now;
		rtt->anew_until = 0;
		return;
	}
	rtt->anew = earlier(rtt->anew, sample);
	if (!rtt->anew_until || now < rtt->anew_until)
		return;
	rtt->least = rtt->anew;
	rtt->least_at = now;
	rtt->anew_until = 0;
}

/* RFC 6298, 2.3: alpha 1/8, beta 1/4. */
static void average(uint64_t *mean, uint64_t *variation, uint64_t sample)
{
	uint64_t deviation = sample > *mean ? sample - *mean : *mean - sample;

	*variation = (3 * *variation + deviation) / 4;
	*mean = (7 * *mean + sample) / 8;
}

void rtt_sample(struct rtt *rtt, uint64_t sample, uint64_t now)
{
	if (sample == 0)
		sample = 1; /* a simulated network may have no latency; 0 is "not measured" */
	rtt_note_longest(rtt, sample, now);
	rtt_note_recent(rtt, sample);
	if (rtt->smoothed == 0) { /* RFC 6298, 2.2 */
		rtt->smoothed = rtt->typical = rtt->least = sample;
		rtt->least_at = now;
		rtt->variation = rtt->typical_variation = sample / 2;
		return;
	}
	rtt_note_least(rtt, sample, now);
	average(&rtt->smoothed, &rtt->variation, sample);
	average(&rtt->typical, &rtt->typical_variation,
		sample < 2 * rtt->typical ? sample : 2 * rtt->typical);
}

/*
 * For RTT_LEAST_ROUNDS: by then the queues on the way are empty, and what was sent into them
 * earlier has been answered.
 */
bool rtt_measure_anew(struct rtt *rtt, uint64_t now)
{
	if (rtt->anew_until || elapsed(rtt->least_at, now) < RTT_LEAST_PERIOD ||
	    rtt_recent_least(rtt) <= CWND_ROUND_LEAST)
		return false;
	rtt->anew = UINT64_MAX;
	rtt->anew_until = now + RTT_LEAST_ROUNDS * rtt->smoothed;
	return true;
}

uint64_t rtt_recent_least(const struct rtt *rtt)
{
	const uint64_t *recent = rtt->recent_least;

	return recent[0] < recent[1] ? recent[0] : recent[1];
}

bool rtt_queueing(const struct rtt *rtt)
{
	return rtt_recent_least(rtt) >= 2 * rtt->least;
}

uint64_t rtt_timeout(const struct rtt *rtt, uint64_t least)
{
	return later(rtt->smoothed + 4 * rtt->variation, least);
}

uint64_t rtt_typical_timeout(const struct rtt *rtt, uint64_t least)
{
	return later(rtt->typical + later(4 * rtt->typical_variation, rtt->typical / 2), least);
}

uint64_t rtt_probe_timeout(const struct rtt *rtt, uint64_t least)
{
	return later(rtt_timeout(rtt, least), 2 * later(rtt->longest[0], rtt->longest[1]));
}
