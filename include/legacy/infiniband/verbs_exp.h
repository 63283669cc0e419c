/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs (ibv_exp_*) of MLNX_OFED 2.x and of the RDMA Aware Networks manual, for
 * programs that call them: a thin layer over today's public verbs, so it works on every device that
 * rdma-core drives. What only some hardware had (DC transport, UMR, extended atomics,
 * cross-channel, QP groups, shared and contiguous memory) is declared, no device claims it, and
 * asking for it is ENOSYS.
 *
 * Errors are told as they were: by NULL and errno, or by a positive errno; query_values,
 * query_port, post_send, poll_cq and destroy_flow say what there isn't by -ENOSYS. A comp_mask with
 * bits that this generation didn't have is EINVAL, and a line on stderr.
 *
 * All is static inline. What has to be remembered, which CQs have timestamps, is in one list of the
 * process's, which every translation unit defines weakly.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp/cq.h>
#include <infiniband/verbs_exp/device.h>
#include <infiniband/verbs_exp/qp.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void *ibv_exp_get_provider_func(struct ibv_context *context,
					      enum ibv_exp_func_name name)
{
	switch (name) {
	case IBV_EXP_POST_SEND_FUNC:
		return (void *)ibv_exp_post_send;
	case IBV_EXP_POLL_CQ_FUNC:
		return (void *)ibv_exp_poll_cq;
	case IBV_POST_SEND_FUNC:
		return (void *)context->ops.post_send;
	case IBV_POLL_CQ_FUNC:
		return (void *)context->ops.poll_cq;
	case IBV_POST_RECV_FUNC:
		return (void *)context->ops.post_recv;
	default:
		return verbs_exp_null(ENOSYS);
	}
}

/* --- what only some hardware had ------------------------------------------- */

static inline struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *in)
{
	(void)in;
	return (struct ibv_mr *)verbs_exp_null(ENOSYS);
}

static inline struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	(void)in;
	return (struct ibv_mr *)verbs_exp_null(ENOSYS);
}

static inline int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	(void)mr, (void)attr;
	return ENOSYS;
}

static inline struct ibv_exp_mkey_list_container *ibv_exp_alloc_mkey_list_memory(
	struct ibv_exp_mkey_list_container_attr *attr)
{
	(void)attr;
	return (struct ibv_exp_mkey_list_container *)verbs_exp_null(ENOSYS);
}

static inline int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *container)
{
	(void)container;
	return ENOSYS;
}

static inline struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context,
						     struct ibv_exp_dct_init_attr *attr)
{
	(void)context, (void)attr;
	return (struct ibv_exp_dct *)verbs_exp_null(ENOSYS);
}

static inline int ibv_exp_destroy_dct(struct ibv_exp_dct *dct)
{
	(void)dct;
	return ENOSYS;
}

static inline int ibv_exp_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr)
{
	(void)dct, (void)attr;
	return ENOSYS;
}

static inline int ibv_exp_arm_dct(struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr)
{
	(void)dct, (void)attr;
	return ENOSYS;
}

static inline int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
				    struct ibv_exp_task **bad_task)
{
	(void)context;
	*bad_task = task;
	return ENOSYS;
}

#ifdef __cplusplus
}
#endif

#endif
