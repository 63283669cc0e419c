/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: each is of an object that is there, and those that are due come. */
#include <errno.h>

#include "calls.h"

/* --- of completions -------------------------------------------------------------------- */

struct fuzz_cq *find_cq(struct world *world, const struct ibv_cq *ibv)
{
	for (unsigned int i = 0; i < CQS; i++)
		if (world->cqs[i].ibv == ibv)
			return &world->cqs[i];
	return NULL;
}

void call_req_notify(struct world *world)
{
	struct fuzz_cq *cq = PICK(world, cqs);

	bool solicited_only = input_u8(&world->input) & 1;

	if (!cq)
		return;
	must(ibv_req_notify_cq(cq->ibv, solicited_only) == 0);
	cq->arms++;
	if (solicited_only)
		return;
	/* What it has already has no event. */
	cq->was_empty = cq->armed && cq->was_empty;
	cq->armed = cq->channel;
}

static void get_cq_event(struct world *world, struct fuzz_channel *channel)
{
	struct ibv_cq *ibv = NULL;
	struct fuzz_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel->ibv, &ibv, &context) != 0) {
		must(errno == EAGAIN);
		return;
	}
	cq = ibv ? find_cq(world, ibv) : NULL;
	must(cq && context == cq && cq->channel == channel->ibv);
	cq->unacknowledged++;
	must(++cq->events <= cq->arms);
}

void call_get_cq_event(struct world *world)
{
	struct fuzz_channel *channel = PICK(world, channels);

	if (channel)
		get_cq_event(world, channel);
}

/* A moderated one may be late. */
void await_cq_events(struct world *world)
{
	double deadline = seconds() + WAIT_SECONDS;
	bool missing;

	do {
		missing = false;
		for (unsigned int i = 0; i < CHANNELS; i++)
			if (world->channels[i].ibv)
				get_cq_event(world, &world->channels[i]);
		for (unsigned int i = 0; i < CQS; i++)
			missing |= world->cqs[i].events < world->cqs[i].due;
		must(seconds() < deadline);
	} while (missing);
}

void acknowledge_cq(struct fuzz_cq *cq)
{
	if (cq->unacknowledged)
		ibv_ack_cq_events(cq->ibv, cq->unacknowledged);
	cq->unacknowledged = 0;
}

void call_ack_cq_events(struct world *world)
{
	struct fuzz_cq *cq = PICK(world, cqs);

	if (cq)
		acknowledge_cq(cq);
}

/* --- asynchronous ones ------------------------------------------------------------------- */

static struct fuzz_srq *find_srq(struct world *world, const struct ibv_srq *ibv)
{
	for (unsigned int i = 0; i < SRQS; i++)
		if (world->srqs[i].ibv == ibv)
			return &world->srqs[i];
	return NULL;
}

/* Whether one more of these may come. */
static bool count_event(struct due *due)
{
	return ++due->came <= due->most;
}

static void check_qp_event(struct world *world, const struct ibv_async_event *event)
{
	struct fuzz_qp *qp = qp_of_number(world, event->element.qp->qp_num);

	if (find_handle(world, event->element.qp))
		return; /* each of its handles is told */
	must(qp && qp->ibv == event->element.qp);
	if (event->event_type == IBV_EVENT_SQ_DRAINED)
		must(count_event(&qp->drained));
	else if (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
		must((qp->srq || qp->xrcd) && count_event(&qp->last_wqe));
}

/* It is of an object that is there. */
static void check_async_event(struct world *world, const struct ibv_async_event *event)
{
	struct fuzz_srq *srq;
	struct fuzz_cq *cq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		cq = find_cq(world, event->element.cq);
		must(cq && cq->overruns);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq = find_srq(world, event->element.srq);
		must(srq && count_event(&srq->limit_reached));
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		check_qp_event(world, event);
		break;
	default:
		break; /* of the port: other processes may change the machine */
	}
}

static bool get_async_event(struct world *world, struct ibv_context *context)
{
	struct ibv_async_event *event = &world->events[world->event_count];

	if (world->event_count == EVENTS_MAX)
		return false;
	if (ibv_get_async_event(context, event) != 0) {
		must(errno == EAGAIN);
		return false;
	}
	world->event_count++;
	check_async_event(world, event);
	return true;
}

void call_get_async_event(struct world *world)
{
	get_async_event(world, world->contexts[input_u8(&world->input) % DEVICES]);
}

void call_ack_async_events(struct world *world)
{
	while (world->event_count)
		ibv_ack_async_event(&world->events[--world->event_count]);
}

static bool is_missing(const struct due *due)
{
	return due->came < due->least;
}

static bool events_missing(const struct world *world)
{
	bool missing = false;

	for (unsigned int i = 0; i < QPS; i++)
		missing |= world->qps[i].ibv && (is_missing(&world->qps[i].drained) ||
						 is_missing(&world->qps[i].last_wqe));
	for (unsigned int i = 0; i < SRQS; i++)
		missing |= world->srqs[i].ibv && is_missing(&world->srqs[i].limit_reached);
	return missing;
}

void await_async_events(struct world *world)
{
	double deadline = seconds() + WAIT_SECONDS;

	for (unsigned int i = 0; i < QPS; i++)
		if (world->qps[i].ibv)
			note_drained(&world->qps[i]);
	while (events_missing(world)) {
		call_ack_async_events(world);
		for (unsigned int i = 0; i < DEVICES; i++)
			get_async_event(world, world->contexts[i]);
		must(seconds() < deadline);
	}
}
