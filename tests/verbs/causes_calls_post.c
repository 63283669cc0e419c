/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts that are refused. */
#include <errno.h>
#include <fcntl.h>

#include "net/newer_verbs.h"
#include "tests/verbs/causes_calls.h"
#include "tests/verbs/fixture.h"

/* --- posting --------------------------------------------------------------------------------- */

static uint8_t memory[256];

static struct ibv_sge element(uint32_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

	return (struct ibv_sge){(uintptr_t)memory, length, mr->lkey};
}

static void post(struct ibv_qp *qp, struct ibv_send_wr wr, int error)
{
	struct ibv_send_wr *bad;

	wr.wr_id = 77;
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), error);
}

static void send_in_init(void)
{
	post(qp_in_init(IBV_QPT_RC), (struct ibv_send_wr){.opcode = IBV_WR_SEND}, EINVAL);
}

static void receive_in_reset(void)
{
	struct ibv_recv_wr wr = {.wr_id = 77}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp_in_reset(IBV_QPT_RC), &wr, &bad), EINVAL);
}

/* Without receives nothing completes. */
static void send_queue_of_four(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);

	for (int i = 0; i < 4; i++)
		post(qp,
		     (struct ibv_send_wr){.opcode = IBV_WR_SEND,
					  .send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0},
		     0);
	post(qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, ENOMEM);
}

static void receive_queue_of_four(void)
{
	struct ibv_qp *qp = qp_in_init(IBV_QPT_RC);
	struct ibv_recv_wr wr = {}, *bad;

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), ENOMEM);
}

static void srq_of_four(void)
{
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_srq *srq;

	open_device();
	srq = make_srq();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
}

static void three_elements(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sges[3] = {element(1), element(1), element(1)};

	post(qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 3},
	     EINVAL);
}

static void three_elements_received(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sges[3] = {element(1), element(1), element(1)};
	struct ibv_recv_wr wr = {.sg_list = sges, .num_sge = 3}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), EINVAL);
}

static void list_at_null(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = IBV_WR_SEND, .num_sge = 2},
	     EINVAL);
}

static void list_at_null_received(void)
{
	struct ibv_recv_wr wr = {.num_sge = 2}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp_in_rts(IBV_QPT_RC), &wr, &bad), EINVAL);
}

static void elements_of_an_invalidation(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(1);

	post(qp, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .sg_list = &sge, .num_sge = 1},
	     EINVAL);
}

static void inline_send(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(200);

	post(qp,
	     (struct ibv_send_wr){.opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE},
	     EINVAL);
}

static void inline_read(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(1);

	post(qp,
	     (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE},
	     EINVAL);
}

static void opcode_of_completions(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = 128}, EINVAL);
}

static void segmentation(void)
{
	post(qp_in_rts(IBV_QPT_UD), (struct ibv_send_wr){.opcode = IBV_WR_TSO}, EOPNOTSUPP);
}

static void flush_by_post_send(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = 14}, EINVAL);
}

static void read_of_uc(void)
{
	post(qp_in_rts(IBV_QPT_UC), (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ}, EINVAL);
}

static void datagram_to_nowhere(void)
{
	post(qp_in_rts(IBV_QPT_UD), (struct ibv_send_wr){.opcode = IBV_WR_SEND}, EINVAL);
}

static void bound_nothing(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW}, EINVAL);
}

static void checksum(void)
{
	post(qp_in_rts(IBV_QPT_RC),
	     (struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM}, EINVAL);
}

static void atomic_of_four_bytes(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(4);

	post(qp,
	     (struct ibv_send_wr){
		     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1},
	     EINVAL);
}

static void receive_of_an_srq(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	struct ibv_recv_wr wr = {}, *bad;

	open_device();
	attr.send_cq = attr.recv_cq = cq;
	attr.srq = make_srq();
	ck_assert_int_eq(ibv_post_recv(ibv_create_qp(pd, &attr), &wr, &bad), EINVAL);
}

static void send_of_xrc_recv(void)
{
	open_device();
	post(make_xrc_recv(open_domain(-1, O_CREAT)), (struct ibv_send_wr){.opcode = IBV_WR_SEND},
	     EINVAL);
}

static void receive_of_xrc_send(void)
{
	struct ibv_recv_wr wr = {}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp_in_reset(IBV_QPT_XRC_SEND), &wr, &bad), EINVAL);
}

/* --- the same by ibv_wr_*() ------------------------------------------------------------------ */

static struct ibv_qp_ex *extended_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | QP_EX_WITH_FLUSH,
	};
	struct ibv_qp *qp;

	open_device();
	attr.send_cq = attr.recv_cq = cq;
	attr.pd = pd;
	qp = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(qp);
	connect_qp(qp, qp);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	return ibv_qp_to_qp_ex(qp);
}

static void setter_first(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	ibv_wr_set_sge(qp, 0, 0, 0);
	ibv_wr_send(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_of_two_elements(void)
{
	struct ibv_qp_ex *qp = extended_qp();
	struct ibv_sge sges[2] = {};

	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 2, sges);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_with_list_at_null(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 1, NULL);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_inline(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, memory, sizeof(memory));
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_too_long(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	for (int i = 0; i < 17; i++)
		ibv_wr_send(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), ENOMEM);
}

static void batch_of_an_inline_read(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	qp->wr_id = 77;
	ibv_wr_rdma_read(qp, 0, 0);
	ibv_wr_set_inline_data(qp, memory, 1);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void flush_of_no_type(void)
{
	struct ibv_qp_ex *qp = extended_qp();
	wr_flush_function *wr_flush = (wr_flush_function *)((char *)qp + QP_EX_WR_FLUSH_OFFSET);

	(*wr_flush)(qp, 0, 0, 64, 0, FLUSH_RANGE);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static const struct cause_row rows[] = {
	{CAUSE_POST_STATE, send_in_init, "wr_id 77: the state is INIT"},
	{CAUSE_POST_STATE, receive_in_reset, "the state is RESET"},
	{CAUSE_SEND_QUEUE_FULL, send_queue_of_four,
	 ": 4 work requests wait for their completions to be polled, 3 of them unsignaled; "
	 "max_send_wr is 4"},
	{CAUSE_SEND_QUEUE_FULL, batch_too_long, ": 16 work requests since ibv_wr_start()"},
	{CAUSE_RECEIVE_QUEUE_FULL, receive_queue_of_four, "ibv_post_recv(), QP 0x"},
	{CAUSE_RECEIVE_QUEUE_FULL, srq_of_four, "4 receives are posted, the queue takes 4"},
	{CAUSE_POST_SGES, three_elements, "wr_id 77: num_sge is 3, the queue pair takes 2"},
	{CAUSE_POST_SGES, three_elements_received, "num_sge is 3, the queue takes 2"},
	{CAUSE_POST_SGES, list_at_null, "num_sge is 2 and sg_list NULL, the queue pair takes 2"},
	{CAUSE_POST_SGES, list_at_null_received, "num_sge is 2 and sg_list NULL, the queue"},
	{CAUSE_POST_SGES, elements_of_an_invalidation, "IBV_WR_LOCAL_INV has no data"},
	{CAUSE_POST_SGES, batch_of_two_elements, "num_sge is 2, the queue pair takes 1"},
	{CAUSE_POST_SGES, batch_with_list_at_null, "num_sge is 1 and sg_list NULL"},
	{CAUSE_POST_INLINE, inline_send, "200 bytes inline, the queue pair takes 32"},
	{CAUSE_POST_INLINE, inline_read, "IBV_WR_RDMA_READ sends no data"},
	{CAUSE_POST_INLINE, batch_inline, "256 bytes inline and more, the queue pair takes 16"},
	{CAUSE_POST_INLINE, batch_of_an_inline_read, "ibv_wr_complete(), QP 0x"},
	{CAUSE_POST_OPCODE_UNKNOWN, opcode_of_completions, "opcode is 128"},
	{CAUSE_POST_OPCODE_UNKNOWN, segmentation, "opcode is IBV_WR_TSO"},
	{CAUSE_POST_OPCODE_UNKNOWN, flush_by_post_send, "opcode is IBV_WR_FLUSH"},
	{CAUSE_POST_OPCODE_TYPE, read_of_uc, " (UC) in RTS, wr_id 77: opcode is IBV_WR_RDMA_READ"},

	{CAUSE_OBJECT_MISSING, datagram_to_nowhere, "wr.ud.ah is NULL"},
	{CAUSE_OBJECT_MISSING, bound_nothing, "bind_mw.mw is NULL"},

	{CAUSE_POST_CHECKSUM, checksum, "send_flags is 0x10"},
	{CAUSE_POST_ATOMIC_LENGTH, atomic_of_four_bytes, "ATOMIC_FETCH_AND_ADD with 4 bytes"},
	{CAUSE_POST_HAS_SRQ, receive_of_an_srq, "ibv_post_recv(), QP 0x"},
	{CAUSE_POST_NO_QUEUE, send_of_xrc_recv, "it has no send queue"},
	{CAUSE_POST_NO_QUEUE, receive_of_xrc_send, "it has no receive queue"},
	{CAUSE_POST_NO_OPERATION, setter_first, "no operation since"},
	{CAUSE_POST_FLUSH, flush_of_no_type, "type is 0x0, level is 0"},
};

const struct call_rows calls_post = {rows, sizeof(rows) / sizeof(rows[0])};
