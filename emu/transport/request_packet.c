/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/request_packet.h"

#include "emu/hca.h"
#include "emu/objects/qp.h"
#include "emu/transport/outbox.h"

static void fill_headers(struct qp *qp, const struct send_wqe *wqe, uint8_t opcode,
			 uint64_t remote_addr, uint32_t length, struct link_packet *packet)
{
	const struct opcode *op = opcode_find(opcode);
	uint8_t *headers = packet->headers;
	uint32_t dest_qp = qp->type->connected ? qp->attr.dest_qp_num : wqe->remote_qpn;
	struct bth *bth = (struct bth *)headers;

	bth_fill(bth, opcode, qp->migration.bth_flags, dest_qp, qp->requester.psn);
	if (request_packet_is_solicited(wqe, op))
		bth->flags |= BTH_SOLICITED;
	if (op->deth) {
		/* IBA 10.2.5: a controlled Q_Key in the request stands for the QP's own. */
		uint32_t qkey =
			wqe->remote_qkey & QKEY_CONTROLLED ? qp->attr.qkey : wqe->remote_qkey;

		*(struct deth *)(headers + op->deth) =
			(struct deth){.qkey = htobe32(qkey), .source_qp = htobe32(qp->number)};
	}
	if (op->xrceth)
		*(struct xrceth *)(headers + op->xrceth) =
			(struct xrceth){.srq = htobe32(wqe->remote_srqn)};
	if (op->feth) {
		uint32_t selectivity = wqe->flush.selectivity << FETH_SELECTIVITY_SHIFT;

		*(struct feth *)(headers + op->feth) = (struct feth){
			.selectivity_placement = htobe32(selectivity | wqe->flush.placement)};
	}
	if (op->atomiceth) {
		bool swap = wqe->kind->only == WIRE_COMPARE_SWAP;

		*(struct atomiceth *)(headers + op->atomiceth) = (struct atomiceth){
			.va = htobe64(remote_addr),
			.rkey = htobe32(wqe->rkey),
			.swap_or_add = htobe64(swap ? wqe->swap : wqe->compare_add),
			.compare = htobe64(swap ? wqe->compare_add : 0),
		};
	}
	if (op->ieth)
		*(struct ieth *)(headers + op->ieth) =
			(struct ieth){.rkey = htobe32(wqe->invalidate_rkey)};
	request_packet_fill_reth(wqe, op, headers, remote_addr, length);
	packet->headers_length = op->headers_length;
}

void request_packet_ask_ack(struct qp *qp, struct link_packet *packet)
{
	((struct bth *)packet->headers)->psn |= htobe32(BTH_ACK_REQUEST);
	qp->requester.since_request = 0;
}

/* READ: one request for what is left of the part that the cursor is in, @most packets of it. */
static uint32_t build_read_request(struct qp *qp, struct send_wqe *wqe, uint32_t index,
				   uint32_t most, struct link_packet *packet)
{
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t psns = send_wqe_request_rest(wqe, index);
	uint64_t length = wqe->length - offset;

	if (psns > most) {
		psns = most;
		wqe->read_in_parts = true;
	}
	if (length > (uint64_t)psns * qp->mtu)
		length = (uint64_t)psns * qp->mtu;
	fill_headers(qp, wqe, qp->type->transport | wqe->kind->only, wqe->remote_addr + offset,
		     length, packet);
	return psns;
}

/* Atomics and FLUSH: headers alone. */
static void build_request(struct qp *qp, const struct send_wqe *wqe, struct link_packet *packet)
{
	uint32_t length = wqe->kind->flags & REQUEST_FLUSH ? wqe->flush.length : 0;

	fill_headers(qp, wqe, qp->type->transport | wqe->kind->only, wqe->remote_addr, length,
		     packet);
}

/* SEND and RDMA WRITE: the part of the message that packet @index has. As outbox_gather(). */
static int build_data(struct qp *qp, const struct send_wqe *wqe, uint32_t index,
		      struct outbox *outbox, struct link_packet *packet)
{
	const struct request_kind *kind = wqe->kind;
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t length = message_part(wqe->length, offset, qp->mtu);
	bool last = index + 1 == wqe->psn_count;
	uint8_t operation = last ? (index == 0 ? kind->only : kind->last)
				 : (index == 0 ? kind->first : kind->middle);

	fill_headers(qp, wqe, qp->type->transport | operation, wqe->remote_addr, wqe->length,
		     packet);
	if (wqe->flags & IBV_SEND_INLINE) {
		outbox_payload(outbox, packet, wqe->inline_data + offset, length);
		return 0;
	}
	return outbox_gather(outbox, packet, qp->pd, wqe->sge, wqe->num_sge, offset, length);
}

struct link_packet *request_packet_build(struct qp *qp, struct send_wqe *wqe, uint32_t responses,
					 struct outbox *outbox)
{
	struct requester *req = &qp->requester;
	const struct path *path = qp->type->connected ? &qp->path : &wqe->path;
	struct link_packet *packet = outbox_packet(outbox, path);
	uint32_t index = psn_distance(req->psn, wqe->first_psn);
	uint32_t psns = 1;

	if (wqe->kind->data == DATA_READ) {
		psns = build_read_request(qp, wqe, index, responses, packet);
	} else if (wqe->kind->data != DATA_SENT) {
		build_request(qp, wqe, packet);
	} else if (build_data(qp, wqe, index, outbox, packet) != 0) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		return NULL;
	}
	/* Only now: a request that still waits for a fence or for space doesn't start in SQD. */
	wqe->started = true;
	if (psn_distance(req->psn, req->highest) < 0) {
		COUNT(qp->hca, retransmitted_pkts, 1);
		qp->observed->done.losses.resent++;
	}
	req->psn = psn_add(req->psn, psns);
	if (psn_distance(req->psn, req->highest) > 0)
		req->highest = req->psn;
	return packet;
}
