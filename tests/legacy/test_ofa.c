/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC by its old names, as a program of then has it. */
#include <infiniband/verbs.h>

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *receive_cq;
static struct ibv_mr *mr;
static uint8_t buffer[2 * BUFFER_SIZE];
static int file;

static void setup(void)
{
	char name[] = "/tmp/urxe-test-XXXXXX";

	file = mkstemp(name);
	ck_assert_int_ge(file, 0);
	unlink(name);
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	send_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	receive_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	ck_assert(pd && send_cq && receive_cq && mr);
}

static void teardown(void)
{
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_destroy_cq(receive_cq), 0);
	ck_assert_int_eq(ibv_destroy_cq(send_cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	fixture_close(context);
	close(file);
}

static struct ibv_xrc_domain *open_domain(void)
{
	struct ibv_xrc_domain *domain = ibv_open_xrc_domain(context, file, O_CREAT);

	ck_assert_ptr_nonnull(domain);
	ck_assert_ptr_eq(domain->context, context);
	return domain;
}

static struct ibv_srq *create_srq(struct ibv_xrc_domain *domain)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1},
					 .srq_context = &mr};
	struct ibv_srq *srq = ibv_create_xrc_srq(pd, domain, receive_cq, &init);

	ck_assert_ptr_nonnull(srq);
	ck_assert_ptr_eq(srq->srq_context, &mr);
	ck_assert_uint_ge(init.attr.max_wr, DEPTH);
	return srq;
}

static uint32_t create_receive_qp(struct ibv_xrc_domain *domain)
{
	struct ibv_qp_init_attr init = {.xrc_domain = domain};
	uint32_t number = 0;

	ck_assert_int_eq(ibv_create_xrc_rcv_qp(&init, &number), 0);
	ck_assert_uint_ne(number, 0);
	return number;
}

static struct ibv_qp *create_send_qp(struct ibv_xrc_domain *domain)
{
	struct ibv_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = send_cq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.qp_type = IBV_QPT_XRC,
		.xrc_domain = domain,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	ck_assert_ptr_nonnull(qp);
	return qp;
}

static struct ibv_qp_attr attributes(enum ibv_qp_state state, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	ck_assert_int_eq(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	return attr;
}

#define INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RECEIVE (RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS                                                                                        \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static void connect_receive_qp(struct ibv_xrc_domain *domain, uint32_t number, uint32_t sender)
{
	struct ibv_qp_attr attr = attributes(IBV_QPS_INIT, sender);

	ck_assert_int_eq(ibv_modify_xrc_rcv_qp(domain, number, &attr, INIT), 0);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_xrc_rcv_qp(domain, number, &attr, RTR_RECEIVE), 0);
}

static void connect_send_qp(struct ibv_qp *qp, uint32_t receiver)
{
	struct ibv_qp_attr attr = attributes(IBV_QPS_INIT, receiver);

	ck_assert_int_eq(ibv_modify_qp(qp, &attr, INIT), 0);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, RTR), 0);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, RTS), 0);
}

static void receive(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)buffer + BUFFER_SIZE, BUFFER_SIZE, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void send_to(struct ibv_qp *qp, uint32_t srq_number, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)buffer, length, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .xrc_remote_srq_num = srq_number},
			   *bad;

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
}

START_TEST(domains)
{
	struct ibv_xrc_domain *domain, *again;

	errno = 0;
	ck_assert_ptr_null(ibv_open_xrc_domain(context, file, 0));
	ck_assert_int_eq(errno, EAGAIN);
	domain = open_domain();
	again = ibv_open_xrc_domain(context, file, 0);
	ck_assert_ptr_nonnull(again);
	ck_assert_ptr_null(ibv_open_xrc_domain(context, file, O_CREAT | O_EXCL));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_close_xrc_domain(again), 0);
	ck_assert_int_eq(ibv_close_xrc_domain(domain), 0);
	domain = ibv_open_xrc_domain(context, -1, O_CREAT);
	ck_assert_ptr_nonnull(domain);
	ck_assert_int_eq(ibv_close_xrc_domain(domain), 0);
}
END_TEST

/* One queue pair to two queues. */
START_TEST(messages_by_number)
{
	struct ibv_xrc_domain *domain;
	struct ibv_srq *srqs[2];
	struct ibv_srq_attr queried;
	struct ibv_qp *sender;
	uint32_t receiver;
	struct ibv_wc wc;

	domain = open_domain();
	for (int i = 0; i < 2; i++) {
		srqs[i] = create_srq(domain);
		receive(srqs[i], i);
		receive(srqs[i], 10 + i);
	}
	ck_assert_uint_ne(srqs[0]->xrc_srq_num, srqs[1]->xrc_srq_num);
	ck_assert_int_eq(ibv_query_srq(srqs[0], &queried), 0);
	ck_assert_uint_ge(queried.max_wr, DEPTH);
	receiver = create_receive_qp(domain);
	sender = create_send_qp(domain);
	connect_receive_qp(domain, receiver, sender->qp_num);
	connect_send_qp(sender, receiver);
	for (uint32_t i = 0; i < 4; i++) {
		memset(buffer, 'a' + (int)i, 100);
		send_to(sender, srqs[i % 2]->xrc_srq_num, 100 + i);
		ck_assert_int_eq(wait_completion(send_cq).status, IBV_WC_SUCCESS);
		wc = wait_completion(receive_cq);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i % 2 + i / 2 * 10);
		ck_assert_uint_eq(wc.byte_len, 100 + i);
		ck_assert_uint_eq(wc.qp_num, receiver);
		ck_assert_uint_eq(buffer[BUFFER_SIZE], 'a' + i);
	}
	ck_assert_int_eq(ibv_close_xrc_domain(domain), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(sender), 0);
	ck_assert_int_eq(ibv_unreg_xrc_rcv_qp(domain, receiver), 0);
	ck_assert_int_eq(ibv_close_xrc_domain(domain), EBUSY);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_destroy_srq(srqs[i]), 0);
	ck_assert_int_eq(ibv_close_xrc_domain(domain), 0);
}
END_TEST

/* Another opening of the domain stands for another process. */
START_TEST(registrations)
{
	struct ibv_qp_attr attr = attributes(IBV_QPS_INIT, 1);
	struct ibv_xrc_domain *domain, *other, *foreign;
	struct ibv_qp_init_attr init;
	uint32_t receiver;

	domain = open_domain();
	other = open_domain();
	foreign = ibv_open_xrc_domain(context, -1, O_CREAT);
	ck_assert_ptr_nonnull(foreign);
	receiver = create_receive_qp(domain);
	ck_assert_int_eq(ibv_reg_xrc_rcv_qp(domain, receiver), 0); /* it is already */
	ck_assert_int_eq(ibv_reg_xrc_rcv_qp(foreign, receiver), EINVAL);
	ck_assert_int_eq(ibv_reg_xrc_rcv_qp(domain, receiver + 1), EINVAL);
	ck_assert_int_eq(ibv_unreg_xrc_rcv_qp(other, receiver), EINVAL);

	/* It can be modified and queried without. */
	ck_assert_int_eq(ibv_modify_xrc_rcv_qp(other, receiver, &attr, INIT), 0);
	ck_assert_int_eq(ibv_query_xrc_rcv_qp(other, receiver, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_INIT);
	ck_assert_ptr_eq(init.xrc_domain, other);
	ck_assert_int_eq(ibv_query_xrc_rcv_qp(foreign, receiver, &attr, IBV_QP_STATE, &init),
			 EINVAL);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_xrc_rcv_qp(domain, receiver, &attr, RTS), EINVAL);

	/* It lives as long as there is one. */
	ck_assert_int_eq(ibv_reg_xrc_rcv_qp(other, receiver), 0);
	ck_assert_int_eq(ibv_unreg_xrc_rcv_qp(domain, receiver), 0);
	ck_assert_int_eq(ibv_unreg_xrc_rcv_qp(domain, receiver), EINVAL);
	ck_assert_int_eq(ibv_query_xrc_rcv_qp(domain, receiver, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(ibv_unreg_xrc_rcv_qp(other, receiver), 0);
	ck_assert_int_eq(ibv_query_xrc_rcv_qp(domain, receiver, &attr, IBV_QP_STATE, &init),
			 EINVAL);
	ck_assert_int_eq(ibv_close_xrc_domain(foreign), 0);
	ck_assert_int_eq(ibv_close_xrc_domain(other), 0);
	ck_assert_int_eq(ibv_close_xrc_domain(domain), 0);
}
END_TEST

/* The first message is an event of the receive QP, which was not yet in RTS. */
START_TEST(events_by_number)
{
	struct ibv_xrc_domain *domain = open_domain();
	struct ibv_srq *srq = create_srq(domain);
	struct ibv_async_event event;
	struct ibv_srq_attr limit = {.srq_limit = 1};
	uint32_t receiver = create_receive_qp(domain);
	struct ibv_qp *sender = create_send_qp(domain);

	connect_receive_qp(domain, receiver, sender->qp_num);
	connect_send_qp(sender, receiver);
	receive(srq, 1);
	ck_assert_int_eq(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	send_to(sender, srq->xrc_srq_num, 8);
	ck_assert_int_eq(wait_completion(send_cq).status, IBV_WC_SUCCESS);
	for (int seen = 0; seen != 3;) {
		ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
		if (event.event_type & IBV_XRC_QP_EVENT_FLAG) {
			ck_assert_int_eq(event.event_type & ~IBV_XRC_QP_EVENT_FLAG,
					 IBV_EVENT_COMM_EST);
			ck_assert_uint_eq(event.element.xrc_qp_num, receiver);
			seen |= 1;
		} else {
			ck_assert_int_eq(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
			ck_assert_ptr_eq(event.element.srq, srq);
			seen |= 2;
		}
		ibv_ack_async_event(&event);
	}
	ck_assert_int_eq(ibv_destroy_qp(sender), 0);
	ck_assert_int_eq(ibv_unreg_xrc_rcv_qp(domain, receiver), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrc_domain(domain), 0);
}
END_TEST

/* Queues that aren't XRC's, in the same program. */
START_TEST(ordinary_queues)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_qp_init_attr qp_init = {
		.send_cq = send_cq,
		.recv_cq = receive_cq,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	qp_init.srq = ibv_create_srq(pd, &init);
	ck_assert_ptr_nonnull(qp_init.srq);
	qp = ibv_create_qp(pd, &qp_init);
	ck_assert_ptr_nonnull(qp);
	qp_init.xrc_domain = (struct ibv_xrc_domain *)&init;
	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &qp_init), 0);
	ck_assert_int_eq(qp_init.qp_type, IBV_QPT_RC);
	ck_assert_ptr_null(qp_init.xrc_domain);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_srq(qp_init.srq), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ofa");
	TCase *tests = tcase_create("ofa");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, domains);
	tcase_add_test(tests, messages_by_number);
	tcase_add_test(tests, registrations);
	tcase_add_test(tests, events_by_number);
	tcase_add_test(tests, ordinary_queues);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
