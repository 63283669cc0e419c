/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of XRC by librdmacm: endpoints of initiators and targets, and the shared receive
 * queues that requests name.
 */
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

static char source[64] = "some words", target[64];

static const struct ibv_qp_init_attr queue_pair = {
	.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	.sq_sig_all = 1,
};

static struct rdma_addrinfo *look_up(enum ibv_qp_type type)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_IB,
				      .ai_qp_type = type,
				      .ai_flags = type == IBV_QPT_XRC_RECV ? RAI_PASSIVE : 0};
	struct rdma_addrinfo *info;

	ck_assert_int_eq(rdma_getaddrinfo((char *)fixture_address(), "7477", &hints, &info), 0);
	ck_assert_int_eq(info->ai_port_space, RDMA_PS_IB);
	ck_assert_int_eq(info->ai_qp_type, type);
	return info;
}

/* An endpoint, with a QP if it is the active one. */
static struct rdma_cm_id *open_endpoint(enum ibv_qp_type type)
{
	struct rdma_addrinfo *info = look_up(type);
	struct ibv_qp_init_attr attr = queue_pair;
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_create_ep(&id, info, NULL, &attr), 0);
	ck_assert_int_eq(id->qp_type, type);
	rdma_freeaddrinfo(info);
	return id;
}

static struct rdma_cm_id *open_listener(void)
{
	struct rdma_cm_id *id = open_endpoint(IBV_QPT_XRC_RECV);

	ck_assert_int_eq(rdma_listen(id, 1), 0);
	return id;
}

/* Accepts one request, says the number of its SRQ, and returns the id. */
static void *serve(void *listener)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct rdma_conn_param param = {.private_data_len = sizeof(uint32_t)};
	struct rdma_cm_id *id;
	uint32_t number;

	ck_assert_int_eq(rdma_get_request(listener, &id), 0);
	ck_assert_int_eq(id->qp_type, IBV_QPT_XRC_RECV);
	ck_assert_int_eq(id->qp->qp_type, IBV_QPT_XRC_RECV);
	ck_assert_ptr_null(id->recv_cq); /* a target has none */
	ck_assert_int_eq(rdma_create_srq(id, NULL, &attr), 0);
	ck_assert_ptr_nonnull(id->recv_cq);
	ck_assert_int_eq(ibv_get_srq_num(id->srq, &number), 0);
	param.private_data = &number;
	ck_assert_int_eq(rdma_accept(id, &param), 0);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void *disconnect(void *id)
{
	ck_assert_int_eq(rdma_disconnect(id), 0);
	return NULL;
}

static void send_to(struct rdma_cm_id *from, struct rdma_cm_id *to, uint32_t number)
{
	struct ibv_mr *source_mr = rdma_reg_msgs(from, source, sizeof(source));
	struct ibv_mr *target_mr = rdma_reg_msgs(to, target, sizeof(target));
	struct ibv_sge sge = {
		.addr = (uintptr_t)source, .length = sizeof(source), .lkey = source_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .qp_type.xrc.remote_srqn = number},
			   *bad;
	struct ibv_wc wc;

	memset(target, 0, sizeof(target));
	ck_assert_int_eq(rdma_post_recv(to, NULL, target, sizeof(target), target_mr), 0);
	ck_assert_int_eq(ibv_post_send(from->qp, &wr, &bad), 0);
	ck_assert_int_eq(rdma_get_send_comp(from, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(rdma_get_recv_comp(to, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_str_eq(target, source);
	ck_assert_int_eq(rdma_dereg_mr(source_mr), 0);
	ck_assert_int_eq(rdma_dereg_mr(target_mr), 0);
}

START_TEST(endpoints)
{
	struct rdma_cm_id *listener = open_listener(), *active, *passive;
	const struct rdma_conn_param *said;
	pthread_t thread;
	uint32_t number;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, serve, listener), 0);
	active = open_endpoint(IBV_QPT_XRC_SEND);
	ck_assert_ptr_null(active->recv_cq); /* an initiator has none */
	ck_assert_ptr_nonnull(active->send_cq);
	ck_assert_int_eq(rdma_connect(active, NULL), 0);
	pthread_join(thread, &result);
	passive = result;
	said = &active->event->param.conn;
	ck_assert_uint_eq(said->qp_num, passive->qp->qp_num);
	ck_assert_uint_eq(said->srq, 1);
	memcpy(&number, said->private_data, sizeof(number));
	send_to(active, passive, number);
	ck_assert_int_eq(pthread_create(&thread, NULL, disconnect, passive), 0);
	ck_assert_int_eq(rdma_disconnect(active), 0);
	pthread_join(thread, NULL);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listener);
}
END_TEST

/* Targets of a device are in one domain, so that each takes requests for the SRQs of all. */
START_TEST(shared_queue_of_targets)
{
	struct rdma_cm_id *listener = open_listener(), *active[2], *passive[2];
	pthread_t thread;
	uint32_t number[2];
	void *result;

	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_create(&thread, NULL, serve, listener), 0);
		active[i] = open_endpoint(IBV_QPT_XRC_SEND);
		ck_assert_int_eq(rdma_connect(active[i], NULL), 0);
		pthread_join(thread, &result);
		passive[i] = result;
		memcpy(&number[i], active[i]->event->param.conn.private_data, sizeof(number[i]));
	}
	ck_assert_uint_ne(number[0], number[1]);
	send_to(active[0], passive[1], number[1]);
	send_to(active[1], passive[1], number[1]);
	for (unsigned int i = 0; i < 2; i++) {
		rdma_destroy_ep(active[i]);
		rdma_destroy_ep(passive[i]);
	}
	rdma_destroy_ep(listener);
}
END_TEST

/* An RC id finds no service at a listener of targets, and the other way round. */
START_TEST(types_do_not_mix)
{
	struct rdma_cm_id *listener = open_listener(), *active;
	struct rdma_addrinfo *there = look_up(IBV_QPT_XRC_SEND);
	struct ibv_qp_init_attr attr = queue_pair;

	there->ai_qp_type = IBV_QPT_RC;
	ck_assert_int_eq(rdma_create_ep(&active, there, NULL, &attr), 0);
	ck_fails(rdma_connect(active, NULL), ECONNREFUSED);
	ck_assert_int_eq(active->event->status, 28);
	rdma_destroy_ep(active);
	rdma_destroy_ep(listener);

	listener = open_id(NULL, RDMA_PS_IB);
	start_listening(listener, 7477);
	active = open_endpoint(IBV_QPT_XRC_SEND);
	ck_fails(rdma_connect(active, NULL), ECONNREFUSED);
	ck_assert_int_eq(active->event->status, 28);
	rdma_destroy_ep(active);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(there);
}
END_TEST

/* --- what an SRQ is made of --------------------------------------------------------- */

static struct ibv_srq_init_attr_ex shared_queue(void)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_XRC,
	};
}

/* For a QP of RC, which takes no SRQ of XRC. */
static struct ibv_srq *rc_queue(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(id->pd, &attr);

	ck_assert_ptr_nonnull(srq);
	return srq;
}

/* What isn't given is the id's, and goes with its SRQ. */
START_TEST(queue_with_defaults)
{
	struct ibv_srq_init_attr_ex attr = shared_queue();
	struct rdma_cm_id *id = open_bound_id(NULL, RDMA_PS_IB);
	struct ibv_qp_init_attr qp_attr = queue_pair;
	struct ibv_cq *cq;

	ck_assert_int_eq(rdma_create_srq_ex(id, &attr), 0);
	ck_assert_ptr_nonnull(attr.xrcd);
	ck_assert_ptr_eq(attr.cq, id->recv_cq);
	ck_assert_ptr_eq(id->srq->pd, id->pd);
	/* The id's QP is to use the id's queue. */
	cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	qp_attr.qp_type = IBV_QPT_RC;
	qp_attr.recv_cq = cq;
	ck_fails(rdma_create_qp(id, NULL, &qp_attr), EINVAL);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	rdma_destroy_srq(id);
	ck_assert_ptr_null(id->recv_cq);
	rdma_destroy_id(id);
}
END_TEST

/* The SRQ completes to it, whichever type the QP has. Nothing of it is the application's error. */
START_TEST(queue_outlives_the_queue_pair)
{
	static struct said said;
	struct rdma_cm_id *ids[] = {open_endpoint(IBV_QPT_XRC_RECV),
				    open_bound_id(NULL, RDMA_PS_IB)};

	for (unsigned int i = 0; i < 2; i++) {
		struct ibv_srq_init_attr_ex attr = shared_queue();
		struct ibv_qp_init_attr qp_attr = queue_pair;

		qp_attr.qp_type = ids[i]->qp_type;
		ck_assert_int_eq(rdma_create_srq_ex(ids[i], &attr), 0);
		if (ids[i]->qp_type == IBV_QPT_RC)
			qp_attr.srq = rc_queue(ids[i]);
		said_begin(&said);
		ck_assert_int_eq(rdma_create_qp(ids[i], NULL, &qp_attr), 0);
		rdma_destroy_qp(ids[i]);
		said_end(&said);
		ck_assert_uint_eq(said_count(&said, CAUSE_OBJECT_IN_USE), 0);
		ck_assert_ptr_eq(ids[i]->recv_cq, attr.cq);
		ck_assert_ptr_null(ids[i]->send_cq);
		if (ids[i]->qp_type == IBV_QPT_RC)
			ck_assert_int_eq(ibv_destroy_srq(qp_attr.srq), 0);
		rdma_destroy_srq(ids[i]);
		ck_assert_ptr_null(ids[i]->recv_cq);
		rdma_destroy_id(ids[i]);
	}
}
END_TEST

START_TEST(queue_with_what_is_given)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex attr = shared_queue();
	struct rdma_cm_id *id = open_bound_id(NULL, RDMA_PS_IB);
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(id->verbs, &domain);

	ck_assert_ptr_nonnull(xrcd);
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	attr.pd = pd;
	attr.xrcd = xrcd;
	attr.cq = cq;
	ck_assert_int_eq(rdma_create_srq_ex(id, &attr), 0);
	ck_assert_ptr_null(id->recv_cq);
	ck_assert_ptr_eq(id->srq->pd, pd);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), EBUSY);
	rdma_destroy_srq(id);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_close_xrcd(xrcd), 0);
	rdma_destroy_id(id);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}
END_TEST

START_TEST(queue_refused)
{
	struct ibv_srq_init_attr_ex attr = shared_queue();
	struct rdma_cm_id *id = open_bound_id(NULL, RDMA_PS_IB);

	attr.attr.max_sge = 1 << 20;
	ck_fails(rdma_create_srq_ex(id, &attr), EINVAL);
	ck_assert_ptr_null(id->srq);
	ck_assert_ptr_null(id->recv_cq);
	ck_assert_ptr_null(id->recv_cq_channel);
	rdma_destroy_id(id);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("xrc_connections");
	TCase *tests = tcase_create("xrc_connections");

	fixture_environment();
	setenv("URXE_EXPLAIN", "1", 1);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, endpoints);
	tcase_add_test(tests, shared_queue_of_targets);
	tcase_add_test(tests, types_do_not_mix);
	tcase_add_test(tests, queue_with_defaults);
	tcase_add_test(tests, queue_outlives_the_queue_pair);
	tcase_add_test(tests, queue_with_what_is_given);
	tcase_add_test(tests, queue_refused);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
