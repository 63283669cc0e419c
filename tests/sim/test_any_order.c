/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a responder makes of requests doesn't depend on the order in which their packets come, nor
 * on how often each does: a random list of messages, good ones and bad ones, is sent twice. First
 * packet by packet, each when the one before was answered; then in any order, as a requester that
 * repeats what isn't answered might. Both times the same completions, events and results must come
 * of it, and the same NAK of the same packet ends it.
 *
 * The number of the iteration is the seed; URXE_TEST_SEEDS=FIRST-LAST in the environment runs
 * others than the ones that are run always.
 */
#include <stdlib.h>

#include "emu/objects/mw.h"
#include "emu/transport/placement.h"
#include "net/random.h"
#include "peer.h"
#include "tests/sanitizers.h"
#include "tests/seeds.h"

enum { MESSAGES = 24, PACKETS = 4, MTU = 256, DEPTH = 3, WINDOWS = 4, RECEIVES = 64 };
enum { SLOT = PACKETS * MTU, READ_FROM = 0, WRITTEN = 16384, COUNTERS = 32768, RECEIVED = 40960 };

#define BAD_KEY 0xdead0001
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- the list ----------------------------------------------------------------------------- */

struct planned {
	struct peer_packet packets[PACKETS];
	uint32_t count;	    /* of packets */
	uint32_t first_psn; /* from the first one of all */
	uint32_t psns;	    /* that it takes */
	bool responds;
};

struct script {
	struct planned messages[MESSAGES];
	enum ibv_qp_type type;
	bool srq;
	uint32_t first_psn;
	uint32_t short_receive, bad_receive; /* numbers of receives */
};

/* What came of it. */
struct outcome {
	struct ibv_wc wcs[RECEIVES + WINDOWS];
	uint32_t wc_count;
	uint8_t syndrome; /* of the NAK that ended it, and its PSN from the first one */
	uint32_t nak_psn;
	uint64_t originals[MESSAGES];
	unsigned int events[32];
	enum ibv_qp_state state;
	uint32_t expected_psn, msn;
	uint8_t memory[PEER_MEMORY];
};

struct run {
	const struct script *script;
	struct outcome *outcome;
	uint64_t random;
	struct peer peer;
	struct mw *windows[WINDOWS];
	struct mr *bindable;
	uint32_t rkeys[WINDOWS];
	uint32_t receives;     /* posted */
	uint32_t acknowledged; /* PSNs from the first one */
	bool answered[MESSAGES][PACKETS];
	bool over; /* by a NAK */
};

static const struct {
	enum wire_operation first, middle, last, only;
	bool writes;
} transfers[] = {
	{WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST, WIRE_SEND_ONLY},
	{WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_IMM, WIRE_SEND_ONLY_IMM},
	{WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_INVALIDATE, WIRE_SEND_ONLY_INVALIDATE},
	{WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST, WIRE_WRITE_ONLY, true},
	{WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST_IMM, WIRE_WRITE_ONLY_IMM, true},
};

static uint32_t below(struct run *run, uint32_t bound)
{
	return random_below(&run->random, bound);
}

/* Keys stand for themselves until it is sent: 0 for the region's, n for that of window n - 1. */
static void draw_transfer(uint64_t *random, struct planned *message, uint32_t number,
			  uint32_t *invalidated)
{
	uint32_t kind = random_below(random, LENGTH(transfers));
	uint32_t length = random_below(random, 5) ? random_below(random, SLOT + 1) : 0;

	if (kind == 2 && *invalidated == WINDOWS)
		kind = 0;
	message->count = message->psns = length ? (length + MTU - 1) / MTU : 1;
	for (uint32_t i = 0; i < message->count; i++) {
		struct peer_packet *packet = &message->packets[i];
		bool last = i + 1 == message->count;

		packet->opcode = last ? (i ? transfers[kind].last : transfers[kind].only)
				      : (i ? transfers[kind].middle : transfers[kind].first);
		packet->length = last ? length - i * MTU : MTU;
		packet->dma_length = length;
		packet->va = WRITTEN + number * SLOT % (COUNTERS - WRITTEN - SLOT);
		packet->immediate = number + 1000;
		packet->solicited = random_below(random, 2);
		packet->invalidate = *invalidated + 1;
	}
	*invalidated += kind == 2;
}

static void draw_response(uint64_t *random, struct planned *message)
{
	static const enum wire_operation operations[] = {WIRE_READ_REQUEST, WIRE_READ_REQUEST,
							 WIRE_FETCH_ADD,    WIRE_COMPARE_SWAP,
							 WIRE_FLUSH,	    WIRE_ATOMIC_WRITE};
	struct peer_packet *packet = &message->packets[0];

	message->responds = true;
	message->count = message->psns = 1;
	*packet = (struct peer_packet){
		.opcode = operations[random_below(random, LENGTH(operations))],
		.va = COUNTERS + 8 * random_below(random, 3),
		.feth = 1,
		.swap_or_add = 1 + random_below(random, 100),
		.compare = random_below(random, 3),
		.dma_length = 8,
	};
	if (packet->opcode == WIRE_ATOMIC_WRITE)
		packet->length = 8;
	if (packet->opcode == WIRE_READ_REQUEST) {
		packet->dma_length = random_below(random, 5) ? random_below(random, SLOT + 1) : 0;
		packet->va = READ_FROM + random_below(random, 100);
		message->psns = packet->dma_length ? (packet->dma_length + MTU - 1) / MTU : 1;
	}
}

/* What no requester sends. */
static void spoil(uint64_t *random, struct planned *message)
{
	struct peer_packet *packet = &message->packets[random_below(random, message->count)];

	switch (random_below(random, 8)) {
	case 0:
		packet->rkey = BAD_KEY;
		break;
	case 1:
		packet->va++;
		break;
	case 2:
		packet->length += 4;
		break;
	case 3:
		packet->dma_length += 1;
		break;
	case 4:
		packet->invalidate = BAD_KEY;
		break;
	case 5:
		packet->opcode = 0x18;
		break;
	case 6:
		if (message->responds)
			break;
		packet->opcode = random_below(random, WIRE_SEND_ONLY_IMM + 1);
		break;
	case 7:
		packet->srqn = BAD_KEY & QPN_MASK;
		break;
	}
}

static void draw_script(struct script *script, uint64_t *random)
{
	static const struct {
		enum ibv_qp_type type;
		bool srq;
	} kinds[] = {{IBV_QPT_RC}, {IBV_QPT_RC}, {IBV_QPT_RC, true}, {IBV_QPT_XRC_RECV, true}};
	uint32_t kind = random_below(random, LENGTH(kinds)), invalidated = 0, psn = 0;

	*script = (struct script){.type = kinds[kind].type, .srq = kinds[kind].srq};
	script->first_psn = random_below(random, 2) ? PSN_MASK - random_below(random, 30)
						    : random_below(random, 1 << 24);
	if (script->type == IBV_QPT_XRC_RECV)
		invalidated = WINDOWS;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct planned *message = &script->messages[i];

		if (random_below(random, 2))
			draw_transfer(random, message, i, &invalidated);
		else
			draw_response(random, message);
		message->first_psn = psn;
		psn += message->psns;
	}
	script->short_receive = script->bad_receive = RECEIVES;
	switch (random_below(random, 6)) {
	case 0:
		script->short_receive = random_below(random, 10);
		break;
	case 1:
		script->bad_receive = random_below(random, 10);
		break;
	case 2:
		break;
	default:
		spoil(random, &script->messages[random_below(random, MESSAGES)]);
	}
}

/* --- sending ------------------------------------------------------------------------------ */

static void send_packet(struct run *run, uint32_t m, uint32_t p, bool no_ack_request)
{
	const struct planned *message = &run->script->messages[m];
	struct peer_packet packet = message->packets[p];

	if (run->peer.xrcd)
		packet.opcode |= WIRE_XRC;
	packet.psn = psn_add(run->script->first_psn, message->first_psn + p);
	packet.no_ack_request = no_ack_request;
	packet.va += (uintptr_t)run->peer.memory;
	if (!packet.rkey)
		packet.rkey = run->peer.mr->ibv.rkey;
	if (packet.invalidate && packet.invalidate <= WINDOWS)
		packet.invalidate = run->rkeys[packet.invalidate - 1];
	peer_send(&run->peer, &packet);
}

static void post_receive(struct run *run)
{
	const struct script *script = run->script;
	uint32_t number = run->receives++;
	struct ibv_sge sge = {
		.addr = (uintptr_t)run->peer.memory + RECEIVED +
			number * SLOT % (PEER_MEMORY - RECEIVED - SLOT),
		.length = number == script->short_receive ? MTU / 2 : SLOT,
		.lkey = number == script->bad_receive ? BAD_KEY : run->peer.mr->ibv.lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_uint_lt(number, RECEIVES);
	if (run->peer.srq)
		ck_assert_int_eq(srq_post(run->peer.srq, &wr, NULL), 0);
	else
		ck_assert_int_eq(qp_post_recv(run->peer.qp, &wr, &bad), 0);
}

/* --- answers ------------------------------------------------------------------------------ */

static bool is_complete(const struct run *run, uint32_t m)
{
	const struct planned *message = &run->script->messages[m];

	for (uint32_t i = 0; message->responds && i < message->psns; i++)
		if (!run->answered[m][i])
			return false;
	return message->responds || run->acknowledged >= message->first_psn + message->psns;
}

/* The message that @psn is of. */
static uint32_t find_message(const struct script *script, uint32_t psn)
{
	uint32_t m = 0;

	while (psn >= script->messages[m].first_psn + script->messages[m].psns) {
		m++;
		must(m < MESSAGES);
	}
	return m;
}

static void take_acknowledge(struct run *run, const struct packet *packet, uint32_t psn)
{
	uint8_t syndrome = packet_syndrome(packet);
	bool ack = (syndrome & AETH_TYPE_MASK) == AETH_ACK;

	if (psn + ack > run->acknowledged)
		run->acknowledged = psn + ack;
	if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
		post_receive(run);
	if (syndrome <= AETH_NAK_PSN_SEQUENCE)
		return;
	must(!run->over);
	run->over = true;
	run->outcome->syndrome = syndrome;
	run->outcome->nak_psn = psn;
}

static void take_response(struct run *run, const struct packet *packet, uint32_t psn)
{
	uint32_t m = find_message(run->script, psn);
	const struct planned *message = &run->script->messages[m];
	uint32_t index = psn - message->first_psn;

	must(message->responds);
	if (psn > run->acknowledged)
		run->acknowledged = psn;
	run->answered[m][index] = true;
	if (packet->op->flags & OPCODE_ATOMIC) {
		uint64_t original = be64toh(packet_atomicacketh(packet)->original);

		must(run->outcome->originals[m] == 0 || run->outcome->originals[m] == original + 1);
		run->outcome->originals[m] = original + 1;
		return;
	}
	for (uint32_t i = 0; i < packet->payload_length; i++)
		must(packet->payload[i] ==
		     (uint8_t)((message->packets[0].va + index * MTU + i) * 7));
}

static void take_answers(struct run *run, uint64_t time)
{
	struct packet packet;

	while (peer_wait(&run->peer, &packet, time)) {
		int32_t psn = psn_distance(packet.psn, run->script->first_psn);

		if (packet.op->flags & OPCODE_ACK)
			take_acknowledge(run, &packet, psn);
		else
			take_response(run, &packet, psn);
	}
}

/* --- both ways ---------------------------------------------------------------------------- */

static void send_in_order(struct run *run)
{
	uint32_t rounds = 0;

	for (uint32_t m = 0; m < MESSAGES && !run->over; m++)
		while (!is_complete(run, m) && !run->over) {
			uint32_t first = run->script->messages[m].first_psn;
			uint32_t p = run->acknowledged > first ? run->acknowledged - first : 0;

			send_packet(run, m, p, false);
			take_answers(run, 100000);
			must(rounds++ < 1000);
		}
}

/* What may be under way: messages @m and those behind it, with few that have responses. */
static uint32_t window_end(const struct run *run, uint32_t m)
{
	uint32_t responses = 0, end;

	for (end = m; end < MESSAGES && end < m + 8; end++) {
		responses += run->script->messages[end].responds;
		if (responses > DEPTH)
			break;
	}
	return end;
}

static void send_in_any_order(struct run *run)
{
	uint32_t m = 0, rounds = 0;

	while (m < MESSAGES && !run->over) {
		uint32_t end, count = 1 + below(run, 12);

		if (is_complete(run, m)) {
			m++;
			continue;
		}
		must(rounds++ < 10000);
		end = window_end(run, m);
		for (uint32_t i = 0; i < count; i++) {
			/* The oldest message more often, so that it gets on. */
			uint32_t which = below(run, 3) ? m + below(run, end - m) : m;

			send_packet(run, which, below(run, run->script->messages[which].count),
				    below(run, 2));
		}
		if (below(run, 2))
			take_answers(run, below(run, 2) ? 1000 : 100000);
	}
}

static void run_script(const struct script *script, struct outcome *outcome, uint64_t random,
		       void (*send)(struct run *run))
{
	struct connection c = world_connection;
	struct run run = {.script = script, .outcome = outcome, .random = random};
	struct ibv_wc wc;

	*outcome = (struct outcome){};
	c.mtu = IBV_MTU_256;
	c.psn = script->first_psn;
	c.rd_atomic = DEPTH;
	peer_create_srq(&run.peer, script->type, &c, script->srq ? RECEIVES : 0);
	for (uint32_t i = 0; i < WRITTEN; i++)
		run.peer.memory[i] = i * 7;
	for (uint32_t i = 0; i < WINDOWS && script->type == IBV_QPT_RC; i++) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};

		if (!run.bindable)
			run.bindable = world_mr(run.peer.node, run.peer.memory, PEER_MEMORY,
						IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		must(mw_alloc(run.peer.node->pd, IBV_MW_TYPE_2, &run.windows[i]) == 0);
		run.rkeys[i] = ibv_inc_rkey(run.windows[i]->ibv.rkey);
		wr.bind_mw = (__typeof__(wr.bind_mw)){.mw = &run.windows[i]->ibv,
						      .rkey = run.rkeys[i],
						      .bind_info = {&run.bindable->ibv,
								    (uintptr_t)run.peer.memory, 64,
								    IBV_ACCESS_REMOTE_READ}};
		must(world_post_send(run.peer.qp, &wr) == 0);
	}
	run.peer.node->hca->behaviour.drops_out_of_order = below(&run, 4) == 0;
	if (below(&run, 4) == 0)
		must(placement_enable(run.peer.node->hca, 1 + below(&run, 1000)) == 0);
	send(&run);
	take_answers(&run, MS);
	world_run(&run.peer.world, SECOND);
	while (world_poll(run.peer.node, &wc))
		outcome->wcs[outcome->wc_count++] = wc;
	memcpy(outcome->events, run.peer.node->events, sizeof(outcome->events));
	memcpy(outcome->memory, run.peer.memory, PEER_MEMORY);
	outcome->state = run.peer.qp->state;
	outcome->expected_psn = run.peer.qp->responder.expected_psn;
	outcome->msn = run.peer.qp->responder.msn;
	for (uint32_t i = 0; i < WINDOWS && run.windows[i]; i++)
		mw_dealloc(run.windows[i]);
	if (run.bindable)
		must(mr_deregister(run.bindable) == 0);
	peer_destroy(&run.peer);
}

static void compare(const struct outcome *a, const struct outcome *b)
{
	uint32_t common = a->wc_count < b->wc_count ? a->wc_count : b->wc_count;

	must_msg(a->syndrome == b->syndrome && a->nak_psn == b->nak_psn,
		 "NAK %x of packet %u, and %x of packet %u", a->syndrome, a->nak_psn, b->syndrome,
		 b->nak_psn);
	must(a->state == b->state && a->msn == b->msn && a->expected_psn == b->expected_psn);
	for (uint32_t i = 0; i < 32; i++)
		must_msg(a->events[i] == b->events[i], "event %u: %u, and %u", i, a->events[i],
			 b->events[i]);
	for (uint32_t i = 0; i < common; i++) {
		const struct ibv_wc *x = &a->wcs[i], *y = &b->wcs[i];

		must_msg(x->wr_id == y->wr_id && x->status == y->status,
			 "completion %u: %lu with %d, and %lu with %d", i, x->wr_id, x->status,
			 y->wr_id, y->status);
		if (x->status != IBV_WC_SUCCESS)
			continue;
		must(x->opcode == y->opcode && x->byte_len == y->byte_len);
		must(x->wc_flags == y->wc_flags);
		must(!x->wc_flags || x->wc_flags == IBV_WC_WITH_INV || x->imm_data == y->imm_data);
	}
	/* The other one may have posted more of them, one for each RNR NAK. */
	for (uint32_t i = common; i < a->wc_count; i++)
		must(a->wcs[i].status == IBV_WC_WR_FLUSH_ERR);
	for (uint32_t i = common; i < b->wc_count; i++)
		must(b->wcs[i].status == IBV_WC_WR_FLUSH_ERR);
	for (uint32_t m = 0; m < MESSAGES; m++)
		must(!a->originals[m] || !b->originals[m] || a->originals[m] == b->originals[m]);
	must(memcmp(a->memory + COUNTERS, b->memory + COUNTERS, 24) == 0);
	if (!a->syndrome)
		must(memcmp(a->memory, b->memory, PEER_MEMORY) == 0);
}

START_TEST(any_order)
{
	static struct outcome in_order, in_any_order;
	uint64_t random = _i * 0x9e3779b97f4a7c15;
	struct script script;

	draw_script(&script, &random);
	run_script(&script, &in_order, random, send_in_order);
	for (int i = 0; i < 4; i++) {
		random_next(&random);
		run_script(&script, &in_any_order, random, send_in_any_order);
		compare(&in_order, &in_any_order);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("any order");
	struct seeds seeds = {1, SANITIZED ? 40 : 250};

	seeds_read(&seeds);
	tcase_add_loop_test(tests, any_order, seeds.first, seeds.last + 1);
	return world_main("any order", (TCase *const[]){tests, NULL});
}
