/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that the application got, and what it acknowledges of them. */
#include <rdma/rdma_cma.h>

#include "net/syscalls.h"
#include "verbs/check/check.h"
#include "verbs/check/report.h"
#include "verbs/ours.h"
#include "verbs/rdma/rdma.h"

/* Another thread may be about to acknowledge them. */
#define ACKNOWLEDGE_TRIES 100
#define ACKNOWLEDGE_PAUSE 10000000 /* ns */

static struct object_events *events_of(struct object *object, bool is_completion)
{
	return is_completion ? &object->completion_events : &object->async_events;
}

void check_event_taken(const void *pointer, bool is_completion)
{
	struct origin *origin = pointer ? origin_capture() : NULL;
	struct object *object;

	objects_enter();
	object = object_find(pointer);
	if (object) {
		struct object_events *events = events_of(object, is_completion);
		struct origin *before = events->got;

		events->taken++;
		events->got = origin;
		origin = before;
	}
	objects_leave();
	origin_free(origin);
}

unsigned int check_event_acked(const char *call, const void *pointer, bool is_completion,
			       unsigned int count)
{
	struct object *object = object_get(pointer);
	unsigned int possible = count, taken;
	struct object_events *events;

	if (!object)
		return count;
	events = events_of(object, is_completion);
	objects_enter();
	taken = events->taken;
	if (possible > taken - events->acked)
		possible = taken - events->acked;
	events->acked += possible;
	objects_leave();
	if (possible < count)
		check_report(CAUSE_EVENTS_ACKED_TOO_OFTEN, CHECK_PLACES({"made", object->made}),
			     "%s: %u event%s of %s, of which %u of %u were not acknowledged yet",
			     call, count, count == 1 ? "" : "s", object->name, possible, taken);
	object_put(object);
	return possible;
}

/* --- before destruction -------------------------------------------------------------- */

struct unacknowledged {
	const struct object *object;
	unsigned int completions, asyncs;
	unsigned int cm_events;
	struct object *cm_event; /* one of them, referenced */
};

static bool is_unacknowledged(const struct unacknowledged *some)
{
	return some->completions || some->asyncs || some->cm_events;
}

static void count_cm_event(void *argument, struct object *object)
{
	struct unacknowledged *some = argument;

	if (object->kind != OBJECT_CM_EVENT || !check_belongs(object, some->object))
		return;
	some->cm_events++;
	if (!some->cm_event)
		some->cm_event = object_reference(object);
}

static struct unacknowledged find_unacknowledged(const struct object *object)
{
	const struct object_events *completion = &object->completion_events;
	const struct object_events *async = &object->async_events;
	struct unacknowledged some = {.object = object};

	objects_enter();
	some.completions = completion->taken - completion->acked;
	some.asyncs = async->taken - async->acked;
	objects_leave();
	/* Mostly there is none, and very many objects are known. */
	if (object_cm_events(object))
		objects_visit(count_cm_event, &some);
	return some;
}

static bool settle(const struct object *object)
{
	const struct timespec step = {.tv_nsec = ACKNOWLEDGE_PAUSE};

	for (unsigned int i = 0; i < ACKNOWLEDGE_TRIES; i++) {
		struct unacknowledged some = find_unacknowledged(object);

		object_put(some.cm_event);
		if (!is_unacknowledged(&some))
			return true;
		sys_nanosleep(&step);
	}
	return false;
}

static void acknowledge_async(const struct object *object)
{
	static const enum ibv_event_type types[OBJECT_KINDS] = {
		[OBJECT_CQ] = IBV_EVENT_CQ_ERR,
		[OBJECT_SRQ] = IBV_EVENT_SRQ_ERR,
		[OBJECT_QP] = IBV_EVENT_QP_FATAL,
	};
	struct ibv_async_event event = {.event_type = types[object->kind]};

	event.element.qp = (struct ibv_qp *)object->pointer;
	urxe_ack_async_event(&event);
}

/* In the application's stead. */
static void acknowledge(const char *call, const struct object *object)
{
	struct unacknowledged some = find_unacknowledged(object);

	check_event_acked(call, object->pointer, true, some.completions);
	check_event_acked(call, object->pointer, false, some.asyncs);
	if (some.completions)
		urxe_ack_cq_events((struct ibv_cq *)object->pointer, some.completions);
	while (some.asyncs--)
		acknowledge_async(object);
	while (some.cm_event) {
		const void *event = some.cm_event->pointer;

		object_tell(some.cm_event);
		object_destroyed(event);
		urxe_rdma_ack_cm_event((struct rdma_cm_event *)event);
		object_put(some.cm_event);
		some = find_unacknowledged(object);
	}
}

static void report_unacknowledged(const char *call, const struct object *object)
{
	struct unacknowledged some = find_unacknowledged(object);
	unsigned int count = some.completions + some.asyncs + some.cm_events;
	const struct origin *got = some.cm_event      ? some.cm_event->made
				   : some.completions ? object->completion_events.got
						      : object->async_events.got;

	check_report(CAUSE_EVENTS_NOT_ACKED, CHECK_PLACES({"got", got}, {"made", object->made}),
		     "%s: %s, of which %u event%s not acknowledged%s%s", call, object->name, count,
		     count == 1 ? " was" : "s were", some.cm_event ? ", of them " : "",
		     some.cm_event ? some.cm_event->name : "");
	object_put(some.cm_event);
}

void check_events_acknowledged(const char *call, const struct object *object)
{
	struct unacknowledged some = find_unacknowledged(object);

	object_put(some.cm_event);
	/* What is in use isn't destroyed. */
	if (!is_unacknowledged(&some) || check_has_users(object) || settle(object))
		return;
	report_unacknowledged(call, object);
	acknowledge(call, object);
}
