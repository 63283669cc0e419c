/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * READs that are outstanding together and go to memory of which much is the same, on a network that
 * loses and reorders: what is there in the end must be as if each had come after the one before.
 * The number of the iteration is the seed; others: URXE_TEST_SEEDS (tests/seeds.h).
 */
#include <stdlib.h>
#include <string.h>

#include "net/random.h"
#include "tests/seeds.h"
#include "world.h"

#define MTU 1024 /* world_connection.mtu */
#define READS 48
#define LENGTH_MOST (8 * MTU)
#define MEMORY (12 * MTU)

struct overlap {
	uint64_t random;
	struct world world;
	struct qp *qp, *peer;
	struct mr *local_mr, *remote_mr;
	uint8_t local[MEMORY], expected[MEMORY];
	uint8_t remote[READS][LENGTH_MOST]; /* what each brings */
};

static void overlap_create(struct overlap *o, uint64_t seed)
{
	struct sim_options network = {.latency = 1000, .jitter = 200};
	struct qp_options options = {.type = IBV_QPT_RC,
				     .cap = {READS, READS, .max_send_sge = 2, .max_recv_sge = 1}};
	struct connection c = world_connection;

	o->random = seed;
	network.drop = (1 + random_below(&o->random, 10)) / 100.0;
	network.reorder = random_below(&o->random, 2) * 0.1;
	network.duplicate = random_below(&o->random, 2) * 0.05;
	world_create(&o->world, 2, &network, seed);
	o->qp = world_qp(&o->world.nodes[0], &options);
	o->peer = world_qp(&o->world.nodes[1], &options);
	c.rd_atomic = READS;
	c.retry_cnt = 7;
	c.access |= IBV_ACCESS_REMOTE_READ;
	world_connect(&o->world.nodes[0], o->qp, &o->world.nodes[1], o->peer, &c);
	o->local_mr = world_mr(&o->world.nodes[0], o->local, MEMORY, IBV_ACCESS_LOCAL_WRITE);
	o->remote_mr = world_mr(&o->world.nodes[1], o->remote, sizeof(o->remote),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	for (uint32_t i = 0; i < READS; i++)
		for (uint32_t j = 0; j < LENGTH_MOST; j++)
			o->remote[i][j] = random_below(&o->random, 256);
}

/* Half of them at places that are multiples of the MTU, as most programs have it. */
static void post_read(struct overlap *o, uint32_t number)
{
	uint32_t grain = random_below(&o->random, 2) ? MTU : 1;
	uint32_t length = 1 + random_below(&o->random, LENGTH_MOST);
	uint32_t place = random_below(&o->random, MEMORY - length + 1) / grain * grain;
	uint32_t first = random_below(&o->random, 4) ? length : random_below(&o->random, length);
	struct ibv_sge sges[2] = {
		{(uintptr_t)o->local + place, first, o->local_mr->ibv.lkey},
		{(uintptr_t)o->local + place + first, length - first, o->local_mr->ibv.lkey},
	};
	struct ibv_send_wr wr = {
		.wr_id = number,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = sges,
		.num_sge = first == length ? 1 : 2,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)o->remote[number], o->remote_mr->ibv.rkey},
	};

	memcpy(o->expected + place, o->remote[number], length);
	ck_assert_int_eq(world_post_send(o->qp, &wr), 0);
}

START_TEST(reads_to_the_same_memory)
{
	struct overlap *o = calloc(1, sizeof(*o));

	overlap_create(o, _i);
	for (uint32_t i = 0; i < READS; i++)
		post_read(o, i);
	for (uint32_t i = 0; i < READS; i++) {
		struct ibv_wc wc = world_completion(&o->world.nodes[0], 100 * SECOND);

		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	}
	ck_assert_mem_eq(o->local, o->expected, MEMORY);
	ck_assert_int_eq(qp_destroy(o->qp), 0);
	ck_assert_int_eq(qp_destroy(o->peer), 0);
	ck_assert_int_eq(mr_deregister(o->local_mr), 0);
	ck_assert_int_eq(mr_deregister(o->remote_mr), 0);
	world_destroy(&o->world);
	free(o);
}
END_TEST

int main(void)
{
	struct seeds seeds = {1, 300};
	TCase *tests = tcase_create("overlap");

	seeds_read(&seeds);
	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, reads_to_the_same_memory, seeds.first, seeds.last + 1);
	return world_main("overlap", (TCase *[]){tests, NULL});
}
