/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues of the experimental verbs: timestamps, moderation, and what is refused. */
#include <infiniband/verbs_exp.h>

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

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

START_TEST(completion_queues_that_are_refused)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS};
	struct ibv_exp_cq_attr modify = {.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};

	attr.flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL;
	ck_assert_ptr_null(ibv_exp_create_cq(pair.context, 1, NULL, NULL, 0, &attr));
	ck_assert_int_eq(errno, ENOSYS);
	attr.flags = IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME;
	ck_assert_ptr_null(ibv_exp_create_cq(pair.context, 1, NULL, NULL, 0, &attr));
	ck_assert_int_eq(errno, EINVAL);
	attr.comp_mask = IBV_EXP_CQ_INIT_ATTR_RESERVED;
	ck_assert_ptr_null(ibv_exp_create_cq(pair.context, 1, NULL, NULL, 0, &attr));
	ck_assert_int_eq(errno, EINVAL);

	ck_assert_int_eq(ibv_exp_modify_cq(pair.send_cq, &modify, IBV_EXP_CQ_CAP_FLAGS), ENOSYS);
	modify.cq_cap_flags = 2;
	ck_assert_int_eq(ibv_exp_modify_cq(pair.send_cq, &modify, IBV_EXP_CQ_CAP_FLAGS), EINVAL);
	ck_assert_int_eq(ibv_exp_modify_cq(pair.send_cq, &modify, 4), EINVAL);
	modify.comp_mask = IBV_EXP_CQ_ATTR_RESERVED;
	ck_assert_int_eq(ibv_exp_modify_cq(pair.send_cq, &modify, 0), EINVAL);
}
END_TEST

/* A QP connected to itself whose completions are timed: one WRITE, and when it was done. */
static uint64_t timestamp_of_a_write(uint32_t flags)
{
	struct ibv_exp_cq_init_attr attr = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = flags};
	struct ibv_cq *cq = ibv_exp_create_cq(pair.context, DEPTH, &pair, NULL, 0, &attr);
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc;
	struct ibv_sge sge;
	struct ibv_qp *qp;

	ck_assert_ptr_nonnull(cq);
	ck_assert_ptr_eq(cq->cq_context, &pair);
	qp = exp_create_qp(&pair, cq, 1);
	sge = send_sge(&pair, 8);
	wr = exp_write(&pair, &sge, 6);
	ck_assert_int_eq(exp_post(qp, &wr), 0);
	wc = exp_wait(cq);
	ck_assert_uint_eq(wc.wr_id, 6);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.exp_opcode, IBV_EXP_WC_RDMA_WRITE);
	ck_assert_uint_eq(wc.exp_wc_flags, IBV_EXP_WC_WITH_TIMESTAMP);
	/* A CQ without timestamps, meanwhile. */
	ck_assert_int_eq(exp_post(pair.sender, &wr), 0);
	ck_assert_uint_eq(exp_wait(pair.send_cq).exp_wc_flags, 0);
	/* One that can't be destroyed stays what it is. */
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
	ck_assert_int_eq(exp_post(qp, &wr), 0);
	ck_assert_uint_eq(exp_wait(cq).exp_wc_flags, IBV_EXP_WC_WITH_TIMESTAMP);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	return wc.timestamp;
}

START_TEST(timestamps)
{
	struct ibv_exp_values before = {.comp_mask = 0}, after = {.comp_mask = 0};
	const int both = IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS;
	uint64_t stamp;

	ck_assert_int_eq(ibv_exp_query_values(pair.context, both, &before), 0);
	stamp = timestamp_of_a_write(IBV_EXP_CQ_TIMESTAMP);
	ck_assert_int_eq(ibv_exp_query_values(pair.context, both, &after), 0);
	ck_assert_int_eq(after.comp_mask, both);
	ck_assert(before.hwclock <= stamp && stamp <= after.hwclock);
	ck_assert_uint_le(before.hwclock_ns, after.hwclock_ns);
	ck_assert_int_eq(ibv_exp_query_values(pair.context, IBV_EXP_VALUES_RESERVED, &after),
			 EINVAL);
}
END_TEST

START_TEST(timestamps_of_the_wall_clock)
{
	struct timespec before, after;
	uint64_t stamp;

	clock_gettime(CLOCK_REALTIME, &before);
	stamp = timestamp_of_a_write(IBV_EXP_CQ_TIMESTAMP | IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME);
	clock_gettime(CLOCK_REALTIME, &after);
	/* To the second: the two clocks aren't read at once. */
	ck_assert_uint_ge(stamp / 1000000000 + 1, before.tv_sec);
	ck_assert_uint_le(stamp / 1000000000, after.tv_sec + 1);
}
END_TEST

START_TEST(moderation)
{
	struct ibv_exp_cq_attr attr = {.comp_mask = IBV_EXP_CQ_ATTR_MODERATION,
				       .moderation = {.cq_count = 4, .cq_period = 1000}};

	ck_assert_int_eq(ibv_exp_modify_cq(pair.recv_cq, &attr, IBV_EXP_CQ_MODERATION), 0);
	attr.moderation.cq_period = 65535; /* beyond what the device says it can */
	ck_assert_int_eq(ibv_exp_modify_cq(pair.recv_cq, &attr, IBV_EXP_CQ_MODERATION), EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exp_cq");
	TCase *tests = tcase_create("exp_cq");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, open_pair, close_pair);
	tcase_add_test(tests, completion_queues_that_are_refused);
	tcase_add_test(tests, timestamps);
	tcase_add_test(tests, timestamps_of_the_wall_clock);
	tcase_add_test(tests, moderation);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
