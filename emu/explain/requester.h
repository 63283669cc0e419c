/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a send work request failed: what the requester and the completer found becomes a cause and
 * a report of it (net/cause/cause.h). Called by the completer when it completes the oldest
 * request with an error, before anything of it or of the QP changes. Under qp.lock.
 */
#ifndef URXE_EMU_EXPLAIN_REQUESTER_H
#define URXE_EMU_EXPLAIN_REQUESTER_H

#include <infiniband/verbs.h>

#include "net/cause/cause.h"

struct packet;
struct qp;

/* @packet: the response that showed it, or NULL. Returns the cause, for vendor_err. */
enum cause explain_request(struct qp *qp, enum ibv_wc_status status, const struct packet *packet);

/* @count requests of the send queue are going to be flushed. */
void explain_flush(const struct qp *qp, unsigned int count);

#endif
