/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls that make, change and destroy queue pairs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tests/verbs/causes_calls.h"
#include "tests/verbs/fixture.h"
#include "urxe.h"

/* --- ibv_modify_qp() ------------------------------------------------------------------------- */

static void reset_to_rts(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = IBV_QPS_RTS), EINVAL);
}

static void state_nine(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = 9), EINVAL);
}

static void no_access_flags(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY, INIT_ATTR),
			 EINVAL);
}

static void no_path(void)
{
	struct ibv_qp *qp = qp_in_init(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = IBV_QPS_RTR), EINVAL);
}

static void timeout_of_ud(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_UD);

	ck_assert_int_eq(MODIFY(qp, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY | IBV_QP_TIMEOUT,
				INIT_ATTR),
			 EINVAL);
}

static void uninitialized_mask(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, 1 << 22, INIT_ATTR), EOPNOTSUPP);
}

static void another_current_state(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);

	ck_assert_int_eq(
		MODIFY(qp, IBV_QP_CUR_STATE, .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD),
		EINVAL);
}

static void current_state_of_init(void)
{
	struct ibv_qp *qp = qp_in_init(IBV_QPT_RC);

	ck_assert_int_eq(
		MODIFY(qp, IBV_QP_CUR_STATE, .qp_state = IBV_QPS_RTR, .cur_qp_state = IBV_QPS_INIT),
		EINVAL);
}

static uint64_t counted(const char *name)
{
	struct urxe_counter counters[64];
	int count = urxe_counters("urxe0", counters, 64);

	for (int i = 0; i < count; i++) {
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].value;
	}
	return 0;
}

/* RNR, for ever: its peer is itself, without receives. */
static void back_too_early(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	while (!counted("rcvd_rnr_err"))
		; /* what hasn't been sent is nothing to wait for in SQD */
	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = IBV_QPS_SQD), 0);
	ck_assert_int_eq(MODIFY(qp, 0, .qp_state = IBV_QPS_RTS), EINVAL);
}

#define RTR_MASK                                                                                   \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

/* To RTR, as it would work but for what @change makes of it. */
static void to_rtr(void (*change)(struct ibv_qp_attr *attr), int mask)
{
	struct ibv_qp *qp = qp_in_init(IBV_QPT_RC);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.ah_attr = {.is_global = 1, .port_num = 1},
		.alt_ah_attr = {.is_global = 1, .port_num = 1},
		.alt_port_num = 1,
	};

	ck_assert_int_eq(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	attr.alt_ah_attr.grh = attr.ah_attr.grh;
	change(&attr);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_STATE | RTR_MASK | mask), EINVAL);
}

static void rnr_timer(struct ibv_qp_attr *attr)
{
	attr->min_rnr_timer = 64;
}

static void timer_of_six_bits(void)
{
	to_rtr(rnr_timer, 0);
}

static void many_reads(struct ibv_qp_attr *attr)
{
	attr->max_dest_rd_atomic = 255;
}

static void too_many_reads(void)
{
	to_rtr(many_reads, 0);
}

static void bytes(struct ibv_qp_attr *attr)
{
	attr->path_mtu = 1024;
}

static void mtu_in_bytes(void)
{
	to_rtr(bytes, 0);
}

static void greatest(struct ibv_qp_attr *attr)
{
	attr->path_mtu = IBV_MTU_4096;
}

static void mtu_of_jumbo_frames(void)
{
	to_rtr(greatest, 0);
}

static void second_port(struct ibv_qp_attr *attr)
{
	attr->ah_attr.port_num = 2;
}

static void path_of_another_port(void)
{
	to_rtr(second_port, 0);
}

static void second_alternate_port(struct ibv_qp_attr *attr)
{
	attr->alt_port_num = 2;
}

static void alternate_of_another_port(void)
{
	to_rtr(second_alternate_port, IBV_QP_ALT_PATH);
}

static void port_three(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, INIT_MASK, .qp_state = IBV_QPS_INIT, .port_num = 3), EINVAL);
}

static void unknown_access(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, INIT_MASK, INIT_ATTR, .qp_access_flags = 0x4000003), EINVAL);
}

static void persistence(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, INIT_MASK, INIT_ATTR, .qp_access_flags = 1 << 9), EOPNOTSUPP);
}

static void privileged_qkey(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_UD);

	ck_assert_int_eq(MODIFY(qp, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY, INIT_ATTR,
				.qkey = 0x80010000),
			 EPERM);
}

static void rearm_nothing(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);

	ck_assert_int_eq(MODIFY(qp, IBV_QP_PATH_MIG_STATE, .qp_state = IBV_QPS_RTS,
				.path_mig_state = IBV_MIG_REARM),
			 EINVAL);
}

/* --- making and destroying queue pairs ------------------------------------------------------- */

static void create_qp(struct ibv_qp_init_attr_ex attr, int error)
{
	open_device();
	attr.send_cq = attr.recv_cq = cq;
	attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	ck_assert_ptr_null(ibv_create_qp_ex(context, &attr));
	ck_assert_int_eq(errno, error);
}

static void too_long_queue(void)
{
	create_qp((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .cap.max_recv_wr = 2000000},
		  EINVAL);
}

static void too_many_elements(void)
{
	create_qp((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .cap.max_send_sge = 70},
		  EINVAL);
}

static void too_much_inline(void)
{
	create_qp(
		(struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC, .cap.max_inline_data = 1 << 20},
		EINVAL);
}

static void raw_packets(void)
{
	create_qp((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RAW_PACKET}, EOPNOTSUPP);
}

static void no_domain(void)
{
	create_qp((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_XRC_RECV}, EINVAL);
}

static void unknown_create_flag(void)
{
	create_qp((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC,
					       .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
					       .create_flags = 1 << 30},
		  EINVAL);
}

static void multicast_of_rc(void)
{
	create_qp((struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC,
					       .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
					       .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB},
		  EINVAL);
}

static void srq_of_uc(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UC};

	open_device();
	attr.send_cq = attr.recv_cq = cq;
	attr.srq = make_srq();
	ck_assert_ptr_null(ibv_create_qp(pd, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static struct ibv_qp *open_qp(struct ibv_xrcd *xrcd, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(context, &attr);
}

static void no_such_qp(void)
{
	open_device();
	ck_assert_ptr_null(open_qp(open_domain(-1, O_CREAT), 0xabcdef));
	ck_assert_int_eq(errno, EINVAL);
}

static void qp_of_another_domain(void)
{
	struct ibv_qp *qp;

	open_device();
	qp = make_xrc_recv(open_domain(-1, O_CREAT));
	ck_assert_ptr_null(open_qp(open_domain(-1, O_CREAT), qp->qp_num));
	ck_assert_int_eq(errno, EINVAL);
}

static void receive_of_an_opened_qp(void)
{
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;

	open_device();
	xrcd = open_domain(-1, O_CREAT);
	qp = open_qp(xrcd, make_xrc_recv(xrcd)->qp_num);
	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), ENOENT);
}

static const struct cause_row rows[] = {
	{CAUSE_NO_PORT, port_three, "port_num is 3"},
	{CAUSE_BITS_UNKNOWN, unknown_create_flag, "create_flags 0x40000000"},
	{CAUSE_QP_TYPE_LACKING, raw_packets, "type 8 (RAW_PACKET)"},
	{CAUSE_NOT_SUPPORTED, persistence, "FLUSH_PERSISTENT"},

	{CAUSE_QP_NO_TRANSITION, reset_to_rts, " (RC), RESET to RTS: it can go to RESET, INIT"},
	{CAUSE_QP_NO_TRANSITION, state_nine, "qp_state is 9"},
	{CAUSE_QP_ATTRIBUTE_MISSING, no_access_flags,
	 "RESET to INIT: missing: IBV_QP_ACCESS_FLAGS; not allowed: IBV_QP_QKEY"},
	{CAUSE_QP_ATTRIBUTE_MISSING, no_path,
	 "INIT to RTR: missing: IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | "
	 "IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN"},
	{CAUSE_QP_ATTRIBUTE_SURPLUS, timeout_of_ud, " (UD), RESET to INIT: "},
	{CAUSE_QP_ATTRIBUTE_SURPLUS, timeout_of_ud,
	 "not allowed: IBV_QP_TIMEOUT; allowed: IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY"},
	{CAUSE_QP_ATTRIBUTE_UNKNOWN, uninitialized_mask, "attr_mask has 0x400000"},
	{CAUSE_QP_CURRENT_STATE, another_current_state, "in RTS: cur_qp_state is SQD"},
	{CAUSE_QP_CURRENT_STATE, current_state_of_init, "only RTR, RTS, SQD and SQE"},
	{CAUSE_QP_DRAINING, back_too_early, "work requests under way: 1"},
	{CAUSE_QP_VALUE_RANGE, timer_of_six_bits, "min_rnr_timer is 64, at most 31"},
	{CAUSE_QP_RD_ATOMIC_LIMIT, too_many_reads, "max_dest_rd_atomic is 255, the device has "},
	{CAUSE_QP_MTU_NO_ENUM, mtu_in_bytes, "path_mtu is 1024"},
	{CAUSE_QP_MTU_LINK, mtu_of_jumbo_frames,
	 "path_mtu 4096 needs a network device with an MTU of 4176 or more, lo has 1500: at most "
	 "path_mtu 1024"},
	{CAUSE_QP_PORT_DIFFERS, path_of_another_port, "ah_attr.port_num is 2, "},
	{CAUSE_QP_PORT_DIFFERS, alternate_of_another_port, "alt_port_num 2"},
	{CAUSE_QP_ACCESS_FLAGS, unknown_access, "unknown are 0x4000000"},
	{CAUSE_QP_QKEY_CONTROLLED, privileged_qkey, "qkey is 0x80010000"},
	{CAUSE_QP_MIGRATION_STATE, rearm_nothing, "(REARM), an alternate path is not loaded"},

	{CAUSE_QP_LIMIT, too_long_queue, "cap.max_recv_wr is 2000000, the device has 1048576"},
	{CAUSE_QP_LIMIT, too_many_elements, "cap.max_send_sge is 70, the device has 32 (max_sge)"},
	{CAUSE_QP_INLINE_LIMIT, too_much_inline, "cap.max_inline_data is 1048576, the device has "},
	{CAUSE_QP_SRQ_NOT_ALLOWED, srq_of_uc, "UC queue pair with an srq"},
	{CAUSE_QP_NEEDS_XRCD, no_domain, "a protection domain is given"},
	{CAUSE_QP_FLAG_OF_UD, multicast_of_rc, " for RC"},
	{CAUSE_QP_NOT_FOUND, no_such_qp, "no QP 0xabcdef"},
	{CAUSE_QP_NOT_FOUND, qp_of_another_domain, "is in another XRC domain"},
	{CAUSE_QP_OPENED, receive_of_an_opened_qp, " (XRC_RECV)"},
};

const struct call_rows calls_qp = {rows, sizeof(rows) / sizeof(rows[0])};
