/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that isn't the application's own, pinned, through a bad network: of the device, on
 * demand, none at all. b has it, a reaches in.
 */
#include <sys/mman.h>

#include "emu/objects/dm.h"
#include "mw_owner.h"
#include "net/newer_verbs.h"
#include "tests/unit/faults.h"

#define REMOTE (ALL_RIGHTS | IBV_ACCESS_LOCAL_WRITE)
#define SEEDS 6
#define LENGTH 70001

static const struct sim_options bad = {
	.latency = 1000,
	.jitter = 5000,
	.drop = 0.03,
	.duplicate = 0.03,
	.reorder = 0.05,
};

static void begin_bad(uint64_t seed)
{
	struct sim_options options = bad;

	options.seed = seed;
	begin(IBV_QPT_RC, &options, seed);
}

/* It was a bad one. */
static void end_bad(void)
{
	struct sim_statistics statistics;

	sim_statistics(p.world.sim, &statistics);
	ck_assert_uint_gt(statistics.dropped, 0);
	end();
}

static void succeed(enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va, uint32_t length)
{
	reach(opcode, rkey, va, length, 5);
	world_expect(p.a, 5, IBV_WC_SUCCESS);
}

/* WRITE, READ back, an atomic on the first word: each is there once. */
static void reach_all(uint32_t rkey, uint64_t va, uint32_t seed)
{
	static uint8_t expected[LENGTH];
	uint64_t first;

	pair_fill(expected, LENGTH, seed);
	memcpy(p.ma, expected, LENGTH);
	succeed(IBV_WR_RDMA_WRITE, rkey, va, LENGTH);
	memset(p.ma, 0, LENGTH);
	succeed(IBV_WR_RDMA_READ, rkey, va, LENGTH);
	ck_assert_mem_eq(p.ma, expected, LENGTH);
	memcpy(&first, expected, 8);
	for (int i = 0; i < 20; i++) {
		uint64_t before;

		reach(IBV_WR_ATOMIC_CMP_AND_SWP, rkey, va, 8, 6);
		world_expect(p.a, 6, IBV_WC_SUCCESS);
		memcpy(&before, p.ma, 8);
		ck_assert_uint_eq(before, first);
	}
}

START_TEST(device_memory)
{
	static uint8_t copy[LENGTH + 3];
	struct dm *dm;
	struct mr *mr;

	begin_bad(_i);
	ck_assert_int_eq(dm_alloc(p.b->hca, 2 * LENGTH + 2, 0, &dm), 0);
	ck_assert_int_eq(dm_register(p.b->pd, dm, 64, LENGTH, REMOTE | IBV_ACCESS_ZERO_BASED, &mr),
			 0);
	reach_all(mr->ibv.rkey, 0, _i);
	ck_assert_int_eq(dm_copy_from(copy, dm, 64, LENGTH + 3), 0);
	ck_assert_mem_eq(copy + 8, p.ma + 8, LENGTH - 8);
	ck_assert_mem_eq(copy + LENGTH, "\0\0\0", 3);
	ck_assert_int_eq(mr_deregister(mr), 0);
	ck_assert_int_eq(dm_free(dm), 0);
	end_bad();
}
END_TEST

static void flush(uint32_t rkey, uint64_t va, uint32_t length)
{
	struct flush_wr request = {
		.wr = {.wr_id = 9,
		       .opcode = WR_FLUSH,
		       .send_flags = IBV_SEND_SIGNALED,
		       .wr.rdma = {va, rkey}},
		.flush = {.length = length, .placement = FLUSH_GLOBAL, .selectivity = FLUSH_RANGE},
	};

	ck_assert_int_eq(world_post_flush(p.qa, &request), 0);
	world_expect(p.a, 9, IBV_WC_SUCCESS);
}

START_TEST(all_there_is)
{
	const int access = REMOTE | IBV_ACCESS_ON_DEMAND | ACCESS_FLUSH_GLOBAL;
	struct mr *mr;
	uint64_t va;

	begin_bad(_i);
	va = (uintptr_t)p.mb + 64;
	ck_assert_int_eq(mr_register(p.b->pd, NULL, SIZE_MAX, 0, access, &mr), 0);
	reach_all(mr->ibv.rkey, va, _i);
	ck_assert_mem_eq(p.mb + 72, p.ma + 8, LENGTH - 8);
	memcpy(p.ma, "one word", 8);
	succeed(IBV_WR_ATOMIC_WRITE, mr->ibv.rkey, va, 8);
	flush(mr->ibv.rkey, va, 8);
	ck_assert_mem_eq(p.mb + 64, "one word", 8);
	ck_assert_int_eq(mr_deregister(mr), 0);
	end_bad();
}
END_TEST

/* Memory of b's that isn't there any more, in the middle of a message. */
START_TEST(gone_on_demand)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	const size_t size = 1 << 16;
	uint8_t *memory;
	struct mr *mr;

	catch_faults();
	begin(IBV_QPT_RC, NULL, 1);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(mr_register(p.b->pd, memory, size, (uintptr_t)memory,
				     REMOTE | IBV_ACCESS_ON_DEMAND, &mr),
			 0);
	succeed(opcodes[_i], mr->ibv.rkey, (uintptr_t)memory, size);
	ck_assert_int_eq(mprotect(memory + size / 2, size / 2, PROT_NONE), 0);
	succeed(opcodes[_i], mr->ibv.rkey, (uintptr_t)memory, size / 2);
	reach(opcodes[_i], mr->ibv.rkey, (uintptr_t)memory, size, 7);
	world_expect(p.a, 7, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_ACCESS_ERR], 1);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_FATAL], 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	munmap(memory, size);
	end();
}
END_TEST

/*
 * Hardware would have had it pinned: that it isn't there is this side's own error, which UC tells,
 * too (IBA 9.8.2.2.1, class E).
 */
START_TEST(gone_though_pinned)
{
	enum { SIZE = 1 << 16 };
	static const struct {
		enum ibv_qp_type type;
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status status;
		uint32_t length; /* at the end of the memory, of which half isn't there */
	} rows[] = {
		{IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_WC_REM_OP_ERR, SIZE},
		{IBV_QPT_RC, IBV_WR_RDMA_READ, IBV_WC_REM_OP_ERR, SIZE},
		{IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_OP_ERR, 8},
		{IBV_QPT_RC, IBV_WR_ATOMIC_WRITE, IBV_WC_REM_OP_ERR, 8},
		{IBV_QPT_UC, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS, SIZE},
	};
	uint8_t *memory;
	struct mr *mr;

	catch_faults();
	begin(rows[_i].type, NULL, 1);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	mr = world_mr(p.b, memory, SIZE, REMOTE);
	ck_assert_int_eq(mprotect(memory + SIZE / 2, SIZE / 2, PROT_NONE), 0);
	reach(rows[_i].opcode, mr->ibv.rkey, (uintptr_t)memory + SIZE - rows[_i].length,
	      rows[_i].length, 7);
	world_expect(p.a, 7, rows[_i].status);
	world_run(&p.world, MS);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_FATAL], 1);
	ck_assert_uint_eq(p.b->events[IBV_EVENT_QP_ACCESS_ERR], 0);
	ck_assert_int_eq(mr_deregister(mr), 0);
	munmap(memory, SIZE);
	end();
}
END_TEST

/* The parts of one message, of which the null region has the second. */
static void post_with_null(enum ibv_wr_opcode opcode, const struct mr *null)
{
	struct ibv_sge sges[] = {{(uintptr_t)p.ma, 1000, p.ra->ibv.lkey},
				 {4711, LENGTH - 2000, null->ibv.lkey},
				 {(uintptr_t)p.ma + 1000, 1000, p.ra->ibv.lkey}};
	struct ibv_send_wr wr = {
		.wr_id = 8,
		.opcode = opcode,
		.sg_list = sges,
		.num_sge = 3,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)p.mb, p.rb->ibv.rkey},
	};

	post(p.qa, wr);
	world_expect(p.a, 8, IBV_WC_SUCCESS);
}

START_TEST(null_region)
{
	struct mr *null;

	begin_bad(_i);
	ck_assert_int_eq(mr_alloc_null(p.a->pd, &null), 0);
	pair_fill(p.ma, 4000, _i);
	memset(p.mb, 0xee, LENGTH + 1);
	post_with_null(IBV_WR_RDMA_WRITE, null);
	ck_assert_mem_eq(p.mb, p.ma, 1000);
	for (uint32_t i = 1000; i < LENGTH - 1000; i++)
		must(p.mb[i] == 0);
	ck_assert_mem_eq(p.mb + LENGTH - 1000, p.ma + 1000, 1000);
	ck_assert_uint_eq(p.mb[LENGTH], 0xee);

	pair_fill(p.mb, LENGTH, _i + 1);
	memset(p.ma, 0xdd, PAIR_MEMORY);
	post_with_null(IBV_WR_RDMA_READ, null);
	ck_assert_mem_eq(p.ma, p.mb, 1000);
	ck_assert_mem_eq(p.ma + 1000, p.mb + LENGTH - 1000, 1000);
	for (uint32_t i = 2000; i < PAIR_MEMORY; i++)
		must(p.ma[i] == 0xdd);
	ck_assert_int_eq(mr_deregister(null), 0);
	end_bad();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("memory");

	tcase_add_loop_test(tcase, device_memory, 1, SEEDS);
	tcase_add_loop_test(tcase, all_there_is, 1, SEEDS);
	tcase_add_loop_test(tcase, gone_on_demand, 0, 2);
	tcase_add_loop_test(tcase, gone_though_pinned, 0, 5);
	tcase_add_loop_test(tcase, null_region, 1, SEEDS);
	return world_main("memory", (TCase *const[]){tcase, NULL});
}
