/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/response.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/explain/responder.h"
#include "emu/objects/qp.h"
#include "emu/transport/outbox.h"
#include "net/minmax.h"
#include "net/tuning.h"

static struct responder_resource *resource_at(struct response *response, uint32_t i)
{
	return &response->resources[(response->head + i) % response->capacity];
}

int response_set_resources(struct response *response, uint32_t count)
{
	struct responder_resource *resources = NULL;
	uint32_t kept = response->count;

	while (kept > count && !resource_at(response, response->count - kept)->range_count)
		kept--;
	if (count < kept)
		count = kept;
	if (count && !(resources = calloc(count, sizeof(*resources))))
		return ENOMEM;
	for (uint32_t i = 0; i < kept; i++)
		resources[i] = *resource_at(response, response->count - kept + i);
	free(response->resources);
	response->resources = resources;
	response->capacity = count;
	response->head = 0;
	response->count = kept;
	return 0;
}

void response_destroy(struct response *response)
{
	free(response->resources);
}

/* --- acknowledgements ------------------------------------------------------------ */

static void note_ack(struct response *response, uint8_t syndrome, uint32_t psn)
{
	response->ack_pending = true;
	response->ack_syndrome = syndrome;
	response->ack_psn = psn;
}

/* What is being sent acknowledges all that was received. */
static void note_acknowledged(struct response *response)
{
	response->ack_pending = false;
	response->unacknowledged = 0;
	response->unacknowledged_bytes = 0;
}

/* The run that follows sends an acknowledgement, of this packet and all before it. */
static void cancel_delayed_ack(struct qp *qp)
{
	if (!qp->responder.response.ack_delayed)
		return;
	qp->responder.response.ack_delayed = false;
	ack_queue_remove(&qp->hca->acks, &qp->delayed_ack);
}

void response_schedule_ack(struct qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct response *response = &qp->responder.response;

	/* A NAK says all that an ACK of what precedes it would (IBA 9.7.5.1.2). */
	if (aeth_is_ack(syndrome) && response->ack_pending && !aeth_is_ack(response->ack_syndrome))
		return;
	cancel_delayed_ack(qp);
	note_ack(response, syndrome, psn);
	hca_schedule(qp->hca, qp);
}

static bool is_much_unacknowledged(const struct response *response)
{
	return response->unacknowledged >= ACK_PACKETS ||
	       response->unacknowledged_bytes >= ACK_BYTES;
}

void response_delay_ack(struct qp *qp, uint32_t psn, uint64_t now)
{
	struct response *response = &qp->responder.response;

	/* It is scheduled already. A NAK says all that an ACK of what precedes it would. */
	if (response->ack_pending && !response->ack_delayed) {
		if (aeth_is_ack(response->ack_syndrome))
			response->ack_psn = psn;
		return;
	}
	/* A target of XRC sends nothing that the ACK could go with: an answer is another QP's. */
	if (is_much_unacknowledged(response) || response->quick_acks ||
	    !(qp->type->abilities & QP_SEND)) {
		response->quick_acks -= response->quick_acks > 0;
		response_schedule_ack(qp, AETH_ACK_UNLIMITED, psn);
		return;
	}
	note_ack(response, AETH_ACK_UNLIMITED, psn);
	if (!response->ack_delayed)
		ack_queue_add(&qp->hca->acks, &qp->delayed_ack, now);
	response->ack_delayed = true;
}

bool response_withdraw_nak(struct qp *qp)
{
	struct response *response = &qp->responder.response;

	if (!response->ack_pending || aeth_is_ack(response->ack_syndrome))
		return false;
	response->ack_pending = false;
	return true;
}

/* --- READ and atomics -------------------------------------------------------------- */

/* All of it: what has yet to be sent is sent again. */
static bool was_answered(const struct responder_resource *resource)
{
	return resource->given == resource->psn_count;
}

/*
 * The oldest one is forgotten when the ring is full, unless its answer is still to be
 * sent. Not so when it is to be retransmitted: the new request says that it had arrived, and
 * the duplicate was the network's.
 */
struct responder_resource *response_new_resource(struct response *response)
{
	struct responder_resource *resource;

	if (response->capacity == 0)
		return NULL;
	if (response->count == response->capacity) {
		resource = resource_at(response, 0);
		if (resource->range_count && !was_answered(resource))
			return NULL;
		response->head = (response->head + 1) % response->capacity;
		response->count--;
	}
	resource = resource_at(response, response->count++);
	*resource = (struct responder_resource){0};
	return resource;
}

struct responder_resource *response_find_resource(struct response *response, uint32_t psn,
						  uint32_t *index)
{
	/* The latest first: the PSN of an old one may have come round again. */
	for (uint32_t i = response->count; i-- > 0;) {
		struct responder_resource *resource = resource_at(response, i);
		int32_t distance = psn_distance(psn, resource->first_psn);

		if (distance < 0 || (uint32_t)distance >= resource->psn_count)
			continue;
		*index = distance;
		return resource;
	}
	return NULL;
}

/*
 * Send @range of the answer, too: as one with those that it overlaps or touches. So a probe may ask
 * for the end of an answer that is still being given.
 */
static void add_range(struct responder_resource *resource, struct response_range range)
{
	struct response_range *ranges = resource->ranges;
	uint32_t count = resource->range_count, from = 0, to;

	while (from < count && ranges[from].end < range.next)
		from++;
	if (count == RESPONSE_RANGES) { /* it has to touch the next one, or the last */
		from = from == count ? count - 1 : from;
		range.next = min_u32(range.next, ranges[from].end);
		range.end = max_u32(range.end, ranges[from].next);
	}
	for (to = from; to < count && ranges[to].next <= range.end; to++) {
		range.next = min_u32(range.next, ranges[to].next);
		range.end = max_u32(range.end, ranges[to].end);
	}
	memmove(&ranges[from + 1], &ranges[to], (count - to) * sizeof(range));
	ranges[from] = range;
	resource->range_count = count - (to - from) + 1;
}

void response_answer(struct qp *qp, struct responder_resource *resource)
{
	struct response *response = &qp->responder.response;

	/* The response acknowledges everything before it, IBA 9.7.5.1.2. */
	note_acknowledged(response);
	cancel_delayed_ack(qp);
	add_range(resource, (struct response_range){0, resource->psn_count});
	hca_schedule(qp->hca, qp);
}

void response_answer_again(struct qp *qp, struct responder_resource *resource,
			   struct response_range range)
{
	add_range(resource, range);
	hca_schedule(qp->hca, qp);
}

/* --- sending ----------------------------------------------------------------------- */

static struct link_packet *new_response(struct qp *qp, struct outbox *outbox, uint8_t operation,
					uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	uint8_t opcode = qp->type->transport | operation;
	const struct opcode *op = opcode_find(opcode);
	struct link_packet *packet = outbox_packet(outbox, &qp->path);

	bth_fill((struct bth *)packet->headers, opcode, qp->migration.bth_flags,
		 qp->attr.dest_qp_num, psn);
	if (op->aeth)
		*(struct aeth *)(packet->headers + op->aeth) =
			(struct aeth){.syndrome_msn = htobe32((uint32_t)syndrome << 24 | msn)};
	packet->headers_length = op->headers_length;
	return packet;
}

/*
 * Packet @index of a READ's answer. Returns 0, EACCES when the region has gone meanwhile or
 * isn't there on demand, or EFAULT when its memory has.
 */
static int send_read_response(struct qp *qp, struct responder_resource *resource, uint32_t index,
			      struct outbox *outbox)
{
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t length = message_part(resource->length, offset, qp->mtu);
	/* A retransmission from inside the message begins with a MIDDLE, as Linux rxe wants it. */
	bool first = index == 0;
	bool last = index + 1 == resource->ranges[0].end;
	uint8_t operation = first ? (last ? WIRE_READ_RESPONSE_ONLY : WIRE_READ_RESPONSE_FIRST)
				  : (last ? WIRE_READ_RESPONSE_LAST : WIRE_READ_RESPONSE_MIDDLE);
	struct link_packet *packet =
		new_response(qp, outbox, operation, psn_add(resource->first_psn, index),
			     AETH_ACK_UNLIMITED, resource->msn);

	if (length == 0)
		return 0;
	return outbox_remote(outbox, packet, resource->pd, qp, resource->rkey,
			     resource->va + offset, length);
}

static void send_atomic_response(struct qp *qp, struct responder_resource *resource,
				 struct outbox *outbox)
{
	const struct opcode *op = opcode_find(qp->type->transport | WIRE_ATOMIC_ACKNOWLEDGE);
	struct link_packet *packet =
		new_response(qp, outbox, WIRE_ATOMIC_ACKNOWLEDGE, resource->first_psn,
			     AETH_ACK_UNLIMITED, resource->msn);

	*(struct atomicacketh *)(packet->headers + op->atomicacketh) =
		(struct atomicacketh){.original = htobe64(resource->original)};
}

static void remove_first_range(struct responder_resource *resource)
{
	resource->range_count--;
	memmove(resource->ranges, resource->ranges + 1,
		resource->range_count * sizeof(resource->ranges[0]));
}

/*
 * What is left of one answer, up to @budget packets. Returns the packets sent, or a negative
 * errno when the region or its memory has gone.
 */
static int send_answer(struct qp *qp, struct responder_resource *resource, int budget,
		       struct outbox *outbox)
{
	struct response_range *range = &resource->ranges[0];
	int sent = 0;

	if (resource->opcode == WIRE_COMPARE_SWAP || resource->opcode == WIRE_FETCH_ADD) {
		send_atomic_response(qp, resource, outbox);
		resource->range_count = 0;
		resource->given = 1;
		return 1;
	}
	while (resource->range_count && sent < budget) {
		int error = send_read_response(qp, resource, range->next, outbox);

		if (error)
			return -error;
		sent++;
		resource->given = max_u32(resource->given, ++range->next);
		if (range->next == range->end)
			remove_first_range(resource);
	}
	return sent;
}

/* Whether the request that has failed, and whose NAK waits, came after the one with @psn. */
static bool fails_before(const struct response *response, uint32_t psn)
{
	return response->ack_pending && !aeth_is_ack(response->ack_syndrome) &&
	       psn_distance(psn, response->ack_psn) < 0;
}

/*
 * The region of a READ was deregistered under it, IBA 9.7.5.2.4, or its memory unmapped: NAK
 * at the first packet that wasn't sent, even if a duplicate has asked for earlier ones again. What
 * is wrong in a duplicate is never reported. A NAK says that all before it succeeded, so that of a
 * later request gives way; nor is what came behind it answered.
 */
static void fail_answer(struct qp *qp, struct responder_resource *resource, int error)
{
	struct response *response = &qp->responder.response;
	bool gone = error == -EFAULT, failed = qp->state == IBV_QPS_ERR;
	uint32_t psn = psn_add(resource->first_psn, resource->given);

	resource->range_count = 0;
	if (was_answered(resource))
		return;
	response->count = 0;
	if (failed && !fails_before(response, psn))
		return;
	explain_answer(qp, resource);
	response_schedule_ack(qp, gone ? AETH_NAK_REMOTE_OPERATION : AETH_NAK_REMOTE_ACCESS, psn);
	if (failed)
		return;
	event_raise(&qp->hca->events, gone ? IBV_EVENT_QP_FATAL : IBV_EVENT_QP_ACCESS_ERR, qp);
	qp_enter_error(qp);
}

static void send_acknowledge(struct qp *qp, struct outbox *outbox)
{
	struct response *response = &qp->responder.response;

	new_response(qp, outbox, WIRE_ACKNOWLEDGE, response->ack_psn, response->ack_syndrome,
		     qp->responder.msn);
	note_acknowledged(response);
	response->acknowledged_at = outbox->now;
}

void response_run(struct qp *qp, struct outbox *outbox)
{
	struct response *response = &qp->responder.response;
	/*
	 * What one run begins, so that other QPs get their turn. An answer that was begun may go
	 * twice as far: few are longer, and need another run.
	 */
	int budget = OUTBOX_PACKETS;

	for (uint32_t i = 0; i < response->count; i++) {
		struct responder_resource *resource = resource_at(response, i);
		int sent;

		if (!resource->range_count)
			continue;
		if (budget <= 0) {
			hca_schedule(qp->hca, qp);
			return;
		}
		sent = send_answer(qp, resource, 2 * OUTBOX_PACKETS, outbox);
		if (sent < 0) {
			fail_answer(qp, resource, sent);
			continue;
		}
		budget -= sent;
		if (resource->range_count) {
			hca_schedule(qp->hca, qp);
			return;
		}
	}
	if (response->ack_pending && !response->ack_delayed)
		send_acknowledge(qp, outbox);
}

static bool has_answers(struct response *response)
{
	for (uint32_t i = 0; i < response->count; i++)
		if (resource_at(response, i)->range_count)
			return true;
	return false;
}

void response_acknowledge(struct qp *qp, struct outbox *outbox)
{
	struct response *response = &qp->responder.response;

	if (!response->ack_pending)
		return;
	cancel_delayed_ack(qp);
	/* If answers to READs are pending, response_run() is scheduled: the ACK follows them. */
	if (!has_answers(response))
		send_acknowledge(qp, outbox);
}

void response_acknowledge_alone(struct qp *qp, struct outbox *outbox)
{
	struct response *response = &qp->responder.response;

	/* No message went back for long: the peer had better not wait for the next ones either. */
	if (response->ack_delayed && elapsed(qp->delayed_ack.since, outbox->now) > QUICK_ACK_AFTER)
		response->quick_acks = QUICK_ACKS;
	response_acknowledge(qp, outbox);
}

void response_end_quick_acks(struct response *response, uint64_t now)
{
	if (response->quick_acks && elapsed(response->acknowledged_at, now) < QUICK_ACK_AFTER)
		response->quick_acks = 0;
}
