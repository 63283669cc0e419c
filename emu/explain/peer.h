/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of a peer that doesn't answer: retries are used up. Where the peer's address is
 * one of this machine, the link knows what became of its process and queue pair
 * (link_ops.describe_peer); elsewhere only how long it has been silent. Called by
 * emu/explain/requester and by recovery, under qp.lock.
 */
#ifndef URXE_EMU_EXPLAIN_PEER_H
#define URXE_EMU_EXPLAIN_PEER_H

#include "net/cause/cause.h"

struct qp;

void explain_silence(struct qp *qp, struct finding *finding);

/* No retry is counted, for the peer's process has @bytes of ours, or other's, and doesn't read. */
void explain_not_reading(struct qp *qp, uint32_t bytes);

#endif
