/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An inbound message on its way into memory: taking the receive it fills,
 * placing each packet's payload, completing it. What RC and UC responders have
 * in common; they differ in what they make of an error. Under qp.lock.
 */
#ifndef URXE_EMU_MESSAGE_H
#define URXE_EMU_MESSAGE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "net/link.h"

struct pd;
struct qp;

/* How a packet fails, in the order in which the specification checks (IBA 9.7.4, transport.md 2).
 */
enum fault {
	FAULT_NONE,
	FAULT_SEQUENCE,	      /* an opcode that can't follow the one before */
	FAULT_QP_ACCESS,      /* the QP doesn't allow this kind of access */
	FAULT_RESOURCES,      /* more READs and atomics than max_dest_rd_atomic */
	FAULT_NO_RECEIVE,     /* no receive is posted: RNR */
	FAULT_LENGTH,	      /* payload against opcode, pad, or RETH length */
	FAULT_KEY,	      /* R_Key, bounds or access of remote memory */
	FAULT_ALIGNMENT,      /* atomics: 8-byte alignment */
	FAULT_RECEIVE_LENGTH, /* a SEND longer than its receive */
	FAULT_RECEIVE_KEY,    /* L_Key, bounds or access of the receive's SGEs */
	FAULT_INVALIDATE,     /* SEND with invalidate of what can't be invalidated */
	FAULT_COUNT
};

/* The protection domain of the receives: an SRQ has its own (IBA 10.2.9.1). */
const struct pd *message_receive_pd(const struct qp *qp);

/* Whether the opcode of @packet may come now, IBA 9.7.4.1.2. */
enum fault message_check_sequence(const struct qp *qp, const struct packet *packet);

/* Whether the payload has the length that the opcode demands, IBA 9.7.4.1.6. */
enum fault message_check_length(const struct qp *qp, const struct packet *packet);

/* Take a receive for the message in progress, unless it has one. */
enum fault message_take_receive(struct qp *qp);

/* A SEND or RDMA WRITE packet: check it and put its payload in place. Advances the message. */
enum fault message_place(struct qp *qp, const struct packet *packet);

/*
 * The QP's lock is about to be released: memory is pinned no longer than that, so that
 * deregistering needn't wait for the network.
 */
void message_unpin(struct qp *qp);

/*
 * The message is over without a completion: an RDMA WRITE, or one given up. A
 * receive that it had taken stays, for the next message to fill from its start
 * (UC, IBA 9.8.2.2.1).
 */
void message_end(struct qp *qp);

/* The last packet has been placed: complete the receive. */
void message_complete(struct qp *qp, const struct packet *packet);

/* Complete the receive in progress, if there is one, with an error. */
void message_fail(struct qp *qp, enum ibv_wc_status status);

#endif
