/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_reg_mr_ex(3): what the other calls register, by one structure. */
#include "verbs/mr_ex.h"

#include <inttypes.h>

#include "net/cause/cause.h"
#include "verbs/context.h"

/* Bits of comp_mask (enum ibv_mr_init_attr_mask). */
enum {
	MASK_IOVA = 1 << 0,
	MASK_ADDR = 1 << 1,
	MASK_FD = 1 << 2,
	MASK_FD_OFFSET = 1 << 3,
	MASK_KNOWN = MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET,
};

struct ibv_mr *urxe_reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr)
{
	bool by_address = attr->comp_mask & MASK_ADDR, by_fd = attr->comp_mask & MASK_FD;
	uint64_t offset = attr->comp_mask & MASK_FD_OFFSET ? attr->fd_offset : 0;
	uint64_t iova = by_fd ? offset : (uintptr_t)attr->addr;

	/* Steering tags (DMAH) and buffers of ibv_alloc_buf(3) the device has none. */
	if (attr->comp_mask & ~(uint64_t)MASK_KNOWN)
		return fail(refuse(EOPNOTSUPP, CAUSE_MR_EX_UNSUPPORTED,
				   "ibv_reg_mr_ex(): comp_mask is 0x%" PRIx64
				   ", in which 0x%" PRIx64 " isn't supported",
				   (uint64_t)attr->comp_mask,
				   attr->comp_mask & ~(uint64_t)MASK_KNOWN));
	if (by_address == by_fd || (attr->comp_mask & MASK_FD_OFFSET && !by_fd))
		return fail(refuse(EINVAL, CAUSE_MR_EX_MASK,
				   "ibv_reg_mr_ex(): comp_mask is 0x%" PRIx64,
				   (uint64_t)attr->comp_mask));
	if (attr->comp_mask & MASK_IOVA)
		iova = attr->iova;
	if (by_fd)
		return urxe_reg_dmabuf_mr(pd, offset, attr->length, iova, attr->fd, attr->access);
	return urxe_reg_mr_iova2(pd, attr->addr, attr->length, iova, attr->access);
}
