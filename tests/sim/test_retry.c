/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is sent again, when, and how often (IBA 9.7.5.1,
 * 9.7.6.1.3, 9.9.2): timeouts, sequence NAKs, RNR NAKs. What the responder makes
 * of it: test_duplicate.
 */

#include "emu/transport/destination.h"
#include "net/tuning.h"
#include "pair.h"
#include "peer.h"

static uint64_t timeout_of(const struct connection *c)
{
	return UINT64_C(4096) << c->timeout;
}

/* --- timeouts ------------------------------------------------------------------ */

static uint64_t sent(struct pair *p)
{
	struct sim_statistics statistics;

	sim_statistics(p->world.sim, &statistics);
	return statistics.sent;
}

/*
 * No answer comes: 1 + retry_cnt tries, T to 4 T apart (IBA 9.7.6.1.3), then the
 * error; and what is behind it is flushed, even if it is unsignaled (IBA 10.3.1.5).
 * All is sent once, and then the oldest packet alone.
 */
START_TEST(retry_count)
{
	struct connection c = world_connection;
	struct pair_wr request;
	struct pair p;
	uint64_t before;

	c.retry_cnt = _i % 8;
	c.timeout = 5 + _i / 8; /* which leaves no time for probes */
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(world_post_recv(p.qa, p.ma, 8, p.ra->ibv.lkey, 100 + i), 0);
	pair_cut(&p, true);
	before = sent(&p);
	pair_post(&p, IBV_WR_SEND, 8, 0);
	pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 8, 1)->send_flags = 0;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	pair_post(&p, IBV_WR_RDMA_READ, 8, 2);
	world_expect_none(p.a, (1 + c.retry_cnt) * timeout_of(&c) - 1);
	world_expect(p.a, 0, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_le(world_now(&p.world), 4 * (1 + c.retry_cnt) * timeout_of(&c));
	ck_assert_uint_eq(sent(&p) - before, 3 + c.retry_cnt);
	world_expect(p.a, 1, IBV_WC_WR_FLUSH_ERR);
	world_expect(p.a, 2, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(p.a, 100 + i, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(p.qa->state, IBV_QPS_ERR);
	world_expect_none(p.a, SECOND);
	ck_assert_int_eq(p.qb->state, IBV_QPS_RTS);
	world_expect_none(p.b, SECOND);
	pair_destroy(&p);
}
END_TEST

START_TEST(timeout_never)
{
	struct connection c = world_connection;
	struct pair p;
	uint64_t before;

	c.timeout = 0;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	pair_cut(&p, true);
	before = sent(&p);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 0);
	world_expect_none(p.a, 10000 * SECOND);
	/* A probe now and then, which is no retry. */
	ck_assert_uint_gt(sent(&p) - before, 1);
	ck_assert_uint_lt(sent(&p) - before, 5000);
	ck_assert_uint_eq(p.a->hca->counters->timeouts, 0);
	pair_cut(&p, false);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	pair_destroy(&p);
}
END_TEST

/*
 * A thread that began to receive before another one posted finds the answer to that: how long it
 * took isn't known, and no reason to wait for years, or not at all.
 */
START_TEST(answered_before_it_was_sent)
{
	struct connection c = world_connection;
	const struct rtt *rtt;
	struct packet probe;
	struct peer peer;
	uint64_t began;

	c.timeout = 0;
	peer_create(&peer, IBV_QPT_RC, &c);
	rtt = &peer.qp->recovery.destination->rtt;
	began = world_now(&peer.world);
	sim_advance(peer.world.sim, began + MS);
	for (uint64_t i = 0; i < 2; i++)
		peer_post(&peer, IBV_WR_RDMA_WRITE, 8, i);
	peer_see_requests(&peer, FIRST_PSN, 2);
	peer_acknowledge(&peer, FIRST_PSN, AETH_ACK_UNLIMITED);
	sim_advance(peer.world.sim, world_now(&peer.world) + MS);
	hca_progress(peer.node->hca, began);
	ck_assert_uint_eq(peer.qp->requester.unacked, psn_add(FIRST_PSN, 1));
	ck_assert_uint_eq(rtt->smoothed, 0);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	/* The other one is asked for now and then. */
	ck_assert(peer_wait(&peer, &probe, 10 * SECOND));
	ck_assert_uint_eq(probe.psn, psn_add(FIRST_PSN, 1));
	peer_acknowledge(&peer, psn_add(FIRST_PSN, 1), AETH_ACK_UNLIMITED);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/*
 * A round trip that takes longer than the timeout: after the first one, of which nothing is known,
 * it is waited for as long as IBA allows, so that nothing is sent twice.
 */
START_TEST(longer_than_the_timeout)
{
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;
	uint64_t round_trip, then;

	c.timeout = 10;
	round_trip = timeout_of(&c) * 3 / 2;
	peer_create(&peer, IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	peer_see_requests(&peer, c.psn, 1);
	ck_assert(peer_wait(&peer, &packet, timeout_of(&c) * 5 / 4));
	ck_assert_uint_eq(packet.psn, c.psn);
	peer_see_none(&peer, round_trip - timeout_of(&c));
	peer_acknowledge(&peer, c.psn, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i < 4; i++) {
		peer_post(&peer, IBV_WR_RDMA_WRITE, 8, i);
		peer_see_requests(&peer, c.psn + i, 1);
		peer_see_none(&peer, round_trip);
		peer_acknowledge(&peer, c.psn + i, 0x1f);
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	}
	then = world_now(&peer.world);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 4);
	peer_see_requests(&peer, c.psn + 4, 1);
	ck_assert(peer_wait(&peer, &packet, 5 * timeout_of(&c)));
	ck_assert_uint_eq(packet.psn, c.psn + 4);
	ck_assert_uint_gt(world_now(&peer.world), then + round_trip);
	ck_assert_uint_le(world_now(&peer.world), then + 4 * timeout_of(&c) + timeout_of(&c) / 10);
	peer_destroy(&peer);
}
END_TEST

/* Progress gives all retries back, and starts the timeout anew. */
START_TEST(retries_come_back)
{
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;
	uint64_t then;

	c.retry_cnt = 3;
	c.timeout = 7;
	peer_create(&peer, IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	for (int i = 0; i < 4; i++) {
		ck_assert(peer_wait(&peer, &packet, 5 * timeout_of(&c)));
		ck_assert_uint_eq(packet.psn, c.psn);
		if (i == 0)
			peer_see_requests(&peer, c.psn + 1, 1);
	}
	world_run(&peer.world, timeout_of(&c) / 2);
	peer_acknowledge(&peer, c.psn, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_see_requests(&peer, c.psn + 1, 1);
	then = world_now(&peer.world);
	for (int i = 0; i < 3; i++) {
		ck_assert(peer_wait(&peer, &packet, 5 * timeout_of(&c)));
		ck_assert_uint_eq(packet.psn, c.psn + 1);
		ck_assert_uint_ge(world_now(&peer.world), then + timeout_of(&c));
		then = world_now(&peer.world) - 5 * timeout_of(&c) / 100;
	}
	world_expect(peer.node, 1, IBV_WC_RETRY_EXC_ERR);
	peer_see_none(&peer, 100 * timeout_of(&c));
	peer_destroy(&peer);
}
END_TEST

/* --- probes ---------------------------------------------------------------------- */

/* The next PSN after the first exchange. */
#define PSN ((FIRST_PSN + 1) & PSN_MASK)

/* A peer of which one round trip was measured: that of the simulator's microseconds. */
static void create_measured(struct peer *peer, const struct connection *c)
{
	peer_create(peer, IBV_QPT_RC, c);
	peer_post(peer, IBV_WR_RDMA_WRITE, 8, 99);
	peer_see_requests(peer, FIRST_PSN, 1);
	peer_acknowledge(peer, FIRST_PSN, 0x1f);
	world_expect(peer->node, 99, IBV_WC_SUCCESS);
}

/* The next packet comes @delay after the last time, with @psn, alone, and wants an answer. */
static void expect_probe(struct peer *peer, uint32_t psn, uint64_t delay)
{
	struct packet packet;

	peer_see_none(peer, delay * 9 / 10);
	ck_assert(peer_wait(peer, &packet, delay / 5));
	ck_assert_uint_eq(packet.psn, psn & PSN_MASK);
	ck_assert(packet.ack_request);
	peer_see_none(peer, PROBE_TIMEOUT_LEAST / 20);
}

/* The peer's window of no more than the initial one is full; the rest of the message waits. */
static uint32_t fill_window(struct peer *peer)
{
	struct packet packet;
	uint32_t count = 0;

	peer_post(peer, IBV_WR_RDMA_WRITE, PEER_MEMORY, 0);
	while (peer_wait(peer, &packet, 10000))
		count++;
	ck_assert_uint_gt(count, 2);
	ck_assert_uint_lt(count, PEER_MEMORY / PEER_MTU);
	return count;
}

/* What is next shows whether something is missing before it, and sends nothing twice. */
START_TEST(the_next_packet_is_the_probe)
{
	struct packet packet;
	struct peer peer;
	uint32_t sent;

	create_measured(&peer, NULL);
	sent = fill_window(&peer);
	ck_assert(peer_wait(&peer, &packet, PROBE_TIMEOUT_LEAST));
	ck_assert_uint_eq(packet.psn, (PSN + sent) & PSN_MASK);
	ck_assert(packet.ack_request);
	peer_see_none(&peer, PROBE_TIMEOUT_LEAST);
	/* It was only late: the rest follows, and the window is what it was or more. */
	peer_acknowledge(&peer, PSN + sent, 0x1f);
	peer_see_requests(&peer, PSN + sent + 1, PEER_MEMORY / PEER_MTU - sent - 1);
	peer_acknowledge(&peer, PSN + PEER_MEMORY / PEER_MTU - 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->hca->counters->retransmitted_pkts, 0);
	ck_assert_uint_ge(peer.qp->recovery.destination->cwnd.size.limit, CWND_INITIAL);
	peer_destroy(&peer);
}
END_TEST

/*
 * Where there is none, the oldest again, alone. The answer to it tells of what was behind it: here
 * it acknowledges more, and sending goes on where it was.
 */
START_TEST(what_was_not_lost_is_not_sent_again)
{
	struct peer peer;

	create_measured(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 3 * PEER_MTU, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	peer_see_requests(&peer, PSN, 4);
	expect_probe(&peer, PSN, RETRANSMIT_TIMEOUT_LEAST);
	ck_assert_uint_eq(peer.qp->recovery.destination->cwnd.in_flight, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 2);
	peer_see_none(&peer, PROBE_TIMEOUT_LEAST / 10);
	peer_acknowledge(&peer, PSN + 2, 0x1f);
	peer_see_requests(&peer, PSN + 4, 1);
	peer_acknowledge(&peer, PSN + 4, 0x1f);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->recovery.destination->cwnd.in_flight, 0);
	ck_assert_uint_eq(peer.node->hca->counters->retransmitted_pkts, 1);
	peer_see_none(&peer, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* READs that were outstanding before the probe are so again behind it. */
START_TEST(reads_go_on_behind_a_probe)
{
	struct connection c = world_connection;
	struct peer_packet response = {RC(WIRE_READ_RESPONSE_ONLY), .syndrome = 0x1f, .length = 64};
	struct peer peer;

	c.rd_atomic = 2;
	create_measured(&peer, &c);
	for (uint64_t i = 0; i < 4; i++)
		peer_post(&peer, IBV_WR_RDMA_READ, 64, i);
	peer_see_requests(&peer, PSN, 2);
	expect_probe(&peer, PSN, RETRANSMIT_TIMEOUT_LEAST);
	ck_assert_uint_eq(peer.qp->requester.rd_atomic, 1);
	for (uint32_t i = 0; i < 2; i++) {
		response.psn = (PSN + i) & PSN_MASK;
		peer_send(&peer, &response);
	}
	peer_see_requests(&peer, PSN + 2, 2);
	ck_assert_uint_eq(peer.qp->requester.rd_atomic, 2);
	for (uint32_t i = 2; i < 4; i++) {
		response.psn = (PSN + i) & PSN_MASK;
		peer_send(&peer, &response);
	}
	for (uint64_t i = 0; i < 4; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.qp->requester.rd_atomic, 0);
	ck_assert_uint_eq(peer.node->hca->counters->retransmitted_pkts, 1);
	peer_destroy(&peer);
}
END_TEST

START_TEST(a_lost_acknowledgement_is_probed_for)
{
	struct peer peer;

	create_measured(&peer, NULL);
	peer_post(&peer, IBV_WR_SEND, 3 * PEER_MTU, 0);
	peer_see_requests(&peer, PSN, 3);
	expect_probe(&peer, PSN, RETRANSMIT_TIMEOUT_LEAST);
	peer_acknowledge(&peer, PSN + 2, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->hca->counters->completer_retry_err, 0);
	peer_see_none(&peer, SECOND);
	peer_destroy(&peer);
}
END_TEST

/*
 * A NAK comes only once (IBA 9.7.5.2.3). If it was lost only the packet that the responder waits
 * for is answered, and the one behind it; that shows that the rest is lost, and costs no retry.
 * Until then nothing else is sent.
 */
START_TEST(a_lost_nak_is_probed_for)
{
	struct peer peer;

	create_measured(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 3 * PEER_MTU, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	peer_see_requests(&peer, PSN, 4);
	expect_probe(&peer, PSN, RETRANSMIT_TIMEOUT_LEAST);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 2);
	peer_see_none(&peer, PROBE_TIMEOUT_LEAST / 10);
	peer_acknowledge(&peer, PSN, 0x1f);
	peer_see_requests(&peer, PSN + 1, 1);
	ck_assert_uint_eq(peer.qp->recovery.destination->cwnd.reductions, 0);
	peer_acknowledge(&peer, PSN + 1, 0x1f);
	peer_see_requests(&peer, PSN + 2, 3);
	ck_assert_uint_eq(peer.qp->recovery.destination->cwnd.reductions, 1);
	peer_acknowledge(&peer, PSN + 4, 0x1f);
	for (uint64_t i = 0; i < 3; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->hca->counters->completer_retry_err, 0);
	ck_assert_uint_eq(peer.qp->recovery.retries, world_connection.retry_cnt);
	peer_see_none(&peer, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* Of a READ, what hasn't come yet is asked for again. */
START_TEST(lost_responses_are_probed_for)
{
	struct peer_packet response = {RC(WIRE_READ_RESPONSE_FIRST), .psn = PSN, .syndrome = 0x1f,
				       .length = PEER_MTU};
	struct packet packet;
	struct peer peer;

	create_measured(&peer, NULL);
	peer_post(&peer, IBV_WR_RDMA_READ, 3 * PEER_MTU, 0);
	peer_see_requests(&peer, PSN, 1);
	peer_send(&peer, &response);
	peer_see_none(&peer, RETRANSMIT_TIMEOUT_LEAST * 9 / 10);
	ck_assert(peer_wait(&peer, &packet, RETRANSMIT_TIMEOUT_LEAST / 5));
	ck_assert_uint_eq(packet.psn, (PSN + 1) & PSN_MASK);
	ck_assert_uint_eq(be32toh(packet_reth(&packet)->length), 2 * PEER_MTU);
	response.psn = (PSN + 1) & PSN_MASK;
	peer_send(&peer, &response);
	response.opcode = WIRE_RC | WIRE_READ_RESPONSE_LAST;
	response.psn = (PSN + 2) & PSN_MASK;
	peer_send(&peer, &response);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_see_none(&peer, SECOND);
	peer_destroy(&peer);
}
END_TEST

/*
 * Each waits twice as long as the one before. Then there is only the timeout, which is not put
 * off; it, too, sends the oldest packet alone.
 */
START_TEST(unanswered_probes_end)
{
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;
	uint64_t start;

	c.timeout = 18;
	create_measured(&peer, &c);
	peer_post(&peer, IBV_WR_SEND, 3 * PEER_MTU, 0);
	peer_see_requests(&peer, PSN, 3);
	start = world_now(&peer.world);
	for (unsigned int i = 0; i < PROBE_COUNT; i++) {
		uint64_t due = start + ((2 << i) - 1) * RETRANSMIT_TIMEOUT_LEAST;

		expect_probe(&peer, PSN, due - world_now(&peer.world));
	}
	peer_see_none(&peer, start + timeout_of(&c) * 9 / 10 - world_now(&peer.world));
	ck_assert(peer_wait(&peer, &packet, timeout_of(&c) / 5));
	ck_assert_uint_eq(packet.psn, PSN);
	ck_assert_uint_eq(peer.qp->recovery.retries, c.retry_cnt - 1);
	peer_acknowledge(&peer, PSN, 0x1f);
	peer_see_requests(&peer, PSN + 1, 1);
	peer_acknowledge(&peer, PSN + 2, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

static struct qp *another_qp(struct pair *p, const struct connection *c, struct qp **qb)
{
	struct qp_options options = {.type = IBV_QPT_RC,
				     .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct qp *qa = world_qp(p->a, &options);

	*qb = world_qp(p->b, &options);
	world_connect(p->a, qa, p->b, *qb, c);
	return qa;
}

/* What other queue pairs have in flight stays in the window, which the probe wasn't in. */
START_TEST(a_probe_whose_memory_is_gone)
{
	struct connection c = world_connection;
	const struct recovery *recovery;
	struct qp *qa, *qb;
	struct pair_wr request;
	struct pair p;
	struct mr *mr;

	c.timeout = 5;
	pair_create(&p, IBV_QPT_RC, NULL, 1, &c);
	c.timeout = 0;
	qa = another_qp(&p, &c, &qb);
	recovery = &qa->recovery;
	ck_assert_ptr_eq(recovery->destination, p.qa->recovery.destination);
	mr = world_mr(p.a, p.ma, 8, 0);
	pair_cut(&p, true);
	ck_assert_int_eq(world_post_send(qa, pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 8, 0)), 0);
	pair_wr(&p, &request, IBV_WR_RDMA_WRITE, 8, 1)->sg_list->lkey = mr->ibv.lkey;
	ck_assert_int_eq(world_post_send(p.qa, &request.wr), 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	world_expect(p.a, 1, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_gt(recovery->member.in_flight, 0);
	ck_assert_uint_eq(recovery->destination->cwnd.in_flight, recovery->member.in_flight);
	ck_assert_int_eq(qp_destroy(qa), 0);
	ck_assert_int_eq(qp_destroy(qb), 0);
	pair_destroy(&p);
}
END_TEST

/* An RNR delay is an answer; and a short timeout needs no help. */
START_TEST(no_probe_where_none_is_needed)
{
	struct connection c = world_connection;
	struct peer peer;

	c.timeout = _i ? 7 : 14;
	peer_create(&peer, IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	if (!_i)
		peer_acknowledge(&peer, FIRST_PSN, 0x20 | 24); /* 41 ms */
	peer_see_none(&peer, _i ? timeout_of(&c) * 9 / 10 : 40 * MS);
	peer_destroy(&peer);
}
END_TEST

/* A peer that isn't ready to receive drops; when it is in time, nothing is lost. */
START_TEST(peer_comes_late)
{
	const struct connection *c = &world_connection;
	struct pair p;

	pair_create_apart(&p, IBV_QPT_RC, NULL, 1);
	world_modify_init(p.qa, c);
	world_modify_rtr(p.qa, p.a, p.b, p.qb->number, c);
	world_modify_rts(p.qa, c);
	if (_i % 2)
		world_modify_init(p.qb, c);
	pair_post(&p, IBV_WR_RDMA_WRITE, 8, 0);
	world_expect_none(p.a, 3 * timeout_of(c));
	if (_i < 2) {
		if (!(_i % 2))
			world_modify_init(p.qb, c);
		world_modify_rtr(p.qb, p.b, p.a, p.qa->number, c);
		world_expect(p.a, 0, IBV_WC_SUCCESS);
		ck_assert_uint_eq(p.b->events[IBV_EVENT_COMM_EST], 1);
	} else {
		world_expect(p.a, 0, IBV_WC_RETRY_EXC_ERR);
	}
	pair_destroy(&p);
}
END_TEST

/* The receiver is a process of this machine, whose socket others fill while it reads. */
static struct {
	struct link_ops ops;
	uint64_t written, read;
} socket_of_peer;

static uint32_t unread_by_peer(struct link *link, const struct path *path, uint32_t qpn,
			       uint64_t *read)
{
	*read = socket_of_peer.read;
	return socket_of_peer.written - socket_of_peer.read;
}

/*
 * What it reads may be what was sent to it before: no retry is counted until it has read all that
 * was there when it was looked at first, and then one is, though more waits by then.
 */
START_TEST(a_peer_that_reads_slowly_is_waited_for)
{
	struct connection c = world_connection;
	struct peer peer;

	c.retry_cnt = 0;
	peer_create(&peer, IBV_QPT_RC, &c);
	socket_of_peer.ops = *peer.node->link->ops;
	socket_of_peer.ops.unread = unread_by_peer;
	peer.node->link->ops = &socket_of_peer.ops;
	socket_of_peer.written = 10000;
	socket_of_peer.read = 0;
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	world_expect_none(peer.node, 2 * timeout_of(&c));
	while (socket_of_peer.read < 9500) {
		socket_of_peer.read += 500;
		socket_of_peer.written += 100;
		world_expect_none(peer.node, 2 * timeout_of(&c));
	}
	socket_of_peer.read += 500;
	world_expect(peer.node, 0, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_gt(socket_of_peer.written, socket_of_peer.read);
	peer_destroy(&peer);
}
END_TEST

/*
 * The answer has arrived in time, behind more than is read at once, in a process that hasn't had
 * the CPU: it is read before the timeout counts.
 */
START_TEST(what_has_arrived_is_read_first)
{
	const struct peer_packet other = {RC(WIRE_SEND_ONLY), .qpn = 0x123456};
	struct connection c = world_connection;
	struct peer peer;

	c.retry_cnt = 0;
	peer_create(&peer, IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	peer_see_requests(&peer, c.psn, 1);
	world_stall(peer.node, 2 * timeout_of(&c));
	for (int i = 0; i < 2000; i++)
		peer_send(&peer, &other);
	peer_acknowledge(&peer, c.psn, AETH_ACK_UNLIMITED);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* --- sequence NAKs ------------------------------------------------------------------ */

/* Each costs a retry unless something new was acknowledged. */
START_TEST(naks_are_counted)
{
	struct connection c = world_connection;
	struct peer peer;

	c.retry_cnt = _i;
	peer_create(&peer, IBV_QPT_RC, &c);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 0);
	peer_post(&peer, IBV_WR_RDMA_WRITE, 8, 1);
	peer_see_requests(&peer, c.psn, 2);
	for (int i = 0; i < _i; i++) {
		peer_acknowledge(&peer, c.psn, 0x60);
		peer_see_requests(&peer, c.psn, 1);
	}
	world_expect_none(peer.node, 10000);
	peer_acknowledge(&peer, c.psn, 0x60);
	world_expect(peer.node, 0, IBV_WC_RETRY_EXC_ERR);
	world_expect(peer.node, 1, IBV_WC_WR_FLUSH_ERR);
	peer_see_none(&peer, SECOND);
	peer_destroy(&peer);
}
END_TEST

/* --- RNR ----------------------------------------------------------------------------- */

/* IBA table 45, in units of 10 us. */
static const uint32_t rnr_timer[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/* Wait at least so long; no timeout in between. Then all from there on again. */
START_TEST(rnr_timers)
{
	struct connection c = world_connection;
	uint64_t delay = rnr_timer[_i] * UINT64_C(10000), then;
	struct packet packet;
	struct peer peer;

	c.timeout = 1; /* at least twice in the meantime */
	while (4 * timeout_of(&c) <= delay)
		c.timeout++;
	c.retry_cnt = 0;
	peer_create(&peer, IBV_QPT_RC, &c);
	for (uint64_t i = 0; i < 4; i++)
		peer_post(&peer, IBV_WR_SEND, 8, i);
	peer_see_requests(&peer, c.psn, 4);
	then = world_now(&peer.world);
	peer_acknowledge(&peer, c.psn + 1, 0x20 | _i);
	peer_acknowledge(&peer, c.psn + 1, 0x20); /* one pause for both, and it has begun */
	peer_acknowledge(&peer, c.psn + 1, 0x60); /* nor is this of any news */
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	ck_assert(peer_wait(&peer, &packet, 2 * delay + 100000));
	ck_assert_uint_eq(packet.psn, (c.psn + 1) & PSN_MASK);
	ck_assert_uint_ge(world_now(&peer.world), then + delay);
	peer_see_requests(&peer, c.psn + 2, 2);
	peer_acknowledge(&peer, c.psn + 3, 0x1f);
	for (uint64_t i = 1; i < 4; i++)
		world_expect(peer.node, i, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/*
 * The receiver has gone on meanwhile, and isn't ready for the next one: that is another pause, with
 * all retries.
 */
START_TEST(rnr_of_the_next)
{
	const uint64_t delay = rnr_timer[14] * UINT64_C(10000);
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;
	uint64_t then;

	c.rnr_retry = 1;
	peer_create(&peer, IBV_QPT_RC, &c);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&peer, IBV_WR_SEND, 8, i);
	peer_see_requests(&peer, FIRST_PSN, 3);
	peer_acknowledge(&peer, FIRST_PSN, 0x20 | 10);
	peer_acknowledge(&peer, FIRST_PSN + 1, 0x20 | 14);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	then = world_now(&peer.world);
	ck_assert(peer_wait(&peer, &packet, 2 * delay));
	ck_assert_uint_eq(packet.psn, (FIRST_PSN + 1) & PSN_MASK);
	ck_assert_uint_ge(world_now(&peer.world), then + delay);
	peer_see_requests(&peer, FIRST_PSN + 2, 1);
	peer_acknowledge(&peer, FIRST_PSN + 2, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect(peer.node, 2, IBV_WC_SUCCESS);
	ck_assert_uint_eq(peer.node->hca->counters->rcvd_rnr_err, 2);
	peer_destroy(&peer);
}
END_TEST

/* What we ask for ourselves: the receiver's timer, not the sender's. */
START_TEST(rnr_timer_of_receiver)
{
	struct connection slow = world_connection, fast = world_connection;
	struct pair p;

	slow.min_rnr_timer = 20; /* 10.24 ms */
	fast.min_rnr_timer = 1;
	pair_create_apart(&p, IBV_QPT_RC, NULL, 1);
	world_modify_init(p.qa, &fast);
	world_modify_init(p.qb, &slow);
	world_modify_rtr(p.qa, p.a, p.b, p.qb->number, &fast);
	world_modify_rtr(p.qb, p.b, p.a, p.qa->number, &slow);
	world_modify_rts(p.qa, &fast);
	world_modify_rts(p.qb, &slow);
	pair_post(&p, IBV_WR_SEND, 8, 0);
	world_run(&p.world, 100000);
	pair_receive(&p, 8, 1);
	world_expect_none(p.a, 10 * MS);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	ck_assert_uint_le(world_now(&p.world), 11 * MS);
	pair_destroy(&p);
}
END_TEST

/* rnr_retry of them are forgiven; it is a counter of its own, and progress gives it back. */
START_TEST(rnr_retries)
{
	struct connection c = world_connection;
	struct peer peer;

	c.rnr_retry = _i;
	c.retry_cnt = 0;
	peer_create(&peer, IBV_QPT_RC, &c);
	for (uint64_t i = 0; i < 3; i++)
		peer_post(&peer, IBV_WR_SEND, 8, i);
	peer_see_requests(&peer, c.psn, 3);
	for (uint32_t message = 0; message < 2; message++) {
		for (int i = 0; i < _i; i++) {
			struct packet packet;

			peer_acknowledge(&peer, c.psn + message, 0x21);
			peer_acknowledge(&peer, c.psn + message,
					 0x21); /* an echo, not another one */
			ck_assert(peer_wait(&peer, &packet, 100000));
			ck_assert_uint_eq(packet.psn, (c.psn + message) & PSN_MASK);
			peer_see_requests(&peer, c.psn + message + 1, 2 - message);
		}
		if (message == 0) {
			peer_acknowledge(&peer, c.psn, 0x1f);
			world_expect(peer.node, 0, IBV_WC_SUCCESS);
		}
	}
	world_expect_none(peer.node, 10000);
	peer_acknowledge(&peer, c.psn + 1, 0x21);
	world_expect(peer.node, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_uint_eq(peer.node->hca->counters->retry_rnr_exceeded_err, 1);
	world_expect(peer.node, 2, IBV_WC_WR_FLUSH_ERR);
	peer_see_none(&peer, SECOND);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	peer_destroy(&peer);
}
END_TEST

/* 7 is without limit. */
START_TEST(rnr_for_ever)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	pair_post(&p, IBV_WR_SEND, 8, 0);
	pair_post(&p, IBV_WR_SEND, 8, 1);
	world_expect_none(p.a, 10 * SECOND);
	ck_assert_uint_gt(p.a->hca->counters->rcvd_rnr_err, 1000);
	pair_receive(&p, 8, 2);
	world_expect(p.a, 0, IBV_WC_SUCCESS);
	world_expect(p.b, 2, IBV_WC_SUCCESS);
	world_expect_none(p.a, SECOND);
	pair_receive(&p, 8, 3);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_expect(p.b, 3, IBV_WC_SUCCESS);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("retry");

	tcase_add_loop_test(tests, retry_count, 0, 24);
	tcase_add_test(tests, timeout_never);
	tcase_add_test(tests, answered_before_it_was_sent);
	tcase_add_test(tests, longer_than_the_timeout);
	tcase_add_test(tests, retries_come_back);
	tcase_add_test(tests, the_next_packet_is_the_probe);
	tcase_add_test(tests, what_was_not_lost_is_not_sent_again);
	tcase_add_test(tests, reads_go_on_behind_a_probe);
	tcase_add_test(tests, a_lost_acknowledgement_is_probed_for);
	tcase_add_test(tests, a_lost_nak_is_probed_for);
	tcase_add_test(tests, lost_responses_are_probed_for);
	tcase_add_test(tests, unanswered_probes_end);
	tcase_add_test(tests, a_probe_whose_memory_is_gone);
	tcase_add_loop_test(tests, no_probe_where_none_is_needed, 0, 2);
	tcase_add_loop_test(tests, peer_comes_late, 0, 4);
	tcase_add_test(tests, a_peer_that_reads_slowly_is_waited_for);
	tcase_add_test(tests, what_has_arrived_is_read_first);
	tcase_add_loop_test(tests, naks_are_counted, 0, 8);
	tcase_add_loop_test(tests, rnr_timers, 0, 32);
	tcase_add_test(tests, rnr_of_the_next);
	tcase_add_test(tests, rnr_timer_of_receiver);
	tcase_add_loop_test(tests, rnr_retries, 0, 7);
	tcase_add_test(tests, rnr_for_ever);
	return world_main("retry", (TCase *const[]){tests, NULL});
}
