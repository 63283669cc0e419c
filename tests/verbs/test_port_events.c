/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What contexts are told of their ports: a network device goes down and up, gets and
 * loses addresses, and is deleted.
 */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/unit/open_descriptors.h"
#include "tests/verbs/ports.h"

static enum ibv_port_state port_state(struct ibv_context *context)
{
	return state_of(context, 1);
}

static struct said said;

START_TEST(link_goes_down_and_up)
{
	struct ibv_context *context, *other;

	begin_reports(&said);
	context = fixture_open();
	other = fixture_open();
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
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_PORT_DOWN), 2);
	ck_assert_uint_eq(said_count(&said, CAUSE_PORT_ACTIVE), 2);
	ck_assert_ptr_nonnull(strstr(said.text, "port 1, network device urxe0"));
}
END_TEST

/* As the kernel has them for RoCE. */
enum { PHYSICAL_POLLING = 2, PHYSICAL_DISABLED = 3, PHYSICAL_LINK_UP = 5 };

/*
 * The port is down without a carrier, or because it was put down; its MTU leaves room for headers.
 */
START_TEST(attributes_of_the_network_device)
{
	struct ibv_context *context = fixture_open();

	ck_assert_int_eq(port_attr(context).phys_state, PHYSICAL_LINK_UP);
	ip("link set urxe1 down");
	expect_events(context, EVENT(IBV_EVENT_PORT_ERR));
	ck_assert_int_eq(port_attr(context).phys_state, PHYSICAL_POLLING);
	ip("link set urxe0 down");
	ck_assert_int_eq(port_attr(context).phys_state, PHYSICAL_DISABLED);
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		ip("link set urxe0 mtu %u", (128u << mtu) + 80);
		ck_assert_int_eq(port_attr(context).active_mtu, mtu);
		if (mtu == IBV_MTU_256)
			continue;
		ip("link set urxe0 mtu %u", (128u << mtu) + 79);
		ck_assert_int_eq(port_attr(context).active_mtu, mtu - 1);
	}
	ip("link set urxe0 mtu 9000");
	ck_assert_int_eq(port_attr(context).active_mtu, IBV_MTU_4096);
	fixture_close(context);
}
END_TEST

/* A port is a network device, not a name, which another device may get. */
START_TEST(network_device_gets_another_name)
{
	struct ibv_context *context = fixture_open();

	ip("link set urxe0 down"); /* without which older kernels refuse */
	expect_events(context, EVENT(IBV_EVENT_PORT_ERR));
	ip("link set urxe0 name urxe8");
	ip("link set urxe8 up mtu 9000");
	expect_events(context, EVENT(IBV_EVENT_PORT_ACTIVE));
	ck_assert_int_eq(port_attr(context).state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(port_attr(context).phys_state, PHYSICAL_LINK_UP);
	ck_assert_int_eq(port_attr(context).active_mtu, IBV_MTU_4096);
	fixture_close(context);
}
END_TEST

/* Until the next call. */
static const char *netdev_of(unsigned int index)
{
	static char name[32];
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/urxe0/ports/1/gid_attrs/ndevs/%u",
		 index);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(name, sizeof(name), file));
	fclose(file);
	name[strcspn(name, "\n")] = '\0';
	return name;
}

static void expect_netdev(unsigned int index, const char *expected)
{
	ck_assert_str_eq(netdev_of(index), expected);
}

/* That the network device has it may be known later than its name. */
static void await_path_mtu(struct pair *pair, enum ibv_mtu mtu)
{
	struct ibv_qp *qp = pair->sender;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET}, reset = attr;
	struct ibv_qp_init_attr init;

	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_AV, &init), 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = mtu;
	while (ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER) != 0)
		poll(NULL, 0, 1);
}

/* So is that of its addresses, though the node names it as it was called before. */
START_TEST(addresses_of_a_device_with_another_name)
{
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	ip("link set urxe0 down");
	ip("link set urxe0 name urxe8");
	ip("link set urxe8 up mtu 9000");
	while (strcmp(netdev_of(0), "urxe8") != 0)
		poll(NULL, 0, 1);
	expect_gid(pair.context, 0, FIRST);
	/* Paths may have its MTU. */
	await_path_mtu(&pair, IBV_MTU_4096);
	pair_close(&pair);
}
END_TEST

/* As iproute2 and systemd know it by. */
START_TEST(node_by_another_name_of_its_device)
{
	struct ibv_context *context;

	ip("link property add dev urxe0 altname urxeother");
	ip("addr add fe80::99/64 dev urxe0 nodad");
	setenv("URXE_NODE", "urxeother,fe80::99%urxeother", 1);
	context = fixture_open();
	expect_gid(context, 0, FIRST);
	expect_gid(context, 1, "fe80::99");
	expect_netdev(0, "urxe0");
	fixture_close(context);
}
END_TEST

/* An IPv4 address may have a name of its own; it is its interface's all the same. */
START_TEST(address_with_a_label)
{
	struct ibv_context *context;

	ip("addr add " SECOND "/24 dev urxe0 label urxe0:1");
	context = fixture_open();
	expect_gid(context, 0, FIRST);
	expect_gid(context, 1, SECOND);
	expect_netdev(1, "urxe0");
	fixture_close(context);
}
END_TEST

static void wait_until_usable(void)
{
	while (system("ip -6 addr show dev urxe0 | grep -q tentative") == 0)
		poll(NULL, 0, 10);
}

/* Of an interface that is a node an address may not be usable yet; it is used when it is. */
START_TEST(interface_with_a_tentative_address)
{
	static struct pair pair;

	ip("addr add " THIRD "/64 dev urxe0");
	pair_open(&pair, IBV_QPT_RC, 0);
	expect_gid(pair.context, 1, THIRD);
	wait_until_usable();
	expect_traffic_by(&pair, 1);
	pair_close(&pair);
}
END_TEST

/* One that was named is on this machine all the same, and the device opens when it can be used. */
START_TEST(node_with_a_tentative_address)
{
	struct ibv_device **list;
	int count;

	begin_reports(&said);
	ip("addr add " THIRD "/64 dev urxe0");
	setenv("URXE_NODE", THIRD, 1);
	list = ibv_get_device_list(&count);
	ck_assert_int_eq(count, 1);
	ck_assert_ptr_null(ibv_open_device(list[0]));
	ck_assert_int_eq(errno, EADDRNOTAVAIL);
	ibv_free_device_list(list);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_ADDRESS_UNUSABLE), 1);
	wait_until_usable();
	fixture_close(fixture_open());
}
END_TEST

static void open_query_and_close(void)
{
	struct ibv_context *context = fixture_open();

	port_attr(context);
	fixture_close(context);
}

/* What an open device has is closed with it, and in a child. */
START_TEST(nothing_left_open)
{
	struct ibv_context *context;
	unsigned int before;
	int status;
	pid_t child;

	open_query_and_close(); /* with what stays */
	before = open_descriptors();
	for (int i = 0; i < 3; i++)
		open_query_and_close();
	ck_assert_uint_eq(open_descriptors(), before);

	context = fixture_open();
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) /* the context's two remain, and see udp_after_fork_child() */
		_exit(open_descriptors() <= before + 3 ? EXIT_SUCCESS : EXIT_FAILURE);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
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
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	ip("addr add " SECOND "/24 dev urxe0");
	expect_events(pair.context, EVENT(IBV_EVENT_GID_CHANGE));
	expect_traffic_by(&pair, 1);
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

/* The address of a network device that is down is still its own, and not the loopback device's. */
START_TEST(network_device_of_an_address_goes_down)
{
	struct ibv_context *context;

	setenv("URXE_NODE", FIRST, 1);
	context = fixture_open();
	for (int i = 0; i < 2; i++) {
		ip("link set urxe0 down");
		expect_events(context, EVENT(IBV_EVENT_PORT_ERR));
		ck_assert_int_eq(port_state(context), IBV_PORT_DOWN);
		ip("link set urxe0 up");
		expect_events(context, EVENT(IBV_EVENT_PORT_ACTIVE));
		ck_assert_int_eq(port_state(context), IBV_PORT_ACTIVE);
	}
	fixture_close(context);
	/* Nor is it of a device that is opened meanwhile. */
	ip("link set urxe0 down");
	context = fixture_open();
	ck_assert_int_eq(port_state(context), IBV_PORT_DOWN);
	ip("link set urxe0 up");
	expect_events(context, EVENT(IBV_EVENT_PORT_ACTIVE));
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
	/* And goes once more. */
	post_receive(&pair, 1);
	ip("link del urxe0");
	expect_events(pair.context, EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE) |
					    EVENT(IBV_EVENT_DEVICE_FATAL));
	expect_flushed(&pair);
	pair_close(&pair);
}
END_TEST

static _Atomic bool comes_up;

/* Without a carrier at first. */
static void come_up(void)
{
	ip("link set urxe0 up");
	ip("link set urxe1 up");
	wait_until_running("urxe0");
	ip("addr add " FIRST "/24 dev urxe0");
}

/* As if this happened while the library asks for addresses, having read all messages. */
__attribute__((visibility("default"))) int getifaddrs(struct ifaddrs **addresses)
{
	int (*next)(struct ifaddrs **);

	*(void **)&next = dlsym(RTLD_NEXT, "getifaddrs");
	if (atomic_exchange(&comes_up, false))
		come_up();
	return next(addresses);
}

/* What the network device was before it had the address isn't told. */
START_TEST(network_device_comes_up_meanwhile)
{
	struct ibv_context *context = fixture_open();

	ip("link del urxe0");
	expect_events(context, EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE) |
				       EVENT(IBV_EVENT_DEVICE_FATAL));
	ip("link add urxe0 type veth peer name urxe1");
	ip("link set urxe0 addrgenmode none");
	ip("link set urxe1 addrgenmode none");
	comes_up = true;
	ip("link set urxe1 txqueuelen 10");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE) | EVENT(IBV_EVENT_PORT_ACTIVE));
	ip("addr add " SECOND "/24 dev urxe0");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	fixture_close(context);
}
END_TEST

/*
 * A node of all addresses of the machine: others are left, but the port's network device is gone.
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
	tcase_add_checked_fixture(tests, port_setup, NULL);
	tcase_add_test(tests, link_goes_down_and_up);
	tcase_add_test(tests, attributes_of_the_network_device);
	tcase_add_test(tests, network_device_gets_another_name);
	tcase_add_test(tests, addresses_of_a_device_with_another_name);
	tcase_add_test(tests, node_by_another_name_of_its_device);
	tcase_add_test(tests, address_with_a_label);
	tcase_add_test(tests, interface_with_a_tentative_address);
	tcase_add_test(tests, node_with_a_tentative_address);
	tcase_add_test(tests, nothing_left_open);
	tcase_add_test(tests, addresses_come_and_go);
	tcase_add_test(tests, traffic_by_an_address_that_came);
	tcase_add_test(tests, addresses_of_the_node);
	tcase_add_test(tests, network_device_of_an_address_goes_down);
	tcase_add_test(tests, network_device_goes);
	tcase_add_test(tests, network_device_comes_up_meanwhile);
	tcase_add_test(tests, network_device_of_the_machine_goes);
	tcase_add_test(tests, changes_while_closed);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
