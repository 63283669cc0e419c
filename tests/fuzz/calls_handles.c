/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets of XRC that are opened: a queue pair ends with the last of its handles. */
#include <errno.h>

#include "calls.h"

struct fuzz_handle *find_handle(struct world *world, const struct ibv_qp *ibv)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		if (world->handles[i].ibv == ibv)
			return &world->handles[i];
	return NULL;
}

/* By the number of a queue pair, or of another handle, perhaps the last one. */
void call_open_qp(struct world *world)
{
	struct fuzz_handle *handle = UNUSED(world, handles), *other;
	struct fuzz_qp *qp = PICK(world, qps);
	struct fuzz_xrcd *xrcd = PICK(world, xrcds);
	uint8_t choice = input_u8(&world->input);
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qp ? qp->ibv->qp_num : choice,
		.qp_type = choice & 1 ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV,
	};
	const struct ibv_xrcd *needed = qp && qp->type == IBV_QPT_XRC_RECV ? qp->xrcd : NULL;

	other = choice & 2 ? PICK(world, handles) : NULL;
	if (!handle || !xrcd)
		return;
	if (other) {
		attr.qp_num = other->ibv->qp_num;
		needed = other->xrcd;
	}
	attr.xrcd = xrcd->ibv;
	handle->ibv = ibv_open_qp(xrcd->ibv->context, &attr);
	must((handle->ibv != NULL) == (needed == xrcd->ibv && !(choice & 1)));
	if (!handle->ibv)
		return;
	handle->xrcd = xrcd->ibv;
	must(handle->ibv->qp_num == attr.qp_num && handle->ibv->qp_type == IBV_QPT_XRC_RECV);
}

/* What it does to the queue pair the others of its handles see. */
void call_modify_handle(struct world *world)
{
	struct fuzz_handle *handle = PICK(world, handles);
	uint8_t choice = input_u8(&world->input);
	struct ibv_qp_attr attr = {.qp_state = choice & 1 ? IBV_QPS_RESET : IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct fuzz_qp *qp;

	if (!handle)
		return;
	qp = qp_of_number(world, handle->ibv->qp_num);
	if (qp)
		modify(world, qp, handle->ibv, &attr, IBV_QP_STATE);
	else
		ibv_modify_qp(handle->ibv, &attr, IBV_QP_STATE);
	must(ibv_query_qp(handle->ibv, &attr, IBV_QP_STATE, &init) == 0);
	must(attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR);
}

static void close_handle(struct world *world, struct fuzz_handle *handle)
{
	call_ack_async_events(world);
	must_destroy(ibv_destroy_qp(handle->ibv), false, "ibv_destroy_qp() of a handle");
	*handle = (struct fuzz_handle){};
}

void call_close_handle(struct world *world)
{
	struct fuzz_handle *handle = PICK(world, handles);

	if (handle)
		close_handle(world, handle);
}

void handles_close(struct world *world)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		if (world->handles[i].ibv)
			close_handle(world, &world->handles[i]);
}
