/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration: a connection that survives its path.
 *
 * Each side has two addresses. The connection is made from the first to the first; then both load
 * the way from the second to the second as the alternate path. When the device gets no more answers
 * on the path, it goes on with the other one, and says so by an event. Nothing is lost or repeated.
 *
 *   cc path_migration.c -o path_migration -lrdmacm -libverbs
 *
 *   ./path_migration server ADDRESS PORT [GID_INDEX]
 *   ./path_migration client ADDRESS PORT [GID_INDEX]     waits for the path to die
 *   ./path_migration migrate ADDRESS PORT [GID_INDEX]    a client that doesn't wait
 *
 * ADDRESS is the server's first one. GID_INDEX is this node's alternate one (see ibv_devinfo -v), 1
 * if it isn't said.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "example.h"

#define MESSAGES 1000
#define SIZE 64
#define RECEIVES 16

struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	int alternate_index;
	union ibv_gid ours, theirs;	  /* the alternate addresses */
	char buffers[RECEIVES + 1][SIZE]; /* the last one is for what we send */
};

static struct rdma_cm_id *create_endpoint(char *address, char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	CHECK(rdma_getaddrinfo(address, port, &hints, &info) == 0);
	CHECK(rdma_create_ep(&id, info, NULL, &init) == 0);
	rdma_freeaddrinfo(info);
	return id;
}

static void receive_again(struct end *end, char *buffer)
{
	CHECK(rdma_post_recv(end->id, buffer, buffer, SIZE, end->mr) == 0);
}

/* Receives are posted before the peer can send; our second address is known then, too. */
static void prepare(struct end *end)
{
	CHECK(end->mr = rdma_reg_msgs(end->id, end->buffers, sizeof(end->buffers)));
	for (int i = 0; i < RECEIVES; i++)
		receive_again(end, end->buffers[i]);
	CHECK(ibv_query_gid(end->id->verbs, 1, end->alternate_index, &end->ours) == 0);
}

/* Connecting carries some bytes of the program's: here, the other address of each side. */
static struct rdma_conn_param parameters(struct end *end)
{
	return (struct rdma_conn_param){
		.private_data = &end->ours,
		.private_data_len = sizeof(end->ours),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static void learn_alternate(struct end *end)
{
	CHECK(end->id->event->param.conn.private_data_len >= sizeof(end->theirs));
	memcpy(&end->theirs, end->id->event->param.conn.private_data, sizeof(end->theirs));
}

/* --- the alternate path ---------------------------------------------------------------------- */

/* REARM: "as soon as the peer is ready, too". */
static void load_alternate(struct end *end)
{
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_port_num = 1,
		.alt_timeout = 14,
		.alt_ah_attr = {.is_global = 1,
				.port_num = 1,
				.grh = {.dgid = end->theirs,
					.sgid_index = end->alternate_index,
					.hop_limit = 64}},
	};

	CHECK(ibv_modify_qp(end->id->qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) == 0);
}

static enum ibv_mig_state migration_state(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(ibv_query_qp(end->id->qp, &attr, IBV_QP_PATH_MIG_STATE, &init) == 0);
	return attr.path_mig_state;
}

/* What the device does by itself when there are no more answers. The peer follows. */
static void migrate(struct end *end)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_MIGRATED};

	CHECK(ibv_modify_qp(end->id->qp, &attr, IBV_QP_PATH_MIG_STATE) == 0);
}

/* Events that came meanwhile, and where the path leads now. */
static void report(struct end *end)
{
	struct ibv_async_event event;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	char text[INET6_ADDRSTRLEN];

	CHECK(fcntl(end->id->verbs->async_fd, F_SETFL, O_NONBLOCK) == 0);
	while (ibv_get_async_event(end->id->verbs, &event) == 0) {
		printf("event: %s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event); /* or the QP can't be destroyed */
	}
	CHECK(ibv_query_qp(end->id->qp, &attr, IBV_QP_AV, &init) == 0);
	inet_ntop(AF_INET6, attr.ah_attr.grh.dgid.raw, text, sizeof(text));
	printf("the path leads to %s%s\n", text,
	       memcmp(&attr.ah_attr.grh.dgid, &end->theirs, sizeof(end->theirs)) == 0
		       ? ", the alternate address"
		       : "");
}

/* --- messages -------------------------------------------------------------------------------- */

/* The next message, in its buffer; to be given to receive_again() when it has been read. */
static char *receive(struct end *end)
{
	struct ibv_wc wc;

	CHECK(rdma_get_recv_comp(end->id, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
	return (char *)(uintptr_t)wc.wr_id;
}

static void send_message(struct end *end)
{
	struct ibv_wc wc;

	CHECK(rdma_post_send(end->id, NULL, end->buffers[RECEIVES], SIZE, end->mr, 0) == 0);
	CHECK(rdma_get_send_comp(end->id, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static void send_text(struct end *end, const char *text)
{
	strcpy(end->buffers[RECEIVES], text);
	send_message(end);
}

static void serve(struct end *end, char *address, char *port)
{
	struct rdma_cm_id *listener = create_endpoint(address, port, RAI_PASSIVE);
	struct rdma_conn_param param;

	CHECK(rdma_listen(listener, 1) == 0);
	CHECK(rdma_get_request(listener, &end->id) == 0);
	learn_alternate(end);
	prepare(end);
	param = parameters(end);
	CHECK(rdma_accept(end->id, &param) == 0);
	load_alternate(end);
	/* A packet arms the path of a peer that has loaded it: it goes when the client has. */
	receive_again(end, receive(end));
	send_text(end, "the server's alternate path is loaded");

	for (int i = 0; i < MESSAGES; i++) {
		char *buffer = receive(end);

		CHECK(atoi(buffer) == i); /* all, in order, each once */
		receive_again(end, buffer);
	}
	printf("received %d messages\n", MESSAGES);
	rdma_destroy_ep(listener);
}

static void run_client(struct end *end, char *address, char *port, int at_once)
{
	struct rdma_conn_param param;
	char *go;

	end->id = create_endpoint(address, port, 0);
	prepare(end);
	param = parameters(end);
	CHECK(rdma_connect(end->id, &param) == 0);
	learn_alternate(end);
	load_alternate(end);
	send_text(end, "the client's alternate path is loaded");
	go = receive(end);
	while (migration_state(end) != IBV_MIG_ARMED)
		usleep(1000); /* it is with the first packet from a peer that is ready */
	printf("armed: %s\n", go);

	for (int i = 0; i < MESSAGES; i++) {
		if (at_once && i == MESSAGES / 2)
			migrate(end);
		snprintf(end->buffers[RECEIVES], SIZE, "%d", i);
		send_message(end);
	}
	printf("sent %d messages\n", MESSAGES);
}

int main(int argc, char **argv)
{
	struct end end = {.alternate_index = argc > 4 ? atoi(argv[4]) : 1};

	if (argc < 4 || argc > 5) {
		fprintf(stderr,
			"usage: path_migration server|client|migrate ADDRESS PORT [GID_INDEX]\n");
		return 2;
	}
	if (strcmp(argv[1], "server") == 0)
		serve(&end, argv[2], argv[3]);
	else
		run_client(&end, argv[2], argv[3], strcmp(argv[1], "migrate") == 0);
	report(&end);
	rdma_destroy_qp(end.id); /* its receives name the region */
	CHECK(rdma_dereg_mr(end.mr) == 0);
	rdma_destroy_ep(end.id);
	return 0;
}
