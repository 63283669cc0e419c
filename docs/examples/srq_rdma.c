/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections, one queue of receives: a shared receive queue, with librdmacm.
 *
 * Without one, a server has to post receives for each client, most of which it never needs. Here
 * messages of all clients take their buffers from the same queue, as they come.
 *
 *   cc srq_rdma.c -o srq_rdma -lrdmacm -libverbs
 *
 *   ./srq_rdma server ADDRESS PORT       of this node
 *   ./srq_rdma client ADDRESS PORT       the server's
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "example.h"

#define CONNECTIONS 4
#define MESSAGES 8 /* on each */
#define SIZE 64
#define BUFFERS 8 /* fewer than messages: the server posts each again when it has been read */

static struct rdma_addrinfo *look_up(char *address, char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;

	CHECK(rdma_getaddrinfo(address, port, &hints, &info) == 0);
	return info;
}

static struct ibv_qp_init_attr queue_pair(void)
{
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
}

/* --- the server ------------------------------------------------------------------------------ */

struct server {
	struct rdma_cm_id *listener, *clients[CONNECTIONS];
	struct ibv_comp_channel *channel; /* what a thread sleeps on */
	struct ibv_cq *cq;		  /* of all connections' receives */
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	char buffers[BUFFERS][SIZE];
	int received[CONNECTIONS];
};

static void post_receive(struct server *server, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)server->buffers[number], SIZE, server->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(ibv_post_srq_recv(server->srq, &wr, &bad) == 0);
}

/* Once the device is known: that of the first client's request. */
static void create(struct server *server, struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = BUFFERS, .max_sge = 1}};

	CHECK(server->channel = ibv_create_comp_channel(id->verbs));
	CHECK(server->cq = ibv_create_cq(id->verbs, BUFFERS, NULL, server->channel, 0));
	/* id->pd: librdmacm has one for each device. */
	CHECK(server->srq = ibv_create_srq(id->pd, &init));
	CHECK(server->mr = rdma_reg_msgs(id, server->buffers, sizeof(server->buffers)));
	for (int i = 0; i < BUFFERS; i++)
		post_receive(server, i);
}

static void accept_client(struct server *server, int number)
{
	struct ibv_qp_init_attr init = queue_pair();
	struct rdma_cm_id *id;

	CHECK(rdma_get_request(server->listener, &id) == 0);
	if (!server->srq)
		create(server, id);
	init.srq = server->srq;
	init.recv_cq = server->cq;
	/* Only what answers are reported to is the connection's own. */
	CHECK(init.send_cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0));
	CHECK(rdma_create_qp(id, id->pd, &init) == 0);
	CHECK(rdma_accept(id, NULL) == 0);
	server->clients[number] = id;
}

/* Sleep until there is a completion, and take it. */
static struct ibv_wc next_completion(struct server *server)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	for (;;) {
		int count = ibv_poll_cq(server->cq, 1, &wc);

		CHECK(count >= 0);
		if (count == 1)
			return wc;
		/* Ask to be woken; then look again, for one may have come just before. */
		CHECK(ibv_req_notify_cq(server->cq, 0) == 0);
		CHECK((count = ibv_poll_cq(server->cq, 1, &wc)) >= 0);
		if (count == 1)
			return wc;
		CHECK(ibv_get_cq_event(server->channel, &cq, &context) == 0);
		ibv_ack_cq_events(cq, 1);
	}
}

/* The SRQ doesn't say whose a message is, the queue pair's number does. */
static int sender_of(const struct server *server, const struct ibv_wc *wc)
{
	int number = 0;

	while (number < CONNECTIONS && server->clients[number]->qp->qp_num != wc->qp_num)
		number++;
	CHECK(number < CONNECTIONS);
	return number;
}

static void answer(struct rdma_cm_id *id)
{
	struct ibv_wc wc;
	int count;

	CHECK(rdma_post_send(id, NULL, "thank you", 10, NULL, IBV_SEND_INLINE) == 0);
	while ((count = ibv_poll_cq(id->qp->send_cq, 1, &wc)) == 0)
		;
	CHECK(count == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static void serve(struct server *server)
{
	for (int i = 0; i < CONNECTIONS; i++)
		accept_client(server, i);
	for (int left = CONNECTIONS * MESSAGES; left > 0;) {
		struct ibv_wc wc = next_completion(server);
		int sender;

		CHECK(wc.status == IBV_WC_SUCCESS);
		sender = sender_of(server, &wc);
		printf("client %d, buffer %d: %s\n", sender, (int)wc.wr_id,
		       server->buffers[wc.wr_id]);
		post_receive(server, wc.wr_id);
		left--;
		if (++server->received[sender] == MESSAGES)
			answer(server->clients[sender]);
	}
}

static void close_server(struct server *server)
{
	for (int i = 0; i < CONNECTIONS; i++) {
		struct ibv_cq *send_cq = server->clients[i]->qp->send_cq;

		rdma_disconnect(server->clients[i]);
		rdma_destroy_qp(server->clients[i]);
		CHECK(ibv_destroy_cq(send_cq) == 0);
		CHECK(rdma_destroy_id(server->clients[i]) == 0);
	}
	CHECK(ibv_destroy_srq(server->srq) == 0);
	CHECK(ibv_destroy_cq(server->cq) == 0);
	CHECK(ibv_destroy_comp_channel(server->channel) == 0);
	CHECK(rdma_dereg_mr(server->mr) == 0);
	rdma_destroy_ep(server->listener);
}

static void run_server(char *address, char *port)
{
	struct rdma_addrinfo *info = look_up(address, port, RAI_PASSIVE);
	static struct server server;

	CHECK(rdma_create_ep(&server.listener, info, NULL, NULL) == 0);
	rdma_freeaddrinfo(info);
	CHECK(rdma_listen(server.listener, CONNECTIONS) == 0);
	serve(&server);
	close_server(&server);
}

/* --- the client: nothing in it is special ---------------------------------------------------- */

static void run_client(char *address, char *port)
{
	struct rdma_addrinfo *info = look_up(address, port, 0);
	struct rdma_cm_id *ids[CONNECTIONS];
	struct ibv_mr *mrs[CONNECTIONS];
	static char buffers[CONNECTIONS][2][SIZE];
	struct ibv_wc wc;

	for (int i = 0; i < CONNECTIONS; i++) {
		struct ibv_qp_init_attr init = queue_pair();

		init.cap.max_inline_data = SIZE;
		CHECK(rdma_create_ep(&ids[i], info, NULL, &init) == 0);
		CHECK(mrs[i] = rdma_reg_msgs(ids[i], buffers[i], sizeof(buffers[i])));
		CHECK(rdma_post_recv(ids[i], NULL, buffers[i][1], SIZE, mrs[i]) == 0);
		CHECK(rdma_connect(ids[i], NULL) == 0);
	}
	rdma_freeaddrinfo(info);
	for (int k = 0; k < MESSAGES; k++) {
		for (int i = 0; i < CONNECTIONS; i++) {
			snprintf(buffers[i][0], SIZE, "message %d of connection %d", k, i);
			CHECK(rdma_post_send(ids[i], NULL, buffers[i][0], SIZE, mrs[i], 0) == 0);
			CHECK(rdma_get_send_comp(ids[i], &wc) == 1);
			CHECK(wc.status == IBV_WC_SUCCESS);
		}
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		CHECK(rdma_get_recv_comp(ids[i], &wc) == 1);
		CHECK(wc.status == IBV_WC_SUCCESS);
		printf("connection %d: the server says %s\n", i, buffers[i][1]);
		rdma_disconnect(ids[i]);
		CHECK(rdma_dereg_mr(mrs[i]) == 0);
		rdma_destroy_ep(ids[i]);
	}
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "server") == 0) {
		run_server(argv[2], argv[3]);
	} else if (argc == 4 && strcmp(argv[1], "client") == 0) {
		run_client(argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: srq_rdma server|client ADDRESS PORT\n");
		return 2;
	}
	return 0;
}
