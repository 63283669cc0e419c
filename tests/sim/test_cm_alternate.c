/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Alternate paths of connections (IBA 12.8): in REQ, LAP and APR, first with a peer that is the
 * test, then between two nodes whose QPs migrate to what was agreed on.
 */
#include <errno.h>

#include "caller.h"
#include "cm_peer.h"

#define ALTERNATE_TIMEOUT 12

/* --- one side: the peer is the test ----------------------------------------------------- */

static struct cm_peer_test t;
static struct path alternate; /* of the node: from its second address */

static void setup(void)
{
	cm_peer_create(&t);
	world_add_address(t.peer.node, 1);
	alternate = (struct path){.source = t.peer.node->gids.entries[1].gid, .hop_limit = 64};
	gid_from_text(&alternate.destination, "10.1.255.1");
}

static void teardown(void)
{
	cm_peer_destroy(&t);
}

/* As the peer describes it. */
static struct cm_path described(void)
{
	return (struct cm_path){
		.local_lid = 0xffff,
		.remote_lid = 0xffff,
		.local_gid = alternate.destination,
		.remote_gid = alternate.source,
		.flow_label = 0x777,
		.traffic_class = 0x40,
		.hop_limit = 64,
		.ack_timeout = ALTERNATE_TIMEOUT,
	};
}

static struct cm_message lap_message(void)
{
	struct cm_message lap = cm_peer_message(&t, CM_LAP);

	lap.transaction = 0x1234;
	lap.qpn = t.id->terms.local_qpn;
	lap.path[1] = described();
	return lap;
}

static bool has_alternate(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	return mask & IBV_QP_ALT_PATH;
}

/* The answer to a LAP, and nothing of the connection changes. */
static void expect_status(const struct cm_message *lap, uint8_t status)
{
	cm_peer_say(&t, lap);
	cm_peer_hear(&t, CM_APR);
	ck_assert_int_eq(t.heard.status, status);
	ck_assert_uint_eq(t.heard.transaction, 0x1234);
	ck_assert_uint_eq(t.heard.remote_id, CM_PEER_ID);
	ck_assert_uint_eq(t.heard.local_id, t.id->local_id);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_ESTABLISHED);
	ck_assert(!has_alternate());
	cm_peer_event(&t, -1);
}

/* Table 117, each with its status. There is no QP with the number that the connection names. */
START_TEST(laps_are_refused)
{
	struct cm_message lap;
	union ibv_gid foreign;

	if (_i)
		cm_peer_active(&t, CM_STATE_ESTABLISHED);
	else
		cm_peer_passive(&t, CM_STATE_ESTABLISHED);
	lap = lap_message();
	expect_status(&lap, 2);
	lap.qpn++;
	expect_status(&lap, 6);
	lap = lap_message();
	gid_from_text(&foreign, "10.9.9.9");
	lap.path[1].remote_gid = foreign;
	expect_status(&lap, 8);
	lap = lap_message();
	gid_from_text(&lap.path[1].local_gid, "fd00::1");
	expect_status(&lap, 8);
	lap = lap_message();
	lap.path[1].local_gid = t.peer.path.source;
	lap.path[1].remote_gid = t.peer.path.destination;
	expect_status(&lap, 5);
	/* An id that isn't there, and one that is no connection's yet. */
	lap = lap_message();
	lap.remote_id++;
	cm_peer_say(&t, &lap);
	cm_peer_hear(&t, CM_APR);
	ck_assert_int_eq(t.heard.status, 1);
}
END_TEST

/* Nothing but the peer's own address may say where the connection is to go. */
START_TEST(laps_of_others_are_dropped)
{
	struct path path = t.peer.path;
	struct cm_message lap;

	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	lap = lap_message();
	gid_from_text(&t.peer.path.source, "10.0.255.2");
	ck_assert_int_eq(t.peer.link->ops->add_address(t.peer.link, &t.peer.path.source, 0), 0);
	cm_peer_say(&t, &lap);
	cm_peer_hear_nothing(&t, 10 * MS);
	t.peer.path = path;
	expect_status(&lap, 2);
}
END_TEST

static enum link_sender foreign_sender(struct link *link, const struct link_frame *frame)
{
	return LINK_SENDER_FOREIGN;
}

/* ... nor another user who sends from it: neither may answer for the peer. */
START_TEST(laps_of_other_users_are_dropped)
{
	struct link *link = t.peer.node->hca->link;
	const struct link_ops *before = link->ops;
	static struct link_ops ops; /* teardown() may use them */
	struct cm_message message;

	ops = *before;
	ops.sender = foreign_sender;
	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	message = lap_message();
	link->ops = &ops;
	cm_peer_say(&t, &message);
	cm_peer_hear_nothing(&t, 10 * MS);
	ck_assert_int_eq(cm_send_lap(t.id, &alternate, CM_PACKET_LIFE_TIME, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_LAP);
	message = cm_peer_message(&t, CM_APR);
	cm_peer_say(&t, &message);
	cm_peer_event(&t, -1);
	link->ops = before;
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_APR_RECEIVED);
}
END_TEST

/* An MRA is of one message. */
START_TEST(laps_may_take_longer)
{
	struct cm_message mra;

	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	ck_assert_int_eq(cm_send_lap(t.id, &alternate, CM_PACKET_LIFE_TIME, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_LAP);
	mra = cm_peer_message(&t, CM_MRA);
	mra.service_timeout = 20;
	mra.answered = CM_ANSWERED_REP;
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, -1);
	mra.answered = CM_ANSWERED_OTHER;
	cm_peer_say(&t, &mra);
	cm_peer_event(&t, CM_EVENT_MRA_RECEIVED);
}
END_TEST

START_TEST(laps_out_of_season_are_dropped)
{
	static const enum cm_state states[] = {CM_STATE_REQ_SENT, CM_STATE_REP_RECEIVED,
					       CM_STATE_DREQ_SENT, CM_STATE_TIMEWAIT};
	struct cm_message lap;

	cm_peer_active(&t, states[_i]);
	lap = lap_message();
	cm_peer_say(&t, &lap);
	cm_peer_hear_nothing(&t, MS);
	cm_peer_event(&t, -1);
	ck_assert_int_eq(cm_send_lap(t.id, &alternate, CM_PACKET_LIFE_TIME, cm_peer_now(&t)),
			 EINVAL);
}
END_TEST

/* The attributes for the QP's way to RTS; IBA 12.6.7: an address that isn't ours is reason 18. */
START_TEST(requests_have_one)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct cm_message req = cm_peer_req(&t);
	int mask;

	cm_peer_listen(&t, false);
	req.path[1] = described();
	gid_from_text(&req.path[1].remote_gid, "10.9.9.9");
	cm_peer_say(&t, &req);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_ALTERNATE_GID);
	cm_peer_event(&t, -1);
	/* Nor does one help that can't carry the path MTU. */
	req.path[1] = described();
	t.peer.node->gids.entries[1].mtu = 1000;
	cm_peer_say(&t, &req);
	cm_peer_hear(&t, CM_REJ);
	ck_assert_int_eq(t.heard.reason, CM_REJECT_INVALID_ALTERNATE_GID);
	cm_peer_event(&t, -1);

	t.peer.node->gids.entries[1].mtu = 1500;
	cm_peer_say(&t, &req);
	cm_peer_event(&t, CM_EVENT_REQ_RECEIVED);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert(mask & IBV_QP_ALT_PATH);
	ck_assert_int_eq(attr.alt_port_num, 1);
	ck_assert_int_eq(attr.alt_timeout, ALTERNATE_TIMEOUT);
	ck_assert_int_eq(attr.alt_ah_attr.grh.sgid_index, 1);
	ck_assert_int_eq(attr.alt_ah_attr.grh.flow_label, 0x777);
	ck_assert_int_eq(attr.alt_ah_attr.grh.traffic_class, 0x40);
	ck_assert(gid_equal(&attr.alt_ah_attr.grh.dgid, &alternate.destination));
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert(mask & IBV_QP_PATH_MIG_STATE);
	ck_assert_int_eq(attr.path_mig_state, IBV_MIG_REARM);
}
END_TEST

/* A REP that doesn't accept it is a connection without. */
START_TEST(replies_may_refuse_it)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct cm_request request = {
		.path = {.source = t.peer.path.destination,
			 .destination = t.peer.path.source,
			 .hop_limit = 64},
		.alternate = &alternate,
		.service_id = CM_PEER_SERVICE,
		.qpn = 0x77,
		.qp_type = IBV_QPT_RC,
		.mtu = IBV_MTU_1024,
		.packet_life_time = CM_PACKET_LIFE_TIME,
	};
	struct cm_message rep;
	int mask;

	ck_assert_int_eq(cm_id_create(t.cm, NULL, &t.id), 0);
	ck_assert_int_eq(cm_send_req(t.id, &request, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REQ);
	ck_assert(gid_equal(&t.heard.path[1].local_gid, &alternate.source));
	ck_assert(gid_equal(&t.heard.path[1].remote_gid, &alternate.destination));
	ck_assert_int_eq(t.heard.path[1].ack_timeout, 17);
	ck_assert_int_eq(t.heard.path[1].hop_limit, 64);
	ck_assert_uint_eq(t.heard.path[1].local_lid, 0xffff);
	rep = cm_peer_message(&t, CM_REP);
	rep.failover = _i;
	cm_peer_say(&t, &rep);
	cm_peer_event(&t, CM_EVENT_REP_RECEIVED);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(!!(mask & IBV_QP_ALT_PATH), _i == 0);
	if (_i == 0)
		ck_assert_int_eq(attr.alt_timeout, 17);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(!!(mask & IBV_QP_PATH_MIG_STATE), _i == 0);

	/* The next connection by this id has none. */
	ck_assert_int_eq(cm_send_rej(t.id, CM_REJECT_CONSUMER, NULL, 0, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REJ);
	request.alternate = NULL;
	ck_assert_int_eq(cm_send_req(t.id, &request, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_REQ);
	rep = cm_peer_message(&t, CM_REP);
	rep.local_id++;
	cm_peer_say(&t, &rep);
	cm_peer_event(&t, CM_EVENT_REP_RECEIVED);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert(!(mask & IBV_QP_ALT_PATH));
}
END_TEST

static void send_lap(void)
{
	cm_peer_active(&t, CM_STATE_ESTABLISHED);
	ck_assert_int_eq(cm_send_lap(t.id, &alternate, CM_PACKET_LIFE_TIME, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_LAP);
	ck_assert_int_eq(cm_send_lap(t.id, &alternate, CM_PACKET_LIFE_TIME, cm_peer_now(&t)),
			 EINVAL);
}

/* Like a REQ: copies every 4.6 s, sixteen in all, then LAP_ERROR; the connection goes on. */
START_TEST(laps_are_repeated)
{
	uint64_t before, then;

	send_lap();
	ck_assert_uint_eq(t.heard.qpn, PEER_QPN);
	ck_assert(gid_equal(&t.heard.path[1].local_gid, &alternate.source));
	ck_assert(gid_equal(&t.heard.path[1].remote_gid, &alternate.destination));
	before = cm_peer_now(&t);
	for (int i = 0; i < 15; i++) {
		then = cm_peer_await(&t, CM_LAP, 10 * SECOND);
		ck_assert_uint_ge(then - before, 4 * SECOND);
		before = then;
	}
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 100 * SECOND);
	cm_peer_event(&t, CM_EVENT_LAP_ERROR);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_ESTABLISHED);
	ck_assert_int_eq(cm_send_lap(t.id, &alternate, CM_PACKET_LIFE_TIME, cm_peer_now(&t)), 0);
	cm_peer_hear(&t, CM_LAP);
}
END_TEST

/* What comes meanwhile: an MRA, a REJ, a REP whose RTU was lost; then the answer, and no other. */
START_TEST(laps_are_answered)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct cm_message message;
	int mask;

	send_lap();
	message = cm_peer_message(&t, CM_MRA);
	message.answered = CM_ANSWERED_OTHER;
	message.service_timeout = 22;
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_MRA_RECEIVED);
	cm_peer_hear_nothing(&t, 15 * SECOND);
	message = cm_peer_message(&t, CM_REJ);
	message.answered = CM_ANSWERED_OTHER;
	message.reason = CM_REJECT_CONSUMER;
	cm_peer_say(&t, &message);
	cm_peer_event(&t, -1);
	message = cm_peer_message(&t, CM_REP);
	message.transaction = 0x99;
	cm_peer_say(&t, &message);
	cm_peer_hear(&t, CM_RTU);
	ck_assert_uint_eq(t.heard.transaction, 0x99);
	message = cm_peer_message(&t, CM_APR);
	message.status = _i ? 3 : 0;
	cm_peer_say(&t, &message);
	cm_peer_event(&t, CM_EVENT_APR_RECEIVED);
	ck_assert_int_eq(t.last.message.status, message.status);
	ck_assert_int_eq(cm_qp_attr(t.id, &attr, &mask), 0);
	ck_assert_int_eq(!!(mask & IBV_QP_ALT_PATH), message.status == 0);
	cm_peer_say(&t, &message);
	cm_peer_event(&t, -1);
	cm_peer_hear_nothing(&t, 100 * SECOND);
	ck_assert_int_eq(cm_id_state(t.id), CM_STATE_ESTABLISHED);
}
END_TEST

/* --- both sides, and their QPs --------------------------------------------------------------- */

struct connected {
	struct callers c;
	struct caller *callers[2];
	struct qp *qps[2];
	struct mr *mrs[2];
	uint8_t memory[2][4096];
	uint64_t next;
};

static void move_qp(struct connected *x, unsigned int side)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	uint64_t now = world_now(&x->c.world);

	for (unsigned int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = {.qp_state = states[i]};
		int mask;

		ck_assert_int_eq(cm_qp_attr(x->callers[side]->id, &attr, &mask), 0);
		ck_assert_int_eq(qp_modify(x->qps[side], &attr, mask, now), 0);
	}
}

static struct path path_between(struct connected *x, unsigned int from, unsigned int index)
{
	return (struct path){.source = x->c.world.nodes[from].gids.entries[index].gid,
			     .destination = x->c.world.nodes[!from].gids.entries[index].gid,
			     .hop_limit = 64};
}

/* Three addresses each; with an alternate path from the start, or not. */
static void connected_create(struct connected *x, const struct sim_options *options, uint64_t seed,
			     bool with_alternate)
{
	const struct qp_options qp = {.type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct cm_request request;
	struct path path;

	*x = (struct connected){};
	callers_create(&x->c, options, seed);
	for (unsigned int i = 0; i < 2; i++) {
		struct node *node = &x->c.world.nodes[i];

		world_add_address(node, 1);
		world_add_address(node, 2);
		x->qps[i] = world_qp(node, &qp);
		x->mrs[i] =
			world_mr(node, x->memory[i], sizeof(x->memory[i]), world_connection.access);
	}
	callers_listen(&x->c, 1, SERVICE);
	x->callers[0] = caller_create(&x->c, 0);
	x->c.qpn = x->qps[1]->number - 1; /* the next caller's is the passive side's */
	path = path_between(x, 0, 1);
	request = caller_request(&x->c, 0, 1, SERVICE);
	request.qpn = x->qps[0]->number;
	request.packet_life_time = 8;
	request.alternate = with_alternate ? &path : NULL;
	ck_assert_int_eq(cm_send_req(x->callers[0]->id, &request, world_now(&x->c.world)), 0);
	world_run(&x->c.world, 100 * SECOND);
	x->callers[1] = caller_peer(x->callers[0]);
	ck_assert(x->callers[1]);
	ck_assert_int_eq(cm_id_state(x->callers[1]->id), CM_STATE_ESTABLISHED);
	move_qp(x, 0);
	move_qp(x, 1);
}

static void connected_destroy(struct connected *x)
{
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(qp_destroy(x->qps[i]), 0);
		ck_assert_int_eq(mr_deregister(x->mrs[i]), 0);
	}
	callers_destroy(&x->c);
}

/* A WRITE that has to arrive. */
static void transfer(struct connected *x)
{
	struct ibv_sge sge = {.addr = (uintptr_t)x->memory[0],
			      .length = sizeof(x->memory[0]),
			      .lkey = x->mrs[0]->ibv.lkey};
	struct ibv_send_wr wr = {
		.wr_id = x->next,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)x->memory[1], .rkey = x->mrs[1]->ibv.rkey},
	};

	memset(x->memory[0], ++x->next, sizeof(x->memory[0]));
	ck_assert_int_eq(world_post_send(x->qps[0], &wr), 0);
	world_expect(&x->c.world.nodes[0], x->next - 1, IBV_WC_SUCCESS);
	ck_assert_mem_eq(x->memory[0], x->memory[1], sizeof(x->memory[0]));
}

static void expect_both(struct connected *x, enum ibv_mig_state state)
{
	for (unsigned int i = 0; i < 2; i++)
		ck_assert_int_eq(x->qps[i]->migration.state, state);
}

static void expect_path(struct connected *x, unsigned int index)
{
	struct path path = path_between(x, 0, index);

	ck_assert(gid_equal(&x->qps[0]->path.source, &path.source));
	ck_assert(gid_equal(&x->qps[0]->path.destination, &path.destination));
	ck_assert(gid_equal(&x->qps[1]->path.source, &path.destination));
	ck_assert(gid_equal(&x->qps[1]->path.destination, &path.source));
}

static void cut(struct connected *x, unsigned int index)
{
	sim_partition(x->c.world.sim, &x->c.world.nodes[1].gids.entries[index].gid, true);
}

/* The REQ has it; then one side or the other finds another one; each path dies in turn. */
START_TEST(connections_migrate)
{
	const struct sim_options lossy = {.latency = 1000, .drop = 0.1, .duplicate = 0.05};
	struct connected x;
	struct path path;

	connected_create(&x, _i / 2 ? &lossy : NULL, 1 + _i, true);
	transfer(&x);
	transfer(&x);
	expect_both(&x, IBV_MIG_ARMED);
	cut(&x, 1);
	path = path_between(&x, _i % 2, 2);
	ck_assert_int_eq(cm_send_lap(x.callers[_i % 2]->id, &path, 8, world_now(&x.c.world)), 0);
	world_run(&x.c.world, 100 * SECOND);
	ck_assert(caller_heard(x.callers[_i % 2], CM_EVENT_APR_RECEIVED));
	ck_assert(caller_heard(x.callers[!(_i % 2)], CM_EVENT_LAP_RECEIVED));
	ck_assert_int_eq(x.callers[_i % 2]->last.status, 0);
	expect_both(&x, IBV_MIG_REARM);
	transfer(&x);
	transfer(&x);
	expect_both(&x, IBV_MIG_ARMED);
	expect_path(&x, 0);
	cut(&x, 0);
	transfer(&x);
	expect_path(&x, 2);
	ck_assert_uint_eq(x.c.world.nodes[0].events[IBV_EVENT_PATH_MIG], 1);
	ck_assert_uint_eq(x.c.world.nodes[1].events[IBV_EVENT_PATH_MIG], 1);
	connected_destroy(&x);
}
END_TEST

/* By LAP alone; a path that the peer can't take leaves both as they are. */
START_TEST(connections_get_one)
{
	struct connected x;
	struct path path;

	connected_create(&x, NULL, 1, false);
	transfer(&x);
	path = path_between(&x, 0, 1);
	x.c.world.nodes[1].gids.entries[1].mtu = 500;
	ck_assert_int_eq(cm_send_lap(x.callers[0]->id, &path, 8, world_now(&x.c.world)), 0);
	world_run(&x.c.world, SECOND);
	ck_assert_int_eq(x.callers[0]->last.status, 8);
	expect_both(&x, IBV_MIG_MIGRATED);
	ck_assert(!x.qps[0]->migration.loaded && !x.qps[1]->migration.loaded);
	x.c.world.nodes[1].gids.entries[1].mtu = 1500;
	ck_assert_int_eq(cm_send_lap(x.callers[0]->id, &path, 8, world_now(&x.c.world)), 0);
	world_run(&x.c.world, SECOND);
	ck_assert_int_eq(x.callers[0]->last.status, 0);
	transfer(&x);
	expect_both(&x, IBV_MIG_ARMED);
	cut(&x, 0);
	transfer(&x);
	expect_path(&x, 1);
	connected_destroy(&x);
}
END_TEST

/* That which the connection has stays, and both sides describe it as before. */
START_TEST(a_refusal_leaves_the_one_before)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct connected x;
	struct path path;
	int mask;

	connected_create(&x, NULL, 1, true);
	transfer(&x);
	x.c.world.nodes[1].gids.entries[2].mtu = 500;
	path = path_between(&x, 0, 2);
	ck_assert_int_eq(cm_send_lap(x.callers[0]->id, &path, 8, world_now(&x.c.world)), 0);
	world_run(&x.c.world, SECOND);
	ck_assert_int_eq(x.callers[0]->last.status, 8);
	expect_both(&x, IBV_MIG_ARMED);
	for (unsigned int i = 0; i < 2; i++) {
		path = path_between(&x, i, 1);
		ck_assert_int_eq(cm_qp_attr(x.callers[i]->id, &attr, &mask), 0);
		ck_assert(mask & IBV_QP_ALT_PATH);
		ck_assert(gid_equal(&attr.alt_ah_attr.grh.dgid, &path.destination));
	}
	connected_destroy(&x);
}
END_TEST

int main(void)
{
	TCase *rules = tcase_create("rules"), *pairs = tcase_create("pairs");
	TCase *const tcases[] = {rules, pairs, NULL};

	tcase_add_checked_fixture(rules, setup, teardown);
	tcase_add_loop_test(rules, laps_are_refused, 0, 2);
	tcase_add_test(rules, laps_of_others_are_dropped);
	tcase_add_test(rules, laps_of_other_users_are_dropped);
	tcase_add_test(rules, laps_may_take_longer);
	tcase_add_loop_test(rules, laps_out_of_season_are_dropped, 0, 4);
	tcase_add_test(rules, requests_have_one);
	tcase_add_loop_test(rules, replies_may_refuse_it, 0, 3);
	tcase_add_test(rules, laps_are_repeated);
	tcase_add_loop_test(rules, laps_are_answered, 0, 2);
	tcase_add_loop_test(pairs, connections_migrate, 0, 4);
	tcase_add_test(pairs, connections_get_one);
	tcase_add_test(pairs, a_refusal_leaves_the_one_before);
	return world_main("cm_alternate", tcases);
}
