/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the experimental verbs share, beside the pair of tests/verbs/fixture.h. */
#ifndef URXE_TESTS_EXP_FIXTURE_H
#define URXE_TESTS_EXP_FIXTURE_H

#include <infiniband/verbs_exp.h>

#include <check.h>

#include "tests/verbs/fixture.h"

/* A send request for a WRITE of @sge to the other half of the buffer. */
static inline struct ibv_exp_send_wr exp_write(struct pair *pair, struct ibv_sge *sge,
					       uint64_t wr_id)
{
	return (struct ibv_exp_send_wr){
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = (uintptr_t)pair->buffer + BUFFER_SIZE,
			    .rkey = pair->mr->rkey},
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};
}

static inline int exp_post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad = NULL;
	int error = ibv_exp_post_send(qp, wr, &bad);

	ck_assert_ptr_eq(bad, error ? wr : NULL);
	return error;
}

static inline struct ibv_exp_wc exp_wait(struct ibv_cq *cq)
{
	struct ibv_exp_wc wc;
	int count;

	do {
		count = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
	} while (count == 0);
	ck_assert_int_eq(count, 1);
	return wc;
}

static inline struct ibv_exp_qp_init_attr exp_init_attr(struct pair *pair, struct ibv_cq *send_cq,
							uint32_t depth)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = send_cq,
		.recv_cq = pair->recv_cq,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = pair->pd,
	};
}

/* Connected to itself. */
static inline struct ibv_qp *exp_create_qp(struct pair *pair, struct ibv_cq *send_cq,
					   uint32_t depth)
{
	struct ibv_exp_qp_init_attr init = exp_init_attr(pair, send_cq, depth);
	struct ibv_qp *qp = ibv_exp_create_qp(pair->context, &init);
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.path_mtu = IBV_MTU_1024,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_ge(init.cap.max_send_wr, depth);
	ck_assert_int_eq(ibv_exp_modify_qp(qp, &attr,
					   IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX |
						   IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.dest_qp_num = qp->qp_num;
	ck_assert_int_eq(ibv_query_gid(pair->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	ck_assert_int_eq(ibv_exp_modify_qp(qp, &attr,
					   IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
						   IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
						   IBV_EXP_QP_MAX_DEST_RD_ATOMIC |
						   IBV_EXP_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_exp_modify_qp(qp, &attr,
					   IBV_EXP_QP_STATE | IBV_EXP_QP_SQ_PSN |
						   IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
						   IBV_EXP_QP_RNR_RETRY |
						   IBV_EXP_QP_MAX_QP_RD_ATOMIC),
			 0);
	return qp;
}

#endif
