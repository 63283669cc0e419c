/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/requester.h"

#include "emu/objects/qp.h"
#include "emu/transport/completer.h"
#include "emu/transport/destination.h"
#include "emu/transport/outbox.h"
#include "emu/transport/pacing.h"
#include "emu/transport/placement.h"
#include "emu/transport/read_cut.h"
#include "emu/transport/request_packet.h"
#include "net/tuning.h"

/* IBA 9.7.2: at most half of the PSN space may be unacknowledged. */
#define PSN_WINDOW (1 << 23)

void requester_reset(struct requester *requester)
{
	*requester = (struct requester){.paced_until = TIME_NEVER};
}

/* --- starting a work request ------------------------------------------------ */

/* The local errors that are found before anything of a request is sent (IBA 9.9.2). */
static enum ibv_wc_status check_local(struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->status != IBV_WC_SUCCESS)
		return wqe->status;
	/* A datagram is one packet; as NICs do, one that is longer is an error (IBA C10-93.1.1). */
	if (!qp->type->connected && wqe->length > qp->mtu)
		return IBV_WC_LOC_LEN_ERR;
	if (wqe->kind->response)
		return qp->attr.max_rd_atomic == 0 ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_SUCCESS;
	/* Of a single packet all is looked at when it is built. */
	if (!(wqe->flags & IBV_SEND_INLINE) && wqe->length > qp->mtu &&
	    sge_check(qp->hca, qp->pd, wqe->sge, wqe->num_sge, 0) != 0)
		return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

/* Give the request its PSNs. Returns whether it may be sent now. */
static bool start_request(struct qp *qp, struct send_wqe *wqe)
{
	struct requester *req = &qp->requester;
	uint32_t packet_length = message_part(wqe->length, 0, qp->mtu);
	uint32_t psn_count;

	if (!(qp_abilities(qp) & QP_SEND))
		return false; /* SQD: what wasn't started waits */
	if ((wqe->flags & IBV_SEND_FENCE) && req->rd_atomic > 0)
		return false; /* IBA 10.8.3.3 */
	if (wqe->flags & IBV_SEND_FENCE)
		placement_finish_local(qp);
	wqe->status = check_local(qp, wqe);
	if (wqe->status != IBV_WC_SUCCESS)
		return false;

	psn_count = message_packets(wqe->length, qp->mtu);
	/* The longest message has no more packets than the window alone. */
	if (req->psn != req->unacked &&
	    psn_distance(req->psn, req->unacked) + psn_count >= PSN_WINDOW)
		return false;
	wqe->first_psn = req->psn;
	wqe->psn_count = psn_count;
	wqe->packet_cost = packet_length + CWND_PACKET_OVERHEAD;
	if (wqe->kind->data == DATA_READ) {
		read_cut_begin(qp, wqe);
		wqe->memory = NULL;
	}
	return true;
}

/*
 * Bind or invalidate a memory window. A bind is ordered with what follows it
 * only; an invalidation waits for everything before it, since requests under
 * way may use the window (IBA 10.8.3.3). Returns whether the queue may go on.
 */
static bool execute_local(struct qp *qp, struct send_wqe *wqe, struct outbox *outbox)
{
	bool invalidate = wqe->kind->flags & REQUEST_INVALIDATE;
	int error;

	if (wqe->started)
		return true; /* before a retry */
	if ((wqe->flags & IBV_SEND_FENCE) && qp->requester.rd_atomic > 0)
		return false;
	outbox_flush(outbox); /* a response in it may hold the window */
	if (!qp->type->reliable)
		completer_sent(qp);
	/* Looked at last: a completion that finds its CQ full flushes the queue, @wqe with it. */
	if (!(qp_abilities(qp) & QP_SEND))
		return false;
	if (invalidate && qp->sq.done != qp->sq.next)
		return false;
	error = invalidate ? mw_invalidate(qp, wqe->invalidate_rkey) : mw_bind(qp, &wqe->bind);
	if (error) {
		wqe->status = IBV_WC_MW_BIND_ERR;
		return false;
	}
	wqe->started = true;
	wqe->first_psn = qp->requester.psn;
	return true;
}

/* --- reliable: windows, acknowledgements, timeouts ---------------------------- */

/* What the packet at the cursor puts in flight: itself, or the responses to a READ. */
static uint64_t cost_at_cursor(const struct qp *qp, const struct send_wqe *wqe)
{
	uint32_t index = psn_distance(qp->requester.psn, wqe->first_psn);

	return (uint64_t)send_wqe_request_rest(wqe, index) * wqe->packet_cost;
}

/*
 * How many packets are to be sent with one look at the congestion window, which takes a lock: those
 * of this request, and one of each that waits behind it, as if it were like this one; as many as
 * one call sends. What the window has no space for waits: a call with fewer costs nearly as much.
 */
static uint32_t burst_at_cursor(const struct qp *qp, const struct send_wqe *wqe,
				struct outbox *outbox)
{
	uint32_t left = wqe->psn_count - psn_distance(qp->requester.psn, wqe->first_psn);
	uint32_t length = message_part(wqe->length, 0, qp->mtu);
	uint32_t most;

	if (wqe->kind->response)
		return 1;
	most = outbox_train_left(outbox, sizeof(struct bth) + length + ICRC_LENGTH);
	left += qp->sq.posted - qp->sq.next - 1;
	return left < most ? left : most;
}

/*
 * A long message asks for an acknowledgement where one is worth a call of the responder's, but
 * where the window is small more often: it has to open again well before it is used up.
 */
static bool is_much_unasked(const struct qp *qp)
{
	uint64_t packets = qp->requester.since_request;
	uint64_t cost = packets * (qp->mtu + CWND_PACKET_OVERHEAD);

	return packets >= ACK_REQUEST_LEAST &&
	       (packets * qp->mtu >= ACK_BYTES ||
		cost >= qp->recovery.member.window / ACK_REQUEST_FRACTION);
}

static bool want_ack(const struct qp *qp, const struct send_wqe *wqe)
{
	return wqe->kind->response || qp->recovery.probe_wanted ||
	       qp->requester.psn == psn_add(wqe->first_psn, wqe->psn_count) || is_much_unasked(qp);
}

/* One round of sending. */
struct sending {
	struct outbox *outbox;
	struct link_packet *last; /* the last packet that was built, if it is still there */
	uint64_t granted;	  /* what the window has given and nothing has used */
	uint32_t bytes;		  /* of packets of long messages that were built */
};

/* The packet at the cursor, which is in the congestion window. Returns whether it was sent. */
static bool send_packet(struct qp *qp, struct send_wqe *wqe, uint64_t cost, struct sending *sending)
{
	struct requester *req = &qp->requester;
	uint32_t psn = req->psn;
	bool again = psn_distance(psn, req->highest) < 0;
	struct link_packet *packet = request_packet_build(qp, wqe, UINT32_MAX, sending->outbox);

	if (!packet)
		return false;
	sending->granted -= cost;
	req->rd_atomic += wqe->kind->response != 0;
	req->since_request++;
	if (want_ack(qp, wqe))
		request_packet_ask_ack(qp, packet);
	recovery_on_sent(qp, psn, cost, again, sending->outbox->now);
	sending->last = packet;
	sending->bytes += link_packet_length(packet);
	return true;
}

static void wait_until(struct qp *qp, uint64_t until)
{
	qp->requester.paced_until = until;
	hca_arm(qp->hca, &qp->timer, until);
}

/* Whether the packet at the cursor, of @cost, may be sent now. */
static bool grant_packet(struct qp *qp, const struct send_wqe *wqe, uint64_t cost,
			 struct sending *sending)
{
	uint64_t until = 0;

	if (sending->granted < cost && qp->recovery.probe_wanted)
		sending->granted += recovery_take_probe(qp, cost);
	if (sending->granted < cost)
		sending->granted +=
			cost * recovery_take(qp, cost, burst_at_cursor(qp, wqe, sending->outbox),
					     sending->outbox->now, &until);
	if (sending->granted >= cost)
		return true;
	if (until)
		wait_until(qp, until);
	/* Only an acknowledgement opens the congestion window again: ask for it. */
	if (sending->last)
		request_packet_ask_ack(qp, sending->last);
	return false;
}

/*
 * Where many packets are lost, a long message is sent in steps of SEND_STEP bytes: whether one ends
 * here. Then packets are received before the next one is built, so that a NAK, of which there will
 * be some, needn't wait until all is built that leaves with one call. Only while no other queue
 * pair waits for the window: it could take what is left of it before the next step, and nothing
 * that was sent might ask for an acknowledgement.
 */
static bool ends_step(const struct qp *qp, const struct send_wqe *wqe, struct sending *sending)
{
	return wqe->length >= SEND_STEP_LEAST && !wqe->kind->response &&
	       sending->bytes + LINK_TRAIN_BYTES > SEND_STEP &&
	       outbox_is_between_trains(sending->outbox) && qp->recovery.member.alone &&
	       destination_very_lossy(qp->recovery.destination, sending->outbox->now);
}

static void end_step(struct qp *qp, struct sending *sending)
{
	/* More than half a step that nothing asks about yet is worth a request. */
	if (sending->last && qp->requester.since_request * qp->mtu > SEND_STEP / 2)
		request_packet_ask_ack(qp, sending->last);
	hca_schedule(qp->hca, qp);
}

/* Send what is left of @wqe. Returns whether all of it has been sent. */
static bool send_reliable(struct qp *qp, struct send_wqe *wqe, struct sending *sending)
{
	struct requester *req = &qp->requester;
	uint32_t end = psn_add(wqe->first_psn, wqe->psn_count);

	while (req->psn != end) {
		uint64_t cost;

		if (ends_step(qp, wqe, sending)) {
			end_step(qp, sending);
			return false;
		}
		if (wqe->kind->response && req->rd_atomic >= qp->attr.max_rd_atomic)
			return false;
		if (wqe->kind->data == DATA_READ)
			read_cut_anew(qp, wqe);
		cost = cost_at_cursor(qp, wqe);
		if (!recovery_may_send(qp) || !grant_packet(qp, wqe, cost, sending) ||
		    !send_packet(qp, wqe, cost, sending))
			return false;
	}
	return true;
}

void requester_restart(struct qp *qp)
{
	struct requester *req = &qp->requester;

	req->psn = req->unacked;
	qp->sq.next = qp->sq.done;
	req->rd_atomic = 0;
	req->since_request = 0;
}

/* How many requests for responses of @wqe are outstanding, when the cursor is at @psn. */
static uint32_t outstanding_requests(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn)
{
	int32_t index = psn_distance(qp->requester.unacked, wqe->first_psn);
	int32_t end = psn_distance(psn, wqe->first_psn);
	uint32_t count = 0;

	if (!wqe->kind->response)
		return 0;
	if (index < 0)
		index = 0;
	if (end > (int32_t)wqe->psn_count)
		end = wqe->psn_count;
	for (; index < end; index += send_wqe_request_rest(wqe, index))
		count++;
	return count;
}

void requester_resume(struct qp *qp, uint32_t psn)
{
	struct requester *req = &qp->requester;
	struct send_queue *sq = &qp->sq;

	req->psn = psn;
	req->rd_atomic = 0;
	for (sq->next = sq->done; sq->next != sq->posted; sq->next++) {
		const struct send_wqe *wqe = send_queue_at(sq, sq->next);

		if (!wqe->started)
			return;
		if (wqe->kind->flags & REQUEST_LOCAL)
			continue;
		req->rd_atomic += outstanding_requests(qp, wqe, psn);
		if (psn_distance(psn, psn_add(wqe->first_psn, wqe->psn_count)) < 0)
			return;
	}
}

/* --- reliable: messages of one packet --------------------------------------------- */

/*
 * Whether what is sent now are new packets, one after another, as nearly always: nothing is
 * retransmitted, probed or drained.
 */
static bool sends_new_packets_only(const struct qp *qp)
{
	return qp->type->transport == WIRE_RC && qp->recovery.state == RECOVERY_SENDING &&
	       !qp->recovery.probe_wanted && qp->requester.psn == qp->requester.highest &&
	       qp_abilities(qp) & QP_SEND;
}

/* A message of one packet, without a fence, an error or anything else that is start_request()'s. */
static inline bool is_single_packet(const struct qp *qp, const struct send_wqe *wqe)
{
	return wqe->kind->flags & REQUEST_SIMPLE && wqe->length <= qp->mtu && !wqe->started &&
	       wqe->status == IBV_WC_SUCCESS && !(wqe->flags & IBV_SEND_FENCE);
}

/* What start_request(), request_packet_build() and send_packet() come to for such a message. */
static inline void fill_single_packet(const struct qp *qp, const struct send_wqe *wqe,
				      struct link_packet *packet)
{
	uint8_t opcode = WIRE_RC | wqe->kind->only;
	const struct opcode *op = opcode_find(opcode);
	uint8_t *headers = packet->headers;
	uint8_t solicited = request_packet_is_solicited(wqe, op) ? BTH_SOLICITED : 0;

	bth_fill((struct bth *)headers, opcode, qp->migration.bth_flags | solicited,
		 qp->attr.dest_qp_num, qp->requester.psn | BTH_ACK_REQUEST);
	request_packet_fill_reth(wqe, op, headers, wqe->remote_addr, wqe->length);
	packet->headers_length = op->headers_length;
}

/* Returns whether it was sent. */
static inline bool send_single_packet(struct qp *qp, struct send_wqe *wqe, struct sending *sending)
{
	struct requester *req = &qp->requester;
	uint32_t cost = wqe->length + CWND_PACKET_OVERHEAD;
	struct link_packet *packet;

	if (psn_distance(req->psn, req->unacked) + 1 >= PSN_WINDOW)
		return false;
	wqe->first_psn = req->psn;
	wqe->psn_count = 1;
	wqe->packet_cost = cost;
	if (sending->granted < cost && !grant_packet(qp, wqe, cost, sending))
		return false;
	packet = outbox_packet(sending->outbox, &qp->path);
	fill_single_packet(qp, wqe, packet);
	if (wqe->flags & IBV_SEND_INLINE) {
		outbox_payload(sending->outbox, packet, wqe->inline_data, wqe->length);
	} else if (outbox_gather(sending->outbox, packet, qp->pd, wqe->sge, wqe->num_sge, 0,
				 wqe->length) != 0) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		return false;
	}
	wqe->started = true;
	req->highest = req->psn = psn_add(req->psn, 1);
	req->since_request = 0;
	sending->granted -= cost;
	sending->last = packet;
	recovery_on_sent(qp, wqe->first_psn, cost, false, sending->outbox->now);
	return true;
}

/* --- unreliable: paced by what the receiver can take --------------------------- */

/* Whether a packet of @cost may be sent now. Else the QP waits. */
static bool pace(struct qp *qp, const struct path *path, uint32_t qpn, uint32_t cost,
		 struct outbox *outbox)
{
	uint64_t until = pacing_take(outbox, path, qpn, cost);

	if (until)
		wait_until(qp, until);
	return !until;
}

static bool send_unreliable(struct qp *qp, struct send_wqe *wqe, struct outbox *outbox)
{
	uint32_t end = psn_add(wqe->first_psn, wqe->psn_count);
	const struct path *path = qp->type->connected ? &qp->path : &wqe->path;
	uint32_t qpn = qp->type->connected ? qp->attr.dest_qp_num : wqe->remote_qpn;

	while (qp->requester.psn != end) {
		if (!pace(qp, path, qpn, wqe->packet_cost, outbox))
			return false;
		if (!request_packet_build(qp, wqe, 1, outbox))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------------ */

bool requester_coalesces(struct qp *qp)
{
	const struct send_queue *sq = &qp->sq;
	const struct send_wqe *latest = send_queue_at(&qp->sq, sq->posted - 1);
	uint32_t unsent = sq->posted - sq->next;

	return qp->type->reliable && sq->next - sq->done >= COALESCE_UNDER_WAY &&
	       unsent < COALESCE_POSTED && (uint64_t)unsent * latest->length < COALESCE_BYTES &&
	       !(latest->kind->flags & REQUEST_LOCAL);
}

/* What is posted becomes packets, until something has to be waited for. */
static void send_queued(struct qp *qp, struct sending *sending)
{
	bool new_packets = sends_new_packets_only(qp);

	while (qp->sq.next != qp->sq.posted) {
		struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.next);

		if (new_packets && is_single_packet(qp, wqe)) {
			if (!send_single_packet(qp, wqe, sending))
				return;
			qp->sq.next++;
			continue;
		}
		if (wqe->status != IBV_WC_SUCCESS)
			return;
		if (wqe->kind->flags & REQUEST_LOCAL) {
			if (!execute_local(qp, wqe, sending->outbox))
				return;
			sending->last = NULL; /* it was flushed */
			qp->sq.next++;
			completer_local(qp);
			continue;
		}
		if (!wqe->started && !start_request(qp, wqe))
			return;
		if (qp->type->reliable ? !send_reliable(qp, wqe, sending)
				       : !send_unreliable(qp, wqe, sending->outbox))
			return;
		qp->sq.next++;
	}
}

/*
 * The packet with @psn, of @wqe, again, though the cursor is beyond it; a READ asks for
 * @responses at the most. The cursor stays there, unless the packet's memory can't be used any
 * more. Returns one beyond what was retransmitted, or @psn.
 */
static uint32_t retransmit(struct qp *qp, struct send_wqe *wqe, uint32_t psn, uint32_t responses,
			   struct sending *sending)
{
	struct requester *req = &qp->requester;
	uint32_t cursor = req->psn, end;
	struct link_packet *packet;

	req->psn = psn;
	packet = request_packet_build(qp, wqe, responses, sending->outbox);
	end = req->psn;
	req->psn = cursor;
	if (!packet) {
		requester_restart(qp);
		return psn;
	}
	request_packet_ask_ack(qp, packet);
	sending->last = packet;
	return end;
}

/*
 * Send the oldest packet again. Where many are lost, twice, for the retransmission may be lost as
 * well; and if both arrive, the responder answers the second one again, in case its first answer is
 * lost.
 */
static void retransmit_oldest(struct qp *qp, struct sending *sending)
{
	struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.done);
	uint32_t psn = qp->requester.unacked;
	uint32_t end = retransmit(qp, wqe, psn, UINT32_MAX, sending);

	if (end == psn)
		return;
	if (!wqe->kind->response && recovery_retransmits_more(qp, sending->outbox->now) &&
	    retransmit(qp, wqe, psn, UINT32_MAX, sending) == psn)
		return;
	recovery_on_retransmitted(qp, end, wqe->kind->response != 0, sending->outbox->now);
	/* Its answer is waited for: it doesn't wait for others to be built. */
	outbox_flush(sending->outbox);
	sending->last = NULL;
}

/*
 * Responses that are missing. A responder that isn't known to keep requests may go through the
 * answer to a READ request once only, as Linux rxe does.
 */
static void ask_for_missing(struct qp *qp, struct sending *sending)
{
	bool in_order = !destination_keeps(qp->recovery.destination);
	struct missing_range range = {.psn = qp->requester.unacked};

	while (missing_ask(qp, in_order, &range)) {
		uint32_t index = send_queue_find(&qp->sq, range.psn);
		struct send_wqe *wqe = send_queue_at(&qp->sq, index);

		retransmit(qp, wqe, range.psn, range.count, sending);
		/* As retransmit_oldest(): without the first response there is no progress. */
		if (range.psn == qp->requester.unacked &&
		    recovery_retransmits_more(qp, sending->outbox->now))
			retransmit(qp, wqe, range.psn, 1, sending);
	}
}

static void run_reliable(struct qp *qp, struct outbox *outbox)
{
	struct sending sending = {.outbox = outbox};

	if (recovery_may_send(qp)) {
		if (qp->recovery.retransmit_wanted)
			retransmit_oldest(qp, &sending);
		if (qp->missing.wanted)
			ask_for_missing(qp, &sending);
		send_queued(qp, &sending);
		if (qp->recovery.probe_wanted)
			recovery_nothing_new(qp, outbox->now);
		recovery_arm(qp, outbox->now);
	}
	recovery_end_run(qp, sending.granted);
}

static void run_unreliable(struct qp *qp, struct outbox *outbox)
{
	struct sending sending = {.outbox = outbox};

	if (qp->requester.paced_until != TIME_NEVER)
		return;
	send_queued(qp, &sending);
	/* Complete only what has left: the application may reuse the memory then. */
	outbox_flush(outbox);
	completer_sent(qp);
}

void requester_run(struct qp *qp, struct outbox *outbox)
{
	if (!(qp_abilities(qp) & QP_FINISH_SEND))
		return;
	if (qp->requester.paced_until <= outbox->now)
		qp->requester.paced_until = TIME_NEVER;
	if (qp->type->reliable)
		run_reliable(qp, outbox);
	else
		run_unreliable(qp, outbox);
	completer_local_error(qp);
}
