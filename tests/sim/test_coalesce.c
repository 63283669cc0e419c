/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that wait for more of them while much is under way
 * (requester_coalesces). The peer is the test, which acknowledges as it likes.
 */
#include "emu/objects/mw.h"
#include "emu/transport/destination.h"
#include "net/tuning.h"
#include "peer.h"

static unsigned int sent(struct peer *peer)
{
	return peer->node->hca->counters->sent_pkts;
}

/* SENDs of @length, posted one by one, with the ids from @first on. */
static void post(struct peer *peer, unsigned int first, unsigned int count, uint32_t length)
{
	for (unsigned int i = 0; i < count; i++)
		peer_post(peer, IBV_WR_SEND, length, first + i);
}

/* The peer acknowledges the first @messages of those sent with @base as first PSN. */
static void acknowledge(struct peer *peer, uint32_t base, unsigned int messages)
{
	const struct peer_packet ack = {
		.opcode = WIRE_RC | WIRE_ACKNOWLEDGE,
		.psn = (base + messages - 1) & PSN_MASK,
		.syndrome = 0x1f,
		.msn = messages,
	};

	peer_send(peer, &ack);
}

static void expect(struct peer *peer, unsigned int first, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		world_expect(peer->node, first + i, IBV_WC_SUCCESS);
}

/* One that has answered a message after @round ns. */
static void create(struct peer *peer, uint64_t round)
{
	uint32_t base;

	peer_create(peer, IBV_QPT_RC, NULL);
	base = peer->qp->requester.psn;
	post(peer, 0, 1, 8);
	world_expect_none(peer->node, round);
	acknowledge(peer, base, 1);
	expect(peer, 0, 1);
	ck_assert_int_eq(destination_is_near(peer->qp->recovery.destination),
			 round <= COALESCE_ROUND_MOST);
}

START_TEST(the_first_go_at_once)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (unsigned int i = 0; i < COALESCE_UNDER_WAY; i++) {
		post(&peer, i, 1, 8);
		ck_assert_uint_eq(sent(&peer), i + 1);
	}
	peer_destroy(&peer);
}
END_TEST

START_TEST(enough_of_them_go_together)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 0, COALESCE_UNDER_WAY, 8);
	post(&peer, COALESCE_UNDER_WAY, COALESCE_POSTED - 1, 8);
	ck_assert_uint_eq(sent(&peer), COALESCE_UNDER_WAY);
	post(&peer, COALESCE_UNDER_WAY + COALESCE_POSTED - 1, 1, 8);
	ck_assert_uint_eq(sent(&peer), COALESCE_UNDER_WAY + COALESCE_POSTED);
	peer_destroy(&peer);
}
END_TEST

/* So do as many as are a super-packet by their bytes, as far as the window lets them. */
START_TEST(enough_bytes_go_together)
{
	const unsigned int enough = (COALESCE_BYTES + PEER_MTU - 1) / PEER_MTU;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	post(&peer, 0, COALESCE_UNDER_WAY, 8);
	post(&peer, COALESCE_UNDER_WAY, enough - 1, PEER_MTU);
	ck_assert_uint_eq(sent(&peer), COALESCE_UNDER_WAY);
	post(&peer, COALESCE_UNDER_WAY + enough - 1, 1, PEER_MTU);
	ck_assert_uint_gt(sent(&peer), COALESCE_UNDER_WAY + enough / 2);
	peer_destroy(&peer);
}
END_TEST

/* Those that wait are counted with those that go, or when the queue pair gives them up. */
START_TEST(all_are_counted)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct peer peer;
	struct counters *counters;

	peer_create(&peer, IBV_QPT_RC, NULL);
	counters = peer.node->hca->counters;
	post(&peer, 0, COALESCE_UNDER_WAY + COALESCE_POSTED, 8);
	ck_assert_uint_eq(counters->rdma_sends, COALESCE_UNDER_WAY + COALESCE_POSTED);
	post(&peer, 0, 3, 8);
	ck_assert_int_eq(qp_modify(peer.qp, &reset, IBV_QP_STATE, 0), 0);
	ck_assert_uint_eq(counters->rdma_sends, COALESCE_UNDER_WAY + COALESCE_POSTED + 3);
	peer_destroy(&peer);
}
END_TEST

static unsigned int asked;

static uint64_t count_asking(void)
{
	asked++;
	return UINT64_C(1000000000);
}

/* Whether the time was needed to post a SEND of 8 bytes. */
static bool asks_for_the_time(struct peer *peer)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory, .length = 8, .lkey = peer->mr->ibv.lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
	struct lazy_time time = {.clock = count_asking};
	unsigned int before = asked;

	ck_assert_int_eq(qp_post_send(peer->qp, &wr, &bad, false, &time), 0);
	ck_assert_uint_le(asked - before, 1);
	ck_assert_int_eq(asked - before, lazy_time_known(&time));
	return asked != before;
}

/* The clock takes a tenth of what such a post does. */
START_TEST(those_that_wait_need_no_time)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (unsigned int i = 0; i < COALESCE_UNDER_WAY; i++)
		ck_assert(asks_for_the_time(&peer));
	for (unsigned int i = 0; i < COALESCE_POSTED - 1; i++)
		ck_assert(!asks_for_the_time(&peer));
	ck_assert(asks_for_the_time(&peer));
	peer_destroy(&peer);
}
END_TEST

/* A bind sends nothing that others could join. */
START_TEST(a_bind_isnt_held)
{
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW};
	struct peer peer;
	struct mw *mw;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(mw_alloc(peer.node->pd, IBV_MW_TYPE_1, &mw), 0);
	bind.bind_mw.mw = &mw->ibv;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->ibv.rkey);
	post(&peer, 0, COALESCE_UNDER_WAY, 8);
	ck_assert_int_eq(world_post_send(peer.qp, &bind), 0);
	ck_assert_uint_eq(mw->key.value, bind.bind_mw.rkey);
	mw_dealloc(mw);
	peer_destroy(&peer);
}
END_TEST

/* A few that nothing more joins: they go when what is under way no longer is. */
START_TEST(an_acknowledgement_lets_them_go)
{
	const unsigned int few = 3;
	struct peer peer;
	uint32_t base, before;

	create(&peer, COALESCE_ROUND_MOST / 2);
	base = peer.qp->requester.psn;
	before = sent(&peer);
	post(&peer, 0, COALESCE_UNDER_WAY + few, 8);
	world_expect_none(peer.node, COALESCE_ROUND_MOST / 2);
	ck_assert_uint_eq(sent(&peer) - before, COALESCE_UNDER_WAY);
	acknowledge(&peer, base, 1);
	expect(&peer, 0, 1);
	ck_assert_uint_eq(sent(&peer) - before, COALESCE_UNDER_WAY + few);
	acknowledge(&peer, base, COALESCE_UNDER_WAY + few);
	expect(&peer, 1, COALESCE_UNDER_WAY + few - 1);
	peer_destroy(&peer);
}
END_TEST

/* Where that would be long in coming, they go when progress is made: together. */
START_TEST(a_far_peer_isnt_waited_for)
{
	const unsigned int few = 3;
	struct peer peer;
	unsigned int before;
	uint32_t base;

	create(&peer, 2 * COALESCE_ROUND_MOST);
	base = peer.qp->requester.psn;
	before = sent(&peer);
	post(&peer, 0, COALESCE_UNDER_WAY + few, 8);
	ck_assert_uint_eq(sent(&peer) - before, COALESCE_UNDER_WAY);
	hca_run_due(peer.node->hca, world_now(&peer.world));
	ck_assert_uint_eq(sent(&peer) - before, COALESCE_UNDER_WAY + few);
	acknowledge(&peer, base, COALESCE_UNDER_WAY + few);
	expect(&peer, 0, COALESCE_UNDER_WAY + few);
	peer_destroy(&peer);
}
END_TEST

/* As many go on waiting as keep enough under way. */
START_TEST(they_wait_on_while_enough_is_under_way)
{
	const unsigned int many = COALESCE_UNDER_WAY + COALESCE_POSTED, few = 2;
	struct peer peer;
	unsigned int before;
	uint32_t base;

	create(&peer, COALESCE_ROUND_MOST / 2);
	base = peer.qp->requester.psn;
	before = sent(&peer);
	post(&peer, 0, many + few, 8);
	ck_assert_uint_eq(sent(&peer) - before, many);
	acknowledge(&peer, base, many - COALESCE_UNDER_WAY);
	expect(&peer, 0, many - COALESCE_UNDER_WAY);
	ck_assert_uint_eq(sent(&peer) - before, many);
	acknowledge(&peer, base, many - COALESCE_UNDER_WAY + 1);
	expect(&peer, many - COALESCE_UNDER_WAY, 1);
	ck_assert_uint_eq(sent(&peer) - before, many + few);
	peer_destroy(&peer);
}
END_TEST

/* What was under way got lost: it and they are sent when the timeout says so. */
START_TEST(a_loss_doesnt_hold_them)
{
	struct peer peer;
	uint32_t base;

	peer_create(&peer, IBV_QPT_RC, NULL);
	base = peer.qp->requester.psn;
	post(&peer, 0, COALESCE_UNDER_WAY + 1, 8);
	world_expect_none(peer.node, UINT64_C(200000000));
	ck_assert_uint_gt(sent(&peer), COALESCE_UNDER_WAY + 1);
	acknowledge(&peer, base, COALESCE_UNDER_WAY + 1);
	expect(&peer, 0, COALESCE_UNDER_WAY + 1);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("coalesce");

	tcase_add_test(tcase, the_first_go_at_once);
	tcase_add_test(tcase, enough_of_them_go_together);
	tcase_add_test(tcase, all_are_counted);
	tcase_add_test(tcase, those_that_wait_need_no_time);
	tcase_add_test(tcase, enough_bytes_go_together);
	tcase_add_test(tcase, a_bind_isnt_held);
	tcase_add_test(tcase, an_acknowledgement_lets_them_go);
	tcase_add_test(tcase, a_far_peer_isnt_waited_for);
	tcase_add_test(tcase, they_wait_on_while_enough_is_under_way);
	tcase_add_test(tcase, a_loss_doesnt_hold_them);
	return world_main("coalesce", (TCase *const[]){tcase, NULL});
}
