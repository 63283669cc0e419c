/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion events and asynchronous events: taken, and acknowledged. */
#include "verbs/check/calls.h"
#include "verbs/check/work.h"
#include "verbs/event.h"

int checked_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	int result;

	if (!check_is_on())
		return urxe_get_cq_event(channel, cq, cq_context);
	if (!CHECK_USES("ibv_get_cq_event()", {OBJECT_CHANNEL, channel}))
		return MINUS_ONE;
	result = urxe_get_cq_event(channel, cq, cq_context);
	if (result == 0) {
		check_event_taken(*cq, true);
		work_event_taken(to_cq(*cq));
	}
	return result;
}

void checked_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	static const char call[] = "ibv_ack_cq_events()";

	if (!check_is_on())
		urxe_ack_cq_events(cq, count);
	else if (CHECK_USES(call, {OBJECT_CQ, cq}))
		urxe_ack_cq_events(cq, check_event_acked(call, cq, true, count));
}

/* What an event is about, or NULL: a port or a device. */
static const void *element_of(const struct ibv_async_event *event, enum object_kind *kind)
{
	switch (event_subject(event->event_type)) {
	case EVENT_OF_CQ:
		*kind = OBJECT_CQ;
		return event->element.cq;
	case EVENT_OF_SRQ:
		*kind = OBJECT_SRQ;
		return event->element.srq;
	case EVENT_OF_QP:
		*kind = OBJECT_QP;
		return event->element.qp;
	default:
		return NULL;
	}
}

int checked_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	enum object_kind kind;
	int result;

	if (!check_is_on())
		return urxe_get_async_event(context, event);
	if (!CHECK_USES("ibv_get_async_event()", {OBJECT_CONTEXT, context}))
		return MINUS_ONE;
	result = urxe_get_async_event(context, event);
	if (result == 0)
		check_event_taken(element_of(event, &kind), false);
	return result;
}

void checked_ack_async_event(struct ibv_async_event *event)
{
	static const char call[] = "ibv_ack_async_event()";
	enum object_kind kind;
	const void *element = element_of(event, &kind);

	if (check_is_on() && element &&
	    (!CHECK_USES(call, {kind, element}) || check_event_acked(call, element, false, 1) == 0))
		return;
	urxe_ack_async_event(event);
}
