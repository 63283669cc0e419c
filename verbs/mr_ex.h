/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_reg_mr_ex(3), which came with IBVERBS_1.15: newer headers than ours have its structure.
 * Called by verbs/preload/dispatch_other.c. No state, no locks.
 */
#ifndef URXE_VERBS_MR_EX_H
#define URXE_VERBS_MR_EX_H

#include <infiniband/verbs.h>

#include "verbs/buf.h"

/* Bits of comp_mask (enum ibv_mr_init_attr_mask). */
enum {
	MR_EX_IOVA = 1 << 0,
	MR_EX_ADDR = 1 << 1,
	MR_EX_FD = 1 << 2,
	MR_EX_FD_OFFSET = 1 << 3,
	MR_EX_DMAH = 1 << 4,
	MR_EX_BUF = 1 << 5,
};

/* struct ibv_mr_init_attr, as of IBVERBS_1.17: that of older headers ends before @buf. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buf *buf;
};

struct ibv_mr *urxe_reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr);
struct ibv_mr *urxe_reg_buf_mr(struct ibv_pd *pd, struct buf *buf, void *addr, size_t length,
			       int access);

#endif
