/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creation, limits and destruction of every kind of object: the errnos of their man
 * pages, and what is busy.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/newer_verbs.h"
#include "tests/run_suite.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static void setup(void)
{
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	ck_assert_ptr_nonnull(pd);
}

static void teardown(void)
{
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}

static struct ibv_qp_init_attr_ex qp_attr(struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 16},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
}

START_TEST(domain_is_busy)
{
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_pd *parent;

	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);

	parent = ibv_alloc_parent_domain(context, &attr);
	ck_assert_ptr_nonnull(parent);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dealloc_td(td), EBUSY);
	mr = ibv_reg_mr(parent, memory, sizeof(memory), 0);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_eq(mr->pd, parent);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	ck_assert_int_eq(ibv_dealloc_td(td), 0);
	attr.pd = NULL;
	ck_fails_null(ibv_alloc_parent_domain(context, &attr), EINVAL);
	attr.pd = pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	ck_fails_null(ibv_alloc_parent_domain(context, &attr), EOPNOTSUPP);
	td_attr.comp_mask = 1;
	ck_fails_null(ibv_alloc_td(context, &td_attr), EOPNOTSUPP);
}
END_TEST

START_TEST(parent_domain_is_busy)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_ah_attr ah_attr = {.port_num = 1, .is_global = 1};
	struct ibv_qp_init_attr_ex init = qp_attr(cq);
	static char memory[64];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_qp *qp;
	struct ibv_ah *ah;

#define ck_busy_until(destroyed)                                                                   \
	do {                                                                                       \
		ck_assert_int_eq(ibv_dealloc_pd(parent), EBUSY);                                   \
		ck_assert_int_eq(destroyed, 0);                                                    \
	} while (0)
	mr = ibv_reg_mr(parent, memory, sizeof(memory), 0);
	ck_busy_until(ibv_dereg_mr(mr));
	mw = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
	ck_busy_until(ibv_dealloc_mw(mw));
	srq = ibv_create_srq(parent, &srq_attr);
	ck_busy_until(ibv_destroy_srq(srq));
	ibv_query_gid(context, 1, 0, &ah_attr.grh.dgid);
	ah = ibv_create_ah(parent, &ah_attr);
	ck_busy_until(ibv_destroy_ah(ah));
	qp = ibv_create_qp(parent, (struct ibv_qp_init_attr *)&init);
	ck_busy_until(ibv_destroy_qp(qp));
	/* A region can move into it, and out of it. */
	mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, parent, NULL, 0, 0), 0);
	ck_busy_until(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0));
#undef ck_busy_until
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

START_TEST(domain_of_another_context)
{
	struct ibv_context *other = fixture_open();
	struct ibv_pd *foreign = ibv_alloc_pd(other);
	static char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);
	struct ibv_parent_domain_init_attr attr = {.pd = foreign};

	ck_fails_null(ibv_alloc_parent_domain(context, &attr), EINVAL);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, foreign, NULL, 0, 0), EINVAL);
	ck_assert_ptr_eq(mr->pd, pd);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), EINVAL);
	ck_assert_int_eq(ibv_dealloc_pd(foreign), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fixture_close(other);
}
END_TEST

/* The kernel looks for the objects that a call names in the file of the call's context. */
START_TEST(objects_of_another_context)
{
	struct ibv_context *other = fixture_open();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = qp_attr(cq);
	struct ibv_dm *dm = ibv_alloc_dm(other, &(struct ibv_alloc_dm_attr){.length = 64});

	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	ck_fails_null(ibv_create_qp_ex(other, &attr), EINVAL);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_ptr_nonnull(dm);
	ck_fails_null(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED), EINVAL);
	ck_assert_int_eq(ibv_free_dm(dm), 0);
	ck_fails_null(ibv_create_cq(context, 1, NULL, channel, 0), EINVAL);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	fixture_close(other);
}
END_TEST

START_TEST(memory_regions)
{
	static char memory[8192] __attribute__((aligned(65536))); /* where a page begins */
	struct ibv_mr *mr;

	/* Of no bytes, and none of its pages, or one. */
	ck_fails_null(ibv_reg_mr(pd, memory, 0, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	ck_fails_null(ibv_reg_mr(pd, memory, 0, IBV_ACCESS_ON_DEMAND), EINVAL);
	ck_fails_null(ibv_reg_mr(pd, NULL, 0, 0), EINVAL);
	mr = ibv_reg_mr(pd, memory + 1, 0, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_fails_null(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_REMOTE_WRITE), EINVAL);
	ck_fails_null(ibv_reg_mr(pd, memory, sizeof(memory), ACCESS_FLUSH_PERSISTENT), EOPNOTSUPP);
	ck_fails_null(ibv_reg_mr(pd, memory, sizeof(memory), 1 << 10), EINVAL);
	ck_fails_null(ibv_reg_mr(pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	/* An optional flag may be ignored. */
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_RELAXED_ORDERING);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_eq(mr->context, context);
	ck_assert_ptr_eq(mr->pd, pd);
	ck_assert_ptr_eq(mr->addr, memory);
	ck_assert_uint_eq(mr->length, sizeof(memory));
	/* IBV_REREG_MR_ERR_INPUT is -1. */
	ck_fails(ibv_rereg_mr(mr, 1 << 5, NULL, NULL, 0, 0), EINVAL);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0), EINVAL);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 0, 0), EINVAL);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 4096,
			      IBV_ACCESS_LOCAL_WRITE),
		 EINVAL);
	ck_fails(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 4096,
			      IBV_ACCESS_RELAXED_ORDERING),
		 EINVAL);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 4096, 0),
			 0);
	ck_assert_uint_eq(mr->length, 4096);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

START_TEST(memory_windows)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	ck_assert_ptr_nonnull(mw);
	ck_assert_ptr_eq(mw->context, context);
	ck_assert_ptr_eq(mw->pd, pd);
	ck_assert_int_eq(mw->type, IBV_MW_TYPE_2);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_fails_null(ibv_alloc_mw(pd, 3), EINVAL);
}
END_TEST

START_TEST(completion_queues)
{
	struct ibv_device_attr limits;
	struct ibv_cq *cq;
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;

	ibv_query_device(context, &limits);
	ck_fails_null(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
	ck_fails_null(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL);
	ck_fails_null(ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0), EINVAL);
	ck_fails_null(ibv_create_cq(context, 1, NULL, NULL, -1), EINVAL);
	ck_fails_null(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors), EINVAL);
	cq = ibv_create_cq(context, 10, &limits, NULL, 0);
	ck_assert_ptr_nonnull(cq);
	ck_assert_int_ge(cq->cqe, 10);
	ck_assert_ptr_eq(cq->cq_context, &limits);
	ck_assert_int_eq(ibv_resize_cq(cq, 100), 0);
	ck_assert_int_ge(cq->cqe, 100);
	ck_assert_int_eq(ibv_resize_cq(cq, 0), EINVAL);
	ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
	attr = qp_attr(cq);
	qp = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

START_TEST(extended_completion_queues)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(ibv_start_poll(cq, &poll), ENOENT);
	/* It is unlocked again. */
	ck_assert_int_eq(ibv_start_poll(cq, &poll), ENOENT);
	poll.comp_mask = 1;
	ck_assert_int_eq(ibv_start_poll(cq, &poll), EINVAL);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);

	attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
	ck_fails_null(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = 1 << 9;
	ck_fails_null(ibv_create_cq_ex(context, &attr), EINVAL);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1 << 9;
	ck_fails_null(ibv_create_cq_ex(context, &attr), EINVAL);
}
END_TEST

START_TEST(channel_is_busy)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, channel, 0);

	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(channel->refcnt, 1);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
}
END_TEST

START_TEST(shared_receive_queues)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_srq_attr srq_attr;
	struct ibv_qp_init_attr_ex init;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_sge sge[64] = {};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 64}, *bad = NULL;

	ck_fails_null(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_wr = 2;
	attr.attr.max_sge = 100000;
	ck_fails_null(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_sge = 1;
	attr.srq_context = &attr;
	srq = ibv_create_srq(pd, &attr);
	ck_assert_ptr_nonnull(srq);
	ck_assert_ptr_eq(srq->srq_context, &attr);
	ck_assert_int_eq(ibv_query_srq(srq, &srq_attr), 0);
	ck_assert_uint_ge(srq_attr.max_wr, 2);
	srq_attr.srq_limit = srq_attr.max_wr + 1;
	ck_assert_int_eq(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT), EINVAL);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr);
	wr.num_sge = 0;
	for (uint32_t i = 0; i < srq_attr.max_wr; i++)
		ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);

	init = qp_attr(cq);
	init.srq = srq;
	qp = ibv_create_qp_ex(context, &init);
	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_destroy_srq(srq), EBUSY);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), EINVAL);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

/* The device has no options beyond the specification: none are in force, and none accepted. */
static void check_ece(struct ibv_qp *qp)
{
	struct ibv_ece asked = {.vendor_id = 0x15b3, .options = 0x30000002}, ece = {1, 2, 3};
	struct ibv_device_attr device;

	ck_assert_int_eq(ibv_query_device(context, &device), 0);
	ck_assert_int_eq(ibv_query_ece(qp, &ece), 0);
	ck_assert_uint_ne(ece.vendor_id, 0);
	ck_assert_uint_eq(ece.vendor_id, device.vendor_id);
	ck_assert_uint_eq(ece.options, 0);
	ck_assert_uint_eq(ece.comp_mask, 0);
	ck_assert_int_eq(ibv_set_ece(qp, &asked), 0);
	ck_assert_uint_eq(asked.vendor_id, 0);
	ck_assert_uint_eq(asked.options, 0);
	ck_assert_int_eq(ibv_query_ece(qp, &ece), 0);
	ck_assert_uint_eq(ece.options, 0);
	ece.options = 1;
	ck_assert_int_eq(ibv_set_ece(qp, &ece), 0);
	ck_assert_uint_eq(ece.vendor_id, device.vendor_id);
	ck_assert_uint_eq(ece.options, 0);
	asked.comp_mask = 1;
	ck_assert_int_eq(ibv_set_ece(qp, &asked), EINVAL);
}

START_TEST(queue_pairs)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = qp_attr(cq);
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_RTS};
	struct ibv_send_wr wr = {}, *bad = NULL;
	union ibv_gid group = {.raw = {0xff}};
	struct ibv_qp *qp;

	attr.cap.max_inline_data = 1 << 20;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr = qp_attr(cq);
	attr.cap.max_send_wr = 1u << 30;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr = qp_attr(NULL);
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr = qp_attr(cq);
	attr.qp_type = IBV_QPT_RAW_PACKET;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	attr = qp_attr(cq);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB; /* RC */
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	attr.create_flags = 1 << 30;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr.qp_type = IBV_QPT_UD;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	qp = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);

	attr = qp_attr(cq);
	attr.qp_context = &attr;
	attr.sq_sig_all = 1;
	qp = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_ge(qp->qp_num, 2);
	ck_assert_uint_le(qp->qp_num, 0xfffffe);
	ck_assert_int_eq(qp->state, IBV_QPS_RESET);
	ck_assert_ptr_null(ibv_qp_to_qp_ex(qp));
	ck_assert_int_eq(ibv_modify_qp(qp, &state, IBV_QP_STATE), EINVAL);
	ck_assert_int_eq(qp->state, IBV_QPS_RESET);
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &wr);
	ck_assert_int_eq(ibv_query_qp(qp, &state, 0, &queried), 0);
	ck_assert_int_eq(state.qp_state, IBV_QPS_RESET);
	ck_assert_ptr_eq(queried.qp_context, &attr);
	ck_assert_ptr_eq(queried.send_cq, cq);
	ck_assert_int_eq(queried.sq_sig_all, 1);
	ck_assert_uint_ge(queried.cap.max_send_wr, 4);
	ck_assert_mem_eq(&state.cap, &queried.cap, sizeof(state.cap));
	ck_assert_int_eq(ibv_attach_mcast(qp, &group, 0), EINVAL); /* connected */
	ck_assert_int_eq(ibv_detach_mcast(qp, &group, 0), EINVAL);
	check_ece(qp);
	ck_assert_int_eq(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

/* A flag whose function would stay NULL must be refused: ibv_wr_*() call blind. */
START_TEST(operations_of_extended_queue_pairs)
{
	static const struct {
		enum ibv_qp_type type;
		uint64_t flag;
		bool supported;
	} cases[] = {
		{IBV_QPT_RC, IBV_QP_EX_WITH_SEND, true},
		{IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ, true},
		{IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, true},
		{IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW, true},
		{IBV_QPT_RC, IBV_QP_EX_WITH_LOCAL_INV, true},
		{IBV_QPT_UD, IBV_QP_EX_WITH_BIND_MW, false},
		{IBV_QPT_RC, IBV_QP_EX_WITH_TSO, false},
		{IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE, true},
		{IBV_QPT_RC, QP_EX_WITH_FLUSH, true},
		{IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_WRITE, false},
		{IBV_QPT_UD, QP_EX_WITH_FLUSH, false},
		{IBV_QPT_RC, 1ull << 40, false},
		{IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, true},
		{IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ, false},
		{IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_IMM, true},
		{IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE, false},
	};
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr(cq);
		struct ibv_qp *qp;

		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.qp_type = cases[i].type;
		attr.send_ops_flags = cases[i].flag;
		errno = 0;
		qp = ibv_create_qp_ex(context, &attr);
		ck_assert_msg(!!qp == cases[i].supported, "case %zu", i);
		if (!qp) {
			ck_assert_int_eq(errno, EOPNOTSUPP);
			continue;
		}
		ck_assert_ptr_eq(ibv_qp_to_qp_ex(qp), (struct ibv_qp_ex *)qp);
		ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	}
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

START_TEST(address_handles)
{
	struct ibv_ah_attr attr = {.port_num = 1};
	struct ibv_ah *ah;

	ck_fails_null(ibv_create_ah(pd, &attr), EINVAL);
	attr.is_global = 1;
	attr.grh.sgid_index = 9;
	ck_fails_null(ibv_create_ah(pd, &attr), ENODATA);
	attr.grh.sgid_index = 0;
	attr.port_num = 2;
	ck_fails_null(ibv_create_ah(pd, &attr), EINVAL);
	attr.port_num = 1;
	ibv_query_gid(context, 1, 0, &attr.grh.dgid);
	ah = ibv_create_ah(pd, &attr);
	ck_assert_ptr_nonnull(ah);
	ck_assert_ptr_eq(ah->context, context);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
}
END_TEST

/* Loaded, queried, and refused as a path is; a QP that is its own peer arms with one message. */
START_TEST(alternate_path)
{
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = qp_attr(cq);
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_port_num = 1,
		.alt_timeout = 14,
		.alt_ah_attr = {.is_global = 1, .port_num = 1},
	};
	struct ibv_qp_init_attr queried;
	struct ibv_async_event event;
	struct ibv_device_attr device;
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_query_device(context, &device), 0);
	ck_assert(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	ck_assert_ptr_nonnull(qp);
	connect_qp(qp, qp);
	ibv_query_gid(context, 1, 0, &attr.alt_ah_attr.grh.dgid);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
	attr.alt_port_num = 2;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH), EINVAL);
	attr.alt_port_num = 1;
	attr.qp_state = IBV_QPS_ERR;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ALT_PATH), EINVAL);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_ALT_PATH, &queried), 0);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_REARM);
	ck_assert_int_eq(attr.alt_timeout, 14);
	ck_assert_int_eq(attr.alt_port_num, 1);

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	while (ibv_poll_cq(cq, 1, &wc) == 0)
		;
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE, &queried), 0);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_ARMED);
	attr.path_mig_state = IBV_MIG_MIGRATED;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_PATH_MIG);
	ck_assert_ptr_eq(event.element.qp, qp);
	ibv_ack_async_event(&event);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

/* With room for inline data alone. */
START_TEST(inline_data_without_sges)
{
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = qp_attr(cq);
	struct ibv_recv_wr receive = {}, *bad;
	struct ibv_qp_ex *sender;
	struct ibv_qp *receiver;
	static char memory[8];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)memory, sizeof(memory), mr->lkey};

	receiver = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(receiver);
	attr = qp_attr(cq);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	attr.cap.max_send_sge = 0;
	sender = ibv_qp_to_qp_ex(ibv_create_qp_ex(context, &attr));
	ck_assert_ptr_nonnull(sender);
	connect_qp(&sender->qp_base, receiver);
	connect_qp(receiver, &sender->qp_base);
	receive.sg_list = &sge;
	receive.num_sge = 1;
	ck_assert_int_eq(ibv_post_recv(receiver, &receive, &bad), 0);

	ibv_wr_start(sender);
	sender->wr_flags = 0;
	ibv_wr_send(sender);
	ibv_wr_set_inline_data(sender, (char[]){"inline"}, 7);
	ck_assert_int_eq(ibv_wr_complete(sender), 0);
	ck_assert_int_eq(wait_completion(cq).status, IBV_WC_SUCCESS);
	ck_assert_str_eq(memory, "inline");

	ck_assert_int_eq(ibv_destroy_qp(&sender->qp_base), 0);
	ck_assert_int_eq(ibv_destroy_qp(receiver), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

static struct ibv_qp *reset_qp(struct ibv_pd *domain, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(cq);
	struct ibv_qp *qp = ibv_create_qp(domain, (struct ibv_qp_init_attr *)&attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

/* Write to memory that the peer doesn't have, an async event there. Returns what becomes of it. */
static enum ibv_wc_status write_astray(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.num_sge = 1,
		.sg_list = &(struct ibv_sge){.addr = (uintptr_t) "data", .length = 4},
		.wr.rdma = {.remote_addr = 4096, .rkey = 0xbad00},
	};
	struct ibv_send_wr *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	return wait_completion(qp->send_cq).status;
}

/* A file that has the number which @fd had, now that it is closed. */
static int file_instead_of(int fd)
{
	int file = memfd_create("file", MFD_CLOEXEC);

	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(dup3(file, fd, O_CLOEXEC), fd);
	close(file);
	return fd;
}

START_TEST(closed_with_objects)
{
	struct ibv_context *closed = fixture_open();
	struct ibv_pd *left_pd = ibv_alloc_pd(closed);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(closed);
	struct ibv_cq *left_cq = ibv_create_cq(closed, 4, NULL, channel, 0);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp *left = reset_qp(left_pd, left_cq), *qp = reset_qp(pd, cq);
	struct ibv_async_event event;
	int file, async_fd = closed->async_fd;

	connect_qp(left, qp);
	connect_qp(qp, left);
	ck_assert_int_eq(ibv_close_device(closed), 0);
	file = file_instead_of(async_fd);
	/* As after a kernel has cleaned up: the queue pair doesn't answer any more. */
	ck_assert_int_eq(write_astray(qp), IBV_WC_RETRY_EXC_ERR);
	ck_assert_int_eq(lseek(file, 0, SEEK_END), 0);
	close(file);

	/* What is left can still be destroyed, and the device is in use until then. */
	ck_assert_int_eq(ibv_destroy_qp(left), 0);
	ck_assert_int_eq(ibv_destroy_cq(left_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	ck_assert_int_eq(ibv_dealloc_pd(left_pd), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	ck_assert_int_eq(ibv_get_async_event(context, &event), -1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("objects");
	TCase *tests = tcase_create("objects");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, domain_is_busy);
	tcase_add_test(tests, parent_domain_is_busy);
	tcase_add_test(tests, domain_of_another_context);
	tcase_add_test(tests, objects_of_another_context);
	tcase_add_test(tests, memory_regions);
	tcase_add_test(tests, memory_windows);
	tcase_add_test(tests, completion_queues);
	tcase_add_test(tests, extended_completion_queues);
	tcase_add_test(tests, channel_is_busy);
	tcase_add_test(tests, shared_receive_queues);
	tcase_add_test(tests, queue_pairs);
	tcase_add_test(tests, operations_of_extended_queue_pairs);
	tcase_add_test(tests, address_handles);
	tcase_add_test(tests, alternate_path);
	tcase_add_test(tests, inline_data_without_sges);
	tcase_add_test(tests, closed_with_objects);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
