/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/explain/peer.h"

#include <string.h>

#include "emu/explain/text.h"
#include "emu/objects/qp.h"
#include "emu/transport/recovery_timers.h"
#include "net/qp_text.h"

/* The retries were for packets that the peer says it misses, or that answers were passed over. */
static bool was_answered(const struct qp *qp)
{
	return qp->recovery.state == RECOVERY_SENDING || qp->recovery.state == RECOVERY_RETRANSMIT;
}

static struct link_peer describe_peer(const struct qp *qp)
{
	struct link *link = qp->hca->link;
	struct link_peer peer = {};

	if (link->ops->describe_peer)
		link->ops->describe_peer(link, &qp->path, qp->attr.dest_qp_num, &peer);
	return peer;
}

static bool is_connected_with(const struct link_peer *peer, const struct qp *qp)
{
	return peer->peer_qpn == qp->number && gid_equal(&peer->peer_gid, &qp->path.source);
}

static enum cause cause_of(const struct link_peer *peer, const struct qp *qp)
{
	static const enum cause causes[] = {
		[LINK_PEER_UNKNOWN] = CAUSE_PEER_SILENT,
		[LINK_PEER_NOT_THERE] = CAUSE_PEER_NOT_THERE,
		[LINK_PEER_OTHER_USER] = CAUSE_PEER_OTHER_USER,
		[LINK_PEER_ENDED] = CAUSE_PEER_ENDED,
		[LINK_PEER_NO_QP] = CAUSE_PEER_NO_QP,
	};

	if (peer->state != LINK_PEER_QP)
		return causes[peer->state];
	if (peer->qp_state < IBV_QPS_RTR || peer->qp_state >= IBV_QPS_ERR)
		return CAUSE_PEER_QP_NOT_READY;
	return is_connected_with(peer, qp) ? CAUSE_PEER_SILENT : CAUSE_PEER_QP_OF_ANOTHER;
}

/* Once something was acknowledged a ghost may be a late copy. */
static bool is_other_psn(const struct qp *qp)
{
	return qp->requester.ghost && qp->requester.unacked == (qp->attr.sq_psn & PSN_MASK);
}

/* --- in words --------------------------------------------------------------------------- */

static void add_process(struct text *text, const struct link_peer *peer)
{
	if (peer->pid)
		text_add(text, "process %d", (int)peer->pid);
	else
		text_add(text, "a process");
	if (*peer->command)
		text_add(text, " (%s)", peer->command);
	if (peer->stopped)
		text_add(text, ", which is stopped,");
}

static void add_qp(struct text *text, const struct link_peer *peer, const struct qp *qp)
{
	add_process(text, peer);
	text_add(text, " has QP 0x%x in %s", qp->attr.dest_qp_num, qp_state_text(peer->qp_state));
	if (peer->peer_qpn && !is_connected_with(peer, qp)) {
		text_add(text, ", connected with ");
		text_add_gid(text, &peer->peer_gid);
		text_add(text, " QP 0x%x", peer->peer_qpn);
	}
	if (peer->error)
		text_add(text, "; the cause of its last error is 0x%04x", peer->error);
	text_add(text, "; ");
}

static void add_peer(struct text *text, const struct link_peer *peer, const struct qp *qp)
{
	switch (peer->state) {
	case LINK_PEER_NOT_THERE:
		text_add(text, "nothing has UDP port %u of that address; ", ROCE_V2_UDP_PORT);
		break;
	case LINK_PEER_OTHER_USER:
		text_add(text, "user %u has UDP port %u of that address; ", (unsigned int)peer->uid,
			 ROCE_V2_UDP_PORT);
		break;
	case LINK_PEER_ENDED:
		text_add(text, "no process has QP numbers like 0x%x any more; ",
			 qp->attr.dest_qp_num);
		break;
	case LINK_PEER_NO_QP:
		add_process(text, peer);
		text_add(text, " has that number's block, and no such QP; ");
		break;
	case LINK_PEER_QP:
		add_qp(text, peer, qp);
		break;
	case LINK_PEER_UNKNOWN:
		break;
	}
}

/* Since the peer fell silent. */
static void add_refusal(struct text *text, const struct link_peer *peer, const struct qp *qp)
{
	if (peer->refused && (int64_t)(peer->refused_at - qp->recovery.silent_since) >= 0)
		text_add(text, "the kernel refused to send to that address: %s; ",
			 strerror(peer->refused));
}

static void add_retries(struct text *text, const struct qp *qp)
{
	text_add(text, "nothing acknowledged for ");
	text_add_time(text, qp->now - qp->recovery.silent_since);
	text_add(text, "; retry_cnt is %u", qp->attr.retry_cnt);
	if (was_answered(qp))
		return;
	text_add(text, ", timeout %u: ", qp->attr.timeout);
	text_add_time(text, recovery_least_timeout(qp));
	text_add(text, " or more each");
}

static void add_ghost(struct text *text, const struct qp *qp)
{
	text_add(text, "it expects PSN %u, and the first one sent is %u; ",
		 qp->requester.ghost_expects, qp->requester.unacked);
}

void explain_silence(struct qp *qp, struct finding *finding)
{
	struct text text = TEXT_OF(finding);
	struct link_peer peer = {};

	if (was_answered(qp)) {
		finding->cause =
			qp->recovery.response_missed ? CAUSE_RESPONSES_LOST : CAUSE_PACKETS_LOST;
	} else {
		peer = describe_peer(qp);
		finding->cause = cause_of(&peer, qp);
		if (finding->cause == CAUSE_PEER_SILENT && is_other_psn(qp))
			finding->cause = CAUSE_PEER_OTHER_PSN;
	}
	if (!cause_wanted(finding->cause))
		return;
	add_peer(&text, &peer, qp);
	if (finding->cause == CAUSE_PEER_OTHER_PSN)
		add_ghost(&text, qp);
	add_refusal(&text, &peer, qp);
	add_retries(&text, qp);
}

void explain_not_reading(struct qp *qp, uint32_t bytes)
{
	struct link_peer peer;
	struct finding finding = {};
	struct text text = TEXT_OF(&finding);

	peer = describe_peer(qp);
	if (!peer.stopped && !cause_wanted(CAUSE_PEER_NOT_READING))
		return;
	text_add_qp(&text, qp);
	text_add(&text, ": ");
	add_peer(&text, &peer, qp);
	text_add(&text, "its socket has %u bytes", bytes);
	if (peer.stopped)
		cause_warn_text(CAUSE_PEER_NOT_READING, finding.text);
	else
		cause_report_text(CAUSE_PEER_NOT_READING, finding.text);
}
