/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of the data path: work requests, completions and their events. */
#include "verbs/check/calls.h"

/* The address handles and windows that requests name. */
static bool check_requests(const char *call, const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	bool good = true;

	for (; wr && good; wr = wr->next) {
		if (wr->opcode == IBV_WR_BIND_MW)
			good = CHECK_USES(call, {OBJECT_MW, wr->bind_mw.mw},
					  {OBJECT_MR, wr->bind_mw.bind_info.mr});
		else if (qp->qp_type == IBV_QPT_UD)
			good = CHECK_USES(call, {OBJECT_AH, wr->wr.ud.ah});
	}
	return good;
}

int checked_post_built(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (check_is_on() && !check_requests("ibv_wr_complete()", qp, wr))
		return EINVAL;
	return compared_post_built(qp, wr, bad);
}

int checked_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (check_is_on() && (!CHECK_USES("ibv_post_send()", {OBJECT_QP, qp}) ||
			      !check_requests("ibv_post_send()", qp, wr))) {
		TELL_BAD(bad, wr);
		return set_errno(EINVAL);
	}
	return compared_post_send(qp, wr, bad);
}

int checked_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (check_is_on() && !CHECK_USES("ibv_post_recv()", {OBJECT_QP, qp})) {
		TELL_BAD(bad, wr);
		return set_errno(EINVAL);
	}
	return urxe_post_recv(qp, wr, bad);
}

int checked_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (check_is_on() && !CHECK_USES("ibv_post_srq_recv()", {OBJECT_SRQ, srq})) {
		TELL_BAD(bad, wr);
		return set_errno(EINVAL);
	}
	return urxe_post_srq_recv(srq, wr, bad);
}

int checked_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	if (check_is_on() && !CHECK_USES("ibv_poll_cq()", {OBJECT_CQ, cq}))
		return -set_errno(EINVAL);
	return urxe_poll_cq(cq, num_entries, wc);
}

int checked_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	if (check_is_on() && !CHECK_USES("ibv_req_notify_cq()", {OBJECT_CQ, cq}))
		return set_errno(EINVAL);
	return urxe_req_notify_cq(cq, solicited_only);
}
