/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SRQs of ids: what one is made of that the application doesn't name is the id's. Those of XRC are
 * in the device's domain, or in one that was opened for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>

#include "tests/verbs/any_worker.h"

static struct ibv_xrcd *open_domain(struct ibv_context *verbs)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(verbs, &attr);
}

static int create_in_domain(struct worker *w, struct slot *slot)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = open_domain(slot->id->verbs),
	};
	int result, error;

	holds(w, attr.xrcd, "%d", errno);
	result = rdma_create_srq_ex(slot->id, &attr);
	error = errno;
	if (result == 0)
		slot->xrcd = attr.xrcd;
	else
		holds(w, ibv_close_xrcd(attr.xrcd) == 0, "in use");
	errno = error;
	return result;
}

int srq_create(struct worker *w, struct slot *slot)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	uint32_t number;
	int result;

	if (slot->model.space == SPACE_XRC && slot->id->verbs && worker_random(w, 2))
		result = create_in_domain(w, slot);
	else
		result = rdma_create_srq(slot->id, NULL, &attr);
	if (result == 0 && slot->xrcd)
		holds(w, ibv_get_srq_num(slot->id->srq, &number) == 0, "no number");
	return result;
}

void srq_destroy(struct slot *slot)
{
	rdma_destroy_srq(slot->id);
	if (slot->xrcd)
		ibv_close_xrcd(slot->xrcd);
	slot->xrcd = NULL;
}
