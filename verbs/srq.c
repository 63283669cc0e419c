/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: the ABI around emu/objects/srq.h.
 */
#include <stdlib.h>

#include "net/guard.h"
#include "verbs/context.h"
#include "verbs/domain.h"
#include "verbs/event.h"
#include "verbs/preload/export.h"

#define CREATE "ibv_create_srq()"

/* @xrcd and @cq: of XRC, or NULL. */
static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
				  void *srq_context, struct ibv_srq_attr *attr)
{
	struct srq_extra *extra;
	struct srq *srq;
	int error;

	if (!domain_is_good(pd))
		return fail(domain_refuse(EINVAL, CREATE ", pd", pd));
	extra = calloc(1, sizeof(*extra));
	if (!extra)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a shared receive queue"));
	error = xrcd ? srq_create_xrc(to_pd(pd), to_xrcd(xrcd), to_cq(cq), attr, &srq)
		     : srq_create(to_pd(pd), attr, &srq);
	if (error) {
		free(extra);
		return fail(error);
	}
	srq->verbs = extra;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = srq_context;
	srq->ibv.pd = pd;
	domain_get(pd);
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	return &srq->ibv;
}

struct ibv_srq *urxe_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create_srq(pd, NULL, NULL, attr->srq_context, &attr->attr);
}

static struct ibv_srq *create_xrc_srq(struct ibv_context *context,
				      struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if ((attr->comp_mask & needed) != needed || !attr->xrcd || !attr->cq)
		return fail(refuse(EINVAL, CAUSE_SRQ_TYPE,
				   "srq_type is XRC, comp_mask 0x%x, xrcd %s, cq %s",
				   attr->comp_mask, attr->xrcd ? "given" : "NULL",
				   attr->cq ? "given" : "NULL"));
	/* The kernel looks objects up in the context of the call, and finds none of another one. */
	if (attr->pd->context != context || attr->xrcd->context != context ||
	    attr->cq->context != context)
		return fail(refuse(EINVAL, CAUSE_OTHER_CONTEXT,
				   CREATE ": pd, xrcd or cq is of another context"));
	if (!HANDLE_IS_GOOD(to_cq(attr->cq)))
		return fail(REFUSE_HANDLE(EINVAL, CREATE ", cq", to_cq(attr->cq)));
	return create_srq(attr->pd, attr->xrcd, attr->cq, attr->srq_context, &attr->attr);
}

/* ibv_create_srq_ex() itself handles most calls for the basic type. */
struct ibv_srq *urxe_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			       IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type =
		attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return fail(refuse(EINVAL, CAUSE_OBJECT_MISSING,
				   CREATE ": comp_mask is 0x%x, pd %s", attr->comp_mask,
				   attr->pd ? "given" : "NULL"));
	if (attr->comp_mask & ~known && type != IBV_SRQT_TM)
		return fail(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, CREATE ": comp_mask 0x%x",
				   attr->comp_mask & ~known));
	switch (type) {
	case IBV_SRQT_BASIC: /* as with hardware: what is XRC's isn't looked at */
		return create_srq(attr->pd, NULL, NULL, attr->srq_context, &attr->attr);
	case IBV_SRQT_XRC:
		return create_xrc_srq(context, attr);
	default:
		return fail(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, CREATE ": srq_type %u", type));
	}
}

int urxe_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int error;

	if (!HANDLE_IS_GOOD(to_srq(srq)))
		return REFUSE_HANDLE(ENOENT, "ibv_modify_srq()", to_srq(srq));
	error = srq_modify(to_srq(srq), attr, mask);
	deliver(to_srq(srq)->hca);
	return error;
}

int urxe_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	if (!HANDLE_IS_GOOD(to_srq(srq)))
		return REFUSE_HANDLE(ENOENT, "ibv_query_srq()", to_srq(srq));
	srq_query(to_srq(srq), attr);
	return 0;
}

int urxe_destroy_srq(struct ibv_srq *ibv)
{
	struct srq *srq = to_srq(ibv);
	struct srq_extra *extra = srq->verbs;
	struct ibv_pd *pd = ibv->pd;
	int error;

	if (!HANDLE_IS_GOOD(srq))
		return REFUSE_HANDLE(ENOENT, "ibv_destroy_srq()", srq);
	error = srq_check_unused(srq);
	if (error)
		return error;
	srq_silence(srq);
	event_drain(to_context(ibv->context), srq, &ibv->mutex, &ibv->cond, &extra->async_events,
		    &ibv->events_completed);
	pthread_cond_destroy(&ibv->cond);
	pthread_mutex_destroy(&ibv->mutex);
	srq_destroy(srq);
	domain_put(pd);
	free(extra);
	return 0;
}

int urxe_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct ibv_recv_wr *refused = wr;
	int error;

	guard_thread();
	error = likely(HANDLE_IS_GOOD(to_srq(srq)))
			? srq_post(to_srq(srq), wr, &refused)
			: REFUSE_HANDLE(ENOENT, "ibv_post_srq_recv()", to_srq(srq));
	if (error)
		TELL_BAD(bad, (struct ibv_recv_wr *)refused);
	return set_errno(error);
}
