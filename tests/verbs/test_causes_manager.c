/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm and the connection manager: every cause of net/cause/manager.def, and what is said of
 * it, by both sides where there are two. Both are in this process, but where one dies.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/cm_exchanges.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_manager.h"

#define PORT 7471
#define GROUP "224.5.6.7"

static struct rdma_event_channel *server, *client;
static struct rdma_conn_param no_queue_pair = {.qp_num = 1, .retry_count = 7};

static void open_channels(void)
{
	server = open_channel();
	client = open_channel();
}

static struct rdma_cm_id *listen_on(uint16_t port, enum rdma_port_space ps)
{
	struct rdma_cm_id *listener;

	open_channels();
	listener = open_id(server, ps);
	start_listening(listener, port);
	return listener;
}

static struct rdma_cm_id *begin_connecting(uint16_t port, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = open_id(client, ps);

	resolve(id, port);
	no_queue_pair.qp_num++; /* the peer would know it */
	ck_assert_int_eq(rdma_connect(id, &no_queue_pair), 0);
	return id;
}

static struct rdma_cm_id *take_request(void)
{
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = event->id;

	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	return id;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	open_channels();
	return open_id(client, ps);
}

static struct rdma_cm_id *bound_id(enum rdma_port_space ps)
{
	open_channels();
	return open_bound_id(client, ps);
}

static struct rdma_cm_id *resolved_id(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	resolve(id, PORT);
	return id;
}

/* --- requests ------------------------------------------------------------------------------- */

static void nothing_listens(void)
{
	struct rdma_cm_id *id;

	open_channels();
	id = begin_connecting(PORT, RDMA_PS_TCP);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 8);
}

static void another_port_listens(void)
{
	struct rdma_cm_id *id;

	listen_on(18515, RDMA_PS_TCP);
	id = begin_connecting(PORT, RDMA_PS_TCP);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 8);
}

static void no_datagram_service(void)
{
	struct rdma_cm_id *id;

	listen_on(PORT, RDMA_PS_TCP);
	id = begin_connecting(PORT, RDMA_PS_UDP);
	expect(client, id, RDMA_CM_EVENT_UNREACHABLE, 1);
}

static struct sockaddr *ib_address(uint64_t service)
{
	static struct sockaddr_ib ib;
	char text[INET6_ADDRSTRLEN];

	ib = (struct sockaddr_ib){.sib_family = AF_IB,
				  .sib_pkey = htons(0xffff),
				  .sib_sid = htobe64(service),
				  .sib_sid_mask = UINT64_MAX};
	snprintf(text, sizeof(text), "::ffff:%s", fixture_address());
	ck_assert_int_eq(inet_pton(AF_INET6, text, &ib.sib_addr), 1);
	return (struct sockaddr *)&ib;
}

/* A client with AF_IB sends none of its own. */
static void request_with(struct rdma_conn_param *param)
{
	struct rdma_cm_id *id;

	listen_on(PORT, RDMA_PS_TCP);
	id = open_id(client, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, ib_address(RDMA_IB_IP_PS_TCP + PORT), 1000),
			 0);
	expect(client, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(rdma_connect(id, param), 0);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 28);
}

static void request_without_header(void)
{
	request_with(&no_queue_pair);
}

static void request_for_an_address_elsewhere(void)
{
	const uint8_t header[36] = {[1] = 4 << 4, [32] = 192, [34] = 2, [35] = 77};
	struct rdma_conn_param param = no_queue_pair;

	param.private_data = header;
	param.private_data_len = sizeof(header);
	request_with(&param);
}

static struct rdma_addrinfo *look_up(int flags, int port_space, int type)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags, .ai_port_space = port_space, .ai_qp_type = type};
	struct rdma_addrinfo *info;

	ck_assert_int_eq(rdma_getaddrinfo(fixture_address(), "7471", &hints, &info), 0);
	return info;
}

static void request_of_another_type(void)
{
	struct rdma_cm_id *listener, *id;

	open_channels();
	ck_assert_int_eq(
		rdma_create_ep(&listener, look_up(RAI_PASSIVE, RDMA_PS_IB, IBV_QPT_UC), NULL, NULL),
		0);
	ck_assert_int_eq(rdma_listen(listener, 0), 0);
	id = begin_connecting(PORT, RDMA_PS_IB);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 28);
}

static void listener_without_channel(void)
{
	struct rdma_cm_id *id;

	listen_on(PORT, RDMA_PS_TCP);
	rdma_destroy_event_channel(server);
	id = begin_connecting(PORT, RDMA_PS_TCP);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 28);
}

static void full_backlog(void)
{
	struct rdma_cm_id *id;

	open_channels();
	id = open_id(server, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, PORT)), 0);
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	begin_connecting(PORT, RDMA_PS_TCP);
	begin_connecting(PORT, RDMA_PS_TCP);
	/* By when this one is refused, the second was left to its repetition. */
	id = begin_connecting(PORT + 1, RDMA_PS_TCP);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 8);
}

static void application_refuses(void)
{
	struct rdma_cm_id *id;

	listen_on(PORT, RDMA_PS_TCP);
	id = begin_connecting(PORT, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_reject(take_request(), NULL, 0), 0);
	expect(client, id, RDMA_CM_EVENT_REJECTED, 28);
}

static void request_is_destroyed(void)
{
	struct rdma_cm_id *id;

	listen_on(PORT, RDMA_PS_TCP);
	id = begin_connecting(PORT, RDMA_PS_TCP);
	destroy(take_request());
	expect(client, id, RDMA_CM_EVENT_REJECTED, 28);
}

static void datagram_application_refuses(void)
{
	struct rdma_cm_id *id;

	listen_on(PORT, RDMA_PS_UDP);
	id = begin_connecting(PORT, RDMA_PS_UDP);
	ck_assert_int_eq(rdma_reject(take_request(), NULL, 0), 0);
	expect(client, id, RDMA_CM_EVENT_UNREACHABLE, 2);
}

/* --- connections ------------------------------------------------------------------------------ */

/* Does not return. */
static void connect_and_die(void)
{
	struct rdma_cm_id *id;

	open_channels();
	id = open_id(client, RDMA_PS_TCP);
	resolve(id, PORT);
	create_qp(id);
	ck_assert_int_eq(rdma_connect(id, &no_queue_pair), 0);
	expect(client, id, RDMA_CM_EVENT_ESTABLISHED, 0);
	kill(getpid(), SIGKILL);
}

static void peer_dies(void)
{
	struct rdma_cm_id *id;
	int status;
	pid_t child;

	listen_on(PORT, RDMA_PS_TCP);
	child = fork();
	if (child == 0)
		connect_and_die();
	id = take_request();
	create_qp(id);
	ck_assert_int_eq(rdma_accept(id, &no_queue_pair), 0);
	expect(server, id, RDMA_CM_EVENT_ESTABLISHED, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	expect(server, id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void queue_pair_fails(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rdma_cm_id *active, *passive;

	listen_on(PORT, RDMA_PS_TCP);
	active = open_id(client, RDMA_PS_TCP);
	resolve(active, PORT);
	create_qp(active);
	ck_assert_int_eq(rdma_connect(active, &no_queue_pair), 0);
	passive = take_request();
	create_qp(passive);
	ck_assert_int_eq(rdma_accept(passive, &no_queue_pair), 0);
	ck_assert_int_eq(ibv_modify_qp(active->qp, &attr, IBV_QP_STATE), 0);
	expect(client, active, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
}

/* Another queue pair in the id's place, which can't be attached. */
static void attaching_fails(void)
{
	struct rdma_cm_id *id = bound_id(RDMA_PS_UDP), *stream = bound_id(RDMA_PS_TCP);

	create_qp(stream);
	ck_assert_int_eq(rdma_join_multicast(id, socket_address(GROUP, 0), NULL), 0);
	id->qp = stream->qp;
	expect(id->channel, id, RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL);
}

#define DESCRIPTORS 100

static bool is_pipe_or_socket(int fd, bool *open)
{
	struct stat status;

	*open = fstat(fd, &status) == 0;
	return *open && (S_ISSOCK(status.st_mode) || S_ISFIFO(status.st_mode));
}

/* Another part of the program closes descriptors that it doesn't know. */
static void device_fails(void)
{
	bool before[DESCRIPTORS], open;
	struct rdma_cm_id *id;

	for (int fd = 0; fd < DESCRIPTORS; fd++)
		is_pipe_or_socket(fd, &before[fd]);
	id = bound_id(RDMA_PS_TCP);
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		if (!before[fd] && is_pipe_or_socket(fd, &open))
			close(fd);
	}
	expect(client, id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	id = open_id(client, RDMA_PS_TCP);
	ck_fails(rdma_bind_addr(id, socket_address(NULL, 0)), ENODEV);
}

/* --- addresses ------------------------------------------------------------------------------ */

static void no_way(void)
{
	struct rdma_cm_id *id = bound_id(RDMA_PS_TCP);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("198.51.100.1", PORT), 1000),
			 -1);
}

static void no_descriptor_to_ask(void)
{
	struct rdma_cm_id *id = bound_id(RDMA_PS_TCP);

	allow_no_descriptors();
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("198.51.100.1", PORT), 1000),
			 -1);
	ck_assert_int_eq(errno, EMFILE);
}

static void no_device_of_that_kind(void)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("::1", PORT), 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
}

static void bind_to(struct rdma_cm_id *id, struct sockaddr *address)
{
	ck_assert_int_eq(rdma_bind_addr(id, address), -1);
}

static void address_of_another_host(void)
{
	bind_to(new_id(RDMA_PS_TCP), socket_address("192.0.2.77", PORT));
}

static void strange_family(void)
{
	struct sockaddr address = {.sa_family = AF_UNIX};

	bind_to(new_id(RDMA_PS_TCP), &address);
}

static void no_scope(void)
{
	bind_to(new_id(RDMA_PS_TCP), socket_address("fe80::1", PORT));
}

static void two_families(void)
{
	ck_fails(rdma_resolve_addr(bound_id(RDMA_PS_TCP), NULL, socket_address("::1", PORT), 1000),
		 EINVAL);
}

static void another_space(void)
{
	bind_to(new_id(RDMA_PS_UDP), ib_address(RDMA_IB_IP_PS_TCP + PORT));
}

static void port_of_another_id(void)
{
	listen_on(PORT, RDMA_PS_TCP);
	bind_to(open_id(client, RDMA_PS_TCP), socket_address(NULL, PORT));
}

static void port_of_another_process(void)
{
	int ready[2];
	pid_t child;
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		listen_on(PORT, RDMA_PS_TCP);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	bind_to(new_id(RDMA_PS_TCP), socket_address(NULL, PORT));
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static void path_of_others(void)
{
	struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
					      IBV_PATH_FLAG_BIDIRECTIONAL,
				     .path = {.packetlifetime = 31}};
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000), 0);
	expect(client, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)),
		 EINVAL);
}

static void port_of_root(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	ck_assert_int_eq(syscall(SYS_capget, &header, sets), 0);
	sets[0].effective &= ~CAP_TO_MASK(CAP_NET_BIND_SERVICE);
	ck_assert_int_eq(syscall(SYS_capset, &header, sets), 0);
	ck_fails(rdma_bind_addr(id, socket_address(NULL, 1023)), EACCES);
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 1024)), 0);
}

/* --- calls ---------------------------------------------------------------------------------- */

static void connect_too_early(void)
{
	ck_fails(rdma_connect(bound_id(RDMA_PS_TCP), &no_queue_pair), EINVAL);
}

static void route_before_address(void)
{
	ck_fails(rdma_resolve_route(new_id(RDMA_PS_TCP), 1000), EINVAL);
}

static void route_without_time(void)
{
	ck_fails(rdma_resolve_route(resolved_id(), 0), EINVAL);
}

static void accept_a_client(void)
{
	ck_fails(rdma_accept(resolved_id(), &no_queue_pair), EINVAL);
}

static struct rdma_cm_id *take_withdrawn(void)
{
	struct rdma_cm_id *id, *request;

	listen_on(PORT, RDMA_PS_TCP);
	id = begin_connecting(PORT, RDMA_PS_TCP);
	request = take_request();
	destroy(id);
	while (rdma_reject(request, NULL, 0) == 0)
		;
	return request;
}

static void accept_what_was_withdrawn(void)
{
	ck_fails(rdma_accept(take_withdrawn(), &no_queue_pair), EINVAL);
}

static void queue_pair_of_what_was_withdrawn(void)
{
	ck_assert(!try_create_qp(take_withdrawn()));
}

static void bind_again(void)
{
	bind_to(bound_id(RDMA_PS_TCP), socket_address(NULL, PORT));
}

static void queue_pair_of_an_unbound_id(void)
{
	ck_assert(!try_create_qp(new_id(RDMA_PS_TCP)));
}

static void strange_port_space(void)
{
	struct rdma_cm_id *id;

	open_channels();
	ck_fails(rdma_create_id(client, &id, NULL, 6), EINVAL);
}

static char bytes[255];

static void connect_with(struct rdma_conn_param param)
{
	ck_fails(rdma_connect(resolved_id(), &param), EINVAL);
}

static void too_much_to_connect(void)
{
	connect_with((struct rdma_conn_param){.private_data = bytes, .private_data_len = 60});
}

static void too_much_to_accept(void)
{
	struct rdma_conn_param param = {.private_data = bytes, .private_data_len = 200};

	listen_on(PORT, RDMA_PS_TCP);
	begin_connecting(PORT, RDMA_PS_TCP);
	ck_fails(rdma_accept(take_request(), &param), EINVAL);
}

static void too_much_to_reject(void)
{
	listen_on(PORT, RDMA_PS_TCP);
	begin_connecting(PORT, RDMA_PS_TCP);
	ck_fails(rdma_reject(take_request(), bytes, 149), EINVAL);
}

static void too_much_to_reject_a_datagram(void)
{
	listen_on(PORT, RDMA_PS_UDP);
	begin_connecting(PORT, RDMA_PS_UDP);
	ck_fails(rdma_reject(take_request(), bytes, 137), EINVAL);
}

static void connect_without_parameters(void)
{
	ck_fails(rdma_connect(resolved_id(), NULL), EINVAL);
}

static void too_many_reads(void)
{
	connect_with((struct rdma_conn_param){.responder_resources = 200});
}

static void second_queue_pair(void)
{
	struct rdma_cm_id *id = bound_id(RDMA_PS_TCP);

	create_qp(id);
	ck_assert(!try_create_qp(id));
}

static void domain_of_another_context(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};
	struct ibv_pd *pd = ibv_alloc_pd(fixture_open());

	ck_fails(rdma_create_qp(bound_id(RDMA_PS_TCP), pd, &attr), EINVAL);
}

static void second_queue(void)
{
	struct rdma_cm_id *id = bound_id(RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

	id->recv_cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
	attr.recv_cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
	ck_fails(rdma_create_qp(id, NULL, &attr), EINVAL);
}

static void strange_option(void)
{
	ck_fails(rdma_set_option(new_id(RDMA_PS_TCP), 7, 77, bytes, 4), ENOSYS);
}

static void large_option(void)
{
	ck_fails(rdma_set_option(new_id(RDMA_PS_TCP), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, bytes, 4),
		 EINVAL);
}

static void disconnect_nothing(void)
{
	ck_fails(rdma_disconnect(bound_id(RDMA_PS_TCP)), EINVAL);
}

static void no_options(void)
{
	ck_fails(rdma_set_local_ece(new_id(RDMA_PS_TCP), NULL), EINVAL);
}

static void request_of_a_channel(void)
{
	struct rdma_cm_id *id;

	ck_fails(rdma_get_request(listen_on(PORT, RDMA_PS_TCP), &id), EINVAL);
}

static void event_of_the_library(void)
{
	ck_fails(newer_write_cm_event(new_id(RDMA_PS_TCP), RDMA_CM_EVENT_ESTABLISHED, 0, 0),
		 EINVAL);
}

static void child_waits(void)
{
	struct rdma_cm_event *event;
	int status;
	pid_t child;

	listen_on(PORT, RDMA_PS_TCP);
	child = fork();
	if (child == 0)
		_exit(rdma_get_cm_event(server, &event) == -1 ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

static void wait_for_a_destroyed_channel(void)
{
	struct rdma_cm_event *event;

	open_channels();
	rdma_destroy_event_channel(client);
	ck_fails(rdma_get_cm_event(client, &event), EBADF);
}

/* --- groups --------------------------------------------------------------------------------- */

static void join(struct rdma_cm_id *id, const char *group)
{
	ck_assert_int_eq(rdma_join_multicast(id, socket_address(group, 0), NULL), -1);
}

static void join_to_connect(void)
{
	join(bound_id(RDMA_PS_TCP), GROUP);
}

static void join_a_host(void)
{
	join(bound_id(RDMA_PS_UDP), "10.1.2.3");
}

static void join_the_other_version(void)
{
	join(bound_id(RDMA_PS_UDP), "ff05::7");
}

static void join_without_descriptors(void)
{
	struct rdma_cm_id *id = bound_id(RDMA_PS_UDP);

	allow_no_descriptors();
	join(id, GROUP);
}

static void join_without_flags(void)
{
	struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
					       .addr = socket_address(GROUP, 0)};

	ck_fails(rdma_join_multicast_ex(bound_id(RDMA_PS_UDP), &attr, NULL), EINVAL);
}

static void leave_without_joining(void)
{
	ck_fails(rdma_leave_multicast(bound_id(RDMA_PS_UDP), socket_address(GROUP, 0)),
		 EADDRNOTAVAIL);
}

/* --- names ---------------------------------------------------------------------------------- */

static void name_that_is_none(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *info;

	ck_assert_int_ne(rdma_getaddrinfo("no-number", "7471", &hints, &info), 0);
}

static void strange_hints(void)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_UD};
	struct rdma_addrinfo *info;

	ck_assert_int_ne(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
}

static void subnet_administrator(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_SA};

	ck_fails(newer_resolve_addrinfo(bound_id(RDMA_PS_TCP), NULL, "7471", &hints), EOPNOTSUPP);
}

static const struct cause_row rows[] = {
	{CAUSE_CM_NO_LISTENER, nothing_listens, "for port 7471 (TCP) of 127.86."},
	{CAUSE_CM_NO_LISTENER, nothing_listens, "there listens nothing"},
	{CAUSE_CM_REJECTED_SERVICE, nothing_listens, "with reason 8, invalid service ID"},
	{CAUSE_CM_NO_LISTENER, another_port_listens, "there listens port 18515 (TCP)"},
	{CAUSE_CM_REJECTED_SERVICE, another_port_listens, "there listens port 18515 (TCP)"},
	{CAUSE_CM_NO_LISTENER, no_datagram_service, "SIDR_REQ of 127.86."},
	{CAUSE_CM_REJECTED_SERVICE, no_datagram_service, "reason 1, service ID not supported"},
	{CAUSE_CM_REQ_GID, request_for_another_address, "10.9.9.9"},
	{CAUSE_CM_REQ_STALE, request_of_a_connected_qp, "QP 0x004711"},
	{CAUSE_CM_REQ_MTU, request_with_a_large_mtu,
	 "path MTU 4096; the network device with MTU 1500"},
	{CAUSE_CM_REQ_ALTERNATE, request_with_a_strange_alternate, "10.9.9.9"},
	{CAUSE_CM_REQ_HEADER, request_without_header, "IP version 0"},
	{CAUSE_CM_REQ_HEADER, request_for_an_address_elsewhere, "a header for 192.0.2.77"},
	{CAUSE_CM_REQ_TYPE, request_of_another_type, "of type 3, the request of 2"},
	{CAUSE_CM_LISTENER_GONE, listener_without_channel, "channel was destroyed"},
	{CAUSE_CM_BACKLOG, full_backlog, "the backlog is 1"},
	{CAUSE_CM_REJECT_SENT, application_refuses, "rdma_reject() of a request of 127.86."},
	{CAUSE_CM_REJECTED_CONSUMER, application_refuses, "reason 28, consumer reject"},
	{CAUSE_CM_REJECT_SENT, request_is_destroyed, "the id was destroyed without an answer"},
	{CAUSE_CM_REJECTED_CONSUMER, datagram_application_refuses, "reason 2, rejected by"},
	{CAUSE_CM_REQ_WITHDRAWN, given_up_by_the_client,
	 "REQ for port 7471 (TCP), given up by 10.0."},
	{CAUSE_CM_APPLICATION_DELAYS, slow_application, "up to 65536 ms more"},
	{CAUSE_CM_REJECTED_STALE, refused_as_stale, "REQ for port 7471 (TCP), refused by"},
	{CAUSE_CM_REJECTED_TIMEOUT, refused_after_reply, "REP for port 7471 (TCP), refused by"},
	{CAUSE_CM_REJECTED, refused_for_its_mtu, "reason 26, invalid path MTU"},
	{CAUSE_CM_REQ_UNANSWERED, silent_peer, "was sent 16 times in 73"},
	{CAUSE_CM_REP_UNANSWERED, silent_after_reply, "was sent 16 times in 65"},
	{CAUSE_CM_SIDR_REQ_UNANSWERED, silent_service, "was sent 16 times in 65"},
	{CAUSE_CM_DREQ_UNANSWERED, silent_after_disconnect, "was sent 16 times in 73"},
	{CAUSE_CM_PEER_DELAYS, slow_peer, "up to 32768 ms more"},
	{CAUSE_CM_PEER_DIED, peer_dies, "port 7471 (TCP) with 127.86."},
	{CAUSE_CM_NO_PROCESS, no_process_there, "it is sent again for 69 s more"},
	{CAUSE_CM_NO_PROCESS, no_datagram_service_there, "SIDR_REQ for port 7471 (TCP) to "},
	{CAUSE_CM_CONNECT_ERROR, queue_pair_fails, "could not be connected: Invalid argument"},
	{CAUSE_CM_MULTICAST_ERROR, attaching_fails, "could not be attached to 224.5.6.7"},
	{CAUSE_CM_DEVICE_REMOVAL, device_fails, "urxe0, the id of 127.86."},
	{CAUSE_CM_DEVICE_FAILED, device_fails, "urxe0"},
	{CAUSE_CM_NO_ROUTE, no_way, "to 198.51.100.1 port 7471: "},
	{CAUSE_DESCRIPTORS_USED_UP, no_descriptor_to_ask, "a route: Too many open files; this ",
	 CAUSE_CM_NO_ROUTE},
	{CAUSE_CM_NO_DEVICE, no_device_of_that_kind, "to ::1 port 7471 the way is from ::1"},
	{CAUSE_CM_NOT_LOCAL, address_of_another_host, "urxe0: 192.0.2.77: Cannot assign"},
	{CAUSE_CM_ADDRESS_FAMILY, strange_family, "the address family is 1"},
	{CAUSE_CM_ADDRESS_SCOPE, no_scope, "fe80::1 port 7471, with sin6_scope_id 0"},
	{CAUSE_CM_ADDRESS_FAMILIES, two_families, "family is 2, the destination's 10"},
	{CAUSE_CM_SERVICE_SPACE, another_space,
	 "sib_sid is 0x1061d2f, of an id of port space 0x111"},
	{CAUSE_CM_PORT_IN_USE, port_of_another_id, "another id of this process has 127.86."},
	{CAUSE_CM_PORT_IN_USE, port_of_another_process, "port 7471: process "},
	{CAUSE_CM_PATH_RECORD, path_of_others, "packet life time 31 of at most 30"},
	{CAUSE_CM_PORT_PRIVILEGED, port_of_root, "port 1023, without the capability"},
	{CAUSE_CM_ID_STATE, connect_too_early, "rdma_connect(): the id is bound to an address"},
	{CAUSE_CM_ID_STATE, route_before_address, "the id is not bound, and has to be at ADDR_"},
	{CAUSE_CM_ID_STATE, accept_a_client, "rdma_accept(): the id is at ROUTE_RESOLVED"},
	{CAUSE_CM_ID_STATE, accept_what_was_withdrawn, "rdma_accept(): the id is IDLE"},
	{CAUSE_CM_ID_STATE, queue_pair_of_what_was_withdrawn,
	 "the id is IDLE, and has to be a connection that the peer hasn't given up"},
	{CAUSE_CM_ID_STATE, bind_again, "rdma_bind_addr(): the id is bound"},
	{CAUSE_CM_ID_STATE, queue_pair_of_an_unbound_id, "rdma_create_qp(): the id is not bound"},
	{CAUSE_CM_PORT_SPACE, strange_port_space, "the port space is 0x6"},
	{CAUSE_CM_PRIVATE_DATA, too_much_to_connect,
	 "REQ: 60 bytes of private data, of at most 56"},
	{CAUSE_CM_PRIVATE_DATA, too_much_to_accept,
	 "REP: 200 bytes of private data, of at most 196"},
	{CAUSE_CM_PRIVATE_DATA, too_much_to_reject,
	 "REJ: 149 bytes of private data, of at most 148", CAUSE_CM_ID_STATE},
	{CAUSE_CM_PRIVATE_DATA, too_much_to_reject_a_datagram,
	 "SIDR_REP: 137 bytes of private data, of at most 136", CAUSE_CM_ID_STATE},
	{CAUSE_CM_CONN_PARAM, connect_without_parameters, "conn_param is NULL"},
	{CAUSE_CM_RESOURCES, too_many_reads, "responder_resources 200 of at most 128"},
	{CAUSE_CM_QP, second_queue_pair, "the id has QP 0x"},
	{CAUSE_CM_PD, domain_of_another_context, "of another context of urxe0"},
	{CAUSE_CM_CQ, second_queue, "recv_cq is given"},
	{CAUSE_CM_OPTION, strange_option, "level 7, option 77"},
	{CAUSE_CM_OPTION_VALUE, large_option, "has 1 bytes, not 4"},
	{CAUSE_CM_NOT_CONNECTED, disconnect_nothing, "rdma_disconnect()"},
	{CAUSE_CM_ECE, no_options, "rdma_set_local_ece(): no options"},
	{CAUSE_CM_ARGUMENT, request_of_a_channel, "the id has an event channel"},
	{CAUSE_CM_ARGUMENT, event_of_the_library, "event is 9"},
	{CAUSE_CM_ARGUMENT, route_without_time, "timeout_ms is 0"},
	{CAUSE_CM_INHERITED, child_waits, "rdma_get_cm_event()"},
	{CAUSE_CM_CHANNEL_DESTROYED, wait_for_a_destroyed_channel, "rdma_get_cm_event()"},
	{CAUSE_CM_JOIN_TYPE, join_to_connect, "an id of port space 0x106"},
	{CAUSE_CM_JOIN_GROUP, join_a_host, "10.1.2.3 is no group"},
	{CAUSE_CM_JOIN_GROUP, join_the_other_version, "the other IP version"},
	{CAUSE_CM_JOIN_LINK, join_without_descriptors, "group 224.5.6.7: "},
	{CAUSE_CM_JOIN_MASK, join_without_flags, "comp_mask 0x1"},
	{CAUSE_CM_NOT_JOINED, leave_without_joining, "rdma_leave_multicast() of 224.5.6.7"},
	{CAUSE_CM_ADDRINFO, name_that_is_none, "no-number, 7471: Name or service not known"},
	{CAUSE_CM_ADDRINFO_HINTS, strange_hints, "ai_port_space 0x106, ai_qp_type 4"},
	{CAUSE_CM_ADDRINFO_SA, subnet_administrator, "ai_flags is 0x10"},
};

static const struct cause_table table = {
	.name = "causes of the connection manager",
	.first = 0x5000,
	.last = 0x5eff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

int main(void)
{
	return run_suite(causes_suite(&table));
}
