/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The round trip to a destination, measured: SRTT and RTTVAR as in RFC 6298, and how long to
 * wait before a probe asks for a missing answer (the PTO of RFC 9002, 6.2.1, and RFC 8985, 7.2).
 * Times are nanoseconds. Belongs to a destination (emu/transport/destination.h), under its lock.
 */
#ifndef URXE_EMU_RTT_H
#define URXE_EMU_RTT_H

#include <stdbool.h>
#include <stdint.h>

struct rtt {
	uint64_t smoothed;  /* SRTT; 0: nothing was measured yet */
	uint64_t variation; /* RTTVAR */
	/* The same without stalls: a sample counts for twice the mean at most. */
	uint64_t typical, typical_variation;
	uint64_t least;
	uint64_t least_at; /* when a sample was about as short */
	/* It is measured anew until then, for the path may have become longer; 0: it isn't. */
	uint64_t anew_until, anew;
	/*
	 * The least of the latest RTT_RECENT samples or more: without it scheduling looks like a
	 * queue.
	 */
	uint64_t recent_least[2]; /* of the current ones and of those before */
	uint32_t recent_count;
	/*
	 * The longest of the current period and of the one before. A peer that is a process is
	 * not scheduled for milliseconds now and then, which an average forgets at once.
	 */
	uint64_t longest[2];
	uint64_t period_began;
};

/* @sample: from a packet that was sent once (Karn's rule, RFC 6298, 3) to its answer. */
void rtt_sample(struct rtt *rtt, uint64_t sample, uint64_t now);

/*
 * Whether the least was measured so long ago that it says nothing any more. Then it is measured
 * anew, by the samples up to rtt.anew_until: the queues on the path should be empty meanwhile.
 */
bool rtt_measure_anew(struct rtt *rtt, uint64_t now);

/* The least of the latest samples. */
uint64_t rtt_recent_least(const struct rtt *rtt);

/* Whether packets wait in queues for longer than they travel. */
bool rtt_queueing(const struct rtt *rtt);

/* Nearly every answer comes within this time (RFC 9002, 6.2.1), which is @least or more. */
uint64_t rtt_timeout(const struct rtt *rtt, uint64_t least);
/*
 * The same while the peer gets the CPU whenever it wants it. At least half a round trip more than
 * the mean: where all take as long, a probe would leave just when the answer comes.
 */
uint64_t rtt_typical_timeout(const struct rtt *rtt, uint64_t least);

/* From the last sign of the peer to the first probe: at least twice the longest round trip. */
uint64_t rtt_probe_timeout(const struct rtt *rtt, uint64_t least);

#endif
