/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions and windows of the experimental verbs, paging on demand, and what is refused. */
#include <infiniband/verbs_exp.h>

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/legacy/exp_fixture.h"
#include "tests/run_suite.h"

static struct pair pair;

static void open_pair(void)
{
	pair_open(&pair, IBV_QPT_RC, 0);
}

static void close_pair(void)
{
	pair_close(&pair);
}

/* A window of type 2, from binding it to its invalidation by the peer's message. */
START_TEST(windows_of_type_two)
{
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc;
	struct ibv_mr *region;
	struct ibv_sge sge;
	struct ibv_mw *mw;
	uint32_t rkey;

	region = ibv_exp_reg_mr(&(struct ibv_exp_reg_mr_in){
		.pd = pair.pd,
		.addr = pair.buffer,
		.length = sizeof(pair.buffer),
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_MW_BIND});
	mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	ck_assert(region && mw);
	rkey = ibv_inc_rkey(mw->rkey);
	wr = (struct ibv_exp_send_wr){
		.wr_id = 1,
		.exp_opcode = IBV_EXP_WR_BIND_MW,
		.bind_mw = {.mw = mw,
			    .rkey = rkey,
			    .bind_info = {.mr = region,
					  .addr = (uintptr_t)pair.buffer + BUFFER_SIZE,
					  .length = 64,
					  .exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_WRITE}},
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	};
	ck_assert_int_eq(exp_post(pair.receiver, &wr), 0);
	wc = exp_wait(pair.send_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.exp_opcode, IBV_EXP_WC_BIND_MW);

	sge = send_sge(&pair, 64);
	wr = exp_write(&pair, &sge, 2);
	wr.wr.rdma.rkey = rkey;
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	ck_assert_int_eq(exp_wait(pair.send_cq).status, IBV_WC_SUCCESS);

	post_receive(&pair, 3);
	wr = exp_write(&pair, &sge, 4);
	wr.exp_opcode = IBV_EXP_WR_SEND_WITH_INV;
	wr.ex.invalidate_rkey = rkey;
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	wc = exp_wait(pair.recv_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.exp_wc_flags, IBV_EXP_WC_WITH_INV);
	ck_assert_uint_eq(wc.imm_data, rkey);
	ck_assert_int_eq(exp_wait(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(region), 0);
}
END_TEST

START_TEST(windows_of_type_one)
{
	struct ibv_exp_mw_bind bind = {.wr_id = 9, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	struct ibv_exp_send_wr wr;
	struct ibv_mr *region;
	struct ibv_sge sge;

	region = ibv_reg_mr(pair.pd, pair.buffer, sizeof(pair.buffer),
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	bind.qp = pair.receiver;
	bind.mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	ck_assert(region && bind.mw);
	bind.bind_info =
		(struct ibv_exp_mw_bind_info){.mr = region,
					      .addr = (uintptr_t)pair.buffer + BUFFER_SIZE,
					      .length = 64,
					      .exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_WRITE};
	ck_assert_int_eq(ibv_exp_bind_mw(&bind), 0);
	ck_assert_uint_eq(exp_wait(pair.send_cq).wr_id, 9);
	sge = send_sge(&pair, 64);
	wr = exp_write(&pair, &sge, 2);
	wr.wr.rdma.rkey = bind.mw->rkey;
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	ck_assert_int_eq(exp_wait(pair.send_cq).status, IBV_WC_SUCCESS);

	bind.comp_mask = IBV_EXP_BIND_MW_RESERVED;
	ck_assert_int_eq(ibv_exp_bind_mw(&bind), EINVAL);
	bind.comp_mask = 0;
	bind.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_ALLOCATE_MR;
	ck_assert_int_eq(ibv_exp_bind_mw(&bind), ENOSYS);
	ck_assert_int_eq(ibv_dealloc_mw(bind.mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(region), 0);
}
END_TEST

START_TEST(regions)
{
	struct ibv_exp_reg_mr_in in = {.exp_access =
					       IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_RELAXED};
	struct ibv_exp_rereg_mr_attr attr = {.comp_mask = 0};
	struct ibv_mr *mr;

	in.pd = pair.pd;
	in.addr = pair.buffer;
	in.length = 64;
	in.comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS;
	mr = ibv_exp_reg_mr(&in);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_TRANSLATION, NULL,
					  pair.buffer, 128, 0, &attr),
			 0);
	ck_assert_uint_eq(mr->length, 128);
	ck_assert_int_eq(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  IBV_EXP_ACCESS_NO_RDMA, &attr),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, ENOSYS);
	ck_assert_int_eq(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_KEEP_VALID, NULL, NULL, 0, 0, &attr),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}
END_TEST

static const struct {
	uint64_t access;
	uint32_t comp_mask, create_flags;
	int error;
} refused_regions[] = {
	{IBV_EXP_ACCESS_ALLOCATE_MR, 0, 0, ENOSYS},
	{IBV_EXP_ACCESS_SHARED_MR_USER_READ, 0, 0, ENOSYS},
	{IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE, 0, 0, ENOSYS},
	{IBV_EXP_ACCESS_NO_RDMA, 0, 0, ENOSYS},
	{IBV_EXP_ACCESS_RESERVED, 0, 0, EINVAL},
	{IBV_EXP_ACCESS_REMOTE_WRITE, 0, 0, EINVAL}, /* as of old, without LOCAL_WRITE */
	{0, IBV_EXP_REG_MR_CREATE_FLAGS, IBV_EXP_REG_MR_CREATE_CONTIG, ENOSYS},
	{0, IBV_EXP_REG_MR_CREATE_FLAGS, 2, EINVAL},
	{0, IBV_EXP_REG_MR_RESERVED, 0, EINVAL},
};

START_TEST(regions_that_are_refused)
{
	struct ibv_exp_reg_mr_in in = {.length = 64};

	in.pd = pair.pd;
	in.addr = pair.buffer;
	in.exp_access = refused_regions[_i].access;
	in.comp_mask = refused_regions[_i].comp_mask;
	in.create_flags = refused_regions[_i].create_flags;
	errno = 0;
	ck_assert_ptr_null(ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, refused_regions[_i].error);
}
END_TEST

/*
 * All of the address space, without registering any of it; prefetched, and written to by the peer.
 */
START_TEST(paging_on_demand)
{
	struct ibv_exp_device_attr device = {.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1};
	struct ibv_exp_reg_mr_in in = {.length = IBV_EXP_IMPLICIT_MR_SIZE,
				       .exp_access = IBV_EXP_ACCESS_LOCAL_WRITE |
						     IBV_EXP_ACCESS_REMOTE_WRITE |
						     IBV_EXP_ACCESS_ON_DEMAND};
	struct ibv_exp_prefetch_attr prefetch = {.flags = IBV_EXP_PREFETCH_WRITE_ACCESS,
						 .length = 4096};
	uint8_t *memory = calloc(1, 4096);
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	ck_assert_int_eq(ibv_exp_query_device(pair.context, &device), 0);
	ck_assert(device.exp_device_cap_flags & IBV_EXP_DEVICE_ODP);
	ck_assert(device.comp_mask & IBV_EXP_DEVICE_ATTR_ODP);
	ck_assert_uint_eq(device.odp_caps.general_odp_caps, IBV_EXP_ODP_SUPPORT);
	ck_assert(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_EXP_ODP_SUPPORT_WRITE);
	in.pd = pair.pd;
	mr = ibv_exp_reg_mr(&in);
	ck_assert_ptr_nonnull(mr);
	prefetch.addr = memory;
	ck_assert_int_eq(ibv_exp_prefetch_mr(mr, &prefetch), 0);
	sge = send_sge(&pair, 64);
	memset(pair.buffer, 0x5a, 64);
	wr = exp_write(&pair, &sge, 1);
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = mr->rkey;
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	ck_assert_int_eq(exp_wait(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_mem_eq(memory, pair.buffer, 64);

	prefetch.comp_mask = IBV_EXP_PREFETCH_MR_RESERVED;
	ck_assert_int_eq(ibv_exp_prefetch_mr(mr, &prefetch), EINVAL);
	prefetch = (struct ibv_exp_prefetch_attr){.addr = memory, .length = 1, .flags = 2};
	ck_assert_int_eq(ibv_exp_prefetch_mr(mr, &prefetch), EINVAL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	free(memory);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exp_memory");
	TCase *tests = tcase_create("exp_memory");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, open_pair, close_pair);
	tcase_add_test(tests, windows_of_type_one);
	tcase_add_test(tests, windows_of_type_two);
	tcase_add_test(tests, regions);
	tcase_add_loop_test(tests, regions_that_are_refused, 0,
			    sizeof(refused_regions) / sizeof(refused_regions[0]));
	tcase_add_test(tests, paging_on_demand);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
