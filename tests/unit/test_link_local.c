/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two links of this machine at link-local addresses of one interface: what the kernel knows of the
 * receiver is asked for there, too. And which interface has an address, and of how many of its
 * addresses a table has space. In a network namespace of its own, whose loopback device has such
 * addresses.
 */
#include <check.h>
#include <stdlib.h>

#include "net/clock.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/namespace.h"

#define NETWORK "127.77.4"
#include "udp_traffic.h"

#define FROM "fe80::77:1"
#define TO "fe80::77:2"

static void add_addresses(void)
{
	ip("link set lo up");
	ip("address add %s/64 dev lo nodad", FROM);
	ip("address add %s/64 dev lo nodad", TO);
	wait_until_local(FROM " oif lo");
	wait_until_local(TO " oif lo");
}

START_TEST(a_receiver_is_known)
{
	const struct udp_options options = {.segmentation = true};
	struct node from = node_open(FROM, &options), to = node_open(TO, &options);
	struct traffic *traffic = traffic_new(&from, &to);
	struct link *link = from.link;
	struct link_frame frame;
	struct link_peer peer;
	uint64_t read;

	if (!((struct udp_link *)link)->diag) /* no NETLINK_SOCK_DIAG here: nothing to test */
		return;
	ck_assert_uint_lt(link->ops->rcvbuf_space(link, &traffic->path, 0x11), UINT32_MAX);
	add_packet(traffic, 4096);
	send_some(&from, traffic, 0, 1);
	ck_assert_uint_gt(link->ops->unread(link, &traffic->path, 0x11, &read), 0);
	ck_assert_uint_eq(to.link->ops->receive(to.link, &frame, 1, clock_now()), 1);
	ck_assert_int_eq(to.link->ops->sender(to.link, &frame), LINK_SENDER_NODE);
	link->ops->describe_peer(link, &traffic->path, 0x11, &peer);
	ck_assert_int_ne(peer.state, LINK_PEER_NOT_THERE);
	node_close(&to);
	link->ops->describe_peer(link, &traffic->path, 0x11, &peer);
	ck_assert_int_eq(peer.state, LINK_PEER_NOT_THERE);
	node_close(&from);
	free(traffic);
}
END_TEST

#define GLOBAL "fd77::1"
#define BEYOND "fe80::77:99" /* which no host has */

/* The destination's interface is that of the source, also of one that has no scope of its own. */
START_TEST(from_a_global_address)
{
	const struct udp_options options = {.segmentation = true};
	struct node from, to = {.gid = gid_of(BEYOND)};
	struct traffic *traffic;

	make_veth("urxe0", "urxe1");
	make_veth("urxe2", "urxe3");
	ip("address add fe80::77:3/64 dev urxe0 nodad");
	ip("address add fe80::77:4/64 dev urxe2 nodad");
	for (int i = 0; i < 2; i++) {
		const char *netdev = i ? "urxe2" : "urxe0";

		ip("address add %s/64 dev %s nodad", GLOBAL, netdev);
		from = (struct node){.gid = gid_of(GLOBAL)};
		ck_assert_int_eq(udp_link_create(&options, &from.link), 0);
		ck_assert_int_eq(
			from.link->ops->add_address(from.link, &from.gid, if_nametoindex(netdev)),
			0);
		traffic = traffic_new(&from, &to);
		add_packet(traffic, 8);
		ck_assert_uint_eq(send_some(&from, traffic, 0, 1), 0);
		ip("neighbour get %s dev %s", BEYOND, netdev); /* it is being asked for there */
		node_close(&from);
		free(traffic);
		ip("address del %s/64 dev %s", GLOBAL, netdev);
	}
}
END_TEST

#define ON_BOTH "10.77.0.1"

/* Of two that have it the one that is up; one that is down goes before none. */
START_TEST(interface_of_an_address)
{
	const union ibv_gid gid = gid_of(ON_BOTH);
	static const char *const netdevs[] = {"urxe4", "urxe6"};

	make_veth("urxe4", "urxe5");
	make_veth("urxe6", "urxe7");
	for (int i = 0; i < 2; i++)
		ip("address add %s/24 dev %s", ON_BOTH, netdevs[i]);
	for (int up = 0; up < 2; up++) {
		ip("link set %s up", netdevs[up]);
		ip("link set %s down", netdevs[!up]);
		ck_assert_uint_eq(gid_interface(&gid), if_nametoindex(netdevs[up]));
	}
	ip("link set %s down", netdevs[1]);
	ck_assert_uint_eq(gid_interface(&gid), if_nametoindex(netdevs[0]));
}
END_TEST

/* What no address vector could name would have the packets of another one. */
START_TEST(more_addresses_than_indexes)
{
	static struct said said;
	struct gid_table table;

	make_veth("urxe8", "urxe9");
	must(system("seq 300 | awk '{ print \"address add 10.78.\" int($1 / 200) \".\" $1 % 200 "
		    "\" dev urxe8\" }' | ip -batch -") == 0);
	said_begin(&said);
	ck_assert_int_eq(gid_table_init(&table, "urxe8"), 0);
	said_end(&said);
	ck_assert_uint_eq(table.count, 256);
	ck_assert_ptr_nonnull(strstr(said.text, " 44 more are left out"));
	gid_table_destroy(&table);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("link_local");
	TCase *tests = tcase_create("link_local");

	if (!namespace_enter())
		return SKIPPED;
	tcase_add_unchecked_fixture(tests, add_addresses, NULL);
	tcase_add_test(tests, a_receiver_is_known);
	tcase_add_test(tests, from_a_global_address);
	tcase_add_test(tests, interface_of_an_address);
	tcase_add_test(tests, more_addresses_than_indexes);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
