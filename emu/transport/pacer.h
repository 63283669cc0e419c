/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pacer: spreads what the congestion window lets out over the round trip (RFC 9002, 7.7), where
 * that is long enough to matter. A window that opens at once leaves at the speed of the host's own
 * link, and a queue on the path that holds less than that overflows. For UC and UD, which have no
 * window, see emu/transport/pacing.h.
 *
 * Belongs to a destination (emu/transport/destination.h), under its lock.
 */
#ifndef URXE_EMU_PACER_H
#define URXE_EMU_PACER_H

#include <stdint.h>

struct cwnd;
struct rtt;

struct pacer {
	uint64_t drained; /* when all that was sent has drained at the paced rate, ns */
};

/* When to ask again, ns; 0: send now. */
uint64_t pacer_wait(struct pacer *pacer, const struct cwnd *cwnd, const struct rtt *rtt,
		    uint64_t now);
void pacer_on_sent(struct pacer *pacer, const struct cwnd *cwnd, const struct rtt *rtt,
		   uint64_t bytes, uint64_t now);

#endif
