/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/event.h"

#include "emu/explain/text.h"
#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"

#define QP_LENGTH 200

void explain_qp_event(const struct qp *qp, enum cause cause, const char *what)
{
	char name[QP_LENGTH];
	struct text text = TEXT_IN(name);

	if (!cause_wanted(cause))
		return;
	text_add_qp(&text, qp);
	cause_report(cause, "%s: %s", name, what);
}

void explain_srq_limit(const struct srq *srq, uint32_t limit)
{
	cause_report(CAUSE_SRQ_LIMIT, "SRQ %u: %u receives are posted, and the limit was %u",
		     srq->handle, srq->queue.count, limit);
}

void explain_cq_overrun(const struct cq *cq, uint32_t qpn)
{
	cause_report(CAUSE_CQ_OVERRUN,
		     "CQ %u of %u entries: all are taken, and QP 0x%x has one more completion",
		     cq->handle, cq->capacity, qpn);
}

void explain_cq_in_error(const struct qp *qp, const struct cq *cq)
{
	char name[QP_LENGTH];
	struct text text = TEXT_IN(name);

	if (!cause_wanted(CAUSE_CQ_IN_ERROR))
		return;
	text_add_qp(&text, qp);
	cause_report(CAUSE_CQ_IN_ERROR, "%s: its CQ %u of %u entries was overrun by QP 0x%x", name,
		     cq->handle, cq->capacity, cq->overrun_by);
}

void explain_bad_migration(const struct qp *qp, const struct link_frame *frame)
{
	static const char *const states[] = {[IBV_MIG_MIGRATED] = "MIGRATED",
					     [IBV_MIG_REARM] = "REARM",
					     [IBV_MIG_ARMED] = "ARMED"};
	const struct path *alternate = &qp->migration.alternate.path;
	char report[3 * QP_LENGTH];
	struct text text = TEXT_IN(report);

	if (!cause_wanted(CAUSE_PATH_MIG_ERR))
		return;
	text_add_qp(&text, qp);
	text_add(&text, ": a packet came from ");
	text_add_gid(&text, &frame->source);
	text_add(&text, " to ");
	text_add_gid(&text, &frame->destination);
	text_add(&text, "; the alternate path is from ");
	text_add_gid(&text, &alternate->source);
	text_add(&text, " to ");
	text_add_gid(&text, &alternate->destination);
	cause_report(CAUSE_PATH_MIG_ERR, "%s, and path_mig_state is %s", report,
		     states[qp->migration.state]);
}
