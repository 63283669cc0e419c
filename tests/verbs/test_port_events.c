/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What contexts are told of their ports: a network device goes down and up, gets and
 * loses addresses, and is deleted. And what becomes of the other port meanwhile.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/unit/open_descriptors.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/namespace.h"

#define FIRST "10.99.0.1"
#define SECOND "10.99.0.3"
#define THIRD "fd99::1"
#define FOURTH "10.98.0.1" /* of the second port */

#define EVENT(type) (1u << (type))

static void make_netdev(void)
{
	make_veth("urxe0", "urxe1");
	ip("addr add " FIRST "/24 dev urxe0");
}

static void make_second_netdev(void)
{
	make_veth("urxe2", "urxe3");
	ip("addr add " FOURTH "/24 dev urxe2");
}

/* What an earlier test left goes first: one that failed leaves everything. */
static void setup(void)
{
	if (system("ip link show urxe1 >/dev/null 2>&1") == 0)
		ip("link del urxe1"); /* and urxe0, whatever it is called by now */
	if (system("ip link show urxe2 >/dev/null 2>&1") == 0)
		ip("link del urxe2");
	ip("link set lo up"); /* by which the node sends to itself */
	make_netdev();
}

static void setup_two(void)
{
	setup();
	make_second_netdev();
	setenv("URXE_NODE", "urxe0/urxe2", 1);
}

/* The next events, which have to be @types of the port @port_num, in any order. */
static void expect_events_of(struct ibv_context *context, int port_num, unsigned int types)
{
	struct ibv_async_event event;

	while (types) {
		ck_assert_int_eq(ibv_get_async_event(context, &event), 0);
		ck_assert_msg(types & EVENT(event.event_type), "%s",
			      ibv_event_type_str(event.event_type));
		ck_assert_int_eq(event.element.port_num, port_num);
		types &= ~EVENT(event.event_type);
		ibv_ack_async_event(&event);
	}
}

static void expect_events(struct ibv_context *context, unsigned int types)
{
	expect_events_of(context, 1, types);
}

static void expect_no_event(struct ibv_context *context)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};

	ck_assert_int_eq(poll(&fd, 1, 0), 0);
}

static enum ibv_port_state state_of(struct ibv_context *context, uint8_t port_num)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(context, port_num, &attr), 0);
	return attr.state;
}

static enum ibv_port_state port_state(struct ibv_context *context)
{
	return state_of(context, 1);
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

static struct said said;

/* Errors are explained, and notices are lines. */
static void begin_reports(void)
{
	setenv("URXE_EXPLAIN", "1", 1);
	setenv("URXE_LOG", "info", 1);
	said_begin(&said);
}

START_TEST(link_goes_down_and_up)
{
	struct ibv_context *context, *other;

	begin_reports();
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

static struct ibv_port_attr port_attr(struct ibv_context *context)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(context, 1, &attr), 0);
	return attr;
}

/* The port is down without a carrier, or because it was put down; its MTU leaves room for headers.
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

static void expect_path_mtu(struct pair *pair, enum ibv_mtu mtu)
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
	ck_assert_int_eq(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
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
	expect_path_mtu(&pair, IBV_MTU_4096);
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

/* By the GID with the index @gid, whatever it was before. */
static void expect_traffic_by(struct pair *pair, unsigned int gid)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	ck_assert_int_eq(ibv_modify_qp(pair->sender, &reset, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_modify_qp(pair->receiver, &reset, IBV_QP_STATE), 0);
	connect_qp_by(pair->sender, pair->receiver, gid);
	connect_qp_by(pair->receiver, pair->sender, gid);
	ck_assert_int_eq(post_write(pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair->send_cq).status, IBV_WC_SUCCESS);
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

	begin_reports();
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

static uint8_t index_of(struct ibv_context *context, const char *address)
{
	union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}}, gid;

	ck_assert_int_eq(inet_pton(AF_INET, address, wanted.raw + 12), 1);
	for (uint8_t i = 0; i < 16; i++) {
		ck_assert_int_eq(ibv_query_gid(context, 1, i, &gid), 0);
		if (memcmp(&gid, &wanted, sizeof(gid)) == 0)
			return i;
	}
	ck_abort_msg("%s is no GID", address);
	return 0;
}

/* Returns the status of its completion. */
static enum ibv_wc_status send_by_ah(struct pair *pair, struct ibv_ah *ah, uint32_t qpn,
				     uint32_t length, uint32_t number)
{
	struct ibv_sge sge = send_sge(pair, length);
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .send_flags = IBV_SEND_SIGNALED,
					 .imm_data = htonl(number),
					 .wr.ud = {ah, qpn, FIXTURE_QKEY},
				 };

	ck_assert_int_eq(ibv_post_send(pair->sender, &wr, &bad), 0);
	return wait_completion(pair->send_cq).status;
}

static enum ibv_wc_status send_datagram(struct pair *pair, struct ibv_ah_attr *attr, uint32_t qpn,
					uint32_t length, uint32_t number)
{
	struct ibv_ah *ah = ibv_create_ah(pair->pd, attr);
	enum ibv_wc_status status;

	ck_assert_ptr_nonnull(ah);
	status = send_by_ah(pair, ah, qpn, length, number);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	return status;
}

/* From the address @index of a port; the sender is in RESET, before and after. */
static void send_to_group(struct pair *pair, uint8_t port_num, uint8_t index,
			  const union ibv_gid *group, uint32_t number)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = port_num,
				   .grh = {.dgid = *group, .sgid_index = index, .hop_limit = 1}};

	connect_qp_on(pair->sender, pair->receiver, port_num, 0);
	ck_assert_int_eq(send_datagram(pair, &attr, 0xffffff, 64, number), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_modify_qp(pair->sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
}

/* To the receiver, from and to the GID @index. */
static enum ibv_wc_status send_by(struct pair *pair, unsigned int index, uint32_t length)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = index}};

	ck_assert_int_eq(ibv_query_gid(pair->context, 1, index, &attr.grh.dgid), 0);
	return send_datagram(pair, &attr, pair->receiver->qp_num, length, length);
}

#define LONG 3000 /* more than a network device of MTU 1500 carries */

/* What is told of an address that comes or goes later says that the MTU was seen. */
static void set_mtu(struct pair *pair, unsigned int mtu, const char *then)
{
	ip("link set urxe0 mtu %u", mtu);
	ip("addr %s " SECOND "/24 dev urxe0", then);
	expect_events(pair->context, EVENT(IBV_EVENT_GID_CHANGE));
}

/* A datagram is as long as the port's MTU lets it be, which isn't that of when its QP was made. */
START_TEST(datagrams_follow_the_mtu)
{
	static struct pair pair;

	pair_open(&pair, IBV_QPT_UD, 0);
	set_mtu(&pair, 9000, "add");
	post_receive(&pair, 1);
	ck_assert_int_eq(send_by(&pair, 0, LONG), IBV_WC_SUCCESS);
	ck_assert_uint_eq(wait_completion(pair.recv_cq).byte_len, 40 + LONG);
	set_mtu(&pair, 1500, "del");
	ck_assert_int_eq(port_attr(pair.context).active_mtu, IBV_MTU_1024);
	ck_assert_int_eq(send_by(&pair, 0, LONG), IBV_WC_LOC_LEN_ERR);
	pair_close(&pair);
}
END_TEST

/* A port without an address has no other MTU: an address that is set anew is gone for a moment. */
START_TEST(datagrams_of_a_port_without_an_address)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	static struct pair pair;
	struct ibv_ah *ah;

	pair_open(&pair, IBV_QPT_UD, 0);
	set_mtu(&pair, 9000, "add");
	ck_assert_int_eq(ibv_query_gid(pair.context, 1, 0, &attr.grh.dgid), 0);
	ah = ibv_create_ah(pair.pd, &attr);
	ck_assert_ptr_nonnull(ah);
	for (int i = 1; i >= 0; i--) {
		ip("addr del %s/24 dev urxe0", i ? SECOND : FIRST);
		expect_events(pair.context, EVENT(IBV_EVENT_GID_CHANGE));
		expect_gid(pair.context, i, NULL);
	}
	ck_assert_int_eq(send_by_ah(&pair, ah, pair.receiver->qp_num, LONG, 0), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
}
END_TEST

/* A receive shows the flow label that the packet had, which is the path back's, too. */
START_TEST(flow_label_of_a_datagram)
{
	static struct pair pair;
	struct ibv_ah_attr back;
	const struct ibv_grh *grh = (const struct ibv_grh *)(pair.buffer + BUFFER_SIZE);
	struct ibv_wc wc;

	/* The kernel gives each flow one, whatever its socket asks for. */
	ck_assert(write_file("/proc/sys/net/ipv6/auto_flowlabels", "3"));
	ip("addr add " THIRD "/64 dev urxe0 nodad");
	pair_open(&pair, IBV_QPT_UD, 0);
	expect_gid(pair.context, 1, THIRD);
	post_receive(&pair, 1);
	ck_assert_int_eq(send_by(&pair, 1, 64), IBV_WC_SUCCESS);
	wc = wait_completion(pair.recv_cq);
	ck_assert_uint_ne(ntohl(grh->version_tclass_flow) & 0xfffff, 0);
	ck_assert_int_eq(ibv_init_ah_from_wc(pair.context, 1, &wc, (struct ibv_grh *)grh, &back),
			 0);
	ck_assert_uint_eq(back.grh.flow_label, ntohl(grh->version_tclass_flow) & 0xfffff);
	pair_close(&pair);
}
END_TEST

/* A QP is in its group wherever the node has an address, also where it has one since. */
START_TEST(groups_of_an_address_that_came)
{
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 9, [15] = 8}};
	static struct pair pair;
	struct ibv_wc wc;

	unsetenv("URXE_NODE");
	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	make_second_netdev();
	expect_events(pair.context, EVENT(IBV_EVENT_GID_CHANGE));
	post_receive(&pair, 1);
	send_to_group(&pair, 1, index_of(pair.context, FOURTH), &group, 7);
	wc = wait_completion(pair.recv_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(ntohl(wc.imm_data), 7);
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
}
END_TEST

/* The interface of an address is deleted and made again, with another number. */
static void make_urxe2_again(struct ibv_context *context, const char *address)
{
	ip("link del urxe2");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	make_veth("urxe2", "urxe3");
	ip("addr add %s dev urxe2%s", address, strchr(address, ':') ? " nodad" : "");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
}

static const struct {
	const char *address, *group;
} moving[] = {
	{"10.98.0.1/24", "::ffff:239.9.0.10"},
	{"fd98::1/64", "ff0e::9:a"},
	{"fd98::1/64", "ff02::9:a"},
};

/* A QP stays in its group where its node's address is, and sends there. */
START_TEST(groups_of_an_address_that_moves)
{
	static struct pair pair;
	union ibv_gid group;
	struct ibv_wc wc;
	uint8_t index = 1;

	ck_assert_int_eq(inet_pton(AF_INET6, moving[_i].group, &group), 1);
	make_veth("urxe2", "urxe3");
	ip("addr add %s dev urxe2%s", moving[_i].address,
	   strchr(moving[_i].address, ':') ? " nodad" : "");
	setenv("URXE_NODE", "urxe0,urxe2", 1);
	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	for (uint32_t round = 0; round < 3; round++) {
		post_receive(&pair, round);
		send_to_group(&pair, 1, index, &group, round);
		wc = wait_completion(pair.recv_cq);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(ntohl(wc.imm_data), round);
		make_urxe2_again(pair.context, moving[_i].address);
	}
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
}
END_TEST

/* A link-local address is bound to an interface, which is then another one. */
START_TEST(link_local_address_that_moves)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	static struct pair pair;

	make_veth("urxe2", "urxe3");
	ip("addr add fe80::98/64 dev urxe2 nodad");
	setenv("URXE_NODE", "urxe0,urxe2", 1);
	pair_open(&pair, IBV_QPT_RC, 0);
	for (uint32_t round = 0; round < 3; round++) {
		ck_assert_int_eq(ibv_modify_qp(pair.sender, &reset, IBV_QP_STATE), 0);
		ck_assert_int_eq(ibv_modify_qp(pair.receiver, &reset, IBV_QP_STATE), 0);
		connect_qp_by(pair.sender, pair.receiver, 1);
		connect_qp_by(pair.receiver, pair.sender, 1);
		ck_assert_int_eq(post_write(&pair, round), 0);
		ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
		make_urxe2_again(pair.context, "fe80::98/64");
	}
	pair_close(&pair);
}
END_TEST

/* Of two interfaces with the same address the node has that which it was given. */
START_TEST(link_local_address_of_two_interfaces)
{
	static const char *const names[] = {"urxe0", "urxe2"};
	struct ibv_context *context;
	char command[80];

	make_veth("urxe2", "urxe3");
	for (int i = 0; i < 2; i++)
		ip("addr add fe80::98/64 dev %s nodad", names[i]);
	snprintf(command, sizeof(command), "fe80::98%%%s", names[_i]);
	setenv("URXE_NODE", command, 1);
	context = fixture_open();
	snprintf(command, sizeof(command), "ss -6uln | grep -q '\\[fe80::98\\]%%%s:4791'",
		 names[_i]);
	ck_assert_msg(system(command) == 0, "%s", command);
	fixture_close(context);
}
END_TEST

/* --- two ports --------------------------------------------------------------------------- */

static void expect_write(struct pair *pair, uint64_t wr_id)
{
	struct ibv_wc wc;

	ck_assert_int_eq(post_write(pair, wr_id), 0);
	wc = wait_completion(pair->send_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, wr_id);
}

START_TEST(one_port_goes_down)
{
	const uint8_t down = _i, up = 3 - _i;
	const char *netdev = down == 1 ? "urxe0" : "urxe2";
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	pair_move(&pair, up);
	ip("link set %s down", netdev);
	expect_events_of(pair.context, down, EVENT(IBV_EVENT_PORT_ERR));
	ck_assert_int_eq(state_of(pair.context, down), IBV_PORT_DOWN);
	ck_assert_int_eq(state_of(pair.context, up), IBV_PORT_ACTIVE);
	expect_write(&pair, 1);
	ip("link set %s up", netdev);
	expect_events_of(pair.context, down, EVENT(IBV_EVENT_PORT_ACTIVE));
	expect_no_event(pair.context);
	pair_move(&pair, down);
	expect_write(&pair, 2);
	pair_close(&pair);
}
END_TEST

static void load_alternate(struct ibv_qp *qp, uint8_t port_num)
{
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_port_num = port_num,
		.alt_timeout = 14,
		.alt_ah_attr = {.is_global = 1, .port_num = port_num},
	};

	ck_assert_int_eq(ibv_query_gid(qp->context, port_num, 0, &attr.alt_ah_attr.grh.dgid), 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

/* With an alternate path on the other port, QPs go on there: automatic path migration. */
START_TEST(queue_pairs_leave_a_port)
{
	const uint8_t down = _i, up = 3 - _i;
	unsigned int migrated = 0, failed = 0;
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct ibv_qp_attr attr;
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	pair_move(&pair, down);
	load_alternate(pair.sender, up);
	load_alternate(pair.receiver, up);
	expect_write(&pair, 1);
	ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, IBV_QP_PATH_MIG_STATE, &init), 0);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_ARMED);
	ip("link set %s down", down == 1 ? "urxe0" : "urxe2");
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ibv_get_async_event(pair.context, &event), 0);
		migrated += event.event_type == IBV_EVENT_PATH_MIG;
		failed += event.event_type == IBV_EVENT_PORT_ERR;
		ibv_ack_async_event(&event);
	}
	ck_assert_uint_eq(migrated, 2);
	ck_assert_uint_eq(failed, 1);
	expect_write(&pair, 2);
	ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, IBV_QP_PORT, &init), 0);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_MIGRATED);
	ck_assert_int_eq(attr.port_num, up);
	ck_assert_int_eq(attr.ah_attr.port_num, up);
	pair_close(&pair);
}
END_TEST

START_TEST(addresses_of_the_second_port)
{
	struct ibv_context *context = fixture_open();
	union ibv_gid gid;

	ip("addr add " SECOND "/24 dev urxe2");
	expect_events_of(context, 2, EVENT(IBV_EVENT_GID_CHANGE));
	ck_assert_int_eq(ibv_query_gid(context, 2, 1, &gid), 0);
	ck_assert_mem_eq(gid.raw + 12, &(in_addr_t){inet_addr(SECOND)}, 4);
	expect_gid(context, 0, FIRST);
	expect_gid(context, 1, NULL);
	expect_no_event(context);
	fixture_close(context);
}
END_TEST

/* The device goes on with the port that is left, and fails with the last one. */
START_TEST(one_network_device_goes)
{
	const uint8_t gone = _i, left = 3 - _i;
	static struct pair pair;

	begin_reports();
	pair_open(&pair, IBV_QPT_RC, 0);
	pair_move(&pair, left);
	ip("link del %s", gone == 1 ? "urxe0" : "urxe2");
	expect_events_of(pair.context, gone,
			 EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE));
	ck_assert_int_eq(state_of(pair.context, gone), IBV_PORT_DOWN);
	expect_write(&pair, 1);
	expect_no_event(pair.context);

	ip("link del %s", left == 1 ? "urxe0" : "urxe2");
	expect_events_of(pair.context, left,
			 EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE) |
				 EVENT(IBV_EVENT_DEVICE_FATAL));
	ck_assert_int_eq(post_write(&pair, 2), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_WR_FLUSH_ERR);

	/* One comes back: that is a device again. */
	if (left == 1)
		make_netdev();
	else
		make_second_netdev();
	expect_events_of(pair.context, left,
			 EVENT(IBV_EVENT_GID_CHANGE) | EVENT(IBV_EVENT_PORT_ACTIVE));
	pair_move(&pair, left);
	expect_write(&pair, 3);
	pair_close(&pair);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_NETDEV_GONE), 1);
	ck_assert_uint_eq(said_count(&said, CAUSE_NETDEVS_GONE), 1);
	ck_assert_uint_eq(said_count(&said, CAUSE_GID_CHANGED), 3);
}
END_TEST

static void arm_second_port(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM,
				   .alt_port_num = 2,
				   .alt_timeout = 8,
				   .alt_ah_attr = {.is_global = 1, .port_num = 2}};

	ck_assert_int_eq(ibv_query_gid(qp->context, 2, 0, &attr.alt_ah_attr.grh.dgid), 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

/*
 * A connection of the first port survives its network device: the alternate path is on the second
 * port. (While it is only down, Linux goes on to deliver what the machine sends to itself.)
 */
START_TEST(connection_migrates)
{
	struct ibv_async_event event;
	struct ibv_qp_init_attr init;
	unsigned int migrated = 0, of_port = 0;
	struct ibv_qp_attr attr;
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	arm_second_port(pair.sender);
	arm_second_port(pair.receiver);
	/* Both learn from packets that the other one is ready. */
	for (uint64_t i = 1; i <= 3; i++)
		expect_write(&pair, i);
	ip("link del urxe0");
	expect_write(&pair, 4);
	ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, IBV_QP_PORT, &init), 0);
	ck_assert_int_eq(attr.port_num, 2);
	while (migrated < 2 ||
	       of_port != (EVENT(IBV_EVENT_PORT_ERR) | EVENT(IBV_EVENT_GID_CHANGE))) {
		ck_assert_int_eq(ibv_get_async_event(pair.context, &event), 0);
		if (event.event_type == IBV_EVENT_PATH_MIG) {
			migrated++;
		} else {
			ck_assert_int_eq(event.element.port_num, 1);
			of_port |= EVENT(event.event_type);
		}
		ibv_ack_async_event(&event);
	}
	expect_no_event(pair.context);
	pair_close(&pair);
}
END_TEST

/* A QP gets what is sent to its group on its port, and nothing of the other one. */
START_TEST(groups_are_of_a_port)
{
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 9, [15] = 9}};
	const uint8_t here = _i, there = 3 - _i;
	static struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_UD, 0);
	pair_move(&pair, here);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	post_receive(&pair, 1);
	send_to_group(&pair, there, 0, &group, 1);
	send_to_group(&pair, here, 0, &group, 2);
	wc = wait_completion(pair.recv_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(ntohl(wc.imm_data), 2);
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("port_events");
	TCase *tests = tcase_create("port_events"), *two = tcase_create("two_ports");

	if (!namespace_enter())
		return SKIPPED;
	setenv("URXE_NODE", "urxe0", 1);
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, NULL);
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
	tcase_add_test(tests, network_device_of_the_machine_goes);
	tcase_add_test(tests, datagrams_follow_the_mtu);
	tcase_add_test(tests, datagrams_of_a_port_without_an_address);
	tcase_add_test(tests, flow_label_of_a_datagram);
	tcase_add_test(tests, groups_of_an_address_that_came);
	tcase_add_loop_test(tests, groups_of_an_address_that_moves, 0,
			    sizeof(moving) / sizeof(moving[0]));
	tcase_add_test(tests, link_local_address_that_moves);
	tcase_add_loop_test(tests, link_local_address_of_two_interfaces, 0, 2);
	tcase_add_test(tests, changes_while_closed);
	suite_add_tcase(suite, tests);
	tcase_set_timeout(two, 60);
	tcase_add_checked_fixture(two, setup_two, NULL);
	tcase_add_loop_test(two, one_port_goes_down, 1, 3);
	tcase_add_loop_test(two, queue_pairs_leave_a_port, 1, 3);
	tcase_add_test(two, addresses_of_the_second_port);
	tcase_add_loop_test(two, one_network_device_goes, 1, 3);
	tcase_add_test(two, connection_migrates);
	tcase_add_loop_test(two, groups_are_of_a_port, 1, 3);
	suite_add_tcase(suite, two);
	return run_suite(suite);
}
