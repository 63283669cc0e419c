/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each call of verbs and rdma_cm, made by a thread that is cancelled: none but those that wait for
 * an event is a cancellation point. So no call is left half done, with a lock or a descriptor that
 * the application knows nothing of.
 */
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cancelled.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PATIENCE 60000 /* ms */

/* Of a table: calls that are made one after the other, each with what the ones before have made. */
struct call {
	const char *name;
	void (*make)(void *unused);
};

#define CALL(name, ...)                                                                            \
	static void name(void *unused)                                                             \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

static void make_all(const struct call *calls, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ck_assert_msg(returns_cancelled(calls[i].make, NULL), "cancelled in %s",
			      calls[i].name);
}

/* --- verbs --------------------------------------------------------------------------------- */

static struct ibv_device **list;
static struct ibv_context *context, *imported;
static struct ibv_pd *pd, *imported_pd;
static struct ibv_mr *mr, *imported_mr, *null_mr;
static struct ibv_comp_channel *comp_channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_ah *ah;
static struct ibv_mw *mw;
static struct ibv_dm *dm;
static struct ibv_xrcd *xrcd;
static int xrcd_file;
static union ibv_gid gid;
static uint8_t buffer[8192];

static void query(void *unused)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr device;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	uint16_t pkey;

	must(ibv_query_device(context, &device) == 0);
	must(ibv_query_port(context, 1, &port) == 0);
	must(ibv_query_gid(context, 1, 0, &gid) == 0);
	must(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0);
	must(ibv_query_pkey(context, 1, 0, &pkey) == 0);
	must(ibv_query_rt_values_ex(context, &values) == 0);
}

static void create_srq(void *unused)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	must((srq = ibv_create_srq(pd, &attr)) != NULL);
}

static void create_queue_pair(void *unused)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};

	must((qp = ibv_create_qp(pd, &attr)) != NULL);
}

/* Connected to itself. */
static void modify_to_rtr(void *unused)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}},
	};

	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr.qp_state = IBV_QPS_RTR;
	must(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
}

static void create_ah(void *unused)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 64}};

	must((ah = ibv_create_ah(pd, &attr)) != NULL);
}

static void open_xrcd(void *unused)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = xrcd_file,
		.oflags = O_CREAT,
	};

	must((xrcd = ibv_open_xrcd(context, &attr)) != NULL);
}

static void alloc_dm(void *unused)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};

	must((dm = ibv_alloc_dm(context, &attr)) != NULL);
}

CALL(get_list, must((list = ibv_get_device_list(NULL)) != NULL))
CALL(open_device, must((context = ibv_open_device(list[0])) != NULL))
CALL(import_device, must((imported = ibv_import_device(context->cmd_fd)) != NULL))
CALL(alloc_pd, must((pd = ibv_alloc_pd(context)) != NULL))
CALL(import_pd, must((imported_pd = ibv_import_pd(imported, pd->handle)) != NULL))
CALL(reg_mr, must((mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE)) != NULL))
CALL(rereg_mr, must(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buffer, 4096, 0) == 0))
CALL(import_mr, must((imported_mr = ibv_import_mr(imported_pd, mr->handle)) != NULL))
CALL(alloc_null_mr, must((null_mr = ibv_alloc_null_mr(pd)) != NULL))
CALL(create_channel, must((comp_channel = ibv_create_comp_channel(context)) != NULL))
CALL(create_cq, must((cq = ibv_create_cq(context, 16, NULL, comp_channel, 0)) != NULL))
CALL(resize_cq, must(ibv_resize_cq(cq, 32) == 0))
CALL(alloc_mw, must((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)) != NULL))
CALL(dealloc_mw, must(ibv_dealloc_mw(mw) == 0))
CALL(destroy_ah, must(ibv_destroy_ah(ah) == 0))
CALL(close_xrcd, must(ibv_close_xrcd(xrcd) == 0))
CALL(free_dm, must(ibv_free_dm(dm) == 0))
CALL(destroy_qp, must(ibv_destroy_qp(qp) == 0))
CALL(destroy_srq, must(ibv_destroy_srq(srq) == 0))
CALL(destroy_cq, must(ibv_destroy_cq(cq) == 0))
CALL(destroy_channel, must(ibv_destroy_comp_channel(comp_channel) == 0))
CALL(unimport_mr, ibv_unimport_mr(imported_mr))
CALL(dereg_mrs, must(ibv_dereg_mr(null_mr) == 0 && ibv_dereg_mr(mr) == 0))
CALL(unimport_pd, ibv_unimport_pd(imported_pd))
CALL(dealloc_pd, must(ibv_dealloc_pd(pd) == 0))
CALL(close_devices, must(ibv_close_device(imported) == 0 && ibv_close_device(context) == 0))
CALL(free_list, ibv_free_device_list(list))

#define ROW(call) .name = #call, .make = call

static const struct call of_verbs[] = {
	{ROW(get_list)},	{ROW(open_device)},    {ROW(import_device)},
	{ROW(query)},		{ROW(alloc_pd)},       {ROW(import_pd)},
	{ROW(reg_mr)},		{ROW(rereg_mr)},       {ROW(import_mr)},
	{ROW(alloc_null_mr)},	{ROW(create_channel)}, {ROW(create_cq)},
	{ROW(resize_cq)},	{ROW(create_srq)},     {ROW(create_queue_pair)},
	{ROW(modify_to_rtr)},	{ROW(create_ah)},      {ROW(alloc_mw)},
	{ROW(open_xrcd)},	{ROW(alloc_dm)},       {ROW(free_dm)},
	{ROW(close_xrcd)},	{ROW(dealloc_mw)},     {ROW(destroy_ah)},
	{ROW(destroy_qp)},	{ROW(destroy_srq)},    {ROW(destroy_cq)},
	{ROW(destroy_channel)}, {ROW(unimport_mr)},    {ROW(dereg_mrs)},
	{ROW(unimport_pd)},	{ROW(dealloc_pd)},     {ROW(close_devices)},
	{ROW(free_list)},
};

/* The first calls of a process, too, which read the configuration. */
START_TEST(verbs)
{
	char file[] = "/tmp/urxe_cancel_XXXXXX";

	xrcd_file = mkstemp(file);
	ck_assert_int_ge(xrcd_file, 0);
	unlink(file);
	make_all(of_verbs, sizeof(of_verbs) / sizeof(*of_verbs));
	close(xrcd_file);
}
END_TEST

/* --- rdma_cm ------------------------------------------------------------------------------- */

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *client, *server, *member;
static struct sockaddr_storage group; /* Check's assertions write a file, so made before */
static struct sockaddr_storage node;

static struct sockaddr *node_at(uint16_t port)
{
	((struct sockaddr_in *)&node)->sin_port = htons(port);
	return (struct sockaddr *)&node;
}

/* One that is there: to wait for it is a cancellation point. */
static struct rdma_cm_event *take(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	must(rdma_get_cm_event(channel, &event) == 0);
	must_msg(event->event == type, "%s", rdma_event_str(event->event));
	return event;
}

#define EVENT(name, type) CALL(name, must(rdma_ack_cm_event(take(type)) == 0))

static void take_request(void *unused)
{
	struct rdma_cm_event *event = take(RDMA_CM_EVENT_CONNECT_REQUEST);

	server = event->id;
	must(rdma_ack_cm_event(event) == 0);
}

static void create_connection_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	must(rdma_create_qp(id, NULL, &attr) == 0);
}

static void make_rsocket(void *unused)
{
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);

	must(socket >= 0);
	must(rclose(socket) == 0);
}

static void open_listener(void *unused)
{
	must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
	must(rdma_bind_addr(listener, node_at(0)) == 0);
	must(rdma_listen(listener, 1) == 0);
}

static void resolve_client(void *unused)
{
	must(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP) == 0);
	must(rdma_resolve_addr(client, NULL, node_at(ntohs(rdma_get_src_port(listener))), 1000) ==
	     0);
}

static void open_member(void *unused)
{
	must(rdma_create_id(channel, &member, NULL, RDMA_PS_UDP) == 0);
	must(rdma_bind_addr(member, node_at(0)) == 0);
	must(rdma_join_multicast(member, (struct sockaddr *)&group, NULL) == 0);
}

static void destroy_member(void *unused)
{
	must(rdma_leave_multicast(member, (struct sockaddr *)&group) == 0);
	must(rdma_destroy_id(member) == 0);
}

static void destroy_connection(void *unused)
{
	rdma_destroy_qp(client);
	rdma_destroy_qp(server);
	must(rdma_destroy_id(client) == 0 && rdma_destroy_id(server) == 0);
	must(rdma_destroy_id(listener) == 0);
}

CALL(create_event_channel, must((channel = rdma_create_event_channel()) != NULL))
CALL(resolve_route, must(rdma_resolve_route(client, 1000) == 0))
CALL(client_qp, create_connection_qp(client))
CALL(server_qp, create_connection_qp(server))
CALL(connect_client, must(rdma_connect(client, NULL) == 0))
CALL(accept_server, must(rdma_accept(server, NULL) == 0))
CALL(disconnect_client, must(rdma_disconnect(client) == 0))
CALL(disconnect_server, must(rdma_disconnect(server) == 0))
CALL(destroy_event_channel, rdma_destroy_event_channel(channel))
EVENT(take_resolved, RDMA_CM_EVENT_ADDR_RESOLVED)
EVENT(take_route, RDMA_CM_EVENT_ROUTE_RESOLVED)
EVENT(take_established, RDMA_CM_EVENT_ESTABLISHED)
EVENT(take_disconnected, RDMA_CM_EVENT_DISCONNECTED)
EVENT(take_joined, RDMA_CM_EVENT_MULTICAST_JOIN)

static const struct {
	struct call call;
	bool takes_event;
} of_manager[] = {
	{{ROW(make_rsocket)}},
	{{ROW(create_event_channel)}},
	{{ROW(open_listener)}},
	{{ROW(resolve_client)}},
	{{ROW(take_resolved)}, true},
	{{ROW(resolve_route)}},
	{{ROW(take_route)}, true},
	{{ROW(client_qp)}},
	{{ROW(connect_client)}},
	{{ROW(take_request)}, true},
	{{ROW(server_qp)}},
	{{ROW(accept_server)}},
	{{ROW(take_established)}, true},
	{{ROW(take_established)}, true},
	{{ROW(disconnect_client)}},
	{{ROW(take_disconnected)}, true},
	{{ROW(disconnect_server)}},
	{{ROW(take_disconnected)}, true},
	{{ROW(open_member)}},
	{{ROW(take_joined)}, true},
	{{ROW(destroy_member)}},
	{{ROW(destroy_connection)}},
	{{ROW(destroy_event_channel)}},
};

START_TEST(manager)
{
	memcpy(&node, socket_address(NULL, 0), sizeof(struct sockaddr_in));
	memcpy(&group, socket_address("239.86.1.9", 0), sizeof(struct sockaddr_in));
	for (unsigned int i = 0; i < sizeof(of_manager) / sizeof(*of_manager); i++) {
		struct pollfd event = {.fd = channel ? channel->fd : -1, .events = POLLIN};

		if (of_manager[i].takes_event)
			ck_assert_int_eq(poll(&event, 1, PATIENCE), 1);
		make_all(&of_manager[i].call, 1);
	}
}
END_TEST

/* --- destroying what has events ---------------------------------------------------------- */

static _Atomic pid_t waiting;

static void destroy_waiting(void *unused)
{
	waiting = gettid();
	destroy_qp(NULL);
}

static void *destroy_cancelled(void *unused)
{
	must(returns_cancelled(destroy_waiting, NULL));
	return NULL;
}

/* It ends when the event is acknowledged, which another thread can do. */
START_TEST(waiting_for_acknowledgements)
{
	static void (*const prepare[])(void *unused) = {
		get_list,   open_device,       query,	     alloc_pd, create_channel, create_cq,
		create_srq, create_queue_pair, modify_to_rtr};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event event;
	pthread_t thread;

	for (unsigned int i = 0; i < sizeof(prepare) / sizeof(*prepare); i++)
		prepare[i](NULL);
	must(ibv_modify_qp(qp, &error, IBV_QP_STATE) == 0);
	must(ibv_get_async_event(context, &event) == 0);
	must(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
	must(pthread_create(&thread, NULL, destroy_cancelled, NULL) == 0);
	wait_until_asleep(&waiting);
	ibv_ack_async_event(&event);
	must(pthread_join(thread, NULL) == 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cancel_calls");
	TCase *tests = tcase_create("cancel_calls");

	fixture_environment();
	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, verbs);
	tcase_add_test(tests, manager);
	tcase_add_test(tests, waiting_for_acknowledgements);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
