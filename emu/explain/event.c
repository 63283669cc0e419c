/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/event.h"

#include "emu/explain/text.h"
#include "emu/objects/cq.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "net/cause/origin.h"
#include "net/qp_text.h"

void explain_qp_event(const struct qp *qp, enum cause cause, const char *what)
{
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

	if (!cause_wanted(cause))
		return;
	text_add_qp(&text, qp);
	text_add(&text, ": %s", what);
	cause_report_text(cause, finding.text);
}

void explain_srq_limit(const struct srq *srq, uint32_t limit)
{
	cause_report(CAUSE_SRQ_LIMIT, "SRQ %u: %u receives are posted, and the limit was %u",
		     srq->handle, srq->queue.count, limit);
}

void explain_cq_overrun(const struct cq *cq, uint32_t qpn)
{
	char made[ORIGIN_TEXT];

	if (!cause_wanted(CAUSE_CQ_OVERRUN))
		return;
	cause_report(CAUSE_CQ_OVERRUN,
		     "CQ %u of %u entries: all are taken, and QP 0x%x has one more completion%s",
		     cq->handle, cq->capacity, qpn,
		     origin_phrase(cq->origin, CAUSE_LINE "the CQ was created at ", made));
}

void explain_cq_in_error(const struct qp *qp, const struct cq *cq)
{
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

	if (!cause_wanted(CAUSE_CQ_IN_ERROR))
		return;
	text_add_qp(&text, qp);
	text_add(&text, ": its CQ %u of %u entries ", cq->handle, cq->capacity);
	if (cq->overrun_by)
		text_add(&text, "was overrun by QP 0x%x", cq->overrun_by);
	else
		text_add(&text, "is in the error state, as a fault has asked for");
	cause_report_text(CAUSE_CQ_IN_ERROR, finding.text);
}

void explain_bad_migration(const struct qp *qp, const struct link_frame *frame)
{
	const struct path *alternate = &qp->migration.alternate.path;
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

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
	text_add(&text, ", and path_mig_state is %s", qp_mig_state_text(qp->migration.state));
	cause_report_text(CAUSE_PATH_MIG_ERR, finding.text);
}
