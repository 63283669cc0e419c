/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/inject/inject.h"

#include <stdlib.h>
#include <utlist.h>

#include "emu/inject/event.h"
#include "emu/objects/qp.h"
#include "net/cause/cause.h"
#include "net/clock.h"
#include "net/fault/injector.h"

/* How often an object is looked for that an event can be about. */
#define EVENT_RETRY NS_PER_MS

/* An event that has no object yet: it is about the first one that there is. */
struct pending_event {
	struct pending_event *prev, *next; /* utlist */
	enum ibv_event_type type;
};

void inject_init(struct inject *inject, struct injector *injector)
{
	*inject = (struct inject){.injector = injector, .retry_at = TIME_NEVER};
	for (unsigned int i = 0; i < PORTS_MAX; i++)
		inject->up_at[i] = TIME_NEVER;
	inject->actions = injector ? &injector->actions : &inject->none;
	inject->active = inject_begins(inject);
}

void inject_destroy(struct hca *hca)
{
	struct inject *inject = &hca->inject;
	struct pending_event *event, *next;

	if (inject->injector)
		injector_forget(inject->injector, hca);
	DL_FOREACH_SAFE (inject->pending, event, next) {
		DL_DELETE(inject->pending, event);
		free(event);
	}
}

/* --- what is due ------------------------------------------------------------------------ */

static void set_pending(struct hca *hca, enum ibv_event_type type, uint64_t now)
{
	struct inject *inject = &hca->inject;
	struct pending_event *event = malloc(sizeof(*event));

	if (!event)
		return; /* without memory it doesn't happen */
	event->type = type;
	DL_APPEND(inject->pending, event);
	inject->retry_at = now + EVENT_RETRY;
}

static bool retry_pending(struct hca *hca, uint64_t now)
{
	struct inject *inject = &hca->inject;
	struct pending_event *event, *next;

	if (now < inject->retry_at)
		return false;
	DL_FOREACH_SAFE (inject->pending, event, next) {
		if (!inject_event(hca, event->type, 0, now))
			continue;
		DL_DELETE(inject->pending, event);
		free(event);
	}
	inject->retry_at = inject->pending ? now + EVENT_RETRY : TIME_NEVER;
	return true;
}

static void make_happen(struct hca *hca, const struct fault_hit *hit, uint64_t now)
{
	switch (hit->action) {
	case ACTION_EVENT:
		/* One that a QP was named for is not about another one. */
		if (!inject_event(hca, hit->argument, hit->qpn, now) && !hit->qpn)
			set_pending(hca, hit->argument, now);
		break;
	case ACTION_DOWN:
		cause_report(CAUSE_INJECTED_EVENT, "%s", hit->clause);
		inject_down(hca, hit->qpn, now + hit->argument, now);
		break;
	default:
		inject_remove(hca, now);
		break;
	}
}

bool inject_run(struct hca *hca, uint64_t now)
{
	struct inject *inject = &hca->inject;
	struct fault_hit hit;
	bool any = false;

	atomic_store_explicit(&inject->active, true, memory_order_relaxed);
	while (injector_due(inject->injector, hca, now, &hit)) {
		make_happen(hca, &hit, now);
		any = true;
	}
	any |= inject_up(hca, now);
	any |= retry_pending(hca, now);
	return any;
}

uint64_t inject_deadline(const struct inject *inject)
{
	uint64_t next = earlier(injector_deadline(inject->injector), inject->retry_at);

	for (unsigned int i = 0; i < PORTS_MAX; i++)
		next = earlier(next, inject->up_at[i]);
	return next;
}

/* --- questions -------------------------------------------------------------------------- */

void inject_message(struct qp *qp, unsigned int work)
{
	struct hca *hca = qp->hca;

	if (injector_message(hca->inject.injector, hca, work, qp->number))
		inject_wake(hca);
}

uint32_t inject_coalesce(struct hca *hca)
{
	struct fault_hit hit;

	return injector_coalesce(hca->inject.injector, &hit);
}

bool inject_spurious(struct hca *hca)
{
	struct fault_hit hit;

	return injector_spurious(hca->inject.injector, &hit);
}

void inject_wake(struct hca *hca)
{
	hca_wake_at(hca, 0);
}

bool inject_unreachable(struct hca *hca)
{
	struct fault_hit hit;

	if (!injector_cm_event(hca->inject.injector, FAULT_UNREACHABLE, &hit))
		return false;
	cause_report(CAUSE_INJECTED_EVENT, "%s", hit.clause);
	return true;
}

enum cm_reject_reason inject_reject(struct hca *hca, enum cm_attribute message)
{
	struct fault_hit hit;
	enum cm_reject_reason reason = injector_cm(hca->inject.injector, message, &hit);

	if (reason)
		cause_report(CAUSE_INJECTED_REJECT, "%s", hit.clause);
	return reason;
}
