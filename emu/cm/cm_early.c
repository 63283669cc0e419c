/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that come before their listener. A program that tells its peer by
 * other means to connect, and listens next, is right on hardware, where
 * connecting takes a while; here a request takes microseconds. So one that
 * nobody listens for is kept for a moment, and refused only then; and one that
 * a peer refuses right away is repeated for as long.
 */
#include "emu/cm/cm_internal.h"

#include <stdlib.h>
#include <utlist.h>

#include "emu/hca.h"

#define PATIENCE 20000000u /* ns */
#define AGAIN 2000000u	   /* ns, between requests that are refused too early */
#define EARLY_MAX 256	   /* beyond that they are refused at once */

struct cm_early {
	struct cm_early *prev, *next; /* utlist, oldest first */
	uint64_t deadline;
	struct cm_message message;
	struct link_frame frame;
	uint8_t data[]; /* the frame's */
};

static void set_deadline(struct cm *cm)
{
	struct hca *hca = cm->hca;
	uint64_t deadline = cm->early ? cm->early->deadline : TIME_NEVER;

	atomic_store(&cm->early_deadline, deadline);
	if (deadline != TIME_NEVER && hca->deadline)
		hca->deadline(hca->deadline_context, deadline);
}

bool cm_early_keep(struct cm *cm, const struct cm_message *message, const struct link_frame *frame,
		   uint64_t now)
{
	struct cm_early *early;

	if (cm->early_last_call || cm->early_count >= EARLY_MAX || !cm->sink.event)
		return false;
	early = malloc(sizeof(*early) + frame->length);
	if (!early)
		return false;
	early->deadline = now + PATIENCE;
	early->message = *message;
	early->frame = *frame;
	early->frame.data = memcpy(early->data, frame->data, frame->length);
	DL_APPEND(cm->early, early);
	cm->early_count++;
	set_deadline(cm);
	return true;
}

bool cm_early_again(struct cm_id *id, uint64_t now)
{
	if (now - id->asked >= PATIENCE)
		return false;
	id->retries_left++;
	cm_set_deadline(id, now + AGAIN);
	return true;
}

void cm_early_hurry(struct cm *cm)
{
	struct cm_early *early;

	DL_FOREACH (cm->early, early)
		early->deadline = 0;
	if (cm->early)
		set_deadline(cm);
}

void cm_early_run(struct cm *cm, uint64_t now)
{
	cm->early_last_call = true;
	while (cm->early && cm->early->deadline <= now) {
		struct cm_early *early = cm->early;

		DL_DELETE(cm->early, early);
		cm->early_count--;
		cm_dispatch(cm, &early->message, &early->frame, now);
		free(early);
	}
	cm->early_last_call = false;
	set_deadline(cm);
}

void cm_early_forget(struct cm *cm)
{
	struct cm_early *early, *next;

	DL_FOREACH_SAFE (cm->early, early, next)
		free(early);
	cm->early = NULL;
}
