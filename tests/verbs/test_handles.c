/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects whose handle is another than they were made with: the kernel knows none such.
 * And errno, which calls leave as they return it.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

#define NO_HANDLE 0xdead

static struct pair pair;
static struct ibv_srq *srq;
static struct ibv_mw *mw;
static struct ibv_ah *ah;

static struct ibv_ah *create_ah(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64};

	ck_assert_int_eq(ibv_query_gid(pair.context, 1, 0, &attr.grh.dgid), 0);
	return ibv_create_ah(pd, &attr);
}

static struct ibv_srq *create_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};

	return ibv_create_srq(pd, &attr);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = pair.send_cq,
		.recv_cq = pair.recv_cq,
		.srq = srq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(pd, &attr);
}

static struct ibv_pd *create_parent(struct ibv_pd *pd)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};

	return ibv_alloc_parent_domain(pair.context, &attr);
}

static void setup(void)
{
	pair_open(&pair, IBV_QPT_RC, 0);
	srq = create_srq(pair.pd);
	mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	ah = create_ah(pair.pd);
	ck_assert_ptr_nonnull(srq);
	ck_assert_ptr_nonnull(mw);
	ck_assert_ptr_nonnull(ah);
}

/* With the handles that they had, all of them still work. */
static void teardown(void)
{
	ck_assert_int_eq(post_write(&pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	pair_close(&pair);
}

/* @call returns @error, and leaves it in errno. */
#define ck_returns(call, error)                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		ck_assert_int_eq(call, error);                                                     \
		ck_assert_int_eq(errno, error);                                                    \
	} while (0)

#define ck_not_made(call)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		ck_assert_ptr_null(call);                                                          \
		ck_assert_int_eq(errno, EINVAL);                                                   \
	} while (0)

/* --- using and destroying ------------------------------------------------------------- */

static void use_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_send_wr send = {}, *bad_send;
	struct ibv_recv_wr receive = {}, *bad_receive;
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 0xe0, [15] = 1}};
	struct ibv_mw_bind bind = {};

	ck_returns(ibv_modify_qp(qp, &attr, IBV_QP_STATE), ENOENT);
	ck_returns(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), ENOENT);
	ck_returns(ibv_post_send(qp, &send, &bad_send), ENOENT);
	ck_assert_ptr_eq(bad_send, &send);
	ck_returns(ibv_post_recv(qp, &receive, &bad_receive), ENOENT);
	ck_assert_ptr_eq(bad_receive, &receive);
	ck_returns(ibv_attach_mcast(qp, &group, 0), ENOENT);
	ck_returns(ibv_detach_mcast(qp, &group, 0), ENOENT);
	ck_returns(ibv_bind_mw(qp, mw, &bind), ENOENT);
	ck_returns(ibv_destroy_qp(qp), ENOENT);
}

static void use_cq(struct ibv_cq *cq)
{
	ck_returns(ibv_resize_cq(cq, 8), ENOENT);
	ck_returns(ibv_req_notify_cq(cq, 0), ENOENT);
	ck_returns(ibv_destroy_cq(cq), ENOENT);
}

static void use_srq(void)
{
	struct ibv_srq_attr attr = {.srq_limit = 1};
	struct ibv_recv_wr wr = {}, *bad;

	ck_returns(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), ENOENT);
	ck_returns(ibv_query_srq(srq, &attr), ENOENT);
	ck_returns(ibv_post_srq_recv(srq, &wr, &bad), ENOENT);
	ck_assert_ptr_eq(bad, &wr);
	ck_returns(ibv_destroy_srq(srq), ENOENT);
}

static void use_mr(struct ibv_mr *mr)
{
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .length = 1}};

	bind.bind_info.addr = (uintptr_t)mr->addr;
	errno = 0;
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);
	ck_returns(ibv_bind_mw(pair.sender, mw, &bind), ENOENT);
	ck_returns(ibv_dereg_mr(mr), ENOENT);
}

static void use_mw(void)
{
	struct ibv_mw_bind bind = {};

	ck_returns(ibv_bind_mw(pair.sender, mw, &bind), ENOENT);
	ck_returns(ibv_dealloc_mw(mw), ENOENT);
}

/* The handles that tests use: never given, none, that of another object. */
static uint32_t wrong_handle(int i)
{
	const uint32_t handles[] = {NO_HANDLE, 0, UINT32_MAX, pair.pd->handle};

	return handles[i];
}
#define WRONG_HANDLES 4

#define WITH_WRONG_HANDLE(object, use)                                                             \
	do {                                                                                       \
		uint32_t handle = (object)->handle;                                                \
		(object)->handle = wrong_handle(_i);                                               \
		use;                                                                               \
		(object)->handle = handle;                                                         \
	} while (0)

START_TEST(used)
{
	WITH_WRONG_HANDLE(pair.sender, use_qp(pair.sender));
	WITH_WRONG_HANDLE(pair.send_cq, use_cq(pair.send_cq));
	WITH_WRONG_HANDLE(pair.recv_cq, use_cq(pair.recv_cq));
	WITH_WRONG_HANDLE(srq, use_srq());
	WITH_WRONG_HANDLE(pair.mr, use_mr(pair.mr));
	WITH_WRONG_HANDLE(mw, use_mw());
	WITH_WRONG_HANDLE(ah, ck_returns(ibv_destroy_ah(ah), ENOENT));
}
END_TEST

/* --- creating ----------------------------------------------------------------------------- */

static void create_in(struct ibv_pd *pd)
{
	static char byte;

	ck_not_made(ibv_reg_mr(pd, &byte, 1, 0));
	ck_not_made(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	ck_not_made(create_ah(pd));
	ck_not_made(create_srq(pd));
	ck_not_made(create_qp(pd));
	ck_not_made(create_parent(pd));
	errno = 0;
	ck_assert_int_eq(ibv_rereg_mr(pair.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);
	ck_returns(ibv_dealloc_pd(pd), ENOENT);
}

START_TEST(created)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.context), *parent;

	ck_assert_ptr_nonnull(pd);
	parent = create_parent(pd);
	ck_assert_ptr_nonnull(parent);
	WITH_WRONG_HANDLE(pd, create_in(pd));
	if (wrong_handle(_i) != parent->handle)
		WITH_WRONG_HANDLE(parent, create_in(parent));
	WITH_WRONG_HANDLE(pair.send_cq, ck_not_made(create_qp(pair.pd)));
	WITH_WRONG_HANDLE(pair.recv_cq, ck_not_made(create_qp(pair.pd)));
	WITH_WRONG_HANDLE(srq, ck_not_made(create_qp(pair.pd)));
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}
END_TEST

/* --- errno ---------------------------------------------------------------------------------- */

START_TEST(busy)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.context), *parent;
	struct ibv_td_init_attr attr = {};
	struct ibv_td *td = ibv_alloc_td(pair.context, &attr);
	struct ibv_parent_domain_init_attr parent_attr = {.pd = pd, .td = td};
	static char byte;
	void *object;

#define BUSY_WITH(create, destroy)                                                                 \
	do {                                                                                       \
		object = create;                                                                   \
		ck_assert_ptr_nonnull(object);                                                     \
		ck_returns(ibv_dealloc_pd(pd), EBUSY);                                             \
		ck_assert_int_eq(destroy(object), 0);                                              \
	} while (0)

	BUSY_WITH(ibv_reg_mr(pd, &byte, 1, 0), ibv_dereg_mr);
	BUSY_WITH(ibv_alloc_mw(pd, IBV_MW_TYPE_2), ibv_dealloc_mw);
	BUSY_WITH(create_ah(pd), ibv_destroy_ah);
	BUSY_WITH(create_srq(pd), ibv_destroy_srq);
	BUSY_WITH(create_qp(pd), ibv_destroy_qp);
	parent = ibv_alloc_parent_domain(pair.context, &parent_attr);
	ck_assert_ptr_nonnull(parent);
	ck_returns(ibv_dealloc_pd(pd), EBUSY);
	ck_returns(ibv_dealloc_td(td), EBUSY);
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	ck_assert_int_eq(ibv_dealloc_td(td), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_returns(ibv_destroy_cq(pair.send_cq), EBUSY);
	ck_returns(ibv_destroy_comp_channel(pair.channel), EBUSY);
}
END_TEST

START_TEST(invalid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	struct ibv_recv_wr wr = {.num_sge = DEPTH}, *bad;

	ck_returns(ibv_modify_qp(pair.sender, &attr, IBV_QP_STATE), EINVAL);
	ck_returns(ibv_query_port(pair.context, 2, &port), EINVAL);
	ck_returns(ibv_query_gid_ex(pair.context, 1, 1000, &entry, 0), ENODATA);
	ck_returns(ibv_post_recv(pair.receiver, &wr, &bad), EINVAL);
	ck_returns(ibv_resize_cq(pair.send_cq, 0), EINVAL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("handles");
	TCase *tests = tcase_create("handles");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_loop_test(tests, used, 0, WRONG_HANDLES);
	tcase_add_loop_test(tests, created, 0, WRONG_HANDLES);
	tcase_add_test(tests, busy);
	tcase_add_test(tests, invalid);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
