/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults that have work requests fail (urxe-faults(7), complete() and late()): each status on each
 * transport, what becomes of the queue pair, and what the peer sees.
 */
#include <stdio.h>
#include <stdlib.h>

#include "emu/inject/request.h"
#include "net/cause/cause.h"
#include "net/fault/fault_words.h"
#include "pair.h"

#define QKEY 0x11111111 /* what world_modify_init() sets */

static struct pair p;
static struct ah *ah; /* UD: to b */

static void create(enum ibv_qp_type type)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	pair_create(&p, type, NULL, 1, NULL);
	attr.grh.dgid = *world_gid(p.b, 1);
	ck_assert_int_eq(ah_create(p.a->pd, &attr, &ah), 0);
}

static void destroy(void)
{
	ah_destroy(ah);
	pair_destroy(&p);
}

static void post(enum ibv_wr_opcode opcode, uint32_t length, uint64_t id)
{
	struct pair_wr request;
	struct ibv_send_wr *wr = pair_wr(&p, &request, opcode, length, id);

	if (p.qa->type->ibv == IBV_QPT_UD) {
		wr->wr.ud.ah = &ah->ibv;
		wr->wr.ud.remote_qpn = p.qb->number;
		wr->wr.ud.remote_qkey = QKEY;
	}
	if (opcode == IBV_WR_SEND_WITH_INV)
		wr->invalidate_rkey = 0x1234567;
	ck_assert_int_eq(world_post_send(p.qa, wr), 0);
}

static void inject(struct node *node, const char *format, enum ibv_wc_status status)
{
	char text[128];

	snprintf(text, sizeof(text), format, fault_statuses.name(status));
	world_inject(node, text);
}

static void expect(struct node *node, uint64_t id, enum ibv_wc_status status, enum cause cause)
{
	struct ibv_wc wc = world_completion(node, SECOND);

	must_msg(wc.wr_id == id && wc.status == status && wc.vendor_err == cause,
		 "completion of %llu with status %d, cause 0x%x, not of %llu with %d, 0x%x",
		 (unsigned long long)wc.wr_id, wc.status, wc.vendor_err, (unsigned long long)id,
		 status, cause);
}

/* --- the second of three sends ------------------------------------------------------------ */

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};

#define TYPES (sizeof(types) / sizeof(types[0]))
#define STATUSES (IBV_WC_TM_RNDV_INCOMPLETE) /* all but SUCCESS */

/* The peer refuses a reliable request with these. */
static bool is_remote(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_ACCESS_ERR ||
	       status == IBV_WC_REM_OP_ERR || status == IBV_WC_REM_INV_RD_REQ_ERR ||
	       status == IBV_WC_REM_ABORT_ERR;
}

START_TEST(second_send)
{
	enum ibv_qp_type type = types[_i / STATUSES];
	enum ibv_wc_status status = 1 + _i % STATUSES;
	bool reliable;

	create(type);
	reliable = p.qa->type->reliable;
	inject(p.a, "complete(%s)#2/SEND", status);
	for (unsigned int i = 1; i <= 3; i++)
		pair_receive(&p, 64, i);
	for (unsigned int i = 1; i <= 3; i++)
		post(IBV_WR_SEND, 8, i);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	expect(p.a, 2, status, CAUSE_INJECTED_COMPLETION);
	expect(p.a, 3, IBV_WC_WR_FLUSH_ERR, CAUSE_FLUSHED);
	ck_assert_int_eq(p.qa->state, reliable ? IBV_QPS_ERR : IBV_QPS_SQE);

	world_expect(p.b, 1, IBV_WC_SUCCESS);
	if (reliable && is_remote(status)) {
		ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
		ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_REQ_ERR], 1);
	} else {
		/* What is wrong with the response was found when the third was on its way, too. */
		for (unsigned int i = 2; reliable && status == IBV_WC_BAD_RESP_ERR && i <= 3; i++)
			world_expect(p.b, i, IBV_WC_SUCCESS);
		world_expect_none(p.b, MS);
		ck_assert_int_ne(p.qb->state, IBV_QPS_ERR);
	}
	destroy();
}
END_TEST

/* --- each kind of request ------------------------------------------------------------------ */

static const struct {
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool key; /* the peer is asked for memory by a key */
} requests[] = {
	{IBV_WR_RDMA_WRITE, 3000, true},	{IBV_WR_RDMA_WRITE, 0, false},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 8, true},	{IBV_WR_SEND, 3000, false},
	{IBV_WR_SEND_WITH_IMM, 8, false},	{IBV_WR_SEND_WITH_INV, 8, true},
	{IBV_WR_RDMA_READ, 3000, true},		{IBV_WR_ATOMIC_CMP_AND_SWP, 8, true},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, 8, true},
};

#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

static void play_request(unsigned int i, enum ibv_wc_status status)
{
	char text[128];

	snprintf(text, sizeof(text), "complete(%s)#1/%s>%u", fault_statuses.name(status),
		 request_kind_find(requests[i].opcode)->name, p.qa->number);
	world_inject(p.a, text);
	pair_receive(&p, 4000, 7);
	post(requests[i].opcode, requests[i].length, 1);
	expect(p.a, 1, status, CAUSE_INJECTED_COMPLETION);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
}

START_TEST(refused_key)
{
	create(IBV_QPT_RC);
	memset(p.mb, 0x55, 8);
	play_request(_i, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	/* A SEND has taken its receive, which the refusal is told by. */
	if (requests[_i].opcode == IBV_WR_SEND_WITH_INV) {
		world_expect(p.b, 7, IBV_WC_LOC_ACCESS_ERR);
	} else {
		world_expect(p.b, 7, IBV_WC_WR_FLUSH_ERR);
		ck_assert_uint_eq(p.b->events[requests[_i].key ? IBV_EVENT_QP_ACCESS_ERR
							       : IBV_EVENT_QP_REQ_ERR],
				  1);
	}
	if (requests[_i].opcode != IBV_WR_SEND_WITH_INV)
		ck_assert_int_eq(p.mb[0], 0x55); /* not executed */
	destroy();
}
END_TEST

START_TEST(refused_request)
{
	create(IBV_QPT_RC);
	play_request(_i, IBV_WC_REM_OP_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_REQ_ERR], 1);
	world_expect(p.b, 7, IBV_WC_WR_FLUSH_ERR);
	destroy();
}
END_TEST

/* What has no packets fails here, whatever the status. */
START_TEST(local_request)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x1234567};

	create(IBV_QPT_RC);
	inject(p.a, "complete(%s)#1/LOCAL_INV", 1 + _i);
	ck_assert_int_eq(world_post_send(p.qa, &wr), 0);
	expect(p.a, 1, 1 + _i, CAUSE_INJECTED_COMPLETION);
	world_run(&p.world, MS);
	ck_assert_int_eq(p.qb->state, IBV_QPS_RTS);
	destroy();
}
END_TEST

/* --- which one ---------------------------------------------------------------------------- */

/* Not a READ, not of another QP; in the middle of others, which have succeeded. */
START_TEST(counted)
{
	create(IBV_QPT_RC);
	inject(p.a, "complete(%s)#10/RDMA_WRITE", IBV_WC_RETRY_EXC_ERR);
	for (unsigned int i = 1; i <= 10; i++) {
		post(IBV_WR_RDMA_READ, 8, 100 + i);
		post(IBV_WR_RDMA_WRITE, 3000, i);
	}
	for (unsigned int i = 1; i <= 10; i++) {
		world_expect(p.a, 100 + i, IBV_WC_SUCCESS);
		if (i < 10)
			world_expect(p.a, i, IBV_WC_SUCCESS);
	}
	expect(p.a, 10, IBV_WC_RETRY_EXC_ERR, CAUSE_INJECTED_COMPLETION);
	destroy();
}
END_TEST

/* --- receives ----------------------------------------------------------------------------- */

/* As the requester hears of it. */
static enum ibv_wc_status refusal(enum ibv_wc_status status)
{
	switch (inject_syndrome(status)) {
	case AETH_NAK_INVALID_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	case AETH_NAK_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case AETH_NAK_REMOTE_OPERATION:
		return IBV_WC_REM_OP_ERR;
	default:
		return IBV_WC_RETRY_EXC_ERR;
	}
}

START_TEST(receive)
{
	enum ibv_qp_type type = types[_i / STATUSES];
	enum ibv_wc_status status = 1 + _i % STATUSES;

	create(type);
	inject(p.b, "complete(%s)#2/RECV", status);
	for (unsigned int i = 1; i <= 3; i++)
		pair_receive(&p, 3100, i);
	post(IBV_WR_SEND, 8, 1);
	post(IBV_WR_SEND, type == IBV_QPT_UD ? 8 : 3000, 2);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	expect(p.b, 2, status, CAUSE_INJECTED_RECEIVE);
	if (!p.srq)
		expect(p.b, 3, IBV_WC_WR_FLUSH_ERR, CAUSE_RECEIVE_FLUSHED);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	world_expect(p.a, 2, p.qa->type->reliable ? refusal(status) : IBV_WC_SUCCESS);
	destroy();
}
END_TEST

START_TEST(receive_of_a_write)
{
	create(IBV_QPT_RC);
	inject(p.b, "complete(%s)#1/RECV", IBV_WC_LOC_PROT_ERR);
	pair_receive(&p, 0, 1);
	post(IBV_WR_RDMA_WRITE, 8, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 3000, 2);
	world_expect(p.a, 2, IBV_WC_REM_OP_ERR);
	expect(p.b, 1, IBV_WC_LOC_PROT_ERR, CAUSE_INJECTED_RECEIVE);
	destroy();
}
END_TEST

/* --- late --------------------------------------------------------------------------------- */

/* The first of three, and those behind it; the peer hears of all at once. */
START_TEST(late_send)
{
	struct completion completion;
	uint64_t start;

	create(IBV_QPT_RC);
	world_inject(p.a, "late(5ms)#1/SEND");
	for (unsigned int i = 1; i <= 3; i++) {
		pair_receive(&p, 64, i);
		post(IBV_WR_SEND, 8, i);
	}
	start = world_now(&p.world);
	for (unsigned int i = 1; i <= 3; i++)
		world_expect(p.b, i, IBV_WC_SUCCESS);
	ck_assert_uint_lt(world_now(&p.world), start + MS);
	world_expect_none(p.a, 4 * MS);
	world_run(&p.world, 2 * MS);
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_int_eq(cq_poll(p.a->cq, &completion, 1), 1);
		ck_assert_uint_eq(completion.wc.wr_id, i);
		ck_assert_int_eq(completion.wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_ge(completion.timestamp, start + 5 * MS);
		ck_assert_uint_lt(completion.timestamp, start + 6 * MS);
	}
	destroy();
}
END_TEST

START_TEST(late_receive)
{
	create(_i ? IBV_QPT_UD : IBV_QPT_RC);
	world_inject(p.b, "late(5ms)#2/RECV");
	for (unsigned int i = 1; i <= 3; i++) {
		pair_receive(&p, 64, i);
		post(IBV_WR_SEND, 8, i);
	}
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect_none(p.b, 4 * MS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	world_expect(p.b, 3, IBV_WC_SUCCESS);
	for (unsigned int i = 1; i <= 3; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	destroy();
}
END_TEST

/* Those of an SRQ's CQ may outlive the queue pair: they aren't late. */
START_TEST(late_receive_of_xrc)
{
	create(IBV_QPT_XRC_SEND);
	world_inject(p.b, "late(5ms)#1/RECV");
	pair_receive(&p, 64, 1);
	post(IBV_WR_SEND, 8, 1);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	ck_assert_uint_lt(world_now(&p.world), MS);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	destroy();
}
END_TEST

/* Receives that no message takes are of no fault. */
START_TEST(late_receive_and_flushed)
{
	uint64_t start;

	create(IBV_QPT_RC);
	world_inject(p.b, "late(5ms)#1/RECV");
	for (unsigned int i = 1; i <= 3; i++)
		pair_receive(&p, 64, i);
	post(IBV_WR_SEND, 8, 1);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	start = world_now(&p.world);
	world_modify_state(p.qb, IBV_QPS_ERR);
	for (unsigned int i = 2; i <= 3; i++)
		world_expect(p.b, i, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_lt(world_now(&p.world), start + MS);
	destroy();
}
END_TEST

/* They vanish with the QP, as those do that can be polled. */
START_TEST(late_and_reset)
{
	create(IBV_QPT_RC);
	world_inject(p.a, "late(5ms)#1");
	post(IBV_WR_RDMA_WRITE, 8, 1);
	world_run(&p.world, MS);
	world_modify_state(p.qa, IBV_QPS_RESET);
	world_expect_none(p.a, 10 * MS);
	destroy();
}
END_TEST

/* Flushed behind one that is late: they wait, too. */
START_TEST(late_and_flushed)
{
	create(IBV_QPT_RC);
	world_inject(p.a, "late(5ms)#1");
	post(IBV_WR_RDMA_WRITE, 8, 1);
	world_run(&p.world, MS);
	pair_cut(&p, true);
	post(IBV_WR_RDMA_WRITE, 8, 2);
	world_modify_state(p.qa, IBV_QPS_ERR);
	world_expect_none(p.a, MS);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.a, 2, IBV_WC_WR_FLUSH_ERR);
	destroy();
}
END_TEST

/* A full send queue is full until the late completion is polled. */
START_TEST(late_and_full)
{
	struct pair_wr request;

	create(IBV_QPT_RC);
	world_inject(p.a, "late(5ms)#1");
	for (unsigned int i = 0; i < PAIR_DEPTH; i++)
		post(IBV_WR_RDMA_WRITE, 8, i);
	world_run(&p.world, 4 * MS);
	ck_assert_int_eq(world_post_send(p.qa, pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 8, 99)),
			 ENOMEM);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	post(IBV_WR_RDMA_WRITE, 8, 99);
	for (unsigned int i = 1; i < PAIR_DEPTH; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	world_expect(p.a, 99, IBV_WC_SUCCESS);
	destroy();
}
END_TEST

int main(void)
{
	TCase *complete = tcase_create("complete"), *late = tcase_create("late");

	tcase_add_loop_test(complete, second_send, 0, TYPES * STATUSES);
	tcase_add_loop_test(complete, refused_key, 0, REQUESTS);
	tcase_add_loop_test(complete, refused_request, 0, REQUESTS);
	tcase_add_loop_test(complete, local_request, 0, STATUSES);
	tcase_add_test(complete, counted);
	tcase_add_loop_test(complete, receive, 0, TYPES * STATUSES);
	tcase_add_test(complete, receive_of_a_write);
	tcase_add_test(late, late_send);
	tcase_add_loop_test(late, late_receive, 0, 2);
	tcase_add_test(late, late_receive_of_xrc);
	tcase_add_test(late, late_receive_and_flushed);
	tcase_add_test(late, late_and_reset);
	tcase_add_test(late, late_and_flushed);
	tcase_add_test(late, late_and_full);
	return world_main("inject_work", (TCase *const[]){complete, late, NULL});
}
