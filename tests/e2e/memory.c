/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC: memory windows of each type, memory on demand, of the device and none at all. The server
 * has it, the client reaches in.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scenario.h"

#define REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define SIZE 100000 /* what is reached, many packets of each MTU */
#define WINDOW 8192 /* its offset in the server's memory */
#define MEMORY (WINDOW + SIZE + 8192)

/* Where the client reaches: what the server tells, until the client has it. */
struct target {
	uint64_t address;
	uint64_t rkey;
};

static struct target tell(struct pair *pair, uint64_t address, uint32_t rkey)
{
	uint64_t peers_address = pair_exchange_number(pair, address);
	uint64_t peers_rkey = pair_exchange_number(pair, rkey);

	return pair->server ? (struct target){address, rkey}
			    : (struct target){peers_address, peers_rkey};
}

static struct ibv_send_wr request(uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				  const struct target *target)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = target->address;
		wr.wr.atomic.rkey = target->rkey;
		wr.wr.atomic.compare_add = 3;
	} else if (target) {
		wr.wr.rdma.remote_addr = target->address;
		wr.wr.rdma.rkey = target->rkey;
	}
	return wr;
}

static void reach(struct pair *pair, enum ibv_wr_opcode opcode, const struct target *target,
		  uint32_t length, enum ibv_wc_status status)
{
	struct ibv_sge sge = pair_sge(pair, 0, length);
	struct ibv_send_wr wr = request(5, opcode, &sge, target);

	CHECK_EQUAL(pair_post(pair, &wr), 0);
	pair_expect_status(pair, pair->send_cq, 5, status);
}

/* The client writes all, reads it back, and adds to its first word. */
static void reach_all(struct pair *pair, const struct target *target, uint64_t seed)
{
	uint64_t first, before;

	pattern_fill(pair->memory, SIZE, seed);
	memcpy(&first, pair->memory, 8);
	reach(pair, IBV_WR_RDMA_WRITE, target, SIZE, IBV_WC_SUCCESS);
	memset(pair->memory, 0, SIZE);
	reach(pair, IBV_WR_RDMA_READ, target, SIZE, IBV_WC_SUCCESS);
	CHECK(pattern_matches(pair->memory, SIZE, seed));
	reach(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, target, 8, IBV_WC_SUCCESS);
	memcpy(&before, pair->memory, 8);
	CHECK_EQUAL(before, first);
}

/* What reach_all() has left at the server. */
static void check_reached(const uint8_t *memory, uint64_t seed)
{
	uint8_t expected[SIZE];
	uint64_t first;

	pattern_fill(expected, SIZE, seed);
	memcpy(&first, expected, 8);
	first += 3;
	memcpy(expected, &first, 8);
	CHECK(memcmp(memory, expected, SIZE) == 0);
}

/*
 * The client is refused at @target, which ends the connection. The server says so once: where
 * packets are lost, that may be lost as well.
 */
static void refused(struct pair *pair, const struct target *target, uint32_t length)
{
	if (pair->lossy)
		return;
	if (!pair->server)
		reach(pair, IBV_WR_RDMA_READ, target, length, IBV_WC_REM_ACCESS_ERR);
	else
		pair_expect_event(pair, IBV_EVENT_QP_ACCESS_ERR);
	CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
}

/* --- memory windows ------------------------------------------------------------------------- */

static struct ibv_mw_bind_info part(struct pair *pair, int access)
{
	return (struct ibv_mw_bind_info){
		.mr = pair->mr,
		.addr = (uintptr_t)pair->memory + WINDOW,
		.length = SIZE,
		.mw_access_flags = access,
	};
}

static struct ibv_mw *open_window(struct pair *pair, enum ibv_mw_type type)
{
	struct ibv_mw *mw = NULL;

	/* No remote rights of its own: what is let through, the window lets through. */
	pair_open(pair, &(struct pair_options){
				.memory = MEMORY,
				.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
			});
	if (pair->server) {
		mw = ibv_alloc_mw(pair->pd, type);
		CHECK(mw);
	}
	return mw;
}

static void bind_type_1(struct pair *pair, struct ibv_mw *mw, uint32_t length)
{
	struct ibv_mw_bind bind = {
		.wr_id = 7,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = part(pair, REMOTE),
	};

	if (!length)
		bind.bind_info = (struct ibv_mw_bind_info){0};
	CHECK_EQUAL(ibv_bind_mw(pair->qp, mw, &bind), 0);
	pair_expect_status(pair, pair->send_cq, 7, IBV_WC_SUCCESS);
}

static void window_type_1(struct pair *pair)
{
	struct ibv_mw *mw = open_window(pair, IBV_MW_TYPE_1);
	const uint64_t address = (uintptr_t)pair->memory + WINDOW;
	struct target target;

	for (uint64_t seed = 1; seed < 4; seed++) {
		if (pair->server)
			bind_type_1(pair, mw, SIZE);
		target = tell(pair, address, pair->server ? mw->rkey : 0);
		if (!pair->server)
			reach_all(pair, &target, seed);
		pair_barrier(pair);
		if (pair->server)
			check_reached(pair->memory + WINDOW, seed);
	}
	/* Unbound, its key is none. */
	if (pair->server)
		bind_type_1(pair, mw, 0);
	pair_barrier(pair);
	refused(pair, &target, 8);
	if (pair->server)
		CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	pair_barrier(pair);
	pair_close(pair);
}

static void post_window(struct pair *pair, struct ibv_send_wr *wr)
{
	wr->wr_id = 7;
	wr->send_flags = IBV_SEND_SIGNALED;
	CHECK_EQUAL(pair_post(pair, wr), 0);
	pair_expect_status(pair, pair->send_cq, 7, IBV_WC_SUCCESS);
}

static void bind_type_2(struct pair *pair, struct ibv_mw *mw, int access)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = mw,
			    .rkey = ibv_inc_rkey(mw->rkey),
			    .bind_info = part(pair, access)},
	};

	post_window(pair, &wr);
	mw->rkey = wr.bind_mw.rkey; /* which no verb does: ibv_post_send(3) */
}

static void invalidate_locally(struct pair *pair, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey};

	post_window(pair, &wr);
}

static void invalidate_remotely(struct pair *pair, const struct target *target)
{
	struct ibv_sge sge = pair_sge(pair, 0, 100);
	struct ibv_send_wr wr = request(6, IBV_WR_SEND_WITH_INV, &sge, NULL);

	wr.invalidate_rkey = target->rkey;
	CHECK_EQUAL(pair_post(pair, &wr), 0);
	pair_expect_status(pair, pair->send_cq, 6, IBV_WC_SUCCESS);
}

static void expect_invalidated(struct pair *pair, const struct ibv_mw *mw)
{
	struct ibv_wc wc;

	pair_expect(pair, pair->receive_cq, 1, &wc);
	CHECK_EQUAL(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
	CHECK_EQUAL(wc.invalidated_rkey, mw->rkey);
}

/* Bound, used and taken back: by the client and by the server, in turn. */
static void use_type_2(struct pair *pair, int access)
{
	struct ibv_mw *mw = open_window(pair, IBV_MW_TYPE_2);
	uint64_t address = access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)pair->memory + WINDOW;
	struct target target;

	for (uint64_t seed = 1; seed < 5; seed++) {
		if (pair->server) {
			bind_type_2(pair, mw, access);
			pair_receive(pair, 1, 0, 100);
		}
		target = tell(pair, address, pair->server ? mw->rkey : 0);
		if (!pair->server) {
			reach_all(pair, &target, seed);
			invalidate_remotely(pair, &target);
		} else {
			expect_invalidated(pair, mw);
			check_reached(pair->memory + WINDOW, seed);
			bind_type_2(pair, mw, access);
			invalidate_locally(pair, mw);
		}
		pair_barrier(pair);
	}
	refused(pair, &target, 8);
	if (pair->server)
		CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	pair_barrier(pair);
	pair_close(pair);
}

static void window_type_2(struct pair *pair)
{
	use_type_2(pair, REMOTE);
}

static void window_zero_based(struct pair *pair)
{
	use_type_2(pair, REMOTE | IBV_ACCESS_ZERO_BASED);
}

/* IBA 10.6.7: its bounds are the window's, not the region's. */
static void window_bounds(struct pair *pair)
{
	struct ibv_mw *mw = open_window(pair, IBV_MW_TYPE_2);
	struct target target;

	if (pair->server)
		bind_type_2(pair, mw, REMOTE | IBV_ACCESS_ZERO_BASED);
	target = tell(pair, SIZE - 7, pair->server ? mw->rkey : 0);
	refused(pair, &target, 8);
	if (pair->server)
		CHECK_EQUAL(ibv_dealloc_mw(mw), 0);
	pair_barrier(pair);
	pair_close(pair);
}

/* --- on demand ------------------------------------------------------------------------------ */

/* Memory that isn't there yet, by a region of all there is; then it isn't there any more. */
static void on_demand(struct pair *pair)
{
	struct ibv_mr *mr = NULL;
	struct target target;
	uint8_t *memory = NULL;

	pair_open(pair, &(struct pair_options){.memory = MEMORY});
	if (pair->server) {
		mr = ibv_reg_mr(pair->pd, NULL, SIZE_MAX,
				REMOTE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
		CHECK(mr);
		memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		CHECK(memory != MAP_FAILED);
	}
	target = tell(pair, (uintptr_t)memory, pair->server ? mr->rkey : 0);
	if (!pair->server)
		reach_all(pair, &target, 1);
	pair_barrier(pair);
	if (pair->server) {
		struct ibv_sge sge = {(uintptr_t)memory, SIZE, mr->lkey};

		check_reached(memory, 1);
		CHECK_EQUAL(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					  IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			    0);
		CHECK_EQUAL(mprotect(memory, MEMORY, PROT_NONE), 0);
	}
	pair_barrier(pair);
	refused(pair, &target, SIZE);
	if (pair->server) {
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
		munmap(memory, MEMORY);
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* --- of the device -------------------------------------------------------------------------- */

static void device_memory(struct pair *pair)
{
	struct ibv_alloc_dm_attr attr = {.length = 2 * SIZE, .log_align_req = 3};
	struct ibv_dm *dm = NULL;
	struct ibv_mr *mr = NULL;
	struct target target;

	pair_open(pair, &(struct pair_options){.memory = MEMORY});
	if (pair->server) {
		dm = ibv_alloc_dm(pair->context, &attr);
		CHECK(dm);
		mr = ibv_reg_dm_mr(pair->pd, dm, SIZE, SIZE,
				   REMOTE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
		CHECK(mr);
	}
	target = tell(pair, 0, pair->server ? mr->rkey : 0);
	if (!pair->server)
		reach_all(pair, &target, 1);
	pair_barrier(pair);
	if (pair->server) {
		CHECK_EQUAL(ibv_memcpy_from_dm(pair->memory, dm, SIZE, SIZE), 0);
		check_reached(pair->memory, 1);
	}
	target.address = 1;
	refused(pair, &target, SIZE);
	if (pair->server) {
		CHECK_EQUAL(ibv_dereg_mr(mr), 0);
		CHECK_EQUAL(ibv_free_dm(dm), 0);
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* --- none at all ---------------------------------------------------------------------------- */

/* The client sends zeros that it hasn't, and then what the server takes the end of. */
static void null_region(struct pair *pair)
{
	struct ibv_mr *null;
	struct ibv_sge sge[2];
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = MEMORY});
	null = ibv_alloc_null_mr(pair->pd);
	CHECK(null);
	sge[0] = (struct ibv_sge){12345, SIZE - 1000, null->lkey};
	sge[1] = pair_sge(pair, SIZE - 1000, 1000);
	if (pair->server) {
		struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = sge, .num_sge = 2}, *bad;

		memset(pair->memory, 0xee, MEMORY);
		pair_receive(pair, 1, 0, SIZE);
		pair_barrier(pair);
		pair_expect(pair, pair->receive_cq, 1, &wc);
		CHECK_EQUAL(wc.byte_len, SIZE);
		for (int i = 0; i < SIZE - 1000; i++)
			CHECK_EQUAL(pair->memory[i], 0);
		CHECK(pattern_matches(pair->memory + SIZE - 1000, 1000, 1));
		memset(pair->memory, 0xee, MEMORY);
		CHECK_EQUAL(ibv_post_recv(pair->qp, &wr, &bad), 0);
		pair_barrier(pair);
		pair_expect(pair, pair->receive_cq, 2, &wc);
		CHECK_EQUAL(wc.byte_len, SIZE);
		for (int i = 0; i < SIZE - 1000; i++)
			CHECK_EQUAL(pair->memory[i], 0xee);
		CHECK(pattern_matches(pair->memory + SIZE - 1000, 1000, 1));
	} else {
		struct ibv_send_wr wr = request(5, IBV_WR_SEND, sge, NULL);

		pattern_fill(pair->memory + SIZE - 1000, 1000, 1);
		wr.num_sge = 2;
		pair_barrier(pair);
		CHECK_EQUAL(pair_post(pair, &wr), 0);
		pair_expect_status(pair, pair->send_cq, 5, IBV_WC_SUCCESS);
		pair_barrier(pair);
		reach(pair, IBV_WR_SEND, NULL, SIZE, IBV_WC_SUCCESS);
	}
	CHECK_EQUAL(ibv_dereg_mr(null), 0);
	pair_barrier(pair);
	pair_close(pair);
}

const struct scenario scenarios_memory[] = {
	{"window-type-1", window_type_1},
	{"window-type-2", window_type_2},
	{"window-zero-based", window_zero_based},
	{"window-bounds", window_bounds},
	{"on-demand", on_demand},
	{"device-memory", device_memory},
	{"null-region", null_region},
	{0},
};
