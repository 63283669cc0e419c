/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What needs a network namespace of the test's own: what ids hear of their network
 * device (another hardware address, a lost address, its end) and of hosts that don't
 * answer, more addresses than a port has, Ethernet addresses, datagrams that are longer than the
 * MTU, the ports of a node that has but two to give, and whether its :: is that of IPv4, too.
 */
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/cancelled.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/unit/open_descriptors.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/namespace.h"
#include "tests/verbs/other_process.h"
#include "tests/verbs/rsockets.h"
#include "verbs/rsocket/rsocket_wire.h"

#define NODE "10.99.0.1"
#define PEER "10.99.0.2"    /* which no host has, but the neighbour table */
#define SILENT "10.99.0.77" /* which no host has */
#define SILENT_IPV6 "fd99::77"
#define ALIAS "10.97.0.1"     /* of the loopback device */
#define BEYOND "198.51.100.1" /* no address of this network */
#define PORT 7471

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void setup(void)
{
	if (system("ip link show urxe0 >/dev/null 2>&1") == 0)
		ip("link del urxe0"); /* a test that failed has left it */
	ip("link add urxe0 type veth peer name urxe1");
	ip("addr add " NODE "/24 dev urxe0");
	ip("link set urxe0 up");
	ip("link set urxe1 up");
	ip("neigh add " PEER " lladdr 02:00:00:00:00:01 nud permanent dev urxe0");
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
	ck_fails(rdma_resolve_addr(id, NULL, socket_address(BEYOND, PORT), 1000), ENETUNREACH);
	ck_assert(!is_readable(channel));
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(PEER, PORT), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}
END_TEST

/* The MTU of a path to PEER, from @source or where the kernel chooses (NULL). */
static enum ibv_mtu path_mtu(const char *source)
{
	struct rdma_cm_id *own = open_id(channel, RDMA_PS_TCP);
	enum ibv_mtu mtu;

	ck_assert_int_eq(rdma_resolve_addr(own, source ? socket_address(source, 0) : NULL,
					   socket_address(PEER, PORT), 1000),
			 0);
	expect(channel, own, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(own, 1000), 0);
	expect(channel, own, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	mtu = own->route.path_rec->mtu;
	ck_assert_int_eq(rdma_destroy_id(own), 0);
	return mtu;
}

/* Packets from an address of the loopback device leave by another one; a route may have less. */
START_TEST(mtu_of_the_way)
{
	ck_assert_int_eq(path_mtu(NULL), IBV_MTU_1024);
	ip("link set lo up");
	ip("addr add " ALIAS "/32 dev lo");
	ck_assert_int_eq(path_mtu(ALIAS), IBV_MTU_1024);
	ip("route add " PEER "/32 dev urxe0 mtu 600");
	ck_assert_int_eq(path_mtu(NULL), IBV_MTU_512);
	ck_assert_int_eq(path_mtu(ALIAS), IBV_MTU_512);
	ip("addr del " ALIAS "/32 dev lo");
	ip("link set lo down");
}
END_TEST

#define LINK_LOCAL "fe80::99"

/* @scope: the name of an interface, or NULL for the number of none. */
static struct sockaddr *link_local(const char *scope)
{
	struct sockaddr *address = socket_address(LINK_LOCAL, 0);

	((struct sockaddr_in6 *)address)->sin6_scope_id = scope ? if_nametoindex(scope) : 9999;
	return address;
}

/* A link-local address is that of one interface. */
START_TEST(address_of_another_link)
{
	static const char *const others[] = {"lo", "urxe1", NULL};

	ip("-6 addr add " LINK_LOCAL "/64 dev urxe0 nodad");
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		ck_fails(rdma_bind_addr(id, link_local(others[i])), ENODEV);
		ck_fails(rdma_resolve_addr(id, link_local(others[i]), link_local("urxe0"), 1000),
			 ENODEV);
		ck_assert_ptr_null(id->verbs);
	}
	ck_assert_int_eq(rdma_bind_addr(id, link_local("urxe0")), 0);
	ck_assert_ptr_nonnull(id->verbs);
}
END_TEST

/* The peer's is one of the same link. */
START_TEST(request_on_a_link)
{
	struct rdma_cm_id *listener = open_id(channel, RDMA_PS_TCP), *passive;
	struct rdma_conn_param param = {.qp_num = 1, .retry_count = 7};
	struct sockaddr_in6 own, *peer;
	struct rdma_cm_event *event;

	ip("link set lo up");
	ip("-6 addr add " LINK_LOCAL "/64 dev urxe0 nodad");
	wait_until_local(LINK_LOCAL " dev urxe0");
	memcpy(&own, link_local("urxe0"), sizeof(own));
	own.sin6_port = htons(PORT);
	ck_assert_int_eq(rdma_bind_addr(listener, (struct sockaddr *)&own), 0);
	ck_assert_int_eq(rdma_listen(listener, 1), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&own, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ck_assert_int_eq(rdma_connect(id, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	passive = event->id;
	rdma_ack_cm_event(event);
	peer = (struct sockaddr_in6 *)rdma_get_peer_addr(passive);
	ck_assert_mem_eq(&peer->sin6_addr, &own.sin6_addr, sizeof(own.sin6_addr));
	ck_assert_uint_eq(peer->sin6_scope_id, own.sin6_scope_id);
	ck_assert_int_eq(rdma_destroy_id(passive), 0);
	ck_assert_int_eq(rdma_destroy_id(listener), 0);
	ip("link set lo down");
}
END_TEST

/* The status of the address that @scope leads to: with a source of it, or without. */
static int status_by(const char *scope, bool bound)
{
	struct sockaddr_storage to;
	struct rdma_cm_id *one = open_id(channel, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	int status = 0;

	memcpy(&to, link_local(scope), sizeof(struct sockaddr_in6));
	((struct sockaddr_in6 *)&to)->sin6_addr.s6_addr[15] = 0x98;
	if (bound && rdma_bind_addr(one, link_local(scope)) != 0)
		status = -errno;
	if (!status) {
		ck_assert_int_eq(rdma_resolve_addr(one, NULL, (struct sockaddr *)&to, 1000), 0);
		ck_assert_int_eq(rdma_get_cm_event(channel, &event), 0);
		status = event->status;
		ck_assert_int_eq(rdma_ack_cm_event(event), 0);
		/* By another one it may be reached yet. */
		ck_assert_int_eq(bound || !status,
				 !IN6_IS_ADDR_UNSPECIFIED(&one->route.addr.src_sin6.sin6_addr));
	}
	ck_assert_int_eq(rdma_destroy_id(one), 0);
	return status;
}

/*
 * Only one of two interfaces with the same address has its GID: no packet leaves by the wrong one.
 */
START_TEST(address_of_two_links)
{
	static const char *const names[] = {"urxe0", "urxe1"};
	bool bound = _i;
	int first, second;

	for (int i = 0; i < 2; i++) {
		ip("-6 addr add " LINK_LOCAL "/64 dev %s nodad", names[i]);
		ip("neigh add fe80::98 lladdr 02:00:00:00:00:01 nud permanent dev %s", names[i]);
	}
	/* So that the node has it. */
	if (rdma_bind_addr(id, link_local(names[0])) != 0)
		ck_assert_int_eq(rdma_bind_addr(id, link_local(names[1])), 0);
	first = status_by(names[0], bound);
	second = status_by(names[1], bound);
	ck_assert_int_eq(first < second ? first : second, -ENODEV);
	ck_assert_int_eq(first < second ? second : first, 0);
}
END_TEST

#define ADDRESSES 256 /* of a port */

/* It fails as where there is none: with an index beyond it packets would be another address's. */
START_TEST(no_more_addresses_than_a_port_has)
{
	struct rdma_cm_id *one;
	char address[16];

	ip("link set lo up");
	for (int i = 0; i < ADDRESSES; i++) {
		one = open_id(channel, RDMA_PS_TCP);
		snprintf(address, sizeof(address), "127.50.%d.%d", i / 200, 1 + i % 200);
		if (i + 1 < ADDRESSES) /* beside NODE */
			ck_assert_int_eq(rdma_bind_addr(one, socket_address(address, 0)), 0);
		else
			ck_fails(rdma_bind_addr(one, socket_address(address, 0)), EADDRNOTAVAIL);
		ck_assert_int_eq(rdma_destroy_id(one), 0);
	}
	ip("link set lo down");
}
END_TEST

/* --- hosts that don't answer ----------------------------------------------------------- */

static uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void expect_silence(const char *address)
{
	uint64_t begin = milliseconds();

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(address, PORT), 100), 0);
	ck_fails(rdma_resolve_route(id, 1000), EINVAL);
	expect(channel, id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	ck_assert_uint_ge(milliseconds() - begin, 100);
	ck_fails(rdma_resolve_route(id, 1000), EINVAL);
}

START_TEST(silent_host)
{
	const struct sockaddr_in *source = (struct sockaddr_in *)rdma_get_local_addr(id);

	expect_silence(SILENT);
	/* And again, though the kernel may know by now that there is none. */
	expect_silence(SILENT);
	/* The id is as it was. */
	ck_assert_ptr_null(id->verbs);
	ck_assert_uint_eq(source->sin_addr.s_addr, INADDR_ANY);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(PEER, PORT), 100), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert(!is_readable(channel));
}
END_TEST

/* Its device and source are the application's choice, and stay. */
START_TEST(silent_host_of_a_bound_id)
{
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, PORT)), 0);
	expect_silence(SILENT);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_mem_eq(rdma_get_local_addr(id), socket_address(NODE, PORT),
			 sizeof(struct sockaddr_in));
}
END_TEST

START_TEST(silent_host_ipv6)
{
	ip("addr add fd99::1/64 dev urxe0 nodad");
	ck_assert_int_eq(rdma_bind_addr(id, socket_address("fd99::1", 0)), 0);
	expect_silence(SILENT_IPV6);
}
END_TEST

START_TEST(silent_gateway)
{
	struct rdma_cm_id *other = open_id(channel, RDMA_PS_TCP);

	ip("route add 198.51.100.0/24 via " SILENT);
	expect_silence(BEYOND);
	ip("route del 198.51.100.0/24");
	ip("route add 198.51.100.0/24 via " PEER);
	ck_assert_int_eq(rdma_resolve_addr(other, NULL, socket_address(BEYOND, PORT), 100), 0);
	expect(channel, other, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_destroy_id(other), 0);
}
END_TEST

/* Packets take another way than other datagrams: what is asked is the host that they go to. */
START_TEST(gateway_of_a_rule_for_rocev2)
{
	if (system("ip rule add ipproto udp dport 4791 lookup 100") != 0)
		return; /* this kernel has one table only */
	ip("route add 198.51.100.0/24 via " SILENT);
	ip("route add 198.51.100.0/24 via " PEER " table 100");
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(BEYOND, PORT), 100), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ip("rule del ipproto udp dport 4791 lookup 100");
}
END_TEST

/* The neighbour is one of the packet around it. */
START_TEST(destination_inside_of_a_tunnel)
{
	ip("addr add fd99::1/64 dev urxe0 nodad");
	if (system("ip -6 route add fd98::/64 encap seg6 mode encap segs fd99::2 dev urxe0") != 0)
		return; /* not with this kernel */
	ck_assert_int_eq(rdma_bind_addr(id, socket_address("fd99::1", 0)), 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address("fd98::1", PORT), 100), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}
END_TEST

/* The kernel gives up long before the caller does. */
START_TEST(host_known_to_be_silent)
{
	const int hour = 3600 * 1000;
	int stream = rsocket(AF_INET, SOCK_STREAM, 0);

	ck_assert(write_file("/proc/sys/net/ipv4/neigh/urxe0/mcast_solicit", "1"));
	ck_assert(write_file("/proc/sys/net/ipv4/neigh/urxe0/retrans_time_ms", "100"));
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(SILENT, PORT), hour), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(SILENT, PORT), -1), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	ck_fails(rconnect(stream, socket_address(SILENT, PORT), sizeof(struct sockaddr_in)),
		 ETIMEDOUT);
	ck_assert_int_eq(rclose(stream), 0);
}
END_TEST

START_TEST(synchronous_id_of_a_silent_host)
{
	struct rdma_cm_id *alone = open_id(NULL, RDMA_PS_TCP);

	ck_fails(rdma_resolve_addr(alone, NULL, socket_address(SILENT, PORT), 100), ETIMEDOUT);
	ck_fails(rdma_resolve_addr(alone, NULL, socket_address(SILENT, PORT), 0), ETIMEDOUT);
	ck_assert_int_eq(rdma_destroy_id(alone), 0);
}
END_TEST

static void create_endpoint(void *info)
{
	struct rdma_cm_id *endpoint;

	must(rdma_create_ep(&endpoint, info, NULL, NULL) == 0);
}

/* The application never learns which id it was, which therefore is gone with its port. */
START_TEST(cancelled_while_waiting)
{
	struct rdma_addrinfo info = {.ai_port_space = RDMA_PS_TCP,
				     .ai_qp_type = IBV_QPT_RC,
				     .ai_src_addr = socket_address(NODE, PORT),
				     .ai_dst_addr = socket_address(SILENT, PORT)};

	ck_assert(!returns_cancelled(create_endpoint, &info));
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, PORT)), 0);
}
END_TEST

/* Nothing is told of an id that is gone. */
START_TEST(destroyed_while_waiting)
{
	struct rdma_cm_id *other = open_id(channel, RDMA_PS_TCP);

	ck_assert_int_eq(rdma_resolve_addr(other, NULL, socket_address(SILENT, PORT), 100), 0);
	ck_assert_int_eq(rdma_destroy_id(other), 0);
	expect_silence(SILENT);
	ck_assert(!is_readable(channel));
}
END_TEST

/* In a network namespace of its own: the host at the other end of the cable. */
static int be_host(int in, int out)
{
	char byte;

	if (unshare(CLONE_NEWNET) != 0 || write(out, "", 1) != 1 || read(in, &byte, 1) != 1)
		return 1;
	if (system("ip addr add " SILENT "/24 dev urxe1 && ip link set urxe1 up") != 0)
		return 2;
	return write(out, "", 1) == 1 && read(in, &byte, 1) == 0 ? 0 : 3;
}

START_TEST(host_that_answers)
{
	struct other_process host = other_process_start(be_host);
	char byte;

	ip("link set urxe1 netns %d", host.pid);
	ck_assert_int_eq(write(host.to, "", 1), 1);
	ck_assert_int_eq(read(host.from, &byte, 1), 1);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(SILENT, PORT), 50000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(id, 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	ip("link del urxe0"); /* before the end of the other namespace does it, some time */
	other_process_end(&host);
}
END_TEST

/* --- Ethernet addresses ----------------------------------------------------------------- */

static int resolve_l2(const char *gid, uint8_t sgid_index, uint8_t mac[6], uint16_t *vid)
{
	struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh.sgid_index = sgid_index};

	memset(mac, 0xee, 6);
	*vid = 76;
	must(inet_pton(AF_INET6, gid, &attr.grh.dgid) == 1);
	return ibv_resolve_eth_l2_from_gid(id->verbs, &attr, mac, vid);
}

static void resolve_silent(void *unused)
{
	uint8_t mac[6];
	uint16_t vid;

	must(resolve_l2("::ffff:" SILENT, 0, mac, &vid) == EHOSTUNREACH);
}

START_TEST(ethernet_addresses)
{
	static const struct {
		const char *gid;
		uint8_t mac[6];
	} cases[] = {
		{"::ffff:" PEER, {2, 0, 0, 0, 0, 1}},
		{"::ffff:" BEYOND, {2, 0, 0, 0, 0, 1}}, /* behind it */
		{"::ffff:" NODE, {2, 0, 0, 0, 0, 2}},	/* our own */
		{"::ffff:239.129.2.3", {1, 0, 0x5e, 1, 2, 3}},
		{"ff0e::1234:5678", {0x33, 0x33, 0x12, 0x34, 0x56, 0x78}},
	};
	uint8_t mac[6];
	uint16_t vid;

	ip("link set urxe0 address 02:00:00:00:00:02"); /* which forgets its neighbours */
	ip("neigh replace " PEER " lladdr 02:00:00:00:00:01 nud permanent dev urxe0");
	ip("route add 198.51.100.0/24 via " PEER);
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, 0)), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		ck_assert_int_eq(resolve_l2(cases[i].gid, 0, mac, &vid), 0);
		ck_assert_mem_eq(mac, cases[i].mac, 6);
		ck_assert_uint_eq(vid, 0xffff); /* no VLAN */
	}
	ck_assert_int_eq(resolve_l2("::ffff:" PEER, 99, mac, &vid), ENODATA);
	ck_assert_int_eq(resolve_l2("fd99::2", 0, mac, &vid), EINVAL); /* the other family */
	ip("route del 198.51.100.0/24");
	ck_assert_int_eq(resolve_l2("::ffff:" BEYOND, 0, mac, &vid), ENETUNREACH);
	ck_assert(write_file("/proc/sys/net/ipv4/neigh/urxe0/mcast_solicit", "1"));
	ck_assert(write_file("/proc/sys/net/ipv4/neigh/urxe0/retrans_time_ms", "100"));
	resolve_silent(NULL);
	ck_assert(returns_cancelled(resolve_silent, NULL));
}
END_TEST

/* --- datagram rsockets ------------------------------------------------------------------ */

#define LONG 2000 /* bytes, which their receivers have space for and an Ethernet packet hasn't */

static int sender, receiver;
static struct sockaddr_in names[2];

static int open_datagrams(struct sockaddr_in *name)
{
	socklen_t length = sizeof(*name);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	must(fd >= 0);
	must(rbind(fd, socket_address(NODE, 0), length) == 0);
	must(rgetsockname(fd, (struct sockaddr *)name, &length) == 0);
	return fd;
}

static void send_datagram(int fd, const struct sockaddr_in *to, size_t length)
{
	static const uint8_t data[LONG];

	must(rsendto(fd, data, length, 0, (const struct sockaddr *)to, sizeof(*to)) ==
	     (ssize_t)length);
}

static void expect_datagram(int fd, size_t length)
{
	uint8_t data[LONG];

	ck_assert_int_eq(wait_for(fd, POLLIN), POLLIN);
	ck_assert_int_eq(rrecv(fd, data, sizeof(data), 0), length);
}

/* Until each knows the other's queue pair. */
static void talk(void)
{
	for (int i = 0; i < 5; i++) {
		send_datagram(sender, &names[1], 5);
		expect_datagram(receiver, 5);
		send_datagram(receiver, &names[0], 5);
		expect_datagram(sender, 5);
	}
}

/* By the loopback device, with the MTU of the one that has the address. */
static void open_pair(void)
{
	ip("link set lo up");
	sender = open_datagrams(&names[0]);
	receiver = open_datagrams(&names[1]);
	talk();
}

static void close_pair(void)
{
	talk();
	ck_assert_int_eq(rclose(sender), 0);
	ck_assert_int_eq(rclose(receiver), 0);
	ip("link set lo down");
}

START_TEST(datagrams_longer_than_the_mtu)
{
	open_pair();
	send_datagram(sender, &names[1], LONG);
	expect_datagram(receiver, LONG);
	close_pair();
}
END_TEST

/* By UDP, from a host that has gone by the time when it is answered. */
static void receive_from_silent(struct sockaddr_in *name)
{
	struct {
		struct rsocket_udp_header header;
		uint8_t data[5];
	} datagram = {.header = {.tag = htobe32(RSOCKET_UDP_TAG),
				 .version = 4,
				 .kind = RSOCKET_UDP_DATA,
				 .length = RSOCKET_UDP_IPV4_LENGTH,
				 .qpn = htobe32(0x1234)}};
	socklen_t length = sizeof(*name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ip("link set lo up");
	ip("addr add " SILENT "/32 dev lo");
	must(fd >= 0);
	must(bind(fd, socket_address(SILENT, 0), length) == 0);
	must(getsockname(fd, (struct sockaddr *)name, &length) == 0);
	must(sendto(fd, &datagram, RSOCKET_UDP_IPV4_LENGTH + 5, 0,
		    (const struct sockaddr *)&names[0], length) == RSOCKET_UDP_IPV4_LENGTH + 5);
	expect_datagram(sender, 5);
	close(fd);
	ip("addr del " SILENT "/32 dev lo");
}

static void answer(void *name)
{
	send_datagram(sender, name, 5);
}

#define CANCELLED_CALLS 8 /* far more than the progress thread may have open to list addresses */

/* The first time for what stays open. */
START_TEST(datagram_cancelled_while_waiting)
{
	struct sockaddr_in name;
	unsigned int open;

	sender = open_datagrams(&names[0]);
	receive_from_silent(&name);
	ck_assert(!returns_cancelled(answer, &name));
	open = open_descriptors();
	for (int i = 0; i < CANCELLED_CALLS; i++)
		ck_assert(!returns_cancelled(answer, &name));
	ck_assert_uint_lt(open_descriptors(), open + CANCELLED_CALLS / 2);
	ck_assert_int_eq(rclose(sender), 0);
	ip("link set lo down");
}
END_TEST

/* --- ports ------------------------------------------------------------------------------ */

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
	if (rdma_bind_addr(here, socket_address("0.0.0.0", taken)) == 0 || errno != EADDRNOTAVAIL)
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

#define PORTS 10 /* of the node, of which each of two processes has half */

/* Ids that are about to connect to the same peer; their ports. */
static void connect_all(uint16_t *ports, int count)
{
	struct rdma_cm_id *own;

	for (int i = 0; i < count; i++) {
		must(rdma_create_id(NULL, &own, NULL, RDMA_PS_TCP) == 0);
		must(rdma_resolve_addr(own, NULL, socket_address(PEER, PORT), 1000) == 0);
		ports[i] = ntohs(rdma_get_src_port(own));
	}
}

static void connect_others(int result)
{
	uint16_t ports[PORTS / 2], more[2];

	connect_all(ports, PORTS / 2);
	connect_all(more, 2); /* there is none that no other process has */
	_exit(write(result, ports, sizeof(ports)) != sizeof(ports));
}

/* By them a peer tells connections from one address apart. */
START_TEST(source_ports_are_one_process_s)
{
	uint16_t ports[PORTS];
	int ends[2], status;
	pid_t pid;

	ck_assert(write_file("/proc/sys/net/ipv4/ip_local_port_range", "40000 40009"));
	ck_assert_int_eq(pipe(ends), 0);
	connect_all(ports, PORTS / 2);
	pid = fork();
	if (pid == 0)
		connect_others(ends[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(read(ends[0], ports + PORTS / 2, sizeof(ports) / 2), sizeof(ports) / 2);
	for (int i = 0; i < PORTS; i++) {
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(ports[i], ports[j]);
	}
	close(ends[0]);
	close(ends[1]);
}
END_TEST

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

/* Nothing of RoCE needs one that the system chooses. */
START_TEST(the_systems_ports_are_used_up)
{
	const struct sockaddr *any_port = socket_address(NODE, 0);
	int sockets[2];

	ck_assert(write_file("/proc/sys/net/ipv4/ip_local_port_range", "40000 40001"));
	for (int i = 0; i < 2; i++) {
		sockets[i] = socket(AF_INET, SOCK_DGRAM, 0);
		ck_assert_int_eq(bind(sockets[i], any_port, sizeof(struct sockaddr_in)), 0);
	}
	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NODE, PORT)), 0);
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	for (int i = 0; i < 2; i++)
		close(sockets[i]);
}
END_TEST

/* AFONLY's default (ipv6(7)): a listener at :: then leaves the port of IPv4 to another. */
START_TEST(ipv6_only_by_default)
{
	struct rdma_cm_id *ipv4 = open_id(channel, RDMA_PS_TCP);

	ck_assert(write_file("/proc/sys/net/ipv6/bindv6only", _i ? "1" : "0"));
	ck_assert_int_eq(rdma_bind_addr(id, socket_address("::", PORT)), 0);
	ck_assert_int_eq(rdma_listen(id, 1), 0);
	if (_i)
		ck_assert_int_eq(rdma_bind_addr(ipv4, socket_address("0.0.0.0", PORT)), 0);
	else
		ck_fails(rdma_bind_addr(ipv4, socket_address("0.0.0.0", PORT)), EADDRNOTAVAIL);
	destroy(ipv4);
}
END_TEST

/* As of sockets (tcp(7)). */
START_TEST(keepalive_by_default)
{
	int fd, time = 0;
	socklen_t length = sizeof(time);

	ck_assert(write_file("/proc/sys/net/ipv4/tcp_keepalive_time", "77"));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(rgetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &time, &length), 0);
	ck_assert_int_eq(time, 77);
	ck_assert_int_eq(rclose(fd), 0);
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
	tcase_add_test(tests, mtu_of_the_way);
	tcase_add_test(tests, address_of_another_link);
	tcase_add_test(tests, request_on_a_link);
	tcase_add_loop_test(tests, address_of_two_links, 0, 2);
	tcase_add_test(tests, no_more_addresses_than_a_port_has);
	tcase_add_test(tests, silent_host);
	tcase_add_test(tests, silent_host_of_a_bound_id);
	tcase_add_test(tests, silent_host_ipv6);
	tcase_add_test(tests, silent_gateway);
	tcase_add_test(tests, gateway_of_a_rule_for_rocev2);
	tcase_add_test(tests, destination_inside_of_a_tunnel);
	tcase_add_test(tests, host_known_to_be_silent);
	tcase_add_test(tests, synchronous_id_of_a_silent_host);
	/* ASan of gcc 12 takes the stack of a cancelled thread for one that is in use. */
	if (!HAS_ASAN) {
		tcase_add_test(tests, cancelled_while_waiting);
		tcase_add_test(tests, datagram_cancelled_while_waiting);
	}
	tcase_add_test(tests, destroyed_while_waiting);
	tcase_add_test(tests, host_that_answers);
	tcase_add_test(tests, ethernet_addresses);
	tcase_add_test(tests, datagrams_longer_than_the_mtu);
	tcase_add_loop_test(tests, ipv6_only_by_default, 0, 2);
	tcase_add_test(tests, keepalive_by_default);
	if (CHILD_ALLOCATES) {
		tcase_add_test(tests, ports_are_the_nodes);
		tcase_add_test(tests, source_ports_are_one_process_s);
	}
	tcase_add_test(tests, the_systems_ports_are_used_up);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
