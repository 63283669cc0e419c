/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an RC responder makes of requests that a well-behaved requester never
 * sends: every check of IBA 9.7.4, packet by packet. Asserted
 * are the answer on the wire, the receive completions, the async event and the
 * state of the QP.
 */
#include <stdlib.h>

#include "net/newer_verbs.h"
#include "peer.h"

#define NO_EVENT IBV_EVENT_DEVICE_FATAL /* which nothing raises */

#define BAD_KEY 0xdead0001
#define ALL_MEMORY PEER_MEMORY

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* --- one bad message, up to three packets --------------------------------------- */

struct row {
	const char *name;
	struct peer_packet packets[3]; /* PSNs are given; va counts from the region's start */
	int count;
	uint8_t syndrome;	   /* of the NAK, with the PSN of the last packet */
	enum ibv_wc_status status; /* of the receive; SUCCESS: none was taken, all are flushed */
	enum ibv_event_type event;
};

#define OP(operation) .opcode = WIRE_RC | (operation)
#define SEND_FIRST                                                                                 \
	{                                                                                          \
		OP(WIRE_SEND_FIRST), .length = PEER_MTU                                            \
	}
#define WRITE_FIRST(total)                                                                         \
	{                                                                                          \
		OP(WIRE_WRITE_FIRST), .length = PEER_MTU, .dma_length = (total)                    \
	}

#define REQ_ERR IBV_EVENT_QP_REQ_ERR
#define ACCESS_ERR IBV_EVENT_QP_ACCESS_ERR

/* clang-format off */
static const struct row rows[] = {
	/* 3: opcode sequence, IBA 9.7.4.1.2 */
	{"SEND_LAST first", {{OP(WIRE_SEND_LAST), .length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"SEND_MIDDLE first", {{OP(WIRE_SEND_MIDDLE), .length = PEER_MTU}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE_MIDDLE first", {{OP(WIRE_WRITE_MIDDLE), .length = PEER_MTU}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE_LAST first", {{OP(WIRE_WRITE_LAST), .length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE_LAST_IMM first", {{OP(WIRE_WRITE_LAST_IMM), .length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"SEND_FIRST, WRITE_LAST", {SEND_FIRST, {OP(WIRE_WRITE_LAST), .length = 4}}, 2, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"SEND_FIRST, SEND_ONLY", {SEND_FIRST, {OP(WIRE_SEND_ONLY), .length = 4}}, 2, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"SEND_FIRST, READ", {SEND_FIRST, {OP(WIRE_READ_REQUEST), .dma_length = 4}}, 2, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"WRITE_FIRST, SEND_LAST", {WRITE_FIRST(1028), {OP(WIRE_SEND_LAST), .length = 4}}, 2, 0x61, 0, REQ_ERR},
	{"WRITE_FIRST, WRITE_ONLY", {WRITE_FIRST(1028), {OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4}}, 2, 0x61, 0, REQ_ERR},
	{"WRITE_FIRST, ATOMIC_WRITE", {WRITE_FIRST(1028), {OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8}}, 2, 0x61, 0, REQ_ERR},
	{"WRITE_FIRST, FLUSH", {WRITE_FIRST(1028), {OP(WIRE_FLUSH), .feth = 1}}, 2, 0x61, 0, REQ_ERR},
	{"WRITE_FIRST, FETCH_ADD", {WRITE_FIRST(1028), {OP(WIRE_FETCH_ADD)}}, 2, 0x61, 0, REQ_ERR},

	/* 9: length against opcode, IBA 9.7.4.1.6 */
	{"short SEND_FIRST", {{OP(WIRE_SEND_FIRST), .length = PEER_MTU - 4}}, 1, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"long SEND_FIRST", {{OP(WIRE_SEND_FIRST), .length = PEER_MTU + 4}}, 1, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"short SEND_MIDDLE", {SEND_FIRST, {OP(WIRE_SEND_MIDDLE), .length = 512}}, 2, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"empty SEND_LAST", {SEND_FIRST, {OP(WIRE_SEND_LAST)}}, 2, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"long SEND_LAST", {SEND_FIRST, {OP(WIRE_SEND_LAST), .length = PEER_MTU + 1}}, 2, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"long SEND_ONLY", {{OP(WIRE_SEND_ONLY), .length = PEER_MTU + 1}}, 1, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"SEND_ONLY without its pad", {{OP(WIRE_SEND_ONLY), .length = 5, .unpadded = true}}, 1, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"SEND_ONLY with less than its pad", {{OP(WIRE_SEND_ONLY), .length = 5, .unpadded = true, .padding = 2}}, 1, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"SEND_FIRST with padding", {{OP(WIRE_SEND_FIRST), .length = PEER_MTU, .padding = 1}}, 1, 0x61, IBV_WC_REM_INV_REQ_ERR, NO_EVENT},
	{"short WRITE_FIRST", {{OP(WIRE_WRITE_FIRST), .length = 512, .dma_length = 2048}}, 1, 0x61, 0, REQ_ERR},
	{"READ with payload", {{OP(WIRE_READ_REQUEST), .length = 4, .dma_length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"FETCH_ADD with payload", {{OP(WIRE_FETCH_ADD), .length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE beyond 2^31", {WRITE_FIRST(0x80000001)}, 1, 0x61, 0, REQ_ERR},
	{"READ beyond 2^31", {{OP(WIRE_READ_REQUEST), .dma_length = 0x80000001}}, 1, 0x61, 0, REQ_ERR},

	{"ATOMIC_WRITE of 4 bytes", {{OP(WIRE_ATOMIC_WRITE), .length = 4, .dma_length = 8}}, 1, 0x61, 0, REQ_ERR},
	{"ATOMIC_WRITE of 12 bytes", {{OP(WIRE_ATOMIC_WRITE), .length = 12, .dma_length = 8}}, 1, 0x61, 0, REQ_ERR},
	{"ATOMIC_WRITE, too much", {{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"ATOMIC_WRITE, too little", {{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 16}}, 1, 0x61, 0, REQ_ERR},
	{"ATOMIC_WRITE of nothing", {{OP(WIRE_ATOMIC_WRITE)}}, 1, 0x61, 0, REQ_ERR},
	{"FLUSH with payload", {{OP(WIRE_FLUSH), .feth = 1, .length = 4, .dma_length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"FLUSH beyond 2^31", {{OP(WIRE_FLUSH), .feth = 1, .dma_length = 0x80000001}}, 1, 0x61, 0, REQ_ERR},

	/* Annex A19: what no QP here allows, and what is reserved */
	{"FLUSH, persistent", {{OP(WIRE_FLUSH), .feth = 2, .dma_length = 4}}, 1, 0x61, 0, ACCESS_ERR},
	{"FLUSH, global and persistent", {{OP(WIRE_FLUSH), .feth = 3, .dma_length = 4}}, 1, 0x61, 0, ACCESS_ERR},
	{"FLUSH of no type", {{OP(WIRE_FLUSH), .feth = 0, .dma_length = 4}}, 1, 0x61, 0, ACCESS_ERR},
	{"FLUSH of a reserved type", {{OP(WIRE_FLUSH), .feth = 5, .dma_length = 4}}, 1, 0x61, 0, ACCESS_ERR},
	{"FLUSH of a reserved selectivity", {{OP(WIRE_FLUSH), .feth = 0x21, .dma_length = 4}}, 1, 0x61, 0, ACCESS_ERR},

	/* 10: R_Key, IBA 9.7.4.1.5 */
	{"WRITE, unknown key", {{OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"READ, unknown key", {{OP(WIRE_READ_REQUEST), .dma_length = 4, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"FETCH_ADD, unknown key", {{OP(WIRE_FETCH_ADD), .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"COMPARE_SWAP, unknown key", {{OP(WIRE_COMPARE_SWAP), .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"ATOMIC_WRITE, unknown key", {{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"ATOMIC_WRITE behind the region", {{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8, .va = ALL_MEMORY}}, 1, 0x62, 0, ACCESS_ERR},
	{"FLUSH, unknown key", {{OP(WIRE_FLUSH), .feth = 1, .dma_length = 4, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"FLUSH of nothing, unknown key", {{OP(WIRE_FLUSH), .feth = 1, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"FLUSH of a region, unknown key", {{OP(WIRE_FLUSH), .feth = 0x11, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"FLUSH behind the region", {{OP(WIRE_FLUSH), .feth = 1, .dma_length = ALL_MEMORY, .va = 1}}, 1, 0x62, 0, ACCESS_ERR},
	{"WRITE before the region", {{OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4, .va = -1}}, 1, 0x62, 0, ACCESS_ERR},
	{"WRITE behind the region", {{OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4, .va = ALL_MEMORY - 3}}, 1, 0x62, 0, ACCESS_ERR},
	{"WRITE_FIRST of more than there is", {WRITE_FIRST(ALL_MEMORY + 1)}, 1, 0x62, 0, ACCESS_ERR},
	{"READ behind the region", {{OP(WIRE_READ_REQUEST), .dma_length = ALL_MEMORY, .va = 1}}, 1, 0x62, 0, ACCESS_ERR},
	{"READ around the end of memory", {{OP(WIRE_READ_REQUEST), .dma_length = 0x80000000, .va = 8}}, 1, 0x62, 0, ACCESS_ERR},
	{"WRITE of 2^31 bytes, as long as one may be", {WRITE_FIRST(0x80000000)}, 1, 0x62, 0, ACCESS_ERR},
	{"FLUSH of 2^31 bytes", {{OP(WIRE_FLUSH), .feth = 1, .dma_length = 0x80000000}}, 1, 0x62, 0, ACCESS_ERR},
	{"FETCH_ADD behind the region", {{OP(WIRE_FETCH_ADD), .va = ALL_MEMORY}}, 1, 0x62, 0, ACCESS_ERR},

	/* 10: no receive is consumed */
	{"WRITE with immediate, unknown key", {{OP(WIRE_WRITE_ONLY_IMM), .length = 4, .dma_length = 4, .rkey = BAD_KEY}}, 1, 0x62, 0, ACCESS_ERR},
	{"WRITE_LAST with immediate, too little", {WRITE_FIRST(1500), {OP(WIRE_WRITE_LAST_IMM), .length = 475}}, 2, 0x61, 0, REQ_ERR},
	{"empty WRITE_LAST with immediate", {WRITE_FIRST(1500), {OP(WIRE_WRITE_LAST_IMM)}}, 2, 0x61, 0, REQ_ERR},

	/* 11: alignment, which is looked at before the key */
	{"FETCH_ADD, unaligned", {{OP(WIRE_FETCH_ADD), .va = 4}}, 1, 0x61, 0, REQ_ERR},
	{"COMPARE_SWAP, unaligned and unknown key", {{OP(WIRE_COMPARE_SWAP), .va = 1, .rkey = BAD_KEY}}, 1, 0x61, 0, REQ_ERR},

	{"ATOMIC_WRITE, unaligned", {{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8, .va = 4}}, 1, 0x61, 0, REQ_ERR},
	{"ATOMIC_WRITE, unaligned and unknown key", {{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8, .va = 1, .rkey = BAD_KEY}}, 1, 0x61, 0, REQ_ERR},

	/* 12: payloads against the RETH's length */
	{"WRITE_ONLY, too much", {{OP(WIRE_WRITE_ONLY), .length = 8, .dma_length = 4}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE_ONLY, more than nothing", {{OP(WIRE_WRITE_ONLY), .length = 4, .rkey = BAD_KEY}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE_ONLY, too little", {{OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 8}}, 1, 0x61, 0, REQ_ERR},
	{"WRITE_LAST, too much", {WRITE_FIRST(1500), {OP(WIRE_WRITE_LAST), .length = 477}}, 2, 0x61, 0, REQ_ERR},
	{"WRITE_LAST, too little", {WRITE_FIRST(1500), {OP(WIRE_WRITE_LAST), .length = 475}}, 2, 0x61, 0, REQ_ERR},
	{"WRITE_MIDDLE, too much", {WRITE_FIRST(1500), {OP(WIRE_WRITE_MIDDLE), .length = PEER_MTU}}, 2, 0x61, 0, REQ_ERR},

	/* 13: a SEND longer than its receive of 2000 bytes */
	{"SEND_LAST, too long", {SEND_FIRST, {OP(WIRE_SEND_LAST), .length = 977}}, 2, 0x61, IBV_WC_LOC_LEN_ERR, NO_EVENT},
	{"SEND_MIDDLE, too long", {SEND_FIRST, {OP(WIRE_SEND_MIDDLE), .length = PEER_MTU}}, 2, 0x61, IBV_WC_LOC_LEN_ERR, NO_EVENT},

	/* 15: nothing can be invalidated by this key */
	{"SEND with invalidate", {{OP(WIRE_SEND_ONLY_INVALIDATE), .length = 4, .invalidate = BAD_KEY}}, 1, 0x62, IBV_WC_LOC_ACCESS_ERR, NO_EVENT},
};
/* clang-format on */

static struct peer_packet complete(const struct peer *peer, const struct peer_packet *packet)
{
	struct peer_packet p = *packet;

	p.va += (uintptr_t)peer->memory;
	if (!p.rkey)
		p.rkey = peer->mr->ibv.rkey;
	return p;
}

static void send_next(struct peer *peer, const struct peer_packet *packet)
{
	struct peer_packet p = complete(peer, packet);

	p.psn = peer->psn & PSN_MASK;
	peer->psn++;
	peer_send(peer, &p);
}

/* Sends and receives in order, then nothing; and whatever comes now is dropped. */
static void expect_dead(struct peer *peer, uint64_t first_receive, uint64_t receives)
{
	struct peer_packet more = {OP(WIRE_SEND_ONLY), .length = 4};

	for (uint64_t i = first_receive; i < receives; i++)
		world_expect(peer->node, i, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(peer->qp->state, IBV_QPS_ERR);
	send_next(peer, &more);
	peer_see_none(peer, 100000);
	world_expect_none(peer->node, SECOND);
}

START_TEST(bad_message)
{
	const struct row *row = &rows[_i];
	uint8_t before[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	memcpy(peer.memory + 40000, before, sizeof(before));
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(
			world_post_recv(peer.qp, peer.memory + 40000, 2000, peer.mr->ibv.lkey, i),
			0);
	for (int i = 0; i < row->count; i++) {
		struct peer_packet packet = row->packets[i];

		packet.no_ack_request = true;
		send_next(&peer, &packet);
	}
	peer_see_ack(&peer, peer.psn - 1, row->syndrome);
	if (row->status != IBV_WC_SUCCESS)
		world_expect(peer.node, 0, row->status);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_REQ_ERR],
			  row->event == IBV_EVENT_QP_REQ_ERR);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_ACCESS_ERR],
			  row->event == IBV_EVENT_QP_ACCESS_ERR);
	/* IBA 9.7.4.1.5: the first byte isn't written before the whole range is checked. */
	if (row->syndrome == 0x62)
		for (uint32_t i = 0; i < 2000; i++)
			ck_assert_uint_eq(peer.memory[i], 0);
	expect_dead(&peer, row->status != IBV_WC_SUCCESS, 3);
	peer_destroy(&peer);
}
END_TEST

static const struct {
	struct peer_packet packet;
	int needed;
} accesses[] = {
	{{OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4}, IBV_ACCESS_REMOTE_WRITE},
	{{OP(WIRE_READ_REQUEST), .dma_length = 4}, IBV_ACCESS_REMOTE_READ},
	{{OP(WIRE_FETCH_ADD)}, IBV_ACCESS_REMOTE_ATOMIC},
	{{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8}, IBV_ACCESS_REMOTE_WRITE},
	{{OP(WIRE_FLUSH), .feth = 1, .dma_length = 4}, ACCESS_FLUSH_GLOBAL},
	{{OP(WIRE_FLUSH), .feth = 0x11}, ACCESS_FLUSH_GLOBAL},
	{{OP(WIRE_COMPARE_SWAP)}, IBV_ACCESS_REMOTE_ATOMIC},
	{{OP(WIRE_WRITE_FIRST), .length = PEER_MTU, .dma_length = 2000}, IBV_ACCESS_REMOTE_WRITE},
};

#define ACCESSES ((int)(sizeof(accesses) / sizeof(accesses[0])))

/* 5: what the QP itself doesn't allow is an invalid request, IBA 9.7.4.1.3. */
START_TEST(qp_access)
{
	struct connection c = world_connection;
	struct peer peer;

	c.access &= ~accesses[_i].needed;
	peer_create(&peer, IBV_QPT_RC, &c);
	send_next(&peer, &accesses[_i].packet);
	peer_see_ack(&peer, peer.psn - 1, 0x61);
	expect_dead(&peer, 0, 0);
	peer_destroy(&peer);
}
END_TEST

/* 10: what the region doesn't allow is an access error. */
START_TEST(region_access)
{
	struct peer_packet packet = accesses[_i / 2].packet;
	int access = world_connection.access;
	bool domain = _i % 2;
	struct pd *other;
	struct mr *mr;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(pd_alloc(peer.node->hca, &other), 0);
	/* The right access in another domain, or the domain with the wrong access. */
	if (!domain)
		access &= ~accesses[_i / 2].needed;
	ck_assert_int_eq(mr_register(domain ? other : peer.node->pd, peer.memory, PEER_MEMORY,
				     (uintptr_t)peer.memory, access, &mr),
			 0);
	packet.rkey = mr->ibv.rkey;
	send_next(&peer, &packet);
	peer_see_ack(&peer, peer.psn - 1, 0x62);
	expect_dead(&peer, 0, 0);
	mr_deregister(mr);
	pd_dealloc(other);
	peer_destroy(&peer);
}
END_TEST

/* 10: no key is checked for nothing. */
START_TEST(zero_length)
{
	struct peer_packet write = {OP(WIRE_WRITE_ONLY), .rkey = BAD_KEY};
	struct peer_packet read = {OP(WIRE_READ_REQUEST), .rkey = BAD_KEY};
	struct packet packet;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_next(&peer, &write);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	send_next(&peer, &read);
	packet = peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	ck_assert_uint_eq(packet.payload_length, 0);
	ck_assert_uint_eq(packet_syndrome(&packet), 0x1f);
	ck_assert_uint_eq(packet_msn(&packet), 2);
	peer_destroy(&peer);
}
END_TEST

/* 6: as many as max_dest_rd_atomic are answered, in order, before the NAK for the next. */
START_TEST(too_many_reads)
{
	static const struct peer_packet next[] = {
		{OP(WIRE_READ_REQUEST), .dma_length = 100},
		{OP(WIRE_FETCH_ADD), .swap_or_add = 1},
		{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8},
	};
	const int reads = _i / LENGTH(next);
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = reads;
	peer_create(&peer, IBV_QPT_RC, &c);
	for (int i = 0; i < reads; i++)
		send_next(&peer, &next[0]);
	send_next(&peer, &next[_i % LENGTH(next)]);
	for (int i = 0; i < reads; i++) {
		struct packet packet = peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
		ck_assert_uint_eq(packet.psn, (c.psn + i) & PSN_MASK);
	}
	peer_see_ack(&peer, peer.psn - 1, 0x61);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_REQ_ERR], 1);
	ck_assert_uint_eq(*(uint64_t *)peer.memory, 0);
	expect_dead(&peer, 0, 0);
	peer_destroy(&peer);
}
END_TEST

/* Annex A19: both are answered by a READ response without payload, and count as a message. */
START_TEST(atomic_write_and_flush)
{
	static const uint8_t value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct peer_packet packets[] = {
		{OP(WIRE_ATOMIC_WRITE), .length = 8, .dma_length = 8, .payload = value, .va = 64},
		{OP(WIRE_FLUSH), .feth = 1, .dma_length = ALL_MEMORY},
		{OP(WIRE_FLUSH), .feth = 1, .va = ALL_MEMORY},
		/* Of a region; reserved bits, address and length mean nothing. */
		{OP(WIRE_FLUSH), .feth = 0xffffffd1, .va = 1 << 30, .dma_length = UINT32_MAX},
	};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		struct packet packet;

		send_next(&peer, &packets[i]);
		packet = peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
		ck_assert_uint_eq(packet.psn, (world_connection.psn + i) & PSN_MASK);
		ck_assert_uint_eq(packet.payload_length, 0);
		ck_assert_uint_eq(packet_syndrome(&packet), 0x1f);
		ck_assert_uint_eq(packet_msn(&packet), i + 1);
	}
	ck_assert_mem_eq(peer.memory + 64, value, 8);
	ck_assert_uint_eq(peer.memory[63], 0);
	ck_assert_uint_eq(peer.memory[72], 0);
	peer_see_none(&peer, 100000);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

static void expect_msn(struct peer *peer, uint8_t syndrome, uint32_t msn)
{
	struct packet packet = peer_see_op(peer, "RC_ACKNOWLEDGE");

	ck_assert_uint_eq(packet_syndrome(&packet), syndrome);
	ck_assert_uint_eq(packet_msn(&packet), msn);
}

/* IBA 9.7.7.1: what is executed counts, once, modulo 2^24; what a NAK is for doesn't. */
START_TEST(message_numbers)
{
	struct peer_packet read = {OP(WIRE_READ_REQUEST), .dma_length = 4};
	struct peer_packet write = {OP(WIRE_WRITE_ONLY), .length = 4, .dma_length = 4};
	struct peer_packet first = WRITE_FIRST(1028);
	struct peer_packet last = {OP(WIRE_WRITE_LAST), .length = 4};
	struct peer_packet send = {OP(WIRE_SEND_ONLY), .length = 4};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer.qp->responder.msn = PSN_MASK;
	send_next(&peer, &read);
	peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
	send_next(&peer, &send);
	expect_msn(&peer, 0x20 | world_connection.min_rnr_timer, 0);
	peer.psn--;
	peer.qp->responder.msn = PSN_MASK - 1;
	send_next(&peer, &write);
	expect_msn(&peer, 0x1f, PSN_MASK);
	send_next(&peer, &first);
	expect_msn(&peer, 0x1f, PSN_MASK);
	send_next(&peer, &last);
	expect_msn(&peer, 0x1f, 0);
	peer.psn--;
	send_next(&peer, &last);
	expect_msn(&peer, 0x1f, 0);
	send_next(&peer, &send);
	expect_msn(&peer, 0x20 | world_connection.min_rnr_timer, 0);
	peer_receive(&peer, 100, 0);
	peer.psn--;
	send_next(&peer, &send);
	expect_msn(&peer, 0x1f, 1);
	peer.psn++;
	send_next(&peer, &write);
	expect_msn(&peer, 0x60, 1);
	peer.psn -= 2;
	send_next(&peer, &last);
	expect_msn(&peer, 0x61, 1);
	peer_destroy(&peer);
}
END_TEST

/*
 * 6: Linux rxe doesn't count FLUSHes against max_rd_atomic: those that come while earlier ones
 * are to be answered aren't an error, but have to come again.
 */
START_TEST(too_many_flushes)
{
	struct peer_packet flush = {OP(WIRE_FLUSH), .feth = 1, .dma_length = 8};
	struct connection c = world_connection;
	struct packet packet;
	struct peer peer;

	c.rd_atomic = 2;
	peer_create(&peer, IBV_QPT_RC, &c);
	for (int i = 0; i < 5; i++)
		send_next(&peer, &flush);
	for (uint32_t done = 0; done < 5; done += 2) {
		for (uint32_t i = done; i < done + 2 && i < 5; i++) {
			packet = peer_see_op(&peer, "RC_RDMA_READ_RESPONSE_ONLY");
			ck_assert_uint_eq(packet.psn, (c.psn + i) & PSN_MASK);
			ck_assert_uint_eq(packet_msn(&packet), i + 1);
		}
		if (done + 2 >= 5)
			break;
		peer_see_ack(&peer, c.psn + done + 2, 0x60);
		peer.psn = c.psn + done + 3;
		send_next(&peer, &flush); /* IBA 9.7.5.2.3: one NAK, whatever comes behind it */
		peer_see_none(&peer, 10000);
		peer.psn = c.psn + done + 2;
		for (uint32_t i = done + 2; i < 5; i++)
			send_next(&peer, &flush);
	}
	peer_see_none(&peer, 100000);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

/* 6: without resources there is none of the kind. */
START_TEST(no_resources)
{
	struct connection c = world_connection;
	struct peer peer;

	c.rd_atomic = 0;
	peer_create(&peer, IBV_QPT_RC, &c);
	send_next(&peer, &accesses[_i].packet);
	peer_see_ack(&peer, peer.psn - 1, 0x61);
	expect_dead(&peer, 0, 0);
	peer_destroy(&peer);
}
END_TEST

/* 7: no receive. ePSN doesn't move, nothing breaks, what follows is dropped in silence. */
START_TEST(no_receive)
{
	struct peer_packet send = {OP(WIRE_SEND_ONLY), .length = 4};
	struct connection c = world_connection;
	struct peer peer;
	struct ibv_wc wc;

	c.min_rnr_timer = 7;
	peer_create(&peer, IBV_QPT_RC, &c);
	send_next(&peer, &send);
	send_next(&peer, &send);
	peer_see_ack(&peer, c.psn, 0x27);
	peer_see_none(&peer, 100000);
	peer_receive(&peer, 100, 0);
	peer_receive(&peer, 100, 1);
	peer.psn = c.psn;
	send_next(&peer, &send);
	send_next(&peer, &send);
	peer_see_ack(&peer, c.psn + 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	wc = world_completion(peer.node, SECOND);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_uint_eq(wc.byte_len, 4);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	peer_destroy(&peer);
}
END_TEST

/* 7: a WRITE with immediate needs its receive at the last packet, for which alone it is refused. */
START_TEST(no_receive_for_immediate)
{
	struct peer_packet first = WRITE_FIRST(1030);
	struct peer_packet last = {OP(WIRE_WRITE_LAST_IMM), .length = 6, .immediate = 0x12345678};
	struct peer peer;
	struct ibv_wc wc;

	peer_create(&peer, IBV_QPT_RC, NULL);
	send_next(&peer, &first);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	send_next(&peer, &last);
	peer_see_ack(&peer, peer.psn - 1, 0x20 | world_connection.min_rnr_timer);
	peer_receive(&peer, 0, 5); /* its SGEs aren't touched: it needs none */
	peer.psn--;
	send_next(&peer, &last);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	wc = world_completion(peer.node, SECOND);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	ck_assert_uint_eq(wc.wr_id, 5);
	ck_assert_uint_eq(wc.byte_len, 1030);
	ck_assert_uint_eq(be32toh(wc.imm_data), 0x12345678);
	ck_assert_uint_eq(peer.memory[1029], 5);
	peer_destroy(&peer);
}
END_TEST

/* 14: an SGE of the receive that is no good. */
START_TEST(bad_receive)
{
	struct peer_packet send = {OP(WIRE_SEND_ONLY), .length = 100};
	struct pd *other;
	struct mr *foreign, *fixed;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(pd_alloc(peer.node->hca, &other), 0);
	ck_assert_int_eq(mr_register(other, peer.memory, 1000, (uintptr_t)peer.memory,
				     IBV_ACCESS_LOCAL_WRITE, &foreign),
			 0);
	fixed = world_mr(peer.node, peer.memory, 1000, IBV_ACCESS_REMOTE_READ);
	uint32_t lkey[] = {BAD_KEY, foreign->ibv.lkey, fixed->ibv.lkey, peer.mr->ibv.lkey};

	ck_assert_int_eq(world_post_recv(peer.qp, peer.memory + (_i == 3 ? PEER_MEMORY - 50 : 0),
					 200, lkey[_i], 0),
			 0);
	peer_receive(&peer, 100, 1);
	send_next(&peer, &send);
	peer_see_ack(&peer, peer.psn - 1, 0x63);
	world_expect(peer.node, 0, IBV_WC_LOC_PROT_ERR);
	expect_dead(&peer, 1, 2);
	mr_deregister(fixed);
	mr_deregister(foreign);
	pd_dealloc(other);
	peer_destroy(&peer);
}
END_TEST

/*
 * 16: a completion that finds no room is lost, and so the message isn't acknowledged: be it (1) the
 * one that was kept while a packet was missing, or (2) that packet's.
 */
START_TEST(cq_overrun)
{
	struct peer_packet send = {OP(WIRE_SEND_ONLY), .length = 4};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	ck_assert_int_eq(cq_resize(peer.node->cq, 2), 0);
	for (uint64_t i = 0; i < 4; i++) {
		peer_receive(&peer, 100, i);
		if (i < (_i == 1 ? 1 : 2)) {
			send_next(&peer, &send);
			peer_see_ack(&peer, peer.psn - 1, 0x1f);
		}
	}
	if (_i) {
		peer.psn++;
		send_next(&peer, &send);
		peer.psn -= 2;
		peer_see_ack(&peer, peer.psn, 0x60);
	}
	send_next(&peer, &send);
	if (_i == 1)
		peer_see_ack(&peer, peer.psn - 1, 0x1f);
	peer_see_none(&peer, 100000);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_CQ_ERR], 1);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_FATAL], 1);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.7.4.1.2: neither executed nor dropped, whatever comes behind the BTH. */
START_TEST(reserved_opcode)
{
	static const uint8_t reserved[] = {0x15, 0x18, 0x1b, 0x1e, 0x1f};
	struct peer_packet packet = {.opcode = reserved[_i], .length = 8};
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_receive(&peer, 100, 0);
	send_next(&peer, &packet);
	peer_see_ack(&peer, peer.psn - 1, 0x61);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_ERR);
	world_expect(peer.node, 0, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_QP_REQ_ERR], 1);
	peer_destroy(&peer);
}
END_TEST

/* IBA 9.6.1: silently dropped, and nothing has happened. */
START_TEST(dropped)
{
	static const struct peer_packet packets[] = {
		{OP(WIRE_SEND_ONLY), .length = 4, .bad_icrc = true},
		{OP(WIRE_SEND_ONLY), .length = 4, .version = 1},
		{OP(WIRE_SEND_ONLY), .length = 4, .qpn = 0xfffff0},
		{OP(WIRE_SEND_ONLY), .length = 4, .pkey = 0x8001},
		{OP(WIRE_SEND_ONLY), .length = 4, .pkey = 0},
		{.opcode = WIRE_UC | WIRE_SEND_ONLY, .length = 4},
		{.opcode = WIRE_UD | WIRE_SEND_ONLY, .length = 4, .qkey = 0x11111111},
		{.opcode = WIRE_UC | 0x15, .length = 4},
		{.opcode = WIRE_XRC | WIRE_SEND_ONLY, .length = 4},
		{OP(WIRE_SEND_ONLY), .length = 4},
	};
	const bool strange_source = _i == 4; /* a limited P_Key is still one */
	const bool strange_destination = _i == 9;
	struct peer_packet packet = packets[_i], good = {OP(WIRE_SEND_ONLY), .length = 4};
	struct peer peer;
	struct path path;

	peer_create(&peer, IBV_QPT_RC, NULL);
	peer_receive(&peer, 100, 0);
	path = peer.path;
	if (strange_source) {
		path.source.raw[15]++;
		packet.path = &path;
	} else if (strange_destination) {
		world_add_address(peer.node, 1);
		path.destination = peer.node->gids.entries[1].gid;
		packet.path = &path;
	}
	send_next(&peer, &packet);
	peer_see_none(&peer, 100000);
	world_expect_none(peer.node, MS);
	ck_assert_int_eq(peer.qp->state, IBV_QPS_RTS);
	ck_assert_uint_eq(peer.node->hca->counters->bad_pkey, packet.pkey == 0x8001);
	ck_assert_uint_eq(peer.node->hca->counters->icrc_errors, packet.bad_icrc);
	ck_assert_uint_eq(peer.node->hca->counters->malformed_packets,
			  packet.version || packet.opcode == (WIRE_UC | 0x15));
	peer.psn--;
	good.pkey = 0x7fff; /* a limited member, and we are a full one: IBA 10.9.3 */
	send_next(&peer, &good);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

static enum link_sender sender;

static enum link_sender told_sender(struct link *link, const struct link_frame *frame)
{
	return sender;
}

/* Its link says of all senders what @sender is; @ops has to last. */
static void judge_senders(struct peer *peer, struct link_ops *ops)
{
	*ops = *peer->node->hca->link->ops;
	ops->sender = told_sender;
	peer->node->hca->link->ops = ops;
}

/* What another user sends from the peer's address is dropped: requests and responses. */
START_TEST(forged)
{
	struct peer_packet packets[] = {{OP(WIRE_SEND_ONLY), .length = 4},
					{OP(WIRE_ACKNOWLEDGE), .syndrome = 0x1f, .msn = 1}};
	struct link_ops ops;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	judge_senders(&peer, &ops);
	peer_receive(&peer, 100, 0);
	peer_post(&peer, IBV_WR_SEND, 4, 1);
	packets[1].psn = peer_see_op(&peer, "RC_SEND_ONLY").psn;

	sender = LINK_SENDER_FOREIGN;
	send_next(&peer, &packets[0]);
	peer_send(&peer, &packets[1]);
	peer_see_none(&peer, 100000);
	world_expect_none(peer.node, 0);
	ck_assert_uint_eq(peer.node->hca->counters->dropped_packets, 2);

	sender = LINK_SENDER_NODE;
	peer.psn--;
	peer_send(&peer, &packets[1]);
	send_next(&peer, &packets[0]);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	world_expect(peer.node, 1, IBV_WC_SUCCESS);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* The next connection's peer may have another port, whose process is gone already. */
START_TEST(another_port)
{
	struct peer_packet send = {OP(WIRE_SEND_ONLY), .length = 4};
	struct link_ops ops;
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	judge_senders(&peer, &ops);
	sender = LINK_SENDER_GONE;
	peer.qp->source_port.port = 1;
	peer_receive(&peer, 100, 0);
	send_next(&peer, &send);
	peer_see_none(&peer, 100000);

	world_modify_state(peer.qp, IBV_QPS_RESET);
	peer_connect(&peer, &world_connection);
	peer_receive(&peer, 100, 0);
	peer.psn--;
	send_next(&peer, &send);
	peer_see_ack(&peer, peer.psn - 1, 0x1f);
	world_expect(peer.node, 0, IBV_WC_SUCCESS);
	peer_destroy(&peer);
}
END_TEST

/* IBA 10.3.1: INIT and RESET drop requests; RTR takes them, and says so with the first. */
START_TEST(by_state)
{
	static const enum ibv_qp_state tested[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_ERR};
	struct peer_packet send = {OP(WIRE_SEND_ONLY), .length = 4};
	enum ibv_qp_state state = tested[_i];
	struct peer peer;

	peer_create(&peer, IBV_QPT_RC, NULL);
	world_modify_state(peer.qp, state == IBV_QPS_ERR ? state : IBV_QPS_RESET);
	if (state == IBV_QPS_INIT || state == IBV_QPS_RTR)
		world_modify_init(peer.qp, &world_connection);
	if (state == IBV_QPS_RTR)
		world_modify_rtr_to(peer.qp, &peer.path.source, PEER_QPN, &world_connection);
	if (state == IBV_QPS_INIT || state == IBV_QPS_RTR)
		for (uint64_t i = 0; i < 3; i++)
			peer_receive(&peer, 100, i);
	for (uint64_t i = 0; i < 2; i++) {
		send_next(&peer, &send);
		if (state != IBV_QPS_RTR) {
			peer_see_none(&peer, 100000);
			continue;
		}
		peer_see_ack(&peer, peer.psn - 1, 0x1f);
		world_expect(peer.node, i, IBV_WC_SUCCESS);
		ck_assert_uint_eq(peer.node->events[IBV_EVENT_COMM_EST], 1);
	}
	ck_assert_uint_eq(peer.node->events[IBV_EVENT_COMM_EST], state == IBV_QPS_RTR);
	ck_assert_int_eq(peer.qp->state, state);
	world_expect_none(peer.node, MS);
	peer_destroy(&peer);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("responder");

	tcase_add_loop_test(tcase, bad_message, 0, LENGTH(rows));
	tcase_add_loop_test(tcase, qp_access, 0, ACCESSES);
	tcase_add_loop_test(tcase, region_access, 0, 2 * ACCESSES);
	tcase_add_test(tcase, zero_length);
	tcase_add_loop_test(tcase, too_many_reads, 0, 15);
	tcase_add_test(tcase, atomic_write_and_flush);
	tcase_add_test(tcase, message_numbers);
	tcase_add_test(tcase, too_many_flushes);
	tcase_add_loop_test(tcase, no_resources, 1, 7); /* all of accesses[] but WRITEs */
	tcase_add_test(tcase, no_receive);
	tcase_add_test(tcase, no_receive_for_immediate);
	tcase_add_loop_test(tcase, bad_receive, 0, 4);
	tcase_add_loop_test(tcase, cq_overrun, 0, 3);
	tcase_add_loop_test(tcase, reserved_opcode, 0, 5);
	tcase_add_loop_test(tcase, dropped, 0, 10);
	tcase_add_test(tcase, forged);
	tcase_add_test(tcase, another_port);
	tcase_add_loop_test(tcase, by_state, 0, 4);
	return world_main("responder", (TCase *const[]){tcase, NULL});
}
