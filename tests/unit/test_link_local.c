/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two links of this machine at link-local addresses of one interface: what the kernel knows of the
 * receiver is asked for there, too. In a network namespace of its own, whose loopback device has
 * such addresses.
 */
#include <check.h>
#include <stdlib.h>

#include "net/clock.h"
#include "tests/run_suite.h"
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

int main(void)
{
	Suite *suite = suite_create("link_local");
	TCase *tests = tcase_create("link_local");

	if (!namespace_enter())
		return SKIPPED;
	tcase_add_checked_fixture(tests, add_addresses, NULL);
	tcase_add_test(tests, a_receiver_is_known);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
