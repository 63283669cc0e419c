/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/qp.h"

#include <stdlib.h>

#include "emu/capacity.h"
#include "emu/explain/event.h"
#include "emu/inject/late.h"
#include "emu/objects/cq.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp_show.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"
#include "emu/transport/completer.h"
#include "emu/transport/outbox.h"
#include "emu/transport/placement.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/qp_text.h"
#include "net/quarantine.h"

/* --- life ------------------------------------------------------------------- */

static int check_objects(const struct qp_type *type, const struct ibv_qp_init_attr *attr)
{
	const char *name = qp_type_text(type->ibv);

	if (!attr->send_cq && type->abilities & QP_POST_SEND)
		return refuse(EINVAL, CAUSE_OBJECT_MISSING, "%s queue pair: send_cq is NULL", name);
	if (!attr->recv_cq && type->abilities & QP_POST_RECV)
		return refuse(EINVAL, CAUSE_OBJECT_MISSING, "%s queue pair: recv_cq is NULL", name);
	if (attr->srq && !type->srq) /* IBA 10.2.9 */
		return refuse(EINVAL, CAUSE_QP_SRQ_NOT_ALLOWED, "%s queue pair with an srq", name);
	if (attr->srq && ((const struct srq *)attr->srq)->xrcd)
		return refuse(EINVAL, CAUSE_QP_SRQ_NOT_ALLOWED, "%s queue pair with an XRC srq",
			      name);
	return 0;
}

/* A size of @cap, and the attribute of the device that limits it. */
#define RETURN_IF_CAP_ABOVE(field, limit)                                                          \
	do {                                                                                       \
		if (cap->field > (uint32_t)hca->limits.device.limit)                               \
			return refuse(EINVAL, CAUSE_QP_LIMIT,                                      \
				      "cap." #field " is %u, the device has %d (" #limit ")",      \
				      cap->field, hca->limits.device.limit);                       \
	} while (0)

static int check_create(const struct hca *hca, const struct qp_type *type,
			const struct ibv_qp_init_attr *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	int err = check_objects(type, attr);

	if (!err && type->transport == WIRE_XRC)
		err = capacity_need(hca, IBV_DEVICE_XRC, "ibv_create_qp()", "IBV_DEVICE_XRC");
	if (err)
		return err;
	RETURN_IF_CAP_ABOVE(max_send_wr, max_qp_wr);
	RETURN_IF_CAP_ABOVE(max_send_sge, max_sge);
	if (cap->max_inline_data > hca->limits.max_inline_data)
		return refuse(EINVAL, CAUSE_QP_INLINE_LIMIT,
			      "cap.max_inline_data is %u, the device has %u", cap->max_inline_data,
			      hca->limits.max_inline_data);
	if (attr->srq)
		return 0;
	RETURN_IF_CAP_ABOVE(max_recv_wr, max_qp_wr);
	RETURN_IF_CAP_ABOVE(max_recv_sge, max_sge);
	return 0;
}

/* As the kernel: a queue that the type lacks is ignored, with all that belongs to it. */
static void drop_what_type_lacks(const struct qp_type *type, struct ibv_qp_init_attr *attr)
{
	if (!(type->abilities & QP_POST_SEND)) {
		attr->send_cq = NULL;
		attr->cap.max_send_wr = attr->cap.max_send_sge = attr->cap.max_inline_data = 0;
	}
	if (!(type->abilities & QP_POST_RECV)) {
		attr->recv_cq = NULL;
		attr->srq = NULL;
	}
	if (!(type->abilities & QP_POST_RECV) || attr->srq)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
}

/* Of the receives that it fills. Those of XRC may be any SRQ's. */
static uint32_t max_recv_sge(const struct qp *qp)
{
	if (qp->type->xrcd)
		return qp->hca->limits.device.max_srq_sge;
	return qp->srq ? qp->srq->queue.max_sge : qp->cap.max_recv_sge;
}

static int allocate_queues(struct qp *qp)
{
	int err = send_queue_init(&qp->sq, &qp->cap);

	if (err)
		goto failed;
	send_queue_limit(&qp->sq, qp->hca);
	err = receive_queue_init(&qp->rq, qp->cap.max_recv_wr, qp->cap.max_recv_sge);
	if (err)
		goto free_send_queue;
	err = responder_init(&qp->responder, max_recv_sge(qp));
	if (err)
		goto free_receive_queue;
	return 0;

free_receive_queue:
	receive_queue_destroy(&qp->rq);
free_send_queue:
	send_queue_destroy(&qp->sq);
failed:
	return refuse(err, CAUSE_OUT_OF_MEMORY,
		      "for a queue pair of %u sends with %u SGEs and %u bytes inline, %u receives "
		      "with %u SGEs",
		      qp->cap.max_send_wr, qp->cap.max_send_sge, qp->cap.max_inline_data,
		      qp->cap.max_recv_wr, qp->cap.max_recv_sge);
}

static void free_queues(struct qp *qp)
{
	responder_destroy(&qp->responder);
	receive_queue_destroy(&qp->rq);
	send_queue_destroy(&qp->sq);
}

static int reserve_number(struct qp *qp)
{
	int err = hca_reserve_qpn(qp->hca, "queue pair", &qp->number);

	if (!err)
		qp->timer.number = qp->delayed_ack.number = qp->number;
	return err;
}

static void use_objects(struct qp *qp, int n)
{
	if (qp->pd)
		users_add(&qp->pd->users, USER_QP, n);
	if (qp->send_cq)
		users_add(&qp->send_cq->users, USER_QP, n);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		users_add(&qp->recv_cq->users, USER_QP, n);
	if (qp->srq)
		users_add(&qp->srq->users, USER_QP, n);
}

/* Without queues and number. */
static struct qp *allocate(struct hca *hca, const struct qp_type *type,
			   const struct ibv_qp_init_attr *attr)
{
	struct qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->hca = hca;
	qp->origin = origin_capture();
	qp->send_cq = (struct cq *)attr->send_cq;
	qp->recv_cq = (struct cq *)attr->recv_cq;
	qp->srq = (struct srq *)attr->srq;
	qp->type = type;
	qp->signal_all = attr->sq_sig_all;
	qp->cap = attr->cap;
	qp->state = IBV_QPS_RESET;
	qp->mtu = 256;
	qp->recovery.member.qp = qp;
	requester_reset(&qp->requester);
	recovery_reset(&qp->recovery);
	return qp;
}

/* All objects are there: from here on packets find it. */
static void publish(struct qp *qp)
{
	struct hca *hca = qp->hca;

	if (!qp->type->connected)
		link_receive_grh(hca->link);
	pthread_mutex_init(&qp->lock, NULL);
	qp->ibv.handle = qp->handle = hca_next_handle(hca);
	xrc_remote_init(&qp->xrc, hca, qp->handle);
	use_objects(qp, 1);
	if (qp->xrc_domain) {
		users_add(&qp->xrcd->users, USER_QP, 1);
		xrc_domain_get(hca, qp->xrc_domain);
	}
	WATCH(hca, qp_created, qp);
	table_publish(&hca->qps, qp->number, qp);
}

static int create(struct hca *hca, struct pd *pd, struct xrcd *xrcd, struct ibv_qp_init_attr *given,
		  struct qp **result)
{
	const struct qp_type *type = qp_type_find(given->qp_type);
	struct ibv_qp_init_attr wanted = *given, *attr = &wanted;
	struct qp *qp;
	int err;

	drop_what_type_lacks(type, attr);
	err = check_create(hca, type, attr);
	if (!err)
		err = capacity_grant(hca, &attr->cap);
	if (!err)
		err = capacity_take(hca, &hca->qp_count, hca->limits.device.max_qp, "queue pairs",
				    "max_qp");
	if (err)
		return err;
	qp = allocate(hca, type, attr);
	if (!qp) {
		err = refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a queue pair");
		goto put_capacity;
	}
	qp->pd = pd;
	qp->xrcd = xrcd;
	qp->xrc_domain = xrcd ? xrcd->domain : NULL;
	err = allocate_queues(qp);
	if (err)
		goto free_qp;
	err = reserve_number(qp);
	if (err)
		goto free_queues;
	err = qp_show_create(qp);
	if (err)
		goto free_number;
	publish(qp);
	given->cap = qp->cap;
	*result = qp;
	return 0;

free_number:
	table_remove(&hca->qps, qp->number);
free_queues:
	free_queues(qp);
free_qp:
	origin_free(qp->origin);
	free(qp);
put_capacity:
	capacity_put(&hca->qp_count);
	return err;
}

int qp_create(struct hca *hca, struct pd *pd, struct ibv_qp_init_attr *attr, struct qp **qp)
{
	const struct qp_type *type = qp_type_find(attr->qp_type);

	if (!type || !qp_type_in(hca->limits.qp_types, type))
		return refuse(EOPNOTSUPP, CAUSE_QP_TYPE_LACKING, "type %u (%s)", attr->qp_type,
			      qp_type_text(attr->qp_type));
	if (type->xrcd)
		return refuse(EINVAL, CAUSE_QP_NEEDS_XRCD, "a protection domain is given");
	return create(hca, pd, NULL, attr, qp);
}

int qp_create_xrc_recv(struct xrcd *xrcd, struct ibv_qp_init_attr *attr, struct qp **qp)
{
	const struct qp_type *type = qp_type_find(attr->qp_type);

	if (!type || !type->xrcd)
		return EINVAL;
	return create(xrcd->hca, NULL, xrcd, attr, qp);
}

void qp_leave_xrcd(struct qp *qp)
{
	struct xrcd *xrcd = atomic_exchange(&qp->xrcd, NULL);

	if (xrcd)
		users_add(&xrcd->users, USER_QP, -1);
}

int qp_check_unused(struct qp *qp)
{
	uint32_t groups = atomic_load(&qp->groups);

	if (!groups)
		return 0;
	return refuse(EBUSY, CAUSE_QP_ATTACHED,
		      "ibv_destroy_qp(), QP 0x%x (%s): attached to %u group%s", qp->number,
		      qp_type_text(qp->type->ibv), groups, groups > 1 ? "s" : "");
}

int qp_destroy(struct qp *qp)
{
	struct hca *hca = qp->hca;
	int error = qp_check_unused(qp);

	if (error)
		return error;
	table_remove(&hca->qps, qp->number); /* from here on no packet and no timer finds it */
	pthread_mutex_lock(&qp->lock);
	qp_reset(qp);
	pthread_mutex_unlock(&qp->lock);
	hca_unschedule(hca, qp);
	ack_queue_remove(&hca->acks, &qp->delayed_ack);
	timer_cancel(&hca->timers, &qp->timer);
	event_drop(&hca->events, qp);
	WATCH(hca, qp_destroyed, qp);

	qp_show_destroy(qp);
	use_objects(qp, -1);
	qp_leave_xrcd(qp);
	if (qp->xrc_domain)
		xrc_domain_put(hca, qp->xrc_domain);
	free_queues(qp);
	pthread_mutex_destroy(&qp->lock);
	origin_free(qp->origin);
	quarantine_free(qp, sizeof(*qp));
	capacity_put(&hca->qp_count);
	hca_kick(hca);
	return 0;
}

void qp_count_sends(struct qp *qp)
{
	if (!qp->sends_uncounted)
		return;
	COUNT(qp->hca, rdma_sends, qp->sends_uncounted);
	qp->sends_uncounted = 0;
}

static void note_former(struct qp *qp)
{
	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT)
		return;
	qp->former.peer = qp->path.destination;
	qp->former.received = qp->responder.expected_psn;
	qp->former.sent = qp->requester.highest;
	qp->former.several = qp->now < qp->former.until;
	qp->former.until = qp->now + STALE_FOR;
}

void qp_reset(struct qp *qp)
{
	note_former(qp);
	placement_finish_qp(qp);
	migration_reset(qp);
	recovery_set_destination(qp, NULL);
	recovery_reset(&qp->recovery);
	requester_reset(&qp->requester);
	missing_destroy(&qp->missing);
	xrc_give_up_elsewhere(qp);
	responder_reset(&qp->responder);
	xrc_remote_reset(&qp->xrc);
	qp->ecn = (struct ecn){};
	ack_queue_remove(&qp->hca->acks, &qp->delayed_ack);
	receive_queue_clear(&qp->rq);
	late_drop(qp);
	qp_count_sends(qp);
	if (qp->send_cq)
		cq_purge(qp->send_cq, qp);
	if (qp->recv_cq)
		cq_purge(qp->recv_cq, qp);
	send_queue_reset(&qp->sq); /* after the purge: polling moves its mark */
	WATCH(qp->hca, qp_reset, qp);
	qp->state = IBV_QPS_RESET;
	qp->attr = (struct ibv_qp_attr){0};
	qp->draining = qp->drain_notify = false;
}

/* --- states that the QP enters by itself --------------------------------------- */

void qp_complete(struct qp *qp, struct cq *cq, const struct ibv_wc *wc, uint32_t send_slots,
		 bool solicited)
{
	struct completion completion = {
		.wc = *wc,
		.qp = cq == qp->send_cq || cq == qp->recv_cq ? qp : NULL,
		.send_slots = send_slots,
		.solicited = solicited,
		.timestamp = qp->now,
	};

	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR)
		qp_show_error(qp, wc);
	if (!injects(qp->hca) || !late_add(qp, cq, &completion))
		qp_push(qp, cq, &completion);
}

void qp_push(struct qp *qp, struct cq *cq, const struct completion *completion)
{
	/* IBA 10.2.3.3: a CQ that overran can't report for its QPs any more. */
	if (cq_push(cq, completion) == 0 || qp->state == IBV_QPS_ERR)
		return;
	if (qp->delegate) {
		qp->state = IBV_QPS_ERR; /* of a delegate: responder_place() tells the target */
	} else {
		if (cq->overrun_by != qp->number)
			explain_cq_in_error(qp, cq);
		event_raise(&qp->hca->events, IBV_EVENT_QP_FATAL, qp);
		qp_enter_error(qp);
	}
}

void qp_flush_receives(struct qp *qp)
{
	responder_flush(qp);
	if (!qp->srq && !qp->xrc_domain)
		return;
	explain_qp_event(qp, CAUSE_LAST_WQE_REACHED, "it is in ERR");
	event_raise(&qp->hca->events, IBV_EVENT_QP_LAST_WQE_REACHED, qp);
}

void qp_enter_error(struct qp *qp)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	qp->state = IBV_QPS_ERR;
	qp->draining = false;
	completer_flush(qp);
	qp_flush_receives(qp);
}

void qp_enter_sqe(struct qp *qp)
{
	qp->state = IBV_QPS_SQE;
	qp->draining = false;
	completer_flush(qp);
}

/* IBA 10.3.1.5: SQD is reached when all that was started is finished. */
void qp_check_drained(struct qp *qp)
{
	const struct send_queue *sq = &qp->sq;

	if (!qp->draining || qp->state != IBV_QPS_SQD)
		return;
	if (sq->done != sq->posted && send_queue_at(&qp->sq, sq->done)->started)
		return;
	qp->draining = false;
	if (!qp->drain_notify)
		return;
	explain_qp_event(qp, CAUSE_SQ_DRAINED, "it is in SQD");
	event_raise(&qp->hca->events, IBV_EVENT_SQ_DRAINED, qp);
}

/* --- work ----------------------------------------------------------------------- */

void qp_send_requests(struct qp *qp, struct outbox *outbox)
{
	uint32_t psn = qp->requester.psn;

	qp_count_sends(qp);
	requester_run(qp, outbox);
	if (qp->requester.psn != psn)
		response_end_quick_acks(&qp->responder.response, outbox->now);
	if (outbox->packets)
		response_acknowledge(qp, outbox);
}

/* Deadlines, responses, requests. Locked; flushes the outbox. */
static void run(struct qp *qp, struct outbox *outbox)
{
	qp_set_time(qp, outbox->now);
	if (qp->late)
		late_run(qp, outbox->now);
	recovery_run(qp, outbox->now);
	ecn_run(qp, outbox);
	response_run(qp, outbox);
	qp_send_requests(qp, outbox);
	outbox_flush(outbox);
	qp_check_drained(qp);
}

void qp_drain(struct qp *qp, uint64_t now)
{
	struct outbox *outbox = outbox_get(qp->hca, now);

	if (!outbox)
		return;
	pthread_mutex_lock(&qp->lock);
	qp_set_time(qp, now);
	response_run(qp, outbox);
	response_acknowledge(qp, outbox);
	outbox_flush(outbox);
	qp_show_progress(qp);
	pthread_mutex_unlock(&qp->lock);
	outbox_put(outbox);
}

void qp_acknowledge(struct qp *qp, struct outbox *outbox)
{
	pthread_mutex_lock(&qp->lock);
	response_acknowledge_alone(qp, outbox);
	outbox_flush(outbox);
	pthread_mutex_unlock(&qp->lock);
}

static uint64_t qp_deadline(const struct qp *qp)
{
	uint64_t due = earlier(recovery_deadline(&qp->recovery), qp->requester.paced_until);

	return earlier(due, late_deadline(qp));
}

void qp_run(struct qp *qp, struct outbox *outbox)
{
	uint64_t due;

	pthread_mutex_lock(&qp->lock);
	run(qp, outbox);
	/* The timer is lazy (emu/transport/timer.h): what was postponed goes back into the heap. */
	due = qp_deadline(qp);
	if (due != TIME_NEVER)
		hca_arm(qp->hca, &qp->timer, due);
	qp_show_progress(qp);
	pthread_mutex_unlock(&qp->lock);
}
