/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/inject/request.h"

#include <inttypes.h>

#include "emu/objects/qp.h"
#include "net/cause/cause.h"
#include "net/fault/injector.h"
#include "net/newer_verbs.h"
#include "net/qp_text.h"
#include "net/wire/wire.h"

/* --- send work requests ----------------------------------------------------------------- */

/* How a request comes to complete with a status. */
enum failure {
	FAILS_HERE,	/* nothing is sent: all of UC and UD, and what no peer has a part in */
	FAILS_SEQUENCE, /* as a packet that any responder refuses: an invalid request */
	FAILS_KEY,	/* with another R_Key, where there is one; else likewise */
	FAILS_RESPONSE, /* it is executed, and what is wrong is the response */
};

static const uint8_t failures[] = {
	[IBV_WC_REM_INV_REQ_ERR] = FAILS_SEQUENCE, [IBV_WC_REM_ACCESS_ERR] = FAILS_KEY,
	[IBV_WC_REM_OP_ERR] = FAILS_SEQUENCE,	   [IBV_WC_REM_INV_RD_REQ_ERR] = FAILS_SEQUENCE,
	[IBV_WC_REM_ABORT_ERR] = FAILS_SEQUENCE,   [IBV_WC_BAD_RESP_ERR] = FAILS_RESPONSE,
	[IBV_WC_TM_RNDV_INCOMPLETE] = FAILS_HERE, /* the last status that there is */
};

/* IBA 9.7.4.1.2: a message that begins with its last packet. */
#define OUT_OF_SEQUENCE(opcode, completes)                                                         \
	{                                                                                          \
		.name = opcode, .only = WIRE_SEND_LAST, .data = DATA_NONE, .completion = completes \
	}

static const struct request_kind out_of_sequence[] = {
	[IBV_WR_SEND] = OUT_OF_SEQUENCE("SEND", IBV_WC_SEND),
	[IBV_WR_SEND_WITH_IMM] = OUT_OF_SEQUENCE("SEND_WITH_IMM", IBV_WC_SEND),
	[IBV_WR_SEND_WITH_INV] = OUT_OF_SEQUENCE("SEND_WITH_INV", IBV_WC_SEND),
	[IBV_WR_RDMA_WRITE] = OUT_OF_SEQUENCE("RDMA_WRITE", IBV_WC_RDMA_WRITE),
	[IBV_WR_RDMA_WRITE_WITH_IMM] = OUT_OF_SEQUENCE("RDMA_WRITE_WITH_IMM", IBV_WC_RDMA_WRITE),
	[IBV_WR_RDMA_READ] = OUT_OF_SEQUENCE("RDMA_READ", IBV_WC_RDMA_READ),
	[IBV_WR_ATOMIC_CMP_AND_SWP] = OUT_OF_SEQUENCE("ATOMIC_CMP_AND_SWP", IBV_WC_COMP_SWAP),
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = OUT_OF_SEQUENCE("ATOMIC_FETCH_AND_ADD", IBV_WC_FETCH_ADD),
	[IBV_WR_ATOMIC_WRITE] = OUT_OF_SEQUENCE("ATOMIC_WRITE", IBV_WC_ATOMIC_WRITE),
	[WR_FLUSH] = OUT_OF_SEQUENCE("FLUSH", WC_FLUSH),
};

/* With the same number and other bits: no region or window has both. */
static bool fail_key(struct send_wqe *wqe)
{
	uint32_t *key = wqe->kind->flags & REQUEST_INVALIDATE ? &wqe->invalidate_rkey : &wqe->rkey;

	if (!(wqe->kind->flags & REQUEST_INVALIDATE) &&
	    !(wqe->kind->flags & REQUEST_REMOTE && wqe->length))
		return false; /* it has none, or none that is looked at (IBA 9.7.4.1.5) */
	*key ^= 0xff;
	return true;
}

static void fail_sequence(struct send_wqe *wqe, enum ibv_wr_opcode opcode)
{
	wqe->kind = &out_of_sequence[opcode];
	wqe->flags &= ~IBV_SEND_INLINE;
	wqe->length = wqe->num_sge = 0;
}

/* Let it complete with @status when it is the oldest. */
static void fail_request(const struct qp *qp, struct send_wqe *wqe, enum ibv_wr_opcode opcode,
			 enum ibv_wc_status status)
{
	enum failure failure = failures[status];

	if (!qp->type->reliable || wqe->kind->flags & REQUEST_LOCAL)
		failure = FAILS_HERE;
	wqe->injected = status;
	if (failure == FAILS_HERE)
		wqe->status = status;
	else if (failure == FAILS_SEQUENCE || (failure == FAILS_KEY && !fail_key(wqe)))
		fail_sequence(wqe, opcode);
}

/* --- receives --------------------------------------------------------------------------- */

/* IBA 9.7.5.2: which NAK the requester gets for a receive that fails so. */
uint8_t inject_syndrome(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_WR_FLUSH_ERR:
		return 0; /* the queue pair is in ERR, and answers nothing */
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return AETH_NAK_INVALID_REQUEST;
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		return AETH_NAK_REMOTE_ACCESS;
	default:
		return AETH_NAK_REMOTE_OPERATION;
	}
}

/* ---------------------------------------------------------------------------------------- */

void inject_request(struct qp *qp, struct send_wqe *wqe, enum ibv_wr_opcode opcode)
{
	struct injector *injector = qp->hca->inject.injector;
	struct fault_hit hit;
	enum ibv_wc_status status;

	wqe->late = injector_late(injector, opcode, qp->number, &hit);
	wqe->is_late = wqe->late;
	status = injector_complete(injector, opcode, qp->number, &hit);
	if (status == IBV_WC_SUCCESS)
		return;
	cause_report(CAUSE_INJECTED_COMPLETION, "%s, wr_id %" PRIu64 ", QP 0x%x (%s)", hit.clause,
		     wqe->wr_id, qp->number, qp_type_text(qp->type->ibv));
	fail_request(qp, wqe, opcode, status);
}

enum responder_fault inject_receive(struct qp *qp)
{
	struct injector *injector = qp->hca->inject.injector;
	struct message *message = &qp->responder.message;
	struct fault_hit hit;

	message->late = injector_late(injector, FAULT_WORK_RECV, qp->number, &hit);
	message->injected = injector_complete(injector, FAULT_WORK_RECV, qp->number, &hit);
	if (message->injected == IBV_WC_SUCCESS)
		return RESPONDER_FAULT_NONE;
	cause_report(CAUSE_INJECTED_RECEIVE, "%s, wr_id %" PRIu64 ", QP 0x%x (%s)", hit.clause,
		     message->wqe.wr_id, qp->number, qp_type_text(qp->type->ibv));
	return RESPONDER_FAULT_INJECTED;
}
