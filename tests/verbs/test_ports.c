/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device with two ports: what it says of each, and that what is on the second port goes by
 * its addresses.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/own_profile.h"

#define GRH 40
#define PORT 7471

/* Exported, but in no header. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

static char second[32], third[32]; /* addresses of port 2 */

static void expect_address(const union ibv_gid *gid, const char *address)
{
	char text[INET_ADDRSTRLEN];

	ck_assert_str_eq(inet_ntop(AF_INET, gid->raw + 12, text, sizeof(text)), address);
}

/* --- queries --------------------------------------------------------------------------- */

START_TEST(counts)
{
	struct ibv_context *context = fixture_open();
	struct ibv_device_attr_ex extended = {};
	struct ibv_device_attr attr;

	ck_assert_int_eq(ibv_query_device(context, &attr), 0);
	ck_assert_int_eq(attr.phys_port_cnt, 2);
	ck_assert_int_eq(ibv_query_device_ex(context, NULL, &extended), 0);
	ck_assert_int_eq(extended.phys_port_cnt_ex, 2);
	ck_assert(attr.node_guid == ibv_get_device_guid(context->device));
	fixture_close(context);
}
END_TEST

START_TEST(port_attributes)
{
	struct ibv_context *context = fixture_open();
	struct ibv_port_attr first, attr;

	ck_assert_int_eq(ibv_query_port(context, 1, &first), 0);
	ck_assert_int_eq(ibv_query_port(context, 2, &attr), 0);
	ck_assert_int_eq(attr.state, IBV_PORT_ACTIVE);
	ck_assert_mem_eq(&attr, &first, sizeof(attr));
	ck_assert_int_eq(ibv_query_port(context, 0, &attr), EINVAL);
	ck_assert_int_eq(ibv_query_port(context, 3, &attr), EINVAL);
	fixture_close(context);
}
END_TEST

START_TEST(gid_tables)
{
	struct ibv_context *context = fixture_open();
	struct ibv_gid_entry entry, table[4];
	union ibv_gid gid;
	int type;

	/* Indexes begin at 0 on each port. */
	ck_assert_int_eq(ibv_query_gid(context, 1, 0, &gid), 0);
	expect_address(&gid, fixture_address());
	ck_assert_int_eq(ibv_query_gid(context, 2, 0, &gid), 0);
	expect_address(&gid, second);
	ck_assert_int_eq(ibv_query_gid_ex(context, 2, 1, &entry, 0), 0);
	expect_address(&entry.gid, third);
	ck_assert_uint_eq(entry.port_num, 2);
	ck_assert_uint_eq(entry.gid_index, 1);
	ck_assert_int_eq(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
	ck_assert_int_eq(ibv_query_gid_type(context, 2, 0, &type), 0);

	ck_assert_int_eq(ibv_query_gid_table(context, table, 4, 0), 3);
	ck_assert_uint_eq(table[0].port_num, 1);
	ck_assert_uint_eq(table[1].port_num, 2);
	ck_assert_uint_eq(table[1].gid_index, 0);
	expect_address(&table[1].gid, second);
	ck_assert_uint_eq(table[2].gid_index, 1);
	ck_assert_int_eq(ibv_query_gid_table(context, table, 2, 0), -EINVAL);

	for (unsigned int port_num = 0; port_num <= 3; port_num += 3) {
		ck_fails(ibv_query_gid(context, port_num, 0, &gid), EINVAL);
		ck_assert_int_eq(ibv_query_gid_ex(context, port_num, 0, &entry, 0), EINVAL);
		ck_fails(ibv_query_gid_type(context, port_num, 0, &type), EINVAL);
	}
	fixture_close(context);
}
END_TEST

/* Of the addresses no more are in a table than there is space for. */
START_TEST(short_gid_tables)
{
	struct ibv_gid_entry entry, table[4];
	struct ibv_context *context;

	own_profile("gid_tbl_len = 1\n");
	context = fixture_open();
	ck_assert_int_eq(ibv_query_gid_ex(context, 2, 1, &entry, 0), EINVAL);
	ck_assert_int_eq(ibv_query_gid_table(context, table, 4, 0), 2);
	expect_address(&table[0].gid, fixture_address());
	expect_address(&table[1].gid, second);
	fixture_close(context);
}
END_TEST

START_TEST(pkeys)
{
	struct ibv_context *context = fixture_open();
	__be16 pkey = 0;

	ck_assert_int_eq(ibv_query_pkey(context, 2, 0, &pkey), 0);
	ck_assert_uint_eq(pkey, 0xffff);
	ck_assert_int_eq(ibv_get_pkey_index(context, 2, 0xffff), 0);
	for (unsigned int port_num = 0; port_num <= 3; port_num += 3) {
		ck_fails(ibv_query_pkey(context, port_num, 0, &pkey), EINVAL);
		ck_fails(ibv_get_pkey_index(context, port_num, 0xffff), EINVAL);
	}
	fixture_close(context);
}
END_TEST

static unsigned long packets(unsigned int port_num, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/class/infiniband/urxe0/ports/%u/%s", port_num, name);
	return strtoul(file_content(path), NULL, 10);
}

static void expect_gid_file(unsigned int port_num, unsigned int index, const char *address)
{
	unsigned int a, b, c, d;
	char path[96], expected[64];

	snprintf(path, sizeof(path), "/sys/class/infiniband/urxe0/ports/%u/gids/%u", port_num,
		 index);
	ck_assert_int_eq(sscanf(address, "%u.%u.%u.%u", &a, &b, &c, &d), 4);
	snprintf(expected, sizeof(expected), "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n", a,
		 b, c, d);
	ck_assert_str_eq(file_content(path), expected);
}

START_TEST(sysfs)
{
	expect_gid_file(1, 0, fixture_address());
	expect_gid_file(2, 0, second);
	expect_gid_file(2, 1, third);
	ck_assert_str_eq(file_content("/sys/class/infiniband/urxe0/ports/2/state"), "4: ACTIVE\n");
	ck_assert_str_eq(file_content("/sys/class/infiniband/urxe0/ports/2/pkeys/0"), "0xffff\n");
	ck_assert_str_eq(file_content("/sys/class/infiniband/urxe0/ports/2/gid_attrs/types/1"),
			 "RoCE v2\n");
	ck_assert_str_eq(file_content("/sys/class/infiniband/urxe0/ports/2/gid_attrs/ndevs/0"),
			 "lo\n");
	ck_assert_int_eq(access("/sys/class/infiniband/urxe0/ports/1/gids/1", F_OK), -1);
	ck_assert_int_eq(access("/sys/class/infiniband/urxe0/ports/3", F_OK), -1);
	ck_assert_int_eq(access("/sys/class/infiniband/urxe0/ports/0", F_OK), -1);
}
END_TEST

/* --- traffic --------------------------------------------------------------------------- */

START_TEST(connection_on_the_second_port)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	static struct pair pair;

	pair_open(&pair, IBV_QPT_RC, 0);
	pair_move(&pair, 2);
	ck_assert_int_eq(ibv_query_qp(pair.sender, &attr, IBV_QP_PORT | IBV_QP_AV, &init), 0);
	ck_assert_int_eq(attr.port_num, 2);
	ck_assert_int_eq(attr.ah_attr.port_num, 2);
	expect_address(&attr.ah_attr.grh.dgid, second);
	memset(pair.buffer, 0x5a, 64);
	ck_assert_int_eq(post_write(&pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	ck_assert_mem_eq(pair.buffer, pair.buffer + BUFFER_SIZE, 64);
	pair_close(&pair);
}
END_TEST

/* Counted after it was sent, perhaps by another thread than the one that completed the request. */
static void expect_counted(unsigned int port_num, const char *name, unsigned long least)
{
	while (packets(port_num, name) < least)
		usleep(1000);
}

/* Each port counts its own packets. */
START_TEST(counters)
{
	static struct pair pair;
	unsigned long quiet;

	pair_open(&pair, IBV_QPT_RC, 0);
	for (uint8_t busy = 1; busy <= 2; busy++) {
		pair_move(&pair, busy);
		quiet = packets(3 - busy, "counters/port_xmit_packets");
		ck_assert_int_eq(post_write(&pair, busy), 0);
		ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
		/* The WRITE and its acknowledgement: the other end is on this port, too. */
		expect_counted(busy, "counters/port_xmit_packets", 2);
		expect_counted(busy, "counters/port_rcv_packets", 2);
		expect_counted(busy, "hw_counters/sent_bytes", 64);
		ck_assert_uint_eq(packets(3 - busy, "counters/port_xmit_packets"), quiet);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(bad_ports)
{
	const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_ah_attr address = {.is_global = 1};
	static struct pair pair;
	struct ibv_ah *ah;

	pair_open(&pair, IBV_QPT_RC, 0);
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &attr, mask), EINVAL);
	attr.port_num = 3;
	ck_assert_int_eq(ibv_modify_qp(pair.sender, &attr, mask), EINVAL);
	ck_assert_int_eq(ibv_query_gid(pair.context, 2, 0, &address.grh.dgid), 0);
	for (address.port_num = 0; address.port_num <= 3; address.port_num += 3) {
		errno = 0;
		ck_assert_ptr_null(ibv_create_ah(pair.pd, &address));
		ck_assert_int_eq(errno, EINVAL);
	}
	/* The second address of port 2, which port 1 lacks. */
	address.grh.sgid_index = 1;
	address.port_num = 1;
	ck_assert_ptr_null(ibv_create_ah(pair.pd, &address));
	ck_assert_int_eq(errno, ENODATA);
	address.port_num = 2;
	ah = ibv_create_ah(pair.pd, &address);
	ck_assert_ptr_nonnull(ah);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
}
END_TEST

static void send_datagram(struct pair *pair, struct ibv_ah *ah)
{
	struct ibv_sge sge = send_sge(pair, 64);
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {.ah = ah,
						   .remote_qpn = pair->receiver->qp_num,
						   .remote_qkey = FIXTURE_QKEY},
				 };

	ck_assert_int_eq(ibv_post_send(pair->sender, &wr, &bad), 0);
}

/* By an address handle of port 2, and the way back from what the receiver sees. */
START_TEST(datagram_on_the_second_port)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 2, .grh = {.sgid_index = 1}}, back;
	static struct pair pair;
	struct ibv_grh *grh;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	pair_open(&pair, IBV_QPT_UD, 0);
	pair_move(&pair, 2);
	ck_assert_int_eq(ibv_query_gid(pair.context, 2, 0, &attr.grh.dgid), 0);
	ah = ibv_create_ah(pair.pd, &attr);
	ck_assert_ptr_nonnull(ah);
	post_receive(&pair, 1);
	send_datagram(&pair, ah);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
	wc = wait_completion(pair.recv_cq);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, GRH + 64);
	grh = (struct ibv_grh *)(pair.buffer + BUFFER_SIZE);
	ck_assert_int_eq(ibv_init_ah_from_wc(pair.context, 2, &wc, grh, &back), 0);
	ck_assert_int_eq(back.port_num, 2);
	ck_assert_int_eq(back.grh.sgid_index, 0);
	expect_address(&back.grh.dgid, third);
	/* It came to none of port 1's addresses, and there is no port 3. */
	ck_fails(ibv_init_ah_from_wc(pair.context, 1, &wc, grh, &back), ENODATA);
	ck_fails(ibv_init_ah_from_wc(pair.context, 3, &wc, grh, &back), EINVAL);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);

	/* The device enforces the port of address vectors: the QP isn't on port 1. */
	attr.port_num = 1;
	attr.grh.sgid_index = 0;
	ah = ibv_create_ah(pair.pd, &attr);
	ck_assert_ptr_nonnull(ah);
	send_datagram(&pair, ah);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_LOC_QP_OP_ERR);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	pair_close(&pair);
}
END_TEST

/* --- rdma_cm ---------------------------------------------------------------------------- */

static void expect_qp_on(struct rdma_cm_id *id, uint8_t port_num)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(id->port_num, port_num);
	ck_assert_int_eq(ibv_query_qp(id->qp, &attr, IBV_QP_PORT | IBV_QP_AV, &init), 0);
	ck_assert_int_eq(attr.port_num, port_num);
	ck_assert_int_eq(attr.ah_attr.port_num, port_num);
}

START_TEST(port_of_a_connection)
{
	const char *addresses[] = {fixture_address(), second, third};
	const uint8_t port_num = _i ? 2 : 1;
	struct rdma_event_channel *server = open_channel(), *client = open_channel();
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_id *listener = open_id(server, RDMA_PS_TCP), *to, *from;
	struct sockaddr *address = socket_address(addresses[_i], PORT);
	struct rdma_cm_event *event;

	/* A listener of all addresses is on no port, its requests are. */
	ck_assert_int_eq(rdma_bind_addr(listener, socket_address("0.0.0.0", PORT)), 0);
	ck_assert_int_eq(rdma_listen(listener, 1), 0);
	from = open_id(client, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_bind_addr(from, socket_address(addresses[_i], 0)), 0);
	ck_assert_int_eq(from->port_num, port_num);
	ck_assert_int_eq(rdma_resolve_addr(from, NULL, address, 2000), 0);
	expect(client, from, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(rdma_resolve_route(from, 2000), 0);
	expect(client, from, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	create_qp(from);
	ck_assert_int_eq(rdma_connect(from, &param), 0);
	event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	to = event->id;
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	create_qp(to);
	ck_assert_int_eq(rdma_accept(to, &param), 0);
	expect(client, from, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(server, to, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_qp_on(from, port_num);
	expect_qp_on(to, port_num);
	send_one(from, to);
	destroy(from);
	destroy(to);
	destroy(listener);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ports");
	TCase *tests = tcase_create("ports");
	unsigned int pid = getpid();
	char node[128];

	fixture_environment();
	snprintf(second, sizeof(second), "127.85.%u.%u", pid >> 8 & 0xff, pid & 0xff);
	snprintf(third, sizeof(third), "127.84.%u.%u", pid >> 8 & 0xff, pid & 0xff);
	snprintf(node, sizeof(node), "%s/%s,%s", fixture_address(), second, third);
	setenv("URXE_NODE", node, 1);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, counts);
	tcase_add_test(tests, port_attributes);
	tcase_add_test(tests, gid_tables);
	tcase_add_test(tests, short_gid_tables);
	tcase_add_test(tests, pkeys);
	tcase_add_test(tests, sysfs);
	tcase_add_test(tests, connection_on_the_second_port);
	tcase_add_test(tests, counters);
	tcase_add_test(tests, bad_ports);
	tcase_add_test(tests, datagram_on_the_second_port);
	tcase_add_loop_test(tests, port_of_a_connection, 0, 3);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
