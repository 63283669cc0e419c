/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a card does differently: each test has a profile of its own, and the same done without a
 * profile is what the tests of traffic and objects assert. tests/sim/test_card.c has the
 * retries.
 */
#include <check.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/own_profile.h"

static struct pair p;

#define GRH_LENGTH 40
#define GRH_IPV4 20

/* --- creating queues --------------------------------------------------------------------- */

static struct ibv_qp *make_qp(enum ibv_qp_type type, struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = p.send_cq, .recv_cq = p.recv_cq, .cap = *cap, .qp_type = type};
	struct ibv_qp *qp = ibv_create_qp(p.pd, &attr);

	*cap = attr.cap;
	return qp;
}

static void open_device(void)
{
	p.context = fixture_open();
	p.pd = ibv_alloc_pd(p.context);
	p.send_cq = p.recv_cq = ibv_create_cq(p.context, 10, NULL, NULL, 0);
	ck_assert(p.pd && p.send_cq);
}

static void ck_granted(struct ibv_qp_cap asked, uint32_t send_wr, uint32_t recv_wr, uint32_t data)
{
	struct ibv_qp_cap cap = asked;
	struct ibv_qp *qp = make_qp(IBV_QPT_RC, &cap);

	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_eq(cap.max_send_wr, send_wr);
	ck_assert_uint_eq(cap.max_recv_wr, recv_wr);
	ck_assert_uint_eq(cap.max_inline_data, data);
	ck_assert_uint_eq(cap.max_send_sge, asked.max_send_sge);
	ck_assert_uint_eq(cap.max_recv_sge, asked.max_recv_sge);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
}

static void ck_not_granted(struct ibv_qp_cap cap, int error)
{
	errno = 0;
	ck_assert_ptr_null(make_qp(IBV_QPT_RC, &cap));
	ck_assert_int_eq(errno, error);
}

static void ck_cqe(int asked, int granted)
{
	struct ibv_cq *cq = ibv_create_cq(p.context, asked, NULL, NULL, 0);

	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(cq->cqe, granted);
	ck_assert_int_eq(ibv_resize_cq(cq, granted + 1), 0);
	ck_assert_int_eq(cq->cqe, 2 * granted + (granted & 1));
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}

static uint32_t srq_size(uint32_t asked)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = asked, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(p.pd, &attr);
	struct ibv_srq_attr now;

	ck_assert_ptr_nonnull(srq);
	ck_assert_int_eq(ibv_query_srq(srq, &now), 0);
	ck_assert_uint_eq(now.max_wr, attr.attr.max_wr);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	return now.max_wr;
}

static uint32_t srq_size_of_id(uint32_t asked)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = asked, .max_sge = 1}};
	struct rdma_cm_id *id = open_bound_id(NULL, RDMA_PS_TCP);

	ck_assert_int_eq(rdma_create_srq(id, NULL, &attr), 0);
	rdma_destroy_ep(id);
	return attr.attr.max_wr;
}

START_TEST(rounded_to_powers_of_two)
{
	own_profile("round_max_wr = power_of_two\nround_cqe = power_of_two\n"
		    "round_max_srq_wr = power_of_two\nround_max_inline_data = none\n"
		    "max_qp_wr = 100\n");
	open_device();
	ck_granted((struct ibv_qp_cap){5, 9, 2, 1, 7}, 8, 16, 7);
	ck_granted((struct ibv_qp_cap){8, 16, 2, 1, 0}, 8, 16, 0);
	ck_granted((struct ibv_qp_cap){65, 100, 1, 1, 0}, 100, 100, 0); /* no more than there is */
	ck_granted((struct ibv_qp_cap){0, 0, 0, 0, 0}, 0, 0, 0);
	ck_cqe(5, 8);
	ck_assert_uint_eq(srq_size(5), 8);
	ck_assert_uint_eq(srq_size_of_id(5), 8);
}
END_TEST

START_TEST(rounded_to_one_less)
{
	own_profile("round_max_wr = power_of_two_less_1\nround_cqe = power_of_two_less_1\n"
		    "round_max_srq_wr = power_of_two_less_1\n");
	open_device();
	ck_granted((struct ibv_qp_cap){5, 8, 2, 1, 7}, 7, 15, 32);
	ck_granted((struct ibv_qp_cap){7, 15, 2, 1, 40}, 7, 15, 40);
	ck_cqe(5, 7);
	ck_assert_uint_eq(srq_size(7), 7);
	ck_assert_uint_eq(srq_size(8), 15);
}
END_TEST

/* As ConnectX has it: a header of 192 bytes, units of 64. */
START_TEST(send_queue_is_memory)
{
	own_profile("round_max_wr = power_of_two\nround_max_inline_data = wqe\n"
		    "sq_wqe_header = 192\nsq_wqe_unit = 64\nsq_wqe_bytes = 1024\n"
		    "sq_bytes = 65536\nmax_inline_data = 828\n");
	open_device();
	ck_granted((struct ibv_qp_cap){16, 1, 1, 1, 0}, 16, 1, 256 - 196);
	ck_granted((struct ibv_qp_cap){10, 1, 1, 1, 100}, 4096 / 320, 1, 320 - 196);
	ck_granted((struct ibv_qp_cap){64, 1, 1, 1, 828}, 64, 1, 828);
	ck_not_granted((struct ibv_qp_cap){65, 1, 1, 1, 828}, EINVAL);
	ck_granted((struct ibv_qp_cap){65, 1, 1, 1, 60}, 128, 1, 60);
	ck_granted((struct ibv_qp_cap){256, 1, 1, 1, 0}, 256, 1, 60);
	ck_not_granted((struct ibv_qp_cap){257, 1, 1, 1, 0}, EINVAL);
	ck_not_granted((struct ibv_qp_cap){1, 1, 1, 1, 829}, EINVAL);
}
END_TEST

START_TEST(entry_too_large)
{
	own_profile("sq_wqe_header = 100\nsq_wqe_bytes = 164\n");
	open_device();
	ck_granted((struct ibv_qp_cap){3, 1, 4, 1, 0}, 3, 1, 64);
	ck_not_granted((struct ibv_qp_cap){1, 1, 5, 1, 0}, EINVAL);
	ck_granted((struct ibv_qp_cap){3, 1, 1, 1, 60}, 3, 1, 60);
	ck_not_granted((struct ibv_qp_cap){1, 1, 1, 1, 61}, EINVAL);
}
END_TEST

START_TEST(cq_of_one_size)
{
	own_profile("resize_cq = no\n");
	open_device();
	ck_assert_int_eq(ibv_resize_cq(p.send_cq, 20), EOPNOTSUPP);
	ck_assert_int_eq(p.send_cq->cqe, 10);
}
END_TEST

/* --- posting too early -------------------------------------------------------------------- */

static int post_send(uint64_t wr_id)
{
	struct ibv_sge sge = send_sge(&p, 8);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad = NULL;
	int error = ibv_post_send(p.sender, &wr, &bad);

	ck_assert_ptr_eq(bad, error ? &wr : NULL);
	return error;
}

static int post_recv(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)p.buffer + BUFFER_SIZE, 64, p.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	int error = ibv_post_recv(p.receiver, &wr, &bad);

	ck_assert_ptr_eq(bad, error ? &wr : NULL);
	return error;
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	ck_assert_int_eq(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

static void to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	ck_assert_int_eq(ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1};

	ck_assert_int_eq(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

/* Posts in RESET, INIT and RTR, and again in RTS, as number 4. */
static void post_in_every_state(int early)
{
	pair_open(&p, IBV_QPT_RC, 0);
	for (uint64_t i = 1; i <= 4; i++)
		ck_assert_int_eq(post_recv(i), 0);
	reset(p.sender);
	ck_assert_int_eq(post_send(1), early);
	to_init(p.sender);
	ck_assert_int_eq(post_send(2), early);
	to_rtr(p.sender, p.receiver);
	ck_assert_int_eq(post_send(3), early);
	ck_assert_int_eq(ibv_poll_cq(p.send_cq, 1, &(struct ibv_wc){}), 0);
	to_rts(p.sender);
	ck_assert_int_eq(post_send(4), 0);
}

static void ck_completes(uint64_t wr_id)
{
	struct ibv_wc wc = wait_completion(p.send_cq);

	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, wr_id);
}

START_TEST(sends_are_held)
{
	own_profile("post_send_before_rts = held\n");
	post_in_every_state(0);
	for (uint64_t i = 1; i <= 4; i++)
		ck_completes(i);
	/* They take their place in the queue, and are flushed like any other. */
	reset(p.sender);
	to_init(p.sender);
	for (uint64_t i = 0; i < DEPTH; i++)
		ck_assert_int_eq(post_send(i), 0);
	ck_assert_int_eq(post_send(DEPTH), ENOMEM);
	ck_assert_int_eq(ibv_modify_qp(p.sender, &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR},
				       IBV_QP_STATE),
			 0);
	for (uint64_t i = 0; i < DEPTH; i++)
		ck_assert_int_eq(wait_completion(p.send_cq).status, IBV_WC_WR_FLUSH_ERR);
	pair_close(&p);
}
END_TEST

START_TEST(sends_are_dropped)
{
	own_profile("post_send_before_rts = dropped\n");
	post_in_every_state(0);
	ck_completes(4);
	ck_assert_int_eq(ibv_poll_cq(p.send_cq, 1, &(struct ibv_wc){}), 0);
	pair_close(&p);
}
END_TEST

/* A fault finds none of them: the second request that there is fails. */
START_TEST(dropped_sends_have_no_faults)
{
	setenv("URXE_FAULTS", "complete(REM_ACCESS_ERR)#2/SEND", 1);
	own_profile("post_send_before_rts = dropped\n");
	post_in_every_state(0);
	ck_completes(4);
	ck_assert_int_eq(post_send(5), 0);
	ck_assert_int_eq(wait_completion(p.send_cq).status, IBV_WC_REM_ACCESS_ERR);
	pair_close(&p);
}
END_TEST

START_TEST(sends_are_refused)
{
	own_profile("post_send_before_rts = error\n");
	post_in_every_state(EINVAL);
	ck_completes(4);
	pair_close(&p);
}
END_TEST

static void receive_in_reset(int error)
{
	pair_open(&p, IBV_QPT_RC, 0);
	reset(p.sender);
	reset(p.receiver);
	ck_assert_int_eq(post_recv(1), error);
	to_init(p.receiver);
	ck_assert_int_eq(post_recv(2), 0);
	to_rtr(p.receiver, p.sender);
	to_init(p.sender);
	to_rtr(p.sender, p.receiver);
	to_rts(p.sender);
	ck_assert_int_eq(post_send(7), 0);
}

START_TEST(receives_are_held)
{
	own_profile("post_recv_in_reset = held\n");
	receive_in_reset(0);
	ck_assert_uint_eq(wait_completion(p.recv_cq).wr_id, 1);
	pair_close(&p);
}
END_TEST

START_TEST(receives_are_dropped)
{
	own_profile("post_recv_in_reset = dropped\n");
	receive_in_reset(0);
	ck_assert_uint_eq(wait_completion(p.recv_cq).wr_id, 2);
	pair_close(&p);
}
END_TEST

/* --- checks ------------------------------------------------------------------------------- */

static enum ibv_wc_status remote(enum ibv_wr_opcode opcode, uint32_t length, uint32_t rkey)
{
	struct ibv_sge sge = send_sge(&p, length);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)p.buffer + BUFFER_SIZE, .rkey = rkey},
	};
	struct ibv_send_wr *bad;

	ck_assert_int_eq(ibv_post_send(p.sender, &wr, &bad), 0);
	return wait_completion(p.send_cq).status;
}

START_TEST(key_of_nothing)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	own_profile("zero_length_checks_rkey = yes\n");
	pair_open(&p, IBV_QPT_RC, 0);
	ck_assert_int_eq(remote(opcodes[_i], 0, p.mr->rkey), IBV_WC_SUCCESS);
	ck_assert_int_eq(remote(opcodes[_i], 0, p.mr->rkey + 1), IBV_WC_REM_ACCESS_ERR);
	pair_close(&p);
}
END_TEST

START_TEST(key_of_nothing_unchecked)
{
	pair_open(&p, IBV_QPT_RC, 0);
	ck_assert_int_eq(remote(IBV_WR_RDMA_WRITE, 0, p.mr->rkey + 1), IBV_WC_SUCCESS);
	ck_assert_int_eq(remote(IBV_WR_RDMA_READ, 0, p.mr->rkey + 1), IBV_WC_SUCCESS);
	pair_close(&p);
}
END_TEST

static int post_atomic(unsigned int offset)
{
	struct ibv_sge sge = send_sge(&p, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {.remote_addr = (uintptr_t)p.buffer + BUFFER_SIZE + offset,
			      .compare_add = 1,
			      .rkey = p.mr->rkey},
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(p.sender, &wr, &bad);
}

static void align(void)
{
	ck_assert_uint_eq((uintptr_t)p.buffer % 8, 0);
}

START_TEST(unaligned_atomic_is_refused)
{
	own_profile("atomic_alignment = refused_at_post\n");
	pair_open(&p, IBV_QPT_RC, 0);
	align();
	ck_assert_int_eq(post_atomic(4), EINVAL);
	ck_assert_int_eq(post_atomic(8), 0);
	ck_assert_int_eq(wait_completion(p.send_cq).status, IBV_WC_SUCCESS);
	pair_close(&p);
}
END_TEST

START_TEST(unaligned_atomic_gets_a_nak)
{
	own_profile("atomic_alignment = nak\n");
	pair_open(&p, IBV_QPT_RC, 0);
	align();
	ck_assert_int_eq(post_atomic(4), 0);
	ck_assert_int_eq(wait_completion(p.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
	pair_close(&p);
}
END_TEST

START_TEST(no_atomics)
{
	struct ibv_device_attr attr;

	own_profile("atomic_cap = none\n");
	pair_open(&p, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_query_device(p.context, &attr), 0);
	ck_assert_int_eq(attr.atomic_cap, IBV_ATOMIC_NONE);
	ck_assert_int_eq(post_atomic(0), EINVAL);
	ck_assert_int_eq(remote(IBV_WR_RDMA_WRITE, 8, p.mr->rkey), IBV_WC_SUCCESS);
	pair_close(&p);
}
END_TEST

static int post_invalidate(void)
{
	struct ibv_sge sge = send_sge(&p, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = 0},
			   *bad;

	return ibv_post_send(p.sender, &wr, &bad);
}

START_TEST(invalidate_fails)
{
	struct ibv_wc wc;

	own_profile("send_with_invalidate = fails\n");
	pair_open(&p, IBV_QPT_RC, 0);
	post_receive(&p, 1);
	ck_assert_int_eq(post_invalidate(), 0);
	wc = wait_completion(p.send_cq);
	ck_assert_int_eq(wc.status, IBV_WC_LOC_QP_OP_ERR);
	ck_assert_uint_eq(wc.vendor_err, 0x7302);
	pair_close(&p);
}
END_TEST

START_TEST(invalidate_is_refused)
{
	own_profile("send_with_invalidate = refused_at_post\n");
	pair_open(&p, IBV_QPT_RC, 0);
	ck_assert_int_eq(post_invalidate(), EINVAL);
	ck_assert_int_eq(remote(IBV_WR_RDMA_WRITE, 8, p.mr->rkey), IBV_WC_SUCCESS);
	pair_close(&p);
}
END_TEST

START_TEST(read_of_many_sges)
{
	struct ibv_sge sges[2] = {};
	struct ibv_send_wr wr = {.sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_READ}, *bad;

	own_profile("max_sge_rd = 1\n");
	pair_open(&p, IBV_QPT_RC, 0);
	sges[0] = sges[1] = send_sge(&p, 8);
	ck_assert_int_eq(ibv_post_send(p.sender, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.rkey = p.mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)p.buffer + BUFFER_SIZE;
	wr.send_flags = IBV_SEND_SIGNALED;
	ck_assert_int_eq(ibv_post_send(p.sender, &wr, &bad), 0);
	ck_assert_int_eq(wait_completion(p.send_cq).status, IBV_WC_SUCCESS);
	pair_close(&p);
}
END_TEST

START_TEST(message_too_long)
{
	own_profile("max_msg_sz = 100\n");
	pair_open(&p, IBV_QPT_RC, 0);
	ck_assert_int_eq(remote(IBV_WR_RDMA_WRITE, 100, p.mr->rkey), IBV_WC_SUCCESS);
	ck_assert_int_eq(remote(IBV_WR_RDMA_WRITE, 101, p.mr->rkey), IBV_WC_LOC_LEN_ERR);
	pair_close(&p);
}
END_TEST

/* --- datagrams ---------------------------------------------------------------------------- */

static struct ibv_wc send_datagram(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct ibv_sge sge = send_sge(&p, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {.remote_qpn = p.receiver->qp_num,
					   .remote_qkey = FIXTURE_QKEY}},
			   *bad;
	struct ibv_wc sent;

	ck_assert_int_eq(ibv_query_gid(p.context, 1, 0, &attr.grh.dgid), 0);
	wr.wr.ud.ah = ibv_create_ah(pd, &attr);
	ck_assert_ptr_nonnull(wr.wr.ud.ah);
	memset(p.buffer + BUFFER_SIZE, 0x77, GRH_LENGTH);
	post_receive(&p, 1);
	ck_assert_int_eq(ibv_post_send(p.sender, &wr, &bad), 0);
	sent = wait_completion(p.send_cq);
	ck_assert_int_eq(ibv_destroy_ah(wr.wr.ud.ah), 0);
	return sent.status == IBV_WC_SUCCESS ? wait_completion(p.recv_cq) : sent;
}

static const struct {
	const char *lines;
	uint8_t byte;
} grhs[] = {
	{"grh_ipv4_first_20_bytes = zero\n", 0},
	{"grh_ipv4_first_20_bytes = untouched\n", 0x77},
	{"grh_ipv4_first_20_bytes = filled\n", 0xff},
};

START_TEST(grh_of_ipv4)
{
	const uint8_t *grh = p.buffer + BUFFER_SIZE;
	struct ibv_wc wc;

	own_profile(grhs[_i].lines);
	pair_open(&p, IBV_QPT_UD, 0);
	wc = send_datagram(p.pd);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, GRH_LENGTH + 8);
	ck_assert_uint_eq(wc.sl, 2);
	for (int i = 0; i < GRH_IPV4; i++)
		ck_assert_uint_eq(grh[i], grhs[_i].byte);
	ck_assert_uint_eq(grh[GRH_IPV4], 0x45);
	pair_close(&p);
}
END_TEST

START_TEST(no_sl)
{
	own_profile("wc_sl = none\n");
	pair_open(&p, IBV_QPT_UD, 0);
	ck_assert_uint_eq(send_datagram(p.pd).sl, 0);
	pair_close(&p);
}
END_TEST

START_TEST(ah_of_another_domain)
{
	struct ibv_pd *pd;

	own_profile(_i ? "check_ah_pd = no\n" : "check_ah_pd = yes\n");
	pair_open(&p, IBV_QPT_UD, 0);
	pd = ibv_alloc_pd(p.context);
	ck_assert_int_eq(send_datagram(pd).status, _i ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	pair_close(&p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("profile_behaviour");
	TCase *tests = tcase_create("profile_behaviour");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, rounded_to_powers_of_two);
	tcase_add_test(tests, rounded_to_one_less);
	tcase_add_test(tests, send_queue_is_memory);
	tcase_add_test(tests, entry_too_large);
	tcase_add_test(tests, cq_of_one_size);
	tcase_add_test(tests, sends_are_held);
	tcase_add_test(tests, sends_are_dropped);
	tcase_add_test(tests, dropped_sends_have_no_faults);
	tcase_add_test(tests, sends_are_refused);
	tcase_add_test(tests, receives_are_held);
	tcase_add_test(tests, receives_are_dropped);
	tcase_add_loop_test(tests, key_of_nothing, 0, 2);
	tcase_add_test(tests, key_of_nothing_unchecked);
	tcase_add_test(tests, unaligned_atomic_is_refused);
	tcase_add_test(tests, unaligned_atomic_gets_a_nak);
	tcase_add_test(tests, no_atomics);
	tcase_add_test(tests, invalidate_fails);
	tcase_add_test(tests, invalidate_is_refused);
	tcase_add_test(tests, read_of_many_sges);
	tcase_add_test(tests, message_too_long);
	tcase_add_loop_test(tests, grh_of_ipv4, 0, sizeof(grhs) / sizeof(*grhs));
	tcase_add_test(tests, no_sl);
	tcase_add_loop_test(tests, ah_of_another_domain, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
