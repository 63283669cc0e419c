/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of a work request: headers and payload (IBA 9.7.2 to 9.7.4), as
 * emu/transport/response has those of what answers it. The requester decides when one is sent, and
 * calls this with the QP's lock.
 */
#ifndef URXE_EMU_REQUEST_PACKET_H
#define URXE_EMU_REQUEST_PACKET_H

#include <stdint.h>

struct link_packet;
struct outbox;
struct qp;
struct send_wqe;

/*
 * Build the packet of @wqe at the cursor (requester.psn) in @outbox and move the cursor behind it;
 * a READ asks for @responses at the most. Returns the packet, or NULL when its memory can't be
 * used: @wqe->status says why.
 */
struct link_packet *request_packet_build(struct qp *qp, struct send_wqe *wqe, uint32_t responses,
					 struct outbox *outbox);

/* @packet, which was built and hasn't left yet, asks for an acknowledgement. */
void request_packet_ask_ack(struct qp *qp, struct link_packet *packet);

#endif
