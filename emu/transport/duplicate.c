/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/duplicate.h"

#include "emu/objects/qp.h"
#include "emu/transport/rd_atomic.h"
#include "emu/transport/responder_internal.h"

/* Of an atomic, a FLUSH or an ATOMIC WRITE: they aren't executed again. */
static void answer_single(struct qp *qp, struct responder_resource *resource,
			  const struct packet *packet)
{
	if (resource->opcode == (packet->opcode & WIRE_OPERATION_MASK))
		response_answer_again(qp, resource, (struct response_range){0, 1});
}

/* The answer from packet @index on, if @packet asks for all or the rest of it, IBA 9.7.5.1.3. */
static void answer_read(struct qp *qp, struct responder_resource *resource, uint32_t index,
			const struct packet *packet)
{
	const struct reth *reth = packet_reth(packet);
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t length = be32toh(reth->length);
	uint32_t packets = message_packets(length, qp->mtu);

	/* Unlike an atomic's result, which is kept, this is read again: it must be allowed now. */
	if (!responder_allows(qp, packet))
		return;
	if (resource->opcode != WIRE_READ_REQUEST || be32toh(reth->rkey) != resource->rkey ||
	    be64toh(reth->va) != resource->va + offset || offset + length > resource->length)
		return;
	/* Where a packet of the answer ends, unless it is the end of all. */
	if (offset + length != resource->length && (length == 0 || length % qp->mtu != 0))
		return;
	response_answer_again(qp, resource, (struct response_range){index, index + packets});
}

static void answer_duplicate(struct qp *qp, const struct packet *packet)
{
	uint32_t index;
	struct responder_resource *resource =
		response_find_resource(&qp->responder.response, packet->psn, &index);

	if (!resource)
		return;
	if (packet->op->flags & OPCODE_READ)
		answer_read(qp, resource, index, packet);
	else
		answer_single(qp, resource, packet);
}

void duplicate_receive(struct qp *qp, const struct packet *packet)
{
	COUNT(qp->hca, duplicate_request, 1);
	qp->observed->done.losses.duplicates++;
	if (packet->op->flags & RD_ATOMIC)
		answer_duplicate(qp, packet);
	else
		response_schedule_ack(qp, AETH_ACK_UNLIMITED,
				      psn_add(qp->responder.expected_psn, -1));
}
