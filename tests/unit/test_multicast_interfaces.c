/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of a real link that has an IPv6 address on each of two interfaces: what is sent by either
 * comes once, for groups of one link's scope, too. In a network namespace of its own.
 */
#include <check.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "open_descriptors.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/namespace.h"

#define NETWORK "127.77.15"
#include "udp_traffic.h"

#define PACKETS 10 /* sent at once */

static const struct udp_options options = {.segmentation = true};
static const char *const addresses[] = {"fd77::1", "fd78::1"};
static const char *const groups[] = {"ff02::77:1", "ff0e::77:1"};

static union ibv_gid sources[2], group;
static struct node node;
static struct traffic *traffic[2]; /* to the group, by each source */

/* The interfaces are there for all tests: the namespace is that of the whole program. */
static void make_interfaces(void)
{
	ip("link set lo up");
	make_veth("urxe0", "urxe1");
	make_veth("urxe2", "urxe3");
	ip("addr add %s/64 dev urxe0 nodad", addresses[0]);
	ip("addr add %s/64 dev urxe2 nodad", addresses[1]);
}

static void begin(int index)
{
	fill_memory();
	node = node_open(addresses[0], &options);
	group = gid_of(groups[index]);
	for (int i = 0; i < 2; i++) {
		struct node to = {.gid = group};

		sources[i] = gid_of(addresses[i]);
		traffic[i] = traffic_new(&(struct node){.gid = sources[i]}, &to);
	}
}

static void add_second(void)
{
	ck_assert_int_eq(node.link->ops->add_address(node.link, &sources[1], 0), 0);
}

static void end(void)
{
	node_close(&node);
	for (int i = 0; i < 2; i++)
		free(traffic[i]);
}

static void join(const union ibv_gid *source)
{
	ck_assert_int_eq(node.link->ops->join(node.link, &group, source), 0);
}

static unsigned int send_by(int source)
{
	unsigned int first = traffic[source]->count;

	for (int i = 0; i < PACKETS; i++)
		add_packet(traffic[source], 100);
	ck_assert_uint_eq(send_some(&node, traffic[source], first, PACKETS), 0);
	return first;
}

static void expect_nothing(void)
{
	struct link_frame frame;

	ck_assert_uint_eq(node.link->ops->receive(node.link, &frame, 1, 0), 0);
}

/* In order, and once: a second copy that is late is taken for what the next ones expect. */
static void expect_from(int source)
{
	expect(&node, traffic[source], send_by(source), PACKETS, PACKETS);
}

static void expect_from_both(void)
{
	for (int round = 0; round < 3; round++) {
		expect_from(0);
		expect_from(1);
	}
}

START_TEST(joined_everywhere)
{
	unsigned int before;

	begin(_i);
	add_second();
	join(NULL);
	expect_from_both();
	join(NULL); /* no second copy */
	expect_from_both();
	node.link->ops->leave(node.link, &group);
	before = open_descriptors();
	send_by(0);
	send_by(1);
	expect_nothing();
	join(NULL);
	expect_from_both();
	node.link->ops->leave(node.link, &group);
	ck_assert_uint_eq(open_descriptors(), before);
	end();
}
END_TEST

START_TEST(joined_everywhere_before_there_is_a_second_interface)
{
	begin(_i);
	join(NULL);
	expect_from(0);
	add_second();
	expect_from_both();
	end();
}
END_TEST

/* Another socket of the machine, which has the kernel take the group from @netdev. */
static int join_by_socket(const char *netdev)
{
	struct ipv6_mreq request = {.ipv6mr_interface = if_nametoindex(netdev)};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	memcpy(&request.ipv6mr_multiaddr, &group, sizeof(group));
	must(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof(request)) == 0);
	return fd;
}

START_TEST(joined_on_one_interface_after_the_other)
{
	int other;

	begin(_i);
	add_second();
	other = join_by_socket("urxe0");
	join(&sources[1]);
	expect_from(1);
	send_by(0);
	expect_nothing();
	join(&sources[0]);
	expect_from_both();
	join(NULL);
	expect_from_both();
	end();
	close(other);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("multicast_interfaces");
	TCase *tests = tcase_create("multicast_interfaces");

	if (!namespace_enter())
		return SKIPPED;
	tcase_set_timeout(tests, 200);
	tcase_add_unchecked_fixture(tests, make_interfaces, NULL);
	tcase_add_loop_test(tests, joined_everywhere, 0, 2);
	tcase_add_loop_test(tests, joined_everywhere_before_there_is_a_second_interface, 0, 2);
	tcase_add_loop_test(tests, joined_on_one_interface_after_the_other, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
