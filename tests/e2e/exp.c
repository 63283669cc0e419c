/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of the old manual's time, compiled with the headers of include/legacy: the experimental
 * verbs. What their calls refuse is in tests/legacy.
 */
#include <infiniband/verbs_exp.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "scenario.h"

#define PART 4096u
#define LAST (PART - sizeof(uint64_t)) /* where the atomic works */

static void post(struct pair *pair, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;

	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	CHECK_EQUAL(ibv_exp_post_send(pair->qp, wr, &bad), 0);
}

static struct ibv_exp_wc next(struct pair *pair, struct ibv_cq *cq)
{
	struct ibv_exp_wc wc;
	int count;

	do {
		count = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
	} while (count == 0); /* the harness ends us if it never comes */
	CHECK_EQUAL(count, 1);
	CHECK_EQUAL(wc.qp_num, pair->qp->qp_num);
	return wc;
}

static void expect(struct pair *pair, enum ibv_wc_status status, enum ibv_exp_wc_opcode opcode)
{
	struct ibv_exp_wc wc = next(pair, pair->send_cq);

	CHECK_EQUAL(wc.status, status);
	if (status == IBV_WC_SUCCESS)
		CHECK_EQUAL(wc.exp_opcode, opcode);
}

static struct ibv_exp_send_wr request(struct ibv_sge *sge, enum ibv_exp_wr_opcode opcode)
{
	return (struct ibv_exp_send_wr){.sg_list = sge, .num_sge = 1, .exp_opcode = opcode};
}

/* The server lends a window of its memory, and tells the key by a message. */
static void lend(struct pair *pair)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = pair->pd,
		.addr = pair->memory,
		.length = 2 * PART,
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_MW_BIND,
	};
	struct ibv_exp_send_wr wr = request(NULL, IBV_EXP_WR_BIND_MW);
	struct ibv_sge sge = pair_sge(pair, 2 * PART, sizeof(uint32_t));
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	struct ibv_exp_wc wc;
	uint32_t rkey, told;

	CHECK(mr && mw);
	rkey = ibv_inc_rkey(mw->rkey);
	wr.num_sge = 0;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_exp_mw_bind_info){
		.mr = mr,
		.addr = (uintptr_t)pair->memory,
		.length = PART,
		.exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ |
				       IBV_EXP_ACCESS_REMOTE_ATOMIC,
	};
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_BIND_MW);
	told = htonl(rkey);
	memcpy(pair->memory + 2 * PART, &told, sizeof(told));
	pair_receive(pair, 1, 3 * PART, PART);
	wr = request(&sge, IBV_EXP_WR_SEND);
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_SEND);
	pair_barrier(pair); /* before the peer's last request fails this queue pair */

	/* The message that gives it back says which. */
	wc = next(pair, pair->receive_cq);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.exp_opcode, IBV_EXP_WC_RECV);
	CHECK(wc.exp_wc_flags & IBV_EXP_WC_WITH_INV);
	CHECK_EQUAL(wc.imm_data, rkey);
	CHECK(pattern_matches(pair->memory, LAST, 5));
	CHECK_EQUAL(*(uint64_t *)(pair->memory + LAST), 42);
	pair_barrier(pair);
	CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	CHECK_EQUAL(ibv_dereg_mr(mr), 0);
}

static void borrow(struct pair *pair)
{
	struct ibv_sge sge = pair_sge(pair, 0, PART);
	struct ibv_exp_send_wr wr = request(&sge, IBV_EXP_WR_RDMA_WRITE);
	uint32_t rkey;

	CHECK_EQUAL(next(pair, pair->receive_cq).byte_len, sizeof(rkey));
	memcpy(&rkey, pair->memory + 3 * PART, sizeof(rkey));
	rkey = ntohl(rkey);
	pair_barrier(pair);
	pattern_fill(pair->memory, PART, 5);
	wr.wr.rdma.remote_addr = pair->remote.address;
	wr.wr.rdma.rkey = rkey;
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_RDMA_WRITE);

	memset(pair->memory, 0, PART);
	wr.exp_opcode = IBV_EXP_WR_RDMA_READ;
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_RDMA_READ);
	CHECK(pattern_matches(pair->memory, PART, 5));

	wr = request(&sge, IBV_EXP_WR_ATOMIC_CMP_AND_SWP);
	wr.wr.atomic.remote_addr = pair->remote.address + LAST;
	memcpy(&wr.wr.atomic.compare_add, pair->memory + LAST, sizeof(uint64_t));
	wr.wr.atomic.swap = 42;
	wr.wr.atomic.rkey = rkey;
	sge.length = sizeof(uint64_t);
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_COMP_SWAP);

	wr = request(&sge, IBV_EXP_WR_SEND_WITH_INV);
	wr.ex.invalidate_rkey = rkey;
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_SEND);
	wr = request(&sge, IBV_EXP_WR_RDMA_WRITE);
	wr.wr.rdma.remote_addr = pair->remote.address;
	wr.wr.rdma.rkey = rkey;
	post(pair, &wr);
	expect(pair, IBV_WC_REM_ACCESS_ERR, IBV_EXP_WC_RDMA_WRITE);
	pair_barrier(pair);
}

static void exp_operations(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.memory = 4 * PART});
	if (!pair->server)
		pair_receive(pair, 1, 3 * PART, PART);
	pair_barrier(pair);
	if (pair->server)
		lend(pair);
	else
		borrow(pair);
	pair_close(pair);
}

/* --- clocks ------------------------------------------------------------------------ */

#define MESSAGES 200
#define DEPTH 64

/* Completion queues with timestamps, one of them with moderated events, and a QP on them. */
struct timed {
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qp;
};

static uint64_t device_clock(struct pair *pair)
{
	struct ibv_exp_values values = {.comp_mask = 0};

	CHECK_EQUAL(ibv_exp_query_values(pair->context,
					 IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS,
					 &values),
		    0);
	CHECK_EQUAL(values.comp_mask, IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS);
	CHECK(values.hwclock_ns > 0);
	return values.hwclock;
}

static void connect_timed(struct pair *pair, struct ibv_qp *qp)
{
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.path_mtu = IBV_MTU_1024,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = pair->remote.gid, .hop_limit = 64}},
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	attr.dest_qp_num = pair_exchange_number(pair, qp->qp_num);
	CHECK_EQUAL(ibv_exp_modify_qp(qp, &attr,
				      IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
					      IBV_EXP_QP_ACCESS_FLAGS),
		    0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQUAL(ibv_exp_modify_qp(qp, &attr,
				      IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
					      IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
					      IBV_EXP_QP_MAX_DEST_RD_ATOMIC |
					      IBV_EXP_QP_MIN_RNR_TIMER),
		    0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQUAL(ibv_exp_modify_qp(qp, &attr,
				      IBV_EXP_QP_STATE | IBV_EXP_QP_SQ_PSN | IBV_EXP_QP_TIMEOUT |
					      IBV_EXP_QP_RETRY_CNT | IBV_EXP_QP_RNR_RETRY |
					      IBV_EXP_QP_MAX_QP_RD_ATOMIC),
		    0);
	pair_barrier(pair);
}

static void open_timed(struct pair *pair, struct timed *timed)
{
	struct ibv_exp_device_attr device = {.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1};
	struct ibv_exp_cq_init_attr with = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = IBV_EXP_CQ_TIMESTAMP};
	struct ibv_exp_cq_attr moderate = {.comp_mask = IBV_EXP_CQ_ATTR_MODERATION,
					   .moderation = {.cq_count = 16, .cq_period = 1000}};
	struct ibv_exp_qp_init_attr init = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = pair->pd,
	};

	CHECK_EQUAL(ibv_exp_query_device(pair->context, &device), 0);
	CHECK(device.comp_mask & IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK);
	CHECK(device.comp_mask & IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK);
	CHECK(device.timestamp_mask && device.hca_core_clock);
	timed->channel = ibv_create_comp_channel(pair->context);
	CHECK(timed->channel);
	timed->send_cq = ibv_exp_create_cq(pair->context, DEPTH, NULL, NULL, 0, &with);
	timed->receive_cq =
		ibv_exp_create_cq(pair->context, DEPTH, timed, timed->channel, 0, &with);
	CHECK(timed->send_cq && timed->receive_cq);
	CHECK_EQUAL(ibv_exp_modify_cq(timed->receive_cq, &moderate, IBV_EXP_CQ_MODERATION), 0);
	init.send_cq = timed->send_cq;
	init.recv_cq = timed->receive_cq;
	timed->qp = ibv_exp_create_qp(pair->context, &init);
	CHECK(timed->qp);
	connect_timed(pair, timed->qp);
}

static void close_timed(struct timed *timed)
{
	CHECK_EQUAL(ibv_destroy_cq(timed->send_cq), EBUSY); /* and stays what it is */
	CHECK_EQUAL(ibv_destroy_qp(timed->qp), 0);
	CHECK_EQUAL(ibv_destroy_cq(timed->send_cq), 0);
	CHECK_EQUAL(ibv_destroy_cq(timed->receive_cq), 0);
	CHECK_EQUAL(ibv_destroy_comp_channel(timed->channel), 0);
}

/* All that there is, each later than the one before it. Returns how many. */
static int read_timed(struct ibv_cq *cq, uint64_t *clock)
{
	struct ibv_exp_wc wcs[10];
	int all = 0, count;

	while ((count = ibv_exp_poll_cq(cq, 10, wcs, sizeof(wcs[0]))) > 0) {
		for (int i = 0; i < count; i++) {
			CHECK_EQUAL(wcs[i].status, IBV_WC_SUCCESS);
			CHECK(wcs[i].exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP);
			CHECK(wcs[i].timestamp >= *clock);
			*clock = wcs[i].timestamp;
		}
		all += count;
	}
	CHECK_EQUAL(count, 0);
	return all;
}

static void send_timed(struct pair *pair, struct timed *timed, uint64_t clock)
{
	struct ibv_sge sge = pair_sge(pair, 0, 64);
	int posted = 0, done = 0;

	while (done < MESSAGES) {
		if (posted < MESSAGES && posted - done < DEPTH) {
			struct ibv_exp_send_wr wr = request(&sge, IBV_EXP_WR_SEND), *bad;

			wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
			CHECK_EQUAL(ibv_exp_post_send(timed->qp, &wr, &bad), 0);
			posted++;
		}
		done += read_timed(timed->send_cq, &clock);
	}
	CHECK(device_clock(pair) >= clock);
}

static void post_receive(struct pair *pair, struct timed *timed)
{
	struct ibv_sge sge = pair_sge(pair, 0, PART);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQUAL(ibv_post_recv(timed->qp, &wr, &bad), 0);
}

/* Asleep between events. */
static void receive_timed(struct pair *pair, struct timed *timed, uint64_t clock)
{
	int done = 0, events = 0, count;
	struct ibv_cq *cq;
	void *context;

	CHECK_EQUAL(ibv_req_notify_cq(timed->receive_cq, 0), 0);
	for (;;) {
		count = read_timed(timed->receive_cq, &clock);
		done += count;
		for (int i = 0; i < count; i++)
			post_receive(pair, timed);
		if (done == MESSAGES)
			break;
		CHECK_EQUAL(ibv_get_cq_event(timed->channel, &cq, &context), 0);
		CHECK(cq == timed->receive_cq && context == timed);
		events++;
		CHECK_EQUAL(ibv_req_notify_cq(timed->receive_cq, 0), 0);
	}
	ibv_ack_cq_events(timed->receive_cq, events);
	CHECK(events <= MESSAGES);
	CHECK(device_clock(pair) >= clock);
}

static void exp_clocks(struct pair *pair)
{
	struct timed timed;
	uint64_t clock;

	pair_open(pair, &(struct pair_options){.memory = 4 * PART});
	open_timed(pair, &timed);
	for (int i = 0; i < DEPTH; i++)
		post_receive(pair, &timed);
	clock = device_clock(pair); /* before the first message can be there */
	pair_barrier(pair);
	if (pair->server)
		receive_timed(pair, &timed, clock);
	else
		send_timed(pair, &timed, clock);
	pair_barrier(pair);
	close_timed(&timed);
	pair_close(pair);
}

const struct scenario scenarios_exp[] = {
	{"exp-operations", exp_operations},
	{"exp-clocks", exp_clocks},
	{NULL, NULL},
};
