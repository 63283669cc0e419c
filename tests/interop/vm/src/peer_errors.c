/* SPDX-License-Identifier: BSD-2-Clause */
/* What the responder isn't ready for, refuses, or doesn't answer. */
#include <unistd.h>

#include "peer_scenario.h"

/* --- no receive ------------------------------------------------------------------------------- */

/* It comes while the request is being repeated. */
static void rnr_responder(struct pair *pair)
{
	pair_barrier(pair);
	usleep(250000);
	pair_receive(pair, 0, 0, 4096);
	pair_wait(pair, "recv", 10);
	pattern_check(pair, 0, 2500, 1);
}

static void rnr_requester(struct pair *pair)
{
	pair_barrier(pair);
	pattern_fill(pair, 0, 2500, 1);
	pair_post_plain(pair, 0, IBV_WR_SEND, 0, 2500);
	pair_post_plain(pair, 1, IBV_WR_RDMA_WRITE, 0, 16);
	pair_wait(pair, "send", 20);
	pair_wait(pair, "write after it", 20);
	pair_print_state(pair);
}

static void exhaust_responder(struct pair *pair)
{
	pair_stand_by(pair);
	pair_print_state(pair);
}

static void exhaust_requester(struct pair *pair)
{
	rnr_requester(pair);
	pair_barrier(pair);
	pair_print_state(pair);
}

static void short_responder(struct pair *pair)
{
	pair_receive(pair, 0, 0, 1500);
	pair_barrier(pair);
	pair_wait(pair, "recv", 10);
	pair_print_state(pair);
}

static void too_long_requester(struct pair *pair)
{
	pair_barrier(pair);
	pair_post_plain(pair, 0, IBV_WR_SEND, 0, 3000);
	pair_wait(pair, "send", 20);
	pair_print_state(pair);
}

/* --- no access -------------------------------------------------------------------------------- */

#define WRONG_KEY 0x55 /* XOR the right one */

/* A receive that is posted to a queue pair in ERR is flushed at once. */
static void refusing_responder(struct pair *pair)
{
	struct ibv_wc wc;

	pair_stand_by(pair);
	pair_receive(pair, 9, 0, 64);
	if (ibv_poll_cq(pair->cq, 1, &wc) == 1)
		print_completion("recv posted after the error", &wc);
	pair_print_state(pair);
}

/* @request is refused, and the one behind it flushed. */
static void try_request(struct pair *pair, struct pair_request request)
{
	pair_barrier(pair);
	pair_post(pair, &request, 1);
	pair_post_plain(pair, 1, IBV_WR_RDMA_WRITE, 0, 8);
	pair_wait(pair, "op", 20);
	pair_wait(pair, "flushed", 5);
	pair_print_state(pair);
	pair_barrier(pair);
}

static void write_requester(struct pair *pair)
{
	try_request(pair, pair_request(pair, 0, IBV_WR_RDMA_WRITE, 0, 3000));
}

static void read_requester(struct pair *pair)
{
	try_request(pair, pair_request(pair, 0, IBV_WR_RDMA_READ, 0, 3000));
}

static void wrong_key_write_requester(struct pair *pair)
{
	struct pair_request request = pair_request(pair, 0, IBV_WR_RDMA_WRITE, 0, 3000);

	request.wr.wr.rdma.rkey ^= WRONG_KEY;
	try_request(pair, request);
}

static void wrong_key_read_requester(struct pair *pair)
{
	struct pair_request request = pair_request(pair, 0, IBV_WR_RDMA_READ, 0, 3000);

	request.wr.wr.rdma.rkey ^= WRONG_KEY;
	try_request(pair, request);
}

static void out_of_bounds_requester(struct pair *pair)
{
	struct pair_request request = pair_request(pair, 0, IBV_WR_RDMA_WRITE, 0, 3000);

	request.wr.wr.rdma.remote_addr = pair->remote.address + REGION_SIZE - 1000;
	try_request(pair, request);
}

static void unaligned_requester(struct pair *pair)
{
	struct pair_request request = pair_atomic(pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);

	request.wr.wr.atomic.remote_addr++;
	try_request(pair, request);
}

/* --- no answer -------------------------------------------------------------------------------- */

static void absent_responder(struct pair *pair)
{
	CHECK(ibv_destroy_qp(pair->qp) == 0);
	pair_stand_by(pair);
}

static void unheard_requester(struct pair *pair)
{
	pair_barrier(pair);
	pair_post_plain(pair, 0, IBV_WR_SEND, 0, 1500);
	pair_wait(pair, "send", 30);
	pair_print_state(pair);
	pair_barrier(pair);
}

/* --- the table -------------------------------------------------------------------------------- */

#define READ_ONLY (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define WRITE_ONLY (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
/* What the region doesn't. */
#define QP_ALLOWS .qp_access = EVERY_ACCESS & ~IBV_ACCESS_LOCAL_WRITE
#define RNR .min_rnr_timer = 22 /* 20.48 ms */

const struct scenario scenarios_errors[] = {
	{"rnr", {RNR}, rnr_responder, rnr_requester},
	{"rnr_exhaust", {RNR, .rnr_retry = 2}, exhaust_responder, exhaust_requester},
	{"send_too_long", {}, short_responder, too_long_requester},
	{"bad_rkey_write", {}, refusing_responder, wrong_key_write_requester},
	{"bad_rkey_read", {}, refusing_responder, wrong_key_read_requester},
	{"bad_bounds_write", {}, refusing_responder, out_of_bounds_requester},
	{"bad_perm_write", {.access = READ_ONLY}, refusing_responder, write_requester},
	{"bad_mrperm_write", {QP_ALLOWS, .access = READ_ONLY}, refusing_responder, write_requester},
	{"bad_mrperm_read", {QP_ALLOWS, .access = WRITE_ONLY}, refusing_responder, read_requester},
	{"atomic_unaligned", {}, refusing_responder, unaligned_requester},
	{"retry_exceeded", {.timeout = 14, .retry_count = 3}, absent_responder, unheard_requester},
	{},
};
