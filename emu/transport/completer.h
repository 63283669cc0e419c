/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer: acknowledgements and responses become completions, or retries
 * (IBA 9.7.5.1, 9.9.2). Also completes what needs no response. Works on the
 * requester's state and the send queue, under qp.lock.
 *
 * Called by emu/receive.c for responses, by the requester and recovery for requests that end
 * without one, and by what flushes the send queue.
 */
#ifndef URXE_EMU_COMPLETER_H
#define URXE_EMU_COMPLETER_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "net/wire/wire.h"

struct qp;

/*
 * A response packet for this QP, which passed the checks of qp_receive(). After a
 * run of them, what has arrived leaves the congestion window, and the timeout begins anew.
 */
void completer_receive(struct qp *qp, const struct packet *packet, uint64_t now);
void completer_receive_end(struct qp *qp, uint64_t now);

/* UC, UD: everything behind the cursor has been handed to the wire. */
void completer_sent(struct qp *qp);

/* REQUEST_LOCAL: what was executed without a packet completes when it is the oldest. */
void completer_local(struct qp *qp);

/* The oldest work request carries a local error that was found by the requester: complete it. */
void completer_local_error(struct qp *qp);

/*
 * Complete the oldest work request with an error, and move the QP to ERR (RC)
 * or SQE (UC, UD: IBA 10.3.1.6) with the rest flushed. @packet: the response that showed the
 * error, or NULL.
 */
void completer_fail(struct qp *qp, enum ibv_wc_status status, const struct packet *packet);

/* Every work request in the send queue completes with WR_FLUSH_ERR, in order. */
void completer_flush(struct qp *qp);

#endif
