/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explanations name lines of the application: of the call that is refused, and of those that made
 * the objects it is about. Compiled with and without optimization: then verbs that are inline
 * functions of the headers have a frame of their own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/fixture.h"

#define NO_INLINE __attribute__((noinline))
#define LINE_OF_NEXT (__LINE__ + 1)

static struct said said;

static void expect(const char *before, int line, const char *function)
{
	char expected[128];

	snprintf(expected, sizeof(expected), "%stest_origins.c:%d (%s)", before, line, function);
	ck_assert_msg(strstr(said.text, expected), "no \"%s\" in:\n%s", expected, said.text);
}

static NO_INLINE int modify_without_grh(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_RESET};
	int line;

	ck_assert_int_eq(ibv_modify_qp(qp, &init, IBV_QP_STATE), 0);
	init.qp_state = IBV_QPS_INIT;
	init.port_num = attr.ah_attr.port_num = 1;
	ck_assert_int_eq(
		ibv_modify_qp(qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	line = LINE_OF_NEXT;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), EINVAL);
	return line;
}

START_TEST(a_refused_call_has_a_place)
{
	struct pair pair;
	int line;

	said_begin(&said);
	pair_open(&pair, IBV_QPT_RC, 0);
	line = modify_without_grh(pair.sender);
	pair_close(&pair);
	said_end(&said);
	expect("\n    called at ", line, "modify_without_grh");
}
END_TEST

/* ibv_post_send() is an inline function. */
static NO_INLINE int post_too_early(struct pair *pair)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_sge sge = send_sge(pair, 8);
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	int line, error;

	ck_assert_int_eq(ibv_modify_qp(pair->sender, &attr, IBV_QP_STATE), 0);
	line = LINE_OF_NEXT;
	error = ibv_post_send(pair->sender, &wr, &bad);
	ck_assert_int_eq(error, EINVAL);
	return line;
}

START_TEST(a_refused_post_has_a_place)
{
	struct pair pair;
	int line;

	said_begin(&said);
	pair_open(&pair, IBV_QPT_RC, 0);
	line = post_too_early(&pair);
	pair_close(&pair);
	said_end(&said);
	expect("\n    called at ", line, "post_too_early");
}
END_TEST

START_TEST(what_uses_an_object_has_a_place)
{
	struct pair pair;

	said_begin(&said);
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_dealloc_pd(pair.pd), EBUSY);
	pair_close(&pair);
	said_end(&said);
	ck_assert_msg(strstr(said.text, "\n    a queue pair was created at fixture.c:"), "%s",
		      said.text);
}
END_TEST

START_TEST(without_explanations_it_has_none)
{
	struct pair pair;

	setenv("URXE_EXPLAIN", "0", 1);
	said_begin(&said);
	pair_open(&pair, IBV_QPT_RC, 0);
	modify_without_grh(pair.sender);
	pair_close(&pair);
	said_end(&said);
	ck_assert_msg(strstr(said.text, " warn: 0x4001 "), "%s", said.text);
	ck_assert_msg(!strstr(said.text, "test_origins.c"), "%s", said.text);
}
END_TEST

/* ibv_reg_mr() is a macro and an inline function. */
static NO_INLINE struct ibv_mr *register_read_only(struct pair *pair, int *line)
{
	struct ibv_mr *mr;

	*line = LINE_OF_NEXT;
	mr = ibv_reg_mr(pair->pd, pair->buffer, 64, IBV_ACCESS_REMOTE_READ);
	ck_assert_ptr_nonnull(mr);
	return mr;
}

static NO_INLINE int deregister(struct ibv_mr *mr)
{
	int line = LINE_OF_NEXT;
	int error = ibv_dereg_mr(mr);

	ck_assert_int_eq(error, 0);
	return line;
}

static void write_to(struct pair *pair, uint32_t rkey)
{
	struct ibv_sge sge = send_sge(pair, 8);
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {(uintptr_t)pair->buffer, rkey},
				 };

	ck_assert_int_eq(ibv_post_send(pair->sender, &wr, &bad), 0);
	ck_assert_int_eq(wait_completion(pair->send_cq).status, IBV_WC_REM_ACCESS_ERR);
}

START_TEST(a_region_has_the_place_of_its_registration)
{
	struct pair pair;
	struct ibv_mr *mr;
	int line;

	said_begin(&said);
	pair_open(&pair, IBV_QPT_RC, 0);
	mr = register_read_only(&pair, &line);
	write_to(&pair, mr->rkey);
	deregister(mr);
	pair_close(&pair);
	said_end(&said);
	expect(", registered at ", line, "register_read_only");
	ck_assert_msg(strstr(said.text, " with REMOTE_READ only: it lacks REMOTE_WRITE"), "%s",
		      said.text);
	ck_assert_msg(strstr(said.text, "(RC, created at fixture.c:"), "%s", said.text);
}
END_TEST

START_TEST(a_former_region_has_those_of_its_end_too)
{
	struct pair pair;
	struct ibv_mr *mr;
	int line, end;
	uint32_t key;

	said_begin(&said);
	pair_open(&pair, IBV_QPT_RC, 0);
	mr = register_read_only(&pair, &line);
	key = mr->rkey;
	end = deregister(mr);
	write_to(&pair, key);
	pair_close(&pair);
	said_end(&said);
	ck_assert_msg(strstr(said.text, "nothing has that key; it was a region of 64 bytes at 0x"),
		      "%s", said.text);
	expect(", registered at ", line, "register_read_only");
	expect(", deregistered at ", end, "deregister");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("origins");
	TCase *tests = tcase_create("origins");

	fixture_environment();
	setenv("URXE_EXPLAIN", "1", 1);
	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, a_refused_call_has_a_place);
	tcase_add_test(tests, a_refused_post_has_a_place);
	tcase_add_test(tests, what_uses_an_object_has_a_place);
	tcase_add_test(tests, without_explanations_it_has_none);
	tcase_add_test(tests, a_region_has_the_place_of_its_registration);
	tcase_add_test(tests, a_former_region_has_those_of_its_end_too);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
