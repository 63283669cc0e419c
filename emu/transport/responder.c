/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/responder.h"

#include <stdlib.h>

#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/transport/message.h"
#include "emu/transport/outbox.h"
#include "emu/transport/responder_datagram.h"
#include "net/tuning.h"

/* What a fault becomes: the NAK, the status of the receive in progress, or else the async event. */
struct fault_outcome {
	uint8_t syndrome;
	enum ibv_wc_status status;
	enum ibv_event_type event;
};

/* IBA 9.7.5.2, 9.9.3; transport.md 2. FAULT_NO_RECEIVE is an RNR NAK and no error. */
static const struct fault_outcome fault_outcome[FAULT_COUNT] = {
	[FAULT_SEQUENCE] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
	[FAULT_QP_ACCESS] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
			     IBV_EVENT_QP_ACCESS_ERR},
	[FAULT_RESOURCES] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
			     IBV_EVENT_QP_REQ_ERR},
	[FAULT_LENGTH] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR},
	[FAULT_KEY] = {AETH_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR},
	[FAULT_ALIGNMENT] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
			     IBV_EVENT_QP_REQ_ERR},
	[FAULT_RECEIVE_LENGTH] = {AETH_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR,
				  IBV_EVENT_QP_REQ_ERR},
	[FAULT_RECEIVE_KEY] = {AETH_NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL},
	[FAULT_INVALIDATE] = {AETH_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
			      IBV_EVENT_QP_ACCESS_ERR},
};

/* --- life ------------------------------------------------------------------- */

int responder_init(struct responder *responder, uint32_t max_sge)
{
	*responder = (struct responder){0};
	responder->sges = calloc(max_sge ? max_sge : 1, sizeof(*responder->sges));
	return responder->sges ? 0 : ENOMEM;
}

void responder_destroy(struct responder *responder)
{
	free(responder->sges);
	free(responder->resources);
}

void responder_reset(struct responder *responder)
{
	struct ibv_sge *sges = responder->sges;

	free(responder->resources);
	*responder = (struct responder){.sges = sges};
}

int responder_set_resources(struct responder *responder, uint32_t count)
{
	struct responder_resource *resources = NULL;

	if (count && !(resources = calloc(count, sizeof(*resources))))
		return ENOMEM;
	free(responder->resources);
	responder->resources = resources;
	responder->resource_capacity = count;
	responder->resource_head = responder->resource_count = 0;
	return 0;
}

/* --- what is pending ---------------------------------------------------------- */

static bool is_ack(uint8_t syndrome)
{
	return (syndrome & AETH_TYPE_MASK) == AETH_ACK;
}

static void note(struct responder *resp, uint8_t syndrome, uint32_t psn)
{
	resp->ack_pending = true;
	resp->ack_syndrome = syndrome;
	resp->ack_psn = psn;
}

/* What the run that follows says is all there is to say. */
static void cancel_delayed_ack(struct qp *qp)
{
	if (!qp->responder.ack_delayed)
		return;
	qp->responder.ack_delayed = false;
	ack_queue_remove(&qp->hca->acks, &qp->delayed_ack);
}

/* To be sent with this round. */
static void schedule_ack(struct qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct responder *resp = &qp->responder;

	/* A NAK says all that an ACK of what precedes it would (IBA 9.7.5.1.2). */
	if (is_ack(syndrome) && resp->ack_pending && !is_ack(resp->ack_syndrome))
		return;
	cancel_delayed_ack(qp);
	note(resp, syndrome, psn);
	hca_schedule(qp->hca, qp);
}

/* An ACK of what was executed: it may wait, unless there is a run to come anyway. */
static void schedule_or_delay_ack(struct qp *qp, uint32_t psn, uint64_t now)
{
	struct responder *resp = &qp->responder;

	if (resp->unacknowledged >= ACK_PACKETS || resp->quick_acks ||
	    (resp->ack_pending && !resp->ack_delayed)) {
		resp->quick_acks -= resp->quick_acks > 0;
		schedule_ack(qp, AETH_ACK_UNLIMITED, psn);
		return;
	}
	note(resp, AETH_ACK_UNLIMITED, psn);
	if (!resp->ack_delayed)
		ack_queue_add(&qp->hca->acks, &qp->delayed_ack, now);
	resp->ack_delayed = true;
}

static void fail(struct qp *qp, const struct packet *packet, enum fault fault)
{
	struct responder *resp = &qp->responder;
	const struct fault_outcome *outcome = &fault_outcome[fault];

	if (fault == FAULT_NO_RECEIVE) {
		COUNT(qp->hca, send_rnr_err, 1);
		/* What is under way behind this packet is out of sequence now; that needs no NAK.
		 */
		resp->nak_sent = true;
		schedule_ack(qp, AETH_RNR_NAK | qp->attr.min_rnr_timer, packet->psn);
		return;
	}
	schedule_ack(qp, outcome->syndrome, packet->psn);
	if (resp->wqe_taken)
		message_fail(qp, outcome->status);
	else
		event_raise(&qp->hca->events, outcome->event, qp);
	qp_enter_error(qp);
}

/* --- READ and atomics -------------------------------------------------------- */

static struct responder_resource *resource_at(struct responder *resp, uint32_t i)
{
	return &resp->resources[(resp->resource_head + i) % resp->resource_capacity];
}

/*
 * A slot for a new request. The oldest one is forgotten when the ring is full,
 * unless its answer is still to be sent: then the requester has exceeded
 * max_dest_rd_atomic (IBA 9.7.4.1.5). Not so when it is to be sent again: the
 * new request says that it had arrived, and the duplicate was the network's.
 */
static struct responder_resource *new_resource(struct responder *resp)
{
	struct responder_resource *resource;

	if (resp->resource_capacity == 0)
		return NULL;
	if (resp->resource_count == resp->resource_capacity) {
		resource = resource_at(resp, 0);
		if (resource->next < resource->end && !resource->repeated)
			return NULL;
		resp->resource_head = (resp->resource_head + 1) % resp->resource_capacity;
		resp->resource_count--;
	}
	resource = resource_at(resp, resp->resource_count++);
	*resource = (struct responder_resource){0};
	return resource;
}

static void answer(struct qp *qp, struct responder_resource *resource, uint32_t next, uint32_t end)
{
	resource->next = next;
	resource->end = end;
	hca_schedule(qp->hca, qp);
}

static void answer_new(struct qp *qp, struct responder_resource *resource)
{
	/* The response acknowledges everything before it, IBA 9.7.5.1.2. */
	qp->responder.ack_pending = false;
	qp->responder.unacknowledged = 0;
	cancel_delayed_ack(qp);
	answer(qp, resource, 0, resource->psn_count);
}

static void answer_again(struct qp *qp, struct responder_resource *resource, uint32_t next,
			 uint32_t end)
{
	/* A probe may ask for the end of an answer that is still being given. */
	if (resource->next < resource->end) {
		next = next < resource->next ? next : resource->next;
		end = end > resource->end ? end : resource->end;
	}
	resource->repeated |= resource->next == resource->end;
	answer(qp, resource, next, end);
}

static enum fault execute_read(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	const struct reth *reth = packet_reth(packet);
	uint32_t length = be32toh(reth->length);
	struct responder_resource *resource;
	struct mr_pin pin;

	if (length > WIRE_MESSAGE_MAX)
		return FAULT_LENGTH;
	if (length > 0) {
		if (mr_pin_remote(qp, be32toh(reth->rkey), be64toh(reth->va), length,
				  IBV_ACCESS_REMOTE_READ, &pin) != 0)
			return FAULT_KEY;
		mr_unpin(qp->hca, &pin);
	}
	resource = new_resource(resp);
	if (!resource)
		return FAULT_RESOURCES;
	resource->opcode = WIRE_READ_REQUEST;
	resource->first_psn = packet->psn;
	resource->psn_count = length == 0 ? 1 : (length + (uint64_t)qp->mtu - 1) / qp->mtu;
	resource->va = be64toh(reth->va);
	resource->rkey = be32toh(reth->rkey);
	resource->length = length;
	/* IBA 9.7.5.1.6 (C9-148): counted when accepted. */
	resp->msn = psn_add(resp->msn, 1);
	resource->msn = resp->msn;
	resp->expected_psn = psn_add(packet->psn, resource->psn_count);
	answer_new(qp, resource);
	return FAULT_NONE;
}

static enum fault execute_atomic(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	const struct atomiceth *eth = packet_atomiceth(packet);
	uint64_t va = be64toh(eth->va), operand = be64toh(eth->swap_or_add);
	uint64_t expected = be64toh(eth->compare);
	struct responder_resource *resource;
	struct mr_pin pin;
	uint64_t *target;

	if (va % 8 != 0)
		return FAULT_ALIGNMENT; /* IBA 9.4.5 */
	if (mr_pin_remote(qp, be32toh(eth->rkey), va, 8, IBV_ACCESS_REMOTE_ATOMIC, &pin) != 0)
		return FAULT_KEY;
	target = (uint64_t *)pin.address;
	if ((uintptr_t)target % 8 != 0) { /* an iova that is aligned where the memory isn't */
		mr_unpin(qp->hca, &pin);
		return FAULT_ALIGNMENT;
	}
	resource = new_resource(resp);
	if (!resource) {
		mr_unpin(qp->hca, &pin);
		return FAULT_RESOURCES;
	}
	resource->opcode = packet->opcode & WIRE_OPERATION_MASK;
	if (resource->opcode == WIRE_FETCH_ADD) {
		resource->original = __atomic_fetch_add(target, operand, __ATOMIC_SEQ_CST);
	} else {
		__atomic_compare_exchange_n(target, &expected, operand, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
		resource->original = expected;
	}
	mr_unpin(qp->hca, &pin);
	resource->first_psn = packet->psn;
	resource->psn_count = 1;
	resp->msn = psn_add(resp->msn, 1);
	resource->msn = resp->msn;
	resp->expected_psn = psn_add(packet->psn, 1);
	answer_new(qp, resource);
	return FAULT_NONE;
}

/* --- SEND and RDMA WRITE ------------------------------------------------------ */

static enum fault execute_data(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct responder *resp = &qp->responder;
	uint16_t flags = packet->op->flags;
	/* IBA 9.7.4.1.4: a SEND takes its receive first, a WRITE with immediate last. */
	bool receives = (flags & OPCODE_SEND) || (flags & OPCODE_IMMEDIATE);
	enum fault fault = FAULT_NONE;

	if (receives)
		fault = message_take_receive(qp);
	if (fault == FAULT_NONE)
		fault = message_check_length(qp, packet);
	if (fault == FAULT_NONE)
		fault = message_place(qp, packet);
	if (fault != FAULT_NONE)
		return fault;

	resp->expected_psn = psn_add(packet->psn, 1);
	resp->unacknowledged++;
	if (flags & OPCODE_LAST) {
		resp->msn = psn_add(resp->msn, 1);
		if (receives)
			message_complete(qp, packet);
		else
			message_end(qp);
	}
	/* The completion found its CQ full: no acknowledgement (IBA 9.9.3, class G). */
	if (qp->state != IBV_QPS_ERR && packet->ack_request)
		schedule_or_delay_ack(qp, packet->psn, now);
	return FAULT_NONE;
}

/* --- RC ------------------------------------------------------------------------ */

/* What the QP must allow for each kind of request, IBA 9.7.4.1.3. */
static bool qp_allows(const struct qp *qp, uint16_t flags)
{
	int access = flags & OPCODE_WRITE    ? IBV_ACCESS_REMOTE_WRITE
		     : flags & OPCODE_READ   ? IBV_ACCESS_REMOTE_READ
		     : flags & OPCODE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC
					     : 0;

	return (qp->attr.qp_access_flags & access) == (unsigned int)access;
}

static enum fault execute(struct qp *qp, const struct packet *packet, uint64_t now)
{
	enum fault fault = message_check_sequence(qp, packet);

	if (fault != FAULT_NONE)
		return fault;
	if (!qp_allows(qp, packet->op->flags))
		return FAULT_QP_ACCESS;
	if (!(packet->op->flags & (OPCODE_READ | OPCODE_ATOMIC)))
		return execute_data(qp, packet, now);
	if (qp->responder.resource_capacity == 0)
		return FAULT_RESOURCES;
	fault = message_check_length(qp, packet);
	if (fault != FAULT_NONE)
		return fault;
	return packet->op->flags & OPCODE_READ ? execute_read(qp, packet)
					       : execute_atomic(qp, packet);
}

/* Whether @packet asks again for all or the rest of what @resource answered, IBA 9.7.5.1.3. */
static bool repeats_read(const struct qp *qp, const struct responder_resource *resource,
			 uint32_t index, const struct packet *packet)
{
	const struct reth *reth = packet_reth(packet);
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t length = be32toh(reth->length);

	return resource->opcode == WIRE_READ_REQUEST && be32toh(reth->rkey) == resource->rkey &&
	       be64toh(reth->va) == resource->va + offset && offset + length <= resource->length &&
	       (offset + length == resource->length || length % qp->mtu == 0);
}

static void repeat_resource(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;

	for (uint32_t i = 0; i < resp->resource_count; i++) {
		struct responder_resource *resource = resource_at(resp, i);
		int32_t index = psn_distance(packet->psn, resource->first_psn);
		uint32_t packets;

		if (index < 0 || (uint32_t)index >= resource->psn_count)
			continue;
		if (packet->op->flags & OPCODE_ATOMIC) {
			if (resource->opcode == (packet->opcode & WIRE_OPERATION_MASK))
				answer_again(qp, resource, 0, 1);
			return;
		}
		if (!repeats_read(qp, resource, index, packet))
			return;
		packets = (be32toh(packet_reth(packet)->length) + (uint64_t)qp->mtu - 1) / qp->mtu;
		answer_again(qp, resource, index, index + (packets ? packets : 1));
		return;
	}
}

/* IBA 9.7.1.1, 9.7.5.1.3: executed already. Nothing wrong in a duplicate is ever reported. */
static void receive_duplicate(struct qp *qp, const struct packet *packet)
{
	COUNT(qp->hca, duplicate_request, 1);
	if (packet->op->flags & (OPCODE_READ | OPCODE_ATOMIC))
		repeat_resource(qp, packet);
	else
		schedule_ack(qp, AETH_ACK_UNLIMITED, psn_add(qp->responder.expected_psn, -1));
}

static void receive_reliable(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct responder *resp = &qp->responder;
	int32_t distance = psn_distance(packet->psn, resp->expected_psn);
	enum fault fault;

	if (distance < 0) {
		receive_duplicate(qp, packet);
		return;
	}
	if (distance > 0) {
		COUNT(qp->hca, out_of_seq_request, 1);
		/* One NAK a gap, IBA 9.7.5.2.3. */
		if (!resp->nak_sent)
			schedule_ack(qp, AETH_NAK_PSN_SEQUENCE, resp->expected_psn);
		resp->nak_sent = true;
		return;
	}
	resp->nak_sent = false;
	/* What it waited for comes before the NAK (of a gap, or RNR) went out: take that back. */
	if (resp->ack_pending && !is_ack(resp->ack_syndrome))
		resp->ack_pending = false;
	fault = execute(qp, packet, now);
	if (fault != FAULT_NONE)
		fail(qp, packet, fault);
}

void responder_receive(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
		       uint64_t now)
{
	struct responder *resp = &qp->responder;

	if (!resp->established) {
		resp->established = true;
		if (qp->state == IBV_QPS_RTR && qp->type->connected)
			event_raise(&qp->hca->events, IBV_EVENT_COMM_EST, qp);
	}
	if (qp->type->reliable)
		receive_reliable(qp, packet, now);
	else if (qp->type->connected)
		responder_receive_unreliable(qp, packet);
	else
		responder_receive_datagram(qp, packet, frame);
}

/* --- sending what is pending -------------------------------------------------------- */

static struct link_packet *new_response(struct qp *qp, struct outbox *outbox, uint8_t operation,
					uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	const struct opcode *op = opcode_find(WIRE_RC | operation);
	struct link_packet *packet = outbox_packet(outbox, &qp->path);

	*(struct bth *)packet->headers = (struct bth){
		.opcode = WIRE_RC | operation,
		.pkey = htobe16(PKEY_DEFAULT),
		.dest_qp = htobe32(qp->attr.dest_qp_num & QPN_MASK),
		.psn = htobe32(psn),
	};
	if (op->aeth)
		*(struct aeth *)(packet->headers + op->aeth) =
			(struct aeth){.syndrome_msn = htobe32((uint32_t)syndrome << 24 | msn)};
	packet->headers_length = op->headers_length;
	return packet;
}

/* Packet @index of a READ's answer. Returns 0, or EACCES when the region has gone meanwhile. */
static int send_read_response(struct qp *qp, struct responder_resource *resource, uint32_t index,
			      struct outbox *outbox)
{
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t length = resource->length - offset < qp->mtu ? resource->length - offset : qp->mtu;
	/* A repetition from inside the message begins with a MIDDLE, as Linux rxe wants it. */
	bool first = index == 0;
	bool last = index + 1 == resource->end;
	uint8_t operation = first ? (last ? WIRE_READ_RESPONSE_ONLY : WIRE_READ_RESPONSE_FIRST)
				  : (last ? WIRE_READ_RESPONSE_LAST : WIRE_READ_RESPONSE_MIDDLE);
	struct link_packet *packet =
		new_response(qp, outbox, operation, psn_add(resource->first_psn, index),
			     AETH_ACK_UNLIMITED, resource->msn);

	if (length == 0)
		return 0;
	return outbox_remote(outbox, packet, qp, resource->rkey, resource->va + offset, length);
}

static void send_atomic_response(struct qp *qp, struct responder_resource *resource,
				 struct outbox *outbox)
{
	const struct opcode *op = opcode_find(WIRE_RC | WIRE_ATOMIC_ACKNOWLEDGE);
	struct link_packet *packet =
		new_response(qp, outbox, WIRE_ATOMIC_ACKNOWLEDGE, resource->first_psn,
			     AETH_ACK_UNLIMITED, resource->msn);

	*(struct atomicacketh *)(packet->headers + op->atomicacketh) =
		(struct atomicacketh){.original = htobe64(resource->original)};
}

/* What is left of one answer, up to @budget packets. Returns the packets sent, or -1 when the
 * region has gone. */
static int send_answer(struct qp *qp, struct responder_resource *resource, int budget,
		       struct outbox *outbox)
{
	int sent = 0;

	if (resource->opcode != WIRE_READ_REQUEST) {
		send_atomic_response(qp, resource, outbox);
		resource->next = resource->end;
		return 1;
	}
	for (; resource->next < resource->end && sent < budget; resource->next++, sent++)
		if (send_read_response(qp, resource, resource->next, outbox) != 0)
			return -1;
	return sent;
}

/*
 * The region of a READ was deregistered under it, IBA 9.7.5.2.4: NAK at the
 * packet that failed. What is wrong in a duplicate is never reported.
 */
static void fail_answer(struct qp *qp, struct responder_resource *resource)
{
	uint32_t psn = psn_add(resource->first_psn, resource->next);

	resource->next = resource->end;
	if (qp->state == IBV_QPS_ERR || resource->repeated)
		return;
	schedule_ack(qp, AETH_NAK_REMOTE_ACCESS, psn);
	event_raise(&qp->hca->events, IBV_EVENT_QP_ACCESS_ERR, qp);
	qp_enter_error(qp);
}

static void send_acknowledge(struct qp *qp, struct outbox *outbox)
{
	struct responder *resp = &qp->responder;

	new_response(qp, outbox, WIRE_ACKNOWLEDGE, resp->ack_psn, resp->ack_syndrome, resp->msn);
	resp->ack_pending = false;
	resp->unacknowledged = 0;
}

void responder_run(struct qp *qp, struct outbox *outbox)
{
	struct responder *resp = &qp->responder;
	/* So that other QPs get their turn; but what was begun isn't cut short at once. */
	int budget = OUTBOX_PACKETS;

	for (uint32_t i = 0; i < resp->resource_count; i++) {
		struct responder_resource *resource = resource_at(resp, i);
		int sent;

		if (resource->next == resource->end)
			continue;
		if (budget <= 0) {
			hca_schedule(qp->hca, qp);
			return;
		}
		sent = send_answer(qp, resource, 2 * OUTBOX_PACKETS, outbox);
		if (sent < 0) {
			fail_answer(qp, resource);
			if (qp->state == IBV_QPS_ERR)
				break;
			continue;
		}
		budget -= sent;
		if (resource->next != resource->end) {
			hca_schedule(qp->hca, qp);
			return;
		}
	}
	if (resp->ack_pending && !resp->ack_delayed)
		send_acknowledge(qp, outbox);
}

static bool has_answers(struct responder *resp)
{
	for (uint32_t i = 0; i < resp->resource_count; i++) {
		const struct responder_resource *resource = resource_at(resp, i);

		if (resource->next != resource->end)
			return true;
	}
	return false;
}

void responder_acknowledge(struct qp *qp, struct outbox *outbox)
{
	struct responder *resp = &qp->responder;

	if (!resp->ack_pending)
		return;
	/* Nobody answered for long: the peer had better not wait for the next ones either. */
	if (resp->ack_delayed && outbox->now - qp->delayed_ack.since > QUICK_ACK_AFTER)
		resp->quick_acks = QUICK_ACKS;
	cancel_delayed_ack(qp);
	/* Behind them it has its place, and they are scheduled. */
	if (!has_answers(resp))
		send_acknowledge(qp, outbox);
}
