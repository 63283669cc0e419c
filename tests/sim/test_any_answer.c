/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes of requests doesn't depend on the order in which their answers come, nor on how often
 * each does. The peer is a responder by the book, which answers a random list of requests, and may
 * refuse one; the network between loses, repeats and reorders what both send. All requests before
 * the refused one complete with success and their data, in order; that one with the NAK's status;
 * the others are flushed.
 *
 * The number of the iteration is the seed; URXE_TEST_SEEDS=FIRST-LAST in the environment runs
 * others than the ones that are run always.
 */
#include <stdlib.h>

#include "emu/transport/placement.h"
#include "net/newer_verbs.h"
#include "net/random.h"
#include "peer.h"
#include "tests/sanitizers.h"
#include "tests/seeds.h"

enum { REQUESTS = 16, PACKETS = 12, MTU = 256, SLOT = PACKETS * MTU, PSNS = REQUESTS * PACKETS };
enum { PENDING = 4096, REMOTE = 0x1000, RKEY = 0x42, SRQN = 0x777 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct planned {
	enum ibv_wr_opcode opcode;
	uint32_t length, first_psn, psns;
	bool responds, fenced;
	uint64_t original; /* atomics */
};

/* How a request is refused; with @rnr_retry, which is unlimited else. */
static const struct refusal {
	uint8_t syndrome, rnr_retry;
	enum ibv_wc_status status;
} refusals[] = {
	{AETH_NAK_INVALID_REQUEST, 7, IBV_WC_REM_INV_REQ_ERR},
	{AETH_NAK_REMOTE_ACCESS, 7, IBV_WC_REM_ACCESS_ERR},
	{AETH_NAK_REMOTE_OPERATION, 7, IBV_WC_REM_OP_ERR},
	{AETH_RNR_NAK | 5, 0, IBV_WC_RNR_RETRY_EXC_ERR},
};

struct answer {
	struct peer_packet packet;
	uint32_t psn;
	uint8_t data[MTU];
	bool done;
};

struct run {
	uint64_t random;
	enum ibv_qp_type type;
	struct peer peer;
	struct planned requests[REQUESTS];
	uint32_t first_psn, psns;

	double loss, repetition;
	bool reorders, keeps, drains,
		restarts_first; /* a repeated answer to a READ begins with FIRST */

	/* The responder. */
	uint32_t expected;
	bool nak_sent, refused;
	uint32_t refuses; /* the PSN; PSNS: none */
	const struct refusal *refusal;
	uint32_t not_ready; /* the number of the request */
	uint32_t not_ready_times;
	bool kept[PSNS], told[PSNS]; /* told: the answer has been on the wire */
	struct answer *pending;
	uint32_t pending_count;
};

static uint32_t below(struct run *run, uint32_t bound)
{
	return random_below(&run->random, bound);
}

static bool hit(struct run *run, double probability)
{
	return random_hit(&run->random, probability);
}

static uint8_t pattern(uint32_t request, uint32_t offset)
{
	return request * 37 + offset * 5 + (offset >> 8);
}

/* --- what is posted ----------------------------------------------------------------------- */

static void draw_request(struct run *run, uint32_t r, uint64_t *counter)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND,
						     IBV_WR_SEND_WITH_IMM,
						     IBV_WR_SEND_WITH_INV,
						     IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM,
						     IBV_WR_RDMA_READ,
						     IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_CMP_AND_SWP,
						     IBV_WR_ATOMIC_WRITE,
						     WR_FLUSH};
	struct planned *request = &run->requests[r];

	*request = (struct planned){
		.opcode = opcodes[below(run, LENGTH(opcodes))],
		.length = below(run, 6) ? below(run, (below(run, 2) ? 3 * MTU : SLOT) + 1) : 0,
		.fenced = below(run, 8) == 0,
		.first_psn = run->psns,
	};
	switch (request->opcode) {
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		request->original = *counter;
		*counter += 3;
		/* fall through */
	case IBV_WR_ATOMIC_WRITE:
		request->length = 8;
		request->responds = true;
		break;
	case IBV_WR_RDMA_READ:
		request->responds = true;
		break;
	default:
		request->responds = request->opcode == WR_FLUSH;
		if (request->responds)
			request->length = 0;
	}
	request->psns = request->length ? (request->length + MTU - 1) / MTU : 1;
	run->psns += request->psns;
}

static uint8_t *local(const struct run *run, uint32_t r)
{
	return run->peer.memory + r * SLOT;
}

static void post(struct run *run, uint32_t r)
{
	const struct planned *request = &run->requests[r];
	struct ibv_sge sge = {(uintptr_t)local(run, r), request->length, run->peer.mr->ibv.lkey};
	struct flush_wr flush = {.flush = {.length = 8, .placement = FLUSH_GLOBAL}};
	struct ibv_send_wr *wr = &flush.wr;

	for (uint32_t i = 0; i < request->length; i++)
		local(run, r)[i] = request->responds && request->opcode != IBV_WR_ATOMIC_WRITE
					   ? 0xee
					   : pattern(r, i);
	*wr = (struct ibv_send_wr){
		.wr_id = r,
		.opcode = request->opcode,
		.sg_list = &sge,
		.num_sge = request->length ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED | (request->fenced ? IBV_SEND_FENCE : 0),
		.imm_data = htobe32(r + 1000),
		.qp_type.xrc.remote_srqn = SRQN,
	};
	if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.atomic.remote_addr = REMOTE;
		wr->wr.atomic.rkey = RKEY;
		wr->wr.atomic.compare_add = r;
	} else {
		wr->wr.rdma.remote_addr = REMOTE + r * SLOT;
		wr->wr.rdma.rkey = RKEY;
	}
	if (request->opcode == WR_FLUSH)
		must(world_post_flush(run->peer.qp, &flush) == 0);
	else
		must(world_post_send(run->peer.qp, wr) == 0);
}

/* --- the responder ------------------------------------------------------------------------ */

static struct answer *add_answer(struct run *run, uint8_t operation, uint32_t psn, uint8_t syndrome)
{
	struct answer *answer = &run->pending[run->pending_count++];
	uint8_t transport = run->type == IBV_QPT_RC ? WIRE_RC : WIRE_XRC;

	must(run->pending_count < PENDING);
	*answer = (struct answer){
		.psn = psn,
		.packet = {.opcode = transport | operation,
			   .psn = psn_add(run->first_psn, psn),
			   .no_ack_request = true,
			   .syndrome = syndrome},
	};
	return answer;
}

static void acknowledge(struct run *run)
{
	add_answer(run, WIRE_ACKNOWLEDGE, run->expected - 1, AETH_ACK_UNLIMITED);
}

static void refuse_packet(struct run *run, uint32_t psn)
{
	run->refused = true;
	add_answer(run, WIRE_ACKNOWLEDGE, psn, run->refusal->syndrome);
}

static uint32_t find_request(const struct run *run, uint32_t psn)
{
	uint32_t r = 0;

	while (psn >= run->requests[r].first_psn + run->requests[r].psns) {
		r++;
		must(r < REQUESTS);
	}
	return r;
}

/* What is refused is missing at the end. */
static void answer_read(struct run *run, uint32_t r, uint32_t from, uint32_t end, bool again)
{
	const struct planned *request = &run->requests[r];

	for (uint32_t psn = from; psn < end && (psn < run->refuses || from > run->refuses); psn++) {
		uint32_t offset = (psn - request->first_psn) * MTU, rest = request->length - offset;
		bool first =
			psn == from && (!again || run->restarts_first || psn == request->first_psn);
		bool last = psn + 1 == end;
		struct answer *answer = add_answer(
			run,
			first ? (last ? WIRE_READ_RESPONSE_ONLY : WIRE_READ_RESPONSE_FIRST)
			      : (last ? WIRE_READ_RESPONSE_LAST : WIRE_READ_RESPONSE_MIDDLE),
			psn, AETH_ACK_UNLIMITED);

		answer->packet.length = rest < MTU ? rest : MTU;
		for (uint32_t i = 0; i < answer->packet.length; i++)
			answer->data[i] = pattern(r, offset + i);
	}
}

/* What was asked for, as far as it isn't refused. Returns one beyond it. */
static uint32_t answer_request(struct run *run, uint32_t r, const struct packet *packet,
			       uint32_t psn, bool again)
{
	const struct planned *request = &run->requests[r];
	uint32_t end = psn + 1, length;

	if (request->opcode == IBV_WR_RDMA_READ) {
		length = be32toh(packet_reth(packet)->length);
		end = psn + (length ? (length + MTU - 1) / MTU : 1);
		must(be64toh(packet_reth(packet)->va) ==
		     REMOTE + r * SLOT + (psn - request->first_psn) * MTU);
		must(end <= request->first_psn + request->psns);
		answer_read(run, r, psn, end, again);
		if (run->refuses > psn && run->refuses < end)
			end = run->refuses;
	} else if (request->opcode == IBV_WR_ATOMIC_WRITE || request->opcode == WR_FLUSH) {
		add_answer(run, WIRE_READ_RESPONSE_ONLY, psn, AETH_ACK_UNLIMITED);
	} else {
		add_answer(run, WIRE_ATOMIC_ACKNOWLEDGE, psn, AETH_ACK_UNLIMITED)->packet.original =
			request->original;
	}
	return end;
}

static void check_packet(const struct run *run, uint32_t r, const struct packet *packet,
			 uint32_t psn)
{
	const struct planned *request = &run->requests[r];
	uint32_t offset = (psn - request->first_psn) * MTU;
	bool last = psn + 1 == request->first_psn + request->psns;

	must(!!(packet->op->flags & OPCODE_RESPONSE) == false);
	if (request->opcode == IBV_WR_RDMA_READ)
		return;
	must(!!(packet->op->flags & OPCODE_FIRST) == (psn == request->first_psn));
	must(!!(packet->op->flags & OPCODE_LAST) == last);
	if (packet->op->immdt)
		must(last && be32toh(packet_immediate(packet)) == r + 1000);
	if (packet->op->xrceth)
		must(packet_xrc_srq(packet) == SRQN);
	for (uint32_t i = 0; i < packet->payload_length; i++)
		must(packet->payload[i] == pattern(r, offset + i));
}

/* IBA 10.8.3.3: it was begun when all before it had been answered. */
static void check_fence(const struct run *run, uint32_t r)
{
	if (!run->requests[r].fenced)
		return;
	for (uint32_t i = 0; i < r; i++)
		for (uint32_t p = 0; run->requests[i].responds && p < run->requests[i].psns; p++)
			must(run->told[run->requests[i].first_psn + p]);
}

/* Returns whether it was executed. */
static bool execute(struct run *run, const struct packet *packet, uint32_t psn)
{
	uint32_t r = find_request(run, psn);
	const struct planned *request = &run->requests[r];
	bool ends = psn + 1 == request->first_psn + request->psns;

	run->nak_sent = false;
	if (psn == run->refuses) {
		refuse_packet(run, psn);
		return false;
	}
	if (r == run->not_ready && run->not_ready_times && !request->responds) {
		run->not_ready_times--;
		run->nak_sent = true;
		add_answer(run, WIRE_ACKNOWLEDGE, psn, AETH_RNR_NAK | 5);
		return false;
	}
	if (request->responds) {
		run->expected = answer_request(run, r, packet, psn, false);
		if (run->expected == run->refuses && !run->refused &&
		    run->refuses < request->first_psn + request->psns &&
		    be32toh(packet_reth(packet)->length) > (run->refuses - psn) * MTU)
			refuse_packet(run, run->refuses);
		return true;
	}
	run->expected++;
	if (!packet || packet->ack_request || (ends && below(run, 2)))
		acknowledge(run);
	return true;
}

static void receive(struct run *run, const struct packet *packet)
{
	int32_t psn = psn_distance(packet->psn, run->first_psn);
	uint32_t r;

	must(psn >= 0 && (uint32_t)psn < run->psns);
	r = find_request(run, psn);
	check_packet(run, r, packet, psn);
	check_fence(run, r);
	if ((uint32_t)psn < run->expected) {
		if (run->requests[r].responds)
			answer_request(run, r, packet, psn, true);
		else
			acknowledge(run);
		if (run->refused)
			refuse_packet(run, run->refuses);
	} else if (run->refused) {
		refuse_packet(run, run->refuses);
	} else if ((uint32_t)psn > run->expected) {
		if (!run->nak_sent)
			add_answer(run, WIRE_ACKNOWLEDGE, run->expected, AETH_NAK_PSN_SEQUENCE);
		run->nak_sent = true;
		run->kept[psn] |= run->keeps && !run->requests[r].responds;
	} else if (execute(run, packet, psn)) {
		while (run->expected < run->psns && run->kept[run->expected] &&
		       execute(run, NULL, run->expected))
			;
	}
}

/* --- the network -------------------------------------------------------------------------- */

static void deliver(struct run *run)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < run->pending_count; i++) {
		struct answer *answer = &run->pending[i];

		if (run->reorders && below(run, 3) == 0)
			continue;
		answer->done = !hit(run, run->repetition);
		if (hit(run, run->loss))
			continue;
		answer->packet.payload = answer->data;
		peer_send(&run->peer, &answer->packet);
		run->told[answer->psn] = true;
	}
	for (uint32_t i = 0; i < run->pending_count; i++)
		if (!run->pending[i].done)
			run->pending[left++] = run->pending[i];
	run->pending_count = left;
}

static void collect(struct run *run)
{
	static const uint64_t times[] = {100, 5000, 100000};
	uint64_t time = times[below(run, LENGTH(times))];
	struct packet packet;

	while (peer_wait(&run->peer, &packet, time))
		if (!hit(run, run->loss))
			receive(run, &packet);
}

/* ------------------------------------------------------------------------------------------ */

/* To SQD, and back when all that was begun is done (IBA 10.3.1.5). */
static void drain(struct run *run)
{
	struct qp *qp = run->peer.qp;

	if (qp->state == IBV_QPS_RTS && below(run, 10) == 0) {
		world_modify_state(qp, IBV_QPS_SQD);
	} else if (qp->state == IBV_QPS_SQD && !qp->draining) {
		must(qp->requester.unacked == qp->requester.highest);
		world_modify_state(qp, IBV_QPS_RTS);
	}
}

static enum ibv_wc_status expected_status(const struct run *run, uint32_t r)
{
	const struct planned *request = &run->requests[r];

	if (run->refuses >= request->first_psn + request->psns)
		return IBV_WC_SUCCESS;
	return run->refuses >= request->first_psn ? run->refusal->status : IBV_WC_WR_FLUSH_ERR;
}

static void check_completion(struct run *run, uint32_t r, const struct ibv_wc *wc)
{
	const struct planned *request = &run->requests[r];
	uint64_t original;

	must_msg(wc->wr_id == r, "completion of %u instead of %u", (unsigned int)wc->wr_id, r);
	must_msg(wc->status == expected_status(run, r), "request %u (%u) has status %u, not %u", r,
		 request->opcode, wc->status, expected_status(run, r));
	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (request->opcode == IBV_WR_RDMA_READ) {
		for (uint32_t i = 0; i < request->length; i++)
			must(local(run, r)[i] == pattern(r, i));
	} else if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		   request->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		memcpy(&original, local(run, r), sizeof(original));
		must(original == request->original);
	}
}

static void draw_run(struct run *run, uint64_t seed)
{
	uint64_t counter = 5;

	*run = (struct run){.random = seed * 0x9e3779b97f4a7c15};
	run->type = below(run, 4) ? IBV_QPT_RC : IBV_QPT_XRC_SEND;
	run->first_psn = below(run, 2) ? PSN_MASK - below(run, 40) : below(run, 1 << 24);
	for (uint32_t r = 0; r < REQUESTS; r++)
		draw_request(run, r, &counter);
	run->loss = below(run, 3) * 0.05;
	run->repetition = below(run, 3) * 0.05;
	run->reorders = below(run, 2);
	run->keeps = below(run, 2);
	run->drains = below(run, 3) == 0;
	run->restarts_first = below(run, 2);
	run->refuses = below(run, 2) ? below(run, run->psns) : PSNS;
	run->refusal = &refusals[below(run, LENGTH(refusals))];
	run->not_ready = below(run, REQUESTS);
	run->not_ready_times = run->refusal->rnr_retry ? below(run, 4) : 0;
}

START_TEST(any_answer)
{
	struct connection c = world_connection;
	uint32_t completed = 0, rounds = 0;
	struct ibv_wc wc;
	struct run run;

	draw_run(&run, _i);
	c.mtu = IBV_MTU_256;
	c.psn = run.first_psn;
	c.timeout = 9;
	c.rd_atomic = 1 + below(&run, 4);
	c.rnr_retry = run.refusal->rnr_retry;
	peer_create(&run.peer, run.type, &c);
	run.peer.node->hca->behaviour.drops_out_of_order = below(&run, 4) == 0;
	if (below(&run, 4) == 0)
		must(placement_enable(run.peer.node->hca, 1 + below(&run, 1000)) == 0);
	run.pending = calloc(PENDING, sizeof(*run.pending));
	for (uint32_t r = 0; r < REQUESTS; r++)
		post(&run, r);
	while (completed < REQUESTS) {
		must_msg(rounds++ < 20000, "%u of %u have completed", completed, REQUESTS);
		collect(&run);
		deliver(&run);
		if (run.drains)
			drain(&run);
		while (world_poll(run.peer.node, &wc))
			check_completion(&run, completed++, &wc);
	}
	world_expect_none(run.peer.node, SECOND);
	free(run.pending);
	peer_destroy(&run.peer);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("any answer");
	struct seeds seeds = {1, SANITIZED ? 40 : 250};

	seeds_read(&seeds);
	tcase_add_loop_test(tests, any_answer, seeds.first, seeds.last + 1);
	return world_main("any answer", (TCase *const[]){tests, NULL});
}
