/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast (IBA 10.5): each UD QP that is attached to a group gets one copy of what is sent there.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <stdlib.h>

#include "pair.h"

#define QKEY 0x11111111 /* what world_modify_init() sets */
#define GRH 40
#define SLOT 1024
#define SLOTS 64
#define RECEIVED 1000 /* wr_id of receives; sends have smaller ones */

/* A QP, with the memory that it receives into and sends from, and a way to the group. */
struct member {
	struct node *node;
	struct qp *qp;
	struct mr *mr;
	struct ah *ah;
	uint8_t *memory; /* SLOTS receives, then what is sent */
};

static union ibv_gid group_gid(uint32_t number)
{
	struct in_addr address = {.s_addr = htonl(0xef4d0101 + number)};
	union ibv_gid gid;

	gid_from_ipv4(&gid, &address);
	return gid;
}

static struct ah *make_ah(struct node *node, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 7}};
	struct ah *ah;

	ck_assert_int_eq(ah_create(node->pd, &attr, &ah), 0);
	return ah;
}

static struct qp *make_qp(struct node *node, enum ibv_qp_type type)
{
	struct qp_options options = {.type = type,
				     .cap = {.max_send_wr = SLOTS,
					     .max_recv_wr = SLOTS,
					     .max_send_sge = 1,
					     .max_recv_sge = 1}};

	return world_qp(node, &options);
}

static void member_create(struct member *m, struct node *node)
{
	union ibv_gid gid = group_gid(0);

	m->node = node;
	m->qp = make_qp(node, IBV_QPT_UD);
	world_modify_init(m->qp, &world_connection);
	world_modify_rtr_to(m->qp, &gid, 0, &world_connection);
	world_modify_rts(m->qp, &world_connection);
	m->memory = calloc(SLOTS + 1, SLOT);
	m->mr = world_mr(node, m->memory, (SLOTS + 1) * SLOT, IBV_ACCESS_LOCAL_WRITE);
	m->ah = make_ah(node, &gid);
}

static void member_destroy(struct member *m)
{
	ck_assert_int_eq(qp_destroy(m->qp), 0);
	ah_destroy(m->ah);
	ck_assert_int_eq(mr_deregister(m->mr), 0);
	free(m->memory);
}

static int attach(struct member *m)
{
	union ibv_gid gid = group_gid(0);

	return mcast_attach(m->qp, &gid);
}

static int detach(struct member *m)
{
	union ibv_gid gid = group_gid(0);

	return mcast_detach(m->qp, &gid);
}

static void receive(struct member *m, unsigned int slot)
{
	ck_assert_int_eq(world_post_recv(m->qp, m->memory + slot * SLOT, SLOT, m->mr->ibv.lkey,
					 RECEIVED + slot),
			 0);
}

static void send_to(struct member *m, uint32_t qpn, uint32_t length, uint32_t number)
{
	struct ibv_sge sge = {(uintptr_t)m->memory + SLOTS * SLOT, length, m->mr->ibv.lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(number),
		.wr.ud = {.ah = &m->ah->ibv, .remote_qpn = qpn, .remote_qkey = QKEY},
	};

	ck_assert_int_eq(world_post_send(m->qp, &wr), 0);
}

static void send_number(struct member *m, uint32_t length, uint32_t number)
{
	send_to(m, QPN_MULTICAST, length, number);
}

static void expect_copy(struct member *m, struct member *sender, uint32_t length, uint32_t number)
{
	struct ibv_wc wc = world_completion(m->node, SECOND);

	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_ge(wc.wr_id, RECEIVED);
	ck_assert_uint_eq(ntohl(wc.imm_data), number);
	ck_assert_uint_eq(wc.byte_len, GRH + length);
	ck_assert_uint_eq(wc.src_qp, sender->qp->number);
	ck_assert_uint_eq(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	ck_assert_mem_eq(m->memory + (wc.wr_id - RECEIVED) * SLOT + GRH,
			 sender->memory + SLOTS * SLOT, length);
}

/* --- which QPs get it ------------------------------------------------------------------ */

/*
 * Nodes 0 and 1 have two QPs in the group each and node 2 one that isn't. 0: the
 * sender is a member and gets its own message; 1: it is not (send-only).
 */
START_TEST(copies)
{
	struct member members[5], *sender = _i == 0 ? &members[0] : &members[4];
	struct world world;
	struct iphdr ip;

	world_create(&world, 3, NULL, 1);
	for (int i = 0; i < 5; i++) {
		member_create(&members[i], &world.nodes[i / 2]);
		receive(&members[i], 0);
		if (i < 4)
			ck_assert_int_eq(attach(&members[i]), 0);
	}
	pair_fill(sender->memory + SLOTS * SLOT, 300, 5);
	send_number(sender, 300, 17);
	for (int i = 0; i < 4; i++)
		expect_copy(&members[i], sender, 300, 17);
	for (int i = 0; i < 3; i++)
		world_expect_none(&world.nodes[i], MS);
	memcpy(&ip, members[1].memory + 20, sizeof(ip));
	ck_assert_uint_eq(ntohl(ip.daddr), 0xef4d0101);
	ck_assert_uint_eq(ip.ttl, 7); /* other than unicast: the address vector's */
	for (int i = 0; i < 5; i++) {
		if (i < 4)
			ck_assert_int_eq(detach(&members[i]), 0);
		member_destroy(&members[i]);
	}
	world_destroy(&world);
}
END_TEST

/*
 * A QP that blocks its own multicast gets all but that: what another QP of its node sends, and
 * what a QP of its number on another node does. Its node's other QPs get its own.
 */
START_TEST(own_is_blocked)
{
	struct member a, b, other;
	struct world world;

	world_create(&world, 2, NULL, 1);
	/* By the seed, node 0's first QP has not the number of node 1's: make it so. */
	world.nodes[1].hca->qps.cursor = world.nodes[0].hca->qps.cursor;
	member_create(&a, &world.nodes[0]);
	member_create(&b, &world.nodes[0]);
	member_create(&other, &world.nodes[1]);
	ck_assert_uint_eq(a.qp->number, other.qp->number);
	a.qp->blocks_own_multicast = true;
	ck_assert_int_eq(attach(&a), 0);
	ck_assert_int_eq(attach(&b), 0);
	for (unsigned int i = 0; i < 3; i++) {
		receive(&a, i);
		receive(&b, i);
	}
	send_number(&a, 10, 1);
	expect_copy(&b, &a, 10, 1);
	world_expect_none(&world.nodes[0], MS);
	send_number(&b, 11, 2);
	expect_copy(&a, &b, 11, 2);
	expect_copy(&b, &b, 11, 2);
	send_number(&other, 12, 3);
	expect_copy(&a, &other, 12, 3);
	expect_copy(&b, &other, 12, 3);
	world_expect_none(&world.nodes[0], MS);
	/* What it sends where it is the only member is for no QP, and no error. */
	ck_assert_int_eq(detach(&b), 0);
	send_number(&a, 13, 4);
	world_expect_none(&world.nodes[0], MS);
	ck_assert_uint_eq(world.nodes[0].hca->counters->dropped_packets, 0);
	ck_assert_int_eq(detach(&a), 0);
	member_destroy(&a);
	member_destroy(&b);
	member_destroy(&other);
	world_destroy(&world);
}
END_TEST

/* Every QP makes its own checks: what one can't take the next one still gets. */
START_TEST(one_refuses)
{
	struct ibv_qp_attr attr = {.qkey = QKEY + 1};
	struct member members[3], sender;
	struct world world;

	world_create(&world, 2, NULL, 1);
	member_create(&sender, &world.nodes[1]);
	for (int i = 0; i < 3; i++) {
		member_create(&members[i], &world.nodes[0]);
		ck_assert_int_eq(attach(&members[i]), 0);
		if (i != 1 || _i != 1)
			receive(&members[i], 0);
	}
	if (_i == 0)
		ck_assert_int_eq(qp_modify(members[1].qp, &attr, IBV_QP_QKEY, 0), 0);
	if (_i == 2)
		world_modify_state(members[1].qp, IBV_QPS_RESET);
	send_number(&sender, 10, 1);
	expect_copy(&members[0], &sender, 10, 1);
	expect_copy(&members[2], &sender, 10, 1);
	world_expect_none(&world.nodes[0], MS);
	ck_assert_uint_eq(world.nodes[0].hca->counters->bad_qkey, _i == 0);
	ck_assert_uint_eq(world.nodes[0].hca->counters->dropped_packets, _i != 0);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(detach(&members[i]), 0);
		member_destroy(&members[i]);
	}
	member_destroy(&sender);
	world_destroy(&world);
}
END_TEST

/* 0: a QP's own number at a group's address; 1: QPN_MULTICAST at a QP's; 2: another group. */
START_TEST(wrong_address)
{
	struct member a, b;
	union ibv_gid gid = group_gid(1);
	struct world world;

	world_create(&world, 2, NULL, 1);
	member_create(&a, &world.nodes[0]);
	member_create(&b, &world.nodes[1]);
	ck_assert_int_eq(attach(&b), 0);
	receive(&b, 0);
	if (_i != 0) {
		ah_destroy(a.ah);
		a.ah = make_ah(a.node, _i == 1 ? &b.node->gids.entries[0].gid : &gid);
	}
	send_to(&a, _i == 0 ? b.qp->number : QPN_MULTICAST, 10, 1);
	world_expect_none(b.node, MS);
	/* The other group has no members: the datagram doesn't even arrive. */
	ck_assert_uint_eq(b.node->hca->counters->dropped_packets, _i != 2);
	ck_assert_int_eq(detach(&b), 0);
	member_destroy(&a);
	member_destroy(&b);
	world_destroy(&world);
}
END_TEST

/* --- attaching and detaching ------------------------------------------------------- */

START_TEST(attach_and_detach)
{
	struct member a, b;
	struct world world;

	world_create(&world, 2, NULL, 1);
	member_create(&a, &world.nodes[0]);
	member_create(&b, &world.nodes[1]);
	ck_assert_int_eq(detach(&b), EINVAL);
	ck_assert_int_eq(attach(&b), 0);
	ck_assert_int_eq(attach(&b), 0); /* ibv_attach_mcast(3): a single copy still */
	receive(&b, 0);
	receive(&b, 1);
	send_number(&a, 8, 1);
	expect_copy(&b, &a, 8, 1);
	world_expect_none(b.node, MS);
	ck_assert_int_eq(qp_destroy(b.qp), EBUSY);
	ck_assert_int_eq(detach(&b), 0);
	ck_assert_int_eq(detach(&b), EINVAL);
	ck_assert_int_eq(detach(&a), EINVAL);
	send_number(&a, 8, 2);
	world_expect_none(b.node, MS);
	ck_assert_int_eq(attach(&b), 0);
	send_number(&a, 8, 3);
	expect_copy(&b, &a, 8, 3);
	ck_assert_int_eq(detach(&b), 0);
	member_destroy(&a);
	member_destroy(&b);
	world_destroy(&world);
}
END_TEST

START_TEST(refused)
{
	union ibv_gid group = group_gid(0), unicast;
	struct world world;
	struct qp *ud, *rc;

	world_create(&world, 1, NULL, 1);
	unicast = world.nodes[0].gids.entries[0].gid;
	ud = make_qp(&world.nodes[0], IBV_QPT_UD);
	rc = make_qp(&world.nodes[0], IBV_QPT_RC);
	ck_assert_int_eq(mcast_attach(rc, &group), EINVAL);
	ck_assert_int_eq(mcast_attach(ud, &unicast), EINVAL);
	ck_assert_int_eq(mcast_detach(ud, &group), EINVAL);
	ck_assert_int_eq(qp_destroy(ud), 0);
	ck_assert_int_eq(qp_destroy(rc), 0);
	world_destroy(&world);
}
END_TEST

/* At least rxe's, and true: with small ones in their place each is found to hold. */
START_TEST(limits)
{
	struct ibv_device_attr *device;
	struct world world;
	struct qp *qps[3];
	union ibv_gid gid;

	world_create(&world, 1, NULL, 1);
	device = &world.nodes[0].hca->limits.device;
	ck_assert_int_ge(device->max_mcast_grp, 8192);
	ck_assert_int_ge(device->max_mcast_qp_attach, 56);
	ck_assert_int_ge(device->max_total_mcast_qp_attach, 458752);
	device->max_mcast_grp = _i == 0 ? 2 : 3;
	device->max_mcast_qp_attach = _i == 1 ? 2 : 3;
	device->max_total_mcast_qp_attach = _i == 2 ? 2 : 9;
	for (int i = 0; i < 3; i++)
		qps[i] = make_qp(&world.nodes[0], IBV_QPT_UD);
	for (int i = 0; i < 3; i++) {
		gid = group_gid(_i == 0 ? i : _i == 2 && i == 2);
		ck_assert_int_eq(mcast_attach(qps[_i == 0 ? 0 : i], &gid), i == 2 ? ENOMEM : 0);
	}
	gid = group_gid(0);
	ck_assert_int_eq(mcast_detach(qps[0], &gid), 0);
	gid = group_gid(_i == 0 ? 2 : 0);
	ck_assert_int_eq(mcast_attach(qps[2], &gid), 0);
	ck_assert_int_eq(mcast_detach(qps[2], &gid), 0);
	gid = group_gid(_i == 0);
	ck_assert_int_eq(mcast_detach(qps[_i != 0], &gid), 0);
	ck_assert_ptr_null(world.nodes[0].hca->mcast.groups);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(qp_destroy(qps[i]), 0);
	world_destroy(&world);
}
END_TEST

/* --- joining ------------------------------------------------------------------------ */

static unsigned int joins, leaves;
static int join_error;

static int counting_join(struct link *link, const union ibv_gid *group, const union ibv_gid *source)
{
	joins++;
	return join_error;
}

static void counting_leave(struct link *link, const union ibv_gid *group)
{
	leaves++;
}

static void count_joins(struct link *link, struct link_ops *ops)
{
	*ops = *link->ops;
	ops->join = counting_join;
	ops->leave = counting_leave;
	link->ops = ops;
	joins = leaves = 0;
	join_error = 0;
}

/* The link is in the group as long as a QP is attached, or a join hasn't been undone. */
START_TEST(joined_and_attached)
{
	union ibv_gid gid = group_gid(0), *source;
	struct link_ops ops;
	struct world world;
	struct member m, other;

	world_create(&world, 1, NULL, 1);
	source = &world.nodes[0].gids.entries[0].gid;
	member_create(&m, &world.nodes[0]);
	member_create(&other, &world.nodes[0]);
	count_joins(world.nodes[0].link, &ops);
	ck_assert_int_eq(mcast_join(m.node->hca, &gid, source), 0);
	ck_assert_int_eq(mcast_join(m.node->hca, &gid, source), 0);
	ck_assert_int_eq(attach(&m), 0);
	ck_assert_uint_eq(joins, 2); /* attaching adds no place to those joined on purpose */
	mcast_leave(m.node->hca, &gid);
	mcast_leave(m.node->hca, &gid);
	mcast_leave(m.node->hca, &gid); /* in vain */
	ck_assert_uint_eq(leaves, 0);
	ck_assert_int_eq(detach(&m), 0);
	ck_assert_uint_eq(leaves, 1);
	ck_assert_int_eq(attach(&m), 0);
	ck_assert_int_eq(attach(&other), 0);
	ck_assert_uint_eq(joins, 3); /* nor does one more member */
	ck_assert_int_eq(detach(&other), 0);
	ck_assert_uint_eq(leaves, 1);
	ck_assert_int_eq(mcast_join(m.node->hca, &gid, source), 0);
	ck_assert_int_eq(detach(&m), 0);
	ck_assert_uint_eq(leaves, 1);
	member_destroy(&other);
	member_destroy(&m);
	world_destroy(&world); /* what was joined and never left */
	ck_assert_uint_eq(leaves, 2);
}
END_TEST

START_TEST(join_fails)
{
	static const int errors[][2] = {{EMFILE, ENOMEM}, {ENOBUFS, ENOMEM}, {ENODEV, ENODEV}};
	union ibv_gid gid = group_gid(0);
	struct link_ops ops;
	struct world world;
	struct member m;

	world_create(&world, 1, NULL, 1);
	member_create(&m, &world.nodes[0]);
	count_joins(world.nodes[0].link, &ops);
	join_error = errors[_i][0];
	ck_assert_int_eq(attach(&m), errors[_i][1]);
	ck_assert_int_eq(mcast_join(m.node->hca, &gid, NULL), errors[_i][1]);
	ck_assert_int_eq(detach(&m), EINVAL);
	ck_assert_ptr_null(m.node->hca->mcast.groups);
	join_error = 0;
	ck_assert_int_eq(attach(&m), 0);
	ck_assert_int_eq(detach(&m), 0);
	member_destroy(&m);
	world_destroy(&world);
}
END_TEST

/* --- a bad network ------------------------------------------------------------------- */

/* What arrives is whole, and no more often than it was sent and duplicated. */
START_TEST(stress)
{
	enum { NODES = 8, ROUNDS = 20 };
	static const struct sim_options network = {.latency = 1000,
						   .jitter = 2000,
						   .drop = 0.1,
						   .duplicate = 0.1,
						   .reorder = 0.1,
						   .corrupt = 0.1};
	struct sim_statistics statistics;
	struct member members[NODES];
	unsigned int received = 0;
	struct world world;
	struct ibv_wc wc;

	world_create(&world, NODES, &network, _i);
	for (int i = 0; i < NODES; i++) {
		member_create(&members[i], &world.nodes[i]);
		ck_assert_int_eq(attach(&members[i]), 0);
		pair_fill(members[i].memory + SLOTS * SLOT, SLOT, i);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < NODES; i++)
			for (int slot = 0; slot < 3 * NODES; slot++)
				receive(&members[i], slot);
		for (int i = 0; i < NODES; i++)
			send_number(&members[i], 100 + i, i);
		if (round == ROUNDS / 2)
			ck_assert_int_eq(detach(&members[NODES - 1]), 0);
		world_run(&world, MS);
		for (int i = 0; i < NODES; i++) {
			const uint8_t *slots = members[i].memory;

			while (world_poll(&world.nodes[i], &wc)) {
				uint32_t from = ntohl(wc.imm_data);

				must(wc.status == IBV_WC_SUCCESS && from < NODES);
				must(wc.byte_len == GRH + 100 + from);
				must(memcmp(slots + (wc.wr_id - RECEIVED) * SLOT + GRH,
					    members[from].memory + SLOTS * SLOT, 100 + from) == 0);
				must(i < NODES - 1 || round <= ROUNDS / 2);
				received++;
			}
			world_modify_state(members[i].qp, IBV_QPS_RESET);
			world_modify_init(members[i].qp, &world_connection);
			world_modify_state(members[i].qp, IBV_QPS_RTR);
			world_modify_rts(members[i].qp, &world_connection);
		}
	}
	sim_statistics(world.sim, &statistics);
	ck_assert_uint_eq(statistics.sent + statistics.duplicated,
			  statistics.delivered + statistics.dropped);
	ck_assert_uint_gt(statistics.corrupted, 0);
	/* Members get their own messages, too; corruption is found by the ICRC. */
	ck_assert_uint_le(received, statistics.delivered - statistics.corrupted);
	ck_assert_uint_gt(received, statistics.sent / 2);
	for (int i = 0; i < NODES; i++) {
		ck_assert_int_eq(detach(&members[i]), i == NODES - 1 ? EINVAL : 0);
		member_destroy(&members[i]);
	}
	world_destroy(&world);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("mcast");

	tcase_add_loop_test(tcase, copies, 0, 2);
	tcase_add_test(tcase, own_is_blocked);
	tcase_add_loop_test(tcase, one_refuses, 0, 3);
	tcase_add_loop_test(tcase, wrong_address, 0, 3);
	tcase_add_test(tcase, attach_and_detach);
	tcase_add_test(tcase, refused);
	tcase_add_loop_test(tcase, limits, 0, 3);
	tcase_add_test(tcase, joined_and_attached);
	tcase_add_loop_test(tcase, join_fails, 0, 3);
	tcase_add_loop_test(tcase, stress, 0, 20);
	return world_main("mcast", (TCase *const[]){tcase, NULL});
}
