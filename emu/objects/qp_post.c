/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_post_send and ibv_post_recv: requests join the QP's queues, and what can be sent is. */
#include <inttypes.h>
#include <stdio.h>

#include "emu/inject/request.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/qp_show.h"
#include "emu/transport/completer.h"
#include "emu/transport/destination.h"
#include "emu/transport/outbox.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/newer_verbs.h"
#include "net/qp_text.h"

/* Why @wr can't be posted. Not inlined: posting has no room on the stack for what is found. */
static __attribute__((noinline)) void explain_send(const struct qp *qp,
						   const struct ibv_send_wr *wr, bool extended,
						   int err)
{
	const char *call = extended ? "ibv_wr_complete()" : "ibv_post_send()";
	const char *state = qp_state_text(qp->state);
	struct finding finding = {};
	char made[ORIGIN_TEXT];

	/* A full queue is looked through: not for programs that find out that it is by posting. */
	if (err == ENOMEM && !cause_wanted(CAUSE_SEND_QUEUE_FULL))
		return;
	if (!(qp->type->abilities & QP_POST_SEND))
		finding_set(&finding, CAUSE_POST_NO_QUEUE, "it has no send queue");
	else if (!(qp_abilities(qp) & QP_POST_SEND) &&
		 qp->hca->behaviour.post_send_before_rts == EARLY_POST_REFUSED)
		finding_set(&finding, CAUSE_POST_STATE, "the state is %s", state);
	else if (!extended && wr->opcode == WR_FLUSH)
		finding_set(&finding, CAUSE_POST_OPCODE_UNKNOWN,
			    "opcode is IBV_WR_FLUSH, which is for ibv_wr_flush() alone");
	else
		send_queue_check(&qp->sq, qp->type, wr, &finding);
	if (!cause_wanted(finding.cause))
		return;
	cause_report(finding.cause, "%s, QP 0x%x (%s) in %s, wr_id %" PRIu64 ": %s%s", call,
		     qp->number, qp_type_text(qp->type->ibv), state, wr->wr_id, finding.text,
		     origin_phrase(qp->origin, CAUSE_LINE "the queue pair was created at ", made));
}

/* @wr is posted in a state that has no send queue yet: RESET, INIT, RTR. */
static int post_send_early(struct qp *qp, const struct ibv_send_wr *wr)
{
	uint8_t port_num = qp->attr.port_num;

	if (!(qp->type->abilities & QP_POST_SEND))
		return EINVAL;
	if (qp->hca->behaviour.post_send_before_rts == EARLY_POST_DROPPED)
		return 0;
	if (qp->hca->behaviour.post_send_before_rts != EARLY_POST_HELD)
		return EINVAL;
	if (qp->state == IBV_QPS_RESET && !qp->type->connected && wr->wr.ud.ah)
		port_num = ((const struct ah *)wr->wr.ud.ah)->port_num; /* it has no port yet */
	return send_queue_push(&qp->sq, qp->type, qp->signal_all, qp->pd, port_num, wr);
}

static int push_one(struct qp *qp, const struct ibv_send_wr *wr, bool extended, bool early)
{
	/* A FLUSH comes from ibv_wr_flush() alone. */
	if (wr->opcode == WR_FLUSH && !extended)
		return EINVAL;
	if (early)
		return post_send_early(qp, wr);
	return send_queue_push(&qp->sq, qp->type, qp->signal_all, qp->pd, qp->attr.port_num, wr);
}

static int push_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad, bool extended,
		     struct lazy_time *time)
{
	bool early = !(qp_abilities(qp) & QP_POST_SEND);
	bool marked = qp->hca->measures || injects(qp->hca);
	int err = 0;

	if (marked)
		qp_set_time(qp, lazy_now(time));
	for (; wr; wr = wr->next) {
		uint32_t posted = qp->sq.posted;

		err = push_one(qp, wr, extended, early);
		if (err) {
			explain_send(qp, wr, extended, err);
			*bad = wr;
			break;
		}
		if (!marked || qp->sq.posted == posted)
			continue; /* nothing more to note, or it was dropped */
		send_queue_at(&qp->sq, posted)->posted_at = qp->now;
		if (injects(qp->hca))
			inject_request(qp, send_queue_at(&qp->sq, posted), wr->opcode);
	}
	return err;
}

/* At once, in the calling thread. */
static void send_posted(struct qp *qp, uint64_t now)
{
	struct outbox *outbox = outbox_get(qp->hca, now);

	if (!outbox) {
		hca_schedule(qp->hca, qp);
		return;
	}
	qp_send_requests(qp, outbox);
	outbox_flush(outbox);
	outbox_put(outbox);
}

/*
 * Send what was posted, unless it waits for more to share its super-packet. Then it leaves when the
 * next acknowledgement comes, or where that takes long with the next round of progress.
 */
static void send_or_coalesce(struct qp *qp, struct lazy_time *time)
{
	if (!requester_coalesces(qp)) {
		qp_set_time(qp, lazy_now(time));
		send_posted(qp, lazy_now(time));
	} else if (!destination_is_near(qp->recovery.destination)) {
		hca_schedule(qp->hca, qp);
	}
}

int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad, bool extended,
		 struct lazy_time *time)
{
	uint32_t posted;
	int err;

	pthread_mutex_lock(&qp->lock);
	posted = qp->sq.posted;
	err = push_send(qp, wr, bad, extended, time);
	if (err && extended)
		qp->sq.posted = posted;
	else if (qp->sq.posted != posted) /* else they were dropped */
		WATCH(qp->hca, sends_posted, qp, wr, err ? *bad : NULL);
	qp->sends_uncounted += qp->sq.posted - posted;
	/* The device of a profile that takes it early doesn't excuse it. */
	if (err || (wr && !(qp_abilities(qp) & QP_POST_SEND)))
		WATCH(qp->hca, send_refused, qp, extended ? "ibv_wr_complete()" : "ibv_post_send()",
		      (err ? *bad : wr)->wr_id, err ? err : EINVAL);
	if (qp_abilities(qp) & QP_FLUSH_SEND) {
		qp_set_time(qp, lazy_now(time));
		qp_count_sends(qp);
		completer_flush(qp);
	} else if (qp->sq.posted != posted) {
		send_or_coalesce(qp, time);
	}
	qp->requester.posted_msn = qp->responder.msn;
	qp_show_progress(qp);
	pthread_mutex_unlock(&qp->lock);
	/* What was given back of the congestion window may let other QPs send. */
	hca_kick(qp->hca);
	return err;
}

static __attribute__((noinline)) void explain_receive(const struct qp *qp,
						      const struct ibv_recv_wr *wr)
{
	const char *type = qp_type_text(qp->type->ibv);
	char call[64];

	snprintf(call, sizeof(call), "ibv_post_recv(), QP 0x%x (%s)", qp->number, type);
	if (!(qp->type->abilities & QP_POST_RECV))
		cause_report(CAUSE_POST_NO_QUEUE, "%s: it has no receive queue", call);
	else if (qp->srq)
		cause_report(CAUSE_POST_HAS_SRQ, "%s", call);
	else if (!(qp_abilities(qp) & QP_POST_RECV) &&
		 qp->hca->behaviour.post_recv_in_reset == EARLY_POST_REFUSED)
		cause_report(CAUSE_POST_STATE, "%s: the state is %s", call,
			     qp_state_text(qp->state));
	else
		receive_queue_refuse(&qp->rq, wr, call);
}

static int push_receive(struct qp *qp, const struct ibv_recv_wr *wr)
{
	enum early_post early = qp->hca->behaviour.post_recv_in_reset;

	if (qp->srq || !(qp->type->abilities & QP_POST_RECV))
		return EINVAL;
	if (qp_abilities(qp) & QP_POST_RECV || early == EARLY_POST_HELD)
		return receive_queue_push(&qp->rq, wr);
	return early == EARLY_POST_DROPPED ? 0 : EINVAL;
}

int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct ibv_recv_wr *first = wr;
	uint32_t count;
	int err = 0;

	pthread_mutex_lock(&qp->lock);
	count = qp->rq.count;
	for (; wr; wr = wr->next) {
		err = push_receive(qp, wr);
		if (err) {
			explain_receive(qp, wr);
			*bad = wr;
			break;
		}
	}
	if (qp->rq.count != count) /* else they were dropped */
		WATCH(qp->hca, receives_posted, qp, first, wr);
	if (err || (first && !(qp_abilities(qp) & QP_POST_RECV)))
		WATCH(qp->hca, receive_refused, qp, (err ? wr : first)->wr_id, err ? err : EINVAL);
	if (qp_abilities(qp) & QP_FLUSH_RECV && !qp->srq)
		qp_flush_receives(qp);
	qp->observed->progress.receives = qp->rq.count;
	pthread_mutex_unlock(&qp->lock);
	return err;
}
