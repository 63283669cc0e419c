/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets in: from the link's frames to the responder or the completer of the QP that they
 * are for. Here are the checks whose failure is silent (IBA 9.6.1);
 * everything behind them is the QP's. Called in a round of the HCA (emu/hca.h), by the thread that
 * has hca.receive_lock.
 */
#ifndef URXE_EMU_RECEIVE_H
#define URXE_EMU_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"

struct hca;
struct qp;

/* What the link has. Returns whether it had anything. */
bool receive_frames(struct hca *hca, uint64_t now);

/*
 * A packet for this QP; locks it. The caller has a reference to it, and may be emu/objects/mcast.c,
 * for each member of a group. Schedules the QP when something is pending or can be sent.
 */
void qp_receive(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
		uint64_t now);

#endif
