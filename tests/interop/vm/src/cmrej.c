/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmrej -s ADDRESS | -c ADDRESS
 *
 * The server (-s) rejects a first connection, with private data, and accepts a second one, with
 * other private data; then there is one SEND, and the client (-c) disconnects. All events are
 * printed. golden.sh runs it between two rxes for the captures, tests/wire/golden.py under urxe for
 * the same packets, and scripts/interop between the two. Plain librdmacm.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 7666
#define RESOLVE_MS 2000
#define SHOWN_BYTES 24 /* of private data */

static struct rdma_event_channel *channel;
static char buffer[256];

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

#define CHECK(condition) check(condition, #condition)

/* --- both sides ----------------------------------------------------------------------------- */

static void print_event(const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	const uint8_t *data = param->private_data;

	printf("event %s status %d private_data_len %d", rdma_event_str(event->event),
	       event->status, param->private_data_len);
	if (param->private_data_len) {
		printf(" [");
		for (int i = 0; i < SHOWN_BYTES && i < param->private_data_len; i++)
			printf("%02x", data[i]);
		printf("]");
	}
	printf(" resp_res %d init_depth %d flow %d retry %d rnr %d srq %d qpn %x\n",
	       param->responder_resources, param->initiator_depth, param->flow_control,
	       param->retry_count, param->rnr_retry_count, param->srq, param->qp_num);
}

/* Print the next event, and acknowledge it; its id stays. */
static enum rdma_cm_event_type next_event(struct rdma_cm_id **id)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	CHECK(rdma_get_cm_event(channel, &event) == 0);
	print_event(event);
	type = event->event;
	if (id)
		*id = event->id;
	CHECK(rdma_ack_cm_event(event) == 0);
	return type;
}

static void await_disconnect(void)
{
	while (next_event(NULL) != RDMA_CM_EVENT_DISCONNECTED)
		;
}

static struct ibv_mr *make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct ibv_mr *mr;

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	CHECK(mr);
	return mr;
}

/* --- the server ------------------------------------------------------------------------------- */

static void listen_at(struct sockaddr *address)
{
	struct rdma_cm_id *listener;

	CHECK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, address) == 0);
	CHECK(rdma_listen(listener, 4) == 0);
}

static void reject_one(void)
{
	struct rdma_cm_id *id;

	next_event(&id);
	CHECK(rdma_reject(id, "no thanks", 9) == 0);
	CHECK(rdma_destroy_id(id) == 0);
}

static void accept_one(void)
{
	struct rdma_conn_param param = {.private_data = "welcome",
					.private_data_len = 7,
					.responder_resources = 3,
					.initiator_depth = 2,
					.rnr_retry_count = 5};
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	next_event(&id);
	mr = make_qp(id);
	CHECK(rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr) == 0);
	CHECK(rdma_accept(id, &param) == 0);
	await_disconnect();
	if (ibv_poll_cq(id->recv_cq, 1, &wc) == 1)
		printf("recv status %d len %d [%s]\n", wc.status, wc.byte_len, buffer);
	rdma_disconnect(id);
}

/* --- the client ------------------------------------------------------------------------------- */

static void send_one(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	CHECK(rdma_post_send(id, NULL, buffer, strlen(buffer) + 1, mr, 0) == 0);
	while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
		;
	printf("send status %d\n", wc.status);
}

static void connect_one(struct sockaddr *address)
{
	struct rdma_conn_param param = {.private_data = "hello server",
					.private_data_len = 12,
					.responder_resources = 4,
					.initiator_depth = 5,
					.retry_count = 6,
					.rnr_retry_count = 7};
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, address, RESOLVE_MS) == 0);
	next_event(NULL);
	CHECK(rdma_resolve_route(id, RESOLVE_MS) == 0);
	next_event(NULL);
	mr = make_qp(id);
	strcpy(buffer, "payload");
	CHECK(rdma_connect(id, &param) == 0);
	if (next_event(NULL) == RDMA_CM_EVENT_ESTABLISHED) {
		send_one(id, mr);
		rdma_disconnect(id);
		await_disconnect();
		sleep(1);
	}
	rdma_dereg_mr(mr);
	rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
	sleep(1);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (argc < 3 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) {
		fprintf(stderr, "usage: cmrej -s ADDRESS | -c ADDRESS\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	channel = rdma_create_event_channel();
	CHECK(channel);
	if (strcmp(argv[1], "-s") == 0) {
		listen_at((struct sockaddr *)&address);
		reject_one();
		accept_one();
	} else {
		connect_one((struct sockaddr *)&address);
		connect_one((struct sockaddr *)&address);
	}
	return 0;
}
