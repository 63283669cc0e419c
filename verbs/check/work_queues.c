/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues that can't work out, posts that can't, and errors that the application passes over. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "net/cause/origin.h"
#include "net/log.h"
#include "net/qp_text.h"
#include "verbs/check/report.h"
#include "verbs/check/work.h"

/* --- completion queues ------------------------------------------------------------------------ */

static void check_cq(struct cq *cq)
{
	struct work_cq *of = cq->watched;
	struct work_cq found;
	bool too_small;

	if (!of || cq->ignores_overrun)
		return;
	work_lock();
	too_small = of->sends + of->receives > cq->capacity && !of->told;
	of->told |= too_small;
	found = *of;
	work_unlock();
	if (!too_small)
		return;
	check_report(CAUSE_CQ_TOO_SMALL, CHECK_PLACES({"created", cq->origin}),
		     "a completion queue of %u entries: %u sends (%u of them unsignaled) and %u "
		     "receives are posted that complete to it",
		     cq->capacity, found.sends, found.unsignaled, found.receives);
}

/* --- errors that are ignored ------------------------------------------------------------------ */

/*
 * A post after the program has had time to look at the error: it polled again since. One to each
 * queue may be there to see that all before it is flushed.
 */
static bool ignores_error(struct work_qp *of, bool receive, struct work_error *error)
{
	const struct work_cq *cq;
	bool second = false;

	work_lock();
	cq = of->error.status ? of->error.cq->watched : NULL;
	if (cq && cq->polls > of->error.polls)
		second = ++of->error.posts[receive] == 2;
	*error = of->error;
	if (second)
		of->error.polled = NULL; /* the caller's */
	work_unlock();
	return second;
}

/* IBA 10.3.1: in SQE, where a send of UC or UD leads, receives go on. */
static void check_error(const struct qp *qp, bool receive)
{
	struct work_error error;

	if (!(qp_abilities(qp) & (receive ? QP_FLUSH_RECV : QP_FLUSH_SEND)))
		return;
	if (!ignores_error(qp->watched, receive, &error))
		return;
	check_report(CAUSE_ERROR_IGNORED, CHECK_PLACES({"error polled", error.polled}),
		     "QP 0x%x (%s): the work request with wr_id %" PRIu64
		     " completed with status %u (%s), and this is the second post since",
		     qp->number, qp_type_text(qp->type->ibv), error.wr_id, error.status,
		     ibv_wc_status_str(error.status));
	origin_free(error.polled);
}

/* Flushed requests follow an error, or are all that comes of a disconnect. */
void work_check_polled(struct cq *cq, const struct completion *completion)
{
	enum ibv_wc_status status = completion->wc.status;
	struct work_qp *of = completion->qp->watched;
	const struct work_cq *of_cq = cq->watched;
	struct origin *origin;

	if (status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR || !of_cq)
		return;
	origin = origin_capture();
	work_lock();
	if (!of->error.status) {
		of->error = (struct work_error){.status = status,
						.wr_id = completion->wc.wr_id,
						.cq = cq,
						.polls = of_cq->polls,
						.polled = origin};
		origin = NULL;
	}
	work_unlock();
	origin_free(origin);
}

/* --- posted ----------------------------------------------------------------------------------- */

void work_check_posted(struct qp *qp, bool receive)
{
	check_cq(receive ? qp->recv_cq : qp->send_cq);
	check_error(qp, receive);
}

/* --- refused ---------------------------------------------------------------------------------- */

/* A program that posts no more than the queue takes, and no more behind that, needs no signal. */
static void refused_full(const struct qp *qp, const char *call, uint64_t wr_id)
{
	const struct work_qp *of = qp->watched;
	uint32_t unsignaled;

	if (!of)
		return;
	work_lock();
	unsignaled = of->unsignaled;
	work_unlock();
	if (unsignaled >= qp->sq.capacity)
		check_report(CAUSE_SEND_QUEUE_NEVER_EMPTIES, CHECK_PLACES({"created", qp->origin}),
			     "%s, wr_id %" PRIu64
			     ": QP 0x%x (%s): the last %u work requests are unsignaled, the queue "
			     "takes %u",
			     call, wr_id, qp->number, qp_type_text(qp->type->ibv), unsignaled,
			     qp->sq.capacity);
}

static void refused_in_state(const struct qp *qp, const char *call, uint64_t wr_id)
{
	check_report(CAUSE_POST_IN_WRONG_STATE, CHECK_PLACES({"created", qp->origin}),
		     "%s, wr_id %" PRIu64 ": QP 0x%x (%s) is in %s", call, wr_id, qp->number,
		     qp_type_text(qp->type->ibv), qp_state_text(qp->state));
}

void work_send_refused(struct qp *qp, const char *call, uint64_t wr_id, int error)
{
	if (error == ENOMEM)
		refused_full(qp, call, wr_id);
	else if (qp->type->abilities & QP_POST_SEND && !(qp_abilities(qp) & QP_POST_SEND))
		refused_in_state(qp, call, wr_id);
}

void work_receive_refused(struct qp *qp, uint64_t wr_id, int error)
{
	if (error == EINVAL && qp->type->abilities & QP_POST_RECV && !qp->srq &&
	    !(qp_abilities(qp) & QP_POST_RECV))
		refused_in_state(qp, "ibv_post_recv()", wr_id);
}

/* --- no receive ------------------------------------------------------------------------------- */

/* A notice, not a misuse: it is told, and counts for nothing. */
void work_tell_missing(const struct work_qp *of)
{
	const struct cause_entry *entry = cause_find(CAUSE_SENDS_MET_NO_RECEIVE);
	const char *part;
	char text[200];

	if (!of->missing)
		return;
	snprintf(text, sizeof(text), "check: 0x%04x %s: %s: QP 0x%x (%s): %" PRIu64 " times",
		 entry->cause, entry->name, entry->title, of->qp->number,
		 qp_type_text(of->qp->type->ibv), of->missing);
	part = text;
	log_paragraph(&part, 1);
}
