/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * manager SCENARIO --bind ADDRESS | --connect ADDRESS
 *
 * Both ends of conversations of the connection manager, for scripts/interop: one
 * of them is urxe, the other Linux rxe. An end that sees anything but what
 * rdma_cm(7) lets it expect says so and exits with 1. Plain librdmacm: it is
 * compiled for this machine and for the VM.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT "7700"
#define RESOLVE_MS 2000
#define LENGTH 100
#define REQ_DATA 56
#define REP_DATA 196
#define REJ_DATA 148
#define SIDR_REQ_DATA 180
#define SIDR_REP_DATA 136
#define CONSUMER_REJECT 28
#define SIDR_REJECTED 2
#define SLOW_SECONDS 8 /* longer than it takes a REQ to be repeated */

struct scenario {
	const char *name;
	enum rdma_port_space port_space;
	void (*server)(void);
	void (*client)(void);
};

static const struct scenario *scenario;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *id;
static struct rdma_addrinfo *peer;
static struct rdma_cm_event *event;
static struct ibv_mr *region;
static uint8_t buffer[2 * LENGTH];

static void check(bool good, const char *what)
{
	if (good)
		return;
	printf("WRONG: %s (errno %s)\n", what, strerror(errno));
	exit(1);
}

#define CHECK(condition) check(condition, #condition)

/* --- events --------------------------------------------------------------------- */

static bool datagram(void)
{
	return scenario->port_space == RDMA_PS_UDP;
}

static void done_with_event(void)
{
	if (event)
		CHECK(rdma_ack_cm_event(event) == 0);
	event = NULL;
}

/* The next event, which must be this one; it is kept until the next. */
static void expect(enum rdma_cm_event_type type, int status)
{
	done_with_event();
	CHECK(rdma_get_cm_event(channel, &event) == 0);
	printf("%s status %d\n", rdma_event_str(event->event), event->status);
	if (event->event != type || event->status != status)
		printf("expected %s status %d\n", rdma_event_str(type), status);
	CHECK(event->event == type && event->status == status);
}

/* --- private data ------------------------------------------------------------------ */

static const uint8_t *pattern(uint8_t salt)
{
	static uint8_t data[256];

	for (unsigned int i = 0; i < sizeof(data); i++)
		data[i] = salt + i;
	return data;
}

/* The whole field arrives, with zeros behind what was sent. */
static void check_private(uint8_t field, uint8_t sent, uint8_t salt)
{
	const uint8_t *data =
		datagram() ? event->param.ud.private_data : event->param.conn.private_data;
	uint8_t length =
		datagram() ? event->param.ud.private_data_len : event->param.conn.private_data_len;

	printf("private data: %d of %d bytes\n", sent, length);
	CHECK(length == field);
	CHECK(memcmp(data, pattern(salt), sent) == 0);
	for (unsigned int i = sent; i < field; i++)
		CHECK(data[i] == 0);
}

static struct rdma_conn_param param_with(uint8_t length, uint8_t salt)
{
	return (struct rdma_conn_param){
		.private_data = length ? pattern(salt) : NULL,
		.private_data_len = length,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = datagram() ? id->qp->qp_num : 0,
	};
}

/* --- both ends ------------------------------------------------------------------ */

static void make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = datagram() ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};

	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	if (datagram())
		return;
	region = rdma_reg_msgs(id, buffer, sizeof(buffer));
	CHECK(region);
	CHECK(rdma_post_recv(id, NULL, buffer, LENGTH, region) == 0);
}

/* A message each way: the QPs are connected to each other. */
static void exchange(void)
{
	struct ibv_wc wc;

	memset(buffer + LENGTH, 0x5a, LENGTH);
	CHECK(rdma_post_send(id, NULL, buffer + LENGTH, LENGTH, region, 0) == 0);
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(wc.byte_len == LENGTH && buffer[0] == 0x5a && buffer[LENGTH - 1] == 0x5a);
	printf("data ok\n");
}

static void drop_id(void)
{
	done_with_event();
	if (region)
		rdma_dereg_mr(region);
	region = NULL;
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
	id = NULL;
}

/* --- the server ------------------------------------------------------------------- */

static void take_request(void)
{
	expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(event->listen_id == listener);
	id = event->id;
}

static void accept_with(uint8_t length, uint8_t salt)
{
	struct rdma_conn_param param;

	make_qp();
	param = param_with(length, salt);
	CHECK(rdma_accept(id, &param) == 0);
	if (!datagram())
		expect(RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void serve_one(void)
{
	take_request();
	accept_with(0, 0);
	exchange();
}

static void await_disconnect(void)
{
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(rdma_disconnect(id) == 0);
	drop_id();
}

/* --- the client -------------------------------------------------------------------- */

static void resolve(void)
{
	CHECK(rdma_create_id(channel, &id, NULL, scenario->port_space) == 0);
	CHECK(rdma_resolve_addr(id, NULL, peer->ai_dst_addr, RESOLVE_MS) == 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(rdma_resolve_route(id, RESOLVE_MS) == 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void connect_with(uint8_t length, uint8_t salt)
{
	struct rdma_conn_param param;

	resolve();
	make_qp();
	param = param_with(length, salt);
	CHECK(rdma_connect(id, &param) == 0);
}

static void connect_one(void)
{
	connect_with(0, 0);
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	exchange();
}

static void disconnect(void)
{
	CHECK(rdma_disconnect(id) == 0);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* --- private data of every length ------------------------------------------------- */

static const struct {
	uint8_t request, reply;
} lengths[] = {{0, 0}, {1, 1}, {17, 100}, {REQ_DATA, REP_DATA}};

static const struct {
	uint8_t request, reply;
} datagram_lengths[] = {{0, 0}, {1, 1}, {SIDR_REQ_DATA, SIDR_REP_DATA}};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void private_server(void)
{
	for (unsigned int i = 0; i < COUNT(lengths); i++) {
		take_request();
		check_private(REQ_DATA, lengths[i].request, i);
		accept_with(lengths[i].reply, 100 + i);
		exchange();
		await_disconnect();
	}
	take_request();
	CHECK(rdma_reject(id, pattern(7), REJ_DATA) == 0);
	drop_id();
	take_request();
	CHECK(rdma_reject(id, NULL, 0) == 0);
	drop_id();
}

static void private_client(void)
{
	struct rdma_conn_param param;

	resolve();
	make_qp();
	param = param_with(REQ_DATA + 1, 0);
	CHECK(rdma_connect(id, &param) == -1 && errno == EINVAL);
	drop_id();
	for (unsigned int i = 0; i < COUNT(lengths); i++) {
		connect_with(lengths[i].request, i);
		expect(RDMA_CM_EVENT_ESTABLISHED, 0);
		check_private(REP_DATA, lengths[i].reply, 100 + i);
		exchange();
		disconnect();
		drop_id();
	}
	connect_with(0, 0);
	expect(RDMA_CM_EVENT_REJECTED, CONSUMER_REJECT);
	check_private(REJ_DATA, REJ_DATA, 7);
	drop_id();
	connect_with(0, 0);
	expect(RDMA_CM_EVENT_REJECTED, CONSUMER_REJECT);
	check_private(REJ_DATA, 0, 0);
	drop_id();
}

static void datagram_server(void)
{
	for (unsigned int i = 0; i < COUNT(datagram_lengths); i++) {
		take_request();
		check_private(SIDR_REQ_DATA, datagram_lengths[i].request, i);
		accept_with(datagram_lengths[i].reply, 100 + i);
		printf("QP %#x\n", id->qp->qp_num);
		drop_id();
	}
	take_request();
	CHECK(rdma_reject(id, NULL, 0) == 0);
	drop_id();
}

static void datagram_client(void)
{
	for (unsigned int i = 0; i < COUNT(datagram_lengths); i++) {
		connect_with(datagram_lengths[i].request, i);
		expect(RDMA_CM_EVENT_ESTABLISHED, 0);
		check_private(SIDR_REP_DATA, datagram_lengths[i].reply, 100 + i);
		printf("QP %#x\n", event->param.ud.qp_num);
		CHECK(event->param.ud.qkey == RDMA_UDP_QKEY && event->param.ud.qp_num > 1);
		drop_id();
	}
	connect_with(0, 0);
	expect(RDMA_CM_EVENT_UNREACHABLE, SIDR_REJECTED);
	drop_id();
}

/* --- what the two sides settle ------------------------------------------------------ */

static void terms_server(void)
{
	const struct rdma_conn_param *asked;
	struct rdma_conn_param param = {.responder_resources = 2,
					.initiator_depth = 4,
					.flow_control = 1,
					.rnr_retry_count = 1};

	take_request();
	asked = &event->param.conn;
	printf("QP %#x\n", asked->qp_num);
	CHECK(asked->responder_resources == 5 && asked->initiator_depth == 3);
	CHECK(asked->retry_count == 6 && asked->rnr_retry_count == 4);
	CHECK(asked->flow_control == 1 && asked->srq == 0 && asked->qp_num > 1);
	make_qp();
	CHECK(rdma_accept(id, &param) == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	exchange();
	await_disconnect();
}

static void terms_client(void)
{
	const struct rdma_conn_param *granted;
	struct rdma_conn_param param = {.responder_resources = 3,
					.initiator_depth = 5,
					.flow_control = 1,
					.retry_count = 6,
					.rnr_retry_count = 4};

	resolve();
	make_qp();
	CHECK(rdma_connect(id, &param) == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	granted = &event->param.conn;
	printf("QP %#x\n", granted->qp_num);
	CHECK(granted->responder_resources == 4 && granted->initiator_depth == 2);
	CHECK(granted->rnr_retry_count == 1 && granted->flow_control == 1);
	CHECK(granted->qp_num > 1);
	exchange();
	disconnect();
	drop_id();
}

/* --- ends of connections --------------------------------------------------------------- */

static void passive_server(void)
{
	serve_one();
	await_disconnect();
}

static void active_server(void)
{
	serve_one();
	disconnect();
	drop_id();
}

static void active_client(void)
{
	connect_one();
	disconnect();
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	drop_id();
}

static void passive_client(void)
{
	connect_one();
	await_disconnect();
}

/* Ids are destroyed while they are connected. */
static void destroying_client(void)
{
	connect_one();
	drop_id();
}

static void leaving_server(void)
{
	serve_one();
	exit(0);
}

static void leaving_client(void)
{
	connect_one();
	exit(0);
}

/* --- requests that no application takes up -------------------------------------------------- */

static void slow_server(void)
{
	take_request();
	sleep(SLOW_SECONDS);
	accept_with(0, 0);
	exchange();
	await_disconnect();
}

static void unheard_server(void)
{
	pause();
}

/* 16 REQs, between 4.6 and 6.4 s apart. */
static void unheard_client(void)
{
	connect_with(0, 0);
	expect(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	drop_id();
}

/* The request is forgotten: the server's id is destroyed unanswered. */
static void forgetful_server(void)
{
	take_request();
	drop_id();
	passive_server();
}

static void forgotten_client(void)
{
	connect_with(0, 0);
	expect(RDMA_CM_EVENT_REJECTED, CONSUMER_REJECT);
	drop_id();
	connect_one();
	disconnect();
	drop_id();
}

/* The client gives up before the server has answered, which isn't told, and comes again. */
static void late_server(void)
{
	struct rdma_conn_param param;

	take_request();
	sleep(2);
	param = param_with(0, 0);
	CHECK(rdma_accept(id, &param) == -1 && errno == EINVAL);
	drop_id();
	passive_server();
}

static void impatient_client(void)
{
	connect_with(0, 0);
	sleep(1);
	drop_id();
	connect_one();
	disconnect();
	drop_id();
}

/* --- the command ------------------------------------------------------------------------ */

static const struct scenario scenarios[] = {
	{"private", RDMA_PS_TCP, private_server, private_client},
	{"datagram", RDMA_PS_UDP, datagram_server, datagram_client},
	{"terms", RDMA_PS_TCP, terms_server, terms_client},
	{"client_disconnects", RDMA_PS_TCP, passive_server, active_client},
	{"server_disconnects", RDMA_PS_TCP, active_server, passive_client},
	{"both_disconnect", RDMA_PS_TCP, active_server, active_client},
	{"client_destroys", RDMA_PS_TCP, passive_server, destroying_client},
	{"client_exits", RDMA_PS_TCP, passive_server, leaving_client},
	{"server_exits", RDMA_PS_TCP, leaving_server, passive_client},
	{"slow", RDMA_PS_TCP, slow_server, active_client},
	{"forgetful", RDMA_PS_TCP, forgetful_server, forgotten_client},
	{"impatient", RDMA_PS_TCP, late_server, impatient_client},
	{"silent", RDMA_PS_TCP, unheard_server, unheard_client},
	{"silent_datagram", RDMA_PS_UDP, unheard_server, unheard_client},
};

static void start(bool serve, const char *address)
{
	struct rdma_addrinfo hints = {.ai_flags = serve ? RAI_PASSIVE : 0,
				      .ai_port_space = scenario->port_space};

	CHECK(rdma_getaddrinfo(address, PORT, &hints, &peer) == 0);
	channel = rdma_create_event_channel();
	CHECK(channel);
	if (!serve)
		return;
	CHECK(rdma_create_id(channel, &listener, NULL, scenario->port_space) == 0);
	CHECK(rdma_bind_addr(listener, peer->ai_src_addr) == 0);
	CHECK(rdma_listen(listener, 4) == 0);
}

int main(int argc, char **argv)
{
	bool serve = argc == 4 && strcmp(argv[2], "--bind") == 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned int i = 0; i < COUNT(scenarios) && argc == 4; i++) {
		if (strcmp(scenarios[i].name, argv[1]) == 0)
			scenario = &scenarios[i];
	}
	if (!scenario) {
		fprintf(stderr, "usage: manager SCENARIO --bind ADDRESS | --connect ADDRESS\n");
		return 2;
	}
	start(serve, argv[3]);
	if (serve)
		scenario->server();
	else
		scenario->client();
	printf("done\n");
	return 0;
}
