/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/open_qp.h"

#include <stdlib.h>
#include <utlist.h>

#include "verbs/event.h"

static struct qp_extra *qp_extra_of(struct qp *qp)
{
	return qp->verbs;
}

static pthread_mutex_t *handles_lock(const struct qp *qp)
{
	return &to_context(qp->ibv.context)->device->contexts_lock;
}

void qp_each_handle(struct qp *qp, void (*function)(struct ibv_qp *handle, int argument),
		    int argument)
{
	struct qp_extra *extra = qp_extra_of(qp);
	struct opened_qp *opened;

	pthread_mutex_lock(handles_lock(qp));
	if (!extra->closed)
		function(&qp->ibv, argument);
	DL_FOREACH (extra->opened, opened)
		function(&opened->ibv, argument);
	pthread_mutex_unlock(handles_lock(qp));
}

/* --- opening --------------------------------------------------------------------- */

static void fill(struct opened_qp *opened, struct ibv_context *context, struct qp *qp,
		 const struct ibv_qp_open_attr *attr)
{
	opened->verbs = &opened->extra;
	opened->handle = OPENED_QP;
	opened->qp = qp;
	opened->ibv.context = context;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		opened->ibv.qp_context = attr->qp_context;
	opened->ibv.handle = qp->handle;
	opened->ibv.qp_num = qp->number;
	opened->ibv.qp_type = qp->type->ibv;
	opened->ibv.state = qp->state;
	pthread_mutex_init(&opened->ibv.mutex, NULL);
	pthread_cond_init(&opened->ibv.cond, NULL);
}

/* With a reference to @qp, which may be about to lose its last handle. */
static int open_handle(struct ibv_context *context, struct qp *qp,
		       const struct ibv_qp_open_attr *attr, struct opened_qp **result)
{
	struct qp_extra *extra = qp_extra_of(qp);
	struct opened_qp *opened;
	bool alive;

	if (!qp->xrcd || !xrcd_same_domain(qp->xrcd, to_xrcd(attr->xrcd)))
		return EINVAL;
	opened = calloc(1, sizeof(*opened));
	if (!opened)
		return ENOMEM;
	fill(opened, context, qp, attr);
	pthread_mutex_lock(handles_lock(qp));
	alive = !extra->closed || extra->opened;
	if (alive)
		DL_APPEND(extra->opened, opened);
	pthread_mutex_unlock(handles_lock(qp));
	if (!alive) {
		free(opened);
		return EINVAL;
	}
	context_get(context);
	*result = opened;
	return 0;
}

struct ibv_qp *urxe_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct table *qps = &to_hca(context)->qps;
	struct opened_qp *opened;
	struct qp *qp;
	int error;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return fail(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed || !attr->xrcd || attr->xrcd->context != context ||
	    attr->qp_type != IBV_QPT_XRC_RECV)
		return fail(EINVAL);
	qp = table_get(qps, attr->qp_num);
	if (!qp)
		return fail(EINVAL);
	error = open_handle(context, qp, attr, &opened);
	table_put(qps, attr->qp_num);
	return error ? fail(error) : &opened->ibv;
}

/* --- closing --------------------------------------------------------------------- */

static void close_opened(struct opened_qp *opened)
{
	struct ibv_context *context = opened->ibv.context;

	event_withdraw(to_context(context), opened, &opened->ibv.mutex, &opened->ibv.cond,
		       &opened->extra.async_events, &opened->ibv.events_completed);
	pthread_cond_destroy(&opened->ibv.cond);
	pthread_mutex_destroy(&opened->ibv.mutex);
	free(opened);
	context_put(context);
}

struct qp *qp_close_handle(struct ibv_qp *ibv)
{
	struct opened_qp *opened = to_opened(ibv);
	struct qp *qp = opened ? opened->qp : to_qp(ibv);
	struct qp_extra *extra = qp_extra_of(qp);
	bool last;

	pthread_mutex_lock(handles_lock(qp));
	if (opened)
		DL_DELETE(extra->opened, opened);
	else
		extra->closed = true;
	last = extra->closed && !extra->opened;
	pthread_mutex_unlock(handles_lock(qp));
	if (opened)
		close_opened(opened);
	else if (!last)
		event_withdraw(to_context(ibv->context), qp, &ibv->mutex, &ibv->cond,
			       &extra->async_events, &ibv->events_completed);
	return last ? qp : NULL;
}
