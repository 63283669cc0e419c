/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that come before their listener. A program that tells its peer by
 * other means to connect, and listens next, is right on hardware, where
 * connecting takes a while; here a request takes microseconds. So a request
 * without a listener is kept for a moment, and refused only then; and one that
 * a peer refuses right away is retransmitted for as long.
 */
#include "emu/cm/cm_internal.h"

#include <stdlib.h>
#include <utlist.h>

#include "emu/hca.h"
#include "net/clock.h"

#define PENDING_LIFETIME (20 * NS_PER_MS)
#define RETRY_INTERVAL (2 * NS_PER_MS) /* between requests that are refused too early */
#define PENDING_MAX 256		       /* beyond that they are refused at once */

struct cm_pending {
	struct cm_pending *prev, *next; /* utlist, oldest first */
	uint64_t deadline;
	struct cm_message message;
	struct link_frame frame;
	uint8_t data[]; /* the frame's */
};

static void set_deadline(struct cm *cm, uint64_t deadline)
{
	atomic_store(&cm->pending_deadline, deadline);
	if (deadline != TIME_NEVER)
		hca_wake_at(cm->hca, deadline);
}

bool cm_pending_add(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		    uint64_t now)
{
	struct cm_pending *pending;

	if (cm->pending_expired || cm->pending_count >= PENDING_MAX || !cm->sink.request)
		return false;
	pending = malloc(sizeof(*pending) + frame->length);
	if (!pending)
		return false;
	pending->deadline = now + PENDING_LIFETIME;
	pending->message = *message;
	pending->frame = *frame;
	pending->frame.data = memcpy(pending->data, frame->data, frame->length);
	DL_APPEND(cm->pending_requests, pending);
	if (cm->pending_count++ == 0)
		set_deadline(cm, pending->deadline);
	return true;
}

static void take_off(struct cm *cm, struct cm_pending *pending)
{
	DL_DELETE(cm->pending_requests, pending);
	cm->pending_count--;
}

void cm_pending_withdraw(struct cm *cm, const struct cm_message *rej,
			 const struct link_frame *frame, uint64_t now)
{
	struct cm_pending *pending, *next;

	DL_FOREACH_SAFE (cm->pending_requests, pending, next) {
		if (pending->message.attribute != CM_REQ ||
		    pending->message.local_id != rej->local_id ||
		    !gid_equal(&pending->frame.source, &frame->source))
			continue;
		take_off(cm, pending);
		free(pending);
	}
}

bool cm_retry_after_reject(struct cm_id *id, uint64_t now)
{
	if (now - id->asked >= PENDING_LIFETIME)
		return false;
	id->retries_left++;
	cm_set_deadline(id, now + RETRY_INTERVAL);
	return true;
}

void cm_pending_look(struct cm *cm)
{
	if (cm->pending_requests)
		set_deadline(cm, 0);
}

static bool has_listener(struct cm *cm, const struct cm_pending *pending)
{
	return cm_find_listener(cm, pending->message.service_id, &pending->frame.destination,
				pending->message.attribute == CM_SIDR_REQ);
}

/* Of those whose time is over, or that have a listener now. */
void cm_pending_run(struct cm *cm, uint64_t now)
{
	struct cm_pending *pending, *next;

	cm->pending_expired = true;
	DL_FOREACH_SAFE (cm->pending_requests, pending, next) {
		if (pending->deadline > now && !has_listener(cm, pending))
			continue;
		take_off(cm, pending);
		cm_dispatch(cm, &pending->message, &pending->frame, now);
		free(pending);
	}
	cm->pending_expired = false;
	set_deadline(cm, cm->pending_requests ? cm->pending_requests->deadline : TIME_NEVER);
}

void cm_pending_free(struct cm *cm)
{
	struct cm_pending *pending, *next;

	DL_FOREACH_SAFE (cm->pending_requests, pending, next)
		free(pending);
	cm->pending_requests = NULL;
}
