/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where binds and invalidations stand among the other requests of their queue
 * (IBA 10.8.3.3): order, fences, states of the QP, and that whatever is sent
 * again, they are executed once.
 */
#include "mw_owner.h"
#include "peer.h"

/* A key may be sent by what is posted right behind its bind (ibv_bind_mw(3)). */
START_TEST(bound_before_what_follows)
{
	struct ibv_send_wr bind, send;
	struct ibv_send_wr *bad;
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(_i);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	user_receives(1);
	bind = bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 2);
	bind.send_flags = 0;
	send = (struct ibv_send_wr){.wr_id = 3,
				    .opcode = IBV_WR_SEND_WITH_IMM,
				    .send_flags = IBV_SEND_SIGNALED,
				    .imm_data = htobe32(rkey)};
	bind.next = &send;
	ck_assert_int_eq(qp_post_send(p.qb, &bind, &bad, false, LAZY_TIME(world_now(&p.world))), 0);
	ck_assert_uint_eq(be32toh(world_completion(p.a, SECOND).imm_data), rkey);
	reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 8, 4);
	world_expect(p.a, 4, IBV_WC_SUCCESS);
	/* It was unsignaled. */
	world_expect(p.b, 3, IBV_WC_SUCCESS);
	world_expect_none(p.b, SECOND);
	mw_dealloc(mw);
	end();
}
END_TEST

/* A bind waits for nothing, but completes in its turn; an invalidation waits for all before it. */
START_TEST(completed_in_order)
{
	struct ibv_wc wc;
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	for (uint64_t i = 0; i < 3; i++)
		owner_posts(i == 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 5000, 0, i);
	post(p.qb, bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 3));
	ck_assert(mw->key.valid);
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 4);
	post(p.qb, invalidate_wr(rkey, 5));
	post(p.qb, bind_wr(mw, ibv_inc_rkey(rkey), 8, 8, ALL_RIGHTS, 6));
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 7);
	/* When it is taken back, all that was posted before has completed. */
	while (mw->key.valid && mw->key.value == rkey)
		ck_assert(world_step(&p.world));
	for (uint64_t i = 0; i < 5; i++) {
		ck_assert_int_eq(world_poll(p.b, &wc), 1);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i);
	}
	for (uint64_t i = 5; i < 8; i++)
		world_expect(p.b, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(mw->key.value, ibv_inc_rkey(rkey));
	mw_dealloc(mw);
	end();
}
END_TEST

/* IBA 10.8.3.3: a fence waits for READs and atomics, with windows too. */
START_TEST(fenced)
{
	struct ibv_send_wr wr;
	struct mw *mw;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_1);
	owner_posts(IBV_WR_RDMA_READ, 5000, 0, 1);
	wr = bind_wr(mw, ibv_inc_rkey(mw->ibv.rkey), 0, 8, ALL_RIGHTS, 2);
	wr.send_flags |= IBV_SEND_FENCE;
	post(p.qb, wr);
	owner_posts(IBV_WR_RDMA_WRITE, 8, 0, 3);
	ck_assert(!mw->key.valid);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	ck_assert(mw->key.valid);
	world_expect(p.b, 3, IBV_WC_SUCCESS);

	/* Behind a WRITE alone it has nothing to wait for. */
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 4);
	wr = bind_wr(mw, ibv_inc_rkey(mw->key.value), 0, 0, 0, 5);
	wr.send_flags |= IBV_SEND_FENCE;
	post(p.qb, wr);
	ck_assert(!mw->key.valid);
	world_expect(p.b, 4, IBV_WC_SUCCESS);
	world_expect(p.b, 5, IBV_WC_SUCCESS);
	mw_dealloc(mw);
	end();
}
END_TEST

/* A failed bind waits for the completions of what was posted before it. */
START_TEST(failed_in_order)
{
	struct mw *mw;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 1);
	post(p.qb, bind_wr(mw, ibv_inc_rkey(mw->ibv.rkey), PAIR_MEMORY - 7, 8, ALL_RIGHTS, 2));
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 3);
	post(p.qb, bind_wr(mw, ibv_inc_rkey(mw->ibv.rkey), 0, 8, ALL_RIGHTS, 4));
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_MW_BIND_ERR);
	world_expect(p.b, 3, IBV_WC_WR_FLUSH_ERR);
	world_expect(p.b, 4, IBV_WC_WR_FLUSH_ERR);
	ck_assert(!mw->key.valid);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	/* What is posted now isn't executed either. */
	post(p.qb, bind_wr(mw, ibv_inc_rkey(mw->ibv.rkey), 0, 8, ALL_RIGHTS, 5));
	post(p.qb, invalidate_wr(mw->ibv.rkey, 6));
	world_expect(p.b, 5, IBV_WC_WR_FLUSH_ERR);
	world_expect(p.b, 6, IBV_WC_WR_FLUSH_ERR);
	ck_assert(!mw->key.valid);
	ck_assert_uint_eq(region->windows, 0);
	mw_dealloc(mw);
	end();
}
END_TEST

/* Moved to ERR with both waiting behind a READ: flushed in order, not executed. */
START_TEST(flushed)
{
	struct mw *bound_before, *mw;
	struct ibv_send_wr wr;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	bound_before = make_mw(IBV_MW_TYPE_2);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = bound(bound_before, 0, 8);
	owner_posts(IBV_WR_RDMA_READ, 8, 0, 1);
	wr = bind_wr(mw, ibv_inc_rkey(mw->ibv.rkey), 0, 8, ALL_RIGHTS, 2);
	wr.send_flags = IBV_SEND_FENCE;
	post(p.qb, wr);
	post(p.qb, invalidate_wr(rkey, 3));
	world_modify_state(p.qb, IBV_QPS_ERR);
	for (uint64_t i = 1; i <= 3; i++)
		world_expect(p.b, i, IBV_WC_WR_FLUSH_ERR);
	ck_assert(!mw->key.valid);
	ck_assert(bound_before->key.valid);
	mw_dealloc(mw);
	mw_dealloc(bound_before);
	end();
}
END_TEST

/* IBA 10.3.1.5: in SQD nothing is started. */
START_TEST(drained)
{
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 1);
	world_modify_state(p.qb, IBV_QPS_SQD);
	post(p.qb, bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 2));
	post(p.qb, invalidate_wr(rkey, 3));
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect_none(p.b, SECOND);
	ck_assert(!mw->key.valid);
	world_modify_state(p.qb, IBV_QPS_RTS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	world_expect(p.b, 3, IBV_WC_SUCCESS);
	mw_dealloc(mw);
	end();
}
END_TEST

START_TEST(deallocated_before_its_bind)
{
	struct ibv_send_wr wr;
	struct mw *mw;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	owner_posts(IBV_WR_RDMA_READ, 8, 0, 1);
	wr = bind_wr(mw, ibv_inc_rkey(mw->ibv.rkey), 0, 8, ALL_RIGHTS, 2);
	wr.send_flags |= IBV_SEND_FENCE;
	post(p.qb, wr);
	mw_dealloc(mw);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_MW_BIND_ERR);
	end();
}
END_TEST

START_TEST(unreliable)
{
	struct ibv_send_wr bind, send, take_back;
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_UC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 1);
	post(p.qb, bind_wr(mw, rkey, 0, 2000, ALL_RIGHTS, 2));
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 3);
	for (uint64_t i = 1; i <= 3; i++)
		world_expect(p.b, i, IBV_WC_SUCCESS);
	pair_fill(p.ma, 2000, 4);
	reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 2000, 4);
	world_expect(p.a, 4, IBV_WC_SUCCESS);
	world_run(&p.world, MS);
	ck_assert_mem_eq(p.mb, p.ma, 2000);

	/* What a window refuses is lost silently. */
	pair_fill(p.ma, 2000, 5);
	reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb + 1, 2000, 4);
	world_expect(p.a, 4, IBV_WC_SUCCESS);
	owner_posts(IBV_WR_RDMA_WRITE, 8, 0, 5);
	post(p.qb, invalidate_wr(rkey, 6));
	world_expect(p.b, 5, IBV_WC_SUCCESS);
	world_expect(p.b, 6, IBV_WC_SUCCESS);
	reach(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)p.mb, 2000, 7);
	world_expect(p.a, 7, IBV_WC_SUCCESS);
	world_run(&p.world, MS);
	pair_fill(p.ma, 2000, 4);
	ck_assert_mem_eq(p.mb, p.ma, 2000);

	/* In one list: what has been sent needn't be waited for. */
	rkey = ibv_inc_rkey(rkey);
	bind = bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 20);
	send = (struct ibv_send_wr){
		.wr_id = 21, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	take_back = invalidate_wr(rkey, 22);
	bind.next = &send;
	send.next = &take_back;
	post(p.qb, bind);
	for (uint64_t i = 20; i <= 22; i++)
		world_expect(p.b, i, IBV_WC_SUCCESS);

	/* IBA 10.3.1.6: a local error stops the send queue alone. */
	owner_posts(IBV_WR_RDMA_WRITE, 8, 0, 8);
	post(p.qb, invalidate_wr(rkey, 9));
	world_expect(p.b, 8, IBV_WC_SUCCESS);
	world_expect(p.b, 9, IBV_WC_MW_BIND_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_SQE);
	post(p.qb, bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 10));
	world_expect(p.b, 10, IBV_WC_WR_FLUSH_ERR);
	world_modify_state(p.qb, IBV_QPS_RTS);
	post(p.qb, bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 11));
	world_expect(p.b, 11, IBV_WC_SUCCESS);
	mw_dealloc(mw);
	end();
}
END_TEST

/* --- retransmission ----------------------------------------------------------------------- */

/* A bind among requests that are sent again isn't executed again: it would fail. */
START_TEST(once_through_an_outage)
{
	struct mw *mw;
	uint32_t rkey;

	begin(IBV_QPT_RC, NULL, 1);
	mw = make_mw(IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->ibv.rkey);
	pair_cut(&p, true);
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 1);
	post(p.qb, bind_wr(mw, rkey, 0, 8, ALL_RIGHTS, 2));
	owner_posts(IBV_WR_RDMA_READ, 5000, 0, 3);
	post(p.qb, bind_wr(mw, rkey, 0, 0, 0, 4)); /* not even one that fails */
	owner_posts(IBV_WR_RDMA_WRITE, 5000, 0, 5);
	world_expect_none(p.b, 300 * MS);
	ck_assert_uint_gt(p.b->hca->counters->retransmitted_pkts, 0);
	pair_cut(&p, false);
	world_expect(p.b, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	world_expect(p.b, 3, IBV_WC_SUCCESS);
	world_expect(p.b, 4, IBV_WC_MW_BIND_ERR);
	world_expect(p.b, 5, IBV_WC_WR_FLUSH_ERR);
	ck_assert(mw->key.valid);
	mw_dealloc(mw);
	end();
}
END_TEST

static struct ibv_wc expect_sends_and_a_receive(uint64_t sends)
{
	struct ibv_wc wc, received = {.wr_id = 0};

	for (uint64_t next = 0; next < sends || received.wr_id == 0;) {
		wc = world_completion(p.b, 100 * SECOND);
		must(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			received = wc;
		else
			must(wc.wr_id == next++);
	}
	return received;
}

/*
 * Round after round through a bad network: bind, tell, be written to and read
 * through the window, have it taken back by the user (or take it back here),
 * with other requests around each of them.
 */
static void check_round(struct mw *mw, uint32_t round)
{
	uint32_t rkey = ibv_inc_rkey(mw->key.value), length = 1 + round * 977 % 9000;
	struct ibv_send_wr tell = {.wr_id = 3,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .send_flags = IBV_SEND_SIGNALED,
				   .imm_data = htobe32(rkey)};
	uint64_t va = (uintptr_t)p.mb + 16384;
	bool by_user = round % 2;
	struct ibv_wc wc;

	user_receives(100);
	pair_receive(&p, 64, 200);
	owner_posts(IBV_WR_RDMA_WRITE, length, 0, 0);
	owner_posts(IBV_WR_RDMA_READ, length, 0, 1);
	post(p.qb, bind_wr(mw, rkey, 16384, length, ALL_RIGHTS, 2));
	post(p.qb, tell);
	owner_posts(IBV_WR_RDMA_READ, length, 0, 4);
	wc = world_completion(p.a, 100 * SECOND);
	must(wc.status == IBV_WC_SUCCESS && wc.wr_id == 100 && be32toh(wc.imm_data) == rkey);

	pair_fill(p.ma, length, round);
	reach(IBV_WR_RDMA_WRITE, rkey, va, length, 300);
	reach(IBV_WR_RDMA_READ, rkey, va, length, 301);
	world_expect(p.a, 300, IBV_WC_SUCCESS);
	world_expect(p.a, 301, IBV_WC_SUCCESS);
	must(memcmp(p.ma, p.mb + 16384, length) == 0);
	if (by_user)
		send_invalidating(rkey, 20, 302);
	else
		reach(IBV_WR_SEND, 0, 0, 20, 302);
	world_expect(p.a, 302, IBV_WC_SUCCESS);
	wc = expect_sends_and_a_receive(5);
	must(wc.wr_id == 200);
	must(wc.wc_flags == (by_user ? IBV_WC_WITH_INV : 0));
	if (by_user) {
		must(wc.invalidated_rkey == rkey);
	} else {
		owner_posts(IBV_WR_RDMA_READ, length, 0, 5);
		post(p.qb, invalidate_wr(rkey, 6));
		world_expect(p.b, 5, IBV_WC_SUCCESS);
		world_expect(p.b, 6, IBV_WC_SUCCESS);
	}
	must(region->windows == 0);
}

START_TEST(through_faults)
{
	struct sim_options network = {
		.latency = 1000,
		.jitter = 2000 * (_i % 2),
		.drop = 0.05,
		.duplicate = 0.03,
		.reorder = 0.05,
		.corrupt = 0.01,
	};
	struct mw *mw;

	begin(IBV_QPT_RC, &network, _i);
	mw = make_mw(IBV_MW_TYPE_2);
	for (uint32_t round = 0; round < 40; round++)
		check_round(mw, round);
	ck_assert_uint_gt(p.b->hca->counters->retransmitted_pkts, 0);
	ck_assert_uint_gt(p.b->hca->counters->duplicate_request, 0);
	mw_dealloc(mw);
	end();
}
END_TEST

/* --- packet by packet ------------------------------------------------------------------------ */

static struct peer peer;
static struct mr *peer_region;
static struct mw *peer_window;
static uint32_t peer_rkey;

/* A QP, a region of all its memory, and a window that isn't bound yet. */
static void begin_peer(enum ibv_mw_type type)
{
	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_region = world_mr(peer.node, peer.memory, PEER_MEMORY, BINDABLE);
	ck_assert_int_eq(mw_alloc(peer.node->pd, type, &peer_window), 0);
	peer_rkey = ibv_inc_rkey(peer_window->ibv.rkey);
}

static struct ibv_send_wr peer_bind_wr(uint32_t rkey, uint32_t length, uint64_t id)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = &peer_window->ibv,
			    .rkey = rkey,
			    .bind_info = {&peer_region->ibv, (uintptr_t)peer.memory, length,
					  ALL_RIGHTS}},
	};
}

/* The same with 1024 bytes bound, by request 1. */
static void begin_bound_peer(enum ibv_mw_type type)
{
	begin_peer(type);
	post(peer.qp, peer_bind_wr(peer_rkey, 1024, 1));
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
}

static void end_peer(void)
{
	mw_dealloc(peer_window);
	ck_assert_int_eq(mr_deregister(peer_region), 0);
	peer_destroy(&peer);
}

static void respond(uint8_t operation, uint32_t psn, uint8_t syndrome, uint32_t length)
{
	peer_send(&peer, &(struct peer_packet){.opcode = WIRE_RC | operation,
					       .psn = psn & PSN_MASK,
					       .no_ack_request = true,
					       .syndrome = syndrome,
					       .length = length});
}

/*
 * After a retry began, the response to a READ behind a bind arrives before
 * anything was sent again: the bind is over then, too.
 */
START_TEST(answered_behind_a_bind)
{
	uint32_t psn = world_connection.psn;

	begin_peer(IBV_MW_TYPE_2);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	post(peer.qp, peer_bind_wr(peer_rkey, 8, 2));
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 3);
	peer_see(&peer);
	peer_see(&peer);
	respond(WIRE_ACKNOWLEDGE, psn, AETH_NAK_PSN_SEQUENCE, 0);
	respond(WIRE_READ_RESPONSE_ONLY, psn + 1, 0x1f, 8);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_see_none(&peer, SECOND);
	end_peer();
}
END_TEST

/* Sending again doesn't bring back what the peer has invalidated meanwhile. */
START_TEST(not_bound_again)
{
	const uint32_t psn = world_connection.psn;
	struct packet packet;

	begin_peer(IBV_MW_TYPE_2);
	peer_receive(&peer, 100, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	post(peer.qp, peer_bind_wr(peer_rkey, 8, 2));
	peer_see(&peer);
	ck_assert(peer_window->key.valid);
	peer_send(&peer, &(struct peer_packet){.opcode = WIRE_RC | WIRE_SEND_ONLY_INVALIDATE,
					       .psn = psn,
					       .length = 8,
					       .invalidate = peer_rkey});
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_see_op(&peer, "RC_ACKNOWLEDGE");
	ck_assert(peer_wait(&peer, &packet, SECOND));
	ck_assert_uint_eq(packet.psn, psn);
	ck_assert(!peer_window->key.valid);
	respond(WIRE_ACKNOWLEDGE, psn, 0x1f, 0);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	end_peer();
}
END_TEST

/* The same by an acknowledgement, which covers the bind and what was posted behind it. */
START_TEST(acknowledged_behind_a_bind)
{
	uint32_t psn = world_connection.psn;

	begin_peer(IBV_MW_TYPE_2);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	post(peer.qp, peer_bind_wr(peer_rkey, 8, 2));
	peer_post(&peer, IBV_WR_SEND, 8, 3);
	post(peer.qp, (struct ibv_send_wr){.wr_id = 4,
					   .opcode = IBV_WR_LOCAL_INV,
					   .send_flags = IBV_SEND_SIGNALED,
					   .invalidate_rkey = peer_rkey});
	peer_see(&peer);
	peer_see(&peer);
	respond(WIRE_ACKNOWLEDGE, psn, AETH_NAK_PSN_SEQUENCE, 0);
	respond(WIRE_ACKNOWLEDGE, psn + 1, 0x1f, 0);
	for (uint64_t i = 1; i <= 4; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert(!peer_window->key.valid);
	peer_see_none(&peer, SECOND);
	end_peer();
}
END_TEST

/*
 * One round that answers a READ through the window and then takes the window
 * back: the answer, which holds the window, has to leave first.
 */
START_TEST(answered_and_taken_back_in_one_round)
{
	uint32_t psn = world_connection.psn;
	struct packet packet;
	struct ibv_send_wr take_back;

	begin_bound_peer(_i);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 2);
	take_back = peer_bind_wr(ibv_inc_rkey(peer_rkey), 0, 3);
	take_back.send_flags |= IBV_SEND_FENCE;
	if (_i == IBV_MW_TYPE_2) {
		take_back.opcode = IBV_WR_LOCAL_INV;
		take_back.invalidate_rkey = peer_rkey;
	}
	post(peer.qp, take_back);
	peer_see(&peer);
	peer_send(&peer, &(struct peer_packet){.opcode = WIRE_RC | WIRE_READ_REQUEST,
					       .psn = psn,
					       .va = (uintptr_t)peer.memory + 8,
					       .rkey = peer_rkey,
					       .dma_length = 100});
	respond(WIRE_READ_RESPONSE_ONLY, psn, 0x1f, 8);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	packet = peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	ck_assert_uint_eq(packet.payload_length, 100);
	ck_assert_uint_eq(peer_region->windows, 0);
	end_peer();
}
END_TEST

/* Sent again because its acknowledgement was lost, it is acknowledged again, and that is all. */
START_TEST(invalidating_twice)
{
	struct peer_packet send = {.opcode = WIRE_RC | WIRE_SEND_ONLY_INVALIDATE,
				   .psn = world_connection.psn,
				   .length = 8};

	begin_bound_peer(IBV_MW_TYPE_2);
	peer_receive(&peer, 100, 2);
	peer_receive(&peer, 100, 3);
	send.invalidate = peer_rkey;
	peer_send(&peer, &send);
	peer_see_ack(&peer, send.psn, 0x1f);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	peer_send(&peer, &send);
	peer_see_ack(&peer, send.psn, 0x1f);
	/* Bound again meanwhile with the same key: a duplicate doesn't touch it. */
	post(peer.qp, peer_bind_wr(peer_rkey, 1024, 4));
	world_expect(peer.node, 4, IBV_WC_SUCCESS);
	peer_send(&peer, &send);
	peer_see_ack(&peer, send.psn, 0x1f);
	ck_assert(peer_window->key.valid);
	world_expect_none(peer.node, SECOND);
	end_peer();
}
END_TEST

/* A SEND that is refused for its length leaves the window alone; so does one without a receive. */
START_TEST(not_invalidated_by_what_fails)
{
	struct peer_packet send = {.opcode = WIRE_RC | WIRE_SEND_ONLY_INVALIDATE,
				   .psn = world_connection.psn,
				   .length = 101};

	begin_bound_peer(IBV_MW_TYPE_2);
	send.invalidate = peer_rkey;
	peer_send(&peer, &send);
	peer_see_ack(&peer, send.psn, AETH_RNR_NAK | world_connection.min_rnr_timer);
	ck_assert(peer_window->key.valid);
	peer_receive(&peer, 100, 2);
	peer_send(&peer, &send);
	peer_see_ack(&peer, send.psn, AETH_NAK_INVALID_REQUEST);
	world_expect(peer.node, 2, IBV_WC_LOC_LEN_ERR);
	ck_assert(peer_window->key.valid);
	end_peer();
}
END_TEST

/*
 * READs that were taken and not answered yet fail with their window, and so does what comes behind
 * them: the NAK is that of the first, for it says that all before it succeeded. Number @_i names
 * the region instead: it is answered, unless one before it has failed.
 */
START_TEST(refused_from_the_first_on)
{
	static const uint8_t operations[] = {WIRE_READ_REQUEST, WIRE_READ_REQUEST,
					     WIRE_SEND_ONLY_INVALIDATE, WIRE_WRITE_ONLY};

	begin_bound_peer(IBV_MW_TYPE_2);
	peer_receive(&peer, 100, 2);
	for (unsigned int i = 0; i < sizeof(operations); i++) {
		const struct peer_packet packet = {
			.opcode = WIRE_RC | operations[i],
			.psn = world_connection.psn + i,
			.va = (uintptr_t)peer.memory,
			.rkey = (int)i == _i ? peer.mr->ibv.rkey : peer_rkey,
			.invalidate = peer_rkey,
			.dma_length = 8,
			.length = operations[i] == WIRE_WRITE_ONLY ? 8 : 0,
		};

		peer_send(&peer, &packet);
	}
	if (_i == 0)
		peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	peer_see_ack(&peer, world_connection.psn + (_i == 0), AETH_NAK_REMOTE_ACCESS);
	peer_see_none(&peer, SECOND);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_ACCESS_ERR], 1);
	end_peer();
}
END_TEST

/* A bind is over with the request before it, though that is one that nothing has to be said of. */
START_TEST(completed_behind_an_unsignaled_request)
{
	struct ibv_sge sge = {.length = 8};
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	begin_peer(IBV_MW_TYPE_2);
	sge.addr = (uintptr_t)peer.memory;
	sge.lkey = peer.mr->ibv.lkey;
	post(peer.qp, write);
	post(peer.qp, peer_bind_wr(peer_rkey, 8, 2));
	peer_see_op(&peer, "RC_RDMA_WRITE_ONLY");
	respond(WIRE_ACKNOWLEDGE, world_connection.psn, AETH_ACK_UNLIMITED, 0);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	end_peer();
}
END_TEST

/* Responses on either side of a bind are missing: each is asked for as it was. */
START_TEST(asked_for_around_a_bind)
{
	const uint32_t psn = world_connection.psn;

	begin_peer(IBV_MW_TYPE_2);
	for (uint32_t i = 0; i < 4; i++) {
		if (i == 2)
			post(peer.qp, peer_bind_wr(peer_rkey, 8, 2));
		peer_post(&peer, IBV_WR_RDMA_READ, 8 + i, i + (i >= 2));
		peer_see_op(&peer, "RC_RDMA_READ_REQUEST");
	}
	respond(WIRE_READ_RESPONSE_ONLY, psn + 3, AETH_ACK_UNLIMITED, 11);
	for (uint32_t i = 0; i < 3; i++) {
		struct packet packet = peer_see_op(&peer, "RC_RDMA_READ_REQUEST");

		ck_assert_uint_eq(packet.psn, (psn + i) & PSN_MASK);
		ck_assert_uint_eq(be32toh(packet_reth(&packet)->length), 8 + i);
		respond(WIRE_READ_RESPONSE_ONLY, psn + i, AETH_ACK_UNLIMITED, 8 + i);
	}
	for (uint64_t i = 0; i < 5; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	end_peer();
}
END_TEST

/*
 * A request, and with it a bind behind it, is over while others wait for a receiver: it isn't gone
 * back to when its place in the queue is another request's.
 */
START_TEST(not_gone_back_to)
{
	const bool binds = _i;
	const struct qp_options two = {.type = IBV_QPT_RC,
				       .cap = {.max_send_wr = 2, .max_send_sge = 1}};
	uint32_t psn = world_connection.psn;
	struct packet packet;

	begin_peer(IBV_MW_TYPE_1);
	ck_assert_int_eq(qp_destroy(peer.qp), 0);
	peer.qp = world_qp(peer.node, &two);
	peer_connect(&peer, &world_connection);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	if (binds)
		post(peer.qp, peer_bind_wr(peer_rkey, 1024, 1));
	peer_see_op(&peer, "RC_RDMA_WRITE_ONLY");
	respond(WIRE_ACKNOWLEDGE, psn, AETH_RNR_NAK, 0);
	world_run(&peer.world, 10000);
	respond(WIRE_ACKNOWLEDGE, psn, AETH_ACK_UNLIMITED, 0);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	if (binds)
		world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 16, 2);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 24, 3);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert(peer_wait(&peer, &packet, SECOND));
		ck_assert_uint_eq(packet.psn, (psn + 1 + i) & PSN_MASK);
		ck_assert_uint_eq(packet.payload_length, 16 + 8 * i);
	}
	respond(WIRE_ACKNOWLEDGE, psn + 2, AETH_ACK_UNLIMITED, 0);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	world_expect(peer.node, 3, IBV_WC_SUCCESS);
	end_peer();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("mw_order");
	const int type_1 = IBV_MW_TYPE_1, types = IBV_MW_TYPE_2 + 1;

	tcase_add_loop_test(tcase, bound_before_what_follows, type_1, types);
	tcase_add_test(tcase, completed_in_order);
	tcase_add_test(tcase, fenced);
	tcase_add_test(tcase, failed_in_order);
	tcase_add_test(tcase, flushed);
	tcase_add_test(tcase, drained);
	tcase_add_test(tcase, deallocated_before_its_bind);
	tcase_add_test(tcase, unreliable);
	tcase_add_test(tcase, once_through_an_outage);
	tcase_add_loop_test(tcase, through_faults, 0, 20);
	tcase_add_test(tcase, answered_behind_a_bind);
	tcase_add_test(tcase, not_bound_again);
	tcase_add_test(tcase, acknowledged_behind_a_bind);
	tcase_add_loop_test(tcase, answered_and_taken_back_in_one_round, type_1, types);
	tcase_add_test(tcase, invalidating_twice);
	tcase_add_test(tcase, not_invalidated_by_what_fails);
	tcase_add_loop_test(tcase, refused_from_the_first_on, 0, 3);
	tcase_add_test(tcase, completed_behind_an_unsignaled_request);
	tcase_add_test(tcase, asked_for_around_a_bind);
	tcase_add_loop_test(tcase, not_gone_back_to, 0, 2);
	return world_main("mw_order", (TCase *const[]){tcase, NULL});
}
