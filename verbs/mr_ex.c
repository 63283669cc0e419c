/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_reg_mr_ex(3): what the other calls register, by one structure. */
#include "verbs/mr_ex.h"

#include <inttypes.h>

#include "net/cause/cause.h"
#include "verbs/context.h"

#define OF_DMABUF (MR_EX_FD | MR_EX_FD_OFFSET)
#define OF_MEMORY (MR_EX_ADDR | MR_EX_BUF)

/* Either memory, or a dma-buf with all that ibv_reg_dmabuf_mr(3) is given. */
static bool mask_is_good(uint64_t mask)
{
	if (mask & OF_DMABUF)
		return (mask & (OF_DMABUF | MR_EX_IOVA)) == (OF_DMABUF | MR_EX_IOVA) &&
		       !(mask & OF_MEMORY);
	return mask & MR_EX_ADDR;
}

static int check_attr(const struct ibv_pd *pd, const struct mr_init_attr *attr)
{
	/* The device has no steering tags (MR_EX_DMAH). */
	const uint64_t unknown = attr->comp_mask & ~(uint64_t)(OF_DMABUF | OF_MEMORY | MR_EX_IOVA);

	if (unknown)
		return refuse(EOPNOTSUPP, CAUSE_MR_EX_UNSUPPORTED,
			      "ibv_reg_mr_ex(): comp_mask is 0x%" PRIx64 ", in which 0x%" PRIx64
			      " isn't supported",
			      attr->comp_mask, unknown);
	if (!mask_is_good(attr->comp_mask))
		return refuse(EINVAL, CAUSE_MR_EX_MASK, "ibv_reg_mr_ex(): comp_mask is 0x%" PRIx64,
			      attr->comp_mask);
	return attr->comp_mask & MR_EX_BUF ? buf_check(attr->buf, pd, attr->addr, attr->length) : 0;
}

struct ibv_mr *urxe_reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr)
{
	int error = check_attr(pd, attr);

	if (error)
		return fail(error);
	if (attr->comp_mask & MR_EX_FD)
		return urxe_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd,
					  attr->access);
	return urxe_reg_mr_iova2(pd, attr->addr, attr->length,
				 attr->comp_mask & MR_EX_IOVA ? attr->iova : (uintptr_t)attr->addr,
				 attr->access);
}

struct ibv_mr *urxe_reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length,
			       int access)
{
	const struct mr_init_attr attr = {
		.length = length,
		.access = access,
		.comp_mask = OF_MEMORY,
		.addr = addr,
		.buf = buf,
	};

	return urxe_reg_mr_ex(pd, &attr);
}
