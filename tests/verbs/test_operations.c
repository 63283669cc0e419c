/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device lacks: operations of verbs_context that aren't there make the inline functions
 * of verbs.h report EOPNOTSUPP, and nothing in the device's attributes promises them.
 */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

/* Never created: enough of each for an inline function to find the context. */
static struct ibv_qp qp;
static struct ibv_srq srq;
static struct ibv_wq wq;
static struct ibv_flow flow;
static struct ibv_flow_action action;
static struct ibv_counters counters;
static struct ibv_rwq_ind_table table;
static struct ibv_dm dm;

static void setup(void)
{
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	ck_assert_ptr_nonnull(pd);
	qp.context = srq.context = wq.context = flow.context = action.context = context;
	counters.context = table.context = dm.context = context;
}

static void teardown(void)
{
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}

/* --- one call of each, which returns its error -------------------------------------- */

#define GIVES_POINTER(name, call)                                                                  \
	static int call_##name(void)                                                               \
	{                                                                                          \
		errno = 0;                                                                         \
		return (call) ? 0 : errno;                                                         \
	}
#define GIVES_ERROR(name, call)                                                                    \
	static int call_##name(void)                                                               \
	{                                                                                          \
		return call;                                                                       \
	}

GIVES_POINTER(create_flow, ibv_create_flow(&qp, &(struct ibv_flow_attr){}))
GIVES_ERROR(destroy_flow, ibv_destroy_flow(&flow))
GIVES_POINTER(create_flow_action_esp,
	      ibv_create_flow_action_esp(context, &(struct ibv_flow_action_esp_attr){}))
GIVES_ERROR(modify_flow_action_esp,
	    ibv_modify_flow_action_esp(&action, &(struct ibv_flow_action_esp_attr){}))
GIVES_ERROR(destroy_flow_action, ibv_destroy_flow_action(&action))
GIVES_POINTER(create_wq, ibv_create_wq(context, &(struct ibv_wq_init_attr){}))
GIVES_ERROR(modify_wq, ibv_modify_wq(&wq, &(struct ibv_wq_attr){}))
GIVES_ERROR(destroy_wq, ibv_destroy_wq(&wq))
GIVES_POINTER(create_rwq_ind_table,
	      ibv_create_rwq_ind_table(context, &(struct ibv_rwq_ind_table_init_attr){}))
GIVES_ERROR(destroy_rwq_ind_table, ibv_destroy_rwq_ind_table(&table))
GIVES_ERROR(modify_qp_rate_limit, ibv_modify_qp_rate_limit(&qp, &(struct ibv_qp_rate_limit_attr){}))
GIVES_POINTER(create_counters, ibv_create_counters(context, &(struct ibv_counters_init_attr){}))
GIVES_ERROR(destroy_counters, ibv_destroy_counters(&counters))
GIVES_ERROR(attach_counters_point_flow,
	    ibv_attach_counters_point_flow(&counters, &(struct ibv_counter_attach_attr){}, &flow))
GIVES_ERROR(read_counters, ibv_read_counters(&counters, &(uint64_t){0}, 1, 0))
GIVES_ERROR(advise_mr, ibv_advise_mr(pd, 0, 0, NULL, 0))
GIVES_POINTER(alloc_null_mr, ibv_alloc_null_mr(pd))
GIVES_POINTER(alloc_dm, ibv_alloc_dm(context, &(struct ibv_alloc_dm_attr){.length = 64}))
GIVES_ERROR(free_dm, ibv_free_dm(&dm))
GIVES_POINTER(reg_dm_mr, ibv_reg_dm_mr(pd, &dm, 0, 64, 0))
GIVES_POINTER(open_xrcd, ibv_open_xrcd(context, &(struct ibv_xrcd_init_attr){}))
GIVES_POINTER(open_qp, ibv_open_qp(context, &(struct ibv_qp_open_attr){}))
GIVES_ERROR(get_srq_num, ibv_get_srq_num(&srq, &(uint32_t){0}))

static int call_post_srq_ops(void)
{
	struct ibv_ops_wr wr = {}, *bad = NULL;
	int error = ibv_post_srq_ops(&srq, &wr, &bad);

	ck_assert_ptr_eq(bad, &wr);
	return error;
}

/* ibv_close_xrcd() looks for nothing before it calls. */
static int call_close_xrcd(void)
{
	ck_assert_ptr_null(verbs_get_ctx(context)->open_xrcd);
	return EOPNOTSUPP;
}

/* --- the operations ------------------------------------------------------------------- */

struct operation {
	size_t offset; /* in verbs_context */
	int (*call)(void);
	bool never; /* what hardware makes of raw packets and its own queues makes no sense here */
};

#define LACKING(name)                                                                              \
	{                                                                                          \
		offsetof(struct verbs_context, name), call_##name                                  \
	}
#define NEVER(name)                                                                                \
	{                                                                                          \
		offsetof(struct verbs_context, name), call_##name, true                            \
	}

static const struct operation operations[] = {
	{offsetof(struct verbs_context, ibv_create_flow), call_create_flow, true},
	{offsetof(struct verbs_context, ABI_placeholder1), call_create_flow, true},
	{offsetof(struct verbs_context, ibv_destroy_flow), call_destroy_flow, true},
	{offsetof(struct verbs_context, ABI_placeholder2), call_destroy_flow, true},
	NEVER(create_flow_action_esp),
	NEVER(modify_flow_action_esp),
	NEVER(destroy_flow_action),
	NEVER(create_wq),
	NEVER(modify_wq),
	NEVER(destroy_wq),
	NEVER(create_rwq_ind_table),
	NEVER(destroy_rwq_ind_table),
	NEVER(modify_qp_rate_limit),
	NEVER(post_srq_ops),
	NEVER(attach_counters_point_flow),
	LACKING(create_counters),
	LACKING(destroy_counters),
	LACKING(read_counters),
	LACKING(advise_mr),
	LACKING(alloc_null_mr),
	LACKING(alloc_dm),
	LACKING(free_dm),
	LACKING(reg_dm_mr),
	LACKING(open_xrcd),
	LACKING(close_xrcd),
	LACKING(open_qp),
	LACKING(get_srq_num),
};

static const struct operation *find(size_t offset)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		if (operations[i].offset == offset)
			return &operations[i];
	return NULL;
}

static bool is_there(size_t offset)
{
	void *pointer;

	memcpy(&pointer, (char *)verbs_get_ctx(context) + offset, sizeof(pointer));
	return pointer;
}

/*
 * Each that isn't there is in the table, and its function says so. What newer headers have before
 * query_port only libibverbs itself calls.
 */
START_TEST(operations_that_are_lacking)
{
	const size_t begin = offsetof(struct verbs_context, query_port);
	const size_t end = offsetof(struct verbs_context, _ABI_placeholder3);

	for (size_t offset = begin; offset < end; offset += sizeof(void *)) {
		const struct operation *operation = find(offset);

		if (offset == offsetof(struct verbs_context, priv))
			continue; /* the real library's */
		ck_assert(operation || is_there(offset));
		if (is_there(offset))
			ck_assert(!operation || !operation->never);
		else
			ck_assert_int_eq(operation->call(), EOPNOTSUPP);
	}
}
END_TEST

START_TEST(nothing_is_promised_for_them)
{
	static const struct ibv_tso_caps no_tso;
	static const struct ibv_rss_caps no_rss;
	static const struct ibv_packet_pacing_caps no_pacing;
	static const struct ibv_tm_caps no_tag_matching;
	static const struct ibv_pci_atomic_caps no_pci_atomics;
	struct ibv_device_attr_ex attr;

	ck_assert_int_eq(ibv_query_device_ex(context, NULL, &attr), 0);
	ck_assert_mem_eq(&attr.tso_caps, &no_tso, sizeof(no_tso));
	ck_assert_mem_eq(&attr.rss_caps, &no_rss, sizeof(no_rss));
	ck_assert_mem_eq(&attr.packet_pacing_caps, &no_pacing, sizeof(no_pacing));
	ck_assert_mem_eq(&attr.tm_caps, &no_tag_matching, sizeof(no_tag_matching));
	ck_assert_mem_eq(&attr.pci_atomic_caps, &no_pci_atomics, sizeof(no_pci_atomics));
	ck_assert_uint_eq(attr.max_wq_type_rq, 0);
	ck_assert_uint_eq(attr.raw_packet_caps, 0);
	ck_assert_int_eq(attr.orig_attr.max_raw_ipv6_qp, 0);
	ck_assert_int_eq(attr.orig_attr.max_raw_ethy_qp, 0);
	ck_assert_int_eq(attr.orig_attr.max_fmr, 0);
	ck_assert_int_eq(attr.orig_attr.max_ee, 0);
	ck_assert_int_eq(attr.orig_attr.max_rdd, 0);
	ck_assert_uint_eq(attr.orig_attr.device_cap_flags &
				  (IBV_DEVICE_RAW_MULTI | IBV_DEVICE_RESIZE_MAX_WR |
				   IBV_DEVICE_SHUTDOWN_PORT | IBV_DEVICE_INIT_TYPE |
				   IBV_DEVICE_N_NOTIFY_CQ | IBV_DEVICE_UD_IP_CSUM |
				   IBV_DEVICE_RC_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM |
				   IBV_DEVICE_MANAGED_FLOW_STEERING),
			  0);
	ck_assert_uint_eq(attr.device_cap_flags_ex &
				  (IBV_DEVICE_RAW_SCATTER_FCS | IBV_DEVICE_PCI_WRITE_END_PADDING),
			  0);
	/* All that the first 32 bits have is in both. */
	ck_assert_uint_eq((uint32_t)attr.device_cap_flags_ex, attr.orig_attr.device_cap_flags);
}
END_TEST

/* Attributes of ibv_create_qp_ex() that are for raw packets and TSO. */
START_TEST(attributes_that_are_lacking)
{
	static const uint32_t masks[] = {IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					 IBV_QP_INIT_ATTR_IND_TABLE, IBV_QP_INIT_ATTR_RX_HASH,
					 1 << 20};
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = pd};

	ck_assert_ptr_nonnull(cq);
	for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | masks[i];
		errno = 0;
		ck_assert_ptr_null(ibv_create_qp_ex(context, &attr));
		ck_assert_int_eq(errno, EOPNOTSUPP);
	}
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
	errno = 0;
	ck_assert_ptr_null(ibv_create_qp_ex(context, &attr));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

/* A program that was built with other headers has a shorter or longer structure. */
START_TEST(attributes_of_other_headers)
{
	struct {
		struct ibv_device_attr_ex attr;
		uint8_t newer[64];
	} full, part;
	struct verbs_context *verbs = verbs_get_ctx(context);
	const struct ibv_query_device_ex_input input = {.comp_mask = 1};

	memset(&full, 0xa5, sizeof(full));
	ck_assert_int_eq(verbs->query_device_ex(context, NULL, &full.attr, sizeof(full)), 0);
	for (size_t i = 0; i < sizeof(full.newer); i++)
		ck_assert_uint_eq(full.newer[i], 0);
	for (size_t size = sizeof(struct ibv_device_attr); size <= sizeof(full); size++) {
		memset(&part, 0xa5, sizeof(part));
		ck_assert_int_eq(verbs->query_device_ex(context, NULL, &part.attr, size), 0);
		ck_assert_int_eq(memcmp(&part, &full, size), 0);
		for (size_t i = size; i < sizeof(part); i++)
			ck_assert_uint_eq(((uint8_t *)&part)[i], 0xa5);
	}
	ck_assert_int_eq(verbs->query_device_ex(context, NULL, &part.attr,
						sizeof(struct ibv_device_attr) - 1),
			 EINVAL);
	ck_assert_int_eq(verbs->query_device_ex(context, &input, &full.attr, sizeof(full.attr)),
			 EINVAL);
}
END_TEST

/* A message is written by more than one copy: no opcode promises an order of its bytes. */
START_TEST(no_order_of_data)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	struct ibv_qp *made = ibv_create_qp(pd, &attr);

	ck_assert_ptr_nonnull(made);
	for (enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE; opcode <= IBV_WR_DRIVER1; opcode++)
		ck_assert_int_eq(ibv_query_qp_data_in_order(made, opcode, 0), 0);
	ck_assert_int_eq(ibv_destroy_qp(made), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("operations");
	TCase *tests = tcase_create("operations");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, operations_that_are_lacking);
	tcase_add_test(tests, nothing_is_promised_for_them);
	tcase_add_test(tests, attributes_that_are_lacking);
	tcase_add_test(tests, attributes_of_other_headers);
	tcase_add_test(tests, no_order_of_data);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
