/* SPDX-License-Identifier: BSD-2-Clause */
#include "rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RD_ATOMIC 4

_Noreturn void rc_fail(const char *file, int line, const char *what)
{
	fflush(stdout);
	fprintf(stderr, "%s:%d: %s is false (%s)\n", file, line, what, strerror(errno));
	exit(1);
}

void rc_open(struct rc_device *device)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices && devices[0]);
	device->context = ibv_open_device(devices[0]);
	CHECK(device->context);
	ibv_free_device_list(devices);
	device->pd = ibv_alloc_pd(device->context);
	CHECK(device->pd);
	CHECK(ibv_query_gid(device->context, 1, 0, &device->gid) == 0);
}

void rc_close(struct rc_device *device)
{
	CHECK(ibv_dealloc_pd(device->pd) == 0);
	CHECK(ibv_close_device(device->context) == 0);
}

struct ibv_qp *rc_create(struct rc_device *device, struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			 uint32_t send_depth, uint32_t receive_depth)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap =
			{
				.max_send_wr = send_depth,
				.max_recv_wr = receive_depth,
				.max_send_sge = 1,
				.max_recv_sge = 1,
			},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(device->pd, &init);

	CHECK(qp);
	return qp;
}

void rc_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
}

void rc_connect(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = RD_ATOMIC,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}},
	};

	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = RD_ATOMIC,
	};
	CHECK(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

struct ibv_mr *rc_register(struct rc_device *device, void *memory, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(device->pd, memory, length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ);

	CHECK(mr);
	return mr;
}

void rc_post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id,
	     const struct ibv_sge *sge, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge copy = *sge;
	struct ibv_send_wr *bad, wr = {
					 .wr_id = wr_id,
					 .sg_list = &copy,
					 .num_sge = sge->length ? 1 : 0,
					 .opcode = opcode,
				 };

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

int rc_poll(struct ibv_cq *cq, struct ibv_wc *wc, int max)
{
	int count = ibv_poll_cq(cq, max, wc);

	CHECK(count >= 0);
	for (int i = 0; i < count; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS);
	return count;
}

uint64_t rc_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}
