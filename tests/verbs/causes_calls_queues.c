/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls about completion queues, shared receive queues and XRC domains. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "tests/verbs/causes_calls.h"

/* --- completion queues ----------------------------------------------------------------------- */

static void cq_of_nothing(void)
{
	open_device();
	ck_assert_ptr_null(ibv_create_cq(context, 0, NULL, NULL, 0));
	ck_assert_int_eq(errno, EINVAL);
}

static void resized_beyond(void)
{
	open_device();
	ck_assert_int_eq(ibv_resize_cq(cq, 5000000), EINVAL);
}

static void no_such_vector(void)
{
	open_device();
	ck_assert_ptr_null(ibv_create_cq(context, 1, NULL, NULL, 100000));
	ck_assert_int_eq(errno, EINVAL);
}

static void resized_below(void)
{
	struct ibv_qp *qp = qp_in_init(IBV_QPT_RC);
	struct ibv_recv_wr wr = {}, *bad;

	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = IBV_QPS_ERR), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
	ck_assert_int_eq(ibv_resize_cq(cq, 2), EINVAL);
}

static void moderate(uint32_t mask, uint16_t period, int error)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = mask,
					  .moderate = {.cq_count = 1, .cq_period = period}};

	open_device();
	ck_assert_int_eq(ibv_modify_cq(cq, &attr), error);
}

static void too_long_a_period(void)
{
	moderate(IBV_CQ_ATTR_MODERATE, 65535, EINVAL);
}

static void nothing_modified(void)
{
	moderate(0, 0, EINVAL);
}

static void polled_minus_one(void)
{
	struct ibv_wc wc;

	open_device();
	ck_assert_int_eq(ibv_poll_cq(cq, -1, &wc), -EINVAL);
}

static void cq_flags(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 20};

	open_device();
	ck_assert_ptr_null(ibv_create_cq_ex(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void vlan_of_completions(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN};

	open_device();
	ck_assert_ptr_null(ibv_create_cq_ex(context, &attr));
	ck_assert_int_eq(errno, EOPNOTSUPP);
}

static void cq_of_a_pd(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};

	open_device();
	attr.parent_domain = pd;
	ck_assert_ptr_null(ibv_create_cq_ex(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void channel_in_use(void)
{
	struct ibv_comp_channel *channel;

	open_device();
	channel = ibv_create_comp_channel(context);
	ck_assert_ptr_nonnull(ibv_create_cq(context, 1, NULL, channel, 0));
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), EBUSY);
}

static void *destroy(void *wanted)
{
	ibv_destroy_cq(wanted);
	return NULL;
}

static void not_acknowledged(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_recv_wr wr = {}, *bad;
	pthread_t destroying;
	struct ibv_qp *qp;
	void *cq_context;

	open_device();
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 4, NULL, channel, 0);
	qp = make_qp(IBV_QPT_RC);
	ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
	ck_assert_int_eq(MODIFY(qp, INIT_MASK, INIT_ATTR), 0);
	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = IBV_QPS_ERR), 0);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
	ck_assert_int_eq(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(pthread_create(&destroying, NULL, destroy, cq), 0);
	wait_until_said("0x401b");
	ibv_ack_cq_events(cq, 1);
	pthread_join(destroying, NULL);
}

/* --- shared receive queues ------------------------------------------------------------------- */

static void create_srq(struct ibv_srq_init_attr_ex attr, int error)
{
	open_device();
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	attr.pd = pd;
	ck_assert_ptr_null(ibv_create_srq_ex(context, &attr));
	ck_assert_int_eq(errno, error);
}

static void srq_of_nothing(void)
{
	create_srq((struct ibv_srq_init_attr_ex){}, EINVAL);
}

static void srq_of_long_lists(void)
{
	create_srq((struct ibv_srq_init_attr_ex){.attr = {.max_wr = 1, .max_sge = 70}}, EINVAL);
}

static void xrc_without_domain(void)
{
	create_srq((struct ibv_srq_init_attr_ex){.attr.max_wr = 1,
						 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
						 .srq_type = IBV_SRQT_XRC},
		   EINVAL);
}

static void tag_matching(void)
{
	create_srq((struct ibv_srq_init_attr_ex){.attr.max_wr = 1,
						 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
						 .srq_type = IBV_SRQT_TM},
		   EOPNOTSUPP);
}

static void number_of_a_basic_srq(void)
{
	uint32_t number;

	open_device();
	ck_assert_int_eq(ibv_get_srq_num(make_srq(), &number), EINVAL);
}

static void srq_limit_of_ten(void)
{
	struct ibv_srq_attr attr = {.srq_limit = 10};

	open_device();
	ck_assert_int_eq(ibv_modify_srq(make_srq(), &attr, IBV_SRQ_LIMIT), EINVAL);
}

static void srq_below(void)
{
	struct ibv_srq_attr attr = {.max_wr = 1};
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_srq *srq;

	open_device();
	srq = make_srq();
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
}

static void srq_mask(void)
{
	struct ibv_srq_attr attr = {};

	open_device();
	ck_assert_int_eq(ibv_modify_srq(make_srq(), &attr, 1 << 5), EINVAL);
}

/* --- XRC domains ----------------------------------------------------------------------------- */

static void domain_without_flags(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};

	open_device();
	ck_assert_ptr_null(ibv_open_xrcd(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void domain_twice(void)
{
	int fd = memfd_create("domain", 0);

	open_device();
	ck_assert_ptr_nonnull(open_domain(fd, O_CREAT));
	ck_assert_ptr_null(open_domain(fd, O_CREAT | O_EXCL));
	ck_assert_int_eq(errno, EINVAL);
}

static void domain_too_early(void)
{
	open_device();
	ck_assert_ptr_null(open_domain(memfd_create("domain", 0), 0));
	ck_assert_int_eq(errno, EAGAIN);
}

static void domain_of_no_file(void)
{
	open_device();
	ck_assert_ptr_null(open_domain(999, O_CREAT));
	ck_assert_int_eq(errno, EBADF);
}

static void domain_in_use(void)
{
	struct ibv_xrcd *xrcd;

	open_device();
	xrcd = open_domain(-1, O_CREAT);
	make_xrc_recv(xrcd);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
}

static const struct cause_row rows[] = {
	{CAUSE_OBJECT_IN_USE, channel_in_use, "in use by 1 completion queue"},
	{CAUSE_OBJECT_IN_USE, domain_in_use, "ibv_close_xrcd(): in use by 1 queue pair"},
	{CAUSE_EVENT_NOT_ACKNOWLEDGED, not_acknowledged,
	 "events that ibv_get_cq_event() has returned: 1, acknowledged: 0"},
	{CAUSE_BITS_UNKNOWN, cq_flags, "ibv_create_cq_ex(): flags is 0x100000"},
	{CAUSE_BITS_UNKNOWN, srq_mask, "srq_attr_mask is 0x20"},
	{CAUSE_NO_DOMAIN_OF_KIND, cq_of_a_pd, "ibv_create_cq_ex(): parent_domain"},
	{CAUSE_NOT_SUPPORTED, vlan_of_completions, "ibv_create_cq_ex(): wc_flags 0x"},
	{CAUSE_NOT_SUPPORTED, tag_matching, "srq_type "},

	{CAUSE_CQ_SIZE, cq_of_nothing, "ibv_create_cq(): cqe is 0, the device has 1 to 4194303"},
	{CAUSE_CQ_SIZE, resized_beyond, "ibv_resize_cq(): cqe is 5000000"},
	{CAUSE_CQ_VECTOR, no_such_vector, "comp_vector is 100000, the device has "},
	{CAUSE_CQ_RESIZE, resized_below, "cqe is 2, the queue holds 3 completions"},
	{CAUSE_CQ_MODERATION, too_long_a_period, "cq_period is 65535 us, at most "},
	{CAUSE_CQ_MODIFY_NOTHING, nothing_modified, "attr_mask is 0"},
	{CAUSE_CQ_POLL_NUMBER, polled_minus_one, "num_entries is -1"},

	{CAUSE_SRQ_SIZE, srq_of_nothing, "max_wr is 0, the device has 1 to 1048576"},
	{CAUSE_SRQ_SIZE, srq_of_long_lists, "max_sge is 70, the device has 32 (max_srq_sge)"},
	{CAUSE_SRQ_LIMIT_BEYOND, srq_limit_of_ten, "srq_limit is 10, the queue takes 4"},
	{CAUSE_SRQ_RESIZE, srq_below, "max_wr is 1, 2 receives are posted"},
	{CAUSE_SRQ_TYPE, xrc_without_domain, "srq_type is XRC, comp_mask 0x"},
	{CAUSE_SRQ_TYPE, number_of_a_basic_srq, "ibv_get_srq_num(): srq_type is BASIC"},

	{CAUSE_XRCD_FIELDS, domain_without_flags, "comp_mask is 0x1"},
	{CAUSE_XRCD_EXISTS, domain_twice, ": it is open already"},
	{CAUSE_XRCD_ABSENT, domain_too_early, "oflags is 0x0"},
	{CAUSE_XRCD_FILE, domain_of_no_file, "fd is 999"},
};

const struct call_rows calls_queues = {rows, sizeof(rows) / sizeof(rows[0])};
