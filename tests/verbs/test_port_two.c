/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device with two ports: what becomes of one, and of its queue pairs, when the network device of
 * the other goes down or is deleted.
 */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>

#include "tests/run_suite.h"
#include "tests/verbs/ports.h"

static struct said said;

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

static void load_alternate(struct ibv_qp *qp, uint8_t port_num, uint8_t timeout)
{
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_port_num = port_num,
		.alt_timeout = timeout,
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
	load_alternate(pair.sender, up, 14);
	load_alternate(pair.receiver, up, 14);
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

	begin_reports(&said);
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
	load_alternate(pair.sender, 2, 8);
	load_alternate(pair.receiver, 2, 8);
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

static const struct {
	const char *group;
	uint8_t index; /* of the address that is sent from */
	uint8_t port_num;
} heard[] = {
	{"::ffff:239.9.0.9", 0, 1},
	{"::ffff:239.9.0.9", 0, 2},
	{"ff0e::9:9", 1, 1},
	{"ff0e::9:9", 1, 2},
};

/* A QP gets what is sent to its group on its port, and nothing of the other one. */
START_TEST(groups_are_of_a_port)
{
	const uint8_t here = heard[_i].port_num, there = 3 - here, index = heard[_i].index;
	static struct pair pair;
	union ibv_gid group;

	ck_assert_int_eq(inet_pton(AF_INET6, heard[_i].group, &group), 1);
	ip("addr add " THIRD "/64 dev urxe0 nodad");
	ip("addr add fd98::1/64 dev urxe2 nodad");
	pair_open(&pair, IBV_QPT_UD, 0);
	pair_move(&pair, here);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_attach_mcast(pair.receiver, &group, 0), 0);
	post_receive(&pair, 1);
	send_to_group(&pair, there, index, &group, 1);
	send_to_group(&pair, here, index, &group, 2);
	expect_datagram(&pair, 2);
	ck_assert_int_eq(ibv_detach_mcast(pair.receiver, &group, 0), 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("port_two");
	TCase *two = tcase_create("port_two");

	if (!namespace_enter())
		return SKIPPED;
	tcase_set_timeout(two, 60);
	tcase_add_checked_fixture(two, port_setup_two, NULL);
	tcase_add_loop_test(two, one_port_goes_down, 1, 3);
	tcase_add_loop_test(two, queue_pairs_leave_a_port, 1, 3);
	tcase_add_test(two, addresses_of_the_second_port);
	tcase_add_loop_test(two, one_network_device_goes, 1, 3);
	tcase_add_test(two, connection_migrates);
	tcase_add_loop_test(two, groups_are_of_a_port, 0, sizeof(heard) / sizeof(heard[0]));
	suite_add_tcase(suite, two);
	return run_suite(suite);
}
