/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC by its old names, compiled with the headers of include/legacy: a client's one queue pair
 * reaches two shared receive queues of the server. What the calls refuse is in tests/legacy.
 */
#include <infiniband/verbs.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scenario.h"

#define QUEUES 2
#define MESSAGES 100 /* to each */
#define SLOT 2048u

/* What each side tells the other. */
struct numbers {
	uint32_t qp, srqs[QUEUES];
};

static struct numbers swap(struct pair *pair, struct numbers ours)
{
	struct numbers theirs = {.qp = pair_exchange_number(pair, ours.qp)};

	for (unsigned int i = 0; i < QUEUES; i++)
		theirs.srqs[i] = pair_exchange_number(pair, ours.srqs[i]);
	return theirs;
}

#define INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTS                                                                                        \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static struct ibv_qp_attr attributes(struct pair *pair, uint32_t peer)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = pair->remote.gid, .hop_limit = 64}},
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
}

/* --- the server -------------------------------------------------------------------- */

static void post_receive(struct pair *pair, struct ibv_srq *srq, uint64_t slot)
{
	struct ibv_sge sge = pair_sge(pair, slot * SLOT, SLOT);
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQUAL(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static uint32_t size_of(int number)
{
	return number * 89 % SLOT;
}

/* Each queue's messages are in order, and nothing of the other's. */
static void receive_all(struct pair *pair, struct ibv_srq **srqs, uint32_t receiver)
{
	int next[QUEUES] = {0, 1};
	struct ibv_wc wc;

	for (int left = QUEUES * MESSAGES; left > 0; left--) {
		int queue;

		while (ibv_poll_cq(pair->receive_cq, 1, &wc) == 0)
			; /* the harness ends us if it never comes */
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.qp_num, receiver);
		queue = wc.wr_id % QUEUES;
		CHECK_EQUAL(wc.byte_len, size_of(next[queue]));
		CHECK(pattern_matches(pair->memory + wc.wr_id * SLOT, wc.byte_len, next[queue]));
		next[queue] += QUEUES;
		post_receive(pair, srqs[queue], wc.wr_id);
	}
}

static void serve(struct pair *pair)
{
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 8, .max_sge = 1}};
	FILE *file = tmpfile();
	struct ibv_xrc_domain *domain;
	struct ibv_qp_init_attr init;
	struct ibv_srq *srqs[QUEUES];
	struct numbers ours, theirs;
	struct ibv_qp_attr attr;

	CHECK(file);
	domain = ibv_open_xrc_domain(pair->context, fileno(file), O_CREAT);
	CHECK(domain);
	memset(&init, 0, sizeof(init));
	init.xrc_domain = domain;
	CHECK_EQUAL(ibv_create_xrc_rcv_qp(&init, &ours.qp), 0);
	for (int q = 0; q < QUEUES; q++) {
		srqs[q] = ibv_create_xrc_srq(pair->pd, domain, pair->receive_cq, &srq_init);
		CHECK(srqs[q]);
		ours.srqs[q] = srqs[q]->xrc_srq_num;
		for (int i = 0; i < 8; i++)
			post_receive(pair, srqs[q], i * QUEUES + q);
	}
	theirs = swap(pair, ours);
	attr = attributes(pair, theirs.qp);
	CHECK_EQUAL(ibv_modify_xrc_rcv_qp(domain, ours.qp, &attr, INIT), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQUAL(ibv_modify_xrc_rcv_qp(domain, ours.qp, &attr,
					  RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		    0);
	pair_barrier(pair);
	receive_all(pair, srqs, ours.qp);
	pair_barrier(pair);
	CHECK_EQUAL(ibv_query_xrc_rcv_qp(domain, ours.qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQUAL(attr.qp_state, IBV_QPS_RTR);
	CHECK_EQUAL(ibv_unreg_xrc_rcv_qp(domain, ours.qp), 0);
	for (int q = 0; q < QUEUES; q++)
		CHECK_EQUAL(ibv_destroy_srq(srqs[q]), 0);
	CHECK_EQUAL(ibv_close_xrc_domain(domain), 0);
	fclose(file);
}

/* --- the client ---------------------------------------------------------------------- */

static void send_all(struct pair *pair, struct ibv_qp *qp, const struct numbers *theirs)
{
	struct ibv_wc wc;

	for (int i = 0; i < QUEUES * MESSAGES; i++) {
		struct ibv_sge sge = pair_sge(pair, 0, size_of(i));
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
					 .xrc_remote_srq_num = theirs->srqs[i % QUEUES]},
				   *bad;

		pattern_fill(pair->memory, sge.length, i);
		CHECK_EQUAL(ibv_post_send(qp, &wr, &bad), 0);
		while (ibv_poll_cq(pair->send_cq, 1, &wc) == 0)
			;
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.wr_id, i);
	}
}

static void run_client(struct pair *pair)
{
	struct ibv_xrc_domain *domain = ibv_open_xrc_domain(pair->context, -1, O_CREAT);
	struct ibv_qp_init_attr init = {
		.send_cq = pair->send_cq,
		.recv_cq = pair->send_cq,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_XRC,
		.xrc_domain = domain,
	};
	struct numbers ours = {.qp = 0}, theirs;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	CHECK(domain);
	qp = ibv_create_qp(pair->pd, &init);
	CHECK(qp);
	ours.qp = qp->qp_num;
	theirs = swap(pair, ours);
	attr = attributes(pair, theirs.qp);
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, INIT), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, RTR), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQUAL(ibv_modify_qp(qp, &attr, RTS), 0);
	pair_barrier(pair);
	send_all(pair, qp, &theirs);
	pair_barrier(pair);
	CHECK_EQUAL(ibv_destroy_qp(qp), 0);
	CHECK_EQUAL(ibv_close_xrc_domain(domain), 0);
}

static void ofa_xrc(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.memory = QUEUES * 8 * SLOT});
	if (pair->server)
		serve(pair);
	else
		run_client(pair);
	pair_close(pair);
}

const struct scenario scenarios_ofa[] = {
	{"ofa-xrc", ofa_xrc},
	{NULL, NULL},
};
