/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of a work request: headers and payload (IBA 9.7.2 to 9.7.4), as
 * emu/transport/response has those of what answers it. The requester decides when one is sent, and
 * calls this with the QP's lock.
 */
#ifndef URXE_EMU_REQUEST_PACKET_H
#define URXE_EMU_REQUEST_PACKET_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/transport/send_queue.h"
#include "net/wire/wire.h"

struct link_packet;
struct outbox;
struct qp;

/*
 * Build the packet of @wqe at the cursor (requester.psn) in @outbox and move the cursor behind it;
 * a READ asks for @responses at the most. Returns the packet, or NULL when its memory can't be
 * used: @wqe->status says why.
 */
struct link_packet *request_packet_build(struct qp *qp, struct send_wqe *wqe, uint32_t responses,
					 struct outbox *outbox);

/* IBA 9.2.3: only the last packet of what creates a completion at the responder. */
static inline bool request_packet_is_solicited(const struct send_wqe *wqe, const struct opcode *op)
{
	return wqe->flags & IBV_SEND_SOLICITED && op->flags & OPCODE_LAST &&
	       op->flags & (OPCODE_SEND | OPCODE_IMMEDIATE);
}

/* The RETH and ImmDt of a packet with @op, as far as it has them, for @length bytes at @va. */
static inline void request_packet_fill_reth(const struct send_wqe *wqe, const struct opcode *op,
					    uint8_t *headers, uint64_t va, uint32_t length)
{
	if (op->reth)
		*(struct reth *)(headers + op->reth) = (struct reth){
			.va = htobe64(va), .rkey = htobe32(wqe->rkey), .length = htobe32(length)};
	if (op->immdt)
		*(struct immdt *)(headers + op->immdt) = (struct immdt){.data = wqe->imm_data};
}

/* @packet, which was built and hasn't left yet, asks for an acknowledgement. */
void request_packet_ask_ack(struct qp *qp, struct link_packet *packet);

#endif
