/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What needs a network namespace of the test's own: what ids hear of their network
 * device (another hardware address, a lost address, its end), and the ports of a node
 * that has but two to give.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/namespace.h"

#define NODE "10.99.0.1"
#define PEER "10.99.0.2" /* which no host has */
#define PORT 7471

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void setup(void)
{
	ip("link add urxe0 type veth peer name urxe1");
	ip("addr add " NODE "/24 dev urxe0");
	ip("link set urxe0 up");
	ip("link set urxe1 up");
	channel = open_channel();
	id = open_id(channel, RDMA_PS_TCP);
}

static void teardown(void)
{
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	if (system("ip link show urxe0 >/dev/null 2>&1") == 0)
		ip("link del urxe0");
}

START_TEST(another_hardware_address)
{
	struct rdma_cm_id *listener = open_id(channel, RDMA_PS_TCP);
	struct rdma_cm_id *wildcard = open_id(channel, RDMA_PS_TCP);

	ck_assert_int_eq(rdma_bind_addr(listener, socket_address(NODE, PORT)), 0);
	ck_assert_int_eq(rdma_listen(listener, 1), 0);
	ck_assert_int_eq(rdma_bind_addr(wildcard, socket_address("0.0.0.0", PORT + 1)), 0);
	ck_assert_int_eq(rdma_listen(wildcard, 1), 0);
	ip("link set urxe0 txqueuelen 10"); /* changes, but not that */
	ip("link set urxe1 address 02:00:00:00:00:01");
	ip("link set urxe0 address 02:00:00:00:00:02");
	expect(channel, listener, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	ck_assert(!is_readable(channel));
	ck_assert_int_eq(rdma_destroy_id(listener), 0);
	ck_assert_int_eq(rdma_destroy_id(wildcard), 0);
}
END_TEST

START_TEST(network_device_goes)
{
	struct rdma_conn_param param = {.qp_num = 1, .retry_count = 7};

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(PEER, PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ip("link del urxe0");
	expect(channel, id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	ck_fails(rdma_connect(id, &param), EINVAL);
	ck_assert(!is_readable(channel));
}
END_TEST

START_TEST(route_goes)
{
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(PEER, PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ip("addr del " NODE "/24 dev urxe0");
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_ERROR, -EADDRNOTAVAIL);
	/* The way may come back. */
	ip("addr add " NODE "/24 dev urxe0");
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}
END_TEST

START_TEST(no_route)
{
	ck_fails(rdma_resolve_addr(id, NULL, socket_address("198.51.100.1", PORT), 1000),
		 ENETUNREACH);
	ck_assert(!is_readable(channel));
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(PEER, PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}
END_TEST

/* In another process of the node, of whose two ports @taken is the first one's. */
static int neighbour(uint16_t taken)
{
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_id *here, *there;

	if (!own || rdma_create_id(own, &here, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_create_id(own, &there, NULL, RDMA_PS_TCP) != 0)
		return 1;
	if (rdma_bind_addr(here, socket_address(NODE, taken)) == 0 || errno != EADDRINUSE)
		return 2;
	if (rdma_bind_addr(here, socket_address("0.0.0.0", taken)) == 0 || errno != EADDRINUSE)
		return 3;
	if (rdma_bind_addr(here, socket_address(NODE, 0)) != 0 ||
	    ntohs(rdma_get_src_port(here)) != (taken ^ 1))
		return 4;
	if (rdma_bind_addr(there, socket_address(NODE, 0)) == 0 || errno != EADDRNOTAVAIL)
		return 5;
	/* A refusal leaves the id as it was. */
	if (rdma_bind_addr(there, socket_address(NODE, PORT)) != 0 || rdma_listen(there, 1) != 0)
		return 6;
	return rdma_destroy_id(here) || rdma_destroy_id(there) ? 7 : 0;
}

START_TEST(ports_are_the_nodes)
{
	int status;
	pid_t pid;

	ck_assert(write_file("/proc/sys/net/ipv4/ip_local_port_range", "40000 40001"));
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, 0)), 0);
	for (int i = 0; i < 10; i++) {
		pid = fork();
		if (pid == 0)
			_exit(neighbour(ntohs(rdma_get_src_port(id))));
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFEXITED(status));
		ck_assert_int_eq(WEXITSTATUS(status), 0);
	}
	ck_assert_int_eq(rdma_listen(id, 1), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("netdevs");
	TCase *tests = tcase_create("netdevs");

	if (!namespace_enter())
		return SKIPPED;
	setenv("URXE_NODE", NODE, 1);
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, another_hardware_address);
	tcase_add_test(tests, network_device_goes);
	tcase_add_test(tests, route_goes);
	tcase_add_test(tests, no_route);
	/* It can't follow a forked child's threads. */
	if (!HAS_TSAN)
		tcase_add_test(tests, ports_are_the_nodes);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
