/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/message.h"

#include <stdlib.h>

#include "emu/objects/mr.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/transport/placement.h"

int message_init(struct message *message, uint32_t max_sge)
{
	*message = (struct message){0};
	message->sges = calloc(max_sge ? max_sge : 1, sizeof(*message->sges));
	return message->sges ? 0 : ENOMEM;
}

void message_destroy(struct message *message)
{
	free(message->sges);
}

void message_reset(struct message *message)
{
	*message = (struct message){.sges = message->sges};
}

bool message_continues(const struct message *message, const struct packet *packet)
{
	static const enum message_kind continued[] = {
		[OPCODE_SEND] = MESSAGE_SEND,
		[OPCODE_WRITE] = MESSAGE_WRITE,
	};
	unsigned int kind = packet->op->flags & (OPCODE_SEND | OPCODE_WRITE);

	return message->kind ==
	       (packet->op->flags & OPCODE_FIRST || !kind ? MESSAGE_NONE : continued[kind]);
}

/* Where the messages of @qp find receives, or NULL: in its receive queue. */
static struct srq *message_srq(const struct message *message, const struct qp *qp)
{
	return qp->srq ? qp->srq : message->srq;
}

/* Annex A14: all that a request of XRC names is its SRQ's. */
const struct pd *message_pd(const struct message *message, const struct qp *qp)
{
	return message->srq ? message->srq->pd : qp->pd;
}

/* An SRQ has a protection domain of its own (IBA 10.2.9.1). */
const struct pd *message_receive_pd(const struct message *message, const struct qp *qp)
{
	const struct srq *srq = message_srq(message, qp);

	return srq ? srq->pd : qp->pd;
}

bool message_take_receive(struct message *message, struct qp *qp)
{
	struct srq *srq = message_srq(message, qp);

	message->has_receive = srq ? srq_pop(srq, &message->wqe, message->sges)
				   : receive_queue_pop(&qp->rq, &message->wqe, message->sges);
	if (message->has_receive)
		WATCH(qp->hca, receive_taken, qp, srq);
	return message->has_receive;
}

/* --- memory ------------------------------------------------------------------- */

uint8_t *message_remote_memory(struct message *message, const struct qp *qp, uint32_t rkey,
			       uint64_t va, uint64_t length, int access)
{
	return mr_repin(qp->hca, &message->pin, message_pd(message, qp), qp, rkey, va, length,
			access);
}

bool message_remote_allowed(const struct qp *qp, uint32_t rkey, int access)
{
	return mr_allows(qp->hca, message_pd(&qp->responder.message, qp), qp, rkey, access);
}

bool message_nothing_allowed(const struct qp *qp, uint32_t rkey, int access)
{
	return !qp->hca->behaviour.zero_length_checks_rkey ||
	       message_remote_allowed(qp, rkey, access);
}

void message_unpin(struct message *message, struct hca *hca)
{
	mr_unpin_kept(hca, &message->pin);
}

static enum responder_fault scatter_message(struct message *message, const struct qp *qp,
					    uint64_t offset, const void *data, uint32_t length)
{
	const struct pd *pd = message_receive_pd(message, qp);

	if (offset + length > message->wqe.length)
		return RESPONDER_FAULT_RECEIVE_LENGTH;
	if (qp->hca->placement)
		return placement_scatter(qp, pd, message->wqe.sge, message->wqe.num_sge, offset,
					 data, length)
			       ? RESPONDER_FAULT_RECEIVE_KEY
			       : RESPONDER_FAULT_NONE;
	if (sge_scatter(qp->hca, pd, message->wqe.sge, message->wqe.num_sge, offset, data, length,
			&message->pin) != 0)
		return RESPONDER_FAULT_RECEIVE_KEY;
	return RESPONDER_FAULT_NONE;
}

/* --- SEND and RDMA WRITE ------------------------------------------------------- */

static void message_begin(struct message *message, const struct packet *packet)
{
	message->received = 0;
	if (packet->op->reth) {
		const struct reth *reth = packet_reth(packet);

		message->va = be64toh(reth->va);
		message->rkey = be32toh(reth->rkey);
		message->length = be32toh(reth->length);
	}
}

static int keep_write(const struct message *message, const struct qp *qp,
		      const struct packet *packet)
{
	const struct placement_target target = {
		.qp = qp,
		.pd = message_pd(message, qp),
		.key = message->rkey,
		.va = message->va + message->received,
		.remote = true,
	};

	return placement_keep(&target, packet->payload, packet->payload_length);
}

/* The whole range is checked before the first byte is written, IBA 9.7.4.1.5. NULL: it may not. */
static uint8_t *write_memory(struct message *message, const struct qp *qp)
{
	return message_remote_memory(message, qp, message->rkey, message->va, message->length,
				     IBV_ACCESS_REMOTE_WRITE);
}

static enum responder_fault place_write(struct message *message, const struct qp *qp,
					const struct packet *packet)
{
	uint64_t end = message->received + packet->payload_length;
	uint8_t *memory;
	int error;

	if (message->length > WIRE_MESSAGE_MAX)
		return RESPONDER_FAULT_LENGTH; /* IBA 9.7.4.1.6 */
	if (message->length == 0 && end != 0)
		return RESPONDER_FAULT_LENGTH;
	if (message->length == 0) /* IBA 9.7.4.1.5: no key is checked for nothing */
		return message_nothing_allowed(qp, message->rkey, IBV_ACCESS_REMOTE_WRITE)
			       ? RESPONDER_FAULT_NONE
			       : RESPONDER_FAULT_KEY;
	memory = write_memory(message, qp);
	if (!memory)
		return RESPONDER_FAULT_KEY;
	if (packet->op->flags & OPCODE_LAST ? end != message->length : end > message->length)
		return RESPONDER_FAULT_LENGTH; /* IBA 9.7.4.1.6 */
	if (packet->placed)
		return RESPONDER_FAULT_NONE;
	if (qp->hca->placement)
		error = keep_write(message, qp, packet);
	else
		error = mr_write(qp->hca, &message->pin, memory + message->received,
				 packet->payload, packet->payload_length);
	return error ? memory_fault(error) : RESPONDER_FAULT_NONE;
}

enum responder_fault message_place(struct message *message, const struct qp *qp,
				   const struct packet *packet)
{
	bool send = packet->op->flags & OPCODE_SEND;
	enum responder_fault fault = RESPONDER_FAULT_NONE;

	if (packet->op->flags & OPCODE_FIRST)
		message_begin(message, packet);
	if (!send)
		fault = place_write(message, qp, packet);
	else if (!packet->placed)
		fault = scatter_message(message, qp, message->received, packet->payload,
					packet->payload_length);
	if (fault != RESPONDER_FAULT_NONE)
		return fault;
	message->received += packet->payload_length;
	message->kind = send ? MESSAGE_SEND : MESSAGE_WRITE;
	return RESPONDER_FAULT_NONE;
}

/* All packets of a message but the last have a payload of the path MTU: so its place is known. */
bool message_place_early(struct message *message, const struct qp *qp, const struct packet *packet,
			 uint32_t ahead)
{
	uint64_t offset = message->received + (uint64_t)ahead * qp->mtu;
	uint64_t end = offset + packet->payload_length;
	uint8_t *memory;

	if (qp->hca->placement)
		return false;
	if (message->kind == MESSAGE_SEND)
		return scatter_message(message, qp, offset, packet->payload,
				       packet->payload_length) == RESPONDER_FAULT_NONE;
	/* What lies beyond the end of this message belongs to the next one. */
	if (end > message->length)
		return false;
	memory = write_memory(message, qp);
	return memory && mr_write(qp->hca, &message->pin, memory + offset, packet->payload,
				  packet->payload_length) == 0;
}

enum responder_fault message_place_datagram(struct message *message, const struct qp *qp,
					    const uint8_t grh[GRH_LENGTH], uint32_t skipped,
					    const struct packet *packet)
{
	enum responder_fault fault;

	if (GRH_LENGTH + packet->payload_length > message->wqe.length)
		return RESPONDER_FAULT_RECEIVE_LENGTH;
	fault = scatter_message(message, qp, skipped, grh + skipped, GRH_LENGTH - skipped);
	if (fault == RESPONDER_FAULT_NONE)
		fault = scatter_message(message, qp, GRH_LENGTH, packet->payload,
					packet->payload_length);
	message->received = GRH_LENGTH + packet->payload_length;
	return fault;
}

void message_end(struct message *message)
{
	message->kind = MESSAGE_NONE;
	message->received = 0;
}
