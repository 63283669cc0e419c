/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/open_qp.h"

#include <stdlib.h>
#include <utlist.h>

#include "net/qp_text.h"
#include "net/quarantine.h"
#include "verbs/event.h"

static struct qp_extra *qp_extra_of(struct qp *qp)
{
	return qp->verbs;
}

static pthread_mutex_t *handles_lock(const struct qp *qp)
{
	return &((struct qp_extra *)qp->verbs)->device->contexts_lock;
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

bool qp_is_abandoned(struct qp *qp, struct device *device)
{
	struct qp_extra *extra;
	struct opened_qp *opened;
	bool abandoned = false;

	pthread_mutex_lock(&device->contexts_lock);
	extra = qp_extra_of(qp);
	if (extra) { /* else it is just being created */
		abandoned = extra->closed || to_context(qp->ibv.context)->closed;
		DL_FOREACH (extra->opened, opened)
			abandoned &= to_context(opened->ibv.context)->closed;
	}
	pthread_mutex_unlock(&device->contexts_lock);
	return abandoned;
}

/* --- opening --------------------------------------------------------------------- */

static void fill(struct opened_qp *opened, struct ibv_context *context, struct qp *qp,
		 const struct ibv_qp_open_attr *attr)
{
	opened->verbs = &opened->extra;
	opened->handle = OPENED_QP;
	opened->qp = qp;
	opened->xrcd = to_xrcd(attr->xrcd);
	opened->ibv.context = context;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		opened->ibv.qp_context = attr->qp_context;
	opened->ibv.handle = qp->handle;
	opened->ibv.qp_num = qp->number;
	opened->ibv.qp_type = qp->type->ibv;
	pthread_mutex_lock(&qp->lock);
	opened->ibv.state = qp->state;
	pthread_mutex_unlock(&qp->lock);
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

	if (!extra)
		return refuse(EINVAL, CAUSE_QP_NOT_FOUND, "QP 0x%x is just being created",
			      qp->number);
	if (!qp->xrc_domain)
		return refuse(EINVAL, CAUSE_QP_NOT_FOUND, "QP 0x%x is of type %s", qp->number,
			      qp_type_text(qp->type->ibv));
	if (qp->xrc_domain != to_xrcd(attr->xrcd)->domain)
		return refuse(EINVAL, CAUSE_QP_NOT_FOUND, "QP 0x%x is in another XRC domain",
			      qp->number);
	opened = calloc(1, sizeof(*opened));
	if (!opened)
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a handle of a queue pair");
	fill(opened, context, qp, attr);
	pthread_mutex_lock(handles_lock(qp));
	alive = !extra->closed || extra->opened;
	if (alive)
		DL_APPEND(extra->opened, opened);
	pthread_mutex_unlock(handles_lock(qp));
	if (!alive) {
		free(opened);
		return refuse(EINVAL, CAUSE_QP_NOT_FOUND, "QP 0x%x is being destroyed", qp->number);
	}
	users_add(&opened->xrcd->users, USER_QP, 1);
	context_get(context);
	*result = opened;
	return 0;
}

struct ibv_qp *urxe_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct table *qps = &to_hca(context)->qps;
	struct opened_qp *opened = NULL;
	struct qp *qp;
	int error;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return fail(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "ibv_open_qp(): comp_mask 0x%x",
				   attr->comp_mask));
	if ((attr->comp_mask & needed) != needed || !attr->xrcd)
		return fail(refuse(EINVAL, CAUSE_QP_NEEDS_XRCD,
				   "ibv_open_qp(): comp_mask is 0x%x, xrcd is %s; needed are "
				   "IBV_QP_OPEN_ATTR_NUM | XRCD | TYPE",
				   attr->comp_mask, attr->xrcd ? "given" : "NULL"));
	if (attr->xrcd->context != context)
		return fail(refuse(EINVAL, CAUSE_OTHER_CONTEXT,
				   "ibv_open_qp(): xrcd is of another context"));
	if (attr->qp_type != IBV_QPT_XRC_RECV)
		return fail(refuse(EINVAL, CAUSE_QP_NOT_FOUND, "qp_type is %s, not XRC_RECV",
				   qp_type_text(attr->qp_type)));
	qp = table_get(qps, attr->qp_num);
	if (!qp)
		return fail(refuse(EINVAL, CAUSE_QP_NOT_FOUND, "this process has no QP 0x%x",
				   attr->qp_num));
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
	users_add(&opened->xrcd->users, USER_QP, -1);
	quarantine_free(opened, sizeof(*opened));
	context_put(context);
}

/* With a reference to @qp, which has other handles; the last of these may go meanwhile. */
static void close_first(struct qp *qp)
{
	struct ibv_qp *ibv = &qp->ibv;

	event_withdraw(to_context(ibv->context), qp, &ibv->mutex, &ibv->cond,
		       &qp_extra_of(qp)->async_events, &ibv->events_completed);
	qp_leave_xrcd(qp); /* from here on nothing keeps that context */
	table_put(&qp->hca->qps, qp->number);
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
	if (!opened && !last)
		table_get(&qp->hca->qps, qp->number);
	pthread_mutex_unlock(handles_lock(qp));
	if (opened)
		close_opened(opened);
	else if (!last)
		close_first(qp);
	return last ? qp : NULL;
}
