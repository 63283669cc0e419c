/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/check/case.h"

struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	must(list && list[0]);
	context = ibv_open_device(list[0]);
	must(context);
	ibv_free_device_list(list);
	return context;
}

void rig_open(struct rig *rig)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = CASE_DEPTH,
			.max_recv_wr = CASE_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = rig->sq_sig_all,
	};

	rig->context = open_device();
	rig->pd = ibv_alloc_pd(rig->context);
	must(rig->pd);
	rig->mr = ibv_reg_mr(rig->pd, rig->buffer, sizeof(rig->buffer), IBV_ACCESS_LOCAL_WRITE);
	must(rig->mr);
	rig->channel = ibv_create_comp_channel(rig->context);
	must(rig->channel);
	rig->cq = ibv_create_cq(rig->context, 2 * CASE_DEPTH, NULL, rig->channel, 0);
	must(rig->cq);
	attr.send_cq = attr.recv_cq = rig->cq;
	rig->qp = ibv_create_qp(rig->pd, &attr);
	must(rig->qp);
}

void rig_close(struct rig *rig)
{
	must(ibv_destroy_qp(rig->qp) == 0);
	must(ibv_destroy_cq(rig->cq) == 0);
	must(ibv_destroy_comp_channel(rig->channel) == 0);
	must(ibv_dereg_mr(rig->mr) == 0);
	must(ibv_dealloc_pd(rig->pd) == 0);
	must(ibv_close_device(rig->context) == 0);
}

static void modify(struct rig *rig, struct ibv_qp_attr attr, int mask)
{
	must(ibv_modify_qp(rig->qp, &attr, mask | IBV_QP_STATE) == 0);
}

static void initialize(struct rig *rig)
{
	modify(rig,
	       (struct ibv_qp_attr){
		       .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rig->access},
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

void rig_connect_retrying(struct rig *rig, uint8_t rnr_retry)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = rig->qp->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	initialize(rig);
	must(ibv_query_gid(rig->context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
	modify(rig, attr,
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(rig,
	       (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = rnr_retry,
				    .max_rd_atomic = 4},
	       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

void rig_connect(struct rig *rig)
{
	rig_connect_retrying(rig, 7);
}

void rig_complete_one(struct rig *rig)
{
	struct ibv_sge sge = {(uintptr_t)rig->buffer, sizeof(rig->buffer), rig->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	initialize(rig);
	must(ibv_post_recv(rig->qp, &wr, &bad) == 0);
	modify(rig, (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR}, 0);
	while (ibv_poll_cq(rig->cq, 1, &wc) == 0)
		;
	must(wc.status == IBV_WC_WR_FLUSH_ERR);
	modify(rig, (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0);
}
