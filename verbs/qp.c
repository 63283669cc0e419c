/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: the ABI around emu/objects/qp.h. Posting goes straight to the core.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "emu/objects/qp_state.h"
#include "emu/objects/qp_type.h"
#include "net/clock.h"
#include "net/guard.h"
#include "net/qp_text.h"
#include "net/wire/wire.h"
#include "verbs/context.h"
#include "verbs/domain.h"
#include "verbs/event.h"
#include "verbs/open_qp.h"
#include "verbs/preload/export.h"
#include "verbs/profile.h"
#include "verbs/qp_ex.h"
#include "verbs/registry.h"

static struct qp_extra *qp_extra_of(struct qp *qp)
{
	return qp->verbs;
}

#define CREATE "ibv_create_qp()"

/* @object: of the context that @pd is of, or NULL, which the core decides about. */
#define CHECK_OBJECT(what, object, pd)                                                             \
	do {                                                                                       \
		if ((object) && (object)->ibv.context != (pd)->context)                            \
			return refuse(EINVAL, CAUSE_OTHER_CONTEXT,                                 \
				      CREATE ": " what " and pd are of different contexts");       \
		if ((object) && !HANDLE_IS_GOOD(object))                                           \
			return REFUSE_HANDLE(EINVAL, CREATE ", " what, object);                    \
	} while (0)

static int check_objects(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	if (!pd)
		return refuse(EINVAL, CAUSE_OBJECT_MISSING, CREATE ": pd is NULL");
	if (!domain_is_good(pd))
		return domain_refuse(EINVAL, CREATE ", pd", pd);
	if (qp_type_has(attr->qp_type, QP_POST_SEND))
		CHECK_OBJECT("send_cq", to_cq(attr->send_cq), pd);
	if (!qp_type_has(attr->qp_type, QP_POST_RECV))
		return 0;
	CHECK_OBJECT("recv_cq", to_cq(attr->recv_cq), pd);
	CHECK_OBJECT("srq", to_srq(attr->srq), pd);
	return 0;
}

/* In @pd, or of the type XRC_RECV in @xrcd. */
static int create_qp(struct ibv_context *context, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
		     struct ibv_qp_init_attr *attr, struct qp **result)
{
	struct qp_extra *extra = calloc(1, sizeof(*extra));
	struct qp *qp;
	int error;

	if (!extra)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a queue pair");
	error = xrcd ? qp_create_xrc_recv(to_xrcd(xrcd), attr, &qp)
		     : qp_create(to_hca(context), to_pd(pd), attr, &qp);
	if (error) {
		free(extra);
		return error;
	}
	extra->device = to_context(context)->device;
	qp->ibv.context = context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	if (pd)
		domain_get(pd);
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.srq = attr->srq;
	qp->ibv.qp_num = qp->number;
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	/* It has its number: a thread that closes another context finds it. */
	pthread_mutex_lock(&extra->device->contexts_lock);
	qp->verbs = extra;
	pthread_mutex_unlock(&extra->device->contexts_lock);
	*result = qp;
	return 0;
}

struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int error = check_objects(pd, attr);
	struct qp *qp;

	if (!error)
		error = create_qp(pd->context, pd, NULL, attr, &qp);
	return error ? fail(error) : &qp->ibv;
}

static struct ibv_qp *create_xrc_recv(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct qp *qp;
	int error;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)
		return fail(refuse(EINVAL, CAUSE_QP_NEEDS_XRCD, "comp_mask is 0x%x, xrcd is %s",
				   attr->comp_mask, attr->xrcd ? "given" : "NULL"));
	if (attr->xrcd->context != context)
		return fail(
			refuse(EINVAL, CAUSE_OTHER_CONTEXT, CREATE ": xrcd is of another context"));
	error = create_qp(context, NULL, attr->xrcd, (struct ibv_qp_init_attr *)attr, &qp);
	return error ? fail(error) : &qp->ibv;
}

/* What the kernel knows and a device lacks is EOPNOTSUPP, what it doesn't know EINVAL. */
static int check_create_flags(const struct ibv_qp_init_attr_ex *attr, uint32_t flags)
{
	const uint32_t known = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | IBV_QP_CREATE_SCATTER_FCS |
			       IBV_QP_CREATE_CVLAN_STRIPPING | IBV_QP_CREATE_SOURCE_QPN |
			       IBV_QP_CREATE_PCI_WRITE_END_PADDING;

	if (flags & ~known)
		return refuse(EINVAL, CAUSE_BITS_UNKNOWN, "create_flags 0x%x: unknown are 0x%x",
			      flags, flags & ~known);
	if (flags & ~registry_configuration()->profile->create_flags)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "create_flags 0x%x",
			      flags & ~registry_configuration()->profile->create_flags);
	if (flags && attr->qp_type != IBV_QPT_UD)
		return refuse(EINVAL, CAUSE_QP_FLAG_OF_UD,
			      "IBV_QP_CREATE_BLOCK_SELF_MCAST_LB for %s",
			      qp_type_text(attr->qp_type));
	return 0;
}

static int check_create_ex(const struct hca *hca, const struct ibv_qp_init_attr_ex *attr,
			   uint32_t create_flags)
{
	const uint32_t masks = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	int error;

	if (attr->comp_mask & ~masks)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "comp_mask 0x%x",
			      attr->comp_mask & ~masks);
	error = check_create_flags(attr, create_flags);
	if (error)
		return error;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    !qp_ex_supports(hca, attr->qp_type, attr->send_ops_flags))
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "send_ops_flags 0x%" PRIx64 " of %s queue pairs",
			      attr->send_ops_flags, qp_type_text(attr->qp_type));
	return 0;
}

struct ibv_qp *urxe_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	uint32_t create_flags =
		attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
	int error = check_create_ex(to_hca(context), attr, create_flags);
	struct qp *qp;

	if (error)
		return fail(error);
	/* ibv_wr_atomic_write() takes its data as inline data is taken. */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    attr->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE &&
	    attr->cap.max_inline_data < ATOMIC_LENGTH)
		attr->cap.max_inline_data = ATOMIC_LENGTH;
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return create_xrc_recv(context, attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return fail(refuse(EINVAL, CAUSE_OBJECT_MISSING,
				   CREATE ": comp_mask lacks IBV_QP_INIT_ATTR_PD"));
	/* ibv_qp_init_attr is its beginning. */
	error = check_objects(attr->pd, (struct ibv_qp_init_attr *)attr);
	if (!error && attr->pd->context != context)
		error = refuse(EINVAL, CAUSE_OTHER_CONTEXT, CREATE ": pd is of another context");
	if (!error)
		error = create_qp(context, attr->pd, NULL, (struct ibv_qp_init_attr *)attr, &qp);
	if (error)
		return fail(error);
	/* Before it is attached to any group. */
	qp->blocks_own_multicast = create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		error = qp_ex_init(qp, attr->send_ops_flags);
		if (error) {
			urxe_destroy_qp(&qp->ibv);
			return fail(refuse(error, CAUSE_OUT_OF_MEMORY, "for a queue pair"));
		}
	}
	return &qp->ibv;
}

struct ibv_qp_ex *urxe_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp_extra_of(to_qp(qp))->builder ? &to_qp(qp)->ex : NULL;
}

int urxe_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct qp *qp = shared_qp(ibv);
	int error;

	if (!qp)
		return REFUSE_HANDLE(ENOENT, "ibv_modify_qp()", to_qp(ibv));
	error = qp_modify(qp, attr, mask, clock_now());
	if (!error && (mask & IBV_QP_STATE))
		ibv->state = attr->qp_state;
	deliver(qp->hca);
	return error;
}

int urxe_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init_attr)
{
	struct qp *qp = shared_qp(ibv);

	if (!qp)
		return REFUSE_HANDLE(ENOENT, "ibv_query_qp()", to_qp(ibv));
	qp_query(qp, attr, init_attr);
	init_attr->qp_context = ibv->qp_context;
	init_attr->send_cq = ibv->send_cq;
	init_attr->recv_cq = ibv->recv_cq;
	init_attr->srq = ibv->srq;
	init_attr->qp_type = ibv->qp_type;
	if (mask & IBV_QP_STATE) /* UCX, which asks for others, asserts the state that it set */
		ibv->state = attr->qp_state;
	return 0;
}

/* A handle that isn't good: one of ibv_open_qp(), or none any more. */
static int refuse_qp(int error, const char *call, struct ibv_qp *qp)
{
	if (to_opened(qp))
		return refuse(error, CAUSE_QP_OPENED, "%s, QP 0x%x (%s)", call, qp->qp_num,
			      qp_type_text(qp->qp_type));
	return refuse(error, CAUSE_HANDLE_CHANGED, "%s: handle is %u, it was made with %u", call,
		      qp->handle, to_qp(qp)->handle);
}

/*
 * Enhanced connection establishment: the device has no options beyond the specification, so none
 * are in force, and of those that are asked for none are accepted. The vendor is the device's:
 * rdma_set_local_ece() refuses 0, and programs give it what ibv_query_ece() says.
 */
int urxe_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!HANDLE_IS_GOOD(to_qp(qp)))
		return refuse_qp(EINVAL, "ibv_query_ece()", qp);
	*ece = (struct ibv_ece){.vendor_id = to_hca(qp->context)->limits.device.vendor_id};
	return 0;
}

int urxe_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	uint32_t vendor_id = to_hca(qp->context)->limits.device.vendor_id;

	if (!HANDLE_IS_GOOD(to_qp(qp)))
		return refuse_qp(EINVAL, "ibv_set_ece()", qp);
	if (ece->comp_mask)
		return refuse(EINVAL, CAUSE_BITS_UNKNOWN, "ibv_set_ece(): comp_mask is 0x%x",
			      ece->comp_mask);
	/* With another vendor's device there is nothing in common. */
	*ece = (struct ibv_ece){.vendor_id = ece->vendor_id == vendor_id ? vendor_id : 0};
	return 0;
}

/* A message is written packet by packet in the order of its PSNs, but by more than one copy. */
int urxe_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

int urxe_destroy_qp(struct ibv_qp *ibv)
{
	struct qp *qp = shared_qp(ibv);
	struct qp_extra *extra;
	struct ibv_pd *pd;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	bool opened;
	int error;

	if (!qp)
		return REFUSE_HANDLE(ENOENT, "ibv_destroy_qp()", to_qp(ibv));
	opened = to_opened(ibv);
	error = qp_check_unused(qp);
	if (error)
		return error; /* before anything has happened */
	if (qp->xrc_domain && !qp_close_handle(ibv))
		return 0;
	extra = qp_extra_of(qp);
	pd = qp->ibv.pd;
	/* In RESET it takes no packets, and so raises no more events. */
	qp_modify(qp, &reset, IBV_QP_STATE, clock_now());
	if (opened) /* its events have been withdrawn, and those of the first handle before */
		event_drop(&qp->hca->events, qp);
	else
		event_drain(to_context(ibv->context), qp, &ibv->mutex, &ibv->cond,
			    &extra->async_events, &ibv->events_completed);
	error = qp_destroy(qp);
	if (error)
		return error;
	if (pd)
		domain_put(pd);
	qp_ex_destroy(extra->builder);
	free(extra);
	return 0;
}

int post_requests(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
		  bool extended)
{
	struct lazy_time time = {.clock = clock_now};
	int error;

	guard_thread();
	error = qp_post_send(to_qp(ibv), wr, bad, extended, &time);
	/* Where requests were only queued, nothing asked for the time: the call was a short one. */
	if (lazy_time_known(&time))
		progress_posted(to_context(ibv->context)->device->client, lazy_now(&time));
	return error;
}

int urxe_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *unasked;
	struct qp *qp = to_qp(ibv);
	int error;

	bad = bad ? bad : &unasked;
	if (unlikely(!HANDLE_IS_GOOD(qp))) {
		*bad = wr;
		return set_errno(refuse_qp(ENOENT, "ibv_post_send()", ibv));
	}
	error = post_requests(ibv, wr, bad, false);
	deliver(qp->hca);
	return set_errno(error);
}

int urxe_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *unasked;
	struct qp *qp = to_qp(ibv);
	int error;

	bad = bad ? bad : &unasked;
	if (unlikely(!HANDLE_IS_GOOD(qp))) {
		*bad = wr;
		return set_errno(refuse_qp(ENOENT, "ibv_post_recv()", ibv));
	}
	guard_thread();
	error = qp_post_recv(qp, wr, bad);
	deliver(qp->hca);
	return set_errno(error);
}

/* RoCE has no LIDs: whatever it is, it is right. */
int urxe_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int error = HANDLE_IS_GOOD(to_qp(qp)) ? mcast_attach(to_qp(qp), gid)
					      : refuse_qp(ENOENT, "ibv_attach_mcast()", qp);

	if (!error)
		progress_refresh(to_context(qp->context)->device->client);
	return error;
}

int urxe_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return HANDLE_IS_GOOD(to_qp(qp)) ? mcast_detach(to_qp(qp), gid)
					 : refuse_qp(ENOENT, "ibv_detach_mcast()", qp);
}
