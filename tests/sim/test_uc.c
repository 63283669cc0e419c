/* SPDX-License-Identifier: BSD-2-Clause */
/* UC (IBA 9.8.2): nothing is acknowledged, a gap ends the message in progress. */
#include <stdlib.h>

#include "pair.h"
#include "peer.h"

#define UC(operation) .opcode = WIRE_UC | (operation)
#define BAD_KEY 0xdead0001
#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* @skip PSNs are lost before this packet. */
static void send_after(struct peer *peer, uint32_t skip, struct peer_packet packet)
{
	peer->psn += skip;
	packet.psn = peer->psn++ & PSN_MASK;
	packet.va += (uintptr_t)peer->memory;
	if (!packet.rkey)
		packet.rkey = peer->mr->ibv.rkey;
	peer_send(peer, &packet);
}

static void expect_receive(struct peer *peer, uint64_t id, uint32_t length)
{
	struct ibv_wc wc = world_completion(peer->node, SECOND);

	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, id);
	ck_assert_uint_eq(wc.byte_len, length);
}

static void create(struct peer *peer)
{
	peer_create(peer, IBV_QPT_UC, NULL);
	for (uint64_t i = 0; i < 4; i++)
		ck_assert_int_eq(world_post_recv(peer->qp, peer->memory + 40000, 3000,
						 peer->mr->ibv.lkey, i),
				 0);
}

/* All is well, nothing is said, and the next message is taken by receive @next. */
static void expect_well(struct peer *peer, uint64_t next)
{
	struct peer_packet only = {UC(WIRE_SEND_ONLY), .length = 12};

	world_expect_none(peer->node, MS);
	send_after(peer, 0, only);
	expect_receive(peer, next, 12);
	peer_see_none(peer, MS);
	ck_assert_int_eq(peer->qp->state, IBV_QPS_RTS);
}

START_TEST(every_operation)
{
	struct ibv_wc wc;
	struct peer peer;

	create(&peer);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_FIRST), .length = PEER_MTU});
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_MIDDLE), .length = PEER_MTU});
	send_after(&peer, 0,
		   (struct peer_packet){UC(WIRE_SEND_LAST_IMM), .length = 3, .immediate = 77});
	wc = world_completion(peer.node, SECOND);
	ck_assert_uint_eq(wc.wr_id, 0);
	ck_assert_uint_eq(wc.byte_len, 2 * PEER_MTU + 3);
	ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_IMM);
	ck_assert_uint_eq(be32toh(wc.imm_data), 77);
	ck_assert_uint_eq(peer.memory[40000 + 2 * PEER_MTU + 2], 2);
	send_after(
		&peer, 0,
		(struct peer_packet){UC(WIRE_WRITE_FIRST), .length = PEER_MTU, .dma_length = 2000});
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_WRITE_LAST), .length = 2000 - PEER_MTU});
	world_expect_none(peer.node, MS);
	ck_assert_uint_eq(peer.memory[1999], (uint8_t)(1999 - PEER_MTU));
	send_after(&peer, 0,
		   (struct peer_packet){UC(WIRE_WRITE_ONLY_IMM), .length = 7, .dma_length = 7,
					.va = 5000, .immediate = 78});
	wc = world_completion(peer.node, SECOND);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	ck_assert_uint_eq(wc.byte_len, 7);
	ck_assert_uint_eq(peer.memory[5006], 6);
	expect_well(&peer, 2);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_COMM_EST], 0); /* it was in RTS */
	peer_destroy(&peer);
}
END_TEST

/* What is given up, and how; the receive that it had is filled anew from its start. */
static const struct {
	const char *name;
	struct {
		uint32_t skip;
		struct peer_packet packet;
	} packets[4];
	int count;
} given_up[] = {
	{"a gap before LAST",
	 {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}}, {1, {UC(WIRE_SEND_LAST), .length = 4}}},
	 2},
	{"a gap before MIDDLE",
	 {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}},
	  {1, {UC(WIRE_SEND_MIDDLE), .length = PEER_MTU}},
	  {0, {UC(WIRE_SEND_LAST), .length = 4}}},
	 3},
	{"LAST without FIRST", {{0, {UC(WIRE_SEND_LAST), .length = 4}}}, 1},
	{"FIRST never followed", {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}}}, 1},
	{"FIRST twice",
	 {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}},
	  {0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}}},
	 2},
	{"LAST of another kind",
	 {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}}, {0, {UC(WIRE_WRITE_LAST), .length = 4}}},
	 2},
	{"a WRITE within",
	 {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}},
	  {0, {UC(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4}},
	  {0, {UC(WIRE_SEND_LAST), .length = 4}}},
	 3},
	{"short FIRST", {{0, {UC(WIRE_SEND_FIRST), .length = 100}}}, 1},
	{"short MIDDLE",
	 {{0, {UC(WIRE_SEND_FIRST), .length = PEER_MTU}},
	  {0, {UC(WIRE_SEND_MIDDLE), .length = 100}},
	  {0, {UC(WIRE_SEND_LAST), .length = 4}}},
	 3},
	{"long ONLY", {{0, {UC(WIRE_SEND_ONLY), .length = PEER_MTU + 4}}}, 1},
	{"unknown key",
	 {{0, {UC(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4, .rkey = BAD_KEY}}},
	 1},
	{"unknown key, with immediate",
	 {{0, {UC(WIRE_WRITE_ONLY_IMM), .length = 4, .dma_length = 4, .rkey = BAD_KEY}}},
	 1},
	{"unknown key, all of it",
	 {{0, {UC(WIRE_WRITE_FIRST), .length = PEER_MTU, .dma_length = 1030, .rkey = BAD_KEY}},
	  {0, {UC(WIRE_WRITE_LAST_IMM), .length = 6}}},
	 2},
	{"WRITE, too little",
	 {{0, {UC(WIRE_WRITE_FIRST), .length = PEER_MTU, .dma_length = 1500}},
	  {0, {UC(WIRE_WRITE_LAST_IMM), .length = 400}}},
	 2},
	{"WRITE, too much",
	 {{0, {UC(WIRE_WRITE_FIRST), .length = PEER_MTU, .dma_length = 1500}},
	  {0, {UC(WIRE_WRITE_LAST_IMM), .length = 500}}},
	 2},
	{"opcodes of RC only", {{0, {.opcode = WIRE_UC | WIRE_READ_REQUEST, .dma_length = 4}}}, 1},
};

START_TEST(give_up)
{
	struct peer peer;

	create(&peer);
	for (int i = 0; i < given_up[_i].count; i++)
		send_after(&peer, given_up[_i].packets[i].skip, given_up[_i].packets[i].packet);
	expect_well(&peer, 0);
	expect_well(&peer, 1);
	ck_assert_uint_eq(peer.memory[40000 + 11], 11);
	peer_destroy(&peer);
}
END_TEST

/* A gap before FIRST or ONLY loses only what it loses. */
START_TEST(resynchronize)
{
	struct peer peer;

	create(&peer);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_FIRST), .length = PEER_MTU});
	send_after(&peer, 100, (struct peer_packet){UC(WIRE_SEND_ONLY), .length = 5});
	expect_receive(&peer, 0, 5);
	send_after(&peer, 0x800000, (struct peer_packet){UC(WIRE_SEND_FIRST), .length = PEER_MTU});
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_LAST), .length = 5});
	expect_receive(&peer, 1, PEER_MTU + 5);
	expect_well(&peer, 2);
	peer_destroy(&peer);
}
END_TEST

/* No receive: the message is lost, and there is no RNR. */
START_TEST(no_receive)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_UC, NULL);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_ONLY), .length = 5});
	send_after(&peer, 0,
		   (struct peer_packet){UC(WIRE_WRITE_ONLY_IMM), .length = 4, .dma_length = 4});
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_FIRST), .length = PEER_MTU});
	world_run(&peer.world, MS);
	peer_receive(&peer, 3000, 0);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_LAST), .length = 5});
	expect_well(&peer, 0);
	peer_destroy(&peer);
}
END_TEST

START_TEST(no_access)
{
	struct connection c = world_connection;
	struct peer peer;

	c.access = IBV_ACCESS_LOCAL_WRITE;
	peer_create(&peer, IBV_QPT_UC, &c);
	send_after(&peer, 0,
		   (struct peer_packet){UC(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4});
	peer_receive(&peer, 3000, 0);
	world_expect_none(peer.node, MS);
	ck_assert_uint_eq(peer.memory[3], 0);
	expect_well(&peer, 0);
	peer_destroy(&peer);
}
END_TEST

/* Our own receive is at fault, and says so (IBA 9.8.2.2.1, class E). */
START_TEST(bad_receive)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_UC, NULL);
	ck_assert_int_eq(world_post_recv(peer.qp, peer.memory, _i ? 100 : 4,
					 _i ? BAD_KEY : peer.mr->ibv.lkey, 0),
			 0);
	peer_receive(&peer, 100, 1);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_ONLY), .length = 5});
	world_expect(peer.node, 0, _i ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR);
	world_expect(peer.node, 1, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	peer_see_none(&peer, MS);
	peer_destroy(&peer);
}
END_TEST

START_TEST(comm_est)
{
	struct peer peer;

	create(&peer);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	world_modify_init(peer.qp, &world_connection);
	world_modify_rtr_to(peer.qp, &peer.path.source, PEER_QPN, &world_connection);
	peer_receive(&peer, 3000, 0);
	peer_receive(&peer, 3000, 1);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_ONLY), .length = 5});
	expect_receive(&peer, 0, 5);
	send_after(&peer, 0, (struct peer_packet){UC(WIRE_SEND_ONLY), .length = 5});
	expect_receive(&peer, 1, 5);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_COMM_EST], 1);
	peer_destroy(&peer);
}
END_TEST

/* --- the requester ---------------------------------------------------------------- */

/* A request completes when its last packet has left, whether or not that arrives. */
START_TEST(completes_when_sent)
{
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, NULL);
	pair_cut(&p, true);
	for (uint64_t i = 0; i < 10; i++)
		pair_post(&p, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM, 10000, i);
	for (uint64_t i = 0; i < 10; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	world_expect_none(p.a, SECOND);
	/* Nothing is in flight: else no more would be sent after half of the PSNs. */
	ck_assert_uint_eq(p.qa->requester.unacked, p.qa->requester.psn);
	pair_destroy(&p);
}
END_TEST

static struct {
	const struct link_ops *ops; /* the link's own */
	const struct cq *cq;
	unsigned int sent;
} watched;

static unsigned int send_uncompleted(struct link *link, struct link_packet *packets,
				     unsigned int count, uint64_t now)
{
	ck_assert_uint_eq(watched.cq->count, 0);
	watched.sent += count;
	return watched.ops->send(link, packets, count, now);
}

/* Not before: then the application may write to the memory that its packets are made of. */
START_TEST(completes_behind_its_packets)
{
	struct link_ops ops;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, NULL);
	watched.ops = p.a->link->ops;
	watched.cq = p.a->cq;
	ops = *watched.ops;
	ops.send = send_uncompleted;
	p.a->link->ops = &ops;
	pair_post(&p, IBV_WR_RDMA_WRITE, 3000, 0);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(watched.sent, 3);
	p.a->link->ops = watched.ops;
	pair_destroy(&p);
}
END_TEST

/* IBA 11.4.1.1: what UC doesn't have isn't posted. */
START_TEST(no_such_operation)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_SEND_WITH_INV};
	struct pair_wr request;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, NULL);
	ck_assert_int_eq(world_post_send(p.qa, pair_wr(&p, &request, opcodes[_i], 8, 0)), EINVAL);
	world_expect_none(p.a, MS);
	pair_destroy(&p);
}
END_TEST

/* IBA 10.3.1.6: a local error stops the send queue alone, and RTS starts it again. */
START_TEST(send_queue_error)
{
	struct pair_wr request;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, NULL, 1, NULL);
	ck_assert_int_eq(world_post_recv(p.qa, p.ma, 100, p.ra->ibv.lkey, 100), 0);
	for (uint64_t i = 0; i < 3; i++) {
		pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 8, i);
		if (i == 1)
			request.sge.lkey = BAD_KEY;
		ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	}
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	world_expect(p.a, 1, IBV_WC_LOC_PROT_ERR);
	world_expect(p.a, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(p.qa->state, IBV_QPS_SQE);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 3);
	world_expect(p.a, 3, IBV_WC_WR_FLUSH_ERR);

	/* The receive queue works. */
	pair_wr(&p, &request, IBV_WR_SEND, 8, 50);
	request.sge = (struct ibv_sge){(uintptr_t)p.mb, 8, p.rb->ibv.lkey};
	ck_assert_int_eq(world_post_send(p.qb, &request.wr), 0);
	world_expect(p.b, 50, IBV_WC_SUCCESS);
	world_expect(p.a, 100, IBV_WC_SUCCESS);

	world_modify_state(p.qa, IBV_QPS_RTS);
	pair_fill(p.ma, 3000, 9);
	pair_post(&p, IBV_WR_RDMA_WRITE, 3000, 4);
	world_expect(p.a, 4, IBV_WC_SUCCESS);
	world_run(&p.world, MS);
	ck_assert_mem_eq(p.ma, p.mb, 3000);
	pair_destroy(&p);
}
END_TEST

/* Through a bad network some messages are lost, and what arrives is whole. */
START_TEST(through_faults)
{
	static const struct sim_options network = {
		.latency = 1000, .jitter = 500, .drop = 0.03, .reorder = 0.01, .corrupt = 0.01};
	enum { MESSAGES = 300, LENGTH = 5000 };
	uint64_t received = 0;
	struct ibv_wc wc;
	struct pair p;

	pair_create(&p, IBV_QPT_UC, &network, _i, NULL);
	for (uint64_t i = 0; i < 8; i++)
		ck_assert_int_eq(
			world_post_recv(p.qb, p.mb + i * LENGTH, LENGTH, p.rb->ibv.lkey, i), 0);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		uint32_t length = 1 + i * 17 % LENGTH;

		pair_fill(p.ma, length, i);
		pair_post(&p, IBV_WR_SEND_WITH_IMM, length, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		world_run(&p.world, 10000);
		while (world_poll(p.b, &wc)) {
			uint8_t expected[LENGTH];

			ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
			ck_assert_uint_eq(wc.wr_id, received % 8);
			ck_assert_uint_eq(be32toh(wc.imm_data), i);
			ck_assert_uint_eq(wc.byte_len, length);
			pair_fill(expected, length, i);
			ck_assert_mem_eq(p.mb + received % 8 * LENGTH, expected, length);
			ck_assert_int_eq(world_post_recv(p.qb, p.mb + received % 8 * LENGTH, LENGTH,
							 p.rb->ibv.lkey, received % 8),
					 0);
			received++;
		}
	}
	ck_assert_uint_gt(received, MESSAGES / 2);
	ck_assert_uint_lt(received, MESSAGES);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *responder = tcase_create("responder"), *requester = tcase_create("requester");

	tcase_add_test(responder, every_operation);
	tcase_add_loop_test(responder, give_up, 0, LENGTH(given_up));
	tcase_add_test(responder, resynchronize);
	tcase_add_test(responder, no_receive);
	tcase_add_test(responder, no_access);
	tcase_add_loop_test(responder, bad_receive, 0, 2);
	tcase_add_test(responder, comm_est);
	tcase_add_test(requester, completes_when_sent);
	tcase_add_test(requester, completes_behind_its_packets);
	tcase_add_loop_test(requester, no_such_operation, 0, 4);
	tcase_add_test(requester, send_queue_error);
	tcase_add_loop_test(requester, through_faults, 1, 21);
	return world_main("uc", (TCase *const[]){responder, requester, NULL});
}
