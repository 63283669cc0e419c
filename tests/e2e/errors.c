/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC: errors end in the right completion on the right side, everything behind
 * them is flushed in order, and both queue pairs are in the error state.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "scenario.h"

#define BEHIND 3 /* requests behind the one that fails */

static struct ibv_send_wr request(uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){.wr_id = wr_id,
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED};
}

/* Post @wr as 0 and SENDs behind it, unsignaled ones among them, as one list. */
static void post_with_followers(struct pair *pair, struct ibv_send_wr *wr)
{
	struct ibv_send_wr followers[BEHIND], *bad;
	struct ibv_sge sge = pair_sge(pair, 0, 8);

	for (int i = 0; i < BEHIND; i++) {
		followers[i] = request(i + 1, IBV_WR_SEND, &sge);
		followers[i].send_flags = i % 2 ? IBV_SEND_SIGNALED : 0;
		followers[i].next = i + 1 < BEHIND ? &followers[i + 1] : NULL;
	}
	wr->next = followers;
	CHECK_EQUAL(ibv_post_send(pair->qp, wr, &bad), 0);
}

/* Request 0 failed with @status, and all others were flushed; later ones are too. */
static void expect_failure(struct pair *pair, enum ibv_wc_status status)
{
	struct ibv_sge sge = pair_sge(pair, 0, 8);
	struct ibv_send_wr late = request(99, IBV_WR_SEND, &sge);

	pair_expect_status(pair, pair->send_cq, 0, status);
	for (int i = 0; i < BEHIND; i++)
		pair_expect_status(pair, pair->send_cq, i + 1, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
	CHECK_EQUAL(pair_post(pair, &late), 0);
	pair_expect_status(pair, pair->send_cq, 99, IBV_WC_WR_FLUSH_ERR);
}

static void flush_receives(struct pair *pair, uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		pair_expect_status(pair, pair->receive_cq, first + i, IBV_WC_WR_FLUSH_ERR);
	pair_expect_nothing(pair->receive_cq);
}

/* The client's @opcode at @offset of the server's region with @rkey is refused. */
static void refused(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t key_change,
		    uint64_t offset, uint32_t length)
{
	for (int i = 0; i < 4; i++)
		pair_receive(pair, i, 1024, 64);
	memset(pair->memory, 0xee, 512);
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_sge sge = pair_sge(pair, 512, length);
		struct ibv_send_wr wr = request(0, opcode, &sge);

		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = pair->remote.address + offset;
			wr.wr.atomic.rkey = pair->remote.rkey ^ key_change;
			wr.wr.atomic.compare_add = 1;
		} else {
			wr.wr.rdma.remote_addr = pair->remote.address + offset;
			wr.wr.rdma.rkey = pair->remote.rkey ^ key_change;
		}
		post_with_followers(pair, &wr);
		expect_failure(pair, IBV_WC_REM_ACCESS_ERR);
	} else {
		pair_expect_event(pair, IBV_EVENT_QP_ACCESS_ERR);
		CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
	}
	flush_receives(pair, 0, 4);
	for (int i = 0; i < 512; i++)
		CHECK_EQUAL(pair->memory[i], 0xee);
	pair_barrier(pair);
	pair_close(pair);
}

static void bad_rkey_write(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){0});
	refused(pair, IBV_WR_RDMA_WRITE, 1, 0, 64);
}

static void bad_rkey_read(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){0});
	refused(pair, IBV_WR_RDMA_READ, 0xff00, 0, 64);
}

static void bad_rkey_atomic(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){0});
	refused(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8);
}

static void out_of_bounds(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.memory = 8192});
	refused(pair, IBV_WR_RDMA_WRITE, 0, 8192 - 63, 64);
}

/* The client may do so on its own region, the server's grants nothing. */
static void no_permission(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.access = IBV_ACCESS_LOCAL_WRITE |
							 IBV_ACCESS_REMOTE_READ});
	refused(pair, IBV_WR_RDMA_WRITE, 0, 0, 64);
}

static void other_pd(struct pair *pair)
{
	struct ibv_mr *own = NULL;
	struct ibv_sge sge;

	pair_open(pair, &(struct pair_options){.foreign_pd = true});
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_send_wr wr = request(0, IBV_WR_RDMA_WRITE, &sge);

		own = ibv_reg_mr(pair->pd, pair->memory, 64, IBV_ACCESS_LOCAL_WRITE);
		CHECK(own);
		sge = (struct ibv_sge){(uintptr_t)pair->memory, 64, own->lkey};
		wr.wr.rdma.remote_addr = pair->remote.address;
		wr.wr.rdma.rkey = pair->remote.rkey;
		post_with_followers(pair, &wr);
		expect_failure(pair, IBV_WC_REM_ACCESS_ERR);
		CHECK_EQUAL(ibv_dereg_mr(own), 0);
	} else {
		pair_expect_event(pair, IBV_EVENT_QP_ACCESS_ERR);
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* Refused when posted, as Linux rxe does, or by the peer. */
static void unaligned_atomic(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){0});
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_sge sge = pair_sge(pair, 0, 8);
		struct ibv_send_wr wr = request(0, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
		int result;

		wr.wr.atomic.remote_addr = pair->remote.address + 4;
		wr.wr.atomic.rkey = pair->remote.rkey;
		result = pair_post(pair, &wr);
		if (result)
			CHECK_EQUAL(result, EINVAL);
		else
			pair_expect_status(pair, pair->send_cq, 0, IBV_WC_REM_INV_REQ_ERR);
	}
	pair_barrier(pair);
	pair_close(pair);
}

static void send_too_long(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){0});
	for (int i = 0; i < 4; i++)
		pair_receive(pair, i, 65536, 2999);
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_sge sge = pair_sge(pair, 0, 3000);
		struct ibv_send_wr wr = request(0, IBV_WR_SEND, &sge);

		post_with_followers(pair, &wr);
		expect_failure(pair, IBV_WC_REM_INV_REQ_ERR);
		flush_receives(pair, 0, 4);
	} else {
		pair_expect_status(pair, pair->receive_cq, 0, IBV_WC_LOC_LEN_ERR);
		flush_receives(pair, 1, 3);
		CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
	}
	pair_barrier(pair);
	pair_close(pair);
}

static void bad_receive_sge(struct pair *pair)
{
	struct ibv_sge bad_sge;
	struct ibv_recv_wr receive = {.wr_id = 0, .sg_list = &bad_sge, .num_sge = 1}, *bad;

	pair_open(pair, &(struct pair_options){0});
	bad_sge = pair_sge(pair, 0, 64);
	bad_sge.lkey ^= 1;
	CHECK_EQUAL(ibv_post_recv(pair->qp, &receive, &bad), 0);
	pair_receive(pair, 1, 0, 64);
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_sge sge = pair_sge(pair, 0, 8);
		struct ibv_send_wr wr = request(0, IBV_WR_SEND, &sge);

		post_with_followers(pair, &wr);
		expect_failure(pair, IBV_WC_REM_OP_ERR);
	} else {
		pair_expect_status(pair, pair->receive_cq, 0, IBV_WC_LOC_PROT_ERR);
		flush_receives(pair, 1, 1);
		CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
	}
	pair_barrier(pair);
	pair_close(pair);
}

static void bad_lkey(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){0});
	pair_receive(pair, 0, 0, 64);
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_sge sge = pair_sge(pair, 0, 8);
		struct ibv_send_wr wr = request(0, IBV_WR_SEND, &sge);

		sge.lkey ^= 1;
		post_with_followers(pair, &wr);
		expect_failure(pair, IBV_WC_LOC_PROT_ERR);
	}
	pair_barrier(pair);
	if (pair->server) {
		/* Nothing was sent. */
		pair_expect_nothing(pair->receive_cq);
		CHECK_EQUAL(pair_state(pair), IBV_QPS_RTS);
	}
	pair_barrier(pair);
	pair_close(pair);
}

/* No receive is ever posted. */
static void rnr_exhausted(struct pair *pair)
{
	pair_open(pair, &(struct pair_options){.rnr_retry = 2});
	pair_barrier(pair);
	if (!pair->server) {
		struct ibv_sge sge = pair_sge(pair, 0, 3000);
		struct ibv_send_wr wr = request(0, IBV_WR_SEND, &sge);

		post_with_followers(pair, &wr);
		expect_failure(pair, IBV_WC_RNR_RETRY_EXC_ERR);
	}
	pair_barrier(pair);
	if (pair->server)
		CHECK_EQUAL(pair_state(pair), IBV_QPS_RTS);
	pair_barrier(pair);
	pair_close(pair);
}

/* Receives come late, one at a time; rnr_retry 7 waits for ever. */
static void rnr_recovers(struct pair *pair)
{
	const uint32_t count = 10, length = 5000;
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.rnr_retry = 7});
	pair_barrier(pair);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *slot = pair->memory + i * 8192;
		struct ibv_sge sge = pair_sge(pair, i * 8192, length);
		struct ibv_send_wr wr = request(i, IBV_WR_SEND, &sge);

		if (pair->server) {
			poll(NULL, 0, 20);
			pair_receive(pair, i, i * 8192, 8192);
			pair_expect(pair, pair->receive_cq, i, &wc);
			CHECK(pattern_matches(slot, length, i));
		} else {
			pattern_fill(slot, length, i);
			CHECK_EQUAL(pair_post(pair, &wr), 0);
		}
	}
	for (uint32_t i = 0; i < count && !pair->server; i++)
		pair_expect(pair, pair->send_cq, i, &wc);
	pair_barrier(pair);
	pair_close(pair);
}

/* Moved to the error state by hand: receives flush in order, and so does what is posted then. */
static void flush_order(struct pair *pair)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge sge;

	pair_open(pair, &(struct pair_options){0});
	for (int i = 0; i < 20; i++)
		pair_receive(pair, i, 0, 64);
	pair_barrier(pair);
	CHECK_EQUAL(ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE), 0);
	sge = pair_sge(pair, 0, 8);
	for (int i = 0; i < 20; i++) {
		struct ibv_send_wr wr = request(i, IBV_WR_SEND, &sge);

		CHECK_EQUAL(pair_post(pair, &wr), 0);
		pair_receive(pair, 20 + i, 0, 64);
	}
	for (int i = 0; i < 20; i++)
		pair_expect_status(pair, pair->send_cq, i, IBV_WC_WR_FLUSH_ERR);
	flush_receives(pair, 0, 40);
	pair_barrier(pair);
	pair_close(pair);
}

/*
 * The harness kills one side while both stream RDMA WRITEs: the other learns it
 * by its retries, then all the rest is flushed, and everything can be destroyed.
 */
static void peer_dies(struct pair *pair)
{
	const uint32_t depth = 32;
	uint64_t posted = 0, polled = 0;
	struct ibv_wc wc;

	pair_open(pair, &(struct pair_options){.memory = 2 << 20});
	pair_receive(pair, 7, 0, 64);
	pair_barrier(pair);
	do {
		while (posted - polled < depth) {
			struct ibv_sge sge = pair_sge(pair, 0, 65536);
			struct ibv_send_wr wr = request(posted++, IBV_WR_RDMA_WRITE, &sge);

			wr.wr.rdma.remote_addr = pair->remote.address + (1 << 20);
			wr.wr.rdma.rkey = pair->remote.rkey;
			CHECK_EQUAL(pair_post(pair, &wr), 0);
		}
		pair_wait(pair, pair->send_cq, &wc);
		CHECK_EQUAL(wc.wr_id, polled++);
	} while (wc.status == IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
	while (polled < posted)
		pair_expect_status(pair, pair->send_cq, polled++, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(pair_state(pair), IBV_QPS_ERR);
	flush_receives(pair, 7, 1);
	pair_close(pair);
}

const struct scenario scenarios_error[] = {
	{"bad-rkey-write", bad_rkey_write},
	{"bad-rkey-read", bad_rkey_read},
	{"bad-rkey-atomic", bad_rkey_atomic},
	{"out-of-bounds", out_of_bounds},
	{"no-permission", no_permission},
	{"other-pd", other_pd},
	{"unaligned-atomic", unaligned_atomic},
	{"send-too-long", send_too_long},
	{"bad-receive-sge", bad_receive_sge},
	{"bad-lkey", bad_lkey},
	{"rnr-exhausted", rnr_exhausted},
	{"rnr-recovers", rnr_recovers},
	{"flush-order", flush_order},
	{"peer-dies", peer_dies},
	{NULL, NULL},
};
