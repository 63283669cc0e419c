/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that were executed before and come again, because the network duplicated them
 * or their answers were lost (IBA 9.7.1.1, 9.7.5.1.3): they are answered again, and
 * nothing is executed twice. Called by the RC responder under qp.lock.
 */
#ifndef URXE_EMU_DUPLICATE_H
#define URXE_EMU_DUPLICATE_H

#include "net/wire/wire.h"

struct qp;

/* @packet is behind the expected PSN. What is wrong with it is never reported. */
void duplicate_receive(struct qp *qp, const struct packet *packet);

#endif
