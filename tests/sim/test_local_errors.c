/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of RC that fail before anything of them is sent, and responses whose memory can't be
 * written (IBA 9.9.2), packet by packet.
 */
#include <stdlib.h>

#include "net/newer_verbs.h"
#include "peer.h"

#define BAD_KEY 0xdead0001
#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum bad_memory { UNKNOWN_KEY, OTHER_DOMAIN, TOO_FAR, TOO_EARLY, NO_LOCAL_WRITE };

struct memory {
	struct pd *other;
	struct mr *foreign, *fixed;
};

static struct ibv_sge bad_sge(struct peer *peer, struct memory *memory, enum bad_memory kind)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer->memory, .length = 8, .lkey = peer->mr->ibv.lkey};

	ck_assert_int_eq(pd_alloc(peer->node->hca, &memory->other), 0);
	ck_assert_int_eq(mr_register(memory->other, peer->memory, 1000, (uintptr_t)peer->memory,
				     IBV_ACCESS_LOCAL_WRITE, &memory->foreign),
			 0);
	memory->fixed = world_mr(peer->node, peer->memory, 1000, 0);
	if (kind == UNKNOWN_KEY)
		sge.lkey = BAD_KEY;
	if (kind == OTHER_DOMAIN)
		sge.lkey = memory->foreign->ibv.lkey;
	if (kind == TOO_FAR)
		sge.addr += PEER_MEMORY - 7;
	if (kind == TOO_EARLY)
		sge.addr--;
	if (kind == NO_LOCAL_WRITE)
		sge.lkey = memory->fixed->ibv.lkey;
	return sge;
}

static void release(struct memory *memory)
{
	mr_deregister(memory->foreign);
	mr_deregister(memory->fixed);
	pd_dealloc(memory->other);
}

static void post_sge(struct peer *peer, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t id)
{
	struct ibv_send_wr wr = {.wr_id = id, .opcode = opcode, .sg_list = sge, .num_sge = 1};

	/* Unsignaled: an error is reported all the same, IBA 10.7.3.1. */
	wr.wr.rdma.remote_addr = 0x1000;
	wr.wr.rdma.rkey = 0x42;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0x42;
	}
	ck_assert_int_eq(world_post_send(peer->qp, &wr), 0);
}

/*
 * The gather of SEND and WRITE is looked at before anything is sent. What is before it completes.
 */
START_TEST(bad_gather)
{
	struct memory memory;
	struct ibv_sge sge;
	struct peer peer;

	peer_create_requester(&peer, NULL);
	sge = bad_sge(&peer, &memory, _i / 2);
	peer_post(&peer, IBV_WR_SEND, 8, 0);
	post_sge(&peer, _i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, &sge, 1);
	peer_post(&peer, IBV_WR_SEND, 8, 2);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_see_none(&peer, 10000);
	world_expect_none(peer.node, MS / 10);
	peer_acknowledge(&peer, FIRST_PSN, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_expect_failure(&peer, 1, 3, IBV_WC_LOC_PROT_ERR);
	peer_see_none(&peer, 10000);
	release(&memory);
	peer_destroy(&peer);
}
END_TEST

/* ... though it is the last of several packets that can't be made. */
START_TEST(bad_end_of_gather)
{
	struct peer peer;

	peer_create_requester(&peer, NULL);
	struct ibv_sge sges[] = {
		{(uintptr_t)peer.memory, 2 * PEER_MTU, peer.mr->ibv.lkey},
		{(uintptr_t)peer.memory, 8, BAD_KEY},
	};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 2};

	ck_assert_int_eq(world_post_send(peer.qp, &wr), 0);
	peer_see_none(&peer, 10000);
	peer_expect_failure(&peer, 0, 1, IBV_WC_LOC_PROT_ERR);
	peer_destroy(&peer);
}
END_TEST

/* The sink of READ and atomics is looked at when the response comes. */
START_TEST(bad_sink)
{
	struct peer_packet response = {.psn = FIRST_PSN, .syndrome = 0x1f};
	bool atomic = _i % 2;
	struct memory memory;
	struct ibv_sge sge;
	struct peer peer;

	peer_create_requester(&peer, NULL);
	sge = bad_sge(&peer, &memory, _i / 2);
	post_sge(&peer, atomic ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, &sge, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	response.opcode = atomic ? WIRE_ATOMIC_ACKNOWLEDGE : WIRE_READ_RESPONSE_ONLY;
	response.length = atomic ? 0 : 8;
	response.original = 0x1111;
	peer_send(&peer, &response);
	peer_expect_failure(&peer, 0, 1, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_eq(peer.memory[0], 0);
	release(&memory);
	peer_destroy(&peer);
}
END_TEST

/* ... so that a bad R_Key is what is reported when both are bad. */
START_TEST(bad_sink_and_key)
{
	struct memory memory;
	struct ibv_sge sge;
	struct peer peer;

	peer_create_requester(&peer, NULL);
	sge = bad_sge(&peer, &memory, UNKNOWN_KEY);
	post_sge(&peer, IBV_WR_RDMA_READ, &sge, 0);
	peer_see_requests(&peer, FIRST_PSN, 1);
	peer_acknowledge(&peer, FIRST_PSN, 0x62);
	peer_expect_failure(&peer, 0, 1, IBV_WC_REM_ACCESS_ERR);
	release(&memory);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.4.4, 9.4.5: without max_rd_atomic there are no READs and no atomics. */
START_TEST(no_rd_atomic)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_WRITE};
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = 0;
	peer_create_requester(&peer, &c);
	if (_i < LENGTH(opcodes))
		peer_post(&peer, opcodes[_i], 8, 0);
	else
		peer_flush(&peer, FLUSH_RANGE, 8, 0);
	peer_expect_failure(&peer, 0, 1, IBV_WC_LOC_QP_OP_ERR);
	peer_see_none(&peer, 10000);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("local_errors");

	tcase_add_loop_test(tcase, bad_gather, 0, 8);
	tcase_add_test(tcase, bad_end_of_gather);
	tcase_add_loop_test(tcase, bad_sink, 0, 10);
	tcase_add_test(tcase, bad_sink_and_key);
	tcase_add_loop_test(tcase, no_rd_atomic, 0, 4);
	return world_main("local_errors", (TCase *const[]){tcase, NULL});
}
