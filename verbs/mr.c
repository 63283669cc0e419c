/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. Registration belongs to the core (emu/mr.h). Memory windows
 * are not offered (ibv_query_device says so): every context still needs the
 * operations, since ibv_bind_mw() calls without a check.
 */
#include "verbs/context.h"

/* Flags of this range may be ignored by a device that lacks them (ibv_reg_mr(3)). */
#define ACCESS_OPTIONAL ((unsigned int)IBV_ACCESS_OPTIONAL_RANGE)

struct ibv_mr *urxe_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned int access)
{
	struct mr *mr;
	int error = mr_register(to_pd(pd), addr, length, iova, access & ~ACCESS_OPTIONAL, &mr);

	if (error)
		return fail(error);
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	return &mr->ibv;
}

struct ibv_mr *urxe_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				int access)
{
	return urxe_reg_mr_iova2(pd, addr, length, iova, access);
}

struct ibv_mr *urxe_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return urxe_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

int urxe_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	int result = mr_reregister((struct mr *)mr, flags, to_pd(pd), addr, length,
				   access & ~ACCESS_OPTIONAL);

	if (result == 0 && (flags & IBV_REREG_MR_CHANGE_PD))
		mr->pd = pd;
	return result;
}

int urxe_dereg_mr(struct ibv_mr *mr)
{
	return mr_deregister((struct mr *)mr);
}

struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	return fail(EOPNOTSUPP);
}

int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return EOPNOTSUPP;
}

int urxe_dealloc_mw(struct ibv_mw *mw)
{
	return EOPNOTSUPP;
}
