/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast by verbs alone: each process has several QPs in one group, and every
 * one of them gets every message once, those of its own process and its own
 * among them. A QP that has left gets none; one that never was in the group may
 * send to it.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

#include "scenario.h"

#define MEMBERS 3
#define MESSAGES 24 /* of each sender */
#define SLOT 2048u
#define GRH 40
#define QKEY 0x22222222

struct member {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint32_t posted;
};

struct group {
	struct pair *pair; /* its QP is not in the group, but sends to it */
	union ibv_gid gid;
	struct ibv_ah *ah;
	struct member members[MEMBERS];
};

/* One that only this pair uses. */
static union ibv_gid group_of(struct pair *pair)
{
	const union ibv_gid *server = pair->server ? &pair->local.gid : &pair->remote.gid;
	union ibv_gid gid = *server;

	if (server->global.subnet_prefix == 0) {
		gid.raw[12] = 239;
	} else {
		gid.raw[0] = 0xff;
		gid.raw[1] = 0x05; /* transient, site-local */
	}
	return gid;
}

static void move(struct ibv_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .qkey = QKEY};

	CHECK_EQUAL(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), 0);
}

/* A QP that was just created to RTS. */
static void ready(struct member *member)
{
	move(member->qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	move(member->qp, IBV_QPS_RTR, 0);
	move(member->qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	member->posted = 0;
}

static void open_member(struct pair *pair, struct member *member)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_recv_wr = 4 * MESSAGES,
			.max_recv_sge = 1,
			.max_send_wr = MESSAGES,
			.max_send_sge = 1},
		.qp_type = IBV_QPT_UD,
	};

	member->cq = ibv_create_cq(pair->context, 4 * MESSAGES, NULL, NULL, 0);
	CHECK(member->cq);
	init.send_cq = init.recv_cq = member->cq;
	member->qp = ibv_create_qp(pair->pd, &init);
	CHECK(member->qp);
	ready(member);
}

/* Where receive @number of member @index lies; behind all of them, what is sent. */
static size_t slot_of(uint32_t index, uint32_t number)
{
	return (index * 4 * MESSAGES + number) * (SLOT + GRH);
}

static void receive(struct group *group, uint32_t index)
{
	struct member *member = &group->members[index];
	struct ibv_sge sge = pair_sge(group->pair, slot_of(index, member->posted), SLOT + GRH);
	struct ibv_recv_wr wr = {.wr_id = member->posted++, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQUAL(ibv_post_recv(member->qp, &wr, &bad), 0);
}

static void group_open(struct group *group, struct pair *pair)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	pair_open(pair, &(struct pair_options){.type = IBV_QPT_UD, .memory = slot_of(MEMBERS, 2)});
	group->pair = pair;
	group->gid = attr.grh.dgid = group_of(pair);
	group->ah = ibv_create_ah(pair->pd, &attr);
	CHECK(group->ah);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		open_member(pair, &group->members[i]);
		CHECK_EQUAL(ibv_attach_mcast(group->members[i].qp, &group->gid, 0), 0);
		for (uint32_t k = 0; k < 3 * MESSAGES; k++)
			receive(group, i);
	}
	pair_barrier(pair);
}

static void group_close(struct group *group)
{
	pair_barrier(group->pair);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		CHECK_EQUAL(ibv_destroy_qp(group->members[i].qp), 0);
		CHECK_EQUAL(ibv_destroy_cq(group->members[i].cq), 0);
	}
	CHECK_EQUAL(ibv_destroy_ah(group->ah), 0);
	pair_close(group->pair);
}

static uint32_t size_of(uint32_t number)
{
	return number * 89 % 1025;
}

/*
 * Message @number through @qp. Its first number tells the side, so that both count for themselves.
 */
static void send_message(struct group *group, struct ibv_qp *qp, struct ibv_cq *cq, uint32_t number)
{
	struct pair *pair = group->pair;
	struct ibv_sge sge = pair_sge(pair, slot_of(MEMBERS, 0), size_of(number));
	struct ibv_send_wr wr = {.wr_id = 1000 + number,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(number),
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	wr.wr.ud.ah = group->ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	pattern_fill(pair->memory + slot_of(MEMBERS, 0), sge.length, number);
	CHECK_EQUAL(ibv_post_send(qp, &wr, &bad), 0);
	/* The member's own CQ has receives as well; that they come is looked at later. */
	if (cq == pair->send_cq)
		pair_expect(pair, cq, wr.wr_id, &wc);
}

/* The next message of member @index, by polling. Sends complete there too. */
static uint32_t next_message(struct group *group, uint32_t index)
{
	struct member *member = &group->members[index];
	struct ibv_wc wc;
	uint32_t number;

	for (int moment = 0;; moment++) {
		if (ibv_poll_cq(member->cq, 1, &wc) == 1) {
			CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_RECV)
				break;
		} else if (moment > 1000) {
			poll(NULL, 0, 1);
			CHECK(moment < 20000);
		}
	}
	number = ntohl(wc.imm_data);
	CHECK_EQUAL(wc.byte_len, GRH + size_of(number));
	CHECK(wc.wc_flags & IBV_WC_GRH);
	CHECK(pattern_matches(group->pair->memory + slot_of(index, wc.wr_id) + GRH, size_of(number),
			      number));
	return number;
}

/* Nothing is on its way to any member: a datagram is there when its sender goes on. */
static void expect_silence(struct group *group)
{
	struct ibv_wc wc;

	poll(NULL, 0, 20);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		while (ibv_poll_cq(group->members[i].cq, 1, &wc) == 1)
			CHECK_EQUAL(wc.opcode, IBV_WC_SEND);
	}
}

/* Messages 1000 * side + 0, 1, 2, ... of both sides, each side's in order. */
static void receive_both(struct group *group, uint32_t index)
{
	uint32_t next[2] = {0, 0};

	while (next[0] < MESSAGES || next[1] < MESSAGES) {
		uint32_t number = next_message(group, index), side = number / 1000;

		CHECK(side < 2);
		CHECK_EQUAL(number, side * 1000 + next[side]);
		next[side]++;
	}
}

static void multicast(struct pair *pair)
{
	struct member *sender;
	struct group group;

	group_open(&group, pair);
	sender = &group.members[1];
	for (uint32_t i = 0; i < MESSAGES; i++)
		send_message(&group, sender->qp, sender->cq, pair->server * 1000 + i);
	for (uint32_t i = 0; i < MEMBERS; i++)
		receive_both(&group, i);
	pair_barrier(pair);
	expect_silence(&group);

	/* A QP that isn't in the group sends to it. */
	pair_barrier(pair);
	if (pair->server)
		send_message(&group, pair->qp, pair->send_cq, 77);
	for (uint32_t i = 0; i < MEMBERS; i++)
		CHECK_EQUAL(next_message(&group, i), 77);

	/* One after the other leaves, until no member is left on this side. */
	for (uint32_t left = 1; left <= MEMBERS; left++) {
		CHECK_EQUAL(ibv_detach_mcast(group.members[left - 1].qp, &group.gid, 0), 0);
		pair_barrier(pair);
		if (!pair->server)
			send_message(&group, pair->qp, pair->send_cq, 100 + left);
		for (uint32_t i = left; i < MEMBERS; i++)
			CHECK_EQUAL(next_message(&group, i), 100 + left);
		pair_barrier(pair);
		expect_silence(&group);
	}
	group_close(&group);
}

/* Member 0 doesn't get what it sends itself: the other member and the other side do. */
static void multicast_own(struct pair *pair)
{
	struct ibv_qp_init_attr_ex init = {
		.cap = {.max_recv_wr = 4 * MESSAGES,
			.max_recv_sge = 1,
			.max_send_wr = MESSAGES,
			.max_send_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};
	struct member *sender;
	struct group group;

	group_open(&group, pair);
	sender = &group.members[0];
	CHECK_EQUAL(ibv_detach_mcast(sender->qp, &group.gid, 0), 0);
	CHECK_EQUAL(ibv_destroy_qp(sender->qp), 0);
	init.pd = pair->pd;
	init.send_cq = init.recv_cq = sender->cq;
	sender->qp = ibv_create_qp_ex(pair->context, &init);
	CHECK(sender->qp);
	ready(sender);
	CHECK_EQUAL(ibv_attach_mcast(sender->qp, &group.gid, 0), 0);
	for (uint32_t k = 0; k < 3 * MESSAGES; k++)
		receive(&group, 0);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MESSAGES; i++)
		send_message(&group, sender->qp, sender->cq, pair->server * 1000 + i);
	for (uint32_t i = 0; i < MESSAGES; i++)
		CHECK_EQUAL(next_message(&group, 0), !pair->server * 1000 + i);
	for (uint32_t i = 1; i < MEMBERS; i++)
		receive_both(&group, i);
	pair_barrier(pair);
	expect_silence(&group);
	for (uint32_t i = 0; i < MEMBERS; i++)
		CHECK_EQUAL(ibv_detach_mcast(group.members[i].qp, &group.gid, 0), 0);
	group_close(&group);
}

/* The errors of the man page, and what of the limits a process can see. */
static void multicast_errors(struct pair *pair)
{
	struct ibv_device_attr device;
	union ibv_gid unicast;
	struct group group;
	struct ibv_qp *qp;

	group_open(&group, pair);
	qp = group.members[0].qp;
	unicast = pair->local.gid;
	CHECK_EQUAL(ibv_query_device(pair->context, &device), 0);
	CHECK(device.max_mcast_grp >= 8192 && device.max_mcast_qp_attach >= 56);
	CHECK(device.max_total_mcast_qp_attach >= 458752);
	CHECK_EQUAL(ibv_attach_mcast(qp, &unicast, 0), EINVAL);
	CHECK_EQUAL(ibv_detach_mcast(qp, &unicast, 0), EINVAL);
	CHECK_EQUAL(ibv_detach_mcast(pair->qp, &group.gid, 0), EINVAL);
	CHECK_EQUAL(ibv_attach_mcast(qp, &group.gid, 0), 0); /* once more changes nothing */
	CHECK_EQUAL(ibv_destroy_qp(qp), EBUSY);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		CHECK_EQUAL(ibv_detach_mcast(group.members[i].qp, &group.gid, 0), 0);
		CHECK_EQUAL(ibv_detach_mcast(group.members[i].qp, &group.gid, 0), EINVAL);
	}
	group_close(&group);
}

/* Asleep on the completion channel, a multicast wakes us: the pair's own QP is a member here. */
static void multicast_events(struct pair *pair)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *unicast;
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.type = IBV_QPT_UD, .events = true});
	attr.grh.dgid = group_of(pair);
	unicast = pair->ah;
	pair->ah = ibv_create_ah(pair->pd, &attr);
	CHECK(pair->ah);
	pair->remote.qpn = 0xffffff;
	CHECK_EQUAL(ibv_attach_mcast(pair->qp, &attr.grh.dgid, 0), 0);
	for (uint32_t i = 0; i < MESSAGES; i++)
		pair_receive(pair, i, i * SLOT, SLOT);
	pair_barrier(pair);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = pair_sge(pair, MESSAGES * SLOT, 100);
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED};

		/* By turns; the sender gets it as well. */
		if (i % 2 == pair->server) {
			poll(NULL, 0, 3); /* the other one is asleep by then */
			CHECK_EQUAL(pair_post(pair, &wr), 0);
			pair_expect(pair, pair->send_cq, i, &wc);
		}
		pair_expect(pair, pair->receive_cq, i, &wc);
		CHECK_EQUAL(wc.byte_len, GRH + 100);
		CHECK_EQUAL(wc.src_qp == pair->qp->qp_num, i % 2 == pair->server);
	}
	pair_barrier(pair);
	CHECK_EQUAL(ibv_detach_mcast(pair->qp, &attr.grh.dgid, 0), 0);
	CHECK_EQUAL(ibv_destroy_ah(unicast), 0);
	pair_close(pair);
}

const struct scenario scenarios_multicast[] = {
	{"multicast", multicast},
	{"multicast-own", multicast_own},
	{"multicast-errors", multicast_errors},
	{"multicast-events", multicast_events},
	{NULL, NULL},
};
