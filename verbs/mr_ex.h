/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_reg_mr_ex(3), which came with IBVERBS_1.15: newer headers than ours have its structure.
 * Called by verbs/preload/dispatch_other.c. No state, no locks.
 */
#ifndef URXE_VERBS_MR_EX_H
#define URXE_VERBS_MR_EX_H

#include <infiniband/verbs.h>

/* struct ibv_mr_init_attr, as of IBVERBS_1.15. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

struct ibv_mr *urxe_reg_mr_ex(struct ibv_pd *pd, const struct mr_init_attr *attr);

#endif
