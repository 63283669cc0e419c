/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC: a message names the queue that it is for.
 *
 * With RC, N processes on each of two nodes need N * N connections, each with receives of its own.
 * An XRC queue pair only sends or only receives, and each message names the shared receive queue
 * that takes it: one of any process that has opened the same domain, which a file stands for. Here,
 * the server has a queue for short messages and one for long ones, and a single connection leads to
 * both.
 *
 *   cc xrc.c -o xrc -libverbs
 *
 *   ./xrc 7471                      the server
 *   ./xrc 7471 server.example       the client
 */
#include <fcntl.h>
#include <infiniband/verbs.h>

#include "example.h"

#define QUEUES 2
#define MESSAGES 8 /* to each */
#define LONGEST 4096
#define PORT 1
#define GID_INDEX 0

/* What the other side must know. The numbers are in network byte order. */
struct address {
	union ibv_gid gid;
	uint32_t qpn, psn;
	uint32_t srqs[QUEUES]; /* the server's */
};

/* What fits into a buffer of each queue. */
static const int sizes[QUEUES] = {64, LONGEST};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_xrcd *domain;
	struct ibv_srq *srqs[QUEUES];
	struct ibv_qp *qp;
	char buffers[QUEUES][MESSAGES][LONGEST];
};

static void open_end(struct end *end)
{
	struct ibv_device **list;

	CHECK((list = ibv_get_device_list(NULL)) && list[0]);
	CHECK(end->context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	CHECK(end->pd = ibv_alloc_pd(end->context));
	CHECK(end->cq = ibv_create_cq(end->context, QUEUES * MESSAGES, NULL, NULL, 0));
	CHECK(end->mr = ibv_reg_mr(end->pd, end->buffers, sizeof(end->buffers),
				   IBV_ACCESS_LOCAL_WRITE));
}

static void close_end(struct end *end)
{
	CHECK(ibv_destroy_qp(end->qp) == 0);
	for (int i = 0; i < QUEUES && end->srqs[i]; i++)
		CHECK(ibv_destroy_srq(end->srqs[i]) == 0);
	if (end->domain)
		CHECK(ibv_close_xrcd(end->domain) == 0);
	CHECK(ibv_dereg_mr(end->mr) == 0);
	CHECK(ibv_destroy_cq(end->cq) == 0);
	CHECK(ibv_dealloc_pd(end->pd) == 0);
	CHECK(ibv_close_device(end->context) == 0);
}

static void wait_for_completion(struct end *end, struct ibv_wc *wc)
{
	int count;

	while ((count = ibv_poll_cq(end->cq, 1, wc)) == 0)
		;
	CHECK(count == 1);
	CHECK(wc->status == IBV_WC_SUCCESS);
}

/* --- connecting: as RC, but each side has one half of it ------------------------------------- */

static void to_rtr(struct end *end, const struct address *peer)
{
	int receives = end->qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT};

	CHECK(ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = ntohl(peer->qpn),
		.rq_psn = ntohl(peer->psn),
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT,
			    .grh = {.dgid = peer->gid, .sgid_index = GID_INDEX, .hop_limit = 64}},
	};
	CHECK(ibv_modify_qp(
		      end->qp, &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      (receives ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) ==
	      0);
}

/* The sender alone. A receiver is done in RTR. */
static void to_rts(struct end *end, uint32_t psn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .sq_psn = psn,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7};

	CHECK(ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct address address_of(struct end *end)
{
	struct address address = {.qpn = htonl(end->qp->qp_num), .psn = htonl(getpid() & 0xffffff)};

	CHECK(ibv_query_gid(end->context, PORT, GID_INDEX, &address.gid) == 0);
	return address;
}

/* --- the server ------------------------------------------------------------------------------ */

/* Other processes of the node that open @file are in the same domain. */
static void open_domain(struct end *end, int file)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file,
		.oflags = O_CREAT,
	};

	CHECK(end->domain = ibv_open_xrcd(end->context, &init));
}

/* Returns its number, in network byte order. */
static uint32_t create_queue(struct end *end, int q)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = MESSAGES, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = end->pd,
		.xrcd = end->domain,
		.cq = end->cq, /* of the queue, not of the queue pair */
	};
	uint32_t number;

	CHECK(end->srqs[q] = ibv_create_srq_ex(end->context, &init));
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = {(uintptr_t)end->buffers[q][i], sizes[q], end->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = (uintptr_t)end->buffers[q][i],
					 .sg_list = &sge,
					 .num_sge = 1},
				   *bad;

		CHECK(ibv_post_srq_recv(end->srqs[q], &wr, &bad) == 0);
	}
	CHECK(ibv_get_srq_num(end->srqs[q], &number) == 0);
	return htonl(number);
}

static void run_server(const char *port)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	FILE *file;
	static struct end end;
	struct address ours, theirs;
	struct ibv_wc wc;
	int tcp;

	CHECK(file = tmpfile());
	open_end(&end);
	open_domain(&end, fileno(file));
	init.xrcd = end.domain;
	CHECK(end.qp = ibv_create_qp_ex(end.context, &init));
	ours = address_of(&end);
	for (int q = 0; q < QUEUES; q++)
		ours.srqs[q] = create_queue(&end, q);
	tcp = connect_tcp(NULL, port);
	exchange(tcp, &ours, &theirs, sizeof(ours));
	to_rtr(&end, &theirs);
	wait_for_peer(tcp);
	for (int i = 0; i < QUEUES * MESSAGES; i++) {
		char *message;

		wait_for_completion(&end, &wc);
		message = (char *)(uintptr_t)wc.wr_id;
		printf("%s queue: %u bytes, %s\n", message < end.buffers[1][0] ? "short" : "long",
		       wc.byte_len, message);
	}
	wait_for_peer(tcp);
	close_end(&end);
}

/* --- the client ------------------------------------------------------------------------------ */

static void run_client(const char *port, const char *host)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	static struct end end;
	struct address ours, theirs;
	struct ibv_wc wc;
	int tcp;

	open_end(&end);
	init.pd = end.pd;
	init.send_cq = end.cq;
	CHECK(end.qp = ibv_create_qp_ex(end.context, &init));
	tcp = connect_tcp(host, port);
	ours = address_of(&end);
	exchange(tcp, &ours, &theirs, sizeof(ours));
	to_rtr(&end, &theirs);
	to_rts(&end, ntohl(ours.psn));
	wait_for_peer(tcp);

	for (int i = 0; i < QUEUES * MESSAGES; i++) {
		char *message = end.buffers[0][0];
		struct ibv_sge sge = {(uintptr_t)message, sizes[i % QUEUES], end.mr->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1},
				   *bad;

		snprintf(message, LONGEST, "message %d", i);
		wr.qp_type.xrc.remote_srqn =
			ntohl(theirs.srqs[i % QUEUES]); /* which is to take it */
		CHECK(ibv_post_send(end.qp, &wr, &bad) == 0);
		wait_for_completion(&end, &wc);
	}
	printf("sent %d messages over one connection\n", QUEUES * MESSAGES);
	wait_for_peer(tcp);
	close_end(&end);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: xrc PORT [SERVER]\n");
		return 2;
	}
	if (argc == 2)
		run_server(argv[1]);
	else
		run_client(argv[1], argv[2]);
	return 0;
}
