/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explicit congestion notification of reliable queue pairs (RFC 3168, Annex A17.9): packets leave
 * as capable of it (ECT(0)); one that a queue on the way has marked (CE) is answered with a
 * congestion notification packet (CNP) to the queue pair that sent it, which then reduces its
 * congestion window, before anything is lost.
 *
 * Called by emu/receive.c for the packets that come in and by emu/objects/qp.c to send, under
 * qp.lock, which protects the state: it belongs to the QP.
 */
#ifndef URXE_EMU_ECN_H
#define URXE_EMU_ECN_H

#include <stdbool.h>
#include <stdint.h>

#include "net/wire/wire.h"

struct qp;
struct outbox;

struct ecn {
	bool cnp_pending;
	uint64_t cnp_after; /* no other one before */
};

/* The DSCP is the application's, the ECN bits are ours. */
static inline uint8_t ecn_capable(uint8_t traffic_class)
{
	return (traffic_class & ~ECN_MASK) | ECN_ECT0;
}

/* A packet with a CE mark, which passed the checks of qp_receive(). */
void ecn_on_marked(struct qp *qp, const struct packet *packet, uint64_t now);

/* A CNP from the peer. */
void ecn_on_cnp(struct qp *qp, uint64_t now);

/* Send the CNP that is pending, if there is one. */
void ecn_run(struct qp *qp, struct outbox *outbox);

#endif
