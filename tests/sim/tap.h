/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tap between an HCA and its link: it looks at every packet of the reliable connections that it
 * is told of, in both directions, and asserts what must be true of them whatever the network does
 * and whatever the peer is (IBA 9.7). What it can see on the wire it judges by that alone; where
 * the specification names the QP's state (the expected PSN) it looks there.
 *
 * Of requests that the HCA sends:
 *   - PSNs go up without a gap, and opcodes make messages (9.7.2, 9.7.4.1.2)
 *   - what is sent again is what was sent before, byte for byte; a READ asks again for a part of
 *     one request, as PSNs say (9.7.5.1.3)
 *   - nothing that was acknowledged is sent again
 * Of responses that it sends:
 *   - nothing is acknowledged that didn't arrive, nothing is taken back (9.7.5.1.2)
 *   - a sequence error is reported once, of the packet that is expected (9.7.5.2.3)
 *   - READs and atomics are answered in order, and before anything behind them is acknowledged;
 *     the responses of a READ follow each other (9.7.5.1.4)
 *
 * It can lose packets in bursts, which the simulator can't.
 */
#ifndef URXE_TESTS_SIM_TAP_H
#define URXE_TESTS_SIM_TAP_H

#include "world.h"

struct tap;

struct tap_options {
	double burst;	     /* probability that a packet is the first that is lost for a while */
	uint64_t burst_time; /* the longest while, ns */
	/*
	 * What arrives is taken: the node always has receives posted, and keeps what comes early.
	 */
	bool keeps;
};

struct tap *tap_create(struct node *node, const struct tap_options *options);
/* After its HCA's QPs are destroyed. */
void tap_destroy(struct tap *tap);

/* @qp has been connected, or connected anew: what it sent before is forgotten. */
void tap_connected(struct tap *tap, struct qp *qp);

/* How often the oldest packet of @qp was sent, since all before it was acknowledged. */
unsigned int tap_attempts(struct tap *tap, const struct qp *qp);

struct tap_statistics {
	uint64_t requests, repeated; /* packets */
	uint64_t naks, acks, responses;
	uint64_t lost; /* in bursts */
};
const struct tap_statistics *tap_statistics(const struct tap *tap);

#endif
