/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains that processes of a node share: a request comes to the process that has the XRC_RECV
 * QP, the target, and names an SRQ of another one, the owner. The target stays the responder, of
 * PSNs and acknowledgements; it has each such packet placed by the owner, one at a time, and
 * goes on when the owner has said how it went. Meanwhile the QP's packets are deferred
 * (emu/deferred.h), the one in question first. What is lost between the two is asked again; the
 * owner knows by a sequence number what it has placed.
 *
 * At the owner a QP that is in no table, its delegate, has the receive context of the target's.
 * What has to be answered with data (READ, atomics, FLUSH, ATOMIC WRITE) isn't placed elsewhere.
 *
 * A target's state is under qp.lock; delegates belong to the thread that receives
 * (hca.receive_lock). Called by the responder, and by emu/receive.c.
 */
#ifndef URXE_EMU_XRC_REMOTE_H
#define URXE_EMU_XRC_REMOTE_H

#include "emu/transport/message.h"
#include "net/link.h"

struct xrc_remote {
	uint32_t sequence; /* of what was asked last; goes on when the QP is reset */
	uint32_t psn;	   /* of the packet that it was about */
	bool asked, answered;
	bool waits;    /* the packet that was received last does, and is to be deferred */
	uint8_t fault; /* enum responder_fault: the answer */
	uint64_t asked_at;
};

/*
 * @remote is that of a new QP with @handle. Its sequence begins elsewhere than that of an earlier
 * QP with the same number, in this process or in another one.
 */
void xrc_remote_init(struct xrc_remote *remote, const struct hca *hca, uint32_t handle);
void xrc_remote_reset(struct xrc_remote *remote);

/* Whether an SRQ that isn't ours may be another process's, for @qp. */
bool xrc_may_be_elsewhere(const struct qp *qp);

/*
 * Have @packet placed by the process whose SRQ it names. RESPONDER_FAULT_WAIT until that is done,
 * then its outcome; RESPONDER_FAULT_XRC when there is no such process.
 */
enum responder_fault xrc_place_elsewhere(struct qp *qp, const struct packet *packet, uint64_t now);

/*
 * @qp is flushed or reset: have a receive that the message in progress took of another process's
 * SRQ completed there as flushed. Before that message is forgotten here.
 */
void xrc_give_up_elsewhere(struct qp *qp);

/* A message of another process's HCA. */
void xrc_on_message(struct hca *hca, const struct link_frame *frame, uint64_t now);

void xrc_delegates_destroy(struct hca *hca);

#endif
