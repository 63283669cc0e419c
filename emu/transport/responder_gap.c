/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of RC and XRC that come out of sequence: emu/transport/responder_internal.h. */
#include "emu/transport/duplicate.h"
#include "emu/transport/responder_internal.h"
#include "net/tuning.h"

/* One NAK per gap, IBA 9.7.5.2.3: then silence until the expected packet comes. */
static void send_sequence_nak(struct qp *qp)
{
	struct responder *resp = &qp->responder;

	if (resp->nak_sent)
		return;
	resp->nak_sent = true;
	qp->hca->urgent = true;
	qp->observed->done.losses.sequence_naks_sent++;
	response_schedule_ack(qp, AETH_NAK_PSN_SEQUENCE, resp->expected_psn);
}

/*
 * Whether a MIDDLE packet of a SEND is of the one in progress, whose length isn't known. A single
 * packet that is missing between two of its kind must be a third one (IBA 9.7.4.1.2); two may be
 * the end of a message and the beginning of the next.
 */
static bool is_of_send(struct responder *resp, const struct packet *packet)
{
	if (psn_distance(resp->expected_psn, resp->send_end) > 0)
		resp->send_end = resp->expected_psn;
	if (psn_distance(packet->psn, resp->send_end) > 1)
		return false;
	if (psn_distance(packet->psn, resp->send_end) >= 0)
		resp->send_end = psn_add(packet->psn, 1);
	return true;
}

/*
 * Write the payload to its place although an earlier packet is missing. A packet of a WRITE belongs
 * there if that is as long.
 */
static bool place_early(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	uint16_t flags = packet->op->flags;

	if (qp->xrc_domain || !(flags & (OPCODE_SEND | OPCODE_WRITE)) ||
	    flags & (OPCODE_FIRST | OPCODE_LAST) || !message_continues(&resp->message, packet))
		return false;
	if (flags & OPCODE_SEND && !is_of_send(resp, packet))
		return false;
	return responder_allows(qp, packet) && responder_payload_fits(qp, packet) &&
	       message_place_early(&resp->message, qp, packet,
				   psn_distance(packet->psn, resp->expected_psn));
}

/* Keep the request until those before it have come. Its payload may be in its place by then. */
static void keep_early(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	bool placed = place_early(qp, packet);

	if (reorder_keep(&resp->kept, &qp->hca->packets, packet, placed, resp->expected_psn))
		qp->observed->done.losses.packets_kept++;
}

void responder_receive_early(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	uint32_t end = psn_add(packet->psn, 1);

	COUNT_ALONE(qp->hca, out_of_seq_request, 1);
	send_sequence_nak(qp);
	if (qp_may_be_stale(qp, packet->psn, qp->former.received))
		return;
	/* Those that came before may be retransmitted, too. */
	if (!resp->gap || psn_distance(end, resp->seen) > 0) {
		resp->seen = end;
		resp->retransmits_one |= resp->filled;
		resp->filled = false;
	}
	if (!resp->gap)
		resp->send_end = resp->expected_psn;
	resp->gap = true;
	/*
	 * Atomics, FLUSHes and ATOMIC WRITEs are not kept: the requester retransmits them after
	 * what is missing.
	 */
	if (packet->op->flags & (OPCODE_SEND | OPCODE_WRITE | OPCODE_READ) &&
	    !qp->hca->behaviour.drops_out_of_order && !reorder_has(&resp->kept, packet->psn))
		keep_early(qp, packet);
}

/* What was kept, as far as nothing is missing. Returns whether all of that could be received. */
static bool receive_kept(struct qp *qp, uint64_t now)
{
	struct responder *resp = &qp->responder;
	const struct packet *packet;
	bool goes_on = true;

	resp->kept_waits = false;
	while (goes_on && (packet = reorder_take(&resp->kept, resp->expected_psn))) {
		resp->filled = true;
		resp->late = 0;
		goes_on = responder_receive_expected(qp, packet, now);
		resp->kept_waits = qp->xrc.waits;
		if (resp->kept_waits)
			reorder_return(&resp->kept, packet);
		else
			reorder_free(&resp->kept, packet);
	}
	return goes_on;
}

void responder_fill_gap(struct qp *qp, bool untold, uint64_t now)
{
	struct responder *resp = &qp->responder;
	uint32_t filled_to = resp->expected_psn;

	if (!receive_kept(qp, now))
		return;
	reorder_remove_before(&resp->kept, resp->expected_psn);
	resp->gap = resp->gap && psn_distance(resp->seen, resp->expected_psn) > 0;
	if (resp->gap && (untold || (resp->retransmits_one && resp->expected_psn != filled_to)))
		send_sequence_nak(qp);
	else if (resp->response.unacknowledged &&
		 (untold || !qp->hca->behaviour.drops_out_of_order))
		response_schedule_ack(qp, AETH_ACK_UNLIMITED, psn_add(resp->expected_psn, -1));
}

void responder_receive_late(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct responder *resp = &qp->responder;

	/* It has been received, and deferred for the sake of the one that waits (emu/receive.c). */
	if (resp->kept_waits) {
		responder_fill_gap(qp, false, now);
		return;
	}
	/* A few may be retransmitted with the one that was missing. */
	if (resp->filled && ++resp->late > GO_BACK_N_SEEN)
		resp->retransmits_one = resp->filled = false;
	duplicate_receive(qp, packet);
}
