/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * That every status, asynchronous event and connection event can be had: a table of each, with
 * the faults (urxe-faults(7)) that bring it about, and what an application sees of it. Each row
 * has a process of its own.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7471
#define COUNT(table) (sizeof(table) / sizeof(*(table)))

static void set_faults(const char *format, const char *name)
{
	char text[128];

	snprintf(text, sizeof(text), format, name);
	ck_assert_int_eq(setenv("URXE_FAULTS", text, 1), 0);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* --- statuses ----------------------------------------------------------------------------- */

#define STATUS(name) [IBV_WC_##name] = #name

static const char *const statuses[] = {
	STATUS(LOC_LEN_ERR),	    STATUS(LOC_QP_OP_ERR),
	STATUS(LOC_EEC_OP_ERR),	    STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR),	    STATUS(MW_BIND_ERR),
	STATUS(BAD_RESP_ERR),	    STATUS(LOC_ACCESS_ERR),
	STATUS(REM_INV_REQ_ERR),    STATUS(REM_ACCESS_ERR),
	STATUS(REM_OP_ERR),	    STATUS(RETRY_EXC_ERR),
	STATUS(RNR_RETRY_EXC_ERR),  STATUS(LOC_RDD_VIOL_ERR),
	STATUS(REM_INV_RD_REQ_ERR), STATUS(REM_ABORT_ERR),
	STATUS(INV_EECN_ERR),	    STATUS(INV_EEC_STATE_ERR),
	STATUS(FATAL_ERR),	    STATUS(RESP_TIMEOUT_ERR),
	STATUS(GENERAL_ERR),	    STATUS(TM_ERR),
	STATUS(TM_RNDV_INCOMPLETE),
};

_Static_assert(COUNT(statuses) == IBV_WC_TM_RNDV_INCOMPLETE + 1, "SUCCESS and all others");

static struct pair pair;

static void check_completion(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_completion(cq);

	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_str_eq(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

START_TEST(status_of_a_write)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	set_faults("complete(%s)#2/RDMA_WRITE", statuses[_i]);
	pair_open(&pair, IBV_QPT_RC, 0);
	for (unsigned int i = 1; i <= 3; i++)
		ck_assert_int_eq(post_write(&pair, i), 0);
	check_completion(pair.send_cq, 1, IBV_WC_SUCCESS);
	check_completion(pair.send_cq, 2, _i);
	check_completion(pair.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, ~IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(pair.sender->state, IBV_QPS_RTS); /* it wasn't asked for */
	ck_assert_int_eq(state_of(pair.sender), IBV_QPS_ERR);
	ck_assert_int_eq(pair.sender->state, IBV_QPS_ERR); /* as ibv_query_qp() has found it */
	pair_close(&pair);
}
END_TEST

START_TEST(status_of_a_receive)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	set_faults("complete(%s)#1/RECV", statuses[_i]);
	pair_open(&pair, IBV_QPT_RC, 0);
	sge = send_sge(&pair, 8);
	post_receive(&pair, 1);
	post_receive(&pair, 2);
	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	check_completion(pair.recv_cq, 1, _i);
	check_completion(pair.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(state_of(pair.receiver), IBV_QPS_ERR);
	pair_close(&pair);
}
END_TEST

/* --- calls -------------------------------------------------------------------------------- */

/* An application needn't ask which work request it was. */
START_TEST(post_without_bad)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
	struct ibv_recv_wr receive = {};

	set_faults("fail#1/ibv_post_send;fail#1/ibv_post_recv%s", "");
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_post_send(pair.sender, &send, NULL), ENOMEM);
	ck_assert_int_eq(ibv_post_recv(pair.sender, &receive, NULL), ENOMEM);
	pair_close(&pair);
}
END_TEST

/* --- asynchronous events ------------------------------------------------------------------ */

enum element { OF_SENDER, OF_CQ, OF_SRQ, OF_PORT };

static const struct {
	enum ibv_event_type type;
	const char *name;
	enum element element;
} events[] = {
#define EVENT(name, element)                                                                       \
	{                                                                                          \
		IBV_EVENT_##name, #name, element                                                   \
	}
	EVENT(CQ_ERR, OF_CQ),
	EVENT(QP_FATAL, OF_SENDER),
	EVENT(QP_REQ_ERR, OF_SENDER),
	EVENT(QP_ACCESS_ERR, OF_SENDER),
	EVENT(COMM_EST, OF_SENDER),
	EVENT(SQ_DRAINED, OF_SENDER),
	EVENT(PATH_MIG, OF_SENDER),
	EVENT(PATH_MIG_ERR, OF_SENDER),
	EVENT(DEVICE_FATAL, OF_PORT),
	EVENT(PORT_ACTIVE, OF_PORT),
	EVENT(PORT_ERR, OF_PORT),
	EVENT(LID_CHANGE, OF_PORT),
	EVENT(PKEY_CHANGE, OF_PORT),
	EVENT(SM_CHANGE, OF_PORT),
	EVENT(SRQ_ERR, OF_SRQ),
	EVENT(SRQ_LIMIT_REACHED, OF_SRQ),
	EVENT(QP_LAST_WQE_REACHED, OF_SENDER),
	EVENT(CLIENT_REREGISTER, OF_PORT),
	EVENT(GID_CHANGE, OF_PORT),
};

_Static_assert(COUNT(events) == IBV_EVENT_WQ_FATAL, "all but that of work queues");

/* A queue pair with an SRQ, beside the others. */
static struct ibv_srq *make_srq(struct ibv_qp **qp)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr attr = {
		.send_cq = pair.send_cq,
		.recv_cq = pair.send_cq,
		.srq = ibv_create_srq(pair.pd, &srq_attr),
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	ck_assert_ptr_nonnull(attr.srq);
	*qp = ibv_create_qp(pair.pd, &attr);
	ck_assert_ptr_nonnull(*qp);
	return attr.srq;
}

/* What the next event is about. */
static struct ibv_async_event next_async(enum ibv_event_type type)
{
	struct ibv_async_event event;

	ck_assert_int_eq(ibv_get_async_event(pair.context, &event), 0);
	ck_assert_str_eq(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	ibv_ack_async_event(&event);
	return event;
}

static enum ibv_port_state port_state(void)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(pair.context, 1, &attr), 0);
	return attr.state;
}

START_TEST(event)
{
	struct ibv_async_event told;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	set_faults("event(%s)#1/RDMA_WRITE", events[_i].name);
	pair_open(&pair, IBV_QPT_RC, 0);
	srq = make_srq(&qp);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	told = next_async(events[_i].type);
	switch (events[_i].element) {
	case OF_SENDER:
		ck_assert_ptr_eq(told.element.qp, pair.sender);
		break;
	case OF_CQ:
		ck_assert_ptr_eq(told.element.cq, pair.send_cq);
		break;
	case OF_SRQ:
		ck_assert_ptr_eq(told.element.srq, srq);
		break;
	default:
		ck_assert_int_eq(told.element.port_num, 1);
		break;
	}
	ck_assert_int_eq(port_state(),
			 events[_i].type == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	pair_close(&pair);
}
END_TEST

/* The cable is out, and in again: what was posted meanwhile arrives. */
START_TEST(link_down)
{
	struct ibv_async_event async;

	set_faults("down(%s)#1/RDMA_WRITE", "50ms");
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	check_completion(pair.send_cq, 1, IBV_WC_SUCCESS);
	next_async(IBV_EVENT_PORT_ERR);
	ck_assert_int_eq(post_write(&pair, 2), 0);
	check_completion(pair.send_cq, 2, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_get_async_event(pair.context, &async), 0);
	ck_assert_int_eq(async.event_type, IBV_EVENT_PORT_ACTIVE);
	ibv_ack_async_event(&async);
	ck_assert_int_eq(port_state(), IBV_PORT_ACTIVE);
	pair_close(&pair);
}
END_TEST

static void remove_device(void)
{
	set_faults("remove#1/%s", "RDMA_WRITE");
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	next_async(IBV_EVENT_DEVICE_FATAL);
}

/* It can be opened anew, and is as it was. */
START_TEST(removal)
{
	remove_device();
	ck_assert_int_eq(state_of(pair.sender), IBV_QPS_ERR);
	ck_assert_int_eq(state_of(pair.receiver), IBV_QPS_ERR);
	ck_assert_ptr_null(ibv_open_device(pair.context->device));
	ck_assert_int_eq(errno, EIO);
	pair_close(&pair);
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	check_completion(pair.send_cq, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* Of one that is gone nothing is made or changed; what there was can be destroyed. */
START_TEST(removal_ends_all_calls)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};
	struct ibv_qp_init_attr qp_attr = {.qp_type = IBV_QPT_RC};

	remove_device();
	ck_assert_int_eq(ibv_query_gid(pair.context, 1, 0, &ah_attr.grh.dgid), 0);
	qp_attr.send_cq = qp_attr.recv_cq = pair.send_cq;
	ck_fails_null(ibv_alloc_pd(pair.context), EIO);
	ck_fails_null(ibv_create_cq(pair.context, 1, NULL, NULL, 0), EIO);
	ck_fails_null(ibv_reg_mr(pair.pd, pair.buffer, 8, 0), EIO);
	ck_fails_null(ibv_alloc_null_mr(pair.pd), EIO);
	ck_fails_null(ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1), EIO);
	ck_fails_null(ibv_create_ah(pair.pd, &ah_attr), EIO);
	ck_fails_null(ibv_create_srq(pair.pd, &srq_attr), EIO);
	ck_fails_null(ibv_create_qp(pair.pd, &qp_attr), EIO);
	ck_fails_null(ibv_alloc_dm(pair.context, &dm_attr), EIO);
	ck_fails_null(ibv_open_xrcd(pair.context, &xrcd_attr), EIO);
	ck_assert_int_eq(ibv_resize_cq(pair.send_cq, 100), EIO);
	ck_assert_int_eq(ibv_rereg_mr(pair.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EIO);
	attr.qp_state = IBV_QPS_RESET;
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(
		ibv_modify_qp(pair.sender, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		EIO);
	pair_close(&pair);
}
END_TEST

static void *await_event(void *context)
{
	struct ibv_async_event async;

	return (void *)(intptr_t)(ibv_get_async_event(context, &async) ? errno : 0);
}

static void *await_completion(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	return (void *)(intptr_t)(ibv_get_cq_event(channel, &cq, &context) ? errno : 0);
}

/* Threads that wait for events of it end, and pollers are told. */
START_TEST(removal_ends_waiting)
{
	struct pollfd polled = {.events = POLLIN};
	pthread_t threads[3], completions;
	void *result;
	int ended = 0;

	set_faults("remove#1/%s", "RDMA_WRITE");
	pair_open(&pair, IBV_QPT_RC, 0);
	for (int i = 0; i < 3; i++)
		must(pthread_create(&threads[i], NULL, await_event, pair.context) == 0);
	must(pthread_create(&completions, NULL, await_completion, pair.channel) == 0);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	/* One of them gets the event. */
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &result), 0);
		ck_assert(!result || (intptr_t)result == EIO);
		ended += !!result;
	}
	ck_assert_int_eq(ended, 2);
	polled.fd = pair.context->async_fd;
	ck_assert_int_eq(poll(&polled, 1, 0), 1);
	ck_fails(ibv_get_async_event(pair.context, &(struct ibv_async_event){}), EIO);
	ck_assert_int_eq(pthread_join(completions, &result), 0);
	ck_assert_int_eq((intptr_t)result, EIO);
	polled.fd = pair.channel->fd;
	ck_assert_int_eq(poll(&polled, 1, 0), 1);
	ck_fails_null(ibv_create_comp_channel(pair.context), EIO);
	pair_close(&pair);
}
END_TEST

/* Not by verbs alone: rdma_cm, too, which hasn't had it open. */
START_TEST(removal_before_the_manager)
{
	struct rdma_event_channel *channel;

	remove_device();
	pair_close(&pair);
	channel = open_channel();
	destroy(open_bound_id(channel, RDMA_PS_TCP));
	rdma_destroy_event_channel(channel);
}
END_TEST

/* How long the C library takes to list the interfaces. */
static _Atomic useconds_t interfaces_take;

/* In the place of the C library's. */
__attribute__((visibility("default"))) int getifaddrs(struct ifaddrs **interfaces)
{
	int (*list)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");

	usleep(interfaces_take);
	return list(interfaces);
}

/*
 * After it was opened, and before rdma_cm has all that it needs of it; behind that, too, where the
 * progress thread gets no CPU for so long.
 */
START_TEST(removal_while_the_manager_opens)
{
	struct ibv_context **devices;
	int count;

	set_faults("remove@%s", "10ms");
	interfaces_take = 100000;
	devices = rdma_get_devices(&count);
	ck_assert(devices || errno == ENODEV);
	if (devices)
		rdma_free_devices(devices);
}
END_TEST

/* A forked child has nothing open. */
START_TEST(removal_before_a_fork)
{
	struct rdma_cm_id *id;
	int status;
	pid_t pid;

	remove_device();
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
		must(rdma_bind_addr(id, socket_address(NULL, 0)) == 0);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && status == 0);
	pair_close(&pair);
}
END_TEST

/* --- completion events -------------------------------------------------------------------- */

static void wait_for_completion_event(void)
{
	struct ibv_cq *cq;
	void *context;

	ck_assert_int_eq(ibv_get_cq_event(pair.channel, &cq, &context), 0);
	ck_assert_ptr_eq(cq, pair.recv_cq);
	ibv_ack_cq_events(cq, 1);
}

static void send_some(unsigned int count)
{
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	for (unsigned int i = 1; i <= count; i++) {
		post_receive(&pair, i);
		wr.send_flags = IBV_SEND_SIGNALED;
		ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
		ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	}
}

START_TEST(spurious_event)
{
	struct ibv_wc wc;

	set_faults("%s#1", "spurious");
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	wait_for_completion_event();
	ck_assert_int_eq(ibv_poll_cq(pair.recv_cq, 1, &wc), 0);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	send_some(1);
	wait_for_completion_event();
	ck_assert_int_eq(wait_completion(pair.recv_cq).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* By the number of completions, or in the end by time: no application waits for ever. */
START_TEST(coalesced_event)
{
	set_faults("%s(3)", "coalesce");
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_req_notify_cq(pair.recv_cq, 0), 0);
	send_some(_i ? 3 : 1);
	wait_for_completion_event();
	ck_assert_uint_eq(wait_completion(pair.recv_cq).wr_id, 1);
	pair_close(&pair);
}
END_TEST

START_TEST(late_completion)
{
	set_faults("late(%s)#1/RDMA_WRITE", "20ms");
	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	ck_assert_int_eq(post_write(&pair, 2), 0);
	check_completion(pair.send_cq, 1, IBV_WC_SUCCESS);
	check_completion(pair.send_cq, 2, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* --- connection events -------------------------------------------------------------------- */

static struct rdma_event_channel *server, *client;
static struct rdma_cm_id *listener, *active, *passive;

/* The next event of @channel, which is acked unless it makes an id. */
static void wait_for(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	ck_assert_int_eq(rdma_get_cm_event(channel, &event), 0);
	ck_assert_str_eq(rdma_event_str(event->event), rdma_event_str(type));
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		passive = event->id;
	rdma_ack_cm_event(event);
}

static void open_active(enum rdma_port_space ps)
{
	server = open_channel();
	client = open_channel();
	listener = open_id(server, ps);
	start_listening(listener, PORT);
	active = open_id(client, ps);
}

static void resolving_the_address(enum rdma_cm_event_type wanted)
{
	open_active(RDMA_PS_TCP);
	ck_assert_int_eq(rdma_resolve_addr(active, NULL, socket_address(NULL, PORT), 1000), 0);
	wait_for(client, wanted);
	if (wanted != RDMA_CM_EVENT_ADDR_ERROR)
		return;
	ck_assert_int_eq(rdma_resolve_addr(active, NULL, socket_address(NULL, PORT), 1000), 0);
	wait_for(client, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void resolving_the_route(enum rdma_cm_event_type wanted)
{
	resolving_the_address(RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(rdma_resolve_route(active, 1000), 0);
	wait_for(client, wanted);
}

/* The QPs are the application's when it wants the response. */
static void begin_connecting(bool qps)
{
	struct rdma_conn_param param = {.qp_num = 0x4711, .retry_count = 7, .rnr_retry_count = 7};

	resolving_the_route(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (qps)
		create_qp(active);
	ck_assert_int_eq(rdma_connect(active, &param), 0);
}

static void accept_request(bool qps)
{
	struct rdma_conn_param param = {.qp_num = 0x4712};

	wait_for(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (qps)
		create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
}

static void requesting(enum rdma_cm_event_type wanted)
{
	begin_connecting(true);
	wait_for(wanted == RDMA_CM_EVENT_CONNECT_REQUEST ? server : client, wanted);
}

static void connecting(enum rdma_cm_event_type wanted)
{
	bool qps = wanted != RDMA_CM_EVENT_CONNECT_RESPONSE;

	begin_connecting(qps);
	accept_request(qps);
	wait_for(client, wanted);
}

static void connect_both(void)
{
	connecting(RDMA_CM_EVENT_ESTABLISHED);
	wait_for(server, RDMA_CM_EVENT_ESTABLISHED);
}

static void disconnecting(enum rdma_cm_event_type wanted)
{
	connect_both();
	ck_assert_int_eq(rdma_disconnect(active), 0);
	wait_for(server, RDMA_CM_EVENT_DISCONNECTED);
	ck_assert_int_eq(rdma_disconnect(passive), 0);
	wait_for(client, RDMA_CM_EVENT_DISCONNECTED);
	if (wanted != RDMA_CM_EVENT_DISCONNECTED)
		wait_for(client, wanted);
}

static void being_connected(enum rdma_cm_event_type wanted)
{
	connect_both();
	wait_for(client, wanted);
}

static void sending(enum rdma_cm_event_type wanted)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;

	connect_both();
	ck_assert_int_eq(ibv_post_send(active->qp, &wr, &bad), 0);
	wait_for(client, wanted);
}

static void joining(enum rdma_cm_event_type wanted)
{
	client = open_channel();
	active = open_bound_id(client, RDMA_PS_UDP);
	ck_assert_int_eq(rdma_join_multicast(active, socket_address("224.5.6.7", 0), NULL), 0);
	wait_for(client, wanted);
	ck_assert_int_eq(rdma_leave_multicast(active, socket_address("224.5.6.7", 0)), 0);
}

static const struct {
	enum rdma_cm_event_type type;
	const char *faults;
	void (*play)(enum rdma_cm_event_type wanted);
} steps[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, "", resolving_the_address},
	{RDMA_CM_EVENT_ADDR_ERROR, "connection(ADDR_ERROR)#1", resolving_the_address},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, "", resolving_the_route},
	{RDMA_CM_EVENT_ROUTE_ERROR, "connection(ROUTE_ERROR)#1", resolving_the_route},
	{RDMA_CM_EVENT_CONNECT_REQUEST, "", requesting},
	{RDMA_CM_EVENT_CONNECT_RESPONSE, "", connecting},
	{RDMA_CM_EVENT_CONNECT_ERROR, "reject(NO_RESOURCES)#1/CM_REP", connecting},
	{RDMA_CM_EVENT_UNREACHABLE, "connection(UNREACHABLE)#1", connecting},
	{RDMA_CM_EVENT_REJECTED, "reject(NO_RESOURCES)#1/CM_REQ", requesting},
	{RDMA_CM_EVENT_ESTABLISHED, "", connecting},
	{RDMA_CM_EVENT_DISCONNECTED, "", disconnecting},
	{RDMA_CM_EVENT_DEVICE_REMOVAL, "remove#1/RDMA_WRITE", sending},
	{RDMA_CM_EVENT_MULTICAST_JOIN, "", joining},
	{RDMA_CM_EVENT_MULTICAST_ERROR, "connection(MULTICAST_ERROR)#1", joining},
	{RDMA_CM_EVENT_ADDR_CHANGE, "connection(ADDR_CHANGE)#1", being_connected},
	{RDMA_CM_EVENT_TIMEWAIT_EXIT, "", disconnecting},
};

_Static_assert(COUNT(steps) == RDMA_CM_EVENT_TIMEWAIT_EXIT + 1, "all");

START_TEST(step)
{
	ck_assert_int_eq(steps[_i].type, _i);
	set_faults("%s", steps[_i].faults);
	steps[_i].play(steps[_i].type);
}
END_TEST

/*
 * The RTU is lost, so that only one side knows that there is a connection: what ends it is told
 * all the same. By the other side, by the side that knows it, or by both, of whom one isn't heard.
 */
START_TEST(half_a_connection)
{
	enum { BY_THE_OTHER, BY_WHO_KNOWS, BY_BOTH };
	struct rdma_event_channel *server, *client;
	struct rdma_cm_id *listener, *active, *passive;
	struct rdma_conn_param param = {.qp_num = 1};
	struct rdma_cm_event *event;

	set_faults("drop#1+/CM_RTU%s", _i == BY_BOTH ? "/CM_DREQ" : "");
	server = open_channel();
	client = open_channel();
	listener = open_id(server, RDMA_PS_TCP);
	active = open_id(client, RDMA_PS_TCP);
	resolve(active, start_listening(listener, 0));
	create_qp(active);
	ck_assert_int_eq(rdma_connect(active, NULL), 0);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	rdma_ack_cm_event(event);
	ck_assert_int_eq(rdma_accept(passive, &param), 0);
	expect(client, active, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (_i == BY_WHO_KNOWS) {
		destroy(active);
		expect(server, passive, RDMA_CM_EVENT_DISCONNECTED, 0);
		destroy(passive);
	} else {
		if (_i == BY_BOTH)
			ck_assert_int_eq(rdma_disconnect(active), 0);
		destroy(passive);
		expect(client, active, RDMA_CM_EVENT_REJECTED, 28);
		ck_assert_int_eq(state_of(active->qp), IBV_QPS_ERR);
		destroy(active);
	}
	ck_assert(!is_readable(server) && !is_readable(client));
	destroy(listener);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("injected");
	TCase *tcase = tcase_create("injected");

	fixture_environment();
	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, status_of_a_write, 1, COUNT(statuses));
	tcase_add_loop_test(tcase, status_of_a_receive, 1, COUNT(statuses));
	tcase_add_test(tcase, post_without_bad);
	tcase_add_loop_test(tcase, event, 0, COUNT(events));
	tcase_add_test(tcase, link_down);
	tcase_add_test(tcase, removal);
	tcase_add_test(tcase, removal_ends_all_calls);
	tcase_add_test(tcase, removal_ends_waiting);
	tcase_add_test(tcase, removal_before_the_manager);
	tcase_add_test(tcase, removal_while_the_manager_opens);
	if (CHILD_ALLOCATES)
		tcase_add_test(tcase, removal_before_a_fork);
	tcase_add_test(tcase, spurious_event);
	tcase_add_loop_test(tcase, coalesced_event, 0, 2);
	tcase_add_test(tcase, late_completion);
	tcase_add_loop_test(tcase, step, 0, COUNT(steps));
	tcase_add_loop_test(tcase, half_a_connection, 0, 3);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
