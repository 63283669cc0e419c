/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a request was refused: the fault that the responder found becomes a cause and a report of it
 * (net/cause/cause.h), which says what no NAK does. Called by the responder before the
 * message in progress or the QP changes, and by emu/receive.c for what it drops. Under qp.lock, if
 * there is a QP.
 */
#ifndef URXE_EMU_EXPLAIN_RESPONDER_H
#define URXE_EMU_EXPLAIN_RESPONDER_H

#include "emu/transport/message.h"
#include "net/cause/cause.h"

struct link_frame;
struct packet;
struct qp;
struct responder_resource;

/*
 * @packet is refused, and our application gets its receive with an error, or an event. Returns
 * the cause, for vendor_err.
 */
enum cause explain_fault(struct qp *qp, const struct packet *packet, enum responder_fault fault);

/* The answer to a READ can't be gone on with: its memory is refused (EACCES) or gone. */
void explain_answer(struct qp *qp, const struct responder_resource *resource);

/* @count receives are going to be flushed. */
void explain_receive_flush(const struct qp *qp, unsigned int count);

/* No application notices: no receive is posted, or the QP is unreliable. */
void explain_no_receive(struct qp *qp, const struct packet *packet);
void explain_drop(struct qp *qp, const struct packet *packet, enum responder_fault fault);
void explain_bad_qkey(struct qp *qp, const struct packet *packet);

/* @packet isn't even looked at, because of @cause, one of DROPPED_*. @qp NULL: there is none. */
void explain_ignored(const struct qp *qp, enum cause cause, const struct packet *packet,
		     const struct link_frame *frame);

#endif
