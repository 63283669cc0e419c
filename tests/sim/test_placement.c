/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload that is placed late and out of order, and completions that are delivered late
 * (emu/transport/placement.h): all is in place when a completion says so, and until then a program
 * sees what the specification lets it see.
 */
#include "emu/transport/placement.h"

#include <string.h>
#include <sys/mman.h>

#include "emu/objects/mw.h"
#include "net/cache_line.h"
#include "pair.h"
#include "tests/unit/faults.h"

#define LENGTH 20000
#define MESSAGES 100

static void begin(struct pair *p, enum ibv_qp_type type, const struct sim_options *options,
		  uint64_t seed)
{
	pair_create_apart(p, type, options, seed);
	ck_assert_int_eq(placement_enable(p->a->hca, seed), 0);
	ck_assert_int_eq(placement_enable(p->b->hca, seed + 1), 0);
	world_connect(p->a, p->qa, p->b, p->qb, &world_connection);
}

static void post_unsignaled(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct pair_wr request;
	struct ibv_send_wr *wr = pair_wr(p, &request, opcode, length, 0);

	wr->send_flags = 0;
	ck_assert_int_eq(world_post_send(p->qa, wr), 0);
}

/* Until one more completion can be polled; @memory and @expected are compared the moment before. */
static bool equal_before_completion(struct pair *p, struct node *node, const uint8_t *memory,
				    const uint8_t *expected)
{
	struct ibv_wc wc;
	bool equal, more;

	for (;;) {
		equal = memcmp(memory, expected, LENGTH) == 0;
		more = world_step(&p->world);
		if (world_poll(node, &wc))
			break;
		ck_assert(more);
	}
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	return equal;
}

/* What a program finds that polls the last byte: with it, is everything else there? */
static bool complete_with_last_byte(struct pair *p, const uint8_t *memory, const uint8_t *expected)
{
	while (memory[LENGTH - 1] != expected[LENGTH - 1])
		ck_assert(world_step(&p->world));
	return memcmp(memory, expected, LENGTH) == 0;
}

static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};

/* A WRITE, and the SEND behind it that says so. */
START_TEST(completion_says_that_it_is_there)
{
	static const struct {
		enum ibv_qp_type type;
		double loss;
	} cases[] = {{IBV_QPT_RC}, {IBV_QPT_UC}, {IBV_QPT_XRC_SEND}, {IBV_QPT_RC, 0.05}};
	const struct sim_options options = {
		.latency = 1000, .jitter = 3000, .drop = cases[_i].loss};
	unsigned int late = 0;
	struct pair p;

	begin(&p, cases[_i].type, &options, 1 + _i);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		pair_fill(p.ma, LENGTH, i);
		post_unsignaled(&p, IBV_WR_RDMA_WRITE, LENGTH);
		pair_receive(&p, 0, i);
		pair_post(&p, IBV_WR_SEND, 0, i);
		late += !equal_before_completion(&p, p.b, p.mb, p.ma);
		ck_assert_mem_eq(p.mb, p.ma, LENGTH);
		world_expect(p.a, i, IBV_WC_SUCCESS);
	}
	ck_assert_uint_gt(late, 0);
	pair_destroy(&p);
}
END_TEST

/* The receive's own buffer as well, also where a WRITE to the same place came just before. */
START_TEST(receive_has_the_last_word)
{
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		pair_fill(p.ma, LENGTH, i);
		post_unsignaled(&p, IBV_WR_RDMA_WRITE, LENGTH);
		world_run(&p.world, 10000);
		pair_fill(p.ma, LENGTH, 1000 + i);
		pair_receive(&p, LENGTH, i);
		pair_post(&p, IBV_WR_SEND, LENGTH, i);
		world_expect(p.b, i, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.mb, p.ma, LENGTH);
		world_expect(p.a, i, IBV_WC_SUCCESS);
	}
	pair_destroy(&p);
}
END_TEST

/*
 * And of two WRITEs the second one, also where some of it comes before what was lost. Nothing says
 * when they are there, but it isn't long.
 */
START_TEST(writes_keep_their_order)
{
	const struct sim_options lossy = {.latency = 1000, .drop = 0.05};
	struct pair p;

	begin(&p, types[_i == 1], _i == 2 ? &lossy : NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		for (unsigned int j = 0; j < 3; j++) {
			pair_fill(p.ma, LENGTH, 3 * i + j);
			pair_post(&p, IBV_WR_RDMA_WRITE, LENGTH, j);
			world_expect(p.a, j, IBV_WC_SUCCESS);
		}
		world_run(&p.world, 2 * PLACEMENT_DELAY);
		ck_assert_mem_eq(p.mb, p.ma, LENGTH);
	}
	pair_destroy(&p);
}
END_TEST

/* Nor is it if nothing else comes, and nothing says that it is there. */
START_TEST(a_lone_write_comes_soon)
{
	struct pair p;

	begin(&p, types[_i], NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		pair_fill(p.ma, 8, i);
		pair_post(&p, IBV_WR_RDMA_WRITE, 8, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		world_run(&p.world, 2 * PLACEMENT_DELAY);
		ck_assert_mem_eq(p.mb, p.ma, 8);
	}
	pair_destroy(&p);
}
END_TEST

/* Of a cache line all bytes are there or none: that much a program may rely on. */
static void expect_whole_lines(const uint8_t *memory)
{
	for (uint32_t i = 0; i < LENGTH / CACHE_LINE * CACHE_LINE; i += CACHE_LINE)
		must(memcmp(memory + i, memory + i + 1, CACHE_LINE - 1) == 0);
}

START_TEST(lines_are_written_as_a_whole)
{
	uint8_t *lines;
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	lines = p.mb + -(uintptr_t)p.mb % CACHE_LINE;
	for (unsigned int i = 1; i <= MESSAGES / 5; i++) {
		struct pair_wr write;
		struct ibv_send_wr *wr = pair_wr(&p, &write, IBV_WR_RDMA_WRITE, LENGTH, i);
		uint64_t until = world_now(&p.world) + 2 * PLACEMENT_DELAY;

		memset(p.ma, i, LENGTH);
		wr->wr.rdma.remote_addr = (uintptr_t)lines;
		ck_assert_int_eq(world_post_send(p.qa, wr), 0);
		while (world_now(&p.world) < until && world_step(&p.world))
			expect_whole_lines(lines);
		world_expect(p.a, i, IBV_WC_SUCCESS);
	}
	pair_destroy(&p);
}
END_TEST

/* A program that polls the last byte is wrong, and most often finds out. */
START_TEST(last_byte_says_nothing)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	bool reads = opcodes[_i] == IBV_WR_RDMA_READ;
	unsigned int complete = 0;
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		uint8_t *to = reads ? p.ma : p.mb, *from = reads ? p.mb : p.ma;

		pair_fill(from, LENGTH, i);
		to[LENGTH - 1] = from[LENGTH - 1] + 1;
		pair_post(&p, opcodes[_i], LENGTH, i);
		complete += complete_with_last_byte(&p, to, from);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		if (reads)
			ck_assert_mem_eq(to, from, LENGTH);
		world_run(&p.world, 2 * PLACEMENT_DELAY);
	}
	ck_assert_uint_lt(complete, MESSAGES / 2);
	pair_destroy(&p);
}
END_TEST

/* What the peer reads or changes is what was written before, whatever was seen of it until then. */
START_TEST(later_requests_see_earlier_writes)
{
	const uint64_t one = 1;
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		struct pair_wr read;
		struct ibv_send_wr *wr;

		pair_fill(p.ma, LENGTH, i);
		post_unsignaled(&p, IBV_WR_RDMA_WRITE, LENGTH);
		wr = pair_wr(&p, &read, IBV_WR_RDMA_READ, LENGTH, i);
		read.sge.addr += LENGTH;
		ck_assert_int_eq(world_post_send(p.qa, wr), 0);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.ma + LENGTH, p.ma, LENGTH);

		memset(p.mb, 0, sizeof(uint64_t));
		memcpy(p.ma, &one, sizeof(one));
		post_unsignaled(&p, IBV_WR_RDMA_WRITE, sizeof(one));
		pair_post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(one), i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		ck_assert_mem_eq(p.ma, &one, sizeof(one));
	}
	pair_destroy(&p);
}
END_TEST

/* A request that was told to wait for the READ sends what was read. */
START_TEST(fence_waits_for_reads)
{
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		struct pair_wr write;
		struct ibv_send_wr *wr = pair_wr(&p, &write, IBV_WR_RDMA_WRITE, LENGTH, i);

		pair_fill(p.mb, LENGTH, i);
		wr->send_flags |= IBV_SEND_FENCE;
		wr->wr.rdma.remote_addr += LENGTH;
		post_unsignaled(&p, IBV_WR_RDMA_READ, LENGTH);
		ck_assert_int_eq(world_post_send(p.qa, wr), 0);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		world_run(&p.world, 2 * PLACEMENT_DELAY);
		ck_assert_mem_eq(p.mb + LENGTH, p.mb, LENGTH);
	}
	pair_destroy(&p);
}
END_TEST

enum ending { DEREGISTERED, REREGISTERED, DEALLOCATED, REBOUND, INVALIDATED, ENDINGS };

static bool is_window(enum ending ending)
{
	return ending >= DEALLOCATED;
}

/* A window of b's memory, as long as each WRITE. */
static struct mw *bound_window(struct pair *p, enum ibv_mw_type type, struct mr *region)
{
	struct mw_bind bind = {
		.region = region->ibv.lkey,
		.addr = (uintptr_t)p->mb,
		.length = LENGTH,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
	struct mw *mw;

	ck_assert_int_eq(mw_alloc(p->b->pd, type, &mw), 0);
	bind.window = key_number(mw->key.value);
	bind.rkey = ibv_inc_rkey(mw->key.value);
	ck_assert_int_eq(mw_bind(p->qb, &bind), 0);
	return mw;
}

static void end_key(struct pair *p, enum ending ending, struct mr *mr, struct mw *mw)
{
	struct mw_bind nothing = {};

	switch (ending) {
	case DEREGISTERED:
		ck_assert_int_eq(mr_deregister(mr), 0);
		break;
	case REREGISTERED:
		ck_assert_int_eq(mr_reregister(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
					       p->mb + LENGTH, LENGTH, 0),
				 0);
		break;
	case DEALLOCATED:
		mw_dealloc(mw);
		break;
	case REBOUND:
		nothing.window = key_number(mw->key.value);
		nothing.rkey = ibv_inc_rkey(mw->key.value);
		ck_assert_int_eq(mw_bind(p->qb, &nothing), 0);
		break;
	default:
		ck_assert_int_eq(mw_invalidate(p->qb, mw->key.value), 0);
	}
}

/*
 * The memory is the application's again, with all that was acknowledged, and nothing comes later.
 */
START_TEST(end_of_a_key_places)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
	enum ibv_mw_type type = _i == INVALIDATED ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		struct mr *mr = world_mr(p.b, p.mb, LENGTH, access);
		struct mw *mw = is_window(_i) ? bound_window(&p, type, mr) : NULL;
		struct pair_wr write;
		struct ibv_send_wr *wr = pair_wr(&p, &write, IBV_WR_RDMA_WRITE, LENGTH, i);

		pair_fill(p.ma, LENGTH, i);
		wr->wr.rdma.rkey = mw ? mw->key.value : mr->ibv.rkey;
		ck_assert_int_eq(world_post_send(p.qa, wr), 0);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		end_key(&p, _i, mr, mw);
		ck_assert_mem_eq(p.mb, p.ma, LENGTH);
		memset(p.mb, 0, LENGTH);
		world_run(&p.world, 2 * PLACEMENT_DELAY);
		ck_assert_uint_eq(p.mb[0] | p.mb[LENGTH - 1], 0);
		if (mw && _i != DEALLOCATED)
			mw_dealloc(mw);
		if (_i != DEREGISTERED)
			ck_assert_int_eq(mr_deregister(mr), 0);
	}
	pair_destroy(&p);
}
END_TEST

/* So it is when the queue pair is reset: what comes then comes by another one. */
START_TEST(reset_places)
{
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	for (unsigned int i = 1; i <= MESSAGES; i++) {
		pair_fill(p.ma, LENGTH, i);
		pair_post(&p, IBV_WR_RDMA_WRITE, LENGTH, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		world_modify_state(p.qb, IBV_QPS_RESET);
		ck_assert_mem_eq(p.mb, p.ma, LENGTH);
		world_modify_state(p.qa, IBV_QPS_RESET);
		world_connect(p.a, p.qa, p.b, p.qb, &world_connection);
	}
	pair_destroy(&p);
}
END_TEST

/* And when the process ends, whose memory another one may share. */
START_TEST(exit_places)
{
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	pair_fill(p.ma, LENGTH, 1);
	pair_post(&p, IBV_WR_RDMA_WRITE, LENGTH, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	ck_assert(memcmp(p.mb, p.ma, LENGTH) != 0);
	hca_flush_on_exit(p.b->hca, world_now(&p.world));
	ck_assert_mem_eq(p.mb, p.ma, LENGTH);
	pair_destroy(&p);
}
END_TEST

/* What can't be written is refused as it comes, as if it were written then. */
START_TEST(gone_memory_is_refused)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	const int protections[] = {PROT_NONE, PROT_READ};
	struct pair_wr write;
	struct ibv_send_wr *wr;
	struct pair p;
	struct mr *mr;
	void *memory;

	catch_faults();
	begin(&p, IBV_QPT_RC, NULL, 1);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	mr = world_mr(p.b, memory, LENGTH, access | (_i >= 2 ? IBV_ACCESS_ON_DEMAND : 0));
	ck_assert_int_eq(mprotect(memory, LENGTH, protections[_i % 2]), 0);
	wr = pair_wr(&p, &write, IBV_WR_RDMA_WRITE, LENGTH, 1);
	wr->wr.rdma.remote_addr = (uintptr_t)memory;
	wr->wr.rdma.rkey = mr->ibv.rkey;
	ck_assert_int_eq(world_post_send(p.qa, wr), 0);
	world_expect(p.a, 1, _i >= 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR);
	ck_assert_int_eq(p.qb->state, IBV_QPS_ERR);
	ck_assert_int_eq(mr_deregister(mr), 0);
	munmap(memory, LENGTH);
	pair_destroy(&p);
}
END_TEST

/* More than may be kept: what is too much is placed early, and nothing is lost. */
START_TEST(memory_is_bounded)
{
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	pair_fill(p.ma, PAIR_MEMORY, 1);
	pair_post(&p, IBV_WR_RDMA_WRITE, PAIR_MEMORY, 1);
	world_expect(p.a, 1, IBV_WC_SUCCESS);
	world_run(&p.world, 2 * PLACEMENT_DELAY);
	ck_assert_mem_eq(p.mb, p.ma, PAIR_MEMORY);
	ck_assert_uint_eq(placement_deadline(p.b->hca), TIME_NEVER);
	pair_destroy(&p);
}
END_TEST

/* In order, several at once, with an event if one is wanted, and not long after they were made. */
START_TEST(completions_come_in_batches)
{
	unsigned int batches = 0, received = 0;
	struct pair p;
	struct ibv_wc wc;

	begin(&p, IBV_QPT_RC, NULL, 1);
	cq_arm(p.b->cq, false);
	for (unsigned int i = 0; i < PAIR_DEPTH; i++) {
		pair_receive(&p, 8, i);
		post_unsignaled(&p, IBV_WR_SEND, 8);
		world_run(&p.world, 20000);
		if (!world_poll(p.b, &wc))
			continue;
		ck_assert_uint_eq(p.b->completion_events, ++batches);
		do
			ck_assert_uint_eq(wc.wr_id, received++);
		while (world_poll(p.b, &wc));
		cq_arm(p.b->cq, false);
	}
	world_run(&p.world, PLACEMENT_COMPLETION_DELAY);
	while (world_poll(p.b, &wc))
		ck_assert_uint_eq(wc.wr_id, received++);
	ck_assert_uint_eq(received, PAIR_DEPTH);
	ck_assert_uint_gt(batches, 1);
	ck_assert_uint_lt(batches, PAIR_DEPTH / 2);
	pair_destroy(&p);
}
END_TEST

/* A QP that goes takes along what wasn't delivered, and leaves what others completed. */
START_TEST(destroyed_qp_takes_its_completions_along)
{
	struct qp_options options = {.type = IBV_QPT_RC,
				     .cap = {.max_recv_wr = 4, .max_recv_sge = 1}};
	struct qp *other;
	struct pair p;

	begin(&p, IBV_QPT_RC, NULL, 1);
	other = world_qp(p.b, &options);
	world_modify_init(other, &world_connection);
	ck_assert_int_eq(world_post_recv(other, p.mb, 8, p.rb->ibv.lkey, 7), 0);
	pair_receive(&p, 8, 1);
	world_modify_state(other, IBV_QPS_ERR);
	world_modify_state(p.qb, IBV_QPS_ERR);
	ck_assert_int_eq(qp_destroy(other), 0);
	world_expect(p.b, 1, IBV_WC_WR_FLUSH_ERR);
	world_expect_none(p.b, PLACEMENT_COMPLETION_DELAY);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("placement");

	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, completion_says_that_it_is_there, 0, 4);
	tcase_add_test(tcase, receive_has_the_last_word);
	tcase_add_loop_test(tcase, writes_keep_their_order, 0, 3);
	tcase_add_loop_test(tcase, a_lone_write_comes_soon, 0, 2);
	tcase_add_test(tcase, lines_are_written_as_a_whole);
	tcase_add_loop_test(tcase, last_byte_says_nothing, 0, 2);
	tcase_add_test(tcase, later_requests_see_earlier_writes);
	tcase_add_test(tcase, fence_waits_for_reads);
	tcase_add_loop_test(tcase, end_of_a_key_places, 0, ENDINGS);
	tcase_add_test(tcase, reset_places);
	tcase_add_test(tcase, exit_places);
	tcase_add_loop_test(tcase, gone_memory_is_refused, 0, 4);
	tcase_add_test(tcase, memory_is_bounded);
	tcase_add_test(tcase, completions_come_in_batches);
	tcase_add_test(tcase, destroyed_qp_takes_its_completions_along);
	return world_main("placement", (TCase *const[]){tcase, NULL});
}
