/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/event.h"

#include <utlist.h>

#include "emu/inject/event.h"
#include "net/clock.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/inherited.h"
#include "verbs/open_qp.h"

#define ACKNOWLEDGED_SOON 1000000000 /* ns */

/* Every object that events are about begins with its context. */
static struct context *context_of(void *element)
{
	return to_context(*(struct ibv_context **)element);
}

/* All others are about a port or the device, those that newer headers than ours have included. */
static const uint8_t subjects[] = {
	[IBV_EVENT_CQ_ERR] = EVENT_OF_CQ,
	[IBV_EVENT_QP_FATAL] = EVENT_OF_QP,
	[IBV_EVENT_QP_REQ_ERR] = EVENT_OF_QP,
	[IBV_EVENT_QP_ACCESS_ERR] = EVENT_OF_QP,
	[IBV_EVENT_COMM_EST] = EVENT_OF_QP,
	[IBV_EVENT_SQ_DRAINED] = EVENT_OF_QP,
	[IBV_EVENT_PATH_MIG] = EVENT_OF_QP,
	[IBV_EVENT_PATH_MIG_ERR] = EVENT_OF_QP,
	[IBV_EVENT_QP_LAST_WQE_REACHED] = EVENT_OF_QP,
	[IBV_EVENT_SRQ_ERR] = EVENT_OF_SRQ,
	[IBV_EVENT_SRQ_LIMIT_REACHED] = EVENT_OF_SRQ,
	[IBV_EVENT_WQ_FATAL] = EVENT_OF_WQ,
};

enum event_subject event_subject(enum ibv_event_type type)
{
	return (unsigned int)type < sizeof(subjects) ? subjects[type] : EVENT_OF_PORT;
}

static bool is_object_event(enum ibv_event_type type)
{
	return event_subject(type) != EVENT_OF_PORT;
}

/* --- delivery ----------------------------------------------------------------- */

void deliver_completion(void *context, struct cq *cq)
{
	struct ibv_comp_channel *channel = cq->ibv.channel;

	if (channel)
		event_fd_push_embedded(channel_events(channel),
				       &((struct cq_extra *)cq->verbs)->completion);
}

static void push_to_handle(struct ibv_qp *handle, int type)
{
	event_fd_push(&to_context(handle->context)->async, handle, type);
}

/* Whether a fault has taken it down, rather than its network device. */
static void note_port(struct device *device, unsigned int port_num)
{
	struct port *port = device_port(device, port_num);

	if (port)
		port->disabled = inject_is_down(device->hca, port_num);
}

void deliver_async(void *context, enum ibv_event_type type, void *element)
{
	struct device *device = context;
	struct context *listener;

	if (is_object_event(type)) {
		if (event_subject(type) == EVENT_OF_QP && ((struct qp *)element)->xrc_domain)
			qp_each_handle(element, push_to_handle, type);
		else
			event_fd_push(&context_of(element)->async, element, type);
		return;
	}
	if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
		note_port(device, (int)(intptr_t)element);
	pthread_mutex_lock(&device->contexts_lock);
	DL_FOREACH (device->contexts, listener)
		event_fd_push(&listener->async, element, type);
	pthread_mutex_unlock(&device->contexts_lock);
}

void deliver_no_more(struct device *device)
{
	struct context *listener;

	pthread_mutex_lock(&device->contexts_lock);
	DL_FOREACH (device->contexts, listener)
		event_fd_end(&listener->async);
	pthread_mutex_unlock(&device->contexts_lock);
	channel_end_all(device);
}

/* --- ibv_get_async_event ------------------------------------------------------- */

/* Under the lock of the queue, so that event_drain() sees every event either queued or taken. */
static void count_taken(const struct event_record *record)
{
	void *element = record->element;

	switch (event_subject(record->type)) {
	case EVENT_OF_CQ:
		((struct cq_extra *)((struct cq *)element)->verbs)->async_events++;
		break;
	case EVENT_OF_SRQ:
		((struct srq_extra *)((struct srq *)element)->verbs)->async_events++;
		break;
	case EVENT_OF_QP:
		((struct qp_extra *)((struct qp *)element)->verbs)->async_events++;
		break;
	default: /* we have no WQs */
		break;
	}
}

int urxe_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct event_record record;

	if (event_fd_pop(&to_context(context)->async, count_taken, &record))
		return -1;
	event->event_type = record.type;
	if (is_object_event(record.type))
		event->element.cq = record.element;
	else
		event->element.port_num = (int)(intptr_t)record.element;
	return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

/* The counters are public members: the same for our objects and the real library's. */
void urxe_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_wq *wq = event->element.wq;

	if (is_object_event(event->event_type) &&
	    context_is_inherited(*(struct ibv_context **)event->element.cq))
		return;

	switch (event_subject(event->event_type)) {
	case EVENT_OF_PORT:
		break;
	case EVENT_OF_CQ:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case EVENT_OF_SRQ:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	case EVENT_OF_WQ:
		acknowledge(&wq->mutex, &wq->cond, &wq->events_completed);
		break;
	case EVENT_OF_QP:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	}
}

/* False: that much time has passed, and not all are. With @mutex. */
static bool wait_for_a_while(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *taken,
			     const uint32_t *completed)
{
	struct timespec until = clock_timespec(clock_now() + ACKNOWLEDGED_SOON);
	int error = 0;

	while (*completed != *taken && error != ETIMEDOUT)
		error = pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &until);
	return *completed == *taken;
}

void event_wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *taken,
			     const uint32_t *completed, const char *from)
{
	int state;

	/*
	 * An object isn't left half destroyed, nor locked: as rdma_wait(), this can't be cancelled.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(mutex);
	if (!wait_for_a_while(mutex, cond, taken, completed))
		cause_report(CAUSE_EVENT_NOT_ACKNOWLEDGED,
			     "events that %s has returned: %u, acknowledged: %u", from, *taken,
			     *completed);
	while (*completed != *taken)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
	pthread_setcancelstate(state, NULL);
}

void event_withdraw(struct context *context, void *element, pthread_mutex_t *mutex,
		    pthread_cond_t *cond, const uint32_t *taken, const uint32_t *completed)
{
	event_fd_drop(&context->async, element);
	event_wait_acknowledged(mutex, cond, taken, completed, "ibv_get_async_event()");
}

void event_drain(struct context *context, void *element, pthread_mutex_t *mutex,
		 pthread_cond_t *cond, const uint32_t *taken, const uint32_t *completed)
{
	event_drop(&context->hca->events, element);
	event_withdraw(context, element, mutex, cond, taken, completed);
}
