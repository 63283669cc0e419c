/* SPDX-License-Identifier: BSD-2-Clause */
/* What isn't portable: each case is compared with the profiles that its options name. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "tests/check/case.h"

static struct rig rig;

/* --- sizes of queues and work requests ---------------------------------------------- */

static struct ibv_qp_init_attr small(void)
{
	return (struct ibv_qp_init_attr){
		.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
}

static void create(struct ibv_qp_init_attr attr)
{
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.send_cq = attr.recv_cq = rig.cq;
	qp = ibv_create_qp(rig.pd, &attr);
	must(qp);
	must(ibv_destroy_qp(qp) == 0);
	rig_close(&rig);
}

static void create_cq(int cqe)
{
	rig_open(&rig);
	must(ibv_destroy_cq(ibv_create_cq(rig.context, cqe, NULL, NULL, 0)) == 0);
	rig_close(&rig);
}

static void long_send_queue(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.cap.max_send_wr = 10000;
	create(attr);
}

static void long_cq(void)
{
	create_cq(40000);
}

static void usual_queues(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.cap.max_send_wr = attr.cap.max_recv_wr = 1024;
	create(attr);
}

/* The application has asked the device for it, and gets less elsewhere. */
static void as_long_as_the_device_says(void)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr attr;

	must(ibv_query_device(context, &attr) == 0);
	must(ibv_close_device(context) == 0);
	create_cq(attr.max_cqe);
}

static void many_sges(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.cap.max_send_sge = 7;
	attr.cap.max_recv_sge = 8;
	create(attr);
}

static void few_sges(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.cap.max_send_sge = attr.cap.max_recv_sge = 4;
	create(attr);
}

static void much_inline_data(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.cap.max_inline_data = 800;
	create(attr);
}

static void little_inline_data(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.cap.max_inline_data = 96;
	create(attr);
}

/* --- reads outstanding ---------------------------------------------------------------- */

static void modify_to_rtr(uint8_t max_dest_rd_atomic)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = max_dest_rd_atomic,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};

	rig_open(&rig);
	attr.dest_qp_num = rig.qp->qp_num;
	must(ibv_query_gid(rig.context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
	must(ibv_modify_qp(rig.qp, &init,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	must(ibv_modify_qp(rig.qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
	rig_close(&rig);
}

static void many_reads(void)
{
	modify_to_rtr(16);
}

static void few_reads(void)
{
	modify_to_rtr(8);
}

/* --- counts and lengths ------------------------------------------------------------------ */

static void make_handles(unsigned int count)
{
	static struct ibv_ah *handles[9000];
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	rig_open(&rig);
	must(ibv_query_gid(rig.context, 1, 0, &attr.grh.dgid) == 0);
	for (unsigned int i = 0; i < count; i++) {
		handles[i] = ibv_create_ah(rig.pd, &attr);
		must(handles[i]);
	}
	for (unsigned int i = 0; i < count; i++)
		must(ibv_destroy_ah(handles[i]) == 0);
	rig_close(&rig);
}

static void many_handles(void)
{
	make_handles(8570);
}

static void few_handles(void)
{
	make_handles(100);
}

static void device_memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};

	rig_open(&rig);
	must(ibv_free_dm(ibv_alloc_dm(rig.context, &attr)) == 0);
	rig_close(&rig);
}

/* --- features ------------------------------------------------------------------------------ */

static void post(struct ibv_send_wr wr)
{
	struct ibv_sge sge = {(uintptr_t)rig.buffer, 8, 0};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr *bad;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_mr *mr;
	struct ibv_wc wc;

	rig_open(&rig);
	mr = ibv_reg_mr(rig.pd, rig.buffer, sizeof(rig.buffer),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_ATOMIC);
	must(mr);
	rig_connect(&rig);
	sge.lkey = mr->lkey;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	must(ibv_post_recv(rig.qp, &receive, &bad_receive) == 0);
	/* It may fail, without access for the peer; it was posted. */
	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
	while (ibv_poll_cq(rig.cq, 1, &wc) == 0)
		;
	wr.num_sge = CASE_DEPTH; /* more than the queue pair has */
	must(ibv_post_send(rig.qp, &wr, NULL) == EINVAL);
	/* The receive may be there yet. */
	must(ibv_modify_qp(rig.qp, &reset, IBV_QP_STATE) == 0);
	must(ibv_dereg_mr(mr) == 0);
	rig_close(&rig);
}

static void atomic(void)
{
	post((struct ibv_send_wr){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .wr.atomic.remote_addr = (uintptr_t)rig.buffer});
}

static void write_data(void)
{
	post((struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma.remote_addr = (uintptr_t)rig.buffer});
}

static void send_with_invalidate(void)
{
	post((struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV});
}

static void shared_queue(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	rig_open(&rig);
	must(ibv_destroy_srq(ibv_create_srq(rig.pd, &attr)) == 0);
	rig_close(&rig);
}

static void window(void)
{
	rig_open(&rig);
	must(ibv_dealloc_mw(ibv_alloc_mw(rig.pd, IBV_MW_TYPE_1)) == 0);
	rig_close(&rig);
}

static void on_demand(void)
{
	rig_open(&rig);
	must(ibv_dereg_mr(ibv_reg_mr(rig.pd, rig.buffer, sizeof(rig.buffer),
				     IBV_ACCESS_ON_DEMAND)) == 0);
	rig_close(&rig);
}

static void xrc_domain(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	rig_open(&rig);
	must(ibv_close_xrcd(ibv_open_xrcd(rig.context, &attr)) == 0);
	rig_close(&rig);
}

static void group(void)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_init_attr attr = small();
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.send_cq = attr.recv_cq = rig.cq;
	attr.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(rig.pd, &attr);
	must(qp);
	must(ibv_modify_qp(qp, &state,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	must(ibv_attach_mcast(qp, &gid, 0) == 0);
	must(ibv_detach_mcast(qp, &gid, 0) == 0);
	must(ibv_destroy_qp(qp) == 0);
	rig_close(&rig);
}

/* As much as there can be is no number. */
static void connect_with_the_most(void)
{
	struct rdma_conn_param param = {.responder_resources = RDMA_MAX_RESP_RES,
					.initiator_depth = RDMA_MAX_INIT_DEPTH,
					.qp_num = 1};
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = 1};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	must(inet_pton(AF_INET, case_address(), &own.sin_addr) == 1);
	must(channel && rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 1000) == 0);
	must(rdma_resolve_route(id, 1000) == 0);
	must(rdma_migrate_id(id, channel) == 0);
	must(rdma_connect(id, &param) == 0);
	must(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

static void joined_group(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in own = {.sin_family = AF_INET}, group = own;
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	must(inet_pton(AF_INET, case_address(), &own.sin_addr) == 1);
	must(inet_pton(AF_INET, "239.1.2.3", &group.sin_addr) == 1);
	must(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
	must(rdma_bind_addr(id, (struct sockaddr *)&own) == 0);
	must(rdma_join_multicast_ex(id, &attr, NULL) == 0);
	must(rdma_get_cm_event(channel, &event) == 0);
	must(event->event == RDMA_CM_EVENT_MULTICAST_JOIN);
	must(rdma_ack_cm_event(event) == 0);
	must(rdma_leave_multicast(id, attr.addr) == 0);
	must(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
}

static void unreliable(void)
{
	struct ibv_qp_init_attr attr = small();

	attr.qp_type = IBV_QPT_UC;
	create(attr);
}

/* Of the operations that a queue pair is made for. */
static void create_for(uint64_t operations)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = operations,
	};
	struct ibv_qp *qp;

	rig_open(&rig);
	attr.pd = rig.pd;
	attr.send_cq = attr.recv_cq = rig.cq;
	qp = ibv_create_qp_ex(rig.context, &attr);
	must(qp);
	must(ibv_destroy_qp(qp) == 0);
	rig_close(&rig);
}

static void made_for_atomics(void)
{
	create_for(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
}

static void made_for_atomic_writes(void)
{
	create_for(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE);
}

static void made_for_writes(void)
{
	create_for(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
}

/* --- all that is compared ------------------------------------------------------------------ */

/* The members that @mask doesn't have count for nothing. */
static struct ibv_qp_init_attr_ex extended(enum ibv_qp_type type, uint32_t mask)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.pd = rig.pd,
		.cap = {.max_send_wr = 2, .max_recv_wr = 3, .max_send_sge = 4, .max_recv_sge = 5},
		.qp_type = type,
		.comp_mask = mask,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
}

static void ask_for_memory(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig.context);
	struct ibv_mr *all = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *shifted = ibv_reg_mr_iova(pd, rig.buffer, 7, (uintptr_t)rig.buffer, 0);
	struct ibv_mw *window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	must(all && shifted && window);
	must(ibv_dealloc_mw(window) == 0);
	must(ibv_dereg_mr(shifted) == 0);
	must(ibv_dereg_mr(all) == 0);
	must(ibv_dealloc_pd(pd) == 0);
}

static void ask_for_queues(void)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = 9};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 6, .max_sge = 7}};
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex srq_ex = {
		.attr = srq.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = rig.pd,
		.xrcd = ibv_open_xrcd(rig.context, &domain),
		.cq = rig.cq,
	};
	struct ibv_qp_init_attr_ex with_operations =
		extended(IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	struct ibv_qp_init_attr_ex with_flags =
		extended(IBV_QPT_UD, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS);
	struct ibv_srq *one = ibv_create_srq(rig.pd, &srq);
	struct ibv_srq *other = ibv_create_srq_ex(rig.context, &srq_ex);
	struct ibv_cq_ex *longer = ibv_create_cq_ex(rig.context, &cq);
	struct ibv_qp *qp;

	must(one && other && longer);
	must(ibv_resize_cq(ibv_cq_ex_to_cq(longer), 11) == 0);
	must(ibv_destroy_cq(ibv_cq_ex_to_cq(longer)) == 0);
	must(ibv_destroy_srq(other) == 0);
	must(ibv_destroy_srq(one) == 0);
	must(ibv_close_xrcd(srq_ex.xrcd) == 0);
	qp = ibv_create_qp_ex(rig.context, &with_operations);
	must(qp && ibv_destroy_qp(qp) == 0);
	qp = ibv_create_qp_ex(rig.context, &with_flags);
	must(qp && ibv_destroy_qp(qp) == 0);
}

static struct rdma_cm_id *bound_id(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET};
	struct rdma_cm_id *id;

	must(inet_pton(AF_INET, case_address(), &own.sin_addr) == 1);
	must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	must(rdma_bind_addr(id, (struct sockaddr *)&own) == 0);
	return id;
}

static void much_inline_data_of_id(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_inline_data = 800},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_cm_id *id = bound_id();

	must(rdma_create_qp(id, NULL, &attr) == 0);
	rdma_destroy_qp(id);
	must(rdma_destroy_id(id) == 0);
}

/* Compared with a profile that has next to nothing: tests/check/options.py. */
static void ask_for_all(void)
{
	rig_open(&rig);
	ask_for_memory();
	ask_for_queues();
	rig_connect(&rig);
	rig_close(&rig);
}

#define ON(names) .options = "portability=" names

static const struct check_case cases[] = {
	BAD(NOT_PORTABLE_QUEUE, long_send_queue, ON("irdma+cx6"),
	    .said = "max_send_wr is 10000 (here up to 1048576); irdma 8127"),
	BAD(NOT_PORTABLE_QUEUE, long_send_queue, ON("rxe+cx6"),
	    .said = "max_send_wr is 10000; cx6: entries of 256 bytes, of 2097152 in all"),
	BAD(NOT_PORTABLE_QUEUE, long_cq, ON("rxe"), .said = "ibv_create_cq(): cqe is 40000"),
	GOOD(NOT_PORTABLE_QUEUE, usual_queues, .options = "portability"),
	GOOD(NOT_PORTABLE_QUEUE, as_long_as_the_device_says, ON("rxe")),
	GOOD(NOT_PORTABLE_QUEUE, long_send_queue),
	BAD(NOT_PORTABLE_SGE, many_sges, ON("irdma+rxe+qedr"), .said = "irdma 6, qedr 4"),
	GOOD(NOT_PORTABLE_SGE, few_sges, .options = "portability"),
	BAD(NOT_PORTABLE_INLINE, much_inline_data, .options = "portability",
	    .said = "bnxt 96, irdma 101, qedr 128, rxe 512"),
	BAD(NOT_PORTABLE_INLINE, much_inline_data_of_id, ON("rxe"),
	    .said = "1 misuse, 1 occurrence\n"),
	GOOD(NOT_PORTABLE_INLINE, little_inline_data, .options = "portability"),
	BAD(NOT_PORTABLE_RD_ATOMIC, many_reads, ON("irdma"), .said = "max_dest_rd_atomic is 16"),
	GOOD(NOT_PORTABLE_RD_ATOMIC, few_reads, .options = "portability"),
	GOOD(NOT_PORTABLE_RD_ATOMIC, connect_with_the_most, .options = "portability"),
	BAD(NOT_PORTABLE_COUNT, many_handles, ON("qedr"), .said = "qedr 8568"),
	GOOD(NOT_PORTABLE_COUNT, few_handles, .options = "portability"),
	BAD(NOT_PORTABLE_LENGTH, device_memory, ON("rxe"), .said = "rxe 0"),
	GOOD(NOT_PORTABLE_LENGTH, device_memory, ON("cx6")),
	BAD(NOT_PORTABLE_ATOMICS, atomic, ON("irdma"), .said = "not on irdma"),
	BAD(NOT_PORTABLE_ATOMICS, made_for_atomics, ON("irdma")),
	GOOD(NOT_PORTABLE_ATOMICS, atomic, ON("cx6")),
	GOOD(NOT_PORTABLE_ATOMICS, write_data, .options = "portability"),
	BAD(NOT_PORTABLE_SRQ, shared_queue, ON("irdma+cx6")),
	GOOD(NOT_PORTABLE_SRQ, shared_queue, ON("cx6+rxe")),
	BAD(NOT_PORTABLE_WINDOW, window, ON("qedr")),
	GOOD(NOT_PORTABLE_WINDOW, window, ON("cx6")),
	BAD(NOT_PORTABLE_ODP, on_demand, ON("irdma")),
	GOOD(NOT_PORTABLE_ODP, on_demand, ON("cx6")),
	BAD(NOT_PORTABLE_XRC, xrc_domain, ON("rxe+cx6"), .said = "XRC: not on rxe"),
	GOOD(NOT_PORTABLE_XRC, xrc_domain, ON("cx6")),
	BAD(NOT_PORTABLE_MULTICAST, group, ON("bnxt")),
	BAD(NOT_PORTABLE_MULTICAST, joined_group, ON("bnxt")),
	GOOD(NOT_PORTABLE_MULTICAST, group, ON("rxe")),
	BAD(NOT_PORTABLE_QP_TYPE, unreliable, ON("irdma"), .said = "not on irdma"),
	GOOD(NOT_PORTABLE_QP_TYPE, unreliable, ON("rxe")),
	BAD(NOT_PORTABLE_OPERATION, send_with_invalidate, ON("bnxt")),
	BAD(NOT_PORTABLE_OPERATION, made_for_atomic_writes, ON("cx6"), .said = "ATOMIC WRITE"),
	GOOD(NOT_PORTABLE_OPERATION, made_for_writes, .options = "portability"),
	GOOD(NOT_PORTABLE_OPERATION, ask_for_all),
};

const struct check_table portability_cases = CHECK_TABLE(cases, 0x7200, 0x72ff);
