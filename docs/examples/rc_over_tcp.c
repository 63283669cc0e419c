/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reliable connection with libibverbs alone: SEND, RDMA READ and RDMA WRITE.
 *
 * Two queue pairs can talk when each knows the other's address: its GID, its number, and the first
 * packet sequence number. How they get to know that is the program's business; here, TCP.
 *
 *   cc rc_over_tcp.c -o rc_over_tcp -libverbs
 *
 *   ./rc_over_tcp 7471                      the server
 *   ./rc_over_tcp 7471 server.example       the client
 *
 * -d NAME chooses the device, -g INDEX its address (see ibv_devinfo -v); otherwise the first.
 */
#include <infiniband/verbs.h>
#include <unistd.h>

#include "example.h"

#define SIZE 64
#define PORT 1 /* of the device; most have no other one */

/* All that the other side must know. The numbers are in network byte order. */
struct address {
	union ibv_gid gid;
	uint32_t qpn, psn;  /* of the queue pair */
	uint32_t rkey;	    /* the right to read and write our buffer ... */
	uint32_t high, low; /* ... which is there */
};

struct end {
	int tcp;
	int gid_index;
	struct ibv_context *context;
	struct ibv_pd *pd; /* queue pairs reach the memory of their own protection domain only */
	struct ibv_cq *cq; /* where finished work is told */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buffer[2 * SIZE]; /* the peer may access the first half; the second is for us */
};

/* --- resources ------------------------------------------------------------------------------ */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;

	CHECK(list = ibv_get_device_list(NULL));
	for (int i = 0; list[i] && !context; i++) {
		if (!name || strcmp(ibv_get_device_name(list[i]), name) == 0)
			CHECK(context = ibv_open_device(list[i]));
	}
	if (!context) {
		fprintf(stderr, "there is no device%s%s\n", name ? " " : "", name ? name : "");
		exit(EXIT_FAILURE);
	}
	ibv_free_device_list(list); /* not before the device is open */
	return context;
}

static void create(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	CHECK(end->pd = ibv_alloc_pd(end->context));
	CHECK(end->cq = ibv_create_cq(end->context, 8, NULL, NULL, 0));
	/* Memory is registered before the device touches it, with what it may do there. */
	CHECK(end->mr = ibv_reg_mr(end->pd, end->buffer, sizeof(end->buffer),
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_WRITE));
	init.send_cq = init.recv_cq = end->cq;
	CHECK(end->qp = ibv_create_qp(end->pd, &init));
}

static void destroy(struct end *end)
{
	/* What others stand on comes last. */
	CHECK(ibv_destroy_qp(end->qp) == 0);
	CHECK(ibv_dereg_mr(end->mr) == 0);
	CHECK(ibv_destroy_cq(end->cq) == 0);
	CHECK(ibv_dealloc_pd(end->pd) == 0);
	CHECK(ibv_close_device(end->context) == 0);
	close(end->tcp);
}

/* --- connecting: RESET, INIT, RTR, RTS ------------------------------------------------------- */

static void to_init(struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	CHECK(ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
}

/* Ready to receive: who the peer is. */
static void to_rtr(struct end *end, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024, /* at most the active_mtu of both ports */
		.dest_qp_num = ntohl(peer->qpn),
		.rq_psn = ntohl(peer->psn),
		.max_dest_rd_atomic = 1,    /* READs of the peer's at a time */
		.min_rnr_timer = 12,	    /* if no receive is posted: "try again in 0.64 ms" */
		.ah_attr = {.is_global = 1, /* RoCE always has a global routing header */
			    .port_num = PORT,
			    .grh = {.dgid = peer->gid,
				    .sgid_index = end->gid_index,
				    .hop_limit = 64}},
	};

	CHECK(ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
}

/* Ready to send, too: how patient we are. */
static void to_rts(struct end *end, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = 14,	/* 4.096 us * 2^14 = 67 ms without an acknowledgement: repeat ... */
		.retry_cnt = 7, /* ... so often */
		.rnr_retry = 7, /* while the peer has no receive: for ever */
		.max_rd_atomic = 1, /* READs of ours at a time */
	};

	CHECK(ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* --- work ------------------------------------------------------------------------------------ */

static void post_receive(struct end *end)
{
	struct ibv_sge sge = {(uintptr_t)end->buffer + SIZE, SIZE, end->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(ibv_post_recv(end->qp, &wr, &bad) == 0);
}

/* @peer is needed by what names memory of the peer's: READ and WRITE. */
static void post(struct end *end, enum ibv_wr_opcode opcode, char *local,
		 const struct address *peer)
{
	struct ibv_sge sge = {(uintptr_t)local, SIZE, end->mr->lkey};
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, /* tell us when it is done */
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uint64_t)ntohl(peer->high) << 32 | ntohl(peer->low);
	wr.wr.rdma.rkey = ntohl(peer->rkey);
	CHECK(ibv_post_send(end->qp, &wr, &bad) == 0);
}

static void wait_for(struct end *end, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0)
		; /* srq_rdma.c shows how to sleep instead */
	CHECK(count == 1);
	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(wc.opcode == opcode);
}

static void talk(struct end *end, int server, const struct address *peer)
{
	char *shared = end->buffer, *own = end->buffer + SIZE;

	if (server) {
		strcpy(own, "a message");
		post(end, IBV_WR_SEND, own, peer);
		wait_for(end, IBV_WC_SEND);
		strcpy(shared, "for you to read");
	} else {
		wait_for(end, IBV_WC_RECV); /* a SEND goes where the receiver wants it */
		printf("received: %s\n", own);
	}
	wait_for_peer(end->tcp);

	/* The server's processor has no part in what follows, and its program no completion. */
	if (!server) {
		post(end, IBV_WR_RDMA_READ, own, peer);
		wait_for(end, IBV_WC_RDMA_READ);
		printf("read: %s\n", own);
		strcpy(own, "written by the client");
		post(end, IBV_WR_RDMA_WRITE, own, peer);
		wait_for(end, IBV_WC_RDMA_WRITE);
	}
	wait_for_peer(end->tcp);
	if (server)
		printf("in my memory: %s\n", shared);
}

int main(int argc, char **argv)
{
	struct end end = {.gid_index = 0};
	struct address ours, peer;
	const char *device = NULL;
	int option;

	while ((option = getopt(argc, argv, "d:g:")) != -1) {
		if (option == 'd')
			device = optarg;
		else if (option == 'g')
			end.gid_index = atoi(optarg);
	}
	if (argc - optind < 1 || argc - optind > 2) {
		fprintf(stderr, "usage: rc_over_tcp [-d DEVICE] [-g GID_INDEX] PORT [SERVER]\n");
		return 2;
	}
	end.context = open_device(device);
	create(&end);
	to_init(&end);
	post_receive(&end); /* before the peer can send */

	end.tcp = connect_tcp(argv[optind + 1], argv[optind]);
	ours = (struct address){
		.qpn = htonl(end.qp->qp_num),
		.psn = htonl(getpid() & 0xffffff), /* anything of 24 bits */
		.rkey = htonl(end.mr->rkey),
		.high = htonl((uintptr_t)end.buffer >> 32),
		.low = htonl((uintptr_t)end.buffer),
	};
	CHECK(ibv_query_gid(end.context, PORT, end.gid_index, &ours.gid) == 0);
	exchange(end.tcp, &ours, &peer, sizeof(ours));
	to_rtr(&end, &peer);
	to_rts(&end, ntohl(ours.psn));
	wait_for_peer(end.tcp); /* which then is ready to receive */

	talk(&end, argc - optind == 1, &peer);
	destroy(&end);
	return 0;
}
