/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: emu/objects/srq.h has the lock and its order.
 */
#include "emu/objects/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/capacity.h"
#include "emu/explain/event.h"
#include "emu/hca.h"
#include "emu/objects/cq.h"
#include "emu/objects/pd.h"
#include "emu/objects/xrcd.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/observe/observe.h"
#include "net/quarantine.h"

#define SRQ_MODIFIABLE (IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)

static int srq_check_size(const struct hca *hca, uint32_t max_wr)
{
	if (max_wr && max_wr <= (uint32_t)hca->limits.device.max_srq_wr)
		return 0;
	return refuse(EINVAL, CAUSE_SRQ_SIZE, "max_wr is %u, the device has 1 to %d (max_srq_wr)",
		      max_wr, hca->limits.device.max_srq_wr);
}

/* Locked, or nothing else knows it yet. */
static void srq_show(struct srq *srq)
{
	srq->observed->capacity = srq->queue.capacity;
	srq->observed->entries = srq->queue.count;
	srq->observed->limit = srq->limit;
}

static int srq_make(struct pd *pd, const struct ibv_srq_attr *attr, struct srq **srq)
{
	struct srq *made = calloc(1, sizeof(*made));
	int error;

	if (!made)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a shared receive queue");
	error = receive_queue_init(&made->queue, attr->max_wr, attr->max_sge);
	if (error) {
		free(made);
		return refuse(error, CAUSE_OUT_OF_MEMORY,
			      "for a shared receive queue of %u receives with %u SGEs",
			      attr->max_wr, attr->max_sge);
	}
	made->observed = observe_claim(pd->hca->observe, OBSERVE_SRQ, pd->hca->observed->head.id);
	if (!made->observed) {
		receive_queue_destroy(&made->queue);
		free(made);
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a shared receive queue");
	}
	made->hca = pd->hca;
	made->origin = origin_capture();
	made->pd = pd;
	made->ibv.handle = made->handle = hca_next_handle(pd->hca);
	made->observed->number = made->handle;
	srq_show(made);
	observe_show(pd->hca->observe, made->observed);
	pthread_mutex_init(&made->lock, NULL);
	*srq = made;
	return 0;
}

int srq_create(struct pd *pd, struct ibv_srq_attr *attr, struct srq **srq)
{
	struct hca *hca = pd->hca;
	int error;

	error = capacity_take(hca, &hca->srq_count, hca->limits.device.max_srq,
			      "shared receive queues", "max_srq");
	if (error)
		return error;
	error = srq_check_size(hca, attr->max_wr);
	if (!error && attr->max_sge > (uint32_t)hca->limits.device.max_srq_sge)
		error = refuse(EINVAL, CAUSE_SRQ_SIZE,
			       "max_sge is %u, the device has %d (max_srq_sge)", attr->max_sge,
			       hca->limits.device.max_srq_sge);
	if (!error) {
		attr->max_wr = capacity_round(hca->behaviour.round_max_srq_wr, attr->max_wr,
					      hca->limits.device.max_srq_wr);
		error = srq_make(pd, attr, srq);
	}
	if (error) {
		capacity_put(&hca->srq_count);
		return error;
	}
	users_add(&pd->users, USER_SRQ, 1);
	return 0;
}

/* From QP numbers, which tell processes of a node apart. */
static int srq_give_number(struct srq *srq)
{
	struct hca *hca = srq->hca;
	uint32_t number;
	int error = hca_reserve_qpn(hca, "shared receive queue", &number);

	if (error)
		return error;
	srq->number = number;
	error = table_add(&hca->srqs, number, srq);
	if (!error)
		return 0;
	table_remove(&hca->qps, number);
	srq->number = 0;
	return refuse(error, CAUSE_OUT_OF_MEMORY, "for the number of a shared receive queue");
}

int srq_create_xrc(struct pd *pd, struct xrcd *xrcd, struct cq *cq, struct ibv_srq_attr *attr,
		   struct srq **result)
{
	struct srq *srq = NULL;
	int error = srq_create(pd, attr, &srq);

	if (error)
		return error;
	srq->xrcd = xrcd;
	srq->cq = cq;
	users_add(&xrcd->users, USER_SRQ, 1);
	users_add(&cq->users, USER_SRQ, 1);
	error = srq_give_number(srq);
	if (error) {
		srq_destroy(srq);
		return error;
	}
	*result = srq;
	return 0;
}

void srq_silence(struct srq *srq)
{
	if (!srq->number)
		return;
	table_remove(&srq->hca->srqs, srq->number);
	table_remove(&srq->hca->qps, srq->number);
	srq->number = 0;
}

/* Completions that weren't polled stay in the CQ. */
static void srq_leave_xrc(struct srq *srq)
{
	srq_silence(srq);
	users_add(&srq->cq->users, USER_SRQ, -1);
	users_add(&srq->xrcd->users, USER_SRQ, -1);
}

int srq_check_unused(struct srq *srq)
{
	return users_check(&srq->users, srq->hca, srq, "ibv_destroy_srq()");
}

int srq_destroy(struct srq *srq)
{
	int error = srq_check_unused(srq);

	if (error)
		return error;
	if (srq->xrcd)
		srq_leave_xrc(srq);
	WATCH(srq->hca, srq_destroyed, srq);
	event_drop(&srq->hca->events, srq);
	capacity_put(&srq->hca->srq_count);
	users_add(&srq->pd->users, USER_SRQ, -1);
	observe_free(srq->hca->observe, OBSERVE_SRQ, srq->observed);
	receive_queue_destroy(&srq->queue);
	pthread_mutex_destroy(&srq->lock);
	origin_free(srq->origin);
	quarantine_free(srq, sizeof(*srq));
	return 0;
}

static int srq_modify_locked(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t capacity = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->queue.capacity;
	uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq->limit;
	int error;

	error = srq_check_size(srq->hca, capacity);
	if (error)
		return error;
	capacity = capacity_round(srq->hca->behaviour.round_max_srq_wr, capacity,
				  srq->hca->limits.device.max_srq_wr);
	if (limit > capacity)
		return refuse(EINVAL, CAUSE_SRQ_LIMIT_BEYOND, "srq_limit is %u, the queue takes %u",
			      limit, capacity);
	if (mask & IBV_SRQ_MAX_WR && capacity < srq->queue.count)
		return refuse(EINVAL, CAUSE_SRQ_RESIZE, "max_wr is %u, %u receives are posted",
			      capacity, srq->queue.count);
	if (mask & IBV_SRQ_MAX_WR) {
		error = receive_queue_resize(&srq->queue, capacity);
		if (error)
			return refuse(error, CAUSE_OUT_OF_MEMORY,
				      "for a shared receive queue of %u receives", capacity);
	}
	srq->limit = limit;
	srq_show(srq);
	return 0;
}

int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	int error = capacity_alive(srq->hca, "ibv_modify_srq()");

	if (error)
		return error;
	if (mask & ~SRQ_MODIFIABLE)
		return refuse(EINVAL, CAUSE_BITS_UNKNOWN,
			      "ibv_modify_srq(): srq_attr_mask is 0x%x, unknown are 0x%x", mask,
			      mask & ~SRQ_MODIFIABLE);
	if (mask & IBV_SRQ_MAX_WR && !capacity_has(srq->hca, IBV_DEVICE_SRQ_RESIZE))
		return refuse(EINVAL, CAUSE_NOT_SUPPORTED,
			      "ibv_modify_srq(): the device lacks IBV_DEVICE_SRQ_RESIZE");
	pthread_mutex_lock(&srq->lock);
	error = srq_modify_locked(srq, attr, mask);
	pthread_mutex_unlock(&srq->lock);
	return error;
}

void srq_query(struct srq *srq, struct ibv_srq_attr *attr)
{
	pthread_mutex_lock(&srq->lock);
	attr->max_wr = srq->queue.capacity;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	pthread_mutex_unlock(&srq->lock);
}

int srq_post(struct srq *srq, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad)
{
	const struct ibv_recv_wr *first = wr;
	int error = 0;

	pthread_mutex_lock(&srq->lock);
	for (; wr; wr = wr->next) {
		error = receive_queue_push(&srq->queue, wr);
		if (error) {
			receive_queue_refuse(&srq->queue, wr, "ibv_post_srq_recv()");
			break;
		}
	}
	WATCH(srq->hca, srq_receives_posted, srq, first, wr);
	srq_show(srq);
	pthread_mutex_unlock(&srq->lock);
	if (error && bad)
		*bad = wr;
	return error;
}

/*
 * IBA 10.2.9.1: the event comes once, and then the limit has to be armed again.
 * Armed below the limit already, it comes with the next entry taken, as with
 * Linux rxe.
 */
static void srq_check_limit(struct srq *srq)
{
	if (!srq->limit || srq->queue.count >= srq->limit)
		return;
	explain_srq_limit(srq, srq->limit);
	srq->limit = 0;
	event_raise(&srq->hca->events, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

bool srq_pop(struct srq *srq, struct receive_wqe *wqe, struct ibv_sge *sges)
{
	bool taken;

	pthread_mutex_lock(&srq->lock);
	taken = receive_queue_pop(&srq->queue, wqe, sges);
	if (taken)
		srq_check_limit(srq);
	srq_show(srq);
	pthread_mutex_unlock(&srq->lock);
	return taken;
}
