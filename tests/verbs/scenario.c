/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/scenario.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/must.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/newer_rsocket.h"

#define PATIENCE 60 /* seconds, for what may need retries */
#define SIZE 2048

/* For calls that return a pointer, or -1, or an errno: end the function with what went wrong. */
#define try_errno(success)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		if (!(success)) {                                                                  \
			must_msg(errno > 0, "%s: fails without an errno", #success);               \
			return errno;                                                              \
		}                                                                                  \
	} while (0)
#define try(call)                                                                                  \
	do {                                                                                       \
		int try_error = (call);                                                            \
		must_msg(try_error >= 0, "%s: %d", #call, try_error);                              \
		if (try_error)                                                                     \
			return try_error;                                                          \
	} while (0)

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static void wait_readable(int fd, const char *what)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	must_msg(poll(&poll_fd, 1, PATIENCE * 1000) == 1, "%s: waited for in vain", what);
}

/* --- verbs ----------------------------------------------------------------------------- */

struct program {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq;
	struct ibv_qp *sender, *receiver, *datagram;
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	bool attached;
	union ibv_gid gid, group;
	uint8_t buffer[2 * SIZE];
};

static int program_query(struct program *program)
{
	static struct ibv_port_attr first;
	struct ibv_device_attr device;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;

	try(ibv_query_device(program->context, &device));
	must(device.max_qp > 0 && device.phys_port_cnt == 1);
	try(ibv_query_port(program->context, 1, &port));
	must(port.state == IBV_PORT_ACTIVE && port.active_mtu == IBV_MTU_4096);
	if (first.active_speed == 0)
		first = port;
	must(port.active_speed == first.active_speed && port.active_width == first.active_width);
	try_errno(ibv_query_gid(program->context, 1, 0, &program->gid) == 0);
	try(ibv_query_gid_ex(program->context, 1, 0, &entry, 0));
	must(memcmp(&entry.gid, &program->gid, sizeof(entry.gid)) == 0);
	try_errno(ibv_query_gid_table(program->context, &entry, 1, 0) == 1);
	return 0;
}

static struct ibv_qp *make_qp(struct program *program, enum ibv_qp_type type, uint64_t flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = program->send_cq,
		.recv_cq = program->recv_cq,
		.srq = type == IBV_QPT_UD ? program->srq : NULL,
		.cap = {.max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 32},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (flags ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = program->pd,
		.send_ops_flags = flags,
	};

	return ibv_create_qp_ex(program->context, &attr);
}

static int program_create(struct program *program)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};
	struct ibv_srq_init_attr srq_init = {.attr = {8, 1}};
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	try_errno(program->list = ibv_get_device_list(NULL));
	if (!program->list[0])
		return ENODEV; /* its making may have failed before */
	try_errno(program->context = ibv_open_device(program->list[0]));
	try(program_query(program));
	try_errno(program->pd = ibv_alloc_pd(program->context));
	try_errno(program->mr = ibv_reg_mr(program->pd, program->buffer, sizeof(program->buffer),
					   access));
	try_errno(program->channel = ibv_create_comp_channel(program->context));
	try_errno(program->send_cq = ibv_create_cq(program->context, 32, NULL, NULL, 0));
	try_errno(program->recv_cq =
			  ibv_create_cq(program->context, 32, NULL, program->channel, 0));
	try_errno(program->cq_ex = ibv_create_cq_ex(program->context, &cq_init));
	try(ibv_resize_cq(program->send_cq, 64));
	try_errno(program->srq = ibv_create_srq(program->pd, &srq_init));
	try_errno(program->sender = make_qp(program, IBV_QPT_RC, 0));
	try_errno(program->receiver = make_qp(program, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE));
	try_errno(program->datagram = make_qp(program, IBV_QPT_UD, 0));
	try_errno(program->mw = ibv_alloc_mw(program->pd, IBV_MW_TYPE_2));
	ah_attr.grh.dgid = program->gid;
	try_errno(program->ah = ibv_create_ah(program->pd, &ah_attr));
	must(inet_pton(AF_INET6, "::ffff:239.86.1.2", &program->group) == 1);
	try(ibv_attach_mcast(program->datagram, &program->group, 0));
	program->attached = true;
	return 0;
}

static int move_to_rts(struct program *program, struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh.hop_limit = 64},
		.timeout = 12,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	attr.ah_attr.grh.dgid = program->gid;
	try(ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	try(ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	try(ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	return 0;
}

static void await(struct ibv_cq *cq, const char *what)
{
	time_t end = now() + PATIENCE;
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
		must_msg(now() < end, "%s: waited for in vain", what);
	must_msg(count == 1 && wc.status == IBV_WC_SUCCESS, "%s: %s", what,
		 count == 1 ? ibv_wc_status_str(wc.status) : "polling failed");
}

static int request(struct program *program, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)program->buffer, SIZE, program->mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)program->buffer + SIZE,
			    .rkey = program->mr->rkey},
	};
	struct ibv_send_wr *bad;
	uint8_t *from = program->buffer, *to = program->buffer + SIZE;

	if (opcode == IBV_WR_RDMA_READ) {
		from = to;
		to = program->buffer;
	}
	memset(from, opcode + 1, SIZE);
	memset(to, 0xee, SIZE);
	try(ibv_post_send(program->sender, &wr, &bad));
	await(program->send_cq, "a send completion");
	if (opcode == IBV_WR_SEND)
		await(program->recv_cq, "a receive completion");
	must(memcmp(from, to, SIZE) == 0);
	return 0;
}

static int program_transfer(struct program *program)
{
	struct ibv_sge sge = {(uintptr_t)program->buffer + SIZE, SIZE, program->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_cq *cq;
	void *context;

	try(move_to_rts(program, program->sender, program->receiver));
	try(move_to_rts(program, program->receiver, program->sender));
	try(ibv_post_recv(program->receiver, &wr, &bad));
	try(ibv_req_notify_cq(program->recv_cq, 0));
	try(request(program, IBV_WR_SEND));
	wait_readable(program->channel->fd, "a completion event");
	must(ibv_get_cq_event(program->channel, &cq, &context) == 0 && cq == program->recv_cq);
	ibv_ack_cq_events(cq, 1);
	try(request(program, IBV_WR_RDMA_WRITE));
	try(request(program, IBV_WR_RDMA_READ));
	return 0;
}

/* An asynchronous event: a QP with an SRQ has taken its last receive. */
static int program_fail(struct program *program)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
	struct ibv_async_event event;

	try(ibv_modify_qp(program->datagram, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_ERR;
	try(ibv_modify_qp(program->datagram, &attr, IBV_QP_STATE));
	wait_readable(program->context->async_fd, "an asynchronous event");
	must(ibv_get_async_event(program->context, &event) == 0);
	must(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED &&
	     event.element.qp == program->datagram);
	ibv_ack_async_event(&event);
	return 0;
}

#define destroy_all(call, object)                                                                  \
	do {                                                                                       \
		if (object)                                                                        \
			must((call)(object) == 0);                                                 \
	} while (0)

static void program_destroy(struct program *program)
{
	if (program->attached)
		must(ibv_detach_mcast(program->datagram, &program->group, 0) == 0);
	destroy_all(ibv_destroy_ah, program->ah);
	destroy_all(ibv_dealloc_mw, program->mw);
	destroy_all(ibv_destroy_qp, program->datagram);
	destroy_all(ibv_destroy_qp, program->receiver);
	destroy_all(ibv_destroy_qp, program->sender);
	destroy_all(ibv_destroy_srq, program->srq);
	if (program->cq_ex)
		must(ibv_destroy_cq(ibv_cq_ex_to_cq(program->cq_ex)) == 0);
	destroy_all(ibv_destroy_cq, program->recv_cq);
	destroy_all(ibv_destroy_cq, program->send_cq);
	destroy_all(ibv_destroy_comp_channel, program->channel);
	destroy_all(ibv_dereg_mr, program->mr);
	destroy_all(ibv_dealloc_pd, program->pd);
	destroy_all(ibv_close_device, program->context);
	if (program->list)
		ibv_free_device_list(program->list);
}

int scenario_verbs(void)
{
	static struct program program;
	int error;

	program = (struct program){};
	error = program_create(&program);
	if (!error)
		error = program_transfer(&program);
	if (!error)
		error = program_fail(&program);
	program_destroy(&program);
	return error;
}

/* --- librdmacm ------------------------------------------------------------------------- */

struct connection {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *client, *server;
	struct ibv_mr *client_mr, *server_mr;
	char source[64], target[64];
};

/* The next event, which is of @type or says what went wrong; with its id for a request. */
static int await_event(struct connection *connection, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	int status;

	wait_readable(connection->channel->fd, rdma_event_str(type));
	try_errno(rdma_get_cm_event(connection->channel, &event) == 0);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		connection->server = event->id;
	status = event->status;
	must_msg(event->event == type || status, "%s instead of %s", rdma_event_str(event->event),
		 rdma_event_str(type));
	must(rdma_ack_cm_event(event) == 0);
	return status < 0 ? -status : status;
}

static int make_connection_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	try_errno(rdma_create_qp(id, NULL, &attr) == 0);
	return 0;
}

static struct sockaddr *node_address(uint16_t port)
{
	static struct sockaddr_in address;

	address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
	must(inet_pton(AF_INET, fixture_address(), &address.sin_addr) == 1);
	return (struct sockaddr *)&address;
}

/* Which has errors of its own. */
static int look_up(void)
{
	const struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | RAI_PASSIVE,
					    .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *found;
	int error = rdma_getaddrinfo(fixture_address(), "7471", &hints, &found);

	if (!error)
		rdma_freeaddrinfo(found);
	else if (error == EAI_MEMORY)
		error = ENOMEM;
	else if (error == EAI_SYSTEM)
		error = errno;
	return error;
}

static int connection_make(struct connection *connection)
{
	struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7};
	uint16_t port;

	try(look_up());
	try_errno(connection->channel = rdma_create_event_channel());
	try_errno(rdma_create_id(connection->channel, &connection->listener, NULL, RDMA_PS_TCP) ==
		  0);
	try_errno(rdma_bind_addr(connection->listener, node_address(0)) == 0);
	try_errno(rdma_listen(connection->listener, 1) == 0);
	port = ntohs(rdma_get_src_port(connection->listener));
	try_errno(rdma_create_id(connection->channel, &connection->client, NULL, RDMA_PS_TCP) == 0);
	try_errno(rdma_resolve_addr(connection->client, NULL, node_address(port), 1000) == 0);
	try(await_event(connection, RDMA_CM_EVENT_ADDR_RESOLVED));
	try_errno(rdma_resolve_route(connection->client, 1000) == 0);
	try(await_event(connection, RDMA_CM_EVENT_ROUTE_RESOLVED));
	try(make_connection_qp(connection->client));
	try_errno(rdma_connect(connection->client, &param) == 0);
	try(await_event(connection, RDMA_CM_EVENT_CONNECT_REQUEST));
	try(make_connection_qp(connection->server));
	try_errno(rdma_accept(connection->server, &param) == 0);
	try(await_event(connection, RDMA_CM_EVENT_ESTABLISHED));
	try(await_event(connection, RDMA_CM_EVENT_ESTABLISHED));
	return 0;
}

static int connection_use(struct connection *connection)
{
	struct ibv_sge from = {(uintptr_t)connection->source, sizeof(connection->source), 0};
	struct ibv_sge to = {(uintptr_t)connection->target, sizeof(connection->target), 0};
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	try_errno(connection->client_mr =
			  ibv_reg_mr(connection->client->pd, connection->source,
				     sizeof(connection->source), IBV_ACCESS_LOCAL_WRITE));
	try_errno(connection->server_mr =
			  ibv_reg_mr(connection->server->pd, connection->target,
				     sizeof(connection->target), IBV_ACCESS_LOCAL_WRITE));
	from.lkey = connection->client_mr->lkey;
	to.lkey = connection->server_mr->lkey;
	strcpy(connection->source, "some words");
	try(ibv_post_recv(connection->server->qp, &recv, &bad_recv));
	try(ibv_post_send(connection->client->qp, &send, &bad));
	await(connection->client->send_cq, "a send completion");
	await(connection->server->recv_cq, "a receive completion");
	must(strcmp(connection->target, connection->source) == 0);
	try_errno(rdma_disconnect(connection->client) == 0);
	try(await_event(connection, RDMA_CM_EVENT_DISCONNECTED));
	try_errno(rdma_disconnect(connection->server) == 0);
	try(await_event(connection, RDMA_CM_EVENT_DISCONNECTED));
	return 0;
}

static void connection_destroy(struct connection *connection)
{
	struct rdma_cm_id *ids[] = {connection->server, connection->client, connection->listener};

	destroy_all(ibv_dereg_mr, connection->client_mr);
	destroy_all(ibv_dereg_mr, connection->server_mr);
	for (unsigned int i = 0; i < 3; i++) {
		if (ids[i] && ids[i]->qp)
			rdma_destroy_qp(ids[i]);
		destroy_all(rdma_destroy_id, ids[i]);
	}
	if (connection->channel)
		rdma_destroy_event_channel(connection->channel);
}

int scenario_manager(void)
{
	static struct connection connection;
	int error;

	connection = (struct connection){};
	error = connection_make(&connection);
	if (!error)
		error = connection_use(&connection);
	connection_destroy(&connection);
	return error;
}

/* --- rsockets ----------------------------------------------------------------------------- */

struct sockets {
	int listener, client, server, epoll, datagrams[2]; /* -1: not open */
	char mapped[64];
};

static const char words[] = "some words";

/* Until one of @fds is ready, or its connection is over. */
static int await_sockets(struct pollfd *fds, nfds_t count, const char *what)
{
	int ready;

	try_errno((ready = rpoll(fds, count, PATIENCE * 1000)) >= 0);
	must_msg(ready, "%s: waited for in vain", what);
	return 0;
}

static int open_socket(int type, int *fd)
{
	try_errno((*fd = rsocket(AF_INET, type, 0)) >= 0);
	try_errno(rbind(*fd, node_address(0), sizeof(struct sockaddr_in)) == 0);
	return 0;
}

static int socket_name(int fd, struct sockaddr_in *name)
{
	socklen_t length = sizeof(*name);

	try_errno(rgetsockname(fd, (struct sockaddr *)name, &length) == 0);
	return 0;
}

static int socket_error(int fd)
{
	int error;
	socklen_t length = sizeof(error);

	try_errno(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
	must_msg(error > 0, "a connection fails without an errno");
	return error;
}

/* The client doesn't wait for the server, which is the same thread. */
static int sockets_connect(struct sockets *sockets)
{
	struct pollfd fds[2];
	struct sockaddr_in name;
	int entries = 4;

	try(open_socket(SOCK_STREAM, &sockets->listener));
	try_errno(rlisten(sockets->listener, 1) == 0);
	try_errno(rfcntl(sockets->listener, F_SETFL, O_NONBLOCK) == 0);
	try(socket_name(sockets->listener, &name));
	try_errno((sockets->client = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	try_errno(rsetsockopt(sockets->client, SOL_RDMA, RDMA_IOMAPSIZE, &entries,
			      sizeof(entries)) == 0);
	try_errno(rfcntl(sockets->client, F_SETFL, O_NONBLOCK) == 0);
	try_errno(rconnect(sockets->client, (struct sockaddr *)&name, sizeof(name)) == 0 ||
		  errno == EINPROGRESS);
	for (;;) {
		fds[0] = (struct pollfd){.fd = sockets->client, .events = POLLOUT};
		fds[1] = (struct pollfd){.fd = sockets->server < 0 ? sockets->listener : -1,
					 .events = POLLIN};
		try(await_sockets(fds, 2, "a connection"));
		if (fds[0].revents & POLLERR)
			return socket_error(sockets->client);
		if (fds[0].revents)
			return 0;
		if (fds[1].revents)
			try_errno((sockets->server = raccept(sockets->listener, NULL, NULL)) >= 0 ||
				  errno == EAGAIN);
	}
}

static int receive_words(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char received[sizeof(words)] = "";

	try(await_sockets(&poll_fd, 1, "data"));
	errno = 0;
	if (rrecv(fd, received, sizeof(received), 0) != sizeof(words))
		return errno ? errno : ECONNRESET;
	must(strcmp(received, words) == 0);
	return 0;
}

static int sockets_talk(struct sockets *sockets)
{
	const off_t offset = 7;

	try_errno(rsend(sockets->client, words, sizeof(words), 0) == sizeof(words));
	try(receive_words(sockets->server));
	/* Into our own memory: the client is told of it before the data. */
	try_errno(riomap(sockets->server, sockets->mapped, sizeof(sockets->mapped), PROT_WRITE, 0,
			 offset) == offset);
	try_errno(rsend(sockets->server, words, sizeof(words), 0) == sizeof(words));
	try(receive_words(sockets->client));
	try_errno(riowrite(sockets->client, words, sizeof(words), offset, 0) == sizeof(words));
	try_errno(rsend(sockets->client, words, sizeof(words), 0) == sizeof(words));
	try(receive_words(sockets->server));
	must(strcmp(sockets->mapped, words) == 0);
	return 0;
}

/* Until it has arrived: datagrams may be lost. */
static int send_datagram(int from, int to, const struct sockaddr_in *name)
{
	struct pollfd fd = {.fd = to, .events = POLLIN};
	int ready;

	for (int i = 0; i < PATIENCE; i++) {
		try_errno(rsendto(from, words, sizeof(words), 0, (const struct sockaddr *)name,
				  sizeof(*name)) == sizeof(words));
		try_errno((ready = rpoll(&fd, 1, 1000)) >= 0);
		if (ready)
			return receive_words(to);
	}
	must(!"a datagram: waited for in vain");
	return 0;
}

/* The first ones by UDP, the others from queue pair to queue pair. */
static int sockets_send_datagrams(struct sockets *sockets)
{
	struct sockaddr_in names[2];

	for (int i = 0; i < 2; i++) {
		try(open_socket(SOCK_DGRAM, &sockets->datagrams[i]));
		try(socket_name(sockets->datagrams[i], &names[i]));
	}
	for (int i = 0; i < 6; i++)
		try(send_datagram(sockets->datagrams[i % 2], sockets->datagrams[(i + 1) % 2],
				  &names[(i + 1) % 2]));
	return 0;
}

static int sockets_watch(struct sockets *sockets)
{
	const int fds[] = {sockets->client, sockets->server, sockets->listener,
			   sockets->datagrams[0], sockets->datagrams[1]};
	struct epoll_event event = {.events = EPOLLOUT};
	int ready;

	try_errno((sockets->epoll = newer_repoll_create(0)) >= 0);
	for (unsigned int i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		try_errno(newer_repoll_ctl(sockets->epoll, EPOLL_CTL_ADD, fds[i], &event) == 0);
	try_errno((ready = newer_repoll_wait(sockets->epoll, &event, 1, PATIENCE * 1000)) >= 0);
	must_msg(ready, "room to send: waited for in vain");
	return 0;
}

int scenario_sockets(void)
{
	static struct sockets sockets;
	int error, *fds[] = {&sockets.client, &sockets.server,	     &sockets.listener,
			     &sockets.epoll,  &sockets.datagrams[0], &sockets.datagrams[1]};

	sockets = (struct sockets){-1, -1, -1, -1, {-1, -1}};
	error = sockets_connect(&sockets);
	if (!error)
		error = sockets_talk(&sockets);
	if (!error)
		error = sockets_send_datagrams(&sockets);
	if (!error)
		error = sockets_watch(&sockets);
	for (unsigned int i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		if (*fds[i] >= 0)
			must(rclose(*fds[i]) == 0);
	}
	return error;
}
