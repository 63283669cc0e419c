/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests that fail because a fault asks for it. Where it can be, the true thing happens on
 * the wire: a request that is to be refused leaves such that any peer refuses it, and a receive
 * that is to fail is answered with the NAK that its status has (IBA 9.7.5.2). What the peer can
 * have no part in fails before anything is sent. All under qp.lock.
 */
#ifndef URXE_EMU_INJECT_REQUEST_H
#define URXE_EMU_INJECT_REQUEST_H

#include <infiniband/verbs.h>

#include "emu/transport/message.h"

struct qp;
struct send_wqe;

/* @wqe was posted with @opcode: it may be one that is to fail. */
void inject_request(struct qp *qp, struct send_wqe *wqe, enum ibv_wr_opcode opcode);

/* A message has taken a receive. RESPONDER_FAULT_INJECTED if that is to fail: message.injected. */
enum responder_fault inject_receive(struct qp *qp);
/* The syndrome of the NAK for a receive that fails with @status; 0: none is sent. */
uint8_t inject_syndrome(enum ibv_wc_status status);

#endif
