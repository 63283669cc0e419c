/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/ports.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

void make_netdev(void)
{
	make_veth("urxe0", "urxe1");
	ip("addr add " FIRST "/24 dev urxe0");
}

void make_second_netdev(void)
{
	make_veth("urxe2", "urxe3");
	ip("addr add " FOURTH "/24 dev urxe2");
}

/* What an earlier test left goes first: one that failed leaves everything. */
void port_setup(void)
{
	if (system("ip link show urxe1 >/dev/null 2>&1") == 0)
		ip("link del urxe1"); /* and urxe0, whatever it is called by now */
	if (system("ip link show urxe2 >/dev/null 2>&1") == 0)
		ip("link del urxe2");
	ip("link set lo up"); /* by which the node sends to itself */
	make_netdev();
}

void port_setup_two(void)
{
	port_setup();
	make_second_netdev();
	setenv("URXE_NODE", "urxe0/urxe2", 1);
}

void expect_events_of(struct ibv_context *context, int port_num, unsigned int types)
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

void expect_events(struct ibv_context *context, unsigned int types)
{
	expect_events_of(context, 1, types);
}

void expect_no_event(struct ibv_context *context)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};

	ck_assert_int_eq(poll(&fd, 1, 0), 0);
}

enum ibv_port_state state_of(struct ibv_context *context, uint8_t port_num)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(context, port_num, &attr), 0);
	return attr.state;
}

struct ibv_port_attr port_attr(struct ibv_context *context)
{
	struct ibv_port_attr attr;

	ck_assert_int_eq(ibv_query_port(context, 1, &attr), 0);
	return attr;
}

void expect_gid(struct ibv_context *context, unsigned int index, const char *address)
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

void begin_reports(struct said *said)
{
	setenv("URXE_EXPLAIN", "1", 1);
	setenv("URXE_LOG", "info", 1);
	said_begin(said);
}

void expect_traffic_by(struct pair *pair, unsigned int gid)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	ck_assert_int_eq(ibv_modify_qp(pair->sender, &reset, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_modify_qp(pair->receiver, &reset, IBV_QP_STATE), 0);
	connect_qp_by(pair->sender, pair->receiver, gid);
	connect_qp_by(pair->receiver, pair->sender, gid);
	ck_assert_int_eq(post_write(pair, 1), 0);
	ck_assert_int_eq(wait_completion(pair->send_cq).status, IBV_WC_SUCCESS);
}

enum ibv_wc_status send_by_ah(struct pair *pair, struct ibv_ah *ah, uint32_t qpn, uint32_t length,
			      uint32_t number)
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

enum ibv_wc_status send_datagram(struct pair *pair, struct ibv_ah_attr *attr, uint32_t qpn,
				 uint32_t length, uint32_t number)
{
	struct ibv_ah *ah = ibv_create_ah(pair->pd, attr);
	enum ibv_wc_status status;

	ck_assert_ptr_nonnull(ah);
	status = send_by_ah(pair, ah, qpn, length, number);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	return status;
}

void send_to_group(struct pair *pair, uint8_t port_num, uint8_t index, const union ibv_gid *group,
		   uint32_t number)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = port_num,
				   .grh = {.dgid = *group, .sgid_index = index, .hop_limit = 1}};

	connect_qp_on(pair->sender, pair->receiver, port_num, 0);
	ck_assert_int_eq(send_datagram(pair, &attr, 0xffffff, 64, number), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_modify_qp(pair->sender, &(struct ibv_qp_attr){}, IBV_QP_STATE), 0);
}

void expect_datagram(struct pair *pair, uint32_t number)
{
	struct ibv_wc wc = wait_completion(pair->recv_cq);

	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(ntohl(wc.imm_data), number);
}
