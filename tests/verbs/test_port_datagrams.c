/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams, groups and link-local addresses while the network devices of ports change: other MTUs,
 * addresses that come and go, devices that are made again.
 */
#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/ports.h"

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
	wait_until_local(THIRD);
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

	unsetenv("URXE_NODE");
	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	make_second_netdev();
	expect_events(pair.context, EVENT(IBV_EVENT_GID_CHANGE));
	post_receive(&pair, 1);
	send_to_group(&pair, 1, index_of(pair.context, FOURTH), &group, 7);
	expect_datagram(&pair, 7);
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
}
END_TEST

static void make_urxe2(const char *address)
{
	make_veth("urxe2", "urxe3");
	ip("addr add %s dev urxe2%s", address, strchr(address, ':') ? " nodad" : "");
}

/* The interface of an address is deleted and made again, with another number. */
static void make_urxe2_again(struct ibv_context *context, const char *address)
{
	ip("link del urxe2");
	expect_events(context, EVENT(IBV_EVENT_GID_CHANGE));
	make_urxe2(address);
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
	uint8_t index = 1;

	ck_assert_int_eq(inet_pton(AF_INET6, moving[_i].group, &group), 1);
	make_urxe2(moving[_i].address);
	setenv("URXE_NODE", "urxe0,urxe2", 1);
	pair_open(&pair, IBV_QPT_UD, 0);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	for (uint32_t round = 0; round < 3; round++) {
		post_receive(&pair, round);
		send_to_group(&pair, 1, index, &group, round);
		expect_datagram(&pair, round);
		make_urxe2_again(pair.context, moving[_i].address);
	}
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
}
END_TEST

/* A link-local address is bound to an interface, which is then another one. */
START_TEST(link_local_address_that_moves)
{
	static struct pair pair;

	make_urxe2("fe80::98/64");
	setenv("URXE_NODE", "urxe0,urxe2", 1);
	pair_open(&pair, IBV_QPT_RC, 0);
	for (int round = 0; round < 3; round++) {
		expect_traffic_by(&pair, 1);
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

int main(void)
{
	Suite *suite = suite_create("port_datagrams");
	TCase *tests = tcase_create("port_datagrams");

	if (!namespace_enter())
		return SKIPPED;
	setenv("URXE_NODE", "urxe0", 1);
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, port_setup, NULL);
	tcase_add_test(tests, datagrams_follow_the_mtu);
	tcase_add_test(tests, datagrams_of_a_port_without_an_address);
	tcase_add_test(tests, flow_label_of_a_datagram);
	tcase_add_test(tests, groups_of_an_address_that_came);
	tcase_add_loop_test(tests, groups_of_an_address_that_moves, 0,
			    sizeof(moving) / sizeof(moving[0]));
	tcase_add_test(tests, link_local_address_that_moves);
	tcase_add_loop_test(tests, link_local_address_of_two_interfaces, 0, 2);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
