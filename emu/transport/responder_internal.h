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

/* A request behind the expected one: out of order, as at least one before it is missing. */
void responder_receive_early(struct qp *qp, const struct packet *packet);

/* Before the expected one: a duplicate. */
void responder_receive_late(struct qp *qp, const struct packet *packet, uint64_t now);

/*
 * The missing packet has been received: receive what was kept behind it, and tell the requester at
 * once how far that goes, for it waits for that: by an ACK, or if there is another gap by the NAK
 * of that one. But no NAK goes to a requester that goes back N, which is sending the next one
 * already; nor where nothing had been kept right behind the packet that came: the requester may be
 * retransmitting the next one, too. Not so when it knows of nothing that is missing, as the NAK was
 * withdrawn (@untold).
 */
void responder_fill_gap(struct qp *qp, bool untold, uint64_t now);

#endif
