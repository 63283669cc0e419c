/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows as applications use them: the receiver of a pair owns the
 * memory and the windows, the sender reaches in.
 */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "net/share/share.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

#define ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ALL_OPERATIONS                                                                             \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)

static struct pair pair;
static struct ibv_mr *region;
static uint8_t memory[4096];

static void open_pair(enum ibv_qp_type type, uint64_t send_ops_flags)
{
	pair_open(&pair, type, send_ops_flags);
	/* Nothing remote: what is let through, the window lets through. */
	region = ibv_reg_mr(pair.pd, memory, sizeof(memory),
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ck_assert_ptr_nonnull(region);
}

static void close_pair(void)
{
	ck_assert_int_eq(ibv_dereg_mr(region), 0);
	pair_close(&pair);
}

static struct ibv_mw *alloc_window(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(pair.pd, type);

	ck_assert_ptr_nonnull(mw);
	return mw;
}

static struct ibv_mw_bind_info part(uint32_t offset, uint32_t length)
{
	return (struct ibv_mw_bind_info){
		.mr = region,
		.addr = (uintptr_t)memory + offset,
		.length = length,
		.mw_access_flags = ACCESS,
	};
}

#define expect(cq, id, of_status, of_opcode)                                                       \
	do {                                                                                       \
		struct ibv_wc expected = wait_completion(cq);                                      \
		ck_assert_int_eq(expected.status, of_status);                                      \
		ck_assert_uint_eq(expected.wr_id, id);                                             \
		if (expected.status == IBV_WC_SUCCESS)                                             \
			ck_assert_int_eq(expected.opcode, of_opcode);                              \
	} while (0)

/* The owner posts @opcode for a window of type 2. */
static int owner_posts(enum ibv_wr_opcode opcode, struct ibv_mw *mw, uint32_t rkey,
		       struct ibv_mw_bind_info info, uint64_t wr_id)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_LOCAL_INV) {
		wr.invalidate_rkey = rkey;
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = rkey;
		wr.bind_mw.bind_info = info;
	}
	return ibv_post_send(pair.receiver, &wr, &bad);
}

static void reach(enum ibv_wr_opcode opcode, uint32_t rkey, uint32_t offset,
		  enum ibv_wc_status status)
{
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_send_wr wr = {
		.wr_id = 99,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)memory + offset, rkey},
	};
	struct ibv_send_wr *bad;

	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	expect(pair.send_cq, 99, status,
	       opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
}

static void check_reached(uint32_t rkey, uint32_t offset, const char *text)
{
	memcpy(pair.buffer, text, 8);
	reach(IBV_WR_RDMA_WRITE, rkey, offset, IBV_WC_SUCCESS);
	ck_assert_mem_eq(memory + offset, text, 8);
	memset(pair.buffer, 0, 8);
	reach(IBV_WR_RDMA_READ, rkey, offset, IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, text, 8);
}

START_TEST(promised)
{
	const unsigned int flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				   IBV_DEVICE_MEM_MGT_EXTENSIONS;
	struct ibv_context *context = fixture_open();
	struct ibv_device_attr attr;

	ck_assert_int_eq(ibv_query_device(context, &attr), 0);
	ck_assert_int_ge(attr.max_mw, 524287); /* Linux rxe's */
	ck_assert_uint_eq(attr.device_cap_flags & flags, flags);
	/* IBA 10.6.7.2.2: a device does one or the other. */
	ck_assert_uint_eq(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0);
	fixture_close(context);
}
END_TEST

START_TEST(type_1)
{
	struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw *mw;
	uint32_t first;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_1);
	first = mw->rkey;
	bind.bind_info = part(64, 8);
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, mw, &bind), 0);
	expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	ck_assert_uint_ne(mw->rkey, first);
	ck_assert_uint_eq(mw->rkey >> 8, first >> 8);
	check_reached(mw->rkey, 64, "1st bind");
	ck_assert_int_eq(ibv_dereg_mr(region), EBUSY);

	first = mw->rkey;
	bind.bind_info = part(128, 8);
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, mw, &bind), 0);
	expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	ck_assert_uint_ne(mw->rkey, first);
	check_reached(mw->rkey, 128, "2nd bind");

	/* Length 0 takes it back, and then the region may go. */
	bind.bind_info = (struct ibv_mw_bind_info){};
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, mw, &bind), 0);
	expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	ck_assert_int_eq(ibv_dereg_mr(region), 0);
	region = ibv_reg_mr(pair.pd, memory, sizeof(memory),
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	reach(IBV_WR_RDMA_WRITE, mw->rkey, 128, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

START_TEST(type_1_refused_at_once)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	struct ibv_mw *one, *two, *foreign;
	struct ibv_pd *other;
	uint32_t rkey;

	open_pair(IBV_QPT_RC, 0);
	other = ibv_alloc_pd(pair.context);
	one = alloc_window(IBV_MW_TYPE_1);
	two = alloc_window(IBV_MW_TYPE_2);
	foreign = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	ck_assert_ptr_nonnull(foreign);
	rkey = one->rkey;
	bind.bind_info = part(0, 8);
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, two, &bind), EINVAL);
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, foreign, &bind), EPERM);
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, one, &bind), EINVAL);
	bind.bind_info = (struct ibv_mw_bind_info){.length = 8};
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, one, &bind), EINVAL);
	bind.bind_info = (struct ibv_mw_bind_info){.addr = 8};
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, one, &bind), EINVAL);
	ck_assert_uint_eq(one->rkey, rkey);

	/* Nothing of it was posted. */
	bind.bind_info = part(0, 8);
	bind.wr_id = 7;
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, one, &bind), 0);
	expect(pair.send_cq, 7, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	ck_assert_int_eq(ibv_dealloc_mw(one), 0);
	ck_assert_int_eq(ibv_dealloc_mw(two), 0);
	ck_assert_int_eq(ibv_dealloc_pd(other), EBUSY);
	ck_assert_int_eq(ibv_dealloc_mw(foreign), 0);
	ck_assert_int_eq(ibv_dealloc_pd(other), 0);
	close_pair();
}
END_TEST

START_TEST(not_for_datagrams)
{
	struct ibv_mw_bind bind = {};
	struct ibv_mw *one, *two;
	uint32_t rkey;

	open_pair(IBV_QPT_UD, 0);
	one = alloc_window(IBV_MW_TYPE_1);
	two = alloc_window(IBV_MW_TYPE_2);
	rkey = one->rkey;
	bind.bind_info = part(0, 8);
	ck_assert_int_eq(ibv_bind_mw(pair.receiver, one, &bind), EINVAL);
	ck_assert_uint_eq(one->rkey, rkey);
	ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, two, ibv_inc_rkey(two->rkey), part(0, 8), 1),
			 EINVAL);
	ck_assert_int_eq(owner_posts(IBV_WR_LOCAL_INV, NULL, two->rkey, part(0, 8), 1), EINVAL);
	ck_assert_int_eq(ibv_dealloc_mw(one), 0);
	ck_assert_int_eq(ibv_dealloc_mw(two), 0);
	close_pair();
}
END_TEST

/* Neither a bind nor an invalidation has data: the list isn't even looked at. */
START_TEST(not_with_data)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .num_sge = 1}, *bad;
	struct ibv_mw *mw;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_2);
	ck_assert_int_eq(ibv_post_send(pair.receiver, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_BIND_MW;
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info = part(0, 8);
	ck_assert_int_eq(ibv_post_send(pair.receiver, &wr, &bad), EINVAL);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

/* The sender hands the key back with its SEND, and can't use it any more. */
START_TEST(type_2_taken_back_by_the_peer)
{
	struct ibv_send_wr wr = {
		.wr_id = 5, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_mw *mw;
	struct ibv_wc wc;
	uint32_t rkey;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_2);
	rkey = mw->rkey;
	for (uint64_t round = 0; round < 3; round++) {
		rkey = ibv_inc_rkey(rkey);
		ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, rkey, part(256, 8), round), 0);
		expect(pair.send_cq, round, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
		check_reached(rkey, 256, "2B bound");
		post_receive(&pair, 6);
		wr.invalidate_rkey = rkey;
		ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
		wc = wait_completion(pair.recv_cq);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, 6);
		ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_INV);
		ck_assert_uint_eq(wc.invalidated_rkey, rkey);
		expect(pair.send_cq, 5, IBV_WC_SUCCESS, IBV_WC_SEND);
	}
	reach(IBV_WR_RDMA_READ, rkey, 256, IBV_WC_REM_ACCESS_ERR);
	/* It isn't bound to anything any more. */
	ck_assert_int_eq(ibv_dereg_mr(region), 0);
	region = ibv_reg_mr(pair.pd, memory, sizeof(memory), 0);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

/* Programs name any key, and look which one it has become. */
/* And ibv_mw.rkey is the application's: mlx5 and rxe leave it as it is, too. */
START_TEST(type_2_by_any_key)
{
	static const uint32_t keys[] = {0, 12345, UINT32_MAX};
	struct ibv_mw_bind_info info;
	uint32_t allocated, key;
	struct ibv_mw *mw;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_2);
	allocated = mw->rkey;
	info = part(256, 8);
	info.mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, keys[i], info, 1), 0);
		expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
		key = (allocated & ~0xffU) | (keys[i] & 0xff);
		check_reached(key, 256, "any key.");
		ck_assert_int_eq(owner_posts(IBV_WR_LOCAL_INV, NULL, key, info, 2), 0);
		expect(pair.send_cq, 2, IBV_WC_SUCCESS, IBV_WC_LOCAL_INV);
	}
	ck_assert_uint_eq(mw->rkey, allocated);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

START_TEST(failed_bind)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_mw *mw;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_2);
	ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, ibv_inc_rkey(mw->rkey), part(4090, 8), 1),
			 0);
	ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, ibv_inc_rkey(mw->rkey), part(0, 8), 2), 0);
	expect(pair.send_cq, 1, IBV_WC_MW_BIND_ERR, IBV_WC_BIND_MW);
	expect(pair.send_cq, 2, IBV_WC_WR_FLUSH_ERR, IBV_WC_BIND_MW);
	ck_assert_int_eq(ibv_query_qp(pair.receiver, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

/* The sender is the owner here: it has the extended queue pair. */
START_TEST(builders)
{
	struct ibv_mw_bind_info info;
	struct ibv_qp_ex *qp;
	struct ibv_mw *mw;
	struct ibv_wc wc;
	uint32_t rkey;

	open_pair(IBV_QPT_RC, ALL_OPERATIONS);
	qp = ibv_qp_to_qp_ex(pair.sender);
	ck_assert_ptr_nonnull(qp);
	mw = alloc_window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	info = part(512, 8);
	post_receive(&pair, 1);

	/* Bind it, tell the peer, take it back: all in one batch, in this order. */
	ibv_wr_start(qp);
	qp->wr_id = 10;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qp, mw, rkey, &info);
	memset(&info, 0, sizeof(info)); /* it was copied */
	qp->wr_id = 11;
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 0, NULL);
	qp->wr_id = 12;
	ibv_wr_local_inv(qp, rkey);
	qp->wr_id = 13;
	info = part(600, 16);
	ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(rkey), &info);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);
	expect(pair.send_cq, 10, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	expect(pair.send_cq, 11, IBV_WC_SUCCESS, IBV_WC_SEND);
	expect(pair.send_cq, 12, IBV_WC_SUCCESS, IBV_WC_LOCAL_INV);
	expect(pair.send_cq, 13, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	expect(pair.recv_cq, 1, IBV_WC_SUCCESS, IBV_WC_RECV);

	/* The window is the sender's QP's: invalidating it from afar is not for that QP itself. */
	post_receive(&pair, 2);
	ibv_wr_start(qp);
	qp->wr_id = 14;
	ibv_wr_send_inv(qp, ibv_inc_rkey(rkey));
	ibv_wr_set_sge_list(qp, 0, NULL);
	ck_assert_int_eq(ibv_wr_complete(qp), 0);
	expect(pair.send_cq, 14, IBV_WC_REM_ACCESS_ERR, IBV_WC_SEND);
	wc = wait_completion(pair.recv_cq);
	ck_assert_int_ne(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, 2);
	ck_assert_int_eq(ibv_dereg_mr(region), EBUSY);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

START_TEST(taken_back_here)
{
	struct ibv_mw *mw;
	uint32_t rkey;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, rkey, part(0, 8), 1), 0);
	expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	check_reached(rkey, 0, "one more");
	ck_assert_int_eq(owner_posts(IBV_WR_LOCAL_INV, NULL, rkey, part(0, 8), 2), 0);
	expect(pair.send_cq, 2, IBV_WC_SUCCESS, IBV_WC_LOCAL_INV);
	reach(IBV_WR_RDMA_WRITE, rkey, 0, IBV_WC_REM_ACCESS_ERR);
	ck_assert_mem_eq(memory, "one more", 8);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

/* A queue pair with @number, which comes again when all others of its block have been used. */
static struct ibv_qp *create_with_number(uint32_t number)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = pair.send_cq,
		.recv_cq = pair.recv_cq,
		.cap = {4, 4, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};

	for (unsigned int i = 0; i < SHARE_QPN_BLOCK; i++) {
		struct ibv_qp *qp = ibv_create_qp(pair.pd, &attr);

		ck_assert_ptr_nonnull(qp);
		if (qp->qp_num == number)
			return qp;
		ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	}
	ck_abort_msg("QP 0x%x didn't come again", number);
}

/* IBA 10.6.7.2.2: it is that queue pair's, not of any that has its number. */
START_TEST(outlives_its_queue_pair)
{
	uint32_t number, rkey;
	struct ibv_mw *mw;

	open_pair(IBV_QPT_RC, 0);
	mw = alloc_window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, rkey, part(0, 8), 1), 0);
	expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	check_reached(rkey, 0, "of this ");
	number = pair.receiver->qp_num;
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	pair.receiver = create_with_number(number);
	pair_move(&pair, 1);
	reach(IBV_WR_RDMA_WRITE, rkey, 0, IBV_WC_REM_ACCESS_ERR);
	ck_assert_mem_eq(memory, "of this ", 8);
	pair_move(&pair, 1);
	ck_assert_int_eq(owner_posts(IBV_WR_LOCAL_INV, NULL, rkey, part(0, 8), 2), 0);
	expect(pair.send_cq, 2, IBV_WC_MW_BIND_ERR, IBV_WC_LOCAL_INV);
	ck_assert_int_eq(ibv_dereg_mr(region), EBUSY);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	close_pair();
}
END_TEST

/* An extended CQ tells which key was invalidated. */
START_TEST(extended_polling)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr poll = {};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV}, *bad;
	struct ibv_cq *plain;
	struct ibv_cq_ex *cq;
	struct ibv_mw *mw;
	uint32_t rkey;

	open_pair(IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	cq = ibv_create_cq_ex(pair.context, &attr);
	ck_assert_ptr_nonnull(cq);
	plain = ibv_cq_ex_to_cq(cq);
	pair.receiver = ibv_create_qp(pair.pd, &(struct ibv_qp_init_attr){
						       .send_cq = pair.send_cq,
						       .recv_cq = plain,
						       .cap = {4, 4, 1, 1, 0},
						       .qp_type = IBV_QPT_RC,
					       });
	ck_assert_ptr_nonnull(pair.receiver);
	connect_qp(pair.receiver, pair.sender);
	ck_assert_int_eq(ibv_modify_qp(pair.sender,
				       &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET},
				       IBV_QP_STATE),
			 0);
	connect_qp(pair.sender, pair.receiver);
	mw = alloc_window(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	ck_assert_int_eq(owner_posts(IBV_WR_BIND_MW, mw, rkey, part(0, 8), 1), 0);
	expect(pair.send_cq, 1, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	post_receive(&pair, 2);
	wr.invalidate_rkey = rkey;
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	while (ibv_start_poll(cq, &poll) == ENOENT)
		;
	ck_assert_int_eq(cq->status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	ck_assert_uint_eq(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_INV);
	ck_assert_uint_eq(ibv_wc_read_invalidated_rkey(cq), rkey);
	ibv_end_poll(cq);
	ck_assert_int_eq(ibv_destroy_qp(pair.receiver), 0);
	ck_assert_int_eq(ibv_destroy_cq(plain), 0);
	ck_assert_int_eq(ibv_destroy_qp(pair.sender), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair.send_cq), 0);
	ck_assert_int_eq(ibv_destroy_cq(pair.recv_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(pair.channel), 0);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(region), 0);
	ck_assert_int_eq(ibv_dereg_mr(pair.mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pair.pd), 0);
	fixture_close(pair.context);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("windows");
	TCase *tests = tcase_create("windows");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, promised);
	tcase_add_test(tests, type_1);
	tcase_add_test(tests, type_1_refused_at_once);
	tcase_add_test(tests, not_for_datagrams);
	tcase_add_test(tests, not_with_data);
	tcase_add_test(tests, type_2_taken_back_by_the_peer);
	tcase_add_test(tests, type_2_by_any_key);
	tcase_add_test(tests, failed_bind);
	tcase_add_test(tests, builders);
	tcase_add_test(tests, taken_back_here);
	tcase_add_test(tests, outlives_its_queue_pair);
	tcase_add_test(tests, extended_polling);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
