/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that are answered by a response of their own and not by an acknowledgement: READs
 * and atomics, FLUSH and ATOMIC WRITE (Annex A19). Each takes a responder resource, of which
 * there are max_dest_rd_atomic, so that it can be answered again (IBA 9.7.5.1.3). Called by the RC
 * responder, which has made the checks of the packet and the QP, under qp.lock.
 */
#ifndef URXE_EMU_RD_ATOMIC_H
#define URXE_EMU_RD_ATOMIC_H

#include "emu/transport/message.h"
#include "net/wire/wire.h"

struct qp;

/* The requests that are meant, in enum opcode_flags. */
#define RD_ATOMIC (OPCODE_READ | OPCODE_ATOMIC | OPCODE_FLUSH | OPCODE_ATOMIC_WRITE)

/* The IBV_ACCESS_* that a FLUSH needs of the QP and the region; all there are, if it is invalid. */
unsigned int flush_access(const struct packet *packet);

/* Check the memory that @packet names, execute it and note its answer. */
enum responder_fault rd_atomic_execute(struct qp *qp, const struct packet *packet);

#endif
