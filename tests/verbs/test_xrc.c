/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC by its ABI: domains, SRQs and their numbers, both types of QP, shared QPs, and all errors. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"

#define MR_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t buffer[2 * BUFFER_SIZE];

static void setup(void)
{
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), MR_ACCESS);
	ck_assert(pd && cq && mr);
}

static void teardown(void)
{
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
}

static struct ibv_xrcd *open_domain_of(struct ibv_context *user, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(user, &attr);
}

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	return open_domain_of(context, fd, oflags);
}

/* Domains that are opened by one file are the same domain. */
static int open_file(void)
{
	char name[] = "/tmp/urxe-xrcd-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	return fd;
}

static struct ibv_srq_init_attr_ex srq_attr(struct ibv_xrcd *xrcd)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = DEPTH, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};
}

static struct ibv_srq *create_srq(struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(xrcd);
	struct ibv_srq *srq = ibv_create_srq_ex(context, &attr);

	ck_assert_ptr_nonnull(srq);
	return srq;
}

static struct ibv_qp *create_target(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp *qp = ibv_create_qp_ex(xrcd->context, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

static struct ibv_qp *create_initiator(uint64_t send_ops_flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = cq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     (send_ops_flags ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pd,
		.send_ops_flags = send_ops_flags,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

/* --- domains ------------------------------------------------------------------------- */

/* ibv_open_xrcd(3). */
START_TEST(domains)
{
	char name[] = "/tmp/urxe-xrcd-XXXXXX";
	int fd = mkstemp(name), same = open(name, O_RDONLY);
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};
	struct ibv_xrcd *first, *second;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(same, 0);
	unlink(name);
	ck_fails_null(ibv_open_xrcd(context, &attr), EINVAL);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_OFLAGS;
	ck_fails_null(ibv_open_xrcd(context, &attr), EINVAL);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_RESERVED;
	ck_fails_null(ibv_open_xrcd(context, &attr), EOPNOTSUPP);
	ck_fails_null(open_domain(12345, O_CREAT), EBADF);
	ck_fails_null(open_domain(-1, 0), EAGAIN);

	ck_fails_null(open_domain(fd, 0), EAGAIN);
	first = open_domain(fd, O_CREAT | O_EXCL);
	ck_assert_ptr_nonnull(first);
	ck_assert_ptr_eq(first->context, context);
	ck_fails_null(open_domain(same, O_CREAT | O_EXCL), EINVAL);
	second = open_domain(same, O_CREAT);
	ck_assert_ptr_nonnull(second);
	ck_assert_int_eq(ibv_close_xrcd(first), 0);
	ck_fails_null(open_domain(fd, O_CREAT | O_EXCL), EINVAL);
	ck_assert_int_eq(ibv_close_xrcd(second), 0);
	ck_fails_null(open_domain(fd, 0), EAGAIN);

	first = open_domain(-1, O_CREAT);
	second = open_domain(-1, O_CREAT | O_EXCL);
	ck_assert(first && second);
	ck_assert_int_eq(ibv_close_xrcd(first), 0);
	ck_assert_int_eq(ibv_close_xrcd(second), 0);
	close(fd);
	close(same);
}
END_TEST

/* --- objects -------------------------------------------------------------------------- */

START_TEST(shared_receive_queues)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_srq_init_attr_ex attr = srq_attr(xrcd);
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_context *elsewhere;
	struct ibv_srq *srq, *other;
	uint32_t number, other_number;

	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD;
	ck_fails_null(ibv_create_srq_ex(context, &attr), EINVAL);
	attr = srq_attr(xrcd);
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	ck_fails_null(ibv_create_srq_ex(context, &attr), EINVAL);
	attr = srq_attr(xrcd);
	attr.cq = NULL;
	ck_fails_null(ibv_create_srq_ex(context, &attr), EINVAL);
	attr = srq_attr(NULL);
	ck_fails_null(ibv_create_srq_ex(context, &attr), EINVAL);
	attr = srq_attr(xrcd);
	attr.attr.max_wr = 0;
	ck_fails_null(ibv_create_srq_ex(context, &attr), EINVAL);
	attr = srq_attr(xrcd);
	attr.srq_type = IBV_SRQT_TM;
	ck_fails_null(ibv_create_srq_ex(context, &attr), EOPNOTSUPP);
	attr = srq_attr(xrcd);
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED;
	ck_fails_null(ibv_create_srq_ex(context, &attr), EOPNOTSUPP);
	elsewhere = fixture_open();
	attr = srq_attr(xrcd);
	attr.cq = ibv_create_cq(elsewhere, 1, NULL, NULL, 0);
	ck_fails_null(ibv_create_srq_ex(context, &attr), EINVAL);
	ck_assert_int_eq(ibv_destroy_cq(attr.cq), 0);
	fixture_close(elsewhere);

	srq = create_srq(xrcd);
	other = create_srq(xrcd);
	ck_assert_int_eq(ibv_get_srq_num(srq, &number), 0);
	ck_assert_int_eq(ibv_get_srq_num(other, &other_number), 0);
	ck_assert_uint_ne(number, other_number);
	ck_assert_uint_gt(number, 0);
	ck_assert_uint_le(number, 0xffffff);
	ck_assert_int_eq(ibv_destroy_srq(other), 0);

	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);

	srq = ibv_create_srq(pd, &basic);
	ck_assert_int_eq(ibv_get_srq_num(srq, &number), EINVAL);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	/* One that isn't of XRC uses neither the CQ nor the domain. */
	attr = srq_attr(NULL);
	attr.srq_type = IBV_SRQT_BASIC;
	srq = ibv_create_srq_ex(context, &attr);
	ck_assert_ptr_nonnull(srq);
	ck_assert_int_eq(ibv_get_srq_num(srq, &number), EINVAL);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
}
END_TEST

START_TEST(queue_pairs)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_qp *target = create_target(xrcd), *initiator = create_initiator(0), *other;
	static struct ibv_cq none;
	struct ibv_send_wr send = {}, *bad_send;
	struct ibv_recv_wr receive = {}, *bad_receive;
	struct ibv_qp_init_attr queried;
	struct ibv_qp_attr state;

	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL);
	attr.qp_type = IBV_QPT_XRC_SEND;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL); /* no CQ */
	attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	attr.xrcd = xrcd;
	attr.send_cq = cq;
	ck_fails_null(ibv_create_qp_ex(context, &attr), EINVAL); /* no PD */

	/* The other half's objects aren't looked at. */
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.recv_cq = &none;
	attr.srq = (struct ibv_srq *)&none;
	other = ibv_create_qp_ex(context, &attr);
	ck_assert_ptr_nonnull(other);
	ck_assert_int_eq(ibv_destroy_qp(other), 0);

	ck_assert_int_eq(ibv_query_qp(target, &state, 0, &queried), 0);
	ck_assert_int_eq(queried.qp_type, IBV_QPT_XRC_RECV);
	ck_assert_uint_eq(queried.cap.max_send_wr, 0);
	ck_assert_uint_eq(queried.cap.max_recv_wr, 0);
	connect_qp(target, initiator);
	connect_qp(initiator, target);
	/* Each lacks the other's queue. */
	ck_assert_int_eq(ibv_post_send(target, &send, &bad_send), EINVAL);
	ck_assert_int_eq(ibv_post_recv(target, &receive, &bad_receive), EINVAL);
	ck_assert_int_eq(ibv_post_recv(initiator, &receive, &bad_receive), EINVAL);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(target), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
}
END_TEST

/* --- traffic -------------------------------------------------------------------------- */

static void receive(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer + BUFFER_SIZE, BUFFER_SIZE, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void send(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t srqn, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 100, mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .send_flags = IBV_SEND_SIGNALED,
					   .wr.rdma = {(uintptr_t)buffer + BUFFER_SIZE, mr->rkey},
					   .qp_type.xrc.remote_srqn = srqn,
				   },
			   *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
}

static void build(struct ibv_qp *qp, uint32_t srqn, uint64_t id)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, srqn);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buffer, 100);
	ck_assert_int_eq(ibv_wr_complete(ex), 0);
}

/*
 * Two completions, of the request @sent by @initiator and of the receive @received, in any order.
 */
static void expect_both(struct ibv_qp *initiator, uint64_t sent, struct ibv_qp *target,
			uint64_t received)
{
	bool seen[2] = {false};

	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = wait_completion(cq);
		bool receives = wc.opcode & IBV_WC_RECV;

		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, receives ? received : sent);
		ck_assert_uint_eq(wc.qp_num, receives ? target->qp_num : initiator->qp_num);
		ck_assert(!seen[receives]);
		seen[receives] = true;
	}
}

/* _i & 1: by the builders; & 2: the memory is on demand, as xrc_odp_caps promises. */
START_TEST(messages)
{
	const bool built = _i & 1;
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_qp *target = create_target(xrcd),
		      *initiator = create_initiator(built ? IBV_QP_EX_WITH_SEND : 0);
	struct ibv_srq *srqs[2] = {create_srq(xrcd), create_srq(xrcd)};
	uint32_t numbers[2];

	if (_i & 2)
		ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					      MR_ACCESS | IBV_ACCESS_ON_DEMAND),
				 0);
	connect_qp(target, initiator);
	connect_qp(initiator, target);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_get_srq_num(srqs[i], &numbers[i]), 0);
	for (uint64_t i = 0; i < 20; i++) {
		buffer[99] = i;
		receive(srqs[i % 2], 100 + i);
		if (built)
			build(initiator, numbers[i % 2], i);
		else
			send(initiator, IBV_WR_SEND, numbers[i % 2], i);
		expect_both(initiator, i, target, 100 + i);
		ck_assert_uint_eq(buffer[BUFFER_SIZE + 99], i);
	}
	if (!built) {
		const enum ibv_wr_opcode silent[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

		for (int i = 0; i < 2; i++) {
			send(initiator, silent[i], numbers[i], i);
			ck_assert_int_eq(wait_completion(cq).status, IBV_WC_SUCCESS);
		}
		receive(srqs[1], 7);
		send(initiator, IBV_WR_RDMA_WRITE_WITH_IMM, numbers[1], 8);
		expect_both(initiator, 8, target, 7);
	}
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
	ck_assert_int_eq(ibv_destroy_qp(target), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_destroy_srq(srqs[i]), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
}
END_TEST

static struct ibv_async_event next_event(void)
{
	struct pollfd readable = {.fd = context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	ck_assert_int_eq(poll(&readable, 1, 60000), 1);
	ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
	return event;
}

static void expect_event(struct ibv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = next_event();

	ck_assert_int_eq(event.event_type, type);
	ck_assert_ptr_eq(event.element.qp, qp);
	ibv_ack_async_event(&event);
}

/* A request for an SRQ that isn't in the QP's domain (IBA Annex A14). */
START_TEST(wrong_queue)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT), *other = open_domain(-1, O_CREAT);
	struct ibv_qp *target = create_target(xrcd), *initiator = create_initiator(0);
	struct ibv_srq *srq = create_srq(other);
	uint32_t number = target->qp_num;
	struct ibv_wc wc;

	connect_qp(target, initiator);
	connect_qp(initiator, target);
	if (_i)
		ck_assert_int_eq(ibv_get_srq_num(srq, &number), 0);
	receive(srq, 1);
	send(initiator, IBV_WR_SEND, number, 2);
	wc = wait_completion(cq);
	ck_assert_uint_eq(wc.wr_id, 2);
	ck_assert_int_eq(wc.status, IBV_WC_REM_INV_REQ_ERR);
	expect_event(target, IBV_EVENT_QP_ACCESS_ERR);
	expect_event(target, IBV_EVENT_QP_LAST_WQE_REACHED);
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
	ck_assert_int_eq(ibv_destroy_qp(target), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	ck_assert_int_eq(ibv_close_xrcd(other), 0);
}
END_TEST

static _Atomic pid_t destroying;

static void *destroy_srq(void *srq)
{
	destroying = gettid();
	must(ibv_destroy_srq(srq) == 0);
	return NULL;
}

/* While ibv_destroy_srq() waits for an event to be acknowledged no request takes a receive. */
START_TEST(queue_that_is_being_destroyed)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_qp *target = create_target(xrcd), *initiator = create_initiator(0);
	struct ibv_srq *srq = create_srq(xrcd);
	struct ibv_srq_attr attr = {.srq_limit = 2};
	struct ibv_async_event event;
	pthread_t thread;
	uint32_t number;

	connect_qp(target, initiator);
	connect_qp(initiator, target);
	ck_assert_int_eq(ibv_get_srq_num(srq, &number), 0);
	receive(srq, 1);
	receive(srq, 2);
	ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	send(initiator, IBV_WR_SEND, number, 3);
	expect_both(initiator, 3, target, 1);
	event = next_event();
	ck_assert_int_eq(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	attr.srq_limit = 1;
	ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);

	ck_assert_int_eq(pthread_create(&thread, NULL, destroy_srq, srq), 0);
	wait_until_asleep(&destroying);
	send(initiator, IBV_WR_SEND, number, 4);
	ck_assert_int_eq(wait_completion(cq).status, IBV_WC_REM_INV_REQ_ERR);
	ibv_ack_async_event(&event);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	expect_event(target, IBV_EVENT_QP_ACCESS_ERR);
	expect_event(target, IBV_EVENT_QP_LAST_WQE_REACHED);
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
	ck_assert_int_eq(ibv_destroy_qp(target), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
}
END_TEST

/* --- ibv_open_qp ------------------------------------------------------------------------ */

static struct ibv_qp *open_qp(struct ibv_xrcd *xrcd, uint32_t number, enum ibv_qp_type type)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = number,
		.xrcd = xrcd,
		.qp_context = buffer,
		.qp_type = type,
	};

	return ibv_open_qp(xrcd->context, &attr);
}

START_TEST(opening_refused)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT), *other = open_domain(-1, O_CREAT);
	struct ibv_qp *target = create_target(xrcd), *initiator = create_initiator(0);
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD};
	uint32_t number;

	ck_fails_null(ibv_open_qp(context, &attr), EINVAL);
	attr.comp_mask = IBV_QP_OPEN_ATTR_RESERVED;
	ck_fails_null(ibv_open_qp(context, &attr), EOPNOTSUPP);
	ck_fails_null(open_qp(other, target->qp_num, IBV_QPT_XRC_RECV), EINVAL);
	ck_fails_null(open_qp(xrcd, target->qp_num, IBV_QPT_XRC_SEND), EINVAL);
	ck_fails_null(open_qp(xrcd, initiator->qp_num, IBV_QPT_XRC_RECV), EINVAL);
	ck_fails_null(open_qp(xrcd, target->qp_num + 1000, IBV_QPT_XRC_RECV), EINVAL);
	ck_fails_null(open_qp(xrcd, 0xfffffff, IBV_QPT_XRC_RECV), EINVAL);
	number = target->qp_num;
	ck_assert_int_eq(ibv_destroy_qp(target), 0);
	ck_fails_null(open_qp(xrcd, number, IBV_QPT_XRC_RECV), EINVAL);
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	ck_assert_int_eq(ibv_close_xrcd(other), 0);
}
END_TEST

/* The QP goes with its last handle, whichever that is (@_i); events come for each. */
START_TEST(shared_queue_pair)
{
	struct ibv_xrcd *xrcd = open_domain(-1, O_CREAT);
	struct ibv_qp *target = create_target(xrcd), *initiator = create_initiator(0);
	struct ibv_srq *srq = create_srq(xrcd);
	struct ibv_qp *opened = open_qp(xrcd, target->qp_num, IBV_QPT_XRC_RECV);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_send_wr wr = {}, *bad;
	struct ibv_qp *last = _i ? opened : target;
	uint32_t number;

	ck_assert_ptr_nonnull(opened);
	ck_assert_ptr_ne(opened, target);
	ck_assert_uint_eq(opened->qp_num, target->qp_num);
	ck_assert_int_eq(opened->qp_type, IBV_QPT_XRC_RECV);
	ck_assert_ptr_eq(opened->qp_context, buffer);
	ck_assert_ptr_null(ibv_qp_to_qp_ex(opened));
	ck_assert_int_ne(ibv_post_send(opened, &wr, &bad), 0);
	/* Either handle is good for both. */
	connect_qp(opened, initiator);
	connect_qp(initiator, opened);
	ck_assert_int_eq(ibv_query_qp(target, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_ptr_eq(init.qp_context, buffer); /* the handle's own */
	ck_assert_int_eq(ibv_get_srq_num(srq, &number), 0);

	attr.qp_state = IBV_QPS_ERR;
	ck_assert_int_eq(ibv_modify_qp(target, &attr, IBV_QP_STATE), 0);
	expect_event(target, IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_event(opened, IBV_EVENT_QP_LAST_WQE_REACHED);
	attr.qp_state = IBV_QPS_RESET;
	ck_assert_int_eq(ibv_modify_qp(opened, &attr, IBV_QP_STATE), 0);

	ck_assert_int_eq(ibv_destroy_qp(_i ? target : opened), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
	connect_qp(last, initiator);
	receive(srq, 1);
	send(initiator, IBV_WR_SEND, number, 2);
	expect_both(initiator, 2, last, 1);
	attr.qp_state = IBV_QPS_ERR;
	ck_assert_int_eq(ibv_modify_qp(last, &attr, IBV_QP_STATE), 0);
	expect_event(last, IBV_EVENT_QP_LAST_WQE_REACHED);
	ck_assert_int_eq(ibv_destroy_qp(last), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
}
END_TEST

/* A handle counts for the domain by which it was made, and for no other; @_i: which goes first. */
START_TEST(handles_keep_their_domains)
{
	int fd = open_file();
	struct ibv_xrcd *xrcds[] = {open_domain(fd, O_CREAT), open_domain(fd, 0)};
	struct ibv_qp *handles[2];

	handles[0] = create_target(xrcds[0]);
	handles[1] = open_qp(xrcds[1], handles[0]->qp_num, IBV_QPT_XRC_RECV);
	ck_assert_ptr_nonnull(handles[1]);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_close_xrcd(xrcds[i]), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(handles[_i]), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcds[!_i]), EBUSY);
	ck_assert_int_eq(ibv_close_xrcd(xrcds[_i]), 0);
	ck_assert_int_eq(ibv_destroy_qp(handles[!_i]), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcds[!_i]), 0);
	close(fd);
}
END_TEST

#define SHARERS 3

/* Each as a program of its own has it: the first has made the QP, and the last one receives. */
struct sharer {
	struct ibv_context *context;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *handle;
};

static void share_target(struct sharer *sharers)
{
	int fd = open_file();

	for (int i = 0; i < SHARERS; i++) {
		struct sharer *sharer = &sharers[i];

		sharer->context = i < SHARERS - 1 ? fixture_open() : context;
		sharer->xrcd = open_domain_of(sharer->context, fd, O_CREAT);
		ck_assert_ptr_nonnull(sharer->xrcd);
		sharer->handle =
			i ? open_qp(sharer->xrcd, sharers[0].handle->qp_num, IBV_QPT_XRC_RECV)
			  : create_target(sharer->xrcd);
		ck_assert_ptr_nonnull(sharer->handle);
	}
	close(fd);
}

static void drop_handle(struct sharer *sharer)
{
	ck_assert_int_eq(ibv_destroy_qp(sharer->handle), 0);
	ck_assert_int_eq(ibv_close_xrcd(sharer->xrcd), 0);
}

/*
 * Contexts that share a QP close one after the other, and the QP goes on receiving for the last.
 * _i & 1: they leave what they have to ibv_close_device(); & 2: that which made the QP goes second.
 */
START_TEST(shared_queue_pair_of_contexts)
{
	struct sharer sharers[SHARERS], *last = &sharers[SHARERS - 1];
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *initiator = create_initiator(0);
	struct ibv_srq *srq;
	uint32_t number;

	share_target(sharers);
	srq = create_srq(last->xrcd);
	ck_assert_int_eq(ibv_get_srq_num(srq, &number), 0);
	connect_qp(sharers[1].handle, initiator);
	connect_qp(initiator, sharers[1].handle);
	for (int i = 0; i < SHARERS; i++) {
		struct sharer *sharer = &sharers[_i & 2 && i < 2 ? 1 - i : i];

		receive(srq, 100 + i);
		send(initiator, IBV_WR_SEND, number, i);
		expect_both(initiator, i, last->handle, 100 + i);
		if (i == SHARERS - 1)
			break;
		if (!(_i & 1))
			drop_handle(sharer);
		ck_assert_int_eq(ibv_close_device(sharer->context), 0);
	}
	ck_assert_int_eq(ibv_modify_qp(last->handle, &attr, IBV_QP_STATE), 0);
	expect_event(last->handle, IBV_EVENT_QP_LAST_WQE_REACHED);
	for (int i = 0; _i & 1 && i < SHARERS - 1; i++)
		drop_handle(&sharers[i]);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(last->xrcd), EBUSY);
	drop_handle(last);
	ck_assert_int_eq(ibv_destroy_qp(initiator), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("xrc");
	TCase *tests = tcase_create("xrc");

	fixture_environment();
	tcase_set_timeout(tests, 100);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, domains);
	tcase_add_test(tests, shared_receive_queues);
	tcase_add_test(tests, queue_pairs);
	tcase_add_loop_test(tests, messages, 0, 4);
	tcase_add_loop_test(tests, wrong_queue, 0, 2);
	tcase_add_test(tests, queue_that_is_being_destroyed);
	tcase_add_test(tests, opening_refused);
	tcase_add_loop_test(tests, shared_queue_pair, 0, 2);
	tcase_add_loop_test(tests, handles_keep_their_domains, 0, 2);
	tcase_add_loop_test(tests, shared_queue_pair_of_contexts, 0, 4);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
