/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer's memory, written, read, and counted in; and all kinds of requests in one list. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "peer_scenario.h"

/* --- WRITEs ---------------------------------------------------------------------------------- */

static const uint32_t write_sizes[] = {0, 1, 3, 1024, 1025, 4097};
#define LAST (COUNT(write_sizes) - 1)

static void write_responder(struct pair *pair)
{
	pair_barrier(pair);
	pattern_check(pair, TARGET, write_sizes[LAST], LAST);
}

static void write_requester(struct pair *pair)
{
	for (size_t i = 0; i < COUNT(write_sizes); i++) {
		pattern_fill(pair, 0, write_sizes[i], i);
		pair_post_plain(pair, i, IBV_WR_RDMA_WRITE, 0, write_sizes[i]);
		pair_wait(pair, "write", 10);
	}
	pair_barrier(pair);
}

/* --- READs ----------------------------------------------------------------------------------- */

#define READABLE 65536
#define READ_SEED 9

static void read_responder(struct pair *pair)
{
	pattern_fill(pair, TARGET, READABLE, READ_SEED);
	pair_barrier(pair);
}

static void read_each(struct pair *pair, const uint32_t *sizes, int count)
{
	pair_barrier(pair);
	for (int i = 0; i < count; i++) {
		memset(pair->memory, 0, READABLE);
		pair_post_plain(pair, i, IBV_WR_RDMA_READ, 0, sizes[i]);
		pair_wait(pair, "read", 20);
		pattern_check(pair, 0, sizes[i], READ_SEED);
	}
}

static void read_requester(struct pair *pair)
{
	static const uint32_t sizes[] = {0, 1, 3, 1024, 1025, 4097, 8192};

	read_each(pair, sizes, COUNT(sizes));
}

/* Responses are lost on the way. */
static void lost_read_requester(struct pair *pair)
{
	static const uint32_t sizes[] = {8192, 8192, 8192};

	read_each(pair, sizes, COUNT(sizes));
}

/* --- atomics --------------------------------------------------------------------------------- */

static uint64_t *word_at(struct pair *pair, size_t offset)
{
	return (uint64_t *)(pair->memory + offset);
}

static void atomics_responder(struct pair *pair)
{
	*word_at(pair, TARGET) = 1000;
	pair_stand_by(pair);
	printf("final target %" PRIx64 "\n", *word_at(pair, TARGET));
}

static void atomics_requester(struct pair *pair)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint64_t compare_add, swap;
		const char *what;
		bool hexadecimal; /* what was there before */
	} steps[] = {
		{IBV_WR_ATOMIC_FETCH_AND_ADD, 7, 0, "fa +7", false},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 1007, 0x1122334455667788, "cs 1007->0x1122334455667788",
		 false},
		{IBV_WR_ATOMIC_CMP_AND_SWP, 5, 6, "cs 5->6 (must fail to compare)", true},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 0, "fa -1", true},
	};

	pair_barrier(pair);
	for (size_t i = 0; i < COUNT(steps); i++) {
		struct pair_request request =
			pair_atomic(pair, i, steps[i].opcode, steps[i].compare_add, steps[i].swap);

		pair_post(pair, &request, 1);
		pair_wait(pair, steps[i].what, 10);
		printf(steps[i].hexadecimal ? "orig %" PRIx64 "\n" : "orig %" PRIu64 "\n",
		       *word_at(pair, 0));
	}
	pair_barrier(pair);
}

/* Responses are lost: an addition that is repeated must not be executed again. */
static void lost_atomics_requester(struct pair *pair)
{
	pair_barrier(pair);
	for (int i = 0; i < 5; i++) {
		struct pair_request request =
			pair_atomic(pair, i, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);

		pair_post(pair, &request, 1);
		pair_wait(pair, "fa +1", 20);
		printf("orig %" PRIu64 "\n", *word_at(pair, 0));
	}
	pair_barrier(pair);
}

static void atomic_write_responder(struct pair *pair)
{
	pair_stand_by(pair);
	printf("target %" PRIx64 "\n", *word_at(pair, TARGET));
}

static void atomic_write_requester(struct pair *pair)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp);
	uint64_t value = 0x1122334455667788;

	pair_barrier(pair);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, pair->remote.rkey, pair->remote.address + TARGET, &value);
	CHECK(ibv_wr_complete(qp) == 0);
	pair_wait(pair, "atomic_write", 10);
	pair_barrier(pair);
}

/* --- a memory window, which a SEND invalidates ------------------------------------------------ */

static void bind_window(struct pair *pair)
{
	struct ibv_mw *window = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	struct pair_request bind = pair_request(pair, 1, IBV_WR_BIND_MW, 0, 0);

	CHECK(window);
	printf("mw rkey before bind %08x\n", window->rkey);
	pair->local.window_rkey = ibv_inc_rkey(window->rkey);
	pair->local.window_address = pair->local.address + TARGET;
	bind.wr.bind_mw.mw = window;
	bind.wr.bind_mw.rkey = pair->local.window_rkey;
	bind.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = pair->mr,
		.addr = pair->local.window_address,
		.length = 8192,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	CHECK(pair_post(pair, &bind, 1) == 0);
	pair_wait(pair, "bind", 5);
	printf("mw bound, rkey %08x\n", pair->local.window_rkey);
}

static void window_responder(struct pair *pair)
{
	bind_window(pair);
	pair_receive(pair, 0, 0, 4096);
	pair_receive(pair, 1, 8192, 4096);
	pair_exchange(pair);
	pair_wait(pair, "recv", 10);
	pair_wait(pair, "recv", 10);
	pair_barrier(pair);
}

static void write_through_window(struct pair *pair, int i, uint32_t length, const char *what)
{
	struct pair_request request = pair_request(pair, i, IBV_WR_RDMA_WRITE, 0, length);

	request.wr.wr.rdma.rkey = pair->remote.window_rkey;
	request.wr.wr.rdma.remote_addr = pair->remote.window_address;
	pair_post(pair, &request, 1);
	pair_wait(pair, what, 10);
}

static void window_requester(struct pair *pair)
{
	struct pair_request invalidate;

	pair_exchange(pair);
	pattern_fill(pair, 0, 3000, 4);
	write_through_window(pair, 0, 1500, "write through MW");
	pair_post_plain(pair, 1, IBV_WR_SEND, 0, 64);
	pair_wait(pair, "send", 10);
	invalidate = pair_request(pair, 2, IBV_WR_SEND_WITH_INV, 0, 2500);
	invalidate.wr.invalidate_rkey = pair->remote.window_rkey;
	pair_post(pair, &invalidate, 1);
	pair_wait(pair, "send_with_inv", 10);
	write_through_window(pair, 3, 16, "write through the invalidated MW");
	pair_print_state(pair);
	pair_barrier(pair);
}

/* --- all kinds of requests in one list ------------------------------------------------------- */

#define MIXED_RECEIVES 3
#define MIXED_READABLE (TARGET + 65536)
#define MIXED_COUNTER (TARGET + 131072)
#define MIXED_COUNTED 200000 /* where the counter's old value goes to */

static void mixed_responder(struct pair *pair)
{
	pattern_fill(pair, MIXED_READABLE, 8192, 3);
	for (int i = 0; i < MIXED_RECEIVES; i++)
		pair_receive(pair, i, i * 8192, 8192);
	pair_barrier(pair);
	for (int i = 0; i < MIXED_RECEIVES; i++)
		pair_wait(pair, "recv", 10);
}

static void mixed_requester(struct pair *pair)
{
	struct pair_request list[] = {
		pair_request(pair, 0, IBV_WR_SEND, 0, 500),
		pair_request(pair, 1, IBV_WR_RDMA_WRITE, 0, 2500),
		pair_request(pair, 2, IBV_WR_RDMA_READ, 65536, 3000),
		pair_atomic(pair, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0),
		pair_request(pair, 4, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 100),
		pair_request(pair, 5, IBV_WR_RDMA_READ, 80000, 10),
		pair_request(pair, 6, IBV_WR_SEND, 0, 0),
	};

	list[2].wr.wr.rdma.remote_addr = pair->remote.address + MIXED_READABLE;
	list[3].wr.wr.atomic.remote_addr = pair->remote.address + MIXED_COUNTER;
	list[3].sge.addr = pair->local.address + MIXED_COUNTED;
	list[4].wr.imm_data = htonl(0x77);
	list[5].wr.wr.rdma.remote_addr = pair->remote.address + MIXED_READABLE;
	list[6].wr.send_flags |= IBV_SEND_FENCE;
	pattern_fill(pair, 0, 8192, 2);
	pair_barrier(pair);
	pair_post(pair, list, COUNT(list));
	for (size_t i = 0; i < COUNT(list); i++)
		pair_wait(pair, "op", 10);
}

/* --- the table ------------------------------------------------------------------------------ */

#define ATOMIC_WRITES .send_operations = IBV_QP_EX_WITH_ATOMIC_WRITE
#define WINDOWS .access = EVERY_ACCESS | IBV_ACCESS_MW_BIND

const struct scenario scenarios_memory[] = {
	{"write_sizes", {}, write_responder, write_requester},
	{"read_sizes", {}, read_responder, read_requester},
	{"drop_read", {LOSSY}, read_responder, lost_read_requester},
	{"atomics", {}, atomics_responder, atomics_requester},
	{"drop_atomic", {LOSSY}, atomics_responder, lost_atomics_requester},
	{"atomic_write", {ATOMIC_WRITES}, atomic_write_responder, atomic_write_requester},
	{"send_inv", {WINDOWS}, window_responder, window_requester},
	{"mixed", {}, mixed_responder, mixed_requester},
	{},
};
