/* SPDX-License-Identifier: BSD-2-Clause */
/* Explicit congestion notification (RFC 3168, Annex A17.9): marks, CNPs, and what they are for. */
#include <stdlib.h>

#include "emu/transport/destination.h"
#include "net/tuning.h"
#include "pair.h"
#include "peer.h"

#define CNP                                                                                        \
	{                                                                                          \
		.opcode = WIRE_OPCODE_CNP                                                          \
	}

/* A request of the peer, marked on its way. */
static void send_marked(struct peer *peer)
{
	struct path path = peer->path;
	struct peer_packet packet = {RC(WIRE_WRITE_ONLY), .psn = peer->psn++, .path = &path};

	path.traffic_class = ECN_CE;
	peer_send(peer, &packet);
}

static uint64_t limit(const struct peer *peer)
{
	return destination_limit(peer->qp->recovery.destination);
}

/* --- packets ------------------------------------------------------------------------------ */

/* The DSCP is the application's; the answer to a READ and the ACK are as capable as a request. */
START_TEST(packets_are_capable)
{
	struct ibv_qp_attr attr = {.ah_attr = {.is_global = 1, .port_num = 1}}, query;
	struct ibv_qp_init_attr init;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, IBV_QPS_RESET);
	world_modify_init(peer.qp, &world_connection);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = PEER_QPN;
	attr.rq_psn = FIRST_PSN;
	attr.max_dest_rd_atomic = 4;
	attr.ah_attr.grh.traffic_class = 0xb9; /* DSCP 46 */
	attr.ah_attr.grh.dgid = peer.path.source;
	ck_assert_int_eq(qp_modify(peer.qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER,
				   world_now(&peer.world)),
			 0);
	world_modify_rts(peer.qp, &world_connection);

	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	peer_see_op(&peer, "RC_RDMA_WRITE_ONLY");
	ck_assert_uint_eq(peer.traffic_class, 0xb8 | ECN_ECT0);
	peer_send(&peer, &(struct peer_packet){RC(WIRE_READ_REQUEST), .psn = FIRST_PSN,
					       .va = (uintptr_t)peer.memory,
					       .rkey = peer.mr->ibv.rkey, .dma_length = 8});
	peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	ck_assert_uint_eq(peer.traffic_class, 0xb8 | ECN_ECT0);
	qp_query(peer.qp, &query, &init);
	ck_assert_uint_eq(query.ah_attr.grh.traffic_class, 0xb9);
	peer_destroy(&peer);
}
END_TEST

/* IBA A17.9.3: BECN, everything else zero. One in CNP_INTERVAL, however many marks there are. */
START_TEST(marked_request_is_answered_by_a_cnp)
{
	const struct counters *counters;
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	counters = peer.node->hca->counters;
	peer.psn = FIRST_PSN;
	send_marked(&peer);
	send_marked(&peer);
	packet = peer_see_op(&peer, "CNP");
	ck_assert_uint_eq(peer.traffic_class, CNP_TRAFFIC_CLASS);
	ck_assert_uint_eq(packet.headers[0], 0x81);
	ck_assert_uint_eq(packet.headers[1], 0);
	ck_assert_uint_eq(packet.pkey, 0xffff);
	ck_assert_uint_eq(packet.headers[4], 0x40);
	ck_assert_uint_eq(packet.dest_qp, PEER_QPN);
	ck_assert_uint_eq(packet.psn, 0);
	ck_assert(!packet.ack_request);
	for (unsigned int i = sizeof(struct bth); i < sizeof(struct bth) + 16; i++)
		ck_assert_uint_eq(packet.headers[i], 0);
	ck_assert_uint_eq(packet.payload_length, 0);
	peer_see_op(&peer, "RC_ACKNOWLEDGE");
	send_marked(&peer);
	peer_see_op(&peer, "RC_ACKNOWLEDGE");
	ck_assert_uint_eq(counters->np_ecn_marked_roce_packets, 3);
	ck_assert_uint_eq(counters->np_cnp_sent, 1);

	world_run(&peer.world, CNP_INTERVAL);
	sim_advance(peer.world.sim, world_now(&peer.world) + CNP_INTERVAL);
	send_marked(&peer);
	peer_see_op(&peer, "CNP");
	ck_assert_uint_eq(counters->np_cnp_sent, 2);
	ck_assert_uint_eq(counters->rp_cnp_handled, 0);
	peer_destroy(&peer);
}
END_TEST

/* That it was told lately was another connection's peer. */
START_TEST(the_next_connection_is_told)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (int i = 0; i < 2; i++) {
		peer.psn = FIRST_PSN;
		send_marked(&peer);
		peer_see_op(&peer, "CNP");
		peer_see_op(&peer, "RC_ACKNOWLEDGE");
		world_modify_state(peer.qp, IBV_QPS_RESET);
		peer_connect(&peer, &world_connection);
	}
	peer_destroy(&peer);
}
END_TEST

/* What isn't acknowledged has no window to be reduced. */
START_TEST(marks_of_others_mean_nothing)
{
	struct path path;
	struct peer_packet packet = {.opcode = WIRE_UC | WIRE_WRITE_ONLY, .path = &path};
	struct peer peer;

	peer_create(&peer, IBV_QPT_UC, NULL);
	path = peer.path;
	path.traffic_class = ECN_CE;
	packet.psn = FIRST_PSN;
	peer_send(&peer, &packet);
	peer_see_none(&peer, MS);
	ck_assert_uint_eq(peer.node->hca->counters->np_ecn_marked_roce_packets, 0);
	peer_destroy(&peer);
}
END_TEST

/* A READ is in the requester's window. So its marked response reduces that, too. */
START_TEST(marked_response_reduces_our_window)
{
	struct peer_packet response = {RC(WIRE_READ_RESPONSE_ONLY), .length = 8};
	struct path path;
	struct peer peer;
	uint64_t before;

	peer_create(&peer, IBV_QPT_RC, NULL);
	path = peer.path;
	path.traffic_class = ECN_CE;
	response.path = &path;
	before = limit(&peer);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 1);
	response.psn = peer_see_op(&peer, "RC_RDMA_READ_REQUEST").psn;
	peer_send(&peer, &response);
	peer_see_op(&peer, "CNP");
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	ck_assert_uint_lt(limit(&peer), before);
	peer_destroy(&peer);
}
END_TEST

/* RFC 3168, 6.1.4; and CNPs to CNPs would never end. */
START_TEST(marked_acks_and_cnps_are_not_answered)
{
	struct peer_packet packet = {RC(WIRE_ACKNOWLEDGE), .syndrome = 0x1f, .msn = 1};
	struct path path;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	path = peer.path;
	path.traffic_class = ECN_CE;
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	packet.psn = peer_see_op(&peer, "RC_RDMA_WRITE_ONLY").psn;
	packet.path = &path;
	peer_send(&peer, &packet);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	packet = (struct peer_packet)CNP;
	packet.path = &path;
	peer_send(&peer, &packet);
	peer_see_none(&peer, 100000);
	ck_assert_uint_eq(peer.node->hca->counters->np_ecn_marked_roce_packets, 0);
	ck_assert_uint_eq(peer.node->hca->counters->rp_cnp_handled, 1);
	peer_destroy(&peer);
}
END_TEST

/* Once a round trip; and it is no loss, so nothing is sent again. */
START_TEST(cnp_reduces_the_window)
{
	struct peer_packet cnp = CNP;
	uint64_t before, reduced;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	before = limit(&peer);
	for (int i = 0; i < 5; i++)
		peer_send(&peer, &cnp);
	world_run(&peer.world, 10000);
	reduced = limit(&peer);
	ck_assert_uint_lt(reduced, before);
	ck_assert_uint_ge(reduced, before / 2);
	ck_assert_uint_eq(peer.node->hca->counters->rp_cnp_handled, 5);

	sim_advance(peer.world.sim, world_now(&peer.world) + CWND_ROUND_LEAST);
	peer_send(&peer, &cnp);
	world_run(&peer.world, 10000);
	ck_assert_uint_lt(limit(&peer), reduced);
	ck_assert_uint_eq(peer.node->hca->counters->retransmitted_pkts, 0);
	peer_see_none(&peer, 100000);
	peer_destroy(&peer);
}
END_TEST

/* A responder sends as well, answers to READs: a target of XRC, and RC that is in RTR. */
START_TEST(cnp_to_a_responder)
{
	struct connection c = world_connection;
	struct peer_packet cnp = CNP;
	struct peer peer;
	uint64_t before;

	peer_create_srq(&peer, _i ? IBV_QPT_XRC_RECV : IBV_QPT_RC, &c, 1);
	if (!_i) {
		world_modify_state(peer.qp, IBV_QPS_RESET);
		world_modify_init(peer.qp, &c);
		world_modify_rtr_to(peer.qp, &peer.path.source, PEER_QPN, &c);
	}
	before = limit(&peer);
	peer_send(&peer, &cnp);
	peer_see_none(&peer, 100000);
	ck_assert_uint_lt(limit(&peer), before);
	ck_assert_uint_eq(peer.node->hca->counters->rp_cnp_handled, 1);
	ck_assert_uint_eq(peer.node->hca->counters->dropped_packets, 0);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_COMM_EST], 0);
	peer_destroy(&peer);
}
END_TEST

/* From another address, with a key that isn't ours, or in a state that takes nothing. */
START_TEST(cnp_is_dropped)
{
	struct peer_packet cnp = CNP;
	struct path path;
	struct peer peer;

	peer_create(&peer, _i == 3 ? IBV_QPT_UC : IBV_QPT_RC, NULL);
	path = peer.path;
	if (_i == 0)
		path.source.raw[15]++;
	if (_i == 1)
		cnp.pkey = 0x8001;
	if (_i == 2)
		world_modify_state(peer.qp, IBV_QPS_ERR);
	cnp.path = &path;
	peer_send(&peer, &cnp);
	peer_see_none(&peer, 100000);
	ck_assert_uint_eq(peer.node->hca->counters->rp_cnp_handled, 0);
	ck_assert_uint_eq(peer.node->hca->counters->dropped_packets, 1);
	peer_destroy(&peer);
}
END_TEST

/* --- a bottleneck ------------------------------------------------------------------------- */

#define CHUNK (64 * 1024)
#define CHUNKS 2000
#define BANDWIDTH 500 /* bytes a microsecond */

/* Keep the send queue full until everything has arrived. Returns how long that took. */
static uint64_t stream(struct pair *p, enum ibv_wr_opcode opcode)
{
	uint64_t began = world_now(&p->world);

	for (uint64_t i = 0; i < CHUNKS; i++) {
		if (i >= PAIR_DEPTH / 2)
			world_expect(p->a, i - PAIR_DEPTH / 2, IBV_WC_SUCCESS);
		pair_post(p, opcode, CHUNK, i);
	}
	for (uint64_t i = CHUNKS - PAIR_DEPTH / 2; i < CHUNKS; i++)
		world_expect(p->a, i, IBV_WC_SUCCESS);
	return world_now(&p->world) - began;
}

/*
 * A queue in front of a slow wire that marks: nothing is lost, the wire stays busy, and the queue
 * short; without the marks it grows until the window does no more.
 */
START_TEST(marks_keep_the_queue_short)
{
	const enum ibv_wr_opcode opcode = _i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	struct sim_options network = {.latency = 50000, .bandwidth = BANDWIDTH};
	const uint64_t ideal = (uint64_t)CHUNK * CHUNKS * 1000 / BANDWIDTH;
	struct sim_statistics unmarked, marked;
	struct connection c = world_connection;
	uint64_t took;
	struct pair p;

	c.mtu = IBV_MTU_4096;
	pair_create(&p, IBV_QPT_RC, &network, 1, &c);
	stream(&p, opcode);
	sim_statistics(p.world.sim, &unmarked);
	ck_assert_uint_eq(unmarked.marked, 0);
	pair_destroy(&p);

	network.mark_queue = 100000; /* two round trips' worth */
	pair_create(&p, IBV_QPT_RC, &network, 1, &c);
	took = stream(&p, opcode);
	sim_statistics(p.world.sim, &marked);
	ck_assert_uint_gt(marked.marked, 0);
	ck_assert_uint_gt(p.a->hca->counters->rp_cnp_handled + p.b->hca->counters->rp_cnp_handled,
			  0);
	ck_assert_uint_eq(p.a->hca->counters->retransmitted_pkts, 0);
	ck_assert_uint_eq(p.b->hca->counters->duplicate_request, 0);
	ck_assert_uint_le(took, ideal * 5 / 4);
	ck_assert_uint_lt(marked.longest_queue, unmarked.longest_queue * 2 / 3);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("ecn");

	tcase_add_test(tcase, packets_are_capable);
	tcase_add_test(tcase, marked_request_is_answered_by_a_cnp);
	tcase_add_test(tcase, the_next_connection_is_told);
	tcase_add_test(tcase, marks_of_others_mean_nothing);
	tcase_add_test(tcase, marked_response_reduces_our_window);
	tcase_add_test(tcase, marked_acks_and_cnps_are_not_answered);
	tcase_add_test(tcase, cnp_reduces_the_window);
	tcase_add_loop_test(tcase, cnp_to_a_responder, 0, 2);
	tcase_add_loop_test(tcase, cnp_is_dropped, 0, 4);
	tcase_add_loop_test(tcase, marks_keep_the_queue_short, 0, 2);
	return world_main("ecn", (TCase *const[]){tcase, NULL});
}
