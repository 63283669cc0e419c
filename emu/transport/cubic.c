/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CUBIC, RFC 9438, with bytes for segments: slow start below ssthresh, above it a cubic function
 * of the time since the last reduction, and never less than Reno.
 */
#include <math.h>

#include "emu/transport/cwnd.h"
#include "emu/transport/rtt.h"
#include "net/clock.h"
#include "net/tuning.h"

#define CUBIC_C 0.4	       /* RFC 9438, 5.1: segments a second cubed */
#define CUBIC_BETA 0.7	       /* RFC 9438, 4.6 */
#define CUBIC_BETA_MARKED 0.85 /* RFC 8511: a mark comes earlier than a loss */
/*
 * RFC 9438, 4.3 has 0.53 below W_max, which gives a flow that loses packets at random as much as
 * Reno. But going back N retransmits a window for each of them.
 */
#define CUBIC_ALPHA 1.0

static void cubic_init(struct cwnd *cwnd)
{
	cwnd->size.cubic = (struct cubic){0};
}

/* RFC 9438, 4.2: the plateau is where the last reduction was, if we are still below it. */
static void cubic_begin_epoch(struct cwnd_size *size, uint64_t now)
{
	struct cubic *cubic = &size->cubic;
	double limit = size->limit;

	if (cubic->most < limit)
		cubic->most = limit;
	cubic->period = cbrt((cubic->most - limit) / CWND_SEGMENT / CUBIC_C);
	cubic->reno = limit;
	cubic->epoch = cubic->grown = now;
	cubic->epoch_began = true;
}

/* RFC 9438, 4.2: time in which the window wasn't used doesn't count. */
static void cubic_skip_pause(struct cubic *cubic, const struct rtt *rtt, uint64_t now)
{
	uint64_t pause = elapsed(cubic->grown, now);

	if (pause > 2 * rtt->smoothed)
		cubic->epoch += pause;
	cubic->grown = now;
}

static void cubic_on_acked(struct cwnd *cwnd, uint64_t bytes, const struct rtt *rtt, uint64_t now)
{
	struct cwnd_size *size = &cwnd->size;
	struct cubic *cubic = &size->cubic;
	double limit = size->limit, target, t;

	if (size->limit < size->ssthresh) {
		/* RFC 3742: to double a large window would send too much into a queue at once. */
		size->limit +=
			size->limit < CWND_LAN ? bytes : bytes * (CWND_LAN / 2) / size->limit;
		return;
	}
	if (!cubic->epoch_began)
		cubic_begin_epoch(size, now);
	cubic_skip_pause(cubic, rtt, now);
	/* RFC 9438, 4.2: where the window should be in a round trip, half as much again at most. */
	t = (elapsed(cubic->epoch, now) + rtt->smoothed) / 1e9 - cubic->period;
	target = cubic->most + CUBIC_C * t * t * t * CWND_SEGMENT;
	if (target > 1.5 * limit)
		target = 1.5 * limit;
	cubic->reno += CUBIC_ALPHA * CWND_SEGMENT * bytes / limit;
	if (target > limit)
		limit += (target - limit) / limit * bytes;
	if (cubic->reno > limit)
		limit = cubic->reno;
	size->limit = limit;
}

static void cubic_on_lost(struct cwnd *cwnd, bool marked)
{
	struct cwnd_size *size = &cwnd->size;
	double limit = size->limit;

	/* RFC 9438, 4.7: fast convergence makes room for a newcomer. */
	size->cubic.most = limit < size->cubic.most ? limit * (1 + CUBIC_BETA) / 2 : limit;
	size->cubic.epoch_began = false;
	size->limit = limit * (marked ? CUBIC_BETA_MARKED : CUBIC_BETA);
}

const struct cwnd_algorithm cwnd_cubic = {
	.init = cubic_init,
	.on_acked = cubic_on_acked,
	.on_lost = cubic_on_lost,
};
