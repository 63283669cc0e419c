/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended queue pairs and completion queues, and device memory, have functions of their own, which
 * the inline functions of verbs.h call without asking anything: ibv_wr_send() and the like. In a
 * destroyed one, which lies in quarantine, they are exchanged for these.
 */
#include "verbs/check/check.h"
#include "verbs/context.h"

typedef void any_function(void);

static void do_nothing(void)
{
}

static void start_requests(struct ibv_qp_ex *qp)
{
	CHECK_USES("ibv_wr_start()", {OBJECT_QP, qp});
}

static int complete_requests(struct ibv_qp_ex *qp)
{
	return EINVAL;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	CHECK_USES("ibv_start_poll()", {OBJECT_CQ, cq});
	return EINVAL;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	CHECK_USES("ibv_next_poll()", {OBJECT_CQ, cq});
	return EINVAL;
}

static int copy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	CHECK_USES("ibv_memcpy_to_dm()", {OBJECT_DM, dm});
	return EINVAL;
}

static int copy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	CHECK_USES("ibv_memcpy_from_dm()", {OBJECT_DM, dm});
	return EINVAL;
}

/* All functions from @first to the end of the object of @size at @object. */
static void take_functions(void *object, size_t first, size_t size)
{
	for (size_t at = first; at < size; at += sizeof(any_function *))
		*(any_function **)((uint8_t *)object + at) = do_nothing;
}

static void exchange_of_qp(struct ibv_qp_ex *qp)
{
	if (!qp->wr_start)
		return;
	take_functions(qp, offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp), ABI_QP_EX_SIZE);
	qp->wr_start = start_requests;
	qp->wr_complete = complete_requests;
}

static void exchange_of_cq(struct ibv_cq_ex *cq)
{
	if (!cq->start_poll)
		return;
	take_functions(cq, offsetof(struct ibv_cq_ex, start_poll), ABI_CQ_EX_SIZE);
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
}

static void exchange_of_dm(struct ibv_dm *dm)
{
	dm->memcpy_to_dm = copy_to_dm;
	dm->memcpy_from_dm = copy_from_dm;
}

void check_exchange_functions(enum object_kind kind, void *pointer)
{
	if (kind == OBJECT_QP)
		exchange_of_qp(pointer);
	else if (kind == OBJECT_CQ)
		exchange_of_cq(pointer);
	else if (kind == OBJECT_DM)
		exchange_of_dm(pointer);
}
