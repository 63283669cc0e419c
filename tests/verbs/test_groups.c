/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups by librdmacm: what joining tells, which QPs receive, what leaving
 * undoes, and the errors. Whether the machine is in a group the kernel knows.
 */
#include <infiniband/ib.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define GRH 40
#define QPN_MULTICAST 0xffffff

static struct rdma_event_channel *channel;
static char group[INET_ADDRSTRLEN], other_group[INET_ADDRSTRLEN]; /* of this process alone */

static void setup(void)
{
	channel = open_channel();
}

static void teardown(void)
{
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_id *new_bound_id(void)
{
	return open_bound_id(channel, RDMA_PS_UDP);
}

/* Whether a socket of this machine is a member, as IGMP sees it. */
static bool is_joined(const char *text)
{
	FILE *file = fopen("/proc/net/igmp", "r");
	char line[256], wanted[16];
	struct in_addr address;
	bool found = false;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(inet_pton(AF_INET, text, &address), 1);
	snprintf(wanted, sizeof(wanted), "\t%08X ", address.s_addr);
	while (fgets(line, sizeof(line), file))
		found |= strstr(line, wanted) != NULL;
	fclose(file);
	return found;
}

static int join(struct rdma_cm_id *id, const char *text)
{
	return rdma_join_multicast(id, socket_address(text, 0), id);
}

static int join_to_send(struct rdma_cm_id *id, const char *text)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = socket_address(text, 0),
	};

	return rdma_join_multicast_ex(id, &attr, id);
}

static int leave(struct rdma_cm_id *id, const char *text)
{
	return rdma_leave_multicast(id, socket_address(text, 0));
}

static void joined(struct rdma_cm_id *id)
{
	expect(channel, id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
}

/* --- messages ------------------------------------------------------------------------ */

struct message {
	uint8_t bytes[GRH + 16];
	struct ibv_mr *mr;
};

static void post_receive_at(struct rdma_cm_id *id, struct message *message)
{
	memset(message->bytes, 0, sizeof(message->bytes));
	message->mr = rdma_reg_msgs(id, message->bytes, sizeof(message->bytes));
	ck_assert_ptr_nonnull(message->mr);
	ck_assert_int_eq(
		rdma_post_recv(id, NULL, message->bytes, sizeof(message->bytes), message->mr), 0);
}

/* One message by what the event says of the group. */
static void send_by(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	static char text[16] = "to whom it may";
	struct ibv_mr *mr = rdma_reg_msgs(id, text, sizeof(text));
	struct ibv_ah *ah = ibv_create_ah(id->pd, &event->param.ud.ah_attr);
	struct ibv_sge sge = {(uintptr_t)text, sizeof(text), mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;

	ck_assert_ptr_nonnull(ah);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = event->param.ud.qp_num;
	wr.wr.ud.remote_qkey = event->param.ud.qkey;
	ck_assert_int_eq(ibv_post_send(id->qp, &wr, &bad), 0);
	ck_assert_int_eq(rdma_get_send_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	rdma_dereg_mr(mr);
}

static void received(struct rdma_cm_id *id, struct message *message, struct rdma_cm_id *from)
{
	struct ibv_wc wc;

	ck_assert_int_eq(rdma_get_recv_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, GRH + 16);
	ck_assert_uint_eq(wc.src_qp, from->qp->qp_num);
	ck_assert_str_eq((char *)message->bytes + GRH, "to whom it may");
	rdma_dereg_mr(message->mr);
}

/* On loopback what was sent has arrived, and a poll takes it from the socket. */
static void received_nothing(struct rdma_cm_id *id, struct message *message)
{
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(ibv_poll_cq(id->recv_cq, 1, &wc), 0);
		poll(NULL, 0, 1);
	}
	rdma_dereg_mr(message->mr);
}

/* --- joining ---------------------------------------------------------------------------- */

START_TEST(joining_tells_how_to_send)
{
	struct rdma_cm_id *id = new_bound_id();
	struct rdma_cm_event *event;
	struct rdma_ud_param *ud;
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff}};
	uint8_t tos = 0x20;

	ck_assert_int_eq(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	ck_assert_int_eq(join(id, group), 0);
	ck_assert(is_joined(group));
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	ud = &event->param.ud;
	inet_pton(AF_INET, group, gid.raw + 12);
	ck_assert_ptr_eq(event->id, id);
	ck_assert_ptr_eq(ud->private_data, id); /* the context of the join */
	ck_assert_uint_eq(ud->private_data_len, 0);
	ck_assert_uint_eq(ud->qp_num, QPN_MULTICAST);
	ck_assert_uint_eq(ud->qkey, RDMA_UDP_QKEY);
	ck_assert_uint_eq(ud->ah_attr.is_global, 1);
	ck_assert_uint_eq(ud->ah_attr.port_num, 1);
	ck_assert_uint_eq(ud->ah_attr.dlid, 0);
	ck_assert_mem_eq(&ud->ah_attr.grh.dgid, &gid, sizeof(gid));
	ck_assert_uint_eq(ud->ah_attr.grh.hop_limit, 64);
	ck_assert_uint_eq(ud->ah_attr.grh.traffic_class, tos);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	ck_assert_int_eq(leave(id, group), 0);
	ck_assert(!is_joined(group));
	destroy(id);
}
END_TEST

/* The sender is a member as well: it gets its own message. */
START_TEST(members_receive)
{
	struct rdma_cm_id *a = new_bound_id(), *b = new_bound_id();
	struct rdma_cm_event *event;
	struct message at_a, at_b;

	create_qp(a);
	create_qp(b);
	ck_assert_int_eq(join(a, group), 0);
	joined(a);
	ck_assert_int_eq(join(b, group), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	post_receive_at(a, &at_a);
	post_receive_at(b, &at_b);
	send_by(b, event);
	received(a, &at_a, b);
	received(b, &at_b, b);

	ck_assert_int_eq(leave(a, group), 0);
	ck_assert(is_joined(group));
	post_receive_at(a, &at_a);
	post_receive_at(b, &at_b);
	send_by(b, event);
	received(b, &at_b, b);
	received_nothing(a, &at_a);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	ck_assert_int_eq(leave(b, group), 0);
	ck_assert(!is_joined(group));
	destroy(a);
	destroy(b);
}
END_TEST

/* An id that joins to send has no membership and receives nothing, but is heard. */
START_TEST(sending_only)
{
	struct rdma_cm_id *sender = new_bound_id(), *member = new_bound_id();
	struct message at_sender, at_member;
	struct rdma_cm_event *event;

	create_qp(sender);
	create_qp(member);
	ck_assert_int_eq(join_to_send(sender, group), 0);
	ck_assert(!is_joined(group));
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	ck_assert_ptr_eq(event->param.ud.private_data, sender);
	ck_assert_int_eq(join(member, group), 0);
	joined(member);
	post_receive_at(sender, &at_sender);
	post_receive_at(member, &at_member);
	send_by(sender, event);
	received(member, &at_member, sender);
	received_nothing(sender, &at_sender);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	ck_assert_int_eq(leave(sender, group), 0);
	ck_assert_int_eq(leave(member, group), 0);
	destroy(sender);
	destroy(member);
}
END_TEST

/* Without a QP the application attaches one itself, rdma_join_multicast(3). */
START_TEST(joining_without_a_queue_pair)
{
	struct rdma_cm_id *id = new_bound_id();
	struct rdma_cm_event *event;
	struct message message;

	ck_assert_int_eq(join(id, group), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	create_qp(id);
	ck_assert_int_eq(ibv_detach_mcast(id->qp, &event->param.ud.ah_attr.grh.dgid, 0), EINVAL);
	ck_assert_int_eq(ibv_attach_mcast(id->qp, &event->param.ud.ah_attr.grh.dgid, 0), 0);
	post_receive_at(id, &message);
	send_by(id, event);
	received(id, &message, id);
	ck_assert_int_eq(ibv_detach_mcast(id->qp, &event->param.ud.ah_attr.grh.dgid, 0), 0);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	ck_assert_int_eq(leave(id, group), 0);
	destroy(id);
}
END_TEST

START_TEST(joining_by_gid)
{
	struct sockaddr_ib address = {.sib_family = AF_IB};
	struct rdma_cm_id *id = new_bound_id();
	char text[40];

	snprintf(text, sizeof(text), "::ffff:%s", group);
	ck_assert_int_eq(inet_pton(AF_INET6, text, &address.sib_addr), 1);
	ck_assert_int_eq(rdma_join_multicast(id, (struct sockaddr *)&address, NULL), 0);
	ck_assert(is_joined(group));
	joined(id);
	ck_assert_int_eq(rdma_leave_multicast(id, (struct sockaddr *)&address), 0);
	ck_assert(!is_joined(group));
	destroy(id);
}
END_TEST

START_TEST(synchronous_ids)
{
	struct rdma_cm_id *id = open_id(NULL, RDMA_PS_UDP);

	ck_assert_int_eq(rdma_bind_addr(id, socket_address(NULL, 0)), 0);
	create_qp(id);
	ck_assert_int_eq(join(id, group), 0);
	ck_assert_int_eq(id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	ck_assert_int_eq(leave(id, group), 0);
	ck_assert(!is_joined(group));
	destroy(id);
}
END_TEST

START_TEST(after_resolving)
{
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_UDP);

	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(group, 0), 1000), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	ck_assert_int_eq(join(id, group), 0);
	joined(id);
	ck_assert_int_eq(leave(id, group), 0);
	destroy(id);
}
END_TEST

/* --- leaving ------------------------------------------------------------------------------ */

START_TEST(leaving_cancels)
{
	struct rdma_cm_id *id = new_bound_id();

	create_qp(id);
	ck_assert_int_eq(join(id, group), 0);
	ck_assert_int_eq(join(id, other_group), 0);
	ck_assert_int_eq(leave(id, group), 0); /* before its event was taken, which so isn't told */
	ck_assert(!is_joined(group));
	joined(id);
	ck_assert(!is_readable(channel));
	ck_fails(leave(id, group), EADDRNOTAVAIL);
	ck_assert_int_eq(leave(id, other_group), 0);
	destroy(id);
}
END_TEST

START_TEST(leaving_waits_for_acks)
{
	struct rdma_cm_id *id = new_bound_id();
	struct late_ack ack;

	ck_assert_int_eq(join(id, group), 0);
	late_ack_begin(&ack, next_event(channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0));
	ck_assert_int_eq(leave(id, group), 0);
	late_ack_must_be_done(&ack);
	destroy(id);
}
END_TEST

/* rdma_leave_multicast(3): destroying an id leaves all its groups. */
START_TEST(destroying_leaves)
{
	struct rdma_cm_id *id = new_bound_id(), *other = new_bound_id();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	create_qp(id);
	ck_assert_int_eq(join(id, group), 0);
	joined(id);
	ck_assert_int_eq(join(id, other_group), 0); /* and its event is never taken */
	ck_assert_int_eq(join(other, group), 0);
	ck_assert_int_eq(ibv_destroy_qp(id->qp), EBUSY);
	ck_assert_int_eq(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_RTS);
	destroy(id);
	ck_assert(is_joined(group)); /* by the other one */
	ck_assert(!is_joined(other_group));
	joined(other);
	destroy(other);
	ck_assert(!is_joined(group));
}
END_TEST

START_TEST(migrating_with_the_event)
{
	struct rdma_event_channel *to = open_channel();
	struct rdma_cm_id *id = new_bound_id();

	ck_assert_int_eq(join(id, group), 0);
	ck_assert_int_eq(rdma_migrate_id(id, to), 0);
	ck_assert(!is_readable(channel));
	expect(to, id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	ck_assert_int_eq(leave(id, group), 0);
	destroy(id);
	rdma_destroy_event_channel(to);
}
END_TEST

/* --- errors -------------------------------------------------------------------------------- */

START_TEST(refused)
{
	struct rdma_cm_id *fresh = open_id(channel, RDMA_PS_UDP), *stream, *id = new_bound_id();
	struct sockaddr strange = {.sa_family = AF_UNIX};

	ck_fails(join(fresh, group), EINVAL); /* not bound */
	ck_assert_int_eq(rdma_bind_addr(fresh, socket_address("0.0.0.0", 0)), 0);
	ck_fails(join(fresh, group), EINVAL); /* to no device */
	stream = open_id(channel, RDMA_PS_TCP);
	ck_assert_int_eq(rdma_bind_addr(stream, socket_address(NULL, 0)), 0);
	ck_fails(join(stream, group), EINVAL);
	ck_fails(join(id, "0.0.0.0"), EINVAL);
	ck_fails(join(id, "10.1.2.3"), EINVAL);
	ck_fails(join(id, "ff05::7"), ENODEV);
	ck_fails(rdma_join_multicast(id, &strange, NULL), EINVAL);
	ck_fails(rdma_leave_multicast(id, &strange), EINVAL);
	ck_fails(leave(id, group), EADDRNOTAVAIL);
	ck_assert(!is_readable(channel));
	destroy(fresh);
	destroy(stream);
	destroy(id);
}
END_TEST

START_TEST(refused_attributes)
{
	const uint32_t both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	const struct {
		uint32_t mask, flags;
		int error;
	} cases[] = {
		{RDMA_CM_JOIN_MC_ATTR_RESERVED | both, 0, ENOTSUP},
		{RDMA_CM_JOIN_MC_ATTR_ADDRESS, 0, EINVAL},
		{RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, 0, EINVAL},
		{both, RDMA_MC_JOIN_FLAG_RESERVED, EINVAL},
	};
	struct rdma_cm_join_mc_attr_ex attr = {.addr = socket_address(group, 0)};
	struct rdma_cm_id *id = new_bound_id();

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		attr.comp_mask = cases[i].mask;
		attr.join_flags = cases[i].flags;
		ck_fails(rdma_join_multicast_ex(id, &attr, NULL), cases[i].error);
	}
	attr.comp_mask = both;
	attr.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
	ck_assert_int_eq(rdma_join_multicast_ex(id, &attr, NULL), 0);
	ck_assert(is_joined(group));
	destroy(id);
}
END_TEST

/* MULTICAST_ERROR: a group takes no more QPs, and that is found when the event is taken. */
START_TEST(group_is_full)
{
	struct rdma_cm_id *id = new_bound_id(), **others;
	struct ibv_device_attr device;
	struct rdma_cm_event *event;

	create_qp(id);
	ck_assert_int_eq(ibv_query_device(id->verbs, &device), 0);
	others = calloc(device.max_mcast_qp_attach, sizeof(*others));
	for (int i = 0; i < device.max_mcast_qp_attach; i++) {
		others[i] = new_bound_id();
		create_qp(others[i]);
		ck_assert_int_eq(join(others[i], group), 0);
		joined(others[i]);
	}
	ck_assert_int_eq(join(id, group), 0);
	event = next_event(channel, RDMA_CM_EVENT_MULTICAST_ERROR, -ENOMEM);
	ck_assert_ptr_eq(event->id, id);
	ck_assert_ptr_eq(event->param.ud.private_data, id);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	ck_assert_int_eq(leave(id, group), 0);
	destroy(others[0]);
	ck_assert_int_eq(join(id, group), 0);
	joined(id);
	destroy(id);
	for (int i = 1; i < device.max_mcast_qp_attach; i++)
		destroy(others[i]);
	free(others);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("groups");
	TCase *tests = tcase_create("groups");

	fixture_environment();
	snprintf(group, sizeof(group), "239%s", strchr(fixture_address(), '.'));
	snprintf(other_group, sizeof(other_group), "238%s", strchr(fixture_address(), '.'));
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, joining_tells_how_to_send);
	tcase_add_test(tests, members_receive);
	tcase_add_test(tests, sending_only);
	tcase_add_test(tests, joining_without_a_queue_pair);
	tcase_add_test(tests, joining_by_gid);
	tcase_add_test(tests, synchronous_ids);
	tcase_add_test(tests, after_resolving);
	tcase_add_test(tests, leaving_cancels);
	tcase_add_test(tests, leaving_waits_for_acks);
	tcase_add_test(tests, destroying_leaves);
	tcase_add_test(tests, migrating_with_the_event);
	tcase_add_test(tests, refused);
	tcase_add_test(tests, refused_attributes);
	tcase_add_test(tests, group_is_full);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
