/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/inject/late.h"

#include <stdlib.h>
#include <utlist.h>

#include "emu/objects/cq.h"
#include "emu/objects/qp.h"

/* In qp.late, in the order in which they go: one that is due sooner waits for those before it. */
struct late {
	struct late *prev, *next; /* utlist */
	struct cq *cq;
	struct completion completion;
	uint64_t due;
};

/* A message has one completion; receives that are flushed later belong to none. */
static uint64_t take_receive_delay(struct message *message)
{
	uint64_t delay = message->late;

	message->late = 0;
	return delay;
}

static uint64_t delay_of(struct qp *qp, const struct completion *completion)
{
	const struct send_wqe *wqe;

	/* Each completion of the send queue frees a slot there. */
	if (!completion->send_slots)
		return take_receive_delay(&qp->responder.message);
	wqe = send_queue_at(&qp->sq, qp->sq.done - 1);
	return wqe->is_late ? wqe->late : 0;
}

bool late_add(struct qp *qp, struct cq *cq, const struct completion *completion)
{
	uint64_t delay = delay_of(qp, completion);
	struct late *late;

	/* One that isn't the QP's (XRC) stays longer than the QP: it is never late. */
	if ((!delay && !qp->late) || !completion->qp)
		return false;
	late = malloc(sizeof(*late));
	if (!late) {
		late_run(qp, TIME_NEVER);
		return false;
	}
	*late = (struct late){.cq = cq, .completion = *completion, .due = qp->now + delay};
	DL_APPEND(qp->late, late);
	hca_arm(qp->hca, &qp->timer, qp->late->due);
	return true;
}

void late_run(struct qp *qp, uint64_t now)
{
	struct late *late;

	while ((late = qp->late) && late->due <= now) {
		DL_DELETE(qp->late, late);
		late->completion.timestamp = qp->now;
		qp_push(qp, late->cq, &late->completion);
		free(late);
	}
}

uint64_t late_deadline(const struct qp *qp)
{
	return qp->late ? qp->late->due : TIME_NEVER;
}

void late_drop(struct qp *qp)
{
	struct late *late, *next;

	DL_FOREACH_SAFE (qp->late, late, next) {
		DL_DELETE(qp->late, late);
		free(late);
	}
}
