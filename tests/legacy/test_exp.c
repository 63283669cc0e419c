/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs of old as a layer over today's: what they hand on, what they refuse, and
 * by which error.
 */
#include <infiniband/verbs_exp.h>

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/legacy/exp_fixture.h"
#include "tests/run_suite.h"

#define MANY 40 /* more than the layer converts at a time */

static struct pair pair;

static void open_pair(void)
{
	pair_open(&pair, IBV_QPT_RC, 0);
}

static void close_pair(void)
{
	pair_close(&pair);
}

/* --- devices ------------------------------------------------------------------ */

START_TEST(device_attributes)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1};
	struct ibv_context *context = fixture_open();
	struct ibv_device_attr_ex today;
	const uint64_t vendors = IBV_EXP_DEVICE_DC_TRANSPORT | IBV_EXP_DEVICE_QPG |
				 IBV_EXP_DEVICE_UD_RSS | IBV_EXP_DEVICE_UD_TSS |
				 IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_NOP |
				 IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_CROSS_CHANNEL |
				 IBV_EXP_DEVICE_MR_ALLOCATE | IBV_EXP_DEVICE_SHARED_MR;

	ck_assert_int_eq(ibv_query_device_ex(context, NULL, &today), 0);
	ck_assert_int_eq(ibv_exp_query_device(context, &attr), 0);
	ck_assert_uint_eq(attr.node_guid, today.orig_attr.node_guid);
	ck_assert_int_eq(attr.max_qp, today.orig_attr.max_qp);
	ck_assert_int_eq(attr.max_sge, today.orig_attr.max_sge);
	ck_assert_int_eq(attr.max_srq_sge, today.orig_attr.max_srq_sge);
	ck_assert_int_eq(attr.phys_port_cnt, today.orig_attr.phys_port_cnt);
	ck_assert_int_eq(attr.exp_atomic_cap, IBV_EXP_ATOMIC_HCA);
	/* The capabilities are those of today, and none that no device has. */
	ck_assert(attr.comp_mask & IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS);
	ck_assert_uint_eq((uint32_t)attr.exp_device_cap_flags, today.orig_attr.device_cap_flags);
	ck_assert_uint_eq(attr.exp_device_cap_flags & vendors, 0);
	ck_assert(attr.exp_device_cap_flags & IBV_EXP_DEVICE_MEM_WINDOW);
	ck_assert(attr.exp_device_cap_flags & IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS);
	ck_assert_int_eq(!(attr.exp_device_cap_flags & IBV_EXP_DEVICE_ODP),
			 !(today.odp_caps.general_caps & IBV_ODP_SUPPORT));
	ck_assert_uint_eq(attr.comp_mask &
				  (IBV_EXP_DEVICE_ATTR_CALC_CAP | IBV_EXP_DEVICE_DC_RD_REQ |
				   IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | IBV_EXP_DEVICE_ATTR_UMR |
				   IBV_EXP_DEVICE_ATTR_MAX_DCT),
			  0);
	ck_assert_uint_eq(attr.timestamp_mask, today.completion_timestamp_mask);
	ck_assert_uint_eq(attr.hca_core_clock, today.hca_core_clock);

	/* Not more than was asked for. */
	attr.comp_mask = 0;
	ck_assert_int_eq(ibv_exp_query_device(context, &attr), 0);
	ck_assert_uint_eq(attr.comp_mask, 0);
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED;
	ck_assert_int_eq(ibv_exp_query_device(context, &attr), EINVAL);
	fixture_close(context);
}
END_TEST

START_TEST(port_attributes)
{
	struct ibv_exp_port_attr attr = {.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1,
					 .mask1 = IBV_EXP_QUERY_PORT_LINK_LAYER};
	struct ibv_context *context = fixture_open();

	ck_assert_int_eq(ibv_exp_query_port(context, 1, &attr), 0);
	ck_assert_int_eq(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	ck_assert_int_eq(attr.state, IBV_PORT_ACTIVE);
	attr.comp_mask = 0;
	ck_assert_int_eq(ibv_exp_query_port(context, 1, &attr), 0);
	ck_assert_int_eq(ibv_exp_query_port(context, 99, &attr), EINVAL);
	attr.comp_mask = IBV_EXP_QUERY_PORT_ATTR_RESERVED;
	ck_assert_int_eq(ibv_exp_query_port(context, 1, &attr), -EINVAL);
	attr = (struct ibv_exp_port_attr){.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1,
					  .mask1 = 1 << 20};
	ck_assert_int_eq(ibv_exp_query_port(context, 1, &attr), -EINVAL);
	fixture_close(context);
}
END_TEST

/* --- queue pairs -------------------------------------------------------------- */

START_TEST(queue_pairs_of_then_and_now)
{
	struct ibv_exp_qp_init_attr init;
	struct ibv_qp *qp;

	open_pair();
	/* What asks for nothing that there isn't: accepted, and granted as little. */
	init = exp_init_attr(&pair, pair.send_cq, 1);
	init.comp_mask = (IBV_EXP_QP_INIT_ATTR_RESERVED - 1) &
			 ~(IBV_EXP_QP_INIT_ATTR_XRCD | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS);
	init.max_inl_recv = 64;
	init.max_atomic_arg = 8;
	qp = ibv_exp_create_qp(pair.context, &init);
	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_eq(init.max_inl_recv, 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	close_pair();
}
END_TEST

static const struct {
	const char *what;
	struct ibv_exp_qp_init_attr attr; /* what is added */
	int error;
} refused_qps[] = {
	{"cross-channel",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
	  .exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL},
	 ENOSYS},
	{"managed send queue",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
	  .exp_create_flags = IBV_EXP_QP_CREATE_MANAGED_SEND},
	 ENOSYS},
	{"big-endian atomics",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
	  .exp_create_flags = IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY},
	 ENOSYS},
	{"UMR",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
	  .exp_create_flags = IBV_EXP_QP_CREATE_UMR},
	 ENOSYS},
	{"KLMs without UMR", {.comp_mask = IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS}, EINVAL},
	{"unknown flag",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .exp_create_flags = 1},
	 EINVAL},
	{"group",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_QPG, .qpg = {.qpg_type = IBV_EXP_QPG_PARENT}},
	 ENOSYS},
	{"wide atomics",
	 {.comp_mask = IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, .max_atomic_arg = 16},
	 ENOSYS},
	{"DC initiator", {.qp_type = (enum ibv_qp_type)32}, ENOSYS},
	{"unknown extension", {.comp_mask = IBV_EXP_QP_INIT_ATTR_RESERVED}, EINVAL},
};

START_TEST(queue_pairs_that_are_refused)
{
	struct ibv_exp_qp_init_attr init;

	open_pair();
	init = exp_init_attr(&pair, pair.send_cq, 1);
	init.comp_mask |= refused_qps[_i].attr.comp_mask;
	init.exp_create_flags = refused_qps[_i].attr.exp_create_flags;
	init.qpg = refused_qps[_i].attr.qpg;
	init.max_atomic_arg = refused_qps[_i].attr.max_atomic_arg;
	if (refused_qps[_i].attr.qp_type)
		init.qp_type = refused_qps[_i].attr.qp_type;
	errno = 0;
	ck_assert_ptr_null(ibv_exp_create_qp(pair.context, &init));
	ck_assert_msg(errno == refused_qps[_i].error, "%s: errno %d", refused_qps[_i].what, errno);
	close_pair();
}
END_TEST

START_TEST(modifying_what_there_is_not)
{
	struct ibv_exp_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	open_pair();
	ck_assert_int_eq(ibv_exp_modify_qp(pair.sender, &attr, IBV_EXP_QP_DC_KEY), ENOSYS);
	ck_assert_int_eq(ibv_exp_modify_qp(pair.sender, &attr, IBV_EXP_QP_GROUP_RSS), ENOSYS);
	ck_assert_int_eq(ibv_exp_modify_qp(pair.sender, &attr, IBV_EXP_START_FLAG), EINVAL);
	attr.comp_mask = IBV_EXP_QP_ATTR_RESERVED;
	ck_assert_int_eq(ibv_exp_modify_qp(pair.sender, &attr, IBV_EXP_QP_STATE), EINVAL);
	close_pair();
}
END_TEST

/* --- sending and completions ----------------------------------------------------- */

START_TEST(operations)
{
	struct ibv_sge sge;
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc;

	open_pair();
	sge = send_sge(&pair, 8);
	memcpy(pair.buffer, "12345678", 8);
	wr = exp_write(&pair, &sge, 1);
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	wc = exp_wait(pair.send_cq);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.exp_opcode, IBV_EXP_WC_RDMA_WRITE);
	ck_assert_uint_eq(wc.qp_num, pair.sender->qp_num);
	ck_assert_mem_eq(pair.buffer + BUFFER_SIZE, "12345678", 8);

	wr.exp_opcode = IBV_EXP_WR_RDMA_READ;
	memset(pair.buffer, 0, 8);
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	ck_assert_int_eq(exp_wait(pair.send_cq).exp_opcode, IBV_EXP_WC_RDMA_READ);
	ck_assert_mem_eq(pair.buffer, "12345678", 8);

	wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)pair.buffer + BUFFER_SIZE;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.rkey = pair.mr->rkey;
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	ck_assert_int_eq(exp_wait(pair.send_cq).exp_opcode, IBV_EXP_WC_FETCH_ADD);
	ck_assert_mem_eq(pair.buffer + BUFFER_SIZE, "22345678", 8);

	post_receive(&pair, 7);
	wr = exp_write(&pair, &sge, 2);
	wr.exp_opcode = IBV_EXP_WR_SEND_WITH_IMM;
	wr.ex.imm_data = 0x12345678;
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	wc = exp_wait(pair.recv_cq);
	ck_assert_int_eq(wc.exp_opcode, IBV_EXP_WC_RECV);
	ck_assert_uint_eq(wc.exp_wc_flags, IBV_EXP_WC_WITH_IMM);
	ck_assert_uint_eq(wc.imm_data, 0x12345678);
	ck_assert_uint_eq(wc.byte_len, 8);
	ck_assert_int_eq(exp_wait(pair.send_cq).exp_opcode, IBV_EXP_WC_SEND);
	close_pair();
}
END_TEST

/* A long list; the one that can't be posted is told, those before it are. */
START_TEST(lists)
{
	struct ibv_exp_send_wr wrs[MANY], *bad;
	const int wrong[] = {0, 15, 16, 17, MANY - 1};
	struct ibv_exp_wc wcs[2 * DEPTH];
	struct ibv_sge sge;
	struct ibv_qp *qp;
	int done = 0;

	open_pair();
	qp = exp_create_qp(&pair, pair.send_cq, MANY);
	sge = send_sge(&pair, 8);
	for (int i = 0; i < MANY; i++) {
		wrs[i] = exp_write(&pair, &sge, i);
		wrs[i].next = i + 1 < MANY ? &wrs[i + 1] : NULL;
		wrs[i].exp_send_flags = i % 2 ? IBV_EXP_SEND_SIGNALED : 0;
	}
	ck_assert_int_eq(ibv_exp_post_send(qp, wrs, &bad), 0);
	while (done < MANY / 2) {
		int count = ibv_exp_poll_cq(pair.send_cq, 2 * DEPTH, wcs, sizeof(wcs[0]));

		ck_assert_int_ge(count, 0);
		for (int i = 0; i < count; i++)
			ck_assert_uint_eq(wcs[i].wr_id, 2 * done++ + 1);
	}
	for (size_t w = 0; w < sizeof(wrong) / sizeof(wrong[0]); w++) {
		wrs[wrong[w]].num_sge = 99;
		ck_assert_int_eq(ibv_exp_post_send(qp, wrs, &bad), EINVAL);
		ck_assert_ptr_eq(bad, &wrs[wrong[w]]);
		wrs[wrong[w]].num_sge = 1;
		for (done = 0; done < wrong[w] / 2;)
			done += ibv_exp_poll_cq(pair.send_cq, 2 * DEPTH, wcs, sizeof(wcs[0]));
		ck_assert_int_eq(done, wrong[w] / 2);
		/* And what the layer itself doesn't take. */
		wrs[wrong[w]].exp_opcode = IBV_EXP_WR_NOP;
		ck_assert_int_eq(ibv_exp_post_send(qp, wrs, &bad), -ENOSYS);
		ck_assert_ptr_eq(bad, &wrs[wrong[w]]);
		wrs[wrong[w]].exp_opcode = IBV_EXP_WR_RDMA_WRITE;
		for (done = 0; done < wrong[w] / 2;)
			done += ibv_exp_poll_cq(pair.send_cq, 2 * DEPTH, wcs, sizeof(wcs[0]));
		ck_assert_int_eq(done, wrong[w] / 2);
	}
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	close_pair();
}
END_TEST

/* Programs compiled with other versions of the structure. */
START_TEST(elements_of_other_sizes)
{
	const uint32_t sizes[] = {48, sizeof(struct ibv_exp_wc), sizeof(struct ibv_exp_wc) + 40};
	uint8_t array[2 * (sizeof(struct ibv_exp_wc) + 40)];
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;

	open_pair();
	sge = send_sge(&pair, 8);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int done = 0;

		memset(array, 0xee, sizeof(array));
		for (int k = 0; k < 2; k++) {
			wr = exp_write(&pair, &sge, 1000 + k);
			ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
		}
		while (done < 2)
			done += ibv_exp_poll_cq(pair.send_cq, 2 - done,
						(struct ibv_exp_wc *)(array + done * sizes[i]),
						sizes[i]);
		for (int k = 0; k < 2; k++) {
			uint64_t wr_id;

			memcpy(&wr_id, array + k * sizes[i], sizeof(wr_id));
			ck_assert_uint_eq(wr_id, 1000 + k);
		}
		ck_assert_uint_eq(array[2 * sizes[i] - 1], 0);
		if (2 * sizes[i] < sizeof(array))
			ck_assert_uint_eq(array[2 * sizes[i]], 0xee);
	}
	close_pair();
}
END_TEST

static const struct {
	enum ibv_exp_wr_opcode opcode;
	uint64_t flags;
	uint32_t comp_mask;
	int error;
} refused_requests[] = {
	{IBV_EXP_WR_SEND_ENABLE, 0, 0, -ENOSYS},
	{IBV_EXP_WR_RECV_ENABLE, 0, 0, -ENOSYS},
	{IBV_EXP_WR_CQE_WAIT, 0, 0, -ENOSYS},
	{IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, IBV_EXP_SEND_EXT_ATOMIC_INLINE, 0, -ENOSYS},
	{IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 0, 0, -ENOSYS},
	{IBV_EXP_WR_UMR_FILL, 0, 0, -ENOSYS},
	{IBV_EXP_WR_UMR_INVALIDATE, 0, 0, -ENOSYS},
	{(enum ibv_exp_wr_opcode)7, 0, 0, -ENOSYS},
	{IBV_EXP_WR_RDMA_WRITE, IBV_EXP_SEND_WITH_CALC, 0, -ENOSYS},
	{IBV_EXP_WR_RDMA_WRITE, IBV_EXP_SEND_WAIT_EN_LAST, 0, -ENOSYS},
	{IBV_EXP_WR_RDMA_WRITE, 0, IBV_EXP_SEND_WR_ATTR_RESERVED, EINVAL},
};

START_TEST(requests_that_are_refused)
{
	struct ibv_exp_send_wr wr;
	struct ibv_sge sge;

	open_pair();
	sge = send_sge(&pair, 8);
	wr = exp_write(&pair, &sge, 1);
	wr.exp_opcode = refused_requests[_i].opcode;
	wr.exp_send_flags = refused_requests[_i].flags;
	wr.comp_mask = refused_requests[_i].comp_mask;
	ck_assert_int_eq(exp_post(pair.sender, &wr), refused_requests[_i].error);
	close_pair();
}
END_TEST

/* --- what there is not ------------------------------------------------------------------ */

START_TEST(vendors_calls)
{
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND}, *bad = NULL;
	struct ibv_exp_dct dct = {.dct_num = 0};
	struct ibv_exp_mkey_list_container container = {.max_klm_list_size = 0};
	struct ibv_exp_flow_attr flow = {.size = sizeof(flow), .port = 1};

	open_pair();
#define NOTHING(call)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		ck_assert_ptr_null(call);                                                          \
		ck_assert_int_eq(errno, ENOSYS);                                                   \
	} while (0)
	NOTHING(ibv_exp_create_dct(pair.context, &(struct ibv_exp_dct_init_attr){.pd = pair.pd}));
	NOTHING(ibv_exp_reg_shared_mr(&(struct ibv_exp_reg_shared_mr_in){.pd = pair.pd}));
	NOTHING(ibv_exp_create_mr(&(struct ibv_exp_create_mr_in){.pd = pair.pd}));
	NOTHING(ibv_exp_alloc_mkey_list_memory(
		&(struct ibv_exp_mkey_list_container_attr){.pd = pair.pd}));
	NOTHING(ibv_exp_create_flow(pair.sender, &flow)); /* no flow steering here */
	ck_assert_int_eq(ibv_exp_destroy_dct(&dct), ENOSYS);
	ck_assert_int_eq(ibv_exp_query_dct(&dct, &(struct ibv_exp_dct_attr){.port = 1}), ENOSYS);
	ck_assert_int_eq(ibv_exp_arm_dct(&dct, &(struct ibv_exp_arm_attr){0}), ENOSYS);
	ck_assert_int_eq(ibv_exp_query_mkey(pair.mr, &(struct ibv_exp_mkey_attr){0}), ENOSYS);
	ck_assert_int_eq(ibv_exp_dealloc_mkey_list_memory(&container), ENOSYS);
	ck_assert_int_eq(ibv_exp_post_task(pair.context, &task, &bad), ENOSYS);
	ck_assert_ptr_eq(bad, &task);
	close_pair();
}
END_TEST

START_TEST(functions_of_the_provider)
{
	int (*poll)(struct ibv_cq *, int, struct ibv_exp_wc *, uint32_t);
	int (*send)(struct ibv_qp *, struct ibv_exp_send_wr *, struct ibv_exp_send_wr **);
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_exp_wc wc;
	struct ibv_sge sge;

	open_pair();
	sge = send_sge(&pair, 8);
	wr = exp_write(&pair, &sge, 5);
	send = ibv_exp_get_provider_func(pair.context, IBV_EXP_POST_SEND_FUNC);
	poll = ibv_exp_get_provider_func(pair.context, IBV_EXP_POLL_CQ_FUNC);
	ck_assert_int_eq(send(pair.sender, &wr, &bad), 0);
	while (poll(pair.send_cq, 1, &wc, sizeof(wc)) == 0)
		;
	ck_assert_uint_eq(wc.wr_id, 5);
	ck_assert_ptr_nonnull(ibv_exp_get_provider_func(pair.context, IBV_POST_RECV_FUNC));
	ck_assert_ptr_null(ibv_exp_get_provider_func(pair.context, (enum ibv_exp_func_name)9));
	close_pair();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exp");
	TCase *tests = tcase_create("exp");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, device_attributes);
	tcase_add_test(tests, port_attributes);
	tcase_add_test(tests, queue_pairs_of_then_and_now);
#define LOOP(test, table) tcase_add_loop_test(tests, test, 0, sizeof(table) / sizeof((table)[0]))
	LOOP(queue_pairs_that_are_refused, refused_qps);
	tcase_add_test(tests, modifying_what_there_is_not);
	tcase_add_test(tests, operations);
	tcase_add_test(tests, lists);
	tcase_add_test(tests, elements_of_other_sizes);
	LOOP(requests_that_are_refused, refused_requests);
	tcase_add_test(tests, vendors_calls);
	tcase_add_test(tests, functions_of_the_provider);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
