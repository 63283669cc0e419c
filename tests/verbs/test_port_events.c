/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What contexts are told of their port: its network device goes down and up, gets and
 * loses addresses, and is deleted.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/namespace.h"

#define FIRST "10.99.0.1"
#define SECOND "10.99.0.3"
#define THIRD "fd99::1"

#define EVENT(type) (1u << (type))

/* The kernel takes note of a carrier a little later. */
static void wait_until_running(void)
{
	struct ifreq request = {.ifr_name = "urxe0"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	while (!(request.ifr_flags & IFF_RUNNING)) {
		ck_assert_int_eq(ioctl(fd, SIOCGIFFLAGS, &request), 0);
		poll(NULL, 0, 1);
	}
	close(fd);
}

/* Without link-local addresses, which would come and go with the link. */
static void make_netdev(void)
{
	ip("link add urxe0 type veth peer name urxe1");
	ip("link set urxe0 addrgenmode none");
	ip("link set urxe1 addrgenmode none");
	ip("link set urxe1 up");
	ip("link set urxe0 up");
	ip("addr add " FIRST "/24 dev urxe0");
	wait_until_running();
}

/* What an earlier test left goes first: one that failed leaves everything. */
static void setup(void)
{
	if (system("ip link show urxe0 >/dev/null 2>&1") == 0)
		ip("link del urxe0");
	ip("link set lo up"); /* by which the node sends to itself */
	make_netdev();
}

/* The next events of the port, which have to be @types, in any order. */
static void expect_events(struct ibv_context *context, unsigned int types)
{
	struct ibv_async_event event;

	while (types) {
		ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
		ck_assert_msg(types & EVENT(event.event_type), "%s",
			      ibv_event_type_str(event.event_type));
		ck_assert_int_eq(event.element.port_num, 1);
		types &= ~EVENT(event.event_type);
		ibv_ack_async_event(&event);
	}
}

static void expect_no_event(struct ibv_context *context)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};

	ck_assert_int_eq(poll(&fd, 1, 0), 0);
}

static enum ibv_port_state port_state(struct ibv_context *context)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(context, 1, &attr), 0);
	return attr.state;
}

/* Slot @index of the GID table has @address; NULL: it is empty. */
static void expect_gid(struct ibv_context *context, unsigned int index, const char *address)
{
	char text[INET6_ADDRSTRLEN];
	struct ibv_gid_entry entry;
	union ibv_gid gid;

	ck_assert_int_eq(ibv_query_gid_ex(context, 1, index, &entry, 0), address ? 0 : ENODATA);
	ck_assert_int_eq(ibv_query_gid(context, 1, index, &gid), 0);
	if (!address) {
		ck_assert_mem_eq(&gid, &(union ibv_gid){}, sizeof(gid));
		return;
	}
	ck_assert_mem_eq(&gid, &entry.gid, sizeof(gid));
	if (strchr(address, ':'))
		inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
	else
		inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
	ck_assert_str_eq(text, address);
}

START_TEST(link_goes_down_and_up)
{
	struct ibv_context *context = fixture_open(), *other = fixture_open();

	ck_assert_int_eq(port_state(context), IBV_PORT_ACTIVE);
	ip("link set urxe0 txqueuelen 10"); /* a change that is none of the port's state */
	ip("link set urxe0 down");
	expect_events(context, EVENT(IBV_EVENT_PORT_ERR));
	expect_events(other, EVENT(IBV_EVENT_PORT_ERR));
	ck_assert_int_eq(port_state(context), IBV_PORT_DOWN);
	ip("link set urxe0 up");
	expect_events(context, EVENT(IBV_EVENT_PORT_ACTIVE));
	expect_events(other, EVENT(IBV_EVENT_PORT_ACTIVE));
	ck_assert_int_eq(port_state(context), IBV_PORT_ACTIVE);
	/* The carrier, which the other end of the cable gives. */
	ip("link set urxe1 down");
	expect_events(context, EVENT(IBV_EVENT_PORT_ERR));
	ip("link set urxe1 up");
	expect_events(context, EVENT(IBV_EVENT_PORT_ACTIVE));
	expect_no_event(context);
	/* The address was there all the time. */
	expect_gid(context, 0, FIRST);
	fixture_close(other);
	fixture_close(context);
}
END_TEST

START_TEST(addresses_come_and_go)
{
	struct ibv_context *context = fixture_open();
	struct ibv_gid_entry entries[8];

	ip("addr add " SECOND "/24 dev urxe0");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 1, SECOND);
	ip("addr add " THIRD "/64 dev urxe0 nodad");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 2, THIRD);
	/* The others keep their places. */
	ip("addr del " SECOND "/24 dev urxe0");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 0, FIRST);
	expect_gid(context, 1, NULL);
	expect_gid(context, 2, THIRD);
	ck_assert_int_eq(ibv_query_gid_table(context, entries, 8, 0), 2);
	ck_assert_int_eq(entries[1].gid_index, 2);
	/* The first one, too; the port is where it was. */
	ip("addr del " FIRST "/24 dev urxe0");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 0, NULL);
	ck_assert_int_eq(port_state(context), IBV_PORT_ACTIVE);
	ip("addr add " SECOND "/24 dev urxe0");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 0, SECOND);
	expect_no_event(context);
	fixture_close(context);
}
END_TEST

START_TEST(traffic_by_an_address_that_came)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	ip("addr add " SECOND "/24 dev urxe0");
	expect_events(pair.context, EVENT(IBV_EVENT_GID_CHANGE));
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &reset, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_modify_qp(pair.receiver, &reset, IBV_QP_STATE), 0);
	connect_qp_by(pair.sender, pair.receiver, 1);
	connect_qp_by(pair.receiver, pair.sender, 1);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* A node that was given an address has no other, and has it again when it comes back. */
START_TEST(addresses_of_the_node)
{
	struct ibv_context *context;

	setenv("URXE_NODE", FIRST, 1);
	context = fixture_open();
	ip("addr add " SECOND "/24 dev urxe0");
	ip("addr del " FIRST "/24 dev urxe0"); /* the kernel deletes SECOND with it */
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 0, NULL);
	ip("addr add " FIRST "/24 dev urxe0");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_gid(context, 0, FIRST);
	expect_no_event(context);
	fixture_close(context);
}
END_TEST

static void expect_flushed(struct pair *pair)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc = wait_completion(pair->recv_cq);

	ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(wc.wr_id, 1);
	ck_assert_int_eq(ibv_query_qp(pair->receiver, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
	ck_assert_int_eq(ibv_query_qp(pair->sender, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
	ck_assert_int_eq(post_write(pair, 2), 0);
	ck_assert_int_eq(wait_completion(pair->send_cq).status, IBV_WC_WR_FLUSH_ERR);
}

START_TEST(network_device_goes)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	post_receive(&pair, 1);
	ip("link del urxe0");
	expect_events(pair.context, EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE) |
					    EVENT(IBV_EVENT_DEVICE_FATAL));
	expect_flushed(&pair);
	expect_gid(pair.context, 0, NULL);
	ck_assert_int_eq(port_state(pair.context), IBV_PORT_DOWN);
	/* It comes back, and the device with it. */
	make_netdev();
	expect_events(pair.context, EVENT(IBV_EVENT_GID_CHANGE) | EVENT(IBV_EVENT_PORT_ACTIVE));
	expect_gid(pair.context, 0, FIRST);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &reset, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_modify_qp(pair.receiver, &reset, IBV_QP_STATE), 0);
	connect_qp(pair.sender, pair.receiver);
	connect_qp(pair.receiver, pair.sender);
	ck_assert_int_eq(post_write(&pair, 3), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	pair_close(&pair);
}
END_TEST

/* A node of all addresses of the machine: others are left, but the port's network device is gone.
 */
START_TEST(network_device_of_the_machine_goes)
{
	static struct pair pair;

	unsetenv("URXE_NODE");
	pair_open(&pair, IBV_QPT_RC, 0);
	expect_gid(pair.context, 0, FIRST);
	expect_gid(pair.context, 1, "127.0.0.1");
	post_receive(&pair, 1);
	ip("link del urxe0");
	expect_events(pair.context, EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE) |
					    EVENT(IBV_EVENT_DEVICE_FATAL));
	expect_flushed(&pair);
	expect_gid(pair.context, 0, NULL);
	expect_gid(pair.context, 1, "127.0.0.1");
	ck_assert_int_eq(port_state(pair.context), IBV_PORT_DOWN);
	pair_close(&pair);
}
END_TEST

/* Opened again, a device is what the machine is by then. */
START_TEST(changes_while_closed)
{
	struct ibv_context *context = fixture_open();

	fixture_close(context);
	ip("addr add " SECOND "/24 dev urxe0");
	context = fixture_open();
	expect_gid(context, 1, SECOND);
	fixture_close(context);
	ip("link del urxe0");
	make_netdev();
	context = fixture_open();
	expect_gid(context, 0, FIRST);
	expect_gid(context, 1, NULL);
	ck_assert_int_eq(port_state(context), IBV_PORT_ACTIVE);
	expect_no_event(context);
	fixture_close(context);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("port_events");
	TCase *tests = tcase_create("port_events");

	if (!namespace_enter())
		return SKIPPED;
	setenv("URXE_NODE", "urxe0", 1);
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, NULL);
	tcase_add_test(tests, link_goes_down_and_up);
	tcase_add_test(tests, addresses_come_and_go);
	tcase_add_test(tests, traffic_by_an_address_that_came);
	tcase_add_test(tests, addresses_of_the_node);
	tcase_add_test(tests, network_device_goes);
	tcase_add_test(tests, network_device_of_the_machine_goes);
	tcase_add_test(tests, changes_while_closed);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
