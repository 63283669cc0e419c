/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of the connection manager: what a message, or its absence, is to the
 * owner of an id. The sink is called at once, with cm.lock held.
 */
#include "emu/cm/cm_internal.h"

static struct cm_event event_about(const struct cm_id *id, enum cm_event_type type,
				   const struct cm_message *message)
{
	struct cm_event event = {
		.type = type,
		.state = id->state,
		.id = (struct cm_id *)id,
		.path = id->path,
	};

	if (message)
		event.message = *message;
	return event;
}

void cm_raise(struct cm_id *id, enum cm_event_type type, const struct cm_message *message)
{
	const struct cm_sink *sink = &id->cm->sink;
	struct cm_event event;

	if (id->abandoned || !sink->event)
		return;
	event = event_about(id, type, message);
	sink->event(sink->context, &event);
}

void cm_raise_request(struct cm_id *id, enum cm_event_type type, const struct cm_message *message,
		      struct cm_id *listener, uint64_t now)
{
	const struct cm_sink *sink = &id->cm->sink;
	struct cm_event event = event_about(id, type, message);

	event.listener = listener;
	event.listener_context = listener->context;
	switch (sink->request(sink->context, &event)) {
	case CM_REQUEST_TAKEN:
		break;
	case CM_REQUEST_REFUSED:
		cm_abandon(id, now);
		break;
	case CM_REQUEST_IGNORED:
		cm_ignore(id);
		break;
	}
}
