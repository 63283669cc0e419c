/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refused calls of libibverbs: every cause of net/cause/calls.def, and what is said of it. In a
 * network namespace, whose loopback device has the MTU of an Ethernet.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu/newer_verbs.h"
#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/namespace.h"
#include "urxe.h"

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

/* --- any object ---------------------------------------------------------------------------- */

static void no_cq(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

	open_device();
	ck_assert_ptr_null(ibv_create_qp(pd, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void no_pd(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq};

	open_device();
	ck_assert_ptr_null(ibv_create_qp_ex(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void overwritten(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_RC);

	qp->handle = 4711;
	ck_assert_int_eq(ibv_destroy_qp(qp), ENOENT);
}

static void cq_of_another_context(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

	open_device();
	attr.send_cq = cq;
	attr.recv_cq = ibv_create_cq(fixture_open(), 1, NULL, NULL, 0);
	ck_assert_ptr_null(ibv_create_qp(pd, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void pd_in_use(void)
{
	static char memory[64];

	qp_in_reset(IBV_QPT_RC);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_nonnull(ibv_reg_mr(pd, memory, sizeof(memory), 0));
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
}

static void cq_in_use(void)
{
	qp_in_reset(IBV_QPT_RC);
	make_qp(IBV_QPT_UC);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
}

static void parent_in_use(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_pd *parent;

	open_device();
	attr.pd = pd;
	parent = ibv_alloc_parent_domain(context, &attr);
	pd = parent;
	make_qp(IBV_QPT_RC);
	ck_assert_int_eq(ibv_dealloc_pd(parent), EBUSY);
}

static void parent_of_parent(void)
{
	struct ibv_parent_domain_init_attr attr = {};

	open_device();
	attr.pd = pd;
	attr.pd = ibv_alloc_parent_domain(context, &attr);
	ck_assert_ptr_nonnull(attr.pd);
	ck_assert_ptr_null(ibv_alloc_parent_domain(context, &attr));
	ck_assert_int_eq(errno, EINVAL);
}

static void import_of_stdin(void)
{
	ck_assert_ptr_null(ibv_import_device(STDIN_FILENO));
	ck_assert_int_eq(errno, EINVAL);
}

static void import_of_no_pd(void)
{
	open_device();
	ck_assert_ptr_null(ibv_import_pd(context, 4711));
	ck_assert_int_eq(errno, ENOENT);
}

static void child_posts(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(ibv_post_send(qp, &wr, &bad));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), EOPNOTSUPP);
}

static void child_creates(void)
{
	pid_t child;
	int status;

	open_device();
	child = fork();
	if (child == 0)
		_exit(ibv_create_cq(context, 1, NULL, NULL, 0) ? 0 : errno);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), EOPNOTSUPP);
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

static struct ibv_srq *make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	ck_assert_ptr_nonnull(srq);
	return srq;
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

static struct ibv_xrcd *open_domain(int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = oflags,
	};

	return ibv_open_xrcd(context, &attr);
}

static struct ibv_qp *make_xrc_recv(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
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
	ck_assert_ptr_null(open_qp(open_domain(O_CREAT), 0xabcdef));
	ck_assert_int_eq(errno, EINVAL);
}

static void qp_of_another_domain(void)
{
	struct ibv_qp *qp;

	open_device();
	qp = make_xrc_recv(open_domain(O_CREAT));
	ck_assert_ptr_null(open_qp(open_domain(O_CREAT), qp->qp_num));
	ck_assert_int_eq(errno, EINVAL);
}

static void receive_of_an_opened_qp(void)
{
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;

	open_device();
	xrcd = open_domain(O_CREAT);
	qp = open_qp(xrcd, make_xrc_recv(xrcd)->qp_num);
	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), ENOENT);
}

/* --- posting -----------------------------------------------------------------------------------
 */

static uint8_t memory[256];

static struct ibv_sge element(uint32_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);

	return (struct ibv_sge){(uintptr_t)memory, length, mr->lkey};
}

static void post(struct ibv_qp *qp, struct ibv_send_wr wr, int error)
{
	struct ibv_send_wr *bad;

	wr.wr_id = 77;
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), error);
}

static void send_in_init(void)
{
	post(qp_in_init(IBV_QPT_RC), (struct ibv_send_wr){.opcode = IBV_WR_SEND}, EINVAL);
}

static void receive_in_reset(void)
{
	struct ibv_recv_wr wr = {.wr_id = 77}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp_in_reset(IBV_QPT_RC), &wr, &bad), EINVAL);
}

/* Without receives nothing completes. */
static void send_queue_of_four(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);

	for (int i = 0; i < 4; i++)
		post(qp,
		     (struct ibv_send_wr){.opcode = IBV_WR_SEND,
					  .send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0},
		     0);
	post(qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, ENOMEM);
}

static void receive_queue_of_four(void)
{
	struct ibv_qp *qp = qp_in_init(IBV_QPT_RC);
	struct ibv_recv_wr wr = {}, *bad;

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), ENOMEM);
}

static void srq_of_four(void)
{
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_srq *srq;

	open_device();
	srq = make_srq();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
}

static void three_elements(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sges[3] = {element(1), element(1), element(1)};

	post(qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 3},
	     EINVAL);
}

static void three_elements_received(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sges[3] = {element(1), element(1), element(1)};
	struct ibv_recv_wr wr = {.sg_list = sges, .num_sge = 3}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), EINVAL);
}

static void elements_of_an_invalidation(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(1);

	post(qp, (struct ibv_send_wr){.opcode = IBV_WR_LOCAL_INV, .sg_list = &sge, .num_sge = 1},
	     EINVAL);
}

static void inline_send(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(200);

	post(qp,
	     (struct ibv_send_wr){.opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE},
	     EINVAL);
}

static void inline_read(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(1);

	post(qp,
	     (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE},
	     EINVAL);
}

static void opcode_of_completions(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = 128}, EINVAL);
}

static void segmentation(void)
{
	post(qp_in_rts(IBV_QPT_UD), (struct ibv_send_wr){.opcode = IBV_WR_TSO}, EOPNOTSUPP);
}

static void flush_by_post_send(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = 14}, EINVAL);
}

static void read_of_uc(void)
{
	post(qp_in_rts(IBV_QPT_UC), (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ}, EINVAL);
}

static void datagram_to_nowhere(void)
{
	post(qp_in_rts(IBV_QPT_UD), (struct ibv_send_wr){.opcode = IBV_WR_SEND}, EINVAL);
}

static void bound_nothing(void)
{
	post(qp_in_rts(IBV_QPT_RC), (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW}, EINVAL);
}

static void checksum(void)
{
	post(qp_in_rts(IBV_QPT_RC),
	     (struct ibv_send_wr){.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_IP_CSUM}, EINVAL);
}

static void atomic_of_four_bytes(void)
{
	struct ibv_qp *qp = qp_in_rts(IBV_QPT_RC);
	struct ibv_sge sge = element(4);

	post(qp,
	     (struct ibv_send_wr){
		     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1},
	     EINVAL);
}

static void receive_of_an_srq(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	struct ibv_recv_wr wr = {}, *bad;

	open_device();
	attr.send_cq = attr.recv_cq = cq;
	attr.srq = make_srq();
	ck_assert_int_eq(ibv_post_recv(ibv_create_qp(pd, &attr), &wr, &bad), EINVAL);
}

static void send_of_xrc_recv(void)
{
	open_device();
	post(make_xrc_recv(open_domain(O_CREAT)), (struct ibv_send_wr){.opcode = IBV_WR_SEND},
	     EINVAL);
}

static void receive_of_xrc_send(void)
{
	struct ibv_recv_wr wr = {}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp_in_reset(IBV_QPT_XRC_SEND), &wr, &bad), EINVAL);
}

/* --- the same by ibv_wr_*() ------------------------------------------------------------------- */

static struct ibv_qp_ex *extended_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | QP_EX_WITH_FLUSH,
	};
	struct ibv_qp *qp;

	open_device();
	attr.send_cq = attr.recv_cq = cq;
	attr.pd = pd;
	qp = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(qp);
	connect_qp(qp, qp);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	return ibv_qp_to_qp_ex(qp);
}

static void setter_first(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	ibv_wr_set_sge(qp, 0, 0, 0);
	ibv_wr_send(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_of_two_elements(void)
{
	struct ibv_qp_ex *qp = extended_qp();
	struct ibv_sge sges[2] = {};

	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 2, sges);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_inline(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, memory, sizeof(memory));
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void batch_too_long(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	for (int i = 0; i < 17; i++)
		ibv_wr_send(qp);
	ck_assert_int_eq(ibv_wr_complete(qp), ENOMEM);
}

static void batch_of_an_inline_read(void)
{
	struct ibv_qp_ex *qp = extended_qp();

	qp->wr_id = 77;
	ibv_wr_rdma_read(qp, 0, 0);
	ibv_wr_set_inline_data(qp, memory, 1);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

static void flush_of_no_type(void)
{
	struct ibv_qp_ex *qp = extended_qp();
	wr_flush_function *wr_flush = (wr_flush_function *)((char *)qp + QP_EX_WR_FLUSH_OFFSET);

	(*wr_flush)(qp, 0, 0, 64, 0, FLUSH_RANGE);
	ck_assert_int_eq(ibv_wr_complete(qp), EINVAL);
}

/* --- multicast ---------------------------------------------------------------------------------
 */

static const union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 224, [15] = 42}};
static const union ibv_gid host = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 42}};
static const union ibv_gid group_ipv6 = {.raw = {0xff, 0x05, [15] = 42}};

static void group_of_rc(void)
{
	ck_assert_int_eq(ibv_attach_mcast(qp_in_reset(IBV_QPT_RC), &group, 0), EINVAL);
}

static void group_of_a_host(void)
{
	ck_assert_int_eq(ibv_attach_mcast(qp_in_reset(IBV_QPT_UD), &host, 0), EINVAL);
}

static void detached(void)
{
	ck_assert_int_eq(ibv_detach_mcast(qp_in_reset(IBV_QPT_UD), &group, 0), EINVAL);
}

static void attached(void)
{
	struct ibv_qp *qp = qp_in_reset(IBV_QPT_UD);

	ck_assert_int_eq(ibv_attach_mcast(qp, &group, 0), 0);
	ck_assert_int_eq(ibv_destroy_qp(qp), EBUSY);
}

static void too_many_attached(void)
{
	struct ibv_device_attr limits;

	open_device();
	ck_assert_int_eq(ibv_query_device(context, &limits), 0);
	for (int i = 0; i < limits.max_mcast_qp_attach; i++)
		ck_assert_int_eq(ibv_attach_mcast(make_qp(IBV_QPT_UD), &group, 0), 0);
	ck_assert_int_eq(ibv_attach_mcast(make_qp(IBV_QPT_UD), &group, 0), ENOMEM);
}

/* The device has no address that a group of IPv6 could be joined by. */
static void no_way_to_join(void)
{
	ck_assert_int_ne(ibv_attach_mcast(qp_in_reset(IBV_QPT_UD), &group_ipv6, 0), 0);
}

/* --- completion queues ---------------------------------------------------------------------------
 */

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

/* --- shared receive queues
 * ------------------------------------------------------------------------- */

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

/* --- XRC domains
 * ------------------------------------------------------------------------------------- */

static struct ibv_xrcd *domain_of_a_file(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(context, &attr);
}

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
	ck_assert_ptr_nonnull(domain_of_a_file(fd, O_CREAT));
	ck_assert_ptr_null(domain_of_a_file(fd, O_CREAT | O_EXCL));
	ck_assert_int_eq(errno, EINVAL);
}

static void domain_too_early(void)
{
	open_device();
	ck_assert_ptr_null(domain_of_a_file(memfd_create("domain", 0), 0));
	ck_assert_int_eq(errno, EAGAIN);
}

static void domain_of_no_file(void)
{
	open_device();
	ck_assert_ptr_null(domain_of_a_file(999, O_CREAT));
	ck_assert_int_eq(errno, EBADF);
}

static void domain_in_use(void)
{
	struct ibv_xrcd *xrcd;

	open_device();
	xrcd = open_domain(O_CREAT);
	make_xrc_recv(xrcd);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
}

/* --- the way back, and the Ethernet's
 * ------------------------------------------------------------------ */

static void no_header(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_ah_attr attr;
	struct ibv_grh grh = {};

	open_device();
	ck_assert_int_eq(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
	ck_assert_int_eq(errno, ENODATA);
}

static void came_elsewhere(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28), .dgid = group_ipv6};

	open_device();
	ck_assert_ptr_null(ibv_create_ah_from_wc(pd, &wc, &grh, 1));
	ck_assert_int_eq(errno, ENODATA);
}

static void no_route(void)
{
	struct ibv_ah_attr attr = {.port_num = 1, .grh.dgid = host};
	uint8_t mac[ETHERNET_LL_SIZE];

	open_device();
	ck_assert_int_ne(ibv_resolve_eth_l2_from_gid(context, &attr, mac, NULL), 0);
}

static const struct cause_row rows[] = {
	{CAUSE_PATH_NOT_GLOBAL, path_without_grh, "is_global is 0, dlid 42"},
	{CAUSE_NO_PORT, path_without_port, "ah_attr.port_num is 0: ports are 1 to 1"},
	{CAUSE_NO_PORT, port_three, "port_num is 3"},
	{CAUSE_PATH_NO_GID, path_from_no_gid, "sgid_index is 3: port 1 has the GIDs 0 127.86."},
	{CAUSE_PATH_FAMILIES, path_between_families, "(sgid_index 0) to :: (dgid)"},
	{CAUSE_PATH_FAMILIES, path_between_families, "port 1 has the GIDs 0 127.86."},
	{CAUSE_PATH_NO_NEIGHBOUR, no_route, " to 10.0.0.42: "},
	{CAUSE_AH_NO_SENDER, no_header, "no header of IPv4 or IPv6"},
	{CAUSE_AH_NO_SENDER, came_elsewhere, "it came to ff05::2a, which port 1 does not have"},
	{CAUSE_OBJECT_MISSING, no_cq, "RC queue pair: send_cq is NULL"},
	{CAUSE_OBJECT_MISSING, no_pd, "comp_mask lacks IBV_QP_INIT_ATTR_PD"},
	{CAUSE_HANDLE_CHANGED, overwritten, "ibv_destroy_qp(): handle is 4711, it was made with "},
	{CAUSE_OTHER_CONTEXT, cq_of_another_context, "recv_cq and pd"},
	{CAUSE_OBJECT_IN_USE, pd_in_use, "in use by 3 memory regions, 1 queue pair"},
	{CAUSE_OBJECT_IN_USE, cq_in_use, "ibv_destroy_cq(): in use by 2 queue pairs"},
	{CAUSE_OBJECT_IN_USE, parent_in_use, "in use by 1 objects that were made in the parent"},
	{CAUSE_OBJECT_IN_USE, channel_in_use, "in use by 1 completion queue"},
	{CAUSE_OBJECT_IN_USE, domain_in_use, "ibv_close_xrcd(): in use by 1 queue pair"},
	{CAUSE_EVENT_NOT_ACKNOWLEDGED, not_acknowledged,
	 "events that ibv_get_cq_event() has returned: 1, acknowledged: 0"},
	{CAUSE_LIMIT_REACHED, too_many_attached, "to the group: 1024 (max_mcast_qp_attach"},
	{CAUSE_BITS_UNKNOWN, unknown_create_flag, "create_flags 0x40000000"},
	{CAUSE_BITS_UNKNOWN, cq_flags, "ibv_create_cq_ex(): flags is 0x100000"},
	{CAUSE_BITS_UNKNOWN, srq_mask, "srq_attr_mask is 0x20"},
	{CAUSE_FORKED_CHILD, child_posts, "ibv_post_send(), process "},
	{CAUSE_FORKED_CHILD, child_creates, "ibv_create_cq(), process "},
	{CAUSE_NO_DOMAIN_OF_KIND, parent_of_parent, "pd is a parent domain itself"},
	{CAUSE_IMPORT_UNKNOWN, import_of_stdin, "descriptor 0 is of no context"},
	{CAUSE_IMPORT_UNKNOWN, import_of_no_pd, "handle 4711"},
	{CAUSE_NO_DOMAIN_OF_KIND, cq_of_a_pd, "ibv_create_cq_ex(): parent_domain"},
	{CAUSE_NOT_SUPPORTED, vlan_of_completions, "ibv_create_cq_ex(): wc_flags 0x"},
	{CAUSE_NOT_SUPPORTED, tag_matching, "srq_type "},
	{CAUSE_NOT_SUPPORTED, raw_packets, "type 8 (RAW_PACKET)"},
	{CAUSE_OUT_OF_MEMORY, no_memory, "for a completion queue of 65536 entries"},
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
	{CAUSE_QP_ATTACHED, attached, " (UD): attached to 1 group"},
	{CAUSE_QP_NOT_FOUND, no_such_qp, "no QP 0xabcdef"},
	{CAUSE_QP_NOT_FOUND, qp_of_another_domain, "is in another XRC domain"},
	{CAUSE_QP_OPENED, receive_of_an_opened_qp, " (XRC_RECV)"},

	{CAUSE_POST_STATE, send_in_init, "wr_id 77: the state is INIT"},
	{CAUSE_POST_STATE, receive_in_reset, "the state is RESET"},
	{CAUSE_SEND_QUEUE_FULL, send_queue_of_four,
	 ": 4 work requests wait for their completions to be polled, 3 of them unsignaled; "
	 "max_send_wr is 4"},
	{CAUSE_SEND_QUEUE_FULL, batch_too_long, ": 16 work requests since ibv_wr_start()"},
	{CAUSE_RECEIVE_QUEUE_FULL, receive_queue_of_four, "ibv_post_recv(), QP 0x"},
	{CAUSE_RECEIVE_QUEUE_FULL, srq_of_four, "4 receives are posted, the queue takes 4"},
	{CAUSE_POST_SGES, three_elements, "wr_id 77: num_sge is 3, the queue pair takes 2"},
	{CAUSE_POST_SGES, three_elements_received, "num_sge is 3, the queue takes 2"},
	{CAUSE_POST_SGES, elements_of_an_invalidation, "IBV_WR_LOCAL_INV has no data"},
	{CAUSE_POST_SGES, batch_of_two_elements, "num_sge is 2, the queue pair takes 1"},
	{CAUSE_POST_INLINE, inline_send, "200 bytes inline, the queue pair takes 32"},
	{CAUSE_POST_INLINE, inline_read, "IBV_WR_RDMA_READ sends no data"},
	{CAUSE_POST_INLINE, batch_inline, "256 bytes inline and more, the queue pair takes 16"},
	{CAUSE_POST_INLINE, batch_of_an_inline_read, "ibv_wr_complete(), QP 0x"},
	{CAUSE_POST_OPCODE_UNKNOWN, opcode_of_completions, "opcode is 128"},
	{CAUSE_POST_OPCODE_UNKNOWN, segmentation, "opcode is IBV_WR_TSO"},
	{CAUSE_POST_OPCODE_UNKNOWN, flush_by_post_send, "opcode is IBV_WR_FLUSH"},
	{CAUSE_POST_OPCODE_TYPE, read_of_uc, " (UC) in RTS, wr_id 77: opcode is IBV_WR_RDMA_READ"},
	{CAUSE_OBJECT_MISSING, datagram_to_nowhere, "wr.ud.ah is NULL"},
	{CAUSE_OBJECT_MISSING, bound_nothing, "bind_mw.mw is NULL"},
	{CAUSE_POST_CHECKSUM, checksum, "send_flags is 0x10"},
	{CAUSE_POST_ATOMIC_LENGTH, atomic_of_four_bytes, "ATOMIC_FETCH_AND_ADD with 4 bytes"},
	{CAUSE_POST_HAS_SRQ, receive_of_an_srq, "ibv_post_recv(), QP 0x"},
	{CAUSE_POST_NO_QUEUE, send_of_xrc_recv, "it has no send queue"},
	{CAUSE_POST_NO_QUEUE, receive_of_xrc_send, "it has no receive queue"},
	{CAUSE_POST_NO_OPERATION, setter_first, "no operation since"},
	{CAUSE_POST_FLUSH, flush_of_no_type, "type is 0x0, level is 0"},

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

	{CAUSE_MCAST_NOT_UD, group_of_rc, " (RC)"},
	{CAUSE_MCAST_NO_GROUP, group_of_a_host, "10.0.0.42"},
	{CAUSE_MCAST_NOT_ATTACHED, detached, "group 224.0.0.42; it is attached to 0"},
	{CAUSE_MCAST_JOIN, no_way_to_join, "group ff05::2a: "},
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
