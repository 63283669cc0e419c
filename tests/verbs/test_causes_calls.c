/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refused calls of libibverbs: every cause of net/cause/calls.def, and what is said of it. In a
 * network namespace, whose loopback device has the MTU of an Ethernet.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/namespace.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void open_device(void)
{
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	ck_assert_ptr_nonnull(pd);
	ck_assert_ptr_nonnull(cq);
}

/* In RESET. */
static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2},
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

#define MODIFY(qp, mask, ...)                                                                      \
	ibv_modify_qp(qp, &(struct ibv_qp_attr){__VA_ARGS__}, IBV_QP_STATE | (mask))

#define INIT_MASK (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_ATTR .qp_state = IBV_QPS_INIT, .port_num = 1

static struct ibv_qp *qp_in_reset(enum ibv_qp_type type)
{
	open_device();
	return make_qp(type);
}

static struct ibv_qp *qp_in_init(enum ibv_qp_type type)
{
	struct ibv_qp *qp = qp_in_reset(type);

	ck_assert_int_eq(MODIFY(qp, INIT_MASK, INIT_ATTR), 0);
	return qp;
}

static struct ibv_qp *qp_in_rts(enum ibv_qp_type type)
{
	struct ibv_qp *qp = qp_in_reset(type);

	connect_qp(qp, qp);
	return qp;
}

/* --- memory --------------------------------------------------------------------------- */

static void no_memory(void)
{
	struct rlimit limit = {}, before;

	open_device();
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	limit.rlim_max = before.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_ptr_null(ibv_create_cq(context, 65536, NULL, NULL, 0));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
}

/* --- paths ---------------------------------------------------------------------------- */

static void create_ah(struct ibv_ah_attr attr, int error)
{
	open_device();
	ck_assert_ptr_null(ibv_create_ah(pd, &attr));
	ck_assert_int_eq(errno, error);
}

static void path_without_grh(void)
{
	create_ah((struct ibv_ah_attr){.dlid = 42, .port_num = 1}, EINVAL);
}

static void path_without_port(void)
{
	create_ah((struct ibv_ah_attr){.is_global = 1}, EINVAL);
}

static void path_from_no_gid(void)
{
	create_ah((struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh.sgid_index = 3},
		  ENODATA);
}

static void path_between_families(void)
{
	create_ah((struct ibv_ah_attr){.is_global = 1, .port_num = 1}, EINVAL);
}

/* --- ibv_modify_qp() -------------------------------------------------------------------- */

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

/* RNR, for ever: its peer is itself, without receives. */
static void back_too_early(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
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

static const struct cause_row rows[] = {
	{CAUSE_PATH_NOT_GLOBAL, path_without_grh, "is_global is 0, dlid 42"},
	{CAUSE_NO_PORT, path_without_port, "ah_attr.port_num is 0: ports are 1 to 1"},
	{CAUSE_NO_PORT, port_three, "port_num is 3"},
	{CAUSE_PATH_NO_GID, path_from_no_gid, "sgid_index is 3: port 1 has the GIDs 0 127.86."},
	{CAUSE_PATH_FAMILIES, path_between_families, "(sgid_index 0) to :: (dgid)"},
	{CAUSE_OUT_OF_MEMORY, no_memory, "for a completion queue of 65536 entries"},
	{CAUSE_NOT_SUPPORTED, persistence, "FLUSH_PERSISTENT"},

	{CAUSE_QP_NO_TRANSITION, reset_to_rts, "RESET to RTS: it can go to RESET, INIT"},
	{CAUSE_QP_NO_TRANSITION, state_nine, "qp_state is 9"},
	{CAUSE_QP_ATTRIBUTE_MISSING, no_access_flags,
	 "RESET to INIT: missing: IBV_QP_ACCESS_FLAGS; not allowed: IBV_QP_QKEY"},
	{CAUSE_QP_ATTRIBUTE_MISSING, no_path,
	 "INIT to RTR: missing: IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | "
	 "IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_DEST_QPN"},
	{CAUSE_QP_ATTRIBUTE_SURPLUS, timeout_of_ud, "of UD queue pair 0x"},
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
};

static const struct cause_table table = {
	.name = "causes of calls",
	.first = 0x4000,
	.last = 0x47ff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
	.alone = true,
};

int main(void)
{
	if (!namespace_enter())
		return SKIPPED;
	if (system("ip link set lo up mtu 1500") != 0)
		return EXIT_FAILURE;
	return run_suite(causes_suite(&table));
}
