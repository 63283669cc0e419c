/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target side of XRC (IBA Annex A14): a request names the SRQ whose memory, receives and
 * completion queue it is about. The SRQ is referenced while packets are being received, as pinned
 * memory is, and looked up again by its number afterwards. Under qp.lock; called by the
 * responder.
 */
#ifndef URXE_EMU_XRC_H
#define URXE_EMU_XRC_H

#include "emu/transport/message.h"

/*
 * The SRQ that @packet names becomes the message's. RESPONDER_FAULT_SEQUENCE: another one than that
 * of the message in progress. RESPONDER_FAULT_XRC: there is no such XRC SRQ in the QP's domain.
 * RESPONDER_FAULT_ELSEWHERE: not here, but it may be another process's.
 */
enum responder_fault xrc_select(struct qp *qp, const struct packet *packet);

/* The SRQ of the receive that the message has taken becomes its own again, if it is still there. */
void xrc_select_taken(struct qp *qp);

/* Drop the reference. */
void xrc_release(struct qp *qp);

#endif
