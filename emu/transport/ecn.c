/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/ecn.h"

#include "emu/objects/qp.h"
#include "emu/transport/destination.h"
#include "emu/transport/outbox.h"
#include "net/tuning.h"

static void reduce_window(struct qp *qp, uint64_t now)
{
	destination_lost(qp->recovery.destination, CWND_MARKED, now);
}

void ecn_on_marked(struct qp *qp, const struct packet *packet, uint64_t now)
{
	/* RFC 3168, 6.1.4: of ACKs, as of CNPs, their sender couldn't send less. */
	if (packet->op->flags & OPCODE_ACK || packet->opcode == WIRE_OPCODE_CNP)
		return;
	COUNT(qp->hca, np_ecn_marked_roce_packets, 1);
	/*
	 * A marked response to a READ: a NIC that sends it slows down by the CNP, but a responder
	 * of ours by the requester's window, which is here.
	 */
	if (packet->op->flags & OPCODE_RESPONSE)
		reduce_window(qp, now);
	if (now < qp->ecn.cnp_after)
		return;
	qp->ecn.cnp_after = now + CNP_INTERVAL;
	qp->ecn.cnp_pending = true;
	hca_schedule(qp->hca, qp);
}

void ecn_on_cnp(struct qp *qp, uint64_t now)
{
	COUNT(qp->hca, rp_cnp_handled, 1);
	reduce_window(qp, now);
}

static void send_cnp(struct qp *qp, struct outbox *outbox)
{
	const struct opcode *op = opcode_find(WIRE_OPCODE_CNP);
	struct path path = qp->path;
	struct link_packet *packet;
	struct bth *bth;

	path.traffic_class = CNP_TRAFFIC_CLASS;
	packet = outbox_packet(outbox, &path);
	memset(packet->headers, 0, op->headers_length);
	bth = (struct bth *)packet->headers;
	bth_fill(bth, WIRE_OPCODE_CNP, 0, qp->attr.dest_qp_num, 0);
	bth->dest_qp |= htobe32(BTH_BECN);
	packet->headers_length = op->headers_length;
	outbox_flush(outbox); /* the packet refers to @path */
}

void ecn_run(struct qp *qp, struct outbox *outbox)
{
	if (!qp->ecn.cnp_pending)
		return;
	qp->ecn.cnp_pending = false;
	send_cnp(qp, outbox);
	COUNT(qp->hca, np_cnp_sent, 1);
}
