/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: request packets become memory, receive completions and responses
 * (IBA 9.7.4, 9.7.5.2, 9.8). For every packet it goes one way: check it, execute it, note
 * what there is to answer, complete the receive. What belongs to the message in progress is
 * in its receive context (emu/transport/message.h), what is to be sent in
 * emu/transport/response.h, and what came before in emu/transport/duplicate.h.
 *
 * Called by emu/receive.c for requests, by emu/transport/xrc_remote.c for those to another
 * process's QP, and by emu/objects/qp.c. Its state belongs to the QP and is protected by qp.lock.
 */
#ifndef URXE_EMU_RESPONDER_H
#define URXE_EMU_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/transport/message.h"
#include "emu/transport/reorder.h"
#include "emu/transport/response.h"
#include "net/link.h"

struct qp;

struct responder {
	uint32_t expected_psn, msn;
	bool nak_sent;	  /* a sequence error was reported; silence until expected_psn comes */
	bool established; /* a packet has arrived since INIT */
	/* Selective repeat: */
	struct reorder kept; /* requests that came before one that is missing */
	bool gap;	     /* requests have come that lie behind a missing one */
	uint32_t seen;	     /* @gap: one beyond the highest of them, kept or not */
	uint32_t send_end;   /* @gap: one beyond the last that is surely of the SEND in progress */
	bool kept_waits;     /* the next kept request waits for another process */
	/* Kept requests have just closed a gap: what comes next shows how it retransmits. */
	bool filled;
	bool retransmits_one; /* it retransmits single packets rather than going back N */
	uint32_t late;	      /* old packets that came again since @filled */
	struct message message;
	struct response response;
};

/* Memory for @max_sge receive SGEs. Returns 0 or ENOMEM. */
int responder_init(struct responder *responder, uint32_t max_sge);
void responder_destroy(struct responder *responder);
void responder_reset(struct responder *responder);

/* A request packet for this QP, which passed the checks of qp_receive(). */
void responder_receive(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
		       uint64_t now);

/* The QP's lock is about to be released after packets were received. */
void responder_receive_end(struct qp *qp);

/*
 * For the delegate of another process's QP (emu/transport/xrc_remote.h): check and place a SEND or
 * RDMA WRITE packet, and complete its receive when it is the last, or on an error. Nothing is
 * answered, and no event of the QP raised. And what to do with a message in progress that isn't
 * continued.
 */
enum responder_fault responder_place(struct qp *qp, const struct packet *packet);
void responder_give_up(struct qp *qp);

/* What the QP must allow for @packet, IBV_ACCESS_*; all there are, if it is invalid. */
unsigned int responder_needs(const struct packet *packet);
/* Whether the payload has the length that the opcode demands. */
bool responder_payload_fits(const struct qp *qp, const struct packet *packet);

/* The QP is in the error state: complete every receive that is its own with WR_FLUSH_ERR. */
void responder_flush(struct qp *qp);

#endif
