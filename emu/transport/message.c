/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/message.h"

#include "emu/objects/cq.h"
#include "emu/objects/mw.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/transport/sge.h"

enum fault message_check_sequence(const struct qp *qp, const struct packet *packet)
{
	static const enum message_in_progress continues[] = {
		[OPCODE_SEND] = MESSAGE_SEND,
		[OPCODE_WRITE] = MESSAGE_WRITE,
	};
	unsigned int kind = packet->op->flags & (OPCODE_SEND | OPCODE_WRITE);
	enum message_in_progress expected =
		packet->op->flags & OPCODE_FIRST || !kind ? MESSAGE_NONE : continues[kind];

	return qp->responder.message == expected ? FAULT_NONE : FAULT_SEQUENCE;
}

enum fault message_check_length(const struct qp *qp, const struct packet *packet)
{
	uint32_t length = packet->payload_length;
	bool ok = true;

	switch (packet->op->payload) {
	case PAYLOAD_NONE:
		ok = length == 0;
		break;
	case PAYLOAD_FULL:
		ok = length == qp->mtu;
		break;
	case PAYLOAD_SOME:
		ok = length >= 1 && length <= qp->mtu;
		break;
	case PAYLOAD_UPTO:
		ok = length <= qp->mtu;
		break;
	}
	return ok && packet->pad == pad_length(length) ? FAULT_NONE : FAULT_LENGTH;
}

enum fault message_take_receive(struct qp *qp)
{
	struct responder *resp = &qp->responder;

	if (resp->wqe_taken)
		return FAULT_NONE;
	resp->wqe_taken = qp->srq ? srq_pop(qp->srq, &resp->wqe, resp->sges)
				  : receive_queue_pop(&qp->rq, &resp->wqe, resp->sges);
	return resp->wqe_taken ? FAULT_NONE : FAULT_NO_RECEIVE;
}

const struct pd *message_receive_pd(const struct qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}

static enum fault place_send(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;

	if (resp->received + packet->payload_length > resp->wqe.length)
		return FAULT_RECEIVE_LENGTH;
	if (sge_scatter(qp->hca, message_receive_pd(qp), resp->wqe.sge, resp->wqe.num_sge,
			resp->received, packet->payload, packet->payload_length) != 0)
		return FAULT_RECEIVE_KEY;
	return FAULT_NONE;
}

void message_unpin(struct qp *qp)
{
	struct mr_pin *pin = &qp->responder.write_pin;

	if (pin->address)
		mr_unpin(qp->hca, pin);
	pin->address = NULL;
}

static int pin_write(struct qp *qp)
{
	struct responder *resp = &qp->responder;
	struct mr_pin *pin = &resp->write_pin;
	uint8_t *address = NULL;
	int error;

	/* Of the write before: writes tend to go to the same region. */
	if (pin->address)
		address = mr_pinned(pin, qp->pd, qp, resp->write_rkey, resp->write_va,
				    resp->write_length, IBV_ACCESS_REMOTE_WRITE);
	if (address) {
		pin->address = address;
		return 0;
	}
	message_unpin(qp);
	error = mr_pin_remote(qp, resp->write_rkey, resp->write_va, resp->write_length,
			      IBV_ACCESS_REMOTE_WRITE, pin);
	if (error)
		pin->address = NULL;
	return error;
}

static enum fault place_write(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	uint32_t length = packet->payload_length;

	if (resp->received + length > resp->write_length)
		return FAULT_LENGTH;
	if ((packet->op->flags & OPCODE_LAST) && resp->received + length != resp->write_length)
		return FAULT_LENGTH;
	if (length == 0)
		return FAULT_NONE; /* IBA 9.7.4.1.5: no key is checked for nothing */
	if (!resp->write_pin.address && pin_write(qp) != 0)
		return FAULT_KEY;
	memcpy(resp->write_pin.address + resp->received, packet->payload, length);
	return FAULT_NONE;
}

/* The whole range is checked before the first byte is written, IBA 9.7.4.1.5. */
static enum fault begin_write(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	const struct reth *reth = packet_reth(packet);

	resp->write_va = be64toh(reth->va);
	resp->write_rkey = be32toh(reth->rkey);
	resp->write_length = be32toh(reth->length);
	if (resp->write_length > WIRE_MESSAGE_MAX)
		return FAULT_LENGTH;
	if (resp->write_length == 0)
		return FAULT_NONE;
	return pin_write(qp) == 0 ? FAULT_NONE : FAULT_KEY;
}

enum fault message_place(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	bool send = packet->op->flags & OPCODE_SEND;
	enum fault fault = FAULT_NONE;

	if (packet->op->flags & OPCODE_FIRST) {
		resp->received = 0;
		if (!send)
			fault = begin_write(qp, packet);
	}
	if (fault == FAULT_NONE)
		fault = send ? place_send(qp, packet) : place_write(qp, packet);
	if (fault != FAULT_NONE)
		return fault;
	if (packet->op->flags & OPCODE_INVALIDATE)
		message_unpin(qp); /* which waits until nobody holds the window */
	/* Before the acknowledgement, so that the requester learns of a failure (IBA 10.6.5.2). */
	if ((packet->op->flags & OPCODE_INVALIDATE) &&
	    mw_invalidate(qp, packet_invalidate_rkey(packet)) != 0)
		return FAULT_INVALIDATE;
	resp->received += packet->payload_length;
	resp->message = send ? MESSAGE_SEND : MESSAGE_WRITE;
	return FAULT_NONE;
}

void message_end(struct qp *qp)
{
	qp->responder.message = MESSAGE_NONE;
	qp->responder.received = 0;
}

static void push(struct qp *qp, struct ibv_wc *wc, bool solicited)
{
	qp->responder.wqe_taken = false;
	wc->wr_id = qp->responder.wqe.wr_id;
	wc->qp_num = qp->number;
	message_end(qp);
	COUNT(qp->hca, rdma_recvs, 1);
	qp_complete(qp, qp->recv_cq, wc, 0, solicited);
}

void message_complete(struct qp *qp, const struct packet *packet)
{
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode =
			packet->op->flags & OPCODE_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = qp->responder.received,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (packet->op->flags & OPCODE_IMMEDIATE) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = packet_immediate(packet);
	}
	if (packet->op->flags & OPCODE_INVALIDATE) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = packet_invalidate_rkey(packet);
	}
	if (!qp->type->connected) {
		wc.wc_flags |= IBV_WC_GRH; /* RoCE: always, Annex A17.4.3 */
		wc.src_qp = be32toh(packet_deth(packet)->source_qp) & QPN_MASK;
		wc.sl = qp->responder.received_kind;
	}
	push(qp, &wc, packet->solicited);
}

void message_fail(struct qp *qp, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.status = status, .opcode = IBV_WC_RECV};

	if (qp->responder.wqe_taken)
		push(qp, &wc, false);
	message_end(qp);
}
