/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many nodes, many QPs on one window, and what is done to objects in the middle
 * of traffic.
 */
#include <stdlib.h>

#include "pair.h"
#include "stress.h"

/* 50 nodes, each connected to every other, through a network that loses one packet in a hundred. */
START_TEST(all_to_all)
{
	enum { NODES = 50 };
	static const struct stress_options options = {
		.operations = 12, .max_length = 2000, .late = 0.1, .random_connection = true};
	static const struct sim_options network = {.latency = 1000,
						   .jitter = 1000,
						   .drop = 0.01,
						   .duplicate = 0.005,
						   .reorder = 0.005,
						   .corrupt = 0.005};
	struct sim_statistics statistics;
	struct world world;
	struct stress stress;

	world_create(&world, NODES, &network, _i);
	stress_create(&stress, &world, &options);
	for (unsigned int a = 0; a < NODES; a++)
		for (unsigned int b = 0; b < a; b++)
			stress_connect(&stress, &world.nodes[a], &world.nodes[b]);
	stress_run(&stress, 1000 * SECOND);
	sim_statistics(world.sim, &statistics);
	ck_assert_uint_gt(statistics.dropped, statistics.sent / 200);
	ck_assert_uint_gt(statistics.duplicated, 0);
	ck_assert_uint_gt(statistics.reordered, 0);
	ck_assert_uint_gt(statistics.corrupted, 0);
	stress_destroy(&stress);
	world_destroy(&world);
}
END_TEST

/* Many QPs share one window, which is smaller than what they want to send. */
START_TEST(one_window)
{
	static const struct stress_options options = {
		.operations = 30, .max_length = 100000, .late = 0.05, .random_connection = true};
	struct sim_options network = {
		.latency = 10000, .bandwidth = 2000, .receive_queue = 60000, .drop = 0.002 * _i};
	struct world world;
	struct stress stress;

	world_create(&world, 2, &network, _i);
	stress_create(&stress, &world, &options);
	for (unsigned int i = 0; i < 32; i++)
		stress_connect(&stress, &world.nodes[0], &world.nodes[1]);
	stress_run(&stress, 1000 * SECOND);
	stress_destroy(&stress);
	world_destroy(&world);
}
END_TEST

/* --- one congestion window, and QPs that want all of it ---------------------- */

#define GREEDY 8

struct shared {
	struct pair pair; /* its QP is the modest one */
	struct qp *qa[GREEDY], *qb[GREEDY];
};

static void shared_create(struct shared *s, const struct connection *greedy, double drop)
{
	/* A wire that spaces packets, so that the greedy QPs never wait all at once. */
	struct sim_options network = {.latency = 1000, .bandwidth = 2000, .drop = drop};
	struct qp_options options = {.type = IBV_QPT_RC,
				     .cap = {.max_send_wr = PAIR_DEPTH, .max_send_sge = 1}};

	pair_create(&s->pair, IBV_QPT_RC, &network, 1, NULL);
	for (int i = 0; i < GREEDY; i++) {
		s->qa[i] = world_qp(s->pair.a, &options);
		s->qb[i] = world_qp(s->pair.b, &options);
		world_connect(s->pair.a, s->qa[i], s->pair.b, s->qb[i], greedy);
	}
}

static void shared_destroy(struct shared *s)
{
	for (int i = 0; i < GREEDY; i++) {
		ck_assert_int_eq(qp_destroy(s->qa[i]), 0);
		ck_assert_int_eq(qp_destroy(s->qb[i]), 0);
	}
	pair_destroy(&s->pair);
}

/*
 * A READ asks for more at once than other requests ever leave free: it must get
 * its turn although they never pause.
 */
START_TEST(no_starvation)
{
	struct pair_wr request;
	uint64_t end, others = 0;
	bool done = false;
	struct ibv_wc wc;
	struct shared s;

	shared_create(&s, &world_connection, 0.05); /* which keeps the window small */
	for (int i = 0; i < GREEDY * _i; i++) {
		pair_wr(&s.pair, &request, IBV_WR_RDMA_WRITE, 4096, i % GREEDY);
		ck_assert_int_eq(world_post_send(s.qa[i % GREEDY], &request.wr), 0);
	}
	pair_post(&s.pair, IBV_WR_RDMA_READ, 65536, 99);
	end = world_now(&s.pair.world) + 2 * SECOND; /* it may time out a few times */
	while (!done && world_now(&s.pair.world) < end) {
		while (world_poll(s.pair.a, &wc)) {
			must(wc.status == IBV_WC_SUCCESS);
			done |= wc.wr_id == 99;
			others++;
			if (wc.wr_id == 99)
				continue;
			pair_wr(&s.pair, &request, IBV_WR_RDMA_WRITE, 4096, wc.wr_id);
			must(world_post_send(s.qa[wc.wr_id], &request.wr) == 0);
		}
		must(world_step(&s.pair.world));
	}
	ck_assert_msg(done, "no turn for it while others had %llu", (unsigned long long)others);
	shared_destroy(&s);
}
END_TEST

/*
 * IBA 9.7.6.1.3: with timeout 0 a QP waits for ever for what was lost. It must
 * not keep other QPs from sending to the same node.
 */
START_TEST(no_hostages)
{
	struct connection c = world_connection;
	struct pair_wr request;
	struct shared s;

	c.timeout = 0;
	shared_create(&s, &c, 0);
	for (int i = 0; i < GREEDY; i++) {
		world_modify_state(s.qb[i], IBV_QPS_ERR); /* drops all silently */
		pair_wr(&s.pair, &request, IBV_WR_RDMA_WRITE, PAIR_MEMORY, i);
		ck_assert_int_eq(world_post_send(s.qa[i], &request.wr), 0);
	}
	for (uint64_t i = 0; i < 10; i++) {
		pair_post(&s.pair, IBV_WR_RDMA_READ, PAIR_MEMORY, 99);
		world_expect(s.pair.a, 99, IBV_WC_SUCCESS);
	}
	ck_assert_uint_lt(world_now(&s.pair.world), SECOND);
	world_expect_none(s.pair.a, 100 * SECOND);
	shared_destroy(&s);
}
END_TEST

/* The QP that has the congestion window first doesn't keep it. */
START_TEST(fair_shares)
{
	struct pair_wr request;
	int sum = 0;
	struct shared s;

	shared_create(&s, &world_connection, 0.001);
	for (int i = 0; i < GREEDY; i++)
		for (uint64_t n = 0; n < 4; n++) {
			pair_wr(&s.pair, &request, IBV_WR_RDMA_WRITE, PAIR_MEMORY, i);
			ck_assert_int_eq(world_post_send(s.qa[i], &request.wr), 0);
		}
	world_run(&s.pair.world, 2 * MS);
	for (int i = 0; i < GREEDY; i++)
		sum += psn_distance(s.qa[i]->requester.unacked, world_connection.psn);
	for (int i = 0; i < GREEDY; i++)
		ck_assert_int_gt(psn_distance(s.qa[i]->requester.unacked, world_connection.psn),
				 sum / GREEDY * 4 / 5);
	shared_destroy(&s);
}
END_TEST

/* --- in the middle of traffic --------------------------------------------------- */

/* As fast as a network card: what is under way takes its time. */
static const struct sim_options wire = {.latency = 1000, .bandwidth = 10000};

static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
					     IBV_WR_ATOMIC_FETCH_AND_ADD};

/* Long requests of every kind under way from a to b, both sides busy. */
static void start_traffic(struct pair *p, int seed)
{
	for (uint64_t i = 0; i < 8; i++)
		pair_receive(p, PAIR_MEMORY, 100 + i);
	for (uint64_t i = 0; i < 8; i++) {
		enum ibv_wr_opcode opcode = opcodes[(i + seed) % 4];

		pair_post(p, opcode, opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : PAIR_MEMORY, i);
	}
	world_run(&p->world, 1000 * (seed * 37 % 400));
}

/* What is left on @node: some successes, in order, then the one with @status, the rest flushed. */
static void expect_end(struct node *node, uint64_t first, uint64_t count, enum ibv_wc_status status)
{
	bool failed = false;

	for (uint64_t i = 0; i < count; i++) {
		struct ibv_wc wc = world_completion(node, 100 * SECOND);

		ck_assert_uint_eq(wc.wr_id, first + i);
		if (failed)
			ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
		else if (wc.status != IBV_WC_SUCCESS)
			ck_assert_int_eq(wc.status, status);
		failed |= wc.status != IBV_WC_SUCCESS;
	}
	ck_assert(failed);
	world_expect_none(node, SECOND);
}

START_TEST(modify_to_error)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_traffic(&p, _i);
	world_modify_state(p.qa, IBV_QPS_ERR);
	expect_end(p.a, 0, 8, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_RTS); /* no packet told it */
	pair_destroy(&p);
}
END_TEST

START_TEST(peer_to_error)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_traffic(&p, _i);
	world_modify_state(p.qb, IBV_QPS_ERR);
	expect_end(p.a, 0, 8, IBV_WC_RETRY_EXC_ERR);
	expect_end(p.b, 100, 8, IBV_WC_WR_FLUSH_ERR);
	pair_destroy(&p);
}
END_TEST

/* IBA 10.3.1.2: into RESET all is gone without a trace, and a new connection works. */
START_TEST(reset_and_connect_again)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_traffic(&p, _i);
	world_modify_state(p.qa, IBV_QPS_RESET);
	world_modify_state(p.qb, IBV_QPS_RESET);
	world_expect_none(p.a, SECOND);
	world_expect_none(p.b, SECOND);
	world_connect(p.a, p.qa, p.b, p.qb, &world_connection);
	pair_fill(p.ma, PAIR_MEMORY, 77);
	pair_post(&p, IBV_WR_RDMA_WRITE, PAIR_MEMORY, 1000);
	world_expect(p.a, 1000, IBV_WC_SUCCESS);
	ck_assert_mem_eq(p.ma, p.mb, PAIR_MEMORY);
	pair_receive(&p, PAIR_MEMORY, 2000);
	pair_post(&p, IBV_WR_SEND, PAIR_MEMORY, 1001);
	world_expect(p.a, 1001, IBV_WC_SUCCESS);
	world_expect(p.b, 2000, IBV_WC_SUCCESS);
	pair_destroy(&p);
}
END_TEST

/* Destroying one end, in flight or not: the other end gets no answer any more. */
START_TEST(destroy_peer)
{
	struct qp_options options = {.type = IBV_QPT_RC};
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_traffic(&p, _i);
	ck_assert_int_eq(qp_destroy(p.qb), 0);
	p.qb = world_qp(p.b, &options);
	expect_end(p.a, 0, 8, IBV_WC_RETRY_EXC_ERR);
	pair_destroy(&p);
}
END_TEST

START_TEST(destroy_requester)
{
	struct qp_options options = {.type = IBV_QPT_RC};
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_traffic(&p, _i);
	ck_assert_int_eq(qp_destroy(p.qa), 0);
	p.qa = world_qp(p.a, &options);
	world_expect_none(p.a, SECOND);
	ck_assert_ptr_null(p.a->hca->destinations);
	pair_destroy(&p);
}
END_TEST

static void start_one_sided(struct pair *p, int seed)
{
	for (uint64_t i = 0; i < 8; i++)
		pair_post(p, seed % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, PAIR_MEMORY, i);
	/* They take 840 us, and a window before that the last packet has been sent. */
	world_run(&p->world, 1000 * (seed * 37 % 500));
}

/* Deregistered during traffic. */
START_TEST(deregister_remote)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_one_sided(&p, _i);
	ck_assert_int_eq(mr_deregister(p.rb), 0);
	expect_end(p.a, 0, 8, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_ACCESS_ERR], 1);
	p.rb = world_mr(p.b, p.mb, PAIR_MEMORY, world_connection.access);
	pair_destroy(&p);
}
END_TEST

START_TEST(deregister_local)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, &wire, _i, NULL);
	start_one_sided(&p, _i);
	ck_assert_int_eq(mr_deregister(p.ra), 0);
	expect_end(p.a, 0, 8, IBV_WC_LOC_PROT_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_RTS);
	p.ra = world_mr(p.a, p.ma, PAIR_MEMORY, world_connection.access);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *many = tcase_create("many"), *window = tcase_create("window"),
	      *middle = tcase_create("middle");

	tcase_add_loop_test(many, all_to_all, 1, 3);
	tcase_add_loop_test(window, one_window, 0, 6);
	tcase_add_loop_test(window, no_starvation, 1, 13);
	tcase_add_test(window, no_hostages);
	tcase_add_test(window, fair_shares);
	tcase_add_loop_test(middle, modify_to_error, 0, 20);
	tcase_add_loop_test(middle, peer_to_error, 0, 20);
	tcase_add_loop_test(middle, reset_and_connect_again, 0, 20);
	tcase_add_loop_test(middle, destroy_peer, 0, 20);
	tcase_add_loop_test(middle, destroy_requester, 0, 20);
	tcase_add_loop_test(middle, deregister_remote, 0, 20);
	tcase_add_loop_test(middle, deregister_local, 0, 20);
	return world_main("many", (TCase *const[]){many, window, middle, NULL});
}
