/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connected queue pairs of one process, for the programs in which `urxe fuzz` finds what is
 * wrong. Nothing is wrong in here: each function says whether it has done what it is for, and what
 * is made is in the structure, to be destroyed by loop_close().
 */
#ifndef URXE_TESTS_FUZZED_LOOP_H
#define URXE_TESTS_FUZZED_LOOP_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOP_BYTES 64

struct loop {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[2];	     /* qp[0] sends, qp[1] receives */
	char buffer[2 * LOOP_BYTES]; /* what is sent, what is received */
};

/* --- one by one ---------------------------------------------------------------------- */

static inline struct ibv_context *loop_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return context;
}

static inline struct ibv_qp *loop_qp(const struct loop *loop)
{
	struct ibv_qp_init_attr init = {
		.send_cq = loop->cq,
		.recv_cq = loop->cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(loop->pd, &init);
}

static inline bool loop_connect_one(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	union ibv_gid gid;

	if (ibv_query_gid(qp->context, 1, 0, &gid) ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return false;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = gid, .sgid_index = 0, .hop_limit = 64}},
	};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return false;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 10,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

static inline bool loop_connect(struct loop *loop)
{
	return loop_connect_one(loop->qp[0], loop->qp[1]) &&
	       loop_connect_one(loop->qp[1], loop->qp[0]);
}

/* --- all at once --------------------------------------------------------------------- */

/* Whether everything could be destroyed; NULL is left out. */
static inline bool loop_close(struct loop *loop)
{
	bool ok = true;

	for (int i = 0; i < 2; i++)
		ok &= !loop->qp[i] || ibv_destroy_qp(loop->qp[i]) == 0;
	ok &= !loop->mr || ibv_dereg_mr(loop->mr) == 0;
	ok &= !loop->cq || ibv_destroy_cq(loop->cq) == 0;
	ok &= !loop->pd || ibv_dealloc_pd(loop->pd) == 0;
	ok &= !loop->context || ibv_close_device(loop->context) == 0;
	return ok;
}

/* False: what there is, is to be closed. */
static inline bool loop_open(struct loop *loop)
{
	*loop = (struct loop){.context = loop_device()};
	return loop->context && (loop->pd = ibv_alloc_pd(loop->context)) &&
	       (loop->cq = ibv_create_cq(loop->context, 16, NULL, NULL, 0)) &&
	       (loop->mr = ibv_reg_mr(loop->pd, loop->buffer, sizeof(loop->buffer),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) &&
	       (loop->qp[0] = loop_qp(loop)) && (loop->qp[1] = loop_qp(loop)) && loop_connect(loop);
}

/* --- messages ------------------------------------------------------------------------ */

static inline int loop_receive(struct loop *loop)
{
	struct ibv_sge sge = {(uintptr_t)loop->buffer + LOOP_BYTES, LOOP_BYTES, loop->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(loop->qp[1], &wr, &bad);
}

static inline int loop_send(struct loop *loop)
{
	struct ibv_sge sge = {(uintptr_t)loop->buffer, LOOP_BYTES, loop->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	return ibv_post_send(loop->qp[0], &wr, &bad);
}

/* The next completion, whatever its status; false: there is none to be had. */
static inline bool loop_wait(struct loop *loop, struct ibv_wc *wc)
{
	int count;

	while ((count = ibv_poll_cq(loop->cq, 1, wc)) == 0)
		usleep(2000);
	return count == 1;
}

/* A message from qp[0] to qp[1] and both completions, which succeed. */
static inline bool loop_exchange(struct loop *loop)
{
	struct ibv_wc wc;

	if (loop_receive(loop) || loop_send(loop))
		return false;
	for (int i = 0; i < 2; i++) {
		if (!loop_wait(loop, &wc) || wc.status != IBV_WC_SUCCESS)
			return false;
	}
	return true;
}

#endif
