/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a responder has to send: READ responses and atomic results in the order of their
 * requests, then the one acknowledgement that covers everything else
 * (IBA 9.7.5.1.4: responses never overtake each other). The responder notes it as it
 * executes requests (emu/transport/responder.c) or meets them again
 * (emu/transport/duplicate.c), which schedules the QP; response_run() sends it. An ACK
 * that is all that is pending waits (emu/transport/ack_queue.h) for response_acknowledge().
 *
 * Under qp.lock.
 */
#ifndef URXE_EMU_RESPONSE_H
#define URXE_EMU_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

struct pd;
struct qp;
struct outbox;

/* Packets @next to @end - 1 of an answer. */
struct response_range {
	uint32_t next, end;
};

/*
 * Ranges of one answer that have yet to be sent. One more is joined with a neighbour: what lies
 * between the two is sent, too.
 */
#define RESPONSE_RANGES 4

/*
 * What is kept of a READ, an atomic or the like (emu/transport/rd_atomic.h) to answer it, and to
 * answer it again (IBA 9.7.5.1.3).
 */
struct responder_resource {
	uint8_t opcode; /* enum wire_operation */
	uint32_t first_psn, psn_count;
	const struct pd *pd; /* of the memory; only to compare: XRC's may be gone by now */
	uint32_t pd_handle;
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
	uint64_t original; /* atomics: the result */
	uint32_t msn;
	/* Packets of the answer yet to be sent: ascending, and apart. */
	struct response_range ranges[RESPONSE_RANGES];
	uint8_t range_count;
	uint32_t given; /* so many packets of the answer have been sent, once at least */
};

struct response {
	struct responder_resource *resources; /* a ring of max_dest_rd_atomic */
	uint32_t capacity, head, count;

	bool ack_pending;
	uint8_t ack_syndrome;
	uint32_t ack_psn;
	bool ack_delayed;	 /* in the HCA's queue rather than to be sent by the next run */
	uint8_t quick_acks;	 /* so many don't wait, since one waited in vain */
	uint32_t unacknowledged; /* packets since the last ACK, */
	uint32_t unacknowledged_bytes; /* and their payload */
	uint64_t acknowledged_at;
};

/*
 * The ring for max_dest_rd_atomic, with the latest of what is in the old one: duplicates may still
 * ask for it. It is longer than @count while more has yet to be answered. Returns 0 or ENOMEM; then
 * the old one remains.
 */
int response_set_resources(struct response *response, uint32_t count);
void response_destroy(struct response *response);

/* --- for the responder ----------------------------------------------------------- */

/*
 * A resource for a new request, or NULL when the requester has exceeded max_dest_rd_atomic
 * (IBA 9.7.4.1.4).
 */
struct responder_resource *response_new_resource(struct response *response);

/* The resource of the request that packet *@index of the answer, with @psn, belongs to; or NULL. */
struct responder_resource *response_find_resource(struct response *response, uint32_t psn,
						  uint32_t *index);

/* Give the answer of a new request, or @range of an old one again. */
void response_answer(struct qp *qp, struct responder_resource *resource);
void response_answer_again(struct qp *qp, struct responder_resource *resource,
			   struct response_range range);

/* An ACK or NAK to be sent with this round. */
void response_schedule_ack(struct qp *qp, uint8_t syndrome, uint32_t psn);

/* An ACK of what was executed: it may wait, unless there is a run to come anyway. */
void response_delay_ack(struct qp *qp, uint32_t psn, uint64_t now);

/*
 * The packet that a pending NAK (of a gap, or RNR) asks for has come before the NAK left. Returns
 * whether there was one: what is before that packet has yet to be acknowledged, and the requester
 * to be told of another gap.
 */
bool response_withdraw_nak(struct qp *qp);

/* --- for the QP, and the HCA --------------------------------------------------------- */

/* Send what is pending. The caller flushes the outbox before it unlocks the QP. */
void response_run(struct qp *qp, struct outbox *outbox);

/*
 * Send the ACK or NAK that is pending, if there is one, whether it waits or not; likewise.
 * A message mustn't overtake it: the peer's application, which gets the message, counts on
 * what it answers having completed.
 */
void response_acknowledge(struct qp *qp, struct outbox *outbox);

/* The same for one that has waited for a message to go with, in vain. */
void response_acknowledge_alone(struct qp *qp, struct outbox *outbox);

/* A message goes back: an ACK that was sent just before would have been worth holding back. */
void response_end_quick_acks(struct response *response, uint64_t now);

#endif
