/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/xrc.h"

#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"

static bool select_number(struct qp *qp, uint32_t number)
{
	struct message *message = &qp->responder.message;
	struct table *srqs = &qp->hca->srqs;
	struct srq *srq;

	if (message->srq && message->srq->number == number)
		return true;
	xrc_release(qp);
	srq = table_get(srqs, number);
	if (srq && srq->xrcd->domain != qp->xrc_domain) {
		table_put(srqs, number);
		srq = NULL;
	}
	message->srq = srq;
	return srq;
}

enum responder_fault xrc_select(struct qp *qp, const struct packet *packet)
{
	struct message *message = &qp->responder.message;
	uint32_t number = packet_xrc_srq(packet);

	if (message->kind != MESSAGE_NONE && number != message->srq_number)
		return RESPONDER_FAULT_SEQUENCE;
	message->srq_number = number;
	if (select_number(qp, number))
		return RESPONDER_FAULT_NONE;
	return xrc_may_be_elsewhere(qp) ? RESPONDER_FAULT_ELSEWHERE : RESPONDER_FAULT_XRC;
}

void xrc_select_taken(struct qp *qp)
{
	select_number(qp, qp->responder.message.srq_number);
}

void xrc_release(struct qp *qp)
{
	struct message *message = &qp->responder.message;

	if (message->srq)
		table_put(&qp->hca->srqs, message->srq->number);
	message->srq = NULL;
}
