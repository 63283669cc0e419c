/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: request packets become memory, receive completions,
 * acknowledgements, READ responses and atomic results (IBA 9.7.4, 9.7.5.2, 9.8).
 *
 * responder_receive() executes a request and notes what is pending;
 * responder_run() sends what is pending: READ and atomic responses in the order of their
 * requests, then the one acknowledgement that covers everything else
 * (IBA 9.7.5.1.4: responses never overtake each other). An ACK that is all that
 * is pending waits (emu/transport/ack_queue.h) for responder_acknowledge().
 *
 * Its state belongs to the QP and is protected by qp.lock.
 */
#ifndef URXE_EMU_RESPONDER_H
#define URXE_EMU_RESPONDER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/objects/mr.h"
#include "emu/transport/receive_queue.h"
#include "net/link.h"

struct qp;
struct outbox;

enum message_in_progress { MESSAGE_NONE, MESSAGE_SEND, MESSAGE_WRITE };

/* What is kept of a READ or atomic request to answer it, and to answer it again (IBA 9.7.5.1.3). */
struct responder_resource {
	uint8_t opcode; /* enum wire_operation */
	uint32_t first_psn, psn_count;
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
	uint64_t original; /* atomics: the result */
	uint32_t msn;
	uint32_t next, end; /* packets of the answer yet to be sent: next <= i < end */
	bool repeated;	    /* the answer has been given in full before */
};

struct responder {
	uint32_t expected_psn, msn;
	enum message_in_progress message;
	bool nak_sent;	  /* a sequence error was reported; silence until expected_psn comes */
	bool established; /* a packet has arrived since INIT */

	bool wqe_taken; /* wqe is the receive that the message in progress fills */
	struct receive_wqe wqe;
	struct ibv_sge *sges;
	uint64_t received;     /* bytes of the message in progress */
	uint8_t received_kind; /* of header that the datagram had:
				  emu/transport/responder_datagram.c */

	uint64_t write_va; /* RDMA WRITE in progress */
	uint32_t write_rkey;
	uint32_t write_length;
	struct mr_pin
		write_pin; /* of all of its memory once it has begun; address NULL: not pinned */

	struct responder_resource *resources; /* a ring of max_dest_rd_atomic */
	uint32_t resource_capacity, resource_head, resource_count;

	bool ack_pending;
	uint8_t ack_syndrome;
	uint32_t ack_psn;
	bool ack_delayed;	 /* in the HCA's queue rather than to be sent by the next run */
	uint8_t quick_acks;	 /* so many don't wait, since one waited in vain */
	uint32_t unacknowledged; /* packets since the last ACK */
};

/* Memory for @max_sge receive SGEs. Returns 0 or ENOMEM. */
int responder_init(struct responder *responder, uint32_t max_sge);
void responder_destroy(struct responder *responder);
void responder_reset(struct responder *responder);
/* The resource ring for max_dest_rd_atomic. Returns 0 or ENOMEM. */
int responder_set_resources(struct responder *responder, uint32_t count);

/* A request packet for this QP, which passed the checks of qp_receive(). */
void responder_receive(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
		       uint64_t now);

/* Send what is pending. The caller flushes the outbox before it unlocks the QP. */
void responder_run(struct qp *qp, struct outbox *outbox);

/*
 * Send the ACK or NAK that is pending, if there is one, whether it waits or not; likewise.
 * A message mustn't overtake it: who gets the message counts on what it answers having
 * completed.
 */
void responder_acknowledge(struct qp *qp, struct outbox *outbox);

#endif
