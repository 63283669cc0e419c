/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under each installed profile: what the device says is granted, one more is refused, and what it
 * lacks isn't to be had. Numbers of objects are tried with a profile that has few.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "net/newer_verbs.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/own_profile.h"
#include "tests/verbs/profile_file.h"

static char names[PROFILE_FILES][64];
static unsigned int name_count;

static struct ibv_context *context;
static struct ibv_device_attr_ex device;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[4096];

#define LIMIT(name) ((uint32_t)device.orig_attr.name)
#define HAS(flag) ((device.device_cap_flags_ex & (flag)) != 0)

static void open_device(void)
{
	context = fixture_open();
	ck_assert_int_eq(ibv_query_device_ex(context, NULL, &device), 0);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	ck_assert(pd && cq);
}

static void close_device(void)
{
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}

/* @object was made and is given to @destroy, or NULL and wasn't, with @error. */
#define CK_MADE(object, destroy)                                                                   \
	do {                                                                                       \
		void *made = (object);                                                             \
		ck_assert_msg(made, #object ": %s", strerror(errno));                              \
		ck_assert_int_eq(destroy(made), 0);                                                \
	} while (0)
#define CK_REFUSED(object, error)                                                                  \
	do {                                                                                       \
		errno = 0;                                                                         \
		ck_assert_msg(!(object), #object " was made");                                     \
		ck_assert_int_eq(errno, error);                                                    \
	} while (0)
#define CK_MADE_IF(condition, object, destroy)                                                     \
	do {                                                                                       \
		if (condition)                                                                     \
			CK_MADE(object, destroy);                                                  \
		else                                                                               \
			CK_REFUSED(object, EOPNOTSUPP);                                            \
	} while (0)

static struct ibv_qp *make_qp(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	/* No less than was asked for. */
	if (qp)
		ck_assert(attr.cap.max_send_wr >= cap.max_send_wr &&
			  attr.cap.max_recv_wr >= cap.max_recv_wr &&
			  attr.cap.max_send_sge >= cap.max_send_sge &&
			  attr.cap.max_recv_sge >= cap.max_recv_sge &&
			  attr.cap.max_inline_data >= cap.max_inline_data);
	return qp;
}

#define QP(...) make_qp((struct ibv_qp_cap){__VA_ARGS__})

static void ck_queue_pairs(const char *name)
{
	uint32_t wr = LIMIT(max_qp_wr), sge = LIMIT(max_sge), data = 1024;

	if (profile_text(name, "max_inline_data"))
		data = profile_value(name, "max_inline_data");
	CK_REFUSED(QP(wr + 1, 1, 1, 1), EINVAL);
	CK_REFUSED(QP(1, wr + 1, 1, 1), EINVAL);
	CK_REFUSED(QP(1, 1, sge + 1, 1), EINVAL);
	CK_REFUSED(QP(1, 1, 1, sge + 1), EINVAL);
	CK_REFUSED(QP(1, 1, 1, 1, data + 1), EINVAL);
	CK_MADE(QP(1, wr, 1, 1), ibv_destroy_qp);
	CK_MADE(QP(1, 1, sge, sge), ibv_destroy_qp);
	CK_MADE(QP(1, 1, 1, 1, data), ibv_destroy_qp);
	/* Where a queue's memory is limited, the entries don't all have to fit. */
	if (!profile_text(name, "sq_bytes"))
		CK_MADE(QP(wr, 1, 1, 1), ibv_destroy_qp);
}

static struct ibv_srq *make_srq(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};

	return ibv_create_srq(pd, &attr);
}

static void ck_shared_queues(void)
{
	struct ibv_srq_attr attr = {.max_wr = 20};
	struct ibv_srq *srq;

	if (!LIMIT(max_srq)) {
		CK_REFUSED(make_srq(1, 1), EOPNOTSUPP);
		return;
	}
	CK_REFUSED(make_srq(LIMIT(max_srq_wr) + 1, 1), EINVAL);
	CK_REFUSED(make_srq(1, LIMIT(max_srq_sge) + 1), EINVAL);
	CK_MADE(make_srq(LIMIT(max_srq_wr), 1), ibv_destroy_srq);
	CK_MADE(make_srq(1, LIMIT(max_srq_sge)), ibv_destroy_srq);
	srq = make_srq(10, 1);
	ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR),
			 HAS(IBV_DEVICE_SRQ_RESIZE) ? 0 : EINVAL);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
}

static struct ibv_cq *make_cq(uint32_t cqe)
{
	return ibv_create_cq(context, cqe, NULL, NULL, 0);
}

static struct ibv_mr *make_mr(unsigned int access)
{
	return ibv_reg_mr(pd, memory, sizeof(memory), access);
}

static struct ibv_xrcd *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};

	return ibv_open_xrcd(context, &attr);
}

static int close_cq_ex(void *made)
{
	return ibv_destroy_cq(ibv_cq_ex_to_cq(made));
}

static struct ibv_cq_ex *make_stamped_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1,
					   .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};

	return ibv_create_cq_ex(context, &attr);
}

static struct ibv_dm *make_dm(size_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};

	return ibv_alloc_dm(context, &attr);
}

static void ck_capabilities(void)
{
	bool odp = device.odp_caps.general_caps & IBV_ODP_SUPPORT;
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};

	CK_MADE_IF(odp, make_mr(IBV_ACCESS_ON_DEMAND), ibv_dereg_mr);
	CK_MADE_IF(HAS(DEVICE_FLUSH_GLOBAL), make_mr(ACCESS_FLUSH_GLOBAL), ibv_dereg_mr);
	CK_MADE_IF(HAS(IBV_DEVICE_XRC), make_xrcd(), ibv_close_xrcd);
	CK_MADE_IF(LIMIT(max_mw) && HAS(IBV_DEVICE_MEM_WINDOW), ibv_alloc_mw(pd, IBV_MW_TYPE_1),
		   ibv_dealloc_mw);
	CK_MADE_IF(LIMIT(max_mw) &&
			   HAS(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B),
		   ibv_alloc_mw(pd, IBV_MW_TYPE_2), ibv_dealloc_mw);
	CK_MADE_IF(device.completion_timestamp_mask, make_stamped_cq(), close_cq_ex);
	if (!device.max_dm_size) {
		CK_REFUSED(make_dm(64), EOPNOTSUPP);
	} else {
		CK_REFUSED(make_dm(device.max_dm_size + 1), EINVAL);
		CK_MADE(make_dm(device.max_dm_size), ibv_free_dm);
	}
	moderation.moderate.cq_count = device.cq_mod_caps.max_cq_count;
	moderation.moderate.cq_period = device.cq_mod_caps.max_cq_period;
	ck_assert_int_eq(
		ibv_modify_cq(cq, &moderation),
		moderation.moderate.cq_count || moderation.moderate.cq_period ? 0 : EOPNOTSUPP);
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	ck_assert_int_eq(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

static int to_rtr(struct ibv_qp *qp, uint8_t max_dest_rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = max_dest_rd_atomic,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	ck_assert_int_eq(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp, uint8_t max_rd_atomic)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .max_rd_atomic = max_rd_atomic};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void ck_rd_atomic(void)
{
	struct ibv_sge sge = {(uintptr_t)memory, 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_CMP_AND_SWP},
			   *bad;
	struct ibv_qp *qp = QP(1, 1, 1, 1);

	to_init(qp);
	ck_assert_int_eq(to_rtr(qp, LIMIT(max_qp_rd_atom) + 1), EINVAL);
	ck_assert_int_eq(to_rtr(qp, LIMIT(max_qp_rd_atom)), 0);
	ck_assert_int_eq(to_rts(qp, LIMIT(max_qp_init_rd_atom) + 1), EINVAL);
	ck_assert_int_eq(to_rts(qp, LIMIT(max_qp_init_rd_atom)), 0);
	if (device.orig_attr.atomic_cap == IBV_ATOMIC_NONE)
		ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), EINVAL);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
}

START_TEST(limits)
{
	use_profile(names[_i]);
	open_device();
	ck_queue_pairs(names[_i]);
	ck_shared_queues();
	CK_REFUSED(make_cq(LIMIT(max_cqe) + 1), EINVAL);
	CK_MADE(make_cq(LIMIT(max_cqe)), ibv_destroy_cq);
	ck_capabilities();
	ck_rd_atomic();
	close_device();
}
END_TEST

/* --- few of everything ---------------------------------------------------------------------- */

#define FEW 3

/* @make makes FEW of them and no more, and again one when one is destroyed. */
#define CK_FEW(make, destroy)                                                                      \
	do {                                                                                       \
		void *made[FEW];                                                                   \
		for (int i = 0; i < FEW; i++)                                                      \
			ck_assert_ptr_nonnull(made[i] = (make));                                   \
		CK_REFUSED(make, ENOMEM);                                                          \
		ck_assert_int_eq(destroy(made[0]), 0);                                             \
		ck_assert_ptr_nonnull(made[0] = (make));                                           \
		CK_REFUSED(make, ENOMEM);                                                          \
		for (int i = 0; i < FEW; i++)                                                      \
			ck_assert_int_eq(destroy(made[i]), 0);                                     \
	} while (0)

static struct ibv_ah *make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};

	ck_assert_int_eq(ibv_query_gid(context, 1, 0, &attr.grh.dgid), 0);
	return ibv_create_ah(pd, &attr);
}

START_TEST(few_objects)
{
	own_profile("max_qp = 3\nmax_cq = 4\nmax_mr = 3\nmax_mw = 3\nmax_pd = 4\nmax_ah = 3\n"
		    "max_srq = 3\nmax_mr_size = 4096\n");
	open_device(); /* has a PD and a CQ */
	CK_FEW(QP(1, 1, 1, 1), ibv_destroy_qp);
	CK_FEW(make_cq(1), ibv_destroy_cq);
	CK_FEW(make_mr(0), ibv_dereg_mr);
	CK_FEW(ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_dealloc_mw);
	CK_FEW(ibv_alloc_pd(context), ibv_dealloc_pd);
	CK_FEW(make_ah(), ibv_destroy_ah);
	CK_FEW(make_srq(1, 1), ibv_destroy_srq);
	CK_REFUSED(ibv_reg_mr(pd, memory, sizeof(memory) + 1, 0), EINVAL);
	close_device();
}
END_TEST

START_TEST(nothing_beyond_the_basics)
{
	struct ibv_sge sge = {(uintptr_t)memory, 8, 0};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_qp_init_attr_ex attr = {
		.cap = {1, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};

	own_profile(
		"device_cap_flags = 0\ndevice_cap_flags_ex = 0\nmax_srq = 0\nmax_mw = 0\n"
		"max_mcast_grp = 0\nmax_dm_size = 0\nmax_cq_count = 0\nmax_cq_period = 0\n"
		"completion_timestamp_mask = 0\nodp = no\natomic_cap = none\ncreate_flags = 0\n");
	open_device();
	ck_assert_uint_eq(device.device_cap_flags_ex, 0);
	ck_shared_queues();
	ck_capabilities();
	ck_rd_atomic();
	ck_assert_int_eq(
		ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		EOPNOTSUPP);
	ck_assert_int_eq(ibv_query_rt_values_ex(context, &values), EOPNOTSUPP);
	attr.pd = pd;
	attr.send_cq = attr.recv_cq = cq;
	CK_REFUSED(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	CK_REFUSED(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	CK_MADE(ibv_create_qp_ex(context, &attr), ibv_destroy_qp);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	attr.qp_type = IBV_QPT_UD;
	CK_REFUSED(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	close_device();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("profile_limits");
	TCase *tests = tcase_create("profile_limits");

	fixture_environment();
	name_count = profile_names(names);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, limits, 0, name_count);
	tcase_add_test(tests, few_objects);
	tcase_add_test(tests, nothing_beyond_the_basics);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
