/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responders without acknowledgements: UC (IBA 9.8.2) and UD (IBA 9.8.3).
 * What is wrong is dropped. Under qp.lock; called by responder_receive().
 */
#ifndef URXE_EMU_RESPONDER_DATAGRAM_H
#define URXE_EMU_RESPONDER_DATAGRAM_H

#include "net/link.h"

struct qp;

void responder_receive_unreliable(struct qp *qp, const struct packet *packet);
void responder_receive_datagram(struct qp *qp, const struct packet *packet,
				const struct link_frame *frame);

#endif
