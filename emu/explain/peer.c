/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/peer.h"

#include "emu/explain/text.h"
#include "emu/objects/qp.h"

/* The retries were for packets that the peer says it misses, or that answers were passed over. */
static bool was_answered(const struct qp *qp)
{
	return qp->recovery.state == RECOVERY_SENDING;
}

static void add_retries(struct text *text, const struct qp *qp)
{
	const struct recovery *recovery = &qp->recovery;

	text_add(text, "nothing acknowledged for ");
	text_add_time(text, qp->now - recovery->silent_since);
	text_add(text, "; retry_cnt is %u", qp->attr.retry_cnt);
	if (was_answered(qp))
		return;
	text_add(text, ", timeout %u: ", qp->attr.timeout);
	text_add_time(text, UINT64_C(4096) << qp->attr.timeout);
	text_add(text, " or more each");
}

void explain_silence(struct qp *qp, struct finding *finding)
{
	struct text text = TEXT_IN(finding->text);

	finding->cause = !was_answered(qp)		? CAUSE_PEER_SILENT
			 : qp->recovery.response_missed ? CAUSE_RESPONSES_LOST
							: CAUSE_PACKETS_LOST;
	if (!cause_wanted(finding->cause))
		return;
	add_retries(&text, qp);
}
