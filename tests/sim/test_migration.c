/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Automatic path migration (IBA 17.2.8): the states with a peer that is the
 * test, then between two nodes of two addresses each, clean, under loss, and with paths that die.
 */
#include <errno.h>
#include <stdio.h>

#include "emu/transport/destination.h"
#include "pair.h"
#include "peer.h"
#include "stress.h"

#define ALTERNATE 1 /* the index of the second address of each node */

static struct ibv_qp_attr alternate_attr(const union ibv_gid *gid)
{
	return (struct ibv_qp_attr){
		.path_mig_state = IBV_MIG_REARM,
		.alt_port_num = 1,
		.alt_timeout = 10,
		.alt_ah_attr = {.is_global = 1,
				.port_num = 1,
				.grh = {.dgid = *gid, .sgid_index = ALTERNATE}},
	};
}

static int set_state(struct qp *qp, enum ibv_mig_state state)
{
	struct ibv_qp_attr attr = {.path_mig_state = state};

	return world_modify(qp, &attr, IBV_QP_PATH_MIG_STATE);
}

static void expect_state(struct qp *qp, enum ibv_mig_state state)
{
	ck_assert_int_eq(world_query(qp).path_mig_state, state);
}

/* --- one QP, whose peer is the test ------------------------------------------------- */

/* What the peer has beside its own path. */
struct paths {
	struct peer peer;
	struct path alternate, foreign;
};

static void paths_create(struct paths *p, enum ibv_qp_type type)
{
	struct link *link;
	union ibv_gid gid;

	peer_create(&p->peer, type, NULL);
	link = p->peer.link;
	world_add_address(p->peer.node, 1);
	p->alternate = p->foreign = p->peer.path;
	p->alternate.destination = p->peer.node->gids.entries[ALTERNATE].gid;
	gid_from_text(&p->alternate.source, "10.1.255.1");
	gid_from_text(&p->foreign.source, "10.2.255.1");
	ck_assert_int_eq(link->ops->add_address(link, &p->alternate.source, 0), 0);
	ck_assert_int_eq(link->ops->add_address(link, &p->foreign.source, 0), 0);
	gid_from_text(&gid, "10.1.255.1");
	ck_assert(gid_equal(&gid, &p->alternate.source));
}

static void load(struct paths *p, int mask)
{
	struct ibv_qp_attr attr = alternate_attr(&p->alternate.source);

	ck_assert_int_eq(world_modify(p->peer.qp, &attr, mask), 0);
}

/* The alternate path has the addresses that the first one had. */
static void load_first(struct paths *p)
{
	struct ibv_qp_attr attr = alternate_attr(&p->peer.path.source);

	attr.alt_ah_attr.grh.sgid_index = 0;
	ck_assert_int_eq(world_modify(p->peer.qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
			 0);
}

/* A WRITE from the peer on @path, with MigReq or not. */
static void request(struct paths *p, const struct path *path, bool migrated)
{
	struct peer_packet packet = {
		.opcode = p->peer.qp->type->transport | WIRE_WRITE_ONLY,
		.psn = p->peer.psn,
		.path = path,
		.migrated = migrated,
		.length = 8,
		.va = (uintptr_t)p->peer.memory,
		.rkey = p->peer.mr->ibv.rkey,
		.dma_length = 8,
	};

	peer_send(&p->peer, &packet);
	world_run(&p->peer.world, MS);
}

/* It is taken: RC's acknowledgement comes on @answer with MigReq as said. */
static void expect_taken(struct paths *p, const struct path *answer, bool migrated)
{
	struct packet packet = peer_see_op(&p->peer, "RC_ACKNOWLEDGE");

	ck_assert_uint_eq(packet_syndrome(&packet), AETH_ACK_UNLIMITED);
	ck_assert_uint_eq(packet.psn, p->peer.psn);
	ck_assert(gid_equal(&p->peer.from, &answer->destination));
	ck_assert(gid_equal(&p->peer.to, &answer->source));
	ck_assert_int_eq(packet_requests_migration(&packet), migrated);
	p->peer.psn = psn_add(p->peer.psn, 1);
}

static void expect_events(struct paths *p, unsigned int migrations, unsigned int errors)
{
	ck_assert_uint_eq(p->peer.node->events[IBV_EVENT_PATH_MIG], migrations);
	ck_assert_uint_eq(p->peer.node->events[IBV_EVENT_PATH_MIG_ERR], errors);
}

static void arm(struct paths *p)
{
	load(p, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	expect_state(p->peer.qp, IBV_MIG_REARM);
	request(p, NULL, false);
	expect_state(p->peer.qp, IBV_MIG_ARMED);
	if (p->peer.qp->type->reliable)
		expect_taken(p, &p->peer.path, false);
}

/* The peer migrates, and this side is or goes there, too. */
static void migrate(struct paths *p)
{
	request(p, &p->alternate, true);
	expect_taken(p, &p->alternate, true);
}

/* As rxe, a QP without an alternate path sends MigReq 0, and doesn't look at it. */
START_TEST(without_alternate_path)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	expect_state(p.peer.qp, IBV_MIG_MIGRATED);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_MIGRATED), 0);
	request(&p, NULL, false);
	expect_taken(&p, &p.peer.path, false);
	request(&p, NULL, true);
	expect_taken(&p, &p.peer.path, false);
	request(&p, &p.alternate, true);
	peer_see_none(&p.peer, MS);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), EINVAL);
	expect_state(p.peer.qp, IBV_MIG_MIGRATED);
	expect_events(&p, 0, 0);
	peer_destroy(&p.peer);
}
END_TEST

static const struct {
	const char *what;
	uint8_t port, path_port, timeout, pkey_index, sgid_index;
	bool local, ipv6;
	int state;
	int error;
} bad[] = {
	{"port 0", .port = 0, .path_port = 1, .error = EINVAL},
	{"ports differ", .port = 1, .path_port = 0, .error = EINVAL},
	{"port 9", .port = 9, .path_port = 9, .error = EINVAL},
	{"timeout", .port = 1, .path_port = 1, .timeout = 32, .error = EINVAL},
	{"P_Key", .port = 1, .path_port = 1, .pkey_index = 1, .error = EINVAL},
	{"no GRH", .port = 1, .path_port = 1, .local = true, .error = EINVAL},
	{"family", .port = 1, .path_port = 1, .ipv6 = true, .error = EINVAL},
	{"empty GID", .port = 1, .path_port = 1, .sgid_index = 7, .error = ENODATA},
	{"to ARMED", .port = 1, .path_port = 1, .state = IBV_MIG_ARMED, .error = EINVAL},
	{"no state", .port = 1, .path_port = 1, .state = 3, .error = EINVAL},
};

START_TEST(refused)
{
	struct ibv_qp_attr attr;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	attr = alternate_attr(&p.alternate.source);
	attr.alt_port_num = bad[_i].port;
	attr.alt_ah_attr.port_num = bad[_i].path_port;
	attr.alt_timeout = bad[_i].timeout;
	attr.alt_pkey_index = bad[_i].pkey_index;
	attr.alt_ah_attr.is_global = !bad[_i].local;
	if (bad[_i].sgid_index)
		attr.alt_ah_attr.grh.sgid_index = bad[_i].sgid_index;
	if (bad[_i].ipv6)
		gid_from_text(&attr.alt_ah_attr.grh.dgid, "fd00::1");
	if (bad[_i].state)
		attr.path_mig_state = bad[_i].state;
	ck_assert_msg(world_modify(p.peer.qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) ==
			      bad[_i].error,
		      "%s", bad[_i].what);
	expect_state(p.peer.qp, IBV_MIG_MIGRATED);
	ck_assert_int_eq(world_query(p.peer.qp).alt_port_num, 0);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), EINVAL);
	peer_destroy(&p.peer);
}
END_TEST

/* A path whose network device can't carry the path MTU. */
START_TEST(refused_mtu)
{
	struct ibv_qp_attr attr;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	attr = alternate_attr(&p.alternate.source);
	p.peer.node->gids.entries[ALTERNATE].mtu = 1000;
	ck_assert_int_eq(world_modify(p.peer.qp, &attr, IBV_QP_ALT_PATH), EINVAL);
	p.peer.node->gids.entries[ALTERNATE].mtu = 1500;
	ck_assert_int_eq(world_modify(p.peer.qp, &attr, IBV_QP_ALT_PATH), 0);
	peer_destroy(&p.peer);
}
END_TEST

/* Each state says what it is by MigReq, and only a peer that is ready, too, arms. */
START_TEST(states)
{
	struct ibv_qp_attr attr;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	load(&p, IBV_QP_ALT_PATH);
	attr = world_query(p.peer.qp);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_MIGRATED);
	ck_assert_int_eq(attr.alt_port_num, 1);
	ck_assert_int_eq(attr.alt_timeout, 10);
	ck_assert_int_eq(attr.alt_ah_attr.grh.sgid_index, ALTERNATE);
	ck_assert(gid_equal(&attr.alt_ah_attr.grh.dgid, &p.alternate.source));
	request(&p, NULL, false);
	expect_taken(&p, &p.peer.path, true);
	expect_state(p.peer.qp, IBV_MIG_MIGRATED);

	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), 0);
	request(&p, NULL, true);
	expect_taken(&p, &p.peer.path, false);
	expect_state(p.peer.qp, IBV_MIG_REARM);
	/* Annex A17.9.3: a CNP has zeros there. */
	peer_send(&p.peer, &(struct peer_packet){.opcode = WIRE_OPCODE_CNP});
	world_run(&p.peer.world, MS);
	expect_state(p.peer.qp, IBV_MIG_REARM);
	request(&p, NULL, false);
	expect_taken(&p, &p.peer.path, false);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	request(&p, NULL, true); /* not on the alternate path */
	expect_taken(&p, &p.peer.path, false);
	expect_state(p.peer.qp, IBV_MIG_ARMED);

	/* Back from REARM nothing migrates. */
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), 0);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_MIGRATED), 0);
	request(&p, NULL, false);
	expect_taken(&p, &p.peer.path, true);
	expect_events(&p, 0, 0);
	peer_destroy(&p.peer);
}
END_TEST

/* The peer migrates: this side follows, and its attributes are those of the other path. */
START_TEST(peer_migrates)
{
	struct ibv_qp_attr attr;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	migrate(&p);
	expect_events(&p, 1, 0);
	attr = world_query(p.peer.qp);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_MIGRATED);
	ck_assert_int_eq(attr.timeout, 10);
	ck_assert_int_eq(attr.alt_timeout, world_connection.timeout);
	ck_assert_int_eq(attr.ah_attr.grh.sgid_index, ALTERNATE);
	ck_assert_int_eq(attr.alt_ah_attr.grh.sgid_index, 0);
	ck_assert(gid_equal(&attr.ah_attr.grh.dgid, &p.alternate.source));
	ck_assert(gid_equal(&attr.alt_ah_attr.grh.dgid, &p.peer.path.source));

	/* A late packet, the answer to which goes where all goes; and back again. */
	request(&p, NULL, false);
	expect_taken(&p, &p.alternate, true);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), 0);
	request(&p, &p.alternate, false);
	expect_taken(&p, &p.alternate, false);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	request(&p, NULL, false); /* now it is too late */
	peer_see_none(&p.peer, MS);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	request(&p, NULL, true);
	expect_taken(&p, &p.peer.path, true);
	expect_events(&p, 2, 0);
	peer_destroy(&p.peer);
}
END_TEST

/* What is under way may be lost with the path that the peer has left: it isn't waited for. */
START_TEST(peer_migrates_meanwhile)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 0);
	peer_see_op(&p.peer, "RC_RDMA_WRITE_ONLY");
	request(&p, &p.alternate, true);
	peer_see_op(&p.peer, "RC_RDMA_WRITE_ONLY");
	ck_assert(gid_equal(&p.peer.to, &p.alternate.source));
	expect_taken(&p, &p.alternate, true);
	ck_assert_uint_eq(p.peer.node->hca->counters->timeouts, 0);
	peer_destroy(&p.peer);
}
END_TEST

static enum link_sender foreign_sender(struct link *link, const struct link_frame *frame)
{
	return LINK_SENDER_FOREIGN;
}

/* Any user of this machine can send from the peer's addresses: nothing comes of it. */
static void request_by_another_user(struct paths *p, const struct path *path, bool migrated)
{
	struct link *link = p->peer.node->link;
	struct link_ops ops = *link->ops;

	ops.sender = foreign_sender;
	link->ops = &ops;
	request(p, path, migrated);
	peer_see_none(&p->peer, MS);
	link->ops = p->peer.link->ops;
}

/* Nor where the alternate path was the path before. */
START_TEST(another_user_migrates)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	if (_i) {
		migrate(&p);
		load_first(&p);
		request(&p, &p.alternate, false);
		expect_taken(&p, &p.alternate, false);
	}
	request_by_another_user(&p, _i ? NULL : &p.alternate, true);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	peer_destroy(&p.peer);
}
END_TEST

/* Nor when this side has migrated. */
START_TEST(another_user_on_the_alternate_path)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_MIGRATED), 0);
	request_by_another_user(&p, &p.alternate, true);
	migrate(&p);
	peer_destroy(&p.peer);
}
END_TEST

/* A new alternate path isn't one that was left, as the one before it is. */
START_TEST(another_alternate_path)
{
	struct ibv_qp_attr attr;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	migrate(&p);
	attr = alternate_attr(&p.foreign.source);
	ck_assert_int_eq(world_modify(p.peer.qp, &attr, IBV_QP_ALT_PATH), 0);
	p.foreign.destination = p.alternate.destination;
	request(&p, &p.foreign, false);
	request(&p, NULL, false);
	peer_see_none(&p.peer, MS);
	expect_events(&p, 1, 0);
	peer_destroy(&p.peer);
}
END_TEST

/* An alternate path that differs from the path in what no packet shows, its timeout say. */
START_TEST(peer_migrates_on_the_same_addresses)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	load_first(&p);
	request(&p, NULL, false);
	expect_taken(&p, &p.peer.path, false);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	request(&p, NULL, true);
	expect_taken(&p, &p.peer.path, true);
	request(&p, NULL, true);
	expect_taken(&p, &p.peer.path, true);
	expect_events(&p, 1, 0);
	ck_assert_int_eq(world_query(p.peer.qp).timeout, 10);
	peer_destroy(&p.peer);
}
END_TEST

/* IBA 11.6.3.2: what the peer asks for can't be, and it is told once. */
START_TEST(peer_migrates_in_vain)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	load(&p, IBV_QP_ALT_PATH | (_i ? IBV_QP_PATH_MIG_STATE : 0));
	for (int i = 0; i < 3; i++)
		request(&p, &p.alternate, true);
	expect_events(&p, 0, 1);
	peer_see_none(&p.peer, MS);
	load(&p, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	request(&p, NULL, false);
	expect_taken(&p, &p.peer.path, false);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	/* A path that isn't known, or half of it; and the alternate one without MigReq. */
	request(&p, &p.foreign, true);
	expect_events(&p, 0, 2);
	p.foreign.source = p.alternate.source;
	request(&p, &p.foreign, true);
	request(&p, &p.foreign, false);
	request(&p, &p.alternate, false);
	peer_see_none(&p.peer, MS);
	expect_events(&p, 0, 2);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	migrate(&p);
	expect_events(&p, 1, 2);
	/* Of the path that it has now it is told anew. */
	request(&p, &p.foreign, true);
	peer_see_none(&p.peer, MS);
	expect_events(&p, 1, 3);
	peer_destroy(&p.peer);
}
END_TEST

/*
 * On demand: what is under way is begun again with the oldest packet. A consumer that asks for
 * REARM at once mustn't make the peer miss that this side has migrated.
 */
START_TEST(on_demand)
{
	struct peer_packet ack = {RC(WIRE_ACKNOWLEDGE), .syndrome = AETH_ACK_UNLIMITED};
	struct packet packet;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, i);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(peer_see(&p.peer).psn, psn_add(FIRST_PSN, i));
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_MIGRATED), 0);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), 0);
	expect_state(p.peer.qp, IBV_MIG_REARM);
	packet = peer_see(&p.peer);
	expect_events(&p, 1, 0);
	ck_assert_uint_eq(packet.psn, FIRST_PSN);
	ck_assert(gid_equal(&p.peer.from, &p.alternate.destination));
	ck_assert(gid_equal(&p.peer.to, &p.alternate.source));
	ck_assert(packet_requests_migration(&packet));
	ck_assert(packet.ack_request);
	ck_assert(peer_wait(&p.peer, &packet, 5 * MS)); /* the first one may be lost */
	ck_assert(packet_requests_migration(&packet));

	/* They had arrived; the peer follows, and isn't ready itself yet. */
	ack.path = &p.alternate;
	ack.psn = psn_add(FIRST_PSN, 2);
	ack.migrated = true;
	peer_send(&p.peer, &ack);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(p.peer.node, i, IBV_WC_SUCCESS);
	peer_see_none(&p.peer, MS);
	expect_state(p.peer.qp, IBV_MIG_REARM);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 3);
	packet = peer_see(&p.peer);
	ck_assert(!packet_requests_migration(&packet));
	ack.psn = packet.psn;
	ack.migrated = false;
	peer_send(&p.peer, &ack);
	world_expect(p.peer.node, 3, IBV_WC_SUCCESS);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	expect_events(&p, 1, 0);
	peer_destroy(&p.peer);
}
END_TEST

/* Nor does the peer say that it has followed by what comes late on the path that was left. */
START_TEST(on_demand_with_a_late_packet)
{
	struct packet packet;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_MIGRATED), 0);
	request(&p, NULL, false);
	expect_taken(&p, &p.alternate, true);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), 0);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 0);
	packet = peer_see_op(&p.peer, "RC_RDMA_WRITE_ONLY");
	ck_assert(packet_requests_migration(&packet));
	peer_destroy(&p.peer);
}
END_TEST

/* IBA 9.9.2.1.1: then there are as many retries on the alternate path, with its timeout. */
START_TEST(retries_used_up)
{
	struct packet packet;
	unsigned int before = 0, after = 0;
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 7);
	while (peer_wait(&p.peer, &packet, SECOND)) {
		bool alternate = gid_equal(&p.peer.to, &p.alternate.source);

		ck_assert_uint_eq(packet.psn, FIRST_PSN);
		ck_assert_int_eq(packet_requests_migration(&packet), alternate);
		ck_assert(alternate || !after);
		before += !alternate;
		after += alternate;
	}
	ck_assert_uint_ge(before, 1 + world_connection.retry_cnt);
	ck_assert_uint_ge(after, 1 + world_connection.retry_cnt);
	ck_assert_uint_eq(p.peer.node->hca->counters->retry_exceeded_err, 1);
	world_expect(p.peer.node, 7, IBV_WC_RETRY_EXC_ERR);
	expect_events(&p, 1, 0);
	peer_destroy(&p.peer);
}
END_TEST

/* What is acknowledged right before this side follows the peer leaves the window that it was in. */
START_TEST(acknowledged_before)
{
	struct peer_packet ack = {RC(WIRE_ACKNOWLEDGE), .syndrome = AETH_ACK_UNLIMITED};
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 0);
	ack.psn = peer_see(&p.peer).psn;
	peer_send(&p.peer, &ack);
	request(&p, &p.alternate, true);
	expect_events(&p, 1, 0);
	world_expect(p.peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(p.peer.qp->migration.alternate.destination->cwnd.in_flight, 0);
	ck_assert_uint_eq(p.peer.qp->recovery.destination->cwnd.in_flight, 0);
	peer_destroy(&p.peer);
}
END_TEST

/* Without acknowledgements: UC follows its peer, and migrates on demand. */
START_TEST(unreliable)
{
	struct packet packet;
	struct paths p;

	paths_create(&p, IBV_QPT_UC);
	arm(&p);
	p.peer.psn = psn_add(p.peer.psn, 1);
	request(&p, &p.alternate, true);
	expect_events(&p, 1, 0);
	expect_state(p.peer.qp, IBV_MIG_MIGRATED);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 0);
	packet = peer_see(&p.peer);
	ck_assert(packet_requests_migration(&packet));
	ck_assert(gid_equal(&p.peer.to, &p.alternate.source));
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), 0);
	p.peer.psn = psn_add(p.peer.psn, 1);
	request(&p, &p.alternate, false);
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_MIGRATED), 0);
	peer_post(&p.peer, IBV_WR_RDMA_WRITE, 8, 1);
	packet = peer_see(&p.peer);
	expect_events(&p, 2, 0);
	ck_assert(packet_requests_migration(&packet));
	ck_assert(gid_equal(&p.peer.to, &p.peer.path.source));
	peer_destroy(&p.peer);
}
END_TEST

/* RESET forgets it; the next connection begins without. */
START_TEST(reset)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	world_modify_state(p.peer.qp, IBV_QPS_RESET);
	expect_state(p.peer.qp, IBV_MIG_MIGRATED);
	ck_assert_int_eq(world_query(p.peer.qp).alt_port_num, 0);
	peer_connect(&p.peer, &world_connection);
	p.peer.psn = world_connection.psn;
	request(&p, NULL, true);
	expect_taken(&p, &p.peer.path, false);
	ck_assert_int_eq(set_state(p.peer.qp, IBV_MIG_REARM), EINVAL);
	peer_destroy(&p.peer);
}
END_TEST

/* --- two nodes of two addresses each --------------------------------------------------- */

static void load_towards(struct qp *qp, const struct node *peer, uint8_t timeout)
{
	struct ibv_qp_attr attr = alternate_attr(&peer->gids.entries[ALTERNATE].gid);

	attr.alt_timeout = timeout;
	ck_assert_int_eq(world_modify(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static void pair_load(struct pair *p, const struct connection *c)
{
	world_add_address(p->a, 1);
	world_add_address(p->b, 1);
	load_towards(p->qa, p->b, c->timeout);
	load_towards(p->qb, p->a, c->timeout);
}

static bool both_are(const struct qp *a, const struct qp *b, enum ibv_mig_state state)
{
	return a->migration.state == state && b->migration.state == state;
}

/* Requests under way when the path dies, of every kind, arrive on the other one. */
START_TEST(path_dies)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ};
	struct connection c = world_connection;
	uint32_t length = 200000;
	struct pair p;

	c.timeout = 10;
	c.retry_cnt = 2;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	pair_load(&p, &c);
	for (uint64_t i = 0; i < 6; i++) {
		if (opcodes[_i] == IBV_WR_SEND)
			pair_receive(&p, length, 100 + i);
	}
	pair_fill(opcodes[_i] == IBV_WR_RDMA_READ ? p.mb : p.ma, length, 3);
	for (uint64_t i = 0; i < 6; i++)
		pair_post(&p, opcodes[_i], length, i);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_ARMED));
	/* One direction of it is enough. */
	sim_partition(p.world.sim, &(_i & 1 ? p.a : p.b)->gids.entries[0].gid, true);
	for (uint64_t i = 1; i < 6; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	ck_assert_mem_eq(p.ma, p.mb, length);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_MIGRATED));
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PATH_MIG], 1);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG], 1);
	ck_assert(gid_equal(&p.qa->recovery.destination->gid, &p.b->gids.entries[1].gid));
	ck_assert(
		gid_equal(&p.qa->migration.alternate.destination->gid, &p.b->gids.entries[0].gid));
	/* Nothing is taken to be under way where it was sent first. */
	ck_assert_uint_eq(p.qa->migration.alternate.destination->cwnd.in_flight, 0);
	ck_assert_uint_eq(p.qa->recovery.destination->cwnd.in_flight, 0);

	/* The first path is there again, and the second one dies. */
	sim_partition(p.world.sim, &(_i & 1 ? p.a : p.b)->gids.entries[0].gid, false);
	ck_assert_int_eq(set_state(p.qb, IBV_MIG_REARM), 0);
	ck_assert_int_eq(set_state(p.qa, IBV_MIG_REARM), 0);
	pair_post(&p, IBV_WR_RDMA_WRITE, length, 6);
	world_expect(p.a, 6, IBV_WC_SUCCESS);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_ARMED));
	sim_partition(p.world.sim, &p.b->gids.entries[ALTERNATE].gid, true);
	pair_post(&p, IBV_WR_RDMA_WRITE, length, 7);
	world_expect(p.a, 7, IBV_WC_SUCCESS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PATH_MIG], 2);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG], 2);

	/* When both are dead, the request fails. */
	ck_assert_int_eq(set_state(p.qb, IBV_MIG_REARM), 0);
	ck_assert_int_eq(set_state(p.qa, IBV_MIG_REARM), 0);
	pair_post(&p, IBV_WR_RDMA_WRITE, length, 8);
	world_expect(p.a, 8, IBV_WC_SUCCESS);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_RDMA_WRITE, length, 9);
	world_expect(p.a, 9, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PATH_MIG], 3);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG], 2);
	pair_destroy(&p);
}
END_TEST

/* A peer that has no alternate path, as rxe: this side arms, and can't get through on its own. */
START_TEST(peer_without_alternate_path)
{
	struct connection c = world_connection;
	struct pair p;

	c.timeout = 8;
	c.retry_cnt = 1;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	world_add_address(p.a, 1);
	world_add_address(p.b, 1);
	load_towards(p.qa, p.b, c.timeout);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 0);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	expect_state(p.qa, IBV_MIG_ARMED);
	pair_cut(&p, true);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 1);
	world_expect(p.a, 1, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PATH_MIG], 1);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG], 0);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG_ERR], 0);
	pair_destroy(&p);
}
END_TEST

/* The alternate path of both is their other ports'. */
static void rearm_other_ports(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = alternate_attr(world_gid(i ? p->a : p->b, 2));

		attr.alt_port_num = attr.alt_ah_attr.port_num = 2;
		attr.alt_ah_attr.grh.sgid_index = 0;
		ck_assert_int_eq(world_modify(i ? p->qb : p->qa, &attr,
					      IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE),
				 0);
	}
}

/*
 * When the first port fails, what is under way goes on by the other one, and the peer follows.
 * What isn't armed, or in ERR, stays.
 */
START_TEST(port_fails)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	rearm_other_ports(&p);
	migration_on_port_error(p.a->hca, 1, world_now(&p.world));
	expect_state(p.qa, IBV_MIG_REARM);
	pair_fill(p.ma, 100000, 9);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 0);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_ARMED));
	migration_on_port_error(p.a->hca, 2, world_now(&p.world));
	expect_state(p.qa, IBV_MIG_ARMED);
	if (_i) {
		world_modify_state(p.qa, IBV_QPS_ERR);
		migration_on_port_error(p.a->hca, 1, world_now(&p.world));
		expect_state(p.qa, IBV_MIG_ARMED);
		pair_destroy(&p);
		return;
	}

	pair_post(&p, IBV_WR_RDMA_WRITE, 100000, 1);
	sim_partition(p.world.sim, world_gid(p.a, 1), true);
	migration_on_port_error(p.a->hca, 1, world_now(&p.world));
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	ck_assert_mem_eq(p.ma, p.mb, 100000);
	ck_assert_uint_eq(p.a->hca->counters->timeouts, 0);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_MIGRATED));
	ck_assert_int_eq(world_query(p.qa).port_num, 2);
	ck_assert_int_eq(world_query(p.qb).port_num, 2);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PATH_MIG], 1);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG], 1);
	pair_destroy(&p);
}
END_TEST

/* A pair that has been used, and can migrate. */
static void create_armed(struct pair *p)
{
	pair_create(p, IBV_QPT_RC, NULL, 1, NULL);
	rearm_other_ports(p);
	pair_post(p, IBV_WR_RDMA_WRITE, 8, 0);
	world_expect(p->a, 0, IBV_WC_SUCCESS);
	ck_assert(both_are(p->qa, p->qb, IBV_MIG_ARMED));
}

/* So it is where a fault has the port fail, or the path given up. */
START_TEST(asked_for_by_a_fault)
{
	char text[128];
	struct pair p;

	create_armed(&p);
	snprintf(text, sizeof(text), "event(%s)@1ms>%u", _i ? "PATH_MIG" : "PORT_ERR",
		 p.qa->number);
	world_inject(p.a, text);
	world_run(&p.world, 2 * MS);
	expect_state(p.qa, IBV_MIG_MIGRATED);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_MIGRATED));
	ck_assert_uint_eq(p.a->events[IBV_EVENT_PATH_MIG], 1);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_PATH_MIG], 1);
	pair_destroy(&p);
}
END_TEST

/* Other events than PATH_MIG are no migrations. */
START_TEST(another_event_by_a_fault)
{
	struct pair p;

	create_armed(&p);
	world_inject(p.a, "event(COMM_EST)@1ms");
	world_run(&p.world, 2 * MS);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_COMM_EST], 1);
	ck_assert(both_are(p.qa, p.qb, IBV_MIG_ARMED));
	pair_destroy(&p);
}
END_TEST

/* Both paths are the first port's: whichever fails, nothing is gained. */
START_TEST(port_of_both_fails)
{
	struct paths p;

	paths_create(&p, IBV_QPT_RC);
	arm(&p);
	for (unsigned int port_num = 1; port_num <= 2; port_num++)
		migration_on_port_error(p.peer.node->hca, port_num, world_now(&p.peer.world));
	expect_state(p.peer.qp, IBV_MIG_ARMED);
	expect_events(&p, 0, 0);
	peer_destroy(&p.peer);
}
END_TEST

/*
 * Everything that RC can do, on a bad network, while its two paths die and come back, and one
 * side or the other migrates on demand: both follow each other, and nothing is lost or done twice.
 */
struct disorder {
	struct node *nodes;
	const union ibv_gid *dead; /* or NULL */
	unsigned int deaths, demands;
};

static void disturb(struct stress *stress)
{
	struct disorder *disorder = stress->context;
	struct sim *sim = stress->world->sim;
	struct qp *qps[] = {stress_sender(stress, 0), stress_sender(stress, 1)};
	unsigned int side = sim_random(sim) % 2;

	if (both_are(qps[0], qps[1], IBV_MIG_MIGRATED)) {
		if (disorder->dead)
			sim_partition(sim, disorder->dead, false);
		disorder->dead = NULL;
		ck_assert_int_eq(set_state(qps[side], IBV_MIG_REARM), 0);
		ck_assert_int_eq(set_state(qps[!side], IBV_MIG_REARM), 0);
		return;
	}
	if (!both_are(qps[0], qps[1], IBV_MIG_ARMED) || disorder->dead || sim_random(sim) % 50)
		return;
	ck_assert(gid_equal(&qps[0]->path.source, &qps[1]->path.destination));
	ck_assert(gid_equal(&qps[1]->path.source, &qps[0]->path.destination));
	if (sim_random(sim) % 2) {
		disorder->demands++;
		ck_assert_int_eq(set_state(qps[side], IBV_MIG_MIGRATED), 0);
		return;
	}
	disorder->deaths++;
	disorder->dead =
		&disorder->nodes[side].gids.entries[qps[side]->attr.ah_attr.grh.sgid_index].gid;
	sim_partition(sim, disorder->dead, true);
}

START_TEST(random_traffic)
{
	const struct sim_options bad_network = {
		.latency = 1000,
		.jitter = 2000,
		.drop = 0.01,
		.duplicate = 0.01,
		.reorder = 0.01,
		.corrupt = 0.005,
	};
	struct stress_options options = {.operations = 3000,
					 .max_length = 20000,
					 .late = 0.02,
					 .connection = world_connection};
	struct disorder disorder = {};
	struct stress stress;
	struct world world;

	options.connection.timeout = 8;
	options.connection.retry_cnt = 7;
	world_create(&world, 2, _i & 1 ? &bad_network : NULL, _i);
	disorder.nodes = world.nodes;
	world_add_address(&world.nodes[0], 1);
	world_add_address(&world.nodes[1], 1);
	stress_create(&stress, &world, &options);
	stress_connect(&stress, &world.nodes[0], &world.nodes[1]);
	load_towards(stress_sender(&stress, 0), &world.nodes[1], 8);
	load_towards(stress_sender(&stress, 1), &world.nodes[0], 8);
	stress.context = &disorder;
	stress.step = disturb;
	stress_run(&stress, 1000 * SECOND);
	ck_assert_uint_ge(disorder.deaths, 3);
	ck_assert_uint_ge(disorder.demands, 3);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_uint_ge(world.nodes[i].events[IBV_EVENT_PATH_MIG],
				  disorder.deaths + disorder.demands - 1);
		/* Unless a packet of one migration is so late that it looks like the next. */
		if (!(_i & 1))
			ck_assert_uint_eq(world.nodes[i].events[IBV_EVENT_PATH_MIG_ERR], 0);
	}
	stress_destroy(&stress);
	world_destroy(&world);
}
END_TEST

int main(void)
{
	TCase *rules = tcase_create("rules"), *pairs = tcase_create("pairs");
	TCase *const tcases[] = {rules, pairs, NULL};

	tcase_add_test(rules, without_alternate_path);
	tcase_add_loop_test(rules, refused, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(rules, refused_mtu);
	tcase_add_test(rules, states);
	tcase_add_test(rules, peer_migrates);
	tcase_add_test(rules, peer_migrates_meanwhile);
	tcase_add_loop_test(rules, another_user_migrates, 0, 2);
	tcase_add_test(rules, another_user_on_the_alternate_path);
	tcase_add_test(rules, another_alternate_path);
	tcase_add_test(rules, peer_migrates_on_the_same_addresses);
	tcase_add_loop_test(rules, peer_migrates_in_vain, 0, 2);
	tcase_add_test(rules, on_demand);
	tcase_add_test(rules, on_demand_with_a_late_packet);
	tcase_add_test(rules, retries_used_up);
	tcase_add_test(rules, acknowledged_before);
	tcase_add_test(rules, unreliable);
	tcase_add_test(rules, reset);
	tcase_add_loop_test(pairs, path_dies, 0, 3);
	tcase_add_test(pairs, peer_without_alternate_path);
	tcase_add_loop_test(pairs, port_fails, 0, 2);
	tcase_add_loop_test(pairs, asked_for_by_a_fault, 0, 2);
	tcase_add_test(pairs, another_event_by_a_fault);
	tcase_add_test(pairs, port_of_both_fails);
	tcase_add_loop_test(pairs, random_traffic, 1, 9);
	return world_main("migration", tcases);
}
