/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/requester.h"

#include "emu/explain/denial.h"
#include "emu/explain/peer.h"
#include "emu/explain/text.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"

/* What is known when a request fails. */
struct failure {
	struct qp *qp;
	const struct send_wqe *wqe;
	enum ibv_wc_status status;
	const struct packet *packet; /* or NULL */
};

/* --- found before anything was sent -------------------------------------------------- */

/* Of its first packet that wasn't sent, or of the response. */
static uint64_t packet_offset(const struct failure *f)
{
	uint32_t psn = f->packet ? f->packet->psn : f->qp->requester.psn;

	if (!f->wqe->started)
		return 0;
	return (uint64_t)psn_distance(psn, f->wqe->first_psn) * f->qp->mtu;
}

static void find_memory(const struct failure *f, struct finding *finding)
{
	const struct send_wqe *wqe = f->wqe;
	const struct key_use use = {
		.hca = f->qp->hca,
		.pd_handle = pd_handle(f->qp->pd),
		.side = KEY_OF_REQUEST,
		.access = f->packet ? IBV_ACCESS_LOCAL_WRITE : 0,
	};
	uint64_t offset = packet_offset(f);

	/* All of it is checked before the first packet; memory is looked at packet by packet. */
	if (!wqe->started &&
	    denial_of_sges(&use, wqe->sge, wqe->num_sge, 0, wqe->length, false, finding))
		return;
	if (!denial_of_sges(&use, wqe->sge, wqe->num_sge, offset, f->qp->mtu, true, finding))
		denial_is_over(&use, finding);
}

static void find_length(const struct failure *f, struct finding *finding)
{
	const struct send_wqe *wqe = f->wqe;
	const struct qp *qp = f->qp;

	if (wqe->kind->flags & REQUEST_FLUSH)
		finding_set(finding, CAUSE_FLUSH_TOO_LONG, "%llu bytes, and %u are the most",
			    (unsigned long long)wqe->flush.length, qp->hca->limits.max_message);
	else if (wqe->status != IBV_WC_SUCCESS && !wqe->length)
		finding_set(finding, CAUSE_MESSAGE_TOO_LONG,
			    "the scatter/gather list has %llu bytes, and %u are the most",
			    (unsigned long long)sge_total(wqe->sge, wqe->num_sge),
			    qp->hca->limits.max_message);
	else
		finding_set(finding, CAUSE_DATAGRAM_TOO_LONG,
			    "%u bytes, and the MTU of the port is %u", wqe->length, qp->mtu);
}

static void find_operation(const struct failure *f, struct finding *finding)
{
	if (f->wqe->cause == CAUSE_AH_OTHER_PD)
		finding_set(finding, f->wqe->cause,
			    "the address handle isn't of protection domain %u, as the QP is",
			    f->qp->pd->handle);
	else if (f->wqe->cause == CAUSE_AH_OTHER_PORT)
		finding_set(finding, f->wqe->cause,
			    "the address handle isn't for port %u, as the QP is",
			    f->qp->attr.port_num);
	else if (f->wqe->cause == CAUSE_CARD_INVALIDATE_FAILS)
		finding_set(finding, f->wqe->cause, "opcode is IBV_WR_%s", f->wqe->kind->name);
	else
		finding_set(finding, CAUSE_NO_RD_ATOMIC,
			    "the queue pair was brought to RTS with max_rd_atomic 0");
}

static void find_window(const struct failure *f, struct finding *finding)
{
	if (f->wqe->kind->flags & REQUEST_BIND)
		denial_of_bind(f->qp, &f->wqe->bind, finding);
	else
		denial_of_invalidation(f->qp, f->wqe->invalidate_rkey, KEY_OF_REQUEST, finding);
}

/* --- what the peer answered ------------------------------------------------------------ */

static void find_nak(const struct failure *f, struct finding *finding)
{
	enum cause cause = f->status == IBV_WC_REM_INV_REQ_ERR	? CAUSE_NAK_INVALID_REQUEST
			   : f->status == IBV_WC_REM_ACCESS_ERR ? CAUSE_NAK_REMOTE_ACCESS
								: CAUSE_NAK_REMOTE_OPERATION;

	finding_set(finding, cause, "NAK of PSN %u, syndrome 0x%02x, MSN %u: the peer knows why",
		    f->packet->psn, packet_syndrome(f->packet), packet_msn(f->packet));
}

/* As completer.c looks at them: the opcode, the syndrome, FIRST to LAST, the length. */
static void find_response(const struct failure *f, struct finding *finding)
{
	const struct packet *packet = f->packet;
	uint32_t index = psn_distance(packet->psn, f->wqe->first_psn);

	if (f->status == IBV_WC_LOC_LEN_ERR)
		finding_set(finding, CAUSE_RESPONSE_LENGTH,
			    "%s, PSN %u, has %u bytes: packet %u of %u, of a path MTU of %u",
			    packet->op->name, packet->psn, packet->payload_length, index + 1,
			    f->wqe->psn_count, f->qp->mtu);
	else if (!(packet->op->flags & f->wqe->kind->response))
		finding_set(finding, CAUSE_RESPONSE_OPCODE, "%s, PSN %u, came for it",
			    packet->op->name, packet->psn);
	else if (packet->op->aeth && !aeth_is_ack(packet_syndrome(packet)))
		finding_set(finding, CAUSE_RESPONSE_SYNDROME, "%s, PSN %u, with syndrome 0x%02x",
			    packet->op->name, packet->psn, packet_syndrome(packet));
	else
		finding_set(finding, CAUSE_RESPONSE_PLACE, "%s, PSN %u, is packet %u of %u",
			    packet->op->name, packet->psn, index + 1, f->wqe->psn_count);
}

static void find_rnr(const struct failure *f, struct finding *finding)
{
	finding_set(finding, CAUSE_RNR_EXCEEDED,
		    "the peer asked to wait for a receive %u times, and rnr_retry is %u",
		    f->qp->attr.rnr_retry + 1, f->qp->attr.rnr_retry);
}

/* ---------------------------------------------------------------------------------------- */

static void find_cause(const struct failure *f, struct finding *finding)
{
	switch (f->status) {
	case IBV_WC_LOC_PROT_ERR:
		find_memory(f, finding);
		break;
	case IBV_WC_LOC_LEN_ERR:
		if (f->packet)
			find_response(f, finding);
		else
			find_length(f, finding);
		break;
	case IBV_WC_LOC_QP_OP_ERR:
		find_operation(f, finding);
		break;
	case IBV_WC_MW_BIND_ERR:
		find_window(f, finding);
		break;
	case IBV_WC_BAD_RESP_ERR:
		find_response(f, finding);
		break;
	case IBV_WC_RETRY_EXC_ERR:
		explain_silence(f->qp, finding);
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		find_rnr(f, finding);
		break;
	default:
		find_nak(f, finding);
		break;
	}
}

enum cause explain_request(struct qp *qp, enum ibv_wc_status status, const struct packet *packet)
{
	const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.done);
	const struct failure failure = {qp, wqe, status, packet};
	struct finding finding = {};
	struct text text;

	if (wqe->injected)
		return CAUSE_INJECTED_COMPLETION; /* reported when it was posted */
	find_cause(&failure, &finding);
	if (!cause_wanted(finding.cause))
		return finding.cause;
	text = TEXT_OF(&finding);
	text_add(&text, CAUSE_LINE);
	text_add_wqe(&text, qp, wqe);
	text_add(&text, CAUSE_LINE);
	text_add_qp(&text, qp);
	cause_report_text(finding.cause, finding.text);
	return finding.cause;
}

void explain_flush(const struct qp *qp, unsigned int count)
{
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

	if (!count || !cause_wanted(CAUSE_FLUSHED))
		return;
	text_add_qp(&text, qp);
	text_add(&text, ": %u work requests of the send queue", count);
	cause_report_text(CAUSE_FLUSHED, finding.text);
}
