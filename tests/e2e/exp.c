/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of the old manual's time, compiled with the headers of include/legacy: the experimental
 * verbs. What their calls refuse is in tests/legacy.
 */
#include <infiniband/verbs_exp.h>

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
	uint32_t rkey;

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
	memcpy(pair->memory + 2 * PART, &rkey, sizeof(rkey));
	pair_receive(pair, 1, 3 * PART, PART);
	wr = request(&sge, IBV_EXP_WR_SEND);
	post(pair, &wr);
	expect(pair, IBV_WC_SUCCESS, IBV_EXP_WC_SEND);

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

const struct scenario scenarios_exp[] = {
	{"exp-operations", exp_operations},
	{NULL, NULL},
};
