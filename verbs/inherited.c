/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/inherited.h"

#include <unistd.h>

#include "verbs/check/check.h"
#include "verbs/context.h"

void report_inherited(const char *call)
{
	cause_report(CAUSE_FORKED_CHILD, "%s, process %d", call, (int)getpid());
	check_inherited(call);
}

static int refuse_inherited(const char *call)
{
	report_inherited(call);
	return EOPNOTSUPP;
}

int inherited_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	check_inherited("ibv_poll_cq()");
	return 0;
}

static int inherited_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return set_errno(refuse_inherited("ibv_req_notify_cq()"));
}

static int inherited_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	TELL_BAD(bad, wr);
	return set_errno(refuse_inherited("ibv_post_send()"));
}

static int inherited_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	TELL_BAD(bad, wr);
	return set_errno(refuse_inherited("ibv_post_recv()"));
}

static int inherited_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
				   struct ibv_recv_wr **bad)
{
	TELL_BAD(bad, wr);
	return set_errno(refuse_inherited("ibv_post_srq_recv()"));
}

static int inherited_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return set_errno(refuse_inherited("ibv_query_device()"));
}

static int inherited_query_port(struct ibv_context *context, uint8_t port_num,
				struct _compat_ibv_port_attr *attr)
{
	return set_errno(refuse_inherited("ibv_query_port()"));
}

static struct ibv_mw *inherited_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	return fail(refuse_inherited("ibv_alloc_mw()"));
}

static int inherited_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return set_errno(refuse_inherited("ibv_bind_mw()"));
}

static int inherited_dealloc_mw(struct ibv_mw *mw)
{
	check_inherited("ibv_dealloc_mw()");
	return 0;
}

static int inherited_dealloc_td(struct ibv_td *td)
{
	check_inherited("ibv_dealloc_td()");
	return 0;
}

static int inherited_close_xrcd(struct ibv_xrcd *xrcd)
{
	check_inherited("ibv_close_xrcd()");
	return 0;
}

void context_inherit(struct context *context)
{
	struct verbs_context *verbs = &context->verbs;
	const struct verbs_context before = *verbs;

	/* The inline functions of verbs.h say EOPNOTSUPP for what is missing. */
#define OPERATION(member, ...) verbs->member = NULL;
#include "verbs/operations.def"
#undef OPERATION
	verbs->query_device_ex = before.query_device_ex;
	verbs->alloc_dm = inherited_alloc_dm;
	verbs->free_dm = inherited_free_dm;
	verbs->dealloc_td = inherited_dealloc_td;
	/* These are called without a check. */
	verbs->close_xrcd = inherited_close_xrcd;
	verbs->context.ops = (struct ibv_context_ops){
		._compat_query_device = inherited_query_device,
		._compat_query_port = inherited_query_port,
		.alloc_mw = inherited_alloc_mw,
		.bind_mw = inherited_bind_mw,
		.dealloc_mw = inherited_dealloc_mw,
		.poll_cq = inherited_poll_cq,
		.req_notify_cq = inherited_req_notify_cq,
		.post_srq_recv = inherited_post_srq_recv,
		.post_send = inherited_post_send,
		.post_recv = inherited_post_recv,
	};
}
