/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All to all: each member has a connected QP to every member, itself too, and
 * does to each what the plan says, at once. Every byte that arrives is verified,
 * every completion counted. Then a datagram from each to each.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "multi_process.h"

/* The lengths take a packet and more; the contents depend on sender, receiver and step. */
static const struct step {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode completion;
	uint32_t length;
	bool received; /* takes a receive, with data or without */
} plan[] = {
	{IBV_WR_SEND, IBV_WC_SEND, 1, true},
	{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 8, false},
	{IBV_WR_SEND, IBV_WC_SEND, 700, true},
	{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 2000, false},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 8, false},
	{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, 2500, false},
	{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, 100, true},
	{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 8, false},
	{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, 3000, true},
};

#define STEPS (sizeof(plan) / sizeof(*plan))
#define RECEIVES 4
#define PART 9216 /* of the memory, for one peer: all lengths, each on a boundary of 64 */
#define DATAGRAM 200
#define GRH 40
#define DATAGRAM_SLOTS (4 * MULTI_PROCESS_MAX)

/* What a work request's id tells. */
enum work { WORK_SEND, WORK_RECEIVE, WORK_DATAGRAM, WORK_DATAGRAM_RECEIVE };

static uint64_t work_id(enum work work, uint32_t peer, uint32_t index)
{
	return (uint64_t)work << 32 | peer << 16 | index;
}

struct all {
	struct member member;
	struct ibv_qp *qps[MULTI_PROCESS_MAX], *ud;
	struct ibv_ah *ahs[MULTI_PROCESS_MAX];
	struct ibv_mr *mr;
	uint8_t *in, *out; /* a part for each peer */
	uint8_t *datagrams;
	uint64_t *sum; /* all peers add to it */
	unsigned int sent[MULTI_PROCESS_MAX][STEPS], received[MULTI_PROCESS_MAX];
	unsigned int datagrams_sent, datagrams_completed, peers;
};

static bool is_atomic(const struct step *step)
{
	return step->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       step->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static size_t offset(unsigned int step)
{
	size_t offset = 0;

	while (step--)
		offset += (plan[step].length + 63) & ~63u;
	return offset;
}

static uint8_t *in_slot(struct all *all, unsigned int peer, unsigned int step)
{
	return all->in + peer * PART + offset(step);
}

static uint8_t *out_slot(struct all *all, unsigned int peer, unsigned int step)
{
	return all->out + peer * PART + offset(step);
}

/* Different for every message there is. */
static uint64_t content(unsigned int from, unsigned int to, unsigned int step, unsigned int round)
{
	return ((uint64_t)round << 24 | from << 16 | to << 8 | step) + 1;
}

/* The step of the @index-th message that takes a receive. */
static unsigned int step_received(unsigned int index)
{
	for (unsigned int i = 0; i < STEPS; i++)
		if (plan[i].received && index-- == 0)
			return i;
	abort();
}

static bool reaches(struct all *all, unsigned int peer)
{
	return member_family(all->member.board, all->member.id, peer) != FAMILIES;
}

static void for_peers(struct all *all, unsigned int round,
		      void (*what)(struct all *all, unsigned int peer, unsigned int round))
{
	for (unsigned int i = 0; i < all->member.board->count; i++)
		if (reaches(all, i))
			what(all, i, round);
}

/* Wait until all members are here; when one fails, the leader ends the rest. */
static void meet(struct all *all)
{
	pthread_barrier_wait(&all->member.board->barrier);
}

/* --- connections ----------------------------------------------------------------------- */

static void open_all(struct all *all, struct board *board, unsigned int id)
{
	size_t part = board->count * PART, size = 2 * part + DATAGRAM_SLOTS * (DATAGRAM + GRH) + 64;

	member_open(&all->member, board, id, 1, 32767);
	CHECK(offset(STEPS) <= PART);
	all->in = aligned_alloc(4096, (size + 4095) & ~4095ul);
	CHECK(all->in);
	memset(all->in, 0, size);
	all->out = all->in + part;
	all->datagrams = all->out + part;
	all->sum = (uint64_t *)(all->datagrams + DATAGRAM_SLOTS * (DATAGRAM + GRH));
	all->mr = ibv_reg_mr(all->member.pd, all->in, size,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(all->mr);
	all->ud = member_create_qp(&all->member, IBV_QPT_UD, MULTI_PROCESS_MAX, DATAGRAM_SLOTS);
	member_init_qp(&all->member, all->ud);
	all->member.self->ud_qpn = all->ud->qp_num;
}

static void create(struct all *all, unsigned int peer, unsigned int round)
{
	struct board_link *link = &all->member.self->links[peer];

	all->qps[peer] = member_create_qp(&all->member, IBV_QPT_RC, STEPS, RECEIVES);
	member_init_qp(&all->member, all->qps[peer]);
	link->qpn = all->qps[peer]->qp_num;
	link->rkey = all->mr->rkey;
	link->address = (uintptr_t)all->in;
	all->peers++;
}

static void connect_to(struct all *all, unsigned int peer, unsigned int round)
{
	struct board *board = all->member.board;
	enum family family = member_family(board, all->member.id, peer);
	const struct board_member *other = &board->members[peer];

	member_connect(&all->member, all->qps[peer], family, &other->gids[family],
		       other->links[all->member.id].qpn);
	all->ahs[peer] = member_create_ah(&all->member, family, &other->gids[family]);
}

static void destroy(struct all *all, unsigned int peer, unsigned int round)
{
	CHECK_EQUAL(ibv_destroy_qp(all->qps[peer]), 0);
	CHECK_EQUAL(ibv_destroy_ah(all->ahs[peer]), 0);
}

static void close_all(struct all *all)
{
	for_peers(all, 0, destroy);
	CHECK_EQUAL(ibv_destroy_qp(all->ud), 0);
	CHECK_EQUAL(ibv_dereg_mr(all->mr), 0);
	member_close(&all->member);
	free(all->in);
}

/* --- a round ------------------------------------------------------------------------------ */

static void prepare(struct all *all, unsigned int peer, unsigned int round)
{
	unsigned int me = all->member.id;

	for (unsigned int i = 0; i < STEPS; i++) {
		bool read = plan[i].opcode == IBV_WR_RDMA_READ || is_atomic(&plan[i]);

		/* What is read is the target's; what is written is the sender's. */
		pattern_fill(in_slot(all, peer, i), plan[i].length,
			     read ? content(me, peer, i, round) : 0);
		pattern_fill(out_slot(all, peer, i), plan[i].length,
			     read ? 0 : content(me, peer, i, round));
	}
	memset(all->sent[peer], 0, sizeof(all->sent[peer]));
	all->received[peer] = 0;
	for (unsigned int i = 0; i < RECEIVES; i++) {
		unsigned int step = step_received(i);
		struct ibv_sge sge = {(uintptr_t)in_slot(all, peer, step), plan[step].length,
				      all->mr->lkey};
		struct ibv_recv_wr *bad, wr = {.wr_id = work_id(WORK_RECEIVE, peer, i),
					       .sg_list = &sge,
					       .num_sge = 1};

		CHECK_EQUAL(ibv_post_recv(all->qps[peer], &wr, &bad), 0);
	}
}

static uint64_t word_before(unsigned int from, unsigned int to, unsigned int step,
			    unsigned int round)
{
	uint64_t word;

	pattern_fill((uint8_t *)&word, sizeof(word), content(from, to, step, round));
	return word;
}

static void post_step(struct all *all, unsigned int peer, unsigned int index, unsigned int round)
{
	const struct board_link *link = &all->member.board->members[peer].links[all->member.id];
	const struct step *step = &plan[index];
	struct ibv_sge sge = {(uintptr_t)out_slot(all, peer, index), step->length, all->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = work_id(WORK_SEND, peer, index),
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = step->opcode,
			.imm_data = htonl(content(all->member.id, peer, index, round)),
		};
	uint64_t target = link->address + all->member.id * PART + offset(index);

	if (!is_atomic(step)) {
		wr.wr.rdma.remote_addr = target;
		wr.wr.rdma.rkey = link->rkey;
	} else {
		bool add = step->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
		uint64_t sum = link->address + ((uint8_t *)all->sum - all->in);

		wr.wr.atomic.remote_addr = add ? sum : target;
		wr.wr.atomic.rkey = link->rkey;
		wr.wr.atomic.compare_add =
			add ? all->member.id + 1 : word_before(peer, all->member.id, index, round);
		wr.wr.atomic.swap = content(all->member.id, peer, index, round);
	}
	CHECK_EQUAL(ibv_post_send(all->qps[peer], &wr, &bad), 0);
}

static void post(struct all *all, unsigned int peer, unsigned int round)
{
	for (unsigned int i = 0; i < STEPS; i++)
		post_step(all, peer, i, round);
}

static void check_sent(struct all *all, const struct ibv_wc *wc, unsigned int peer,
		       unsigned int index, unsigned int round)
{
	const uint8_t *landed = out_slot(all, peer, index);
	uint64_t word;

	CHECK_EQUAL(wc->opcode, plan[index].completion);
	CHECK_EQUAL(all->sent[peer][index]++, 0);
	CHECK(index == 0 || all->sent[peer][index - 1] == 1);
	if (plan[index].opcode == IBV_WR_RDMA_READ)
		CHECK(pattern_matches(landed, plan[index].length,
				      content(peer, all->member.id, index, round)));
	if (plan[index].opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		memcpy(&word, landed, sizeof(word));
		CHECK_EQUAL(word, word_before(peer, all->member.id, index, round));
	}
}

static void check_received(struct all *all, const struct ibv_wc *wc, unsigned int peer,
			   unsigned int index, unsigned int round)
{
	unsigned int step = step_received(index);
	uint64_t expected = content(peer, all->member.id, step, round);
	bool written = plan[step].opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	CHECK_EQUAL(wc->opcode, written ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	CHECK_EQUAL(all->received[peer]++, index);
	CHECK_EQUAL(wc->byte_len, plan[step].length);
	CHECK(pattern_matches(in_slot(all, peer, step), plan[step].length, expected));
	if (plan[step].opcode != IBV_WR_SEND)
		CHECK_EQUAL(ntohl(wc->imm_data), (uint32_t)expected);
}

static void check_completion(struct all *all, const struct ibv_wc *wc, unsigned int round)
{
	unsigned int peer = wc->wr_id >> 16 & 0xffff, index = wc->wr_id & 0xffff;
	enum work work = wc->wr_id >> 32;

	if (wc->status != IBV_WC_SUCCESS)
		pair_fail(__FILE__, __LINE__, "member %u, peer %u, %s %u: %s", all->member.id, peer,
			  work == WORK_SEND ? "step" : "receive", index,
			  ibv_wc_status_str(wc->status));
	CHECK_EQUAL(wc->qp_num, all->qps[peer]->qp_num);
	if (work == WORK_SEND)
		check_sent(all, wc, peer, index, round);
	else
		check_received(all, wc, peer, index, round);
}

/* What the WRITEs and atomics of peers did to the memory, without a completion here. */
static void check_memory(struct all *all, unsigned int peer, unsigned int round)
{
	for (unsigned int i = 0; i < STEPS; i++) {
		uint64_t expected = content(peer, all->member.id, i, round), word;

		if (plan[i].opcode == IBV_WR_RDMA_WRITE) {
			CHECK(pattern_matches(in_slot(all, peer, i), plan[i].length, expected));
		} else if (plan[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
			memcpy(&word, in_slot(all, peer, i), sizeof(word));
			CHECK_EQUAL(word, expected);
		}
	}
}

static uint64_t expected_sum(struct all *all)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < all->member.board->count; i++)
		sum += reaches(all, i) ? i + 1 : 0;
	return sum;
}

static void one_round(struct all *all, unsigned int round)
{
	unsigned int expected = all->peers * (STEPS + RECEIVES), completed = 0;
	struct ibv_wc wc[32];

	*all->sum = 0;
	for_peers(all, round, prepare);
	meet(all);
	for_peers(all, round, post);
	while (completed < expected) {
		int n = member_poll(&all->member, wc, 32);

		for (int i = 0; i < n; i++)
			check_completion(all, &wc[i], round);
		completed += n;
	}
	meet(all);
	CHECK_EQUAL(ibv_poll_cq(all->member.cq, 1, wc), 0);
	for_peers(all, round, check_memory);
	CHECK_EQUAL(*all->sum, expected_sum(all));
	atomic_fetch_add(&all->member.board->total, completed);
	meet(all);
}

/* --- datagrams ---------------------------------------------------------------------------- */

static void post_datagram_receive(struct all *all, unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)all->datagrams + slot * (DATAGRAM + GRH), DATAGRAM + GRH,
			      all->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = work_id(WORK_DATAGRAM_RECEIVE, 0, slot),
				       .sg_list = &sge,
				       .num_sge = 1};

	CHECK_EQUAL(ibv_post_recv(all->ud, &wr, &bad), 0);
}

static void send_datagram(struct all *all, unsigned int peer, unsigned int round)
{
	struct ibv_sge sge = {(uintptr_t)out_slot(all, peer, 0), DATAGRAM, all->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .wr_id = work_id(WORK_DATAGRAM, peer, 0),
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .imm_data = htonl(all->member.id << 8 | peer),
				 };

	if (atomic_load(&all->member.board->members[peer].datagrams[all->member.id]))
		return;
	pattern_fill(out_slot(all, peer, 0), DATAGRAM, content(all->member.id, peer, STEPS, 0));
	wr.wr.ud.ah = all->ahs[peer];
	wr.wr.ud.remote_qpn = all->member.board->members[peer].ud_qpn;
	wr.wr.ud.remote_qkey = MULTI_PROCESS_QKEY;
	CHECK_EQUAL(ibv_post_send(all->ud, &wr, &bad), 0);
	atomic_fetch_add(&all->member.self->links[peer].turns, 1);
	all->datagrams_sent++;
}

static void check_datagram(struct all *all, const struct ibv_wc *wc)
{
	unsigned int slot = wc->wr_id & 0xffff, from = ntohl(wc->imm_data) >> 8;

	CHECK_EQUAL(wc->status, IBV_WC_SUCCESS);
	if (wc->wr_id >> 32 == WORK_DATAGRAM) {
		all->datagrams_completed++;
		return;
	}
	CHECK_EQUAL(wc->opcode, IBV_WC_RECV);
	CHECK_EQUAL(wc->byte_len, DATAGRAM + GRH);
	CHECK_EQUAL(ntohl(wc->imm_data) & 0xff, all->member.id);
	CHECK(from < all->member.board->count);
	CHECK_EQUAL(wc->src_qp, all->member.board->members[from].ud_qpn);
	CHECK(pattern_matches(all->datagrams + slot * (DATAGRAM + GRH) + GRH, DATAGRAM,
			      content(from, all->member.id, STEPS, 0)));
	atomic_fetch_add(&all->member.self->datagrams[from], 1);
	post_datagram_receive(all, slot);
}

static unsigned int datagrams_received(struct all *all)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < all->member.board->count; i++)
		count += atomic_load(&all->member.self->datagrams[i]) > 0;
	return count;
}

static bool all_arrived(struct all *all)
{
	struct board *board = all->member.board;

	for (unsigned int i = 0; i < board->count; i++)
		if (reaches(all, i) && !atomic_load(&board->members[i].datagrams[all->member.id]))
			return false;
	return true;
}

static void check_datagram_count(struct all *all, unsigned int peer, unsigned int round)
{
	const struct board_member *other = &all->member.board->members[peer];

	CHECK(all->member.board->lossy || atomic_load(&all->member.self->datagrams[peer]) <=
						  atomic_load(&other->links[all->member.id].turns));
}

/* A datagram may be lost where many meet: then it is sent again. */
static void exchange_datagrams(struct all *all)
{
	unsigned int idle = 0;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < DATAGRAM_SLOTS; i++)
		post_datagram_receive(all, i);
	meet(all);
	while (!all_arrived(all) || datagrams_received(all) < all->peers ||
	       all->datagrams_completed < all->datagrams_sent) {
		if (all->datagrams_completed == all->datagrams_sent && idle++ % 200 == 0) {
			for_peers(all, 0, send_datagram);
		}
		if (member_poll(&all->member, &wc, 1))
			check_datagram(all, &wc);
	}
	atomic_fetch_add(&all->member.board->members[0].links[0].sent,
			 all->datagrams_sent - all->peers);
	meet(all);
	while (ibv_poll_cq(all->member.cq, 1, &wc))
		check_datagram(all, &wc);
	for_peers(all, 0, check_datagram_count);
}

/* --- roles ---------------------------------------------------------------------------------- */

static void all_member(struct board *board, unsigned int id, uint32_t incarnation)
{
	static struct all all;

	open_all(&all, board, id);
	meet(&all);
	for_peers(&all, 0, create);
	meet(&all);
	for_peers(&all, 0, connect_to);
	meet(&all);
	for (unsigned int round = 0; round < board->rounds; round++)
		one_round(&all, round);
	exchange_datagrams(&all);
	meet(&all);
	close_all(&all);
}

static void all_lead(struct multi_process *processes)
{
	for (unsigned int i = 0; i < processes->board->count; i++)
		multi_process_start(processes, i, 1);
	multi_process_reap_all(processes);
	printf("%u members, %llu completions, %llu datagrams sent again\n", processes->board->count,
	       (unsigned long long)atomic_load(&processes->board->total),
	       (unsigned long long)atomic_load(&processes->board->members[0].links[0].sent));
	multi_process_newcomer(processes);
}

const struct multi_process_kind multi_process_all_to_all = {"all-to-all", all_member, all_lead};
