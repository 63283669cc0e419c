/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the responder share: responder.c (the checks of a request and its execution)
 * and responder_gap.c (requests that come behind a missing one, or once more). Under qp.lock.
 */
#ifndef URXE_EMU_RESPONDER_INTERNAL_H
#define URXE_EMU_RESPONDER_INTERNAL_H

#include "emu/objects/qp.h"

/* Whether the QP allows the kind of access that @packet asks for. */
bool responder_allows(const struct qp *qp, const struct packet *packet);

/*
 * The request with expected_psn. Returns whether the next one may be received now: this was
 * executed, and the QP is well.
 */
bool responder_receive_expected(struct qp *qp, const struct packet *packet, uint64_t now);

/* A request behind the expected one. */
void responder_receive_early(struct qp *qp, const struct packet *packet);

/* Before the expected one. */
void responder_receive_late(struct qp *qp, const struct packet *packet, uint64_t now);

/*
 * What was missing is here, and what follows it is received, too. The requester waits for that, and
 * is told at once: all has arrived, or what is missing next. But one that goes back N is sending
 * that already; if not, the next packet to come shows it. So may one that repeats single packets,
 * if too many in a row are missing: it isn't told of the very next one.
 */
void responder_fill_gap(struct qp *qp, uint64_t now);

#endif
