/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues and their events: shared receive queues, draining a send queue (SQD),
 * arming completion queues, and completion queues that overrun.
 */
#include <stdlib.h>

#include "pair.h"
#include "peer.h"

static void send_next(struct peer *peer, struct peer_packet packet)
{
	packet.psn = peer->psn++ & PSN_MASK;
	peer_send(peer, &packet);
	world_run(&peer->world, 10000);
}

/* --- shared receive queues --------------------------------------------------------- */

static const struct peer_packet only = {RC(WIRE_SEND_ONLY), .length = 8};
static const struct peer_packet first = {RC(WIRE_SEND_FIRST), .length = PEER_MTU};

static unsigned int *event_count(struct peer *peer, enum ibv_event_type type)
{
	return &peer->node->events[type];
}

/* IBA 10.2.9.1: below the limit, once; and again only when it is armed again. */
START_TEST(srq_limit)
{
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_RC, &world_connection, 10);
	for (uint64_t i = 0; i < 6; i++)
		peer_receive(&peer, 100, i);
	ck_assert_int_eq(srq_modify(peer.qp->srq, &attr, IBV_SRQ_LIMIT), 0);
	for (uint64_t i = 0; i < 3; i++)
		send_next(&peer, only);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SRQ_LIMIT_REACHED), 0);
	send_next(&peer, only);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	srq_query(peer.qp->srq, &attr);
	ck_assert_uint_eq(attr.srq_limit, 0);
	send_next(&peer, only);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	peer_receive(&peer, 100, 6);
	attr.srq_limit = 2;
	ck_assert_int_eq(srq_modify(peer.qp->srq, &attr, IBV_SRQ_LIMIT), 0);
	send_next(&peer, only);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SRQ_LIMIT_REACHED), 2);
	for (uint64_t i = 0; i < 6; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

START_TEST(srq_empty)
{
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_RC, &world_connection, 10);
	send_next(&peer, only);
	peer_see_ack(&peer, FIRST_PSN, 0x20 | world_connection.min_rnr_timer);
	peer_receive(&peer, 100, 1);
	peer.psn--;
	send_next(&peer, only);
	peer_see_ack(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/*
 * IBA 11.6.5.5: the QP's end takes nothing from the SRQ but what a message in
 * progress had taken; and then the QP says that it takes no more.
 */
START_TEST(srq_and_error)
{
	struct ibv_srq_attr attr;
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_RC, &world_connection, 10);
	for (uint64_t i = 0; i < 5; i++)
		peer_receive(&peer, 2000, i);
	send_next(&peer, only);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	if (_i)
		send_next(&peer, first);
	world_modify_state(peer.qp, IBV_QPS_ERR);
	if (_i)
		world_expect(peer.node, 1, IBV_WC_WR_FLUSH_ERR);
	world_expect_none(peer.node, MS);
	world_run(&peer.world, MS);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
	world_modify_state(peer.qp, IBV_QPS_ERR);
	world_run(&peer.world, MS);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
	srq_query(peer.qp->srq, &attr);
	ck_assert_uint_eq(peer.qp->srq->queue.count, 4 - _i);
	/* Nor is there an event for a receive that the QP refuses. */
	ck_assert_int_eq(world_post_recv(peer.qp, peer.memory, 8, peer.mr->ibv.lkey, 9), EINVAL);
	world_run(&peer.world, MS);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
	peer_destroy(&peer);
}
END_TEST

/* That event isn't told any more when its QP is gone. */
START_TEST(destroyed_in_error)
{
	const struct qp_options options = {.type = IBV_QPT_RC};
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_RC, &world_connection, 10);
	world_modify_state(peer.qp, IBV_QPS_ERR);
	ck_assert_int_eq(qp_destroy(peer.qp), 0);
	world_run(&peer.world, MS);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_QP_LAST_WQE_REACHED), 0);
	peer.qp = world_qp(peer.node, &options);
	peer_destroy(&peer);
}
END_TEST

/* A fault of the receive is the message's, not the SRQ's. */
START_TEST(srq_too_short)
{
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_RC, &world_connection, 10);
	peer_receive(&peer, 4, 0);
	peer_receive(&peer, 100, 1);
	send_next(&peer, only);
	peer_see_ack(&peer, FIRST_PSN, 0x61);
	world_expect(peer.node, 0, IBV_WC_LOC_LEN_ERR);
	world_expect_none(peer.node, MS);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
	ck_assert_uint_eq(peer.qp->srq->queue.count, 1);
	peer_destroy(&peer);
}
END_TEST

/* Receives belong to the protection domain of the SRQ, and R_Keys to that of the QP. */
START_TEST(srq_of_another_pd)
{
	struct ibv_srq_attr attr = {.max_wr = 4, .max_sge = 1};
	struct qp_options options = {.type = IBV_QPT_RC,
				     .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct node *a, *b;
	struct world world;
	uint8_t memory[2][64] = {"datum"};
	struct qp *qa, *qb;
	struct pd *other;
	struct mr *from, *to;
	const struct ibv_recv_wr *bad;

	world_create(&world, 2, NULL, 1);
	a = &world.nodes[0];
	b = &world.nodes[1];
	ck_assert_int_eq(pd_alloc(b->hca, &other), 0);
	ck_assert_int_eq(srq_create(other, &attr, &options.srq), 0);
	qb = world_qp(b, &options);
	from = world_mr(a, memory[0], 64, 0);
	ck_assert_int_eq(mr_register(other, memory[1], 64, (uintptr_t)memory[1],
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &to),
			 0);
	struct ibv_sge sge[] = {{(uintptr_t)memory[0], 64, from->ibv.lkey},
				{(uintptr_t)memory[1], 64, to->ibv.lkey}};
	struct ibv_recv_wr receive = {.wr_id = 7, .sg_list = &sge[1], .num_sge = 1};

	ck_assert_int_eq(srq_post(options.srq, &receive, &bad), 0);
	options.srq = NULL;
	qa = world_qp(a, &options);
	world_connect(a, qa, b, qb, &world_connection);
	send.sg_list = &sge[0];
	send.num_sge = 1;
	ck_assert_int_eq(world_post_send(qa, &send), 0);
	world_expect(b, 7, IBV_WC_SUCCESS);
	world_expect(a, 0, IBV_WC_SUCCESS);
	ck_assert_mem_eq(memory[0], memory[1], 64);
	send.opcode = IBV_WR_RDMA_WRITE;
	send.wr.rdma.remote_addr = (uintptr_t)memory[1];
	send.wr.rdma.rkey = to->ibv.rkey;
	ck_assert_int_eq(world_post_send(qa, &send), 0);
	world_expect(a, 0, IBV_WC_REM_ACCESS_ERR);

	options.srq = qb->srq;
	ck_assert_int_eq(qp_destroy(qa), 0);
	ck_assert_int_eq(qp_destroy(qb), 0);
	ck_assert_int_eq(srq_destroy(options.srq), 0);
	ck_assert_int_eq(mr_deregister(from), 0);
	ck_assert_int_eq(mr_deregister(to), 0);
	ck_assert_int_eq(pd_dealloc(other), 0);
	world_destroy(&world);
}
END_TEST

START_TEST(srq_of_datagrams)
{
	struct peer_packet packet = {
		.opcode = WIRE_UD | WIRE_SEND_ONLY, .length = 8, .qkey = 0x11111111};
	struct peer peer;

	peer_create_srq(&peer, IBV_QPT_UD, &world_connection, 10);
	send_next(&peer, packet);
	peer_receive(&peer, 100, 0);
	send_next(&peer, packet);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	world_expect_none(peer.node, MS);
	peer_destroy(&peer);
}
END_TEST

/* --- draining, IBA 10.3.1.5 ---------------------------------------------------------- */

static int drain(struct peer *peer, bool notify)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify};

	return qp_modify(peer->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY,
			 world_now(&peer->world));
}

static bool draining(struct peer *peer)
{
	const struct ibv_qp_attr attr = world_query(peer->qp);

	ck_assert_int_eq(attr.qp_state, IBV_QPS_SQD);
	return attr.sq_draining;
}

/* What was begun is finished, with retransmissions; what wasn't waits; receiving goes on. */
START_TEST(drain_send_queue)
{
	struct ibv_qp_attr back = {.qp_state = IBV_QPS_RTS}, none = {.max_rd_atomic = 0};
	struct connection c = world_connection;
	struct packet packet;
	bool notify = _i;
	struct peer peer;

	c.rd_atomic = 1;
	peer_create(&peer, IBV_QPT_RC, &c);
	peer_receive(&peer, 100, 100);
	peer_post(&peer, IBV_WR_SEND, 3000, 0);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 1);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 2); /* one at a time: this one isn't begun */
	peer_see_requests(&peer, c.psn, 4);
	ck_assert_int_eq(drain(&peer, notify), 0);
	peer_post(&peer, IBV_WR_SEND, 8, 3);
	peer_see_none(&peer, 10000);
	ck_assert(draining(&peer));
	ck_assert_int_eq(qp_modify(peer.qp, &back, IBV_QP_STATE, 0), EINVAL);
	ck_assert_int_eq(qp_modify(peer.qp, &none, IBV_QP_MAX_QP_RD_ATOMIC, 0), EINVAL);

	send_next(&peer, only); /* the receive queue doesn't drain */
	peer_see_ack(&peer, c.psn, 0x1f);
	world_expect(peer.node, 100, IBV_WC_SUCCESS);

	/* No answer: sent again one by one, as probes. */
	ck_assert(peer_wait(&peer, &packet, 100 * MS));
	ck_assert_uint_eq(packet.psn, c.psn);
	peer_acknowledge(&peer, c.psn, AETH_ACK_UNLIMITED);
	peer_see_requests(&peer, c.psn + 1, 1);
	peer_acknowledge(&peer, c.psn + 2, AETH_ACK_UNLIMITED);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert(draining(&peer));
	peer_send(&peer,
		  &(struct peer_packet){RC(WIRE_READ_RESPONSE_ONLY), .psn = (c.psn + 3) & PSN_MASK,
					.syndrome = 0x1f, .length = 8});
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect_none(peer.node, SECOND);
	peer_see_none(&peer, 10000);
	ck_assert(!draining(&peer));
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SQ_DRAINED), notify);

	world_modify_state(peer.qp, IBV_QPS_RTS);
	peer_see_requests(&peer, c.psn + 4, 1);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SQ_DRAINED), notify);
	peer_destroy(&peer);
}
END_TEST

/* The acknowledgement of the last request ends it. */
START_TEST(drain_the_last)
{
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	ck_assert_int_eq(drain(&peer, true), 0);
	ck_assert(draining(&peer));
	peer_acknowledge(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert(!draining(&peer));
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SQ_DRAINED), 1);
	peer_destroy(&peer);
}
END_TEST

START_TEST(drain_idle)
{
	struct ibv_qp_attr attr = {.timeout = 9, .max_rd_atomic = 3, .min_rnr_timer = 2};
	struct peer peer;

	peer_create(&peer, _i ? IBV_QPT_UC : IBV_QPT_RC, NULL);
	ck_assert_int_eq(drain(&peer, true), 0);
	world_run(&peer.world, MS);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SQ_DRAINED), 1);
	ck_assert(!draining(&peer));
	if (!_i) /* what SQD is for */
		ck_assert_int_eq(
			qp_modify(peer.qp, &attr,
				  IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
				  0),
			0);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	world_expect_none(peer.node, MS);
	world_modify_state(peer.qp, IBV_QPS_RTS);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_destroy(&peer);
}
END_TEST

/* What was executed for the peer is remembered in SQD: its response may have been lost. */
START_TEST(drain_and_duplicate)
{
	const uint8_t rd_atomic[] = {world_connection.rd_atomic, 2, 16};
	struct ibv_qp_attr attr = {.max_dest_rd_atomic = rd_atomic[_i]};
	struct peer_packet add = {RC(WIRE_FETCH_ADD), .swap_or_add = 5};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	add.va = (uintptr_t)peer.memory;
	add.rkey = peer.mr->ibv.rkey;
	for (int i = 0; i < 3; i++) {
		send_next(&peer, add);
		peer_see(&peer);
	}
	ck_assert_int_eq(drain(&peer, false), 0);
	ck_assert_int_eq(qp_modify(peer.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC, 0), 0);
	peer.psn -= 2;
	for (int i = 0; i < 2; i++) {
		send_next(&peer, add);
		peer_see_op(&peer, "RC_ATOMIC_ACKNOWLEDGE");
	}
	ck_assert_uint_eq(peer.memory[0], 15);
	peer_destroy(&peer);
}
END_TEST

/* So is what hasn't been answered yet. */
START_TEST(drain_and_answer)
{
	const uint32_t packets = PEER_MEMORY / PEER_MTU;
	struct peer_packet read = {RC(WIRE_READ_REQUEST), .dma_length = PEER_MEMORY};
	struct ibv_qp_attr attr = {.max_dest_rd_atomic = 1};
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = 16;
	peer_create(&peer, IBV_QPT_RC, &c);
	read.va = (uintptr_t)peer.memory;
	read.rkey = peer.mr->ibv.rkey;
	for (uint32_t i = 0; i < c.rd_atomic; i++) {
		read.psn = (c.psn + i * packets) & PSN_MASK;
		peer_send(&peer, &read);
	}
	sim_advance(peer.world.sim, world_now(&peer.world) + 1000);
	hca_progress(peer.node->hca, world_now(&peer.world));
	ck_assert_uint_lt(peer.node->hca->counters->sent_pkts, c.rd_atomic * packets);
	ck_assert_int_eq(drain(&peer, false), 0);
	ck_assert_int_eq(qp_modify(peer.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC, 0), 0);
	world_run(&peer.world, MS);
	ck_assert_uint_eq(peer.node->hca->counters->sent_pkts, c.rd_atomic * packets);
	peer_destroy(&peer);
}
END_TEST

START_TEST(drain_ends_in_error)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	ck_assert_int_eq(drain(&peer, true), 0);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	if (_i)
		world_modify_state(peer.qp, IBV_QPS_ERR);
	world_expect(peer.node, 0, _i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	world_expect(peer.node, 1, IBV_WC_WR_FLUSH_ERR);
	world_run(&peer.world, SECOND);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_SQ_DRAINED), 0);
	qp_query(peer.qp, &attr, &init);
	ck_assert(!attr.sq_draining);
	peer_destroy(&peer);
}
END_TEST

/* --- arming (ibv_req_notify_cq(3)) ------------------------------------------------------- */

static void send_solicited(struct peer *peer, bool solicited)
{
	struct peer_packet packet = only;

	packet.solicited = solicited;
	send_next(peer, packet);
}

static void expect_events(struct peer *peer, unsigned int count)
{
	world_run(&peer->world, MS);
	ck_assert_uint_eq(peer->node->completion_events, count);
}

START_TEST(arm)
{
	struct peer peer;
	struct cq *cq;

	peer_create(&peer, IBV_QPT_RC, NULL);
	cq = peer.node->cq;
	for (uint64_t i = 0; i < 20; i++)
		peer_receive(&peer, 100, i);
	send_solicited(&peer, true);
	expect_events(&peer, 0); /* not armed */
	cq_arm(cq, false);
	expect_events(&peer, 0); /* what is there already is no event */
	send_solicited(&peer, false);
	expect_events(&peer, 1);
	send_solicited(&peer, true);
	expect_events(&peer, 1); /* one for each arming */

	cq_arm(cq, true);
	send_solicited(&peer, false);
	expect_events(&peer, 1);
	send_solicited(&peer, true);
	expect_events(&peer, 2);

	cq_arm(cq, true);
	cq_arm(cq, false); /* wants more */
	send_solicited(&peer, false);
	expect_events(&peer, 3);
	cq_arm(cq, false);
	cq_arm(cq, true); /* doesn't want less */
	send_solicited(&peer, false);
	expect_events(&peer, 4);

	/* Our own sends aren't solicited; an error always is. */
	cq_arm(cq, true);
	peer_post(&peer, IBV_WR_SEND, 8, 100);
	peer_post(&peer, IBV_WR_SEND, 8, 101);
	peer_acknowledge(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	expect_events(&peer, 4);
	world_modify_state(peer.qp, IBV_QPS_ERR);
	expect_events(&peer, 5);
	peer_destroy(&peer);
}
END_TEST

/* --- overrun, IBA 10.2.3.3 ---------------------------------------------------------------- */

START_TEST(send_cq_overrun)
{
	struct pair_wr request;
	struct pair p;

	pair_create(&p, _i ? IBV_QPT_UC : IBV_QPT_RC, NULL, 1, NULL);
	ck_assert_int_eq(cq_resize(p.a->cq, 3), 0);
	for (uint64_t i = 0; i < 8; i++)
		if (p.qa->state == IBV_QPS_RTS)
			ck_assert_int_eq(world_post_send(p.qa, pair_wr(&p, &request,
								       IBV_WR_RDMA_WRITE, 8, i)),
					 0);
	world_run(&p.world, MS);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(p.a, i, IBV_WC_SUCCESS);
	world_expect_none(p.a, SECOND);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_CQ_ERR], 1);
	ck_assert_uint_eq(p.a->events[IBV_EVENT_QP_FATAL], 1);
	ck_assert_int_eq(p.qb->state, IBV_QPS_RTS);
	pair_destroy(&p);
}
END_TEST

/* The request that it answers has been flushed by the completion of the one before it. */
START_TEST(send_cq_overrun_by_a_response)
{
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(cq_resize(peer.node->cq, 1), 0);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_acknowledge(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	world_run(&peer.world, MS);
	peer_post(&peer, IBV_WR_SEND, 8, 1);
	peer_post(&peer, IBV_WR_RDMA_READ, 8, 2);
	peer_see_requests(&peer, FIRST_PSN + 1, 2);
	/* The cursor is at the READ when the SEND has been sent again. */
	ck_assert(peer_wait(&peer, &packet, SECOND));
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 1) & PSN_MASK);
	peer_send(&peer, &(struct peer_packet){RC(WIRE_READ_RESPONSE_ONLY),
					       .psn = (FIRST_PSN + 2) & PSN_MASK, .syndrome = 0x1f,
					       .length = 8});
	world_run(&peer.world, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	ck_assert_uint_eq(*event_count(&peer, IBV_EVENT_CQ_ERR), 1);
	ck_assert_uint_eq(peer.memory[1], 0);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *srq = tcase_create("srq"), *sqd = tcase_create("sqd"), *cq = tcase_create("cq");

	tcase_add_test(srq, srq_limit);
	tcase_add_test(srq, srq_empty);
	tcase_add_loop_test(srq, srq_and_error, 0, 2);
	tcase_add_test(srq, destroyed_in_error);
	tcase_add_test(srq, srq_too_short);
	tcase_add_test(srq, srq_of_another_pd);
	tcase_add_test(srq, srq_of_datagrams);
	tcase_add_loop_test(sqd, drain_send_queue, 0, 2);
	tcase_add_test(sqd, drain_the_last);
	tcase_add_loop_test(sqd, drain_idle, 0, 2);
	tcase_add_loop_test(sqd, drain_and_duplicate, 0, 3);
	tcase_add_test(sqd, drain_and_answer);
	tcase_add_loop_test(sqd, drain_ends_in_error, 0, 2);
	tcase_add_test(cq, arm);
	tcase_add_loop_test(cq, send_cq_overrun, 0, 2);
	tcase_add_test(cq, send_cq_overrun_by_a_response);
	return world_main("queues", (TCase *const[]){srq, sqd, cq, NULL});
}
