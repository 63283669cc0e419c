/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/responder.h"

#include "emu/explain/event.h"
#include "emu/explain/responder.h"
#include "emu/inject/request.h"
#include "emu/objects/mw.h"
#include "emu/objects/qp_show.h"
#include "emu/objects/srq.h"
#include "emu/transport/grh.h"
#include "emu/transport/rd_atomic.h"
#include "emu/transport/responder_internal.h"
#include "emu/transport/xrc.h"
#include "net/fault/fault_words.h"

/* What a fault becomes: the NAK, the status of the receive in progress, or else the async event. */
struct fault_outcome {
	uint8_t syndrome;
	enum ibv_wc_status status;
	enum ibv_event_type event;
	bool own; /* of our own receive or memory: without a NAK, too, it is an error
		     (IBA 9.8.2.2.1, class E) */
};

/* IBA 9.7.5.2, 9.9.3. RESPONDER_FAULT_NO_RECEIVE and RESPONDER_FAULT_BUSY are no errors. */
static const struct fault_outcome fault_outcomes[RESPONDER_FAULT_COUNT] = {
	[RESPONDER_FAULT_SEQUENCE] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
				      IBV_EVENT_QP_REQ_ERR},
	[RESPONDER_FAULT_QP_ACCESS] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
				       IBV_EVENT_QP_ACCESS_ERR},
	[RESPONDER_FAULT_XRC] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
				 IBV_EVENT_QP_ACCESS_ERR},
	[RESPONDER_FAULT_RESOURCES] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
				       IBV_EVENT_QP_REQ_ERR},
	[RESPONDER_FAULT_LENGTH] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
				    IBV_EVENT_QP_REQ_ERR},
	[RESPONDER_FAULT_KEY] = {AETH_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
				 IBV_EVENT_QP_ACCESS_ERR},
	[RESPONDER_FAULT_ALIGNMENT] = {AETH_NAK_INVALID_REQUEST, IBV_WC_REM_INV_REQ_ERR,
				       IBV_EVENT_QP_REQ_ERR},
	[RESPONDER_FAULT_RECEIVE_LENGTH] = {AETH_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR,
					    IBV_EVENT_QP_REQ_ERR, .own = true},
	[RESPONDER_FAULT_RECEIVE_KEY] = {AETH_NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR,
					 IBV_EVENT_QP_FATAL, .own = true},
	[RESPONDER_FAULT_MEMORY] = {AETH_NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR,
				    IBV_EVENT_QP_FATAL, .own = true},
	[RESPONDER_FAULT_INVALIDATE] = {AETH_NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR,
					IBV_EVENT_QP_ACCESS_ERR},
	[RESPONDER_FAULT_INJECTED] = {.event = IBV_EVENT_QP_FATAL, .own = true},
};

static struct fault_outcome outcome_of(const struct qp *qp, enum responder_fault fault)
{
	struct fault_outcome outcome = fault_outcomes[fault];

	if (fault == RESPONDER_FAULT_INJECTED) {
		outcome.status = qp->responder.message.injected;
		outcome.syndrome = inject_syndrome(outcome.status);
	}
	return outcome;
}

int responder_init(struct responder *responder, uint32_t max_sge)
{
	*responder = (struct responder){0};
	return message_init(&responder->message, max_sge);
}

void responder_destroy(struct responder *responder)
{
	message_destroy(&responder->message);
	response_destroy(&responder->response);
	reorder_destroy(&responder->kept);
}

void responder_reset(struct responder *responder)
{
	struct message message = responder->message;

	message_reset(&message);
	response_destroy(&responder->response);
	reorder_destroy(&responder->kept);
	*responder = (struct responder){.message = message};
}

/* --- completing receives --------------------------------------------------------- */

/* Where the receive in progress completes; NULL: there is none, or its SRQ of XRC is gone. */
static struct cq *receive_cq(struct qp *qp)
{
	struct message *message = &qp->responder.message;

	if (!message->has_receive)
		return NULL;
	if (!qp->xrc_domain)
		return qp->recv_cq;
	xrc_select_taken(qp);
	return message->srq ? message->srq->cq : NULL;
}

/* Complete the receive in progress with @wc, and end the message that it belongs to. */
static void push_receive(struct qp *qp, struct ibv_wc *wc, bool solicited)
{
	struct message *message = &qp->responder.message;
	struct cq *cq = receive_cq(qp);

	wc->wr_id = message->wqe.wr_id;
	wc->qp_num = qp->number;
	message->has_receive = false;
	message_end(message);
	COUNT(qp->hca, rdma_recvs, 1);
	WATCH(qp->hca, receive_done, qp);
	if (injects(qp->hca) && wc->status == IBV_WC_SUCCESS)
		inject_message(qp, FAULT_WORK_RECV);
	if (cq)
		qp_complete(qp, cq, wc, 0, solicited);
}

static struct ibv_wc success(const struct qp *qp, const struct packet *packet)
{
	uint16_t flags = packet->op->flags;
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = flags & OPCODE_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = qp->responder.message.received,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (flags & OPCODE_IMMEDIATE) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = packet_immediate(packet);
	}
	if (flags & OPCODE_INVALIDATE) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = packet_invalidate_rkey(packet);
	}
	return wc;
}

/* IBA 9.7.4.1.4: a SEND takes its receive first, a WRITE with immediate last. */
static bool needs_receive(const struct packet *packet)
{
	return packet->op->flags & (OPCODE_SEND | OPCODE_IMMEDIATE);
}

/* The LAST packet was executed. */
static inline void complete_message(struct qp *qp, const struct packet *packet)
{
	struct ibv_wc wc;

	qp_show_received(qp, qp->responder.message.received);
	if (!needs_receive(packet)) {
		message_end(&qp->responder.message);
		return;
	}
	wc = success(qp, packet);
	push_receive(qp, &wc, packet->solicited);
}

/* The receive in progress, if there is one. */
static void fail_receive(struct qp *qp, enum ibv_wc_status status, enum cause cause)
{
	struct ibv_wc wc = {.status = status, .opcode = IBV_WC_RECV, .vendor_err = cause};

	if (qp->responder.message.has_receive)
		push_receive(qp, &wc, false);
	message_end(&qp->responder.message);
}

void responder_flush(struct qp *qp)
{
	reorder_clear(&qp->responder.kept);
	xrc_give_up_elsewhere(qp);
	explain_receive_flush(qp, qp->responder.message.has_receive + (qp->srq ? 0 : qp->rq.count));
	fail_receive(qp, IBV_WC_WR_FLUSH_ERR, CAUSE_RECEIVE_FLUSHED);
	xrc_release(qp);
	/* IBA 11.6.5.5: the entries of an SRQ aren't this QP's to flush. */
	while (!qp->srq && message_take_receive(&qp->responder.message, qp))
		fail_receive(qp, IBV_WC_WR_FLUSH_ERR, CAUSE_RECEIVE_FLUSHED);
}

/* --- checking ---------------------------------------------------------------------- */

unsigned int responder_needs(const struct packet *packet)
{
	uint16_t flags = packet->op->flags;

	return flags & (OPCODE_WRITE | OPCODE_ATOMIC_WRITE) ? IBV_ACCESS_REMOTE_WRITE
	       : flags & OPCODE_READ			    ? IBV_ACCESS_REMOTE_READ
	       : flags & OPCODE_ATOMIC			    ? IBV_ACCESS_REMOTE_ATOMIC
	       : flags & OPCODE_FLUSH			    ? flush_access(packet)
							    : 0;
}

bool responder_allows(const struct qp *qp, const struct packet *packet)
{
	unsigned int access = responder_needs(packet);

	return (qp->attr.qp_access_flags & access) == access;
}

bool responder_payload_fits(const struct qp *qp, const struct packet *packet)
{
	uint32_t length = packet->payload_length;
	bool fits = true;

	switch (packet->op->payload) {
	case PAYLOAD_NONE:
		fits = length == 0;
		break;
	case PAYLOAD_FULL:
		fits = length == qp->mtu;
		break;
	case PAYLOAD_SOME:
		fits = length >= 1 && length <= qp->mtu;
		break;
	case PAYLOAD_UPTO:
		fits = length <= qp->mtu;
		break;
	case PAYLOAD_ATOMIC:
		fits = length == ATOMIC_LENGTH;
		break;
	}
	return fits && packet->pad == pad_length(length);
}

/* A receive for the message in progress, unless it has one. */
static enum responder_fault take_receive(struct qp *qp)
{
	struct message *message = &qp->responder.message;

	if (message->has_receive)
		return RESPONDER_FAULT_NONE;
	if (!message_take_receive(message, qp))
		return RESPONDER_FAULT_NO_RECEIVE;
	return injects(qp->hca) ? inject_receive(qp) : RESPONDER_FAULT_NONE;
}

/*
 * The checks of IBA 9.7.4.1 that need only the packet and the QP; the first that fails counts. The
 * PSN (9.7.4.1.1) has been looked at before. R_Keys (9.7.4.1.5), and the length of a message
 * against its memory, are checked where the request is executed.
 */
static inline enum responder_fault check_request(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;
	enum responder_fault fault;

	if (packet->op->flags & OPCODE_RESERVED || !message_continues(&resp->message, packet))
		return RESPONDER_FAULT_SEQUENCE; /* IBA 9.7.4.1.2 */
	if (!responder_allows(qp, packet))
		return RESPONDER_FAULT_QP_ACCESS; /* IBA 9.7.4.1.3 */
	/* Annex A14: the SRQ that the XRCETH names. */
	if (qp->xrc_domain) {
		fault = xrc_select(qp, packet);
		if (fault != RESPONDER_FAULT_NONE)
			return fault;
	}
	if ((packet->op->flags & RD_ATOMIC) && resp->response.capacity == 0)
		return RESPONDER_FAULT_RESOURCES; /* IBA 9.7.4.1.4 */
	if (needs_receive(packet)) {
		fault = take_receive(qp); /* IBA 9.7.4.1.4 */
		if (fault != RESPONDER_FAULT_NONE)
			return fault;
	}
	if (!responder_payload_fits(qp, packet))
		return RESPONDER_FAULT_LENGTH; /* IBA 9.7.4.1.6 */
	return RESPONDER_FAULT_NONE;
}

/* --- executing ---------------------------------------------------------------------- */

/* A SEND or RDMA WRITE packet. */
static inline enum responder_fault execute_data(struct qp *qp, const struct packet *packet)
{
	struct message *message = &qp->responder.message;
	enum responder_fault fault = message_place(message, qp, packet);

	if (fault != RESPONDER_FAULT_NONE || !(packet->op->flags & OPCODE_INVALIDATE))
		return fault;
	/* Invalidating waits for pins of the window. What the completer has pinned are regions. */
	message_unpin(message, qp->hca);
	/* Before the acknowledgement, so that the requester learns of a failure (IBA 10.6.5.2). */
	if (mw_invalidate(qp, packet_invalidate_rkey(packet)) != 0)
		return RESPONDER_FAULT_INVALIDATE;
	return RESPONDER_FAULT_NONE;
}

/*
 * Whether @fault is the receive's, too. An RDMA WRITE has taken one to complete it, if at all: it
 * is flushed when the data can't be written (IBA 9.7.4).
 */
static bool fails_receive(const struct message *message, const struct packet *packet,
			  enum responder_fault fault)
{
	bool write = packet->op->flags & OPCODE_WRITE && message->kind != MESSAGE_SEND;

	return message->has_receive && (!write || fault == RESPONDER_FAULT_INJECTED);
}

/* To our own application. */
static void report_fault(struct qp *qp, const struct packet *packet, enum responder_fault fault,
			 const struct fault_outcome *outcome, enum cause cause)
{
	if (fails_receive(&qp->responder.message, packet, fault) && receive_cq(qp))
		fail_receive(qp, outcome->status, cause);
	else
		event_raise(&qp->hca->events, outcome->event, qp);
}

/* --- RC ------------------------------------------------------------------------------ */

static void fail_reliable(struct qp *qp, const struct packet *packet, enum responder_fault fault)
{
	struct responder *resp = &qp->responder;
	struct fault_outcome outcome;
	enum cause cause;

	if (fault == RESPONDER_FAULT_NO_RECEIVE) {
		COUNT(qp->hca, send_rnr_err, 1);
		WATCH(qp->hca, receive_missing, qp);
		qp->observed->done.losses.rnr_naks_sent++;
		/* What is under way behind this packet is out of sequence, which needs no NAK. */
		resp->nak_sent = true;
		explain_no_receive(qp, packet);
		response_schedule_ack(qp, AETH_RNR_NAK | qp->attr.min_rnr_timer, packet->psn);
		return;
	}
	if (fault == RESPONDER_FAULT_BUSY) {
		resp->nak_sent = true;
		response_schedule_ack(qp, AETH_NAK_PSN_SEQUENCE, packet->psn);
		return;
	}
	outcome = outcome_of(qp, fault);
	cause = explain_fault(qp, packet, fault);
	if (outcome.syndrome)
		response_schedule_ack(qp, outcome.syndrome, packet->psn);
	report_fault(qp, packet, fault, &outcome, cause);
	qp_enter_error(qp);
}

/* A SEND or RDMA WRITE packet was executed. */
static inline void acknowledge_data(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct responder *resp = &qp->responder;

	resp->expected_psn = psn_add(packet->psn, 1);
	resp->response.unacknowledged++;
	resp->response.unacknowledged_bytes += packet->payload_length;
	if (packet->op->flags & OPCODE_LAST) {
		resp->msn = psn_add(resp->msn, 1);
		complete_message(qp, packet);
	}
	/* The completion found its CQ full: no acknowledgement (IBA 9.9.3, class G). */
	if (qp->state != IBV_QPS_ERR && packet->ack_request)
		response_delay_ack(qp, packet->psn, now);
}

/* A packet for another process's SRQ: RESPONDER_FAULT_WAIT until it is placed there. */
static enum responder_fault execute_elsewhere(struct qp *qp, const struct packet *packet,
					      uint64_t now)
{
	struct message *message = &qp->responder.message;
	enum responder_fault fault;

	if (packet->op->flags & RD_ATOMIC)
		return RESPONDER_FAULT_MEMORY; /* the other process can't answer with data */
	fault = xrc_place_elsewhere(qp, packet, now);
	if (fault != RESPONDER_FAULT_NONE)
		return fault;
	message->kind = packet->op->flags & OPCODE_SEND ? MESSAGE_SEND : MESSAGE_WRITE;
	acknowledge_data(qp, packet, now);
	return RESPONDER_FAULT_NONE;
}

static inline enum responder_fault execute_reliable(struct qp *qp, const struct packet *packet,
						    uint64_t now)
{
	enum responder_fault fault = check_request(qp, packet);

	if (fault == RESPONDER_FAULT_ELSEWHERE)
		return execute_elsewhere(qp, packet, now);
	if (fault != RESPONDER_FAULT_NONE)
		return fault;
	if (packet->op->flags & RD_ATOMIC)
		return rd_atomic_execute(qp, packet);
	fault = execute_data(qp, packet);
	if (fault == RESPONDER_FAULT_NONE)
		acknowledge_data(qp, packet, now);
	return fault;
}

bool responder_receive_expected(struct qp *qp, const struct packet *packet, uint64_t now)
{
	enum responder_fault fault = execute_reliable(qp, packet, now);

	if (fault == RESPONDER_FAULT_WAIT)
		qp->xrc.waits = true;
	else if (fault != RESPONDER_FAULT_NONE)
		fail_reliable(qp, packet, fault);
	return fault == RESPONDER_FAULT_NONE && qp->state != IBV_QPS_ERR;
}

static void receive_reliable(struct qp *qp, const struct packet *packet, uint64_t now)
{
	struct responder *resp = &qp->responder;
	int32_t distance = psn_distance(packet->psn, resp->expected_psn);

	if (distance < 0) {
		responder_receive_late(qp, packet, now);
	} else if (distance > 0) {
		responder_receive_early(qp, packet);
	} else {
		bool untold = response_withdraw_nak(qp);

		resp->nak_sent = false;
		if (!resp->gap) {
			resp->retransmits_one |= resp->filled && !resp->late;
			resp->filled = false;
		}
		if (responder_receive_expected(qp, packet, now) && (resp->gap || untold))
			responder_fill_gap(qp, untold, now);
	}
}

/* --- for a QP of another process ------------------------------------------------------ */

void responder_give_up(struct qp *qp)
{
	fail_receive(qp, IBV_WC_WR_FLUSH_ERR, CAUSE_RECEIVE_FLUSHED);
}

enum responder_fault responder_place(struct qp *qp, const struct packet *packet)
{
	enum responder_fault fault = check_request(qp, packet);

	if (fault == RESPONDER_FAULT_NONE)
		fault = execute_data(qp, packet);
	if (fault == RESPONDER_FAULT_NONE && packet->op->flags & OPCODE_LAST)
		complete_message(qp, packet);
	if (fault != RESPONDER_FAULT_NONE && fault != RESPONDER_FAULT_NO_RECEIVE) {
		enum cause cause = explain_fault(qp, packet, fault);

		if (fails_receive(&qp->responder.message, packet, fault))
			fail_receive(qp, outcome_of(qp, fault).status, cause);
		else
			responder_give_up(qp);
	}
	if (qp->state != IBV_QPS_ERR)
		return fault;
	qp->state = IBV_QPS_RTR; /* the CQ is full: the next one may have another */
	return RESPONDER_FAULT_MEMORY;
}

/* --- UC ------------------------------------------------------------------------------ */

/* Only faults of our own are reported, and to us (IBA 9.8.2.2.1); the rest is dropped. */
static void fail_unreliable(struct qp *qp, const struct packet *packet, enum responder_fault fault)
{
	const struct fault_outcome outcome = outcome_of(qp, fault);

	if (outcome.own) {
		report_fault(qp, packet, fault, &outcome, explain_fault(qp, packet, fault));
		qp_enter_error(qp);
		return;
	}
	if (fault == RESPONDER_FAULT_NO_RECEIVE)
		WATCH(qp->hca, receive_missing, qp);
	explain_drop(qp, packet, fault);
	COUNT(qp->hca, dropped_packets, 1);
	message_end(&qp->responder.message);
}

/*
 * IBA 9.8.2.2.1: a gap ends the message in progress, and nothing counts until
 * the next message begins. Returns whether @packet is to be taken.
 */
static bool in_sequence(struct qp *qp, const struct packet *packet)
{
	struct responder *resp = &qp->responder;

	if (packet->psn != resp->expected_psn || !message_continues(&resp->message, packet)) {
		message_end(&resp->message);
		if (!(packet->op->flags & OPCODE_FIRST))
			return false;
	}
	resp->expected_psn = psn_add(packet->psn, 1);
	return true;
}

static void receive_unreliable(struct qp *qp, const struct packet *packet)
{
	enum responder_fault fault;

	if (!in_sequence(qp, packet))
		return;
	fault = check_request(qp, packet);
	if (fault == RESPONDER_FAULT_NONE)
		fault = execute_data(qp, packet);
	if (fault != RESPONDER_FAULT_NONE)
		fail_unreliable(qp, packet, fault);
	else if (packet->op->flags & OPCODE_LAST)
		complete_message(qp, packet);
}

/* --- UD ------------------------------------------------------------------------------ */

static void receive_datagram(struct qp *qp, const struct packet *packet,
			     const struct link_frame *frame)
{
	struct message *message = &qp->responder.message;
	enum responder_fault fault = RESPONDER_FAULT_LENGTH;
	struct ibv_wc wc;
	struct grh grh;

	/* IBA 9.6.1.4: the Q_Key is the last thing checked before the payload. */
	if (be32toh(packet_deth(packet)->qkey) != qp->attr.qkey) {
		COUNT(qp->hca, bad_qkey, 1);
		explain_bad_qkey(qp, packet);
		return;
	}
	if (responder_payload_fits(qp, packet))
		fault = take_receive(qp);
	if (fault == RESPONDER_FAULT_NONE) {
		grh_fill(&grh, qp->hca, frame);
		/*
		 * A receive without space for both is an error, as NICs have it; IBA 9.8.3 would
		 * have the packet dropped.
		 */
		fault = message_place_datagram(message, qp, grh.bytes, grh.untouched, packet);
	}
	if (fault != RESPONDER_FAULT_NONE) {
		fail_unreliable(qp, packet, fault);
		return;
	}
	wc = success(qp, packet);
	qp_show_received(qp, packet->payload_length);
	wc.wc_flags |= IBV_WC_GRH; /* RoCE: always, Annex A17.4.3 */
	wc.src_qp = be32toh(packet_deth(packet)->source_qp) & QPN_MASK;
	wc.sl = grh.service_level;
	push_receive(qp, &wc, packet->solicited);
}

/* ------------------------------------------------------------------------------------- */

static void raise_established(struct qp *qp)
{
	explain_qp_event(qp, CAUSE_COMM_EST, "it is in RTR");
	event_raise(&qp->hca->events, IBV_EVENT_COMM_EST, qp);
}

void responder_receive(struct qp *qp, const struct packet *packet, const struct link_frame *frame,
		       uint64_t now)
{
	struct responder *resp = &qp->responder;

	if (!resp->established) {
		resp->established = true;
		if (qp->state == IBV_QPS_RTR && qp->type->connected)
			raise_established(qp);
	}
	if (qp->type->reliable)
		receive_reliable(qp, packet, now);
	else if (qp->type->connected)
		receive_unreliable(qp, packet);
	else
		receive_datagram(qp, packet, frame);
}

void responder_receive_end(struct qp *qp)
{
	message_unpin(&qp->responder.message, qp->hca);
	if (qp->xrc_domain)
		xrc_release(qp);
}
