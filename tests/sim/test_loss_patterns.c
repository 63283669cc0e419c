/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A few messages of every kind, of which each packet of a subset is lost once: they are executed
 * once and in order, whatever the subset. Towards an HCA that keeps what came behind a gap, one
 * that drops it, and one that has no memory left to keep it in.
 */
#include "net/packet_pool.h"
#include "net/tuning.h"
#include "pair.h"
#include "tests/sanitizers.h"

#define MTU 1024 /* world_connection.mtu */
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- links that lose what they are told to --------------------------------------------- */

struct lossy {
	struct link link;
	struct link *inner;
	uint32_t lost; /* of the packets that are sent next, by bits */
};

static unsigned int lossy_send(struct link *link, struct link_packet *packets, unsigned int count,
			       uint64_t now)
{
	struct lossy *lossy = (struct lossy *)link;
	unsigned int refused = 0;

	for (unsigned int i = 0; i < count; i++, lossy->lost >>= 1)
		if (!(lossy->lost & 1))
			refused += lossy->inner->ops->send(lossy->inner, &packets[i], 1, now);
	return refused;
}

static unsigned int lossy_receive(struct link *link, struct link_frame *frames, unsigned int max,
				  uint64_t now)
{
	struct link *inner = ((struct lossy *)link)->inner;

	return inner->ops->receive(inner, frames, max, now);
}

static uint64_t lossy_deadline(struct link *link)
{
	struct link *inner = ((struct lossy *)link)->inner;

	return inner->ops->deadline(inner);
}

static uint32_t lossy_unread(struct link *link, const struct path *path, uint32_t qpn,
			     uint64_t *read)
{
	struct link *inner = ((struct lossy *)link)->inner;

	return inner->ops->unread(inner, path, qpn, read);
}

static const struct link_ops lossy_ops = {
	.send = lossy_send,
	.receive = lossy_receive,
	.deadline = lossy_deadline,
	.unread = lossy_unread,
};

static void lossy_begin(struct lossy *lossy, struct node *node, uint32_t lost)
{
	*lossy = (struct lossy){.inner = node->hca->link, .lost = lost};
	lossy->link = *lossy->inner;
	lossy->link.ops = &lossy_ops;
	node->hca->link = &lossy->link;
}

/* --- the messages -------------------------------------------------------------------------- */

/* Each has its own part of both memories. */
#define PART 8192
#define RECEIVED (16 * PART) /* where receives are */

static const struct {
	enum ibv_wr_opcode opcode;
	uint32_t length;
	bool receives;
} messages[] = {
	{IBV_WR_RDMA_WRITE, 2 * MTU + 7},
	{IBV_WR_SEND, 2 * MTU, true},
	{IBV_WR_RDMA_READ, 2 * MTU + 300},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
	{IBV_WR_RDMA_WRITE_WITH_IMM, MTU + 1, true},
	{IBV_WR_SEND_WITH_IMM, 100, true},
};
enum { MESSAGES = LENGTH(messages), RECEIVES = 3, REQUESTS = 3 + 2 + 1 + 1 + 2 + 1, RESPONSES = 6 };

enum receives { RECEIVES_POSTED, RECEIVES_LATE, RECEIVES_SRQ, RECEIVES_XRC };

struct messaging {
	struct pair pair;
	struct lossy la, lb;
	struct srq *srq;
	enum receives receives;
	uint32_t lost_a, lost_b;
	struct hoard {
		struct packet_arena arena;
		void *list;
	} hoards[2]; /* what takes all of the memory, of each HCA */
};

static void take_all_memory(struct packet_pool *pool, struct hoard *hoard)
{
	void **memory;

	while ((memory = packet_arena_get(&hoard->arena, pool, PACKET_POOL_LARGEST,
					  REORDER_BYTES_ALL))) {
		*memory = hoard->list;
		hoard->list = memory;
	}
}

static void give_memory(struct hoard *hoard)
{
	while (hoard->list) {
		void *next = *(void **)hoard->list;

		packet_arena_put(&hoard->arena, hoard->list);
		hoard->list = next;
	}
}

static void use_srq(struct messaging *m)
{
	struct pair *p = &m->pair;
	struct ibv_srq_attr attr = {.max_wr = PAIR_DEPTH, .max_sge = 4};
	struct qp_options options = {.type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};

	ck_assert_int_eq(srq_create(p->b->pd, &attr, &m->srq), 0);
	options.srq = m->srq;
	ck_assert_int_eq(qp_destroy(p->qb), 0);
	p->qb = world_qp(p->b, &options);
}

static void post_receive(struct messaging *m, unsigned int i)
{
	struct pair *p = &m->pair;
	uint8_t *memory = p->mb + RECEIVED + i * PART;
	struct ibv_sge sge = {(uintptr_t)memory, PART, p->rb->ibv.lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	if (m->srq || p->srq)
		ck_assert_int_eq(srq_post(m->srq ? m->srq : p->srq, &wr, NULL), 0);
	else
		ck_assert_int_eq(world_post_recv(p->qb, memory, PART, sge.lkey, i), 0);
}

static void post_message(struct messaging *m, unsigned int i)
{
	struct pair *p = &m->pair;
	struct pair_wr request;
	struct ibv_send_wr *wr = pair_wr(p, &request, messages[i].opcode, messages[i].length, i);

	request.sge.addr += i * PART;
	if (messages[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr->wr.atomic.remote_addr += i * PART;
	else
		wr->wr.rdma.remote_addr += i * PART;
	ck_assert_int_eq(world_post_send(p->qa, wr), 0);
}

static void create(struct messaging *m, enum receives receives)
{
	struct pair *p = &m->pair;

	*m = (struct messaging){.receives = receives};
	pair_create_apart(p, receives == RECEIVES_XRC ? IBV_QPT_XRC_SEND : IBV_QPT_RC, NULL, 1);
	if (receives == RECEIVES_SRQ)
		use_srq(m);
	lossy_begin(&m->la, p->a, 0);
	lossy_begin(&m->lb, p->b, 0);
}

static void destroy(struct messaging *m)
{
	struct pair *p = &m->pair;

	p->a->hca->link = m->la.inner;
	p->b->hca->link = m->lb.inner;
	give_memory(&m->hoards[0]);
	give_memory(&m->hoards[1]);
	if (m->srq) {
		ck_assert_int_eq(qp_destroy(p->qb), 0);
		ck_assert_int_eq(srq_destroy(m->srq), 0);
		p->qb = world_qp(p->b, &(struct qp_options){.type = IBV_QPT_RC});
	}
	pair_destroy(p);
}

/* --- what must come of them ------------------------------------------------------------------ */

static void must_complete(struct messaging *m, struct node *node, uint64_t id, struct ibv_wc *wc)
{
	while (!world_poll(node, wc))
		must_msg(world_step(&m->pair.world) && world_now(&m->pair.world) < SECOND * 1000,
			 "lost 0x%x, 0x%x: %llu doesn't complete", m->lost_a, m->lost_b,
			 (unsigned long long)id);
	must_msg(wc->status == IBV_WC_SUCCESS && wc->wr_id == id,
		 "lost 0x%x, 0x%x: %llu with status %d instead of %llu", m->lost_a, m->lost_b,
		 (unsigned long long)wc->wr_id, wc->status, (unsigned long long)id);
}

static void must_have_received(struct messaging *m, unsigned int receive, unsigned int message)
{
	struct ibv_wc wc;

	must_complete(m, m->pair.b, receive, &wc);
	must(wc.byte_len == messages[message].length);
	must(messages[message].opcode == IBV_WR_SEND ||
	     (wc.wc_flags & IBV_WC_WITH_IMM && be32toh(wc.imm_data) == message));
}

static void must_have_arrived(struct messaging *m, unsigned int i, const uint8_t *received)
{
	const uint8_t *a = m->pair.ma + i * PART, *b = m->pair.mb + i * PART;

	if (messages[i].opcode == IBV_WR_SEND || messages[i].opcode == IBV_WR_SEND_WITH_IMM)
		b = received;
	must_msg(memcmp(a, b, messages[i].length) == 0, "lost 0x%x, 0x%x: data of %u", m->lost_a,
		 m->lost_b, i);
}

static void run(struct messaging *m, uint32_t lost_a, uint32_t lost_b)
{
	struct connection c = world_connection;
	struct pair *p = &m->pair;
	uint64_t *counter = (uint64_t *)(p->mb + 3 * PART);
	unsigned int received = 0;
	struct ibv_wc wc;

	c.min_rnr_timer = 1; /* 10 us */
	m->lost_a = lost_a;
	m->lost_b = lost_b;
	world_modify_state(p->qa, IBV_QPS_RESET);
	world_modify_state(p->qb, IBV_QPS_RESET);
	world_connect(p->a, p->qa, p->b, p->qb, &c);
	pair_fill(p->ma, MESSAGES * PART, lost_a);
	pair_fill(p->mb, RECEIVED + RECEIVES * PART, lost_b + 1);
	*counter = 17;
	m->la.lost = lost_a;
	m->lb.lost = lost_b;
	for (unsigned int i = 0; i < MESSAGES; i++)
		post_message(m, i);
	for (unsigned int i = 0; i < RECEIVES; i++) {
		if (m->receives == RECEIVES_LATE)
			world_run(&p->world, 15000);
		post_receive(m, i);
	}
	for (unsigned int i = 0; i < MESSAGES; i++)
		must_complete(m, p->a, i, &wc);
	for (unsigned int i = 0; i < MESSAGES; i++)
		if (messages[i].receives)
			must_have_received(m, received++, i);
	must(*counter == 18);
	*counter = 17; /* as it was found */
	received = 0;
	for (unsigned int i = 0; i < MESSAGES; i++) {
		must_have_arrived(m, i, p->mb + RECEIVED + received * PART);
		received += messages[i].receives;
	}
	must(!world_poll(p->a, &wc) && !world_poll(p->b, &wc));
	must(p->qb->responder.kept.count == 0);
	must(p->qa->missing.kept.count == 0 && !p->qa->missing.any);
}

/* --- every subset ---------------------------------------------------------------------------- */

static const struct {
	enum receives receives;
	bool drops, full;
} variants[] = {
	{RECEIVES_POSTED},
	{RECEIVES_LATE},
	{RECEIVES_SRQ},
	{RECEIVES_XRC},
	{RECEIVES_POSTED, .drops = true},
	{RECEIVES_LATE, .drops = true},
	{RECEIVES_POSTED, .full = true},
};

static void create_variant(struct messaging *m, int variant)
{
	struct hca *a, *b;

	create(m, variants[variant].receives);
	a = m->pair.a->hca;
	b = m->pair.b->hca;
	a->behaviour.drops_out_of_order = b->behaviour.drops_out_of_order = variants[variant].drops;
	if (variants[variant].full) {
		take_all_memory(&a->packets, &m->hoards[0]);
		take_all_memory(&b->packets, &m->hoards[1]);
	}
}

START_TEST(any_requests_are_lost)
{
	enum { STEP = SANITIZED ? 7 : 1 };
	struct messaging m;

	create_variant(&m, _i);
	for (uint32_t lost = 0; lost < 1 << REQUESTS; lost += STEP)
		run(&m, lost, 0);
	destroy(&m);
}
END_TEST

START_TEST(any_responses_are_lost)
{
	struct messaging m;

	create_variant(&m, _i);
	for (uint32_t lost = 0; lost < 1 << RESPONSES; lost++)
		run(&m, 0, lost);
	destroy(&m);
}
END_TEST

/* And what is sent again first, too; but no packet so often that the retries are used up. */
START_TEST(both_are_lost)
{
	enum { RUNS = SANITIZED ? 50 : 300 };
	struct messaging m;

	create_variant(&m, _i);
	for (int i = 0; i < RUNS; i++) {
		uint64_t random = sim_random(m.pair.world.sim);

		run(&m, random & 0xfff, random >> 40 & 0xf);
	}
	destroy(&m);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("loss_patterns");

	tcase_add_loop_test(tests, any_requests_are_lost, 0, LENGTH(variants));
	tcase_add_loop_test(tests, any_responses_are_lost, 0, LENGTH(variants));
	tcase_add_loop_test(tests, both_are_lost, 0, LENGTH(variants));
	return world_main("loss_patterns", (TCase *const[]){tests, NULL});
}
