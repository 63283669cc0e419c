/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/completer.h"

#include "emu/explain/requester.h"
#include "emu/objects/cq.h"
#include "emu/objects/mr.h"
#include "emu/objects/qp_show.h"
#include "emu/transport/placement.h"

/* IBA 9.7.5.2, of refusals. */
static const enum ibv_wc_status nak_status[] = {
	[AETH_NAK_INVALID_REQUEST & AETH_VALUE_MASK] = IBV_WC_REM_INV_REQ_ERR,
	[AETH_NAK_REMOTE_ACCESS & AETH_VALUE_MASK] = IBV_WC_REM_ACCESS_ERR,
	[AETH_NAK_REMOTE_OPERATION & AETH_VALUE_MASK] = IBV_WC_REM_OP_ERR,
};

/* @cause: why, or CAUSE_NONE. */
static void complete_oldest(struct qp *qp, enum ibv_wc_status status, enum cause cause)
{
	struct send_queue *sq = &qp->sq;
	const struct send_wqe *wqe = send_queue_at(sq, sq->done++);
	struct ibv_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = wqe->kind->completion,
		.vendor_err = cause,
		.byte_len = wqe->length,
		.qp_num = qp->number,
	};
	uint32_t slots;

	WATCH(qp->hca, send_done, qp);
	if (status == IBV_WC_SUCCESS) {
		qp_show_request(qp, wqe);
		if (injects(qp->hca))
			inject_message(qp, request_kind_opcode(wqe->kind));
	}
	sq->unreported++;
	/* An error is reported whether or not the request was signaled, IBA 10.7.3.1. */
	if (status == IBV_WC_SUCCESS && !(wqe->flags & IBV_SEND_SIGNALED))
		return;
	slots = sq->unreported;
	sq->unreported = 0;
	qp_complete(qp, qp->send_cq, &wc, slots, false);
}

/*
 * @psns packets of @wqe, from requester.unacked on, have arrived: they leave the window, where each
 * has @cost; 0: they left it when they were kept.
 */
static void arrived(struct qp *qp, const struct send_wqe *wqe, uint32_t psns, uint32_t cost)
{
	struct requester *req = &qp->requester;
	bool beyond = (int32_t)psns > psn_distance(req->psn, req->unacked);

	recovery_count_acked(qp, (uint64_t)psns * cost, beyond);
	req->unacked = psn_add(req->unacked, psns);
	if (beyond) {
		req->psn = req->unacked;
		qp->sq.next = qp->sq.done;
	}
	if (req->unacked == psn_add(wqe->first_psn, wqe->psn_count)) {
		if (wqe->injected) {
			completer_fail(qp, wqe->injected, NULL);
			return;
		}
		if (qp->sq.next == qp->sq.done)
			qp->sq.next++;
		complete_oldest(qp, IBV_WC_SUCCESS, CAUSE_NONE);
		completer_local(qp);
	}
}

/* The peer has sent something since the last request was posted. */
static bool has_answered(const struct qp *qp)
{
	return qp->responder.msn != qp->requester.posted_msn;
}

/*
 * All that was posted has completed, and the peer has sent nothing since: an application that waits
 * for what the peer writes has no reason to poll.
 */
static bool awaits_peer(const struct qp *qp)
{
	return qp->sq.done == qp->sq.posted && !has_answered(qp);
}

/* @progress: something was acknowledged. */
static void note_peer_awaited(struct qp *qp, bool progress)
{
	_Atomic bool *awaited = &qp->hca->peer_awaited;
	bool noted = atomic_load_explicit(awaited, memory_order_relaxed);

	if (progress && !noted && awaits_peer(qp))
		atomic_store_explicit(awaited, true, memory_order_relaxed);
	else if (noted && has_answered(qp))
		atomic_store_explicit(awaited, false, memory_order_relaxed);
}

void completer_receive_end(struct qp *qp, uint64_t now)
{
	bool progress = qp->recovery.progress;

	mr_unpin_kept(qp->hca, &qp->requester.response_pin);
	recovery_drain(qp, now);
	if (qp->missing.any)
		recovery_on_missing(qp, now);
	note_peer_awaited(qp, progress);
	/*
	 * Space in the congestion window, a READ less outstanding: there may be more to send.
	 * Scheduled behind the QPs that the space in the window has woken.
	 */
	if (qp->requester.responded && qp->sq.next != qp->sq.posted &&
	    !(progress && requester_coalesces(qp)))
		hca_schedule(qp->hca, qp);
	qp->requester.responded = false;
}

/*
 * Unsignaled messages of one packet, about which nothing has to be said: complete as many as lie
 * before @psn, all at once. Returns whether there were any; arrived() does the rest.
 */
static bool complete_single_packets(struct qp *qp, uint32_t psn)
{
	struct send_queue *sq = &qp->sq;
	uint32_t first = sq->done, left = psn_distance(psn, qp->requester.unacked);
	uint64_t cost = 0, bytes = 0;

	if (qp->hca->measures || qp->hca->watch || injects(qp->hca))
		return false;
	for (; left && sq->done != sq->next; left--, sq->done++) {
		const struct send_wqe *wqe = send_queue_at(sq, sq->done);

		if (!(wqe->kind->flags & REQUEST_SIMPLE) || wqe->psn_count != 1 ||
		    wqe->flags & IBV_SEND_SIGNALED || wqe->injected)
			break;
		cost += wqe->packet_cost;
		bytes += wqe->length;
	}
	if (sq->done == first)
		return false;
	sq->unreported += sq->done - first;
	qp->requester.unacked = psn_add(qp->requester.unacked, sq->done - first);
	recovery_count_acked(qp, cost, false);
	qp_show_sent(qp, sq->done - first, bytes);
	completer_local(qp);
	return true;
}

/*
 * Everything before @psn has arrived at the responder, says a response with a
 * higher PSN (IBA 9.7.5.1.2: acknowledgements coalesce). Returns whether that
 * agrees with what we have: READs and atomics need their own responses, and one
 * that is passed over has lost it.
 */
static bool acknowledge_before(struct qp *qp, uint32_t psn, uint64_t now)
{
	struct requester *req = &qp->requester;
	uint32_t start = req->unacked;

	while (req->unacked != psn && qp->sq.done != qp->sq.posted) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.done);
		uint32_t end = psn_add(wqe->first_psn, wqe->psn_count);

		if (wqe->kind->response)
			break;
		if (complete_single_packets(qp, psn))
			continue;
		if (psn_distance(psn, end) < 0)
			end = psn;
		arrived(qp, wqe, psn_distance(end, req->unacked), wqe->packet_cost);
	}
	if (req->unacked != start)
		recovery_on_acked(qp, now);
	return req->unacked == psn;
}

/* --- payloads ------------------------------------------------------------------------------- */

/*
 * How long the payload of a response is: what is left of a READ, a packet at most; nothing where
 * the response is all that there is to say (FLUSH, ATOMIC WRITE: Annex A19).
 */
static uint32_t response_length(const struct qp *qp, const struct send_wqe *wqe, uint64_t offset)
{
	return wqe->kind->data == DATA_READ ? message_part(wqe->length, offset, qp->mtu) : 0;
}

/* Of the request that it answers: a long READ is several. */
static bool response_is_last(const struct send_wqe *wqe, uint32_t index)
{
	return send_wqe_request_rest(wqe, index) == 1;
}

static int scatter_response(struct qp *qp, const struct send_wqe *wqe, uint64_t offset,
			    const void *data, uint32_t length)
{
	if (qp->hca->placement)
		return placement_scatter(qp, qp->pd, wqe->sge, wqe->num_sge, offset, data, length);
	return sge_scatter(qp->hca, qp->pd, wqe->sge, wqe->num_sge, offset, data, length,
			   &qp->requester.response_pin);
}

/*
 * A READ response, to where its PSN says. One that was placed early is only checked.
 * Returns the status of the READ if that is wrong, or IBV_WC_SUCCESS.
 */
static enum ibv_wc_status place_response(struct qp *qp, const struct send_wqe *wqe,
					 const struct packet *packet)
{
	uint32_t index = psn_distance(packet->psn, wqe->first_psn);
	uint64_t offset = (uint64_t)index * qp->mtu;
	uint32_t length = response_length(qp, wqe, offset);

	if (response_is_last(wqe, index) != !!(packet->op->flags & OPCODE_LAST) &&
	    !(wqe->kind->data == DATA_READ && wqe->read_in_parts)) /* it may answer a FLUSH */
		return IBV_WC_BAD_RESP_ERR;
	if (packet->payload_length != length)
		return IBV_WC_LOC_LEN_ERR;
	if (!packet->placed && scatter_response(qp, wqe, offset, packet->payload, length) != 0)
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* What an atomic found in its target: the same of that. */
static enum ibv_wc_status place_original(struct qp *qp, const struct send_wqe *wqe,
					 const struct packet *packet)
{
	uint64_t original = be64toh(packet_atomicacketh(packet)->original);

	return scatter_response(qp, wqe, 0, &original, sizeof(original)) == 0 ? IBV_WC_SUCCESS
									      : IBV_WC_LOC_PROT_ERR;
}

/* Whether the oldest work request may be answered by @packet at all. */
static bool may_answer(const struct send_wqe *wqe, const struct packet *packet)
{
	return packet->op->flags & wqe->kind->response &&
	       (!packet->op->aeth || aeth_is_ack(packet_syndrome(packet)));
}

/*
 * Place the payload of a READ response although an earlier one is missing. Not that of the last
 * packet (message_place_early()).
 */
static bool place_early(struct qp *qp, uint32_t index, const struct packet *packet)
{
	const struct send_wqe *wqe = send_queue_at(&qp->sq, index);

	return wqe->kind->data == DATA_READ && may_answer(wqe, packet) &&
	       !(packet->op->flags & OPCODE_LAST) && !qp->hca->placement &&
	       missing_may_place(qp, index, packet) &&
	       place_response(qp, wqe, packet) == IBV_WC_SUCCESS;
}

/* Keep the response until those before it have come. */
static void keep_early(struct qp *qp, const struct packet *packet)
{
	uint32_t index = send_queue_find(&qp->sq, packet->psn);
	const struct send_wqe *wqe = send_queue_at(&qp->sq, index);
	bool fits = packet->op->flags & wqe->kind->response;

	/* One of another kind doesn't answer its request: that fails when it comes in order. */
	missing_note(qp, psn_add(packet->psn, fits));
	if (!fits || !missing_wants(qp, packet))
		return;
	if (!missing_keep(qp, packet, place_early(qp, index, packet)))
		return;
	qp->observed->done.losses.packets_kept++;
	recovery_count_acked(qp, wqe->packet_cost, false);
}

/*
 * Whether no request is left that could be answered: one that completed found its CQ full, and the
 * queue was flushed.
 */
static inline bool is_flushed(const struct qp *qp)
{
	return qp->sq.done == qp->sq.posted;
}

/* A response before @packet is missing. One that may be of a connection before isn't kept. */
static void pass_over(struct qp *qp, const struct packet *packet, uint64_t now)
{
	bool bare = packet->op->flags & OPCODE_ACK;

	if (is_flushed(qp))
		return;
	if (qp->hca->behaviour.drops_out_of_order)
		recovery_on_response_missed(qp, now);
	else if (bare && aeth_is_ack(packet_syndrome(packet)))
		missing_note(qp, psn_add(packet->psn, 1));
	else if (qp_may_be_stale(qp, packet->psn, qp->former.sent))
		recovery_on_response_missed(qp, now);
	else if (bare)
		missing_keep_nak(qp, packet);
	else
		keep_early(qp, packet);
}

/* A NAK of the packet at requester.unacked. */
static void receive_nak(struct qp *qp, const struct packet *packet, uint64_t now)
{
	uint8_t syndrome = packet_syndrome(packet);

	if (is_flushed(qp))
		return;
	if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK) {
		COUNT(qp->hca, rcvd_rnr_err, 1);
		qp->observed->done.losses.rnr_naks++;
		recovery_on_rnr_nak(qp, aeth_rnr_delay(syndrome), now);
	} else if (syndrome == AETH_NAK_PSN_SEQUENCE) {
		COUNT(qp->hca, rcvd_seq_err, 1);
		qp->observed->done.losses.sequence_naks++;
		recovery_on_sequence_nak(qp, now);
	} else if (aeth_is_refusal(syndrome)) { /* other NAKs are reserved and ignored */
		completer_fail(qp, nak_status[syndrome & AETH_VALUE_MASK], packet);
	}
}

static void receive_acknowledge(struct qp *qp, const struct packet *packet, uint64_t now)
{
	bool ack = aeth_is_ack(packet_syndrome(packet));

	/* An ACK's PSN has arrived, a NAK's hasn't; all before it have (IBA 9.7.5.1.2). */
	if (!acknowledge_before(qp, psn_add(packet->psn, ack), now))
		pass_over(qp, packet, now);
	else if (!ack)
		receive_nak(qp, packet, now);
}

/*
 * The oldest work request, if the response fits it: it must be the one that
 * @packet's PSN belongs to, and of the kind asked for.
 */
static struct send_wqe *match_response(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct send_wqe *wqe;

	if (!acknowledge_before(qp, packet->psn, now)) {
		pass_over(qp, packet, now);
		return NULL;
	}
	if (is_flushed(qp))
		return NULL;
	wqe = send_queue_at(&qp->sq, qp->sq.done);
	if (!may_answer(wqe, packet)) { /* IBA 9.9.2 */
		completer_fail(qp, IBV_WC_BAD_RESP_ERR, packet);
		return NULL;
	}
	return wqe;
}

static void response_done(struct qp *qp)
{
	/* What arrives from behind the cursor answers a request that isn't counted any more. */
	if (qp->requester.rd_atomic > 0)
		qp->requester.rd_atomic--;
}

/* A response to a READ, an atomic, a FLUSH or an ATOMIC WRITE. */
static void receive_data(struct qp *qp, const struct packet *packet, bool kept, uint64_t now)
{
	struct send_wqe *wqe = match_response(qp, packet, now);
	enum ibv_wc_status status;

	if (!wqe)
		return;
	status = packet->op->flags & OPCODE_ATOMIC ? place_original(qp, wqe, packet)
						   : place_response(qp, wqe, packet);
	if (status != IBV_WC_SUCCESS) {
		completer_fail(qp, status, packet);
		return;
	}
	if (response_is_last(wqe, psn_distance(packet->psn, wqe->first_psn)))
		response_done(qp);
	arrived(qp, wqe, 1, kept ? 0 : wqe->packet_cost);
	recovery_on_acked(qp, now);
}

static void receive_response(struct qp *qp, const struct packet *packet, bool kept, uint64_t now)
{
	if (packet->op->flags & (OPCODE_READ | OPCODE_ATOMIC))
		receive_data(qp, packet, kept, now);
	else
		receive_acknowledge(qp, packet, now);
}

/* All before the NAK that was kept has come: it counts, unless its packet was answered since. */
static void receive_kept_nak(struct qp *qp, uint64_t now)
{
	struct missing *missing = &qp->missing;

	missing->nak_came = false;
	if (missing->nak.psn == qp->requester.unacked)
		receive_nak(qp, &missing->nak, now);
}

/* Receive what was kept behind a response that was missing, up to the next one that is. */
static void receive_kept(struct qp *qp, uint64_t now)
{
	struct missing *missing = &qp->missing;
	const struct packet *packet;

	while (missing->any) {
		if (acknowledge_before(qp, missing->seen, now)) {
			missing->any = false;
			break;
		}
		packet = missing_take(qp);
		if (!packet)
			return;
		receive_response(qp, packet, true, now);
		reorder_free(&missing->kept, packet);
	}
	if (missing->nak_came)
		receive_kept_nak(qp, now);
}

/* For explain_silence(). */
static void note_ghost(struct requester *req, const struct packet *packet)
{
	if (!(packet->op->flags & OPCODE_ACK))
		return;
	req->ghost = true;
	req->ghost_expects = psn_add(packet->psn, aeth_is_ack(packet_syndrome(packet)));
}

void completer_receive(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct requester *req = &qp->requester;

	/* IBA 9.9.2.2: ghosts, of PSNs never sent or long acknowledged, are dropped. */
	if (psn_distance(packet->psn, req->highest) >= 0 ||
	    psn_distance(packet->psn, req->unacked) < 0) {
		note_ghost(req, packet);
		return;
	}
	receive_response(qp, packet, false, now);
	if (qp->missing.any)
		receive_kept(qp, now);
	req->responded = true;
}

void completer_sent(struct qp *qp)
{
	while (qp->sq.done != qp->sq.next)
		complete_oldest(qp, IBV_WC_SUCCESS, CAUSE_NONE);
	qp->requester.unacked = qp->requester.psn;
}

/*
 * When a restart has moved the cursor back in front of a request that was executed, it moves behind
 * it here: nothing is executed twice.
 */
void completer_local(struct qp *qp)
{
	while (qp->sq.done != qp->sq.posted) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.done);

		if (!wqe->started || !(wqe->kind->flags & REQUEST_LOCAL))
			return;
		if (qp->sq.next == qp->sq.done)
			qp->sq.next++;
		complete_oldest(qp, IBV_WC_SUCCESS, CAUSE_NONE);
	}
}

void completer_local_error(struct qp *qp)
{
	const struct send_wqe *wqe;

	if (qp->sq.done != qp->sq.next || qp->sq.next == qp->sq.posted)
		return;
	wqe = send_queue_at(&qp->sq, qp->sq.done);
	if (!wqe->started && !(qp_abilities(qp) & QP_SEND))
		return; /* SQD: it is looked at when requests are started again */
	if (wqe->status != IBV_WC_SUCCESS)
		completer_fail(qp, wqe->status, NULL);
}

void completer_fail(struct qp *qp, enum ibv_wc_status status, const struct packet *packet)
{
	if (qp->sq.done != qp->sq.posted) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.done);

		/* A fault has asked for this status, whatever the request was made to fail by. */
		if (wqe->injected)
			status = wqe->injected;
		complete_oldest(qp, status, explain_request(qp, status, packet));
	}
	if (qp->state == IBV_QPS_ERR)
		return;
	if (qp->type->state_on_error == IBV_QPS_SQE)
		qp_enter_sqe(qp);
	else
		qp_enter_error(qp);
}

void completer_flush(struct qp *qp)
{
	struct requester *req = &qp->requester;

	recovery_stop(qp);
	missing_clear(&qp->missing);
	req->rd_atomic = 0;
	req->paced_until = TIME_NEVER;
	req->unacked = req->highest = req->psn;
	explain_flush(qp, qp->sq.posted - qp->sq.done);
	while (qp->sq.done != qp->sq.posted)
		complete_oldest(qp, IBV_WC_WR_FLUSH_ERR, CAUSE_FLUSHED);
	qp->sq.next = qp->sq.done;
}
