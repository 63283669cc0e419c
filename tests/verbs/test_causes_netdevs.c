/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ids hear of network devices and of hosts on the link, and what all processes have together,
 * in a network namespace.
 */
#include <arpa/inet.h>
#include <stdlib.h>

#include "tests/run_suite.h"
#include "tests/verbs/causes.h"
#include "tests/verbs/fails.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/namespace.h"

#define NODE "10.99.0.1"
#define SILENT "10.99.0.77" /* which no host has */
#define BEYOND "192.0.2.1"  /* to which there is no route */
#define PORT 7471
#define PORT_RANGE "/proc/sys/net/ipv4/ip_local_port_range"

static struct rdma_event_channel *channel;

/* That of the row before. */
static void remove_interface(void)
{
	if (system("ip link show urxe0 >/dev/null 2>&1") == 0)
		ip("link del urxe0");
}

static void loopback_that_is_down(void)
{
	int count = -1;

	remove_interface();
	setenv("URXE_NODE", "lo", 1);
	ck_assert_ptr_nonnull(ibv_get_device_list(&count));
	ck_assert_int_eq(count, 0);
}

static struct rdma_cm_id *make_id(void)
{
	remove_interface();
	ip("link add urxe0 type veth peer name urxe1");
	ip("addr add " NODE "/24 dev urxe0");
	ip("link set urxe0 up");
	ip("link set urxe1 up");
	channel = open_channel();
	return open_id(channel, RDMA_PS_TCP);
}

static void silent_host(void)
{
	struct rdma_cm_id *id = make_id();

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(SILENT, PORT), 100), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
}

static void another_hardware_address(void)
{
	struct rdma_cm_id *id = make_id();

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, PORT)), 0);
	ip("link set urxe0 address 02:00:00:00:00:02");
	expect(channel, id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

static void network_device_goes(void)
{
	struct rdma_cm_id *id = make_id();

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, PORT)), 0);
	ip("link del urxe0");
	expect(channel, id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

static void route_goes(void)
{
	struct rdma_cm_id *id = make_id();

	ip("neigh add " SILENT " lladdr 02:00:00:00:00:01 nud permanent dev urxe0");
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(SILENT, PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ip("addr del " NODE "/24 dev urxe0");
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_ERROR, -EADDRNOTAVAIL);
}

/* Packets of 1024 bytes, on a link whose MTU becomes less than that. */
static void mtu_shrinks(void)
{
	static uint8_t bytes[1024];
	struct ibv_context *context;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_sge sge = {(uintptr_t)bytes, sizeof(bytes)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	make_id();
	context = fixture_open();
	pd = ibv_alloc_pd(context);
	init.send_cq = init.recv_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	sge.lkey = ibv_reg_mr(pd, bytes, sizeof(bytes), 0)->lkey;
	qp = ibv_create_qp(pd, &init);
	ck_assert_int_eq(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = 17,
				    .ah_attr = {.is_global = 1, .port_num = 1}};
	attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
	inet_pton(AF_INET, SILENT, attr.ah_attr.grh.dgid.raw + 12);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 1, .retry_cnt = 1};
	ck_assert_int_eq(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	ip("link set urxe0 mtu 600");
	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
	ck_assert_int_eq(wait_completion(init.send_cq).status, IBV_WC_RETRY_EXC_ERR);
}

/* An address vector needs a route when it is given. */
static void path_without_route(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;
	struct ibv_pd *pd;

	make_id();
	pd = ibv_alloc_pd(fixture_open());
	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	inet_pton(AF_INET, BEYOND, attr.grh.dgid.raw + 12);
	ck_fails_null(ibv_create_ah(pd, &attr), ENETUNREACH);
	ip("route add " BEYOND "/32 dev urxe0");
	ah = ibv_create_ah(pd, &attr);
	ck_assert_ptr_nonnull(ah);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
}

/* Of all processes in the namespace: elsewhere other tests would have no port. */
static void no_port_left(void)
{
	struct rdma_cm_id *id = make_id();

	while (rdma_bind_addr(id, socket_address(NODE, 0)) == 0)
		id = open_id(channel, RDMA_PS_TCP);
	ck_assert_int_eq(errno, EADDRNOTAVAIL);
}

static void resolve_without_ports(struct rdma_cm_id *id, int error)
{
	static const struct sockaddr_in any = {.sin_family = AF_INET};

	ck_assert(write_file(PORT_RANGE, "40000 40001"));
	while (bind(socket(AF_INET, SOCK_DGRAM, 0), (const struct sockaddr *)&any, sizeof(any)) ==
	       0)
		;
	ck_fails(rdma_resolve_addr(id, NULL, socket_address(SILENT, PORT), 1000), error);
	ck_assert(write_file(PORT_RANGE, "32768 60999"));
}

static void no_udp_port(void)
{
	struct rdma_cm_id *bound = make_id();

	ck_assert_int_eq(rdma_bind_addr(bound, socket_address(NODE, PORT)), 0);
	resolve_without_ports(open_id(channel, RDMA_PS_TCP), EAGAIN);
}

static void no_udp_port_of_an_address(void)
{
	struct rdma_cm_id *bound = make_id();

	ck_assert_int_eq(rdma_bind_addr(bound, socket_address(NODE, PORT)), 0);
	resolve_without_ports(bound, EADDRINUSE);
}

static const struct cause_row rows[] = {
	{CAUSE_NODE_NOT_LOCAL, loopback_that_is_down, "has none on an interface that is up"},
	{CAUSE_PATH_NO_NEIGHBOUR, path_without_route,
	 "from 10.99.0.1 (sgid_index 0) to 192.0.2.1 (dgid): Network is unreachable"},
	{CAUSE_CM_NO_NEIGHBOUR, silent_host,
	 "to 10.99.0.77 port 7471 by 10.99.0.77 on urxe0: no answer"},
	{CAUSE_CM_ADDR_CHANGE, another_hardware_address, "the id of 10.99.0.1 port 7471"},
	{CAUSE_CM_DEVICE_REMOVAL, network_device_goes, "the id of 10.99.0.1 port 7471"},
	{CAUSE_PEER_SILENT, mtu_shrinks,
	 "the kernel refused to send to that address: Message too long; "},
	{CAUSE_CM_NO_PORT_LEFT, no_port_left, "the processes of this user have all"},
	{CAUSE_CM_NO_ROUTE, route_goes, "to 10.99.0.77 port 7471: Cannot assign requested address"},
	{CAUSE_CM_NO_UDP_PORT, no_udp_port, "to 10.99.0.77 port 7471"},
	{CAUSE_CM_NO_UDP_PORT, no_udp_port_of_an_address, "to 10.99.0.77 port 7471"},
};

static const struct cause_table table = {
	.name = "causes of network devices",
	.first = 0x5f00,
	.last = 0x5fff,
	.rows = rows,
	.count = sizeof(rows) / sizeof(rows[0]),
};

int main(void)
{
	Suite *suite;

	if (!namespace_enter())
		return SKIPPED;
	suite = causes_suite(&table);
	setenv("URXE_NODE", NODE, 1);
	return run_suite(suite);
}
