/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions in virtual time: when they were made, and how many of them an event of a
 * moderated CQ waits for (ibv_modify_cq).
 */
#include "pair.h"

#define US 1000
#define MESSAGES 400
#define AT_ONCE 8
#define PERIOD 200 /* us */
#define LATENCY 1000

struct receiver {
	struct pair *pair;
	uint64_t posted_at[MESSAGES], latest;
	unsigned int received, events;
};

static void receive_one(struct receiver *receiver, const struct completion *completion)
{
	uint64_t id = receiver->received++;

	ck_assert_int_eq(completion->wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(be32toh(completion->wc.imm_data), id);
	ck_assert_uint_ge(completion->timestamp, receiver->posted_at[id] + LATENCY);
	ck_assert_uint_ge(completion->timestamp, receiver->latest);
	ck_assert_uint_le(completion->timestamp, world_now(&receiver->pair->world));
	receiver->latest = completion->timestamp;
	pair_receive(receiver->pair, 8, id);
}

/* Asleep until there is an event; it came neither for fewer completions nor earlier. */
static void wake_up(struct receiver *receiver)
{
	struct cq *cq = receiver->pair->b->cq;
	struct completion completions[PAIR_DEPTH];
	int count;

	if (receiver->pair->b->completion_events == receiver->events)
		return;
	ck_assert_uint_eq(receiver->pair->b->completion_events, ++receiver->events);
	count = cq_poll(cq, completions, PAIR_DEPTH);
	ck_assert_int_gt(count, 0);
	ck_assert(count >= AT_ONCE ||
		  world_now(&receiver->pair->world) >= completions[0].timestamp + PERIOD * US);
	for (int i = 0; i < count; i++)
		receive_one(receiver, &completions[i]);
	cq_arm(cq, false);
}

/* No message is forgotten by a receiver that sleeps, whatever is lost, and it wakes up seldom. */
START_TEST(events_are_few)
{
	static const double loss[] = {0, 0.01, 0.1};
	const struct sim_options options = {.latency = LATENCY, .jitter = 3000, .drop = loss[_i]};
	struct pair p;
	struct receiver receiver = {.pair = &p};
	unsigned int posted = 0, completed = 0;
	struct ibv_wc wc;
	bool goes_on;

	pair_create(&p, IBV_QPT_RC, &options, 1 + _i, NULL);
	for (unsigned int i = 0; i < PAIR_DEPTH; i++)
		pair_receive(&p, 8, i);
	p.b->cq->timestamped = true;
	ck_assert_int_eq(cq_moderate(p.b->cq, AT_ONCE, PERIOD), 0);
	cq_arm(p.b->cq, false);
	while (receiver.received < MESSAGES) {
		/* One after the other: an event for each would be easy. */
		if (posted == completed && posted < MESSAGES) {
			receiver.posted_at[posted] = world_now(&p.world);
			pair_post(&p, IBV_WR_SEND_WITH_IMM, 8, posted++);
		}
		goes_on = world_step(&p.world);
		completed += world_poll(p.a, &wc);
		wake_up(&receiver);
		ck_assert(goes_on || receiver.received == MESSAGES);
	}
	ck_assert_uint_le(receiver.events,
			  MESSAGES / AT_ONCE + world_now(&p.world) / (PERIOD * US) + 1);
	pair_destroy(&p);
}
END_TEST

/* The last one of a burst is told by time alone, and by nothing that the receiver does. */
START_TEST(time_ends_the_waiting)
{
	struct pair p;

	pair_create(&p, IBV_QPT_RC, NULL, 1, NULL);
	ck_assert_int_eq(cq_moderate(p.b->cq, AT_ONCE, PERIOD), 0);
	for (int i = 1; i <= 3; i++) {
		cq_arm(p.b->cq, false);
		pair_receive(&p, 8, i);
		pair_post(&p, IBV_WR_SEND, 8, i);
		world_run(&p.world, PERIOD * US / 2);
		ck_assert_uint_eq(p.b->completion_events, i - 1);
		world_run(&p.world, PERIOD * US);
		ck_assert_uint_eq(p.b->completion_events, i);
		world_expect(p.a, i, IBV_WC_SUCCESS);
		world_expect(p.b, i, IBV_WC_SUCCESS);
	}
	/* Flushed receives are completions as others. */
	cq_arm(p.b->cq, true);
	for (uint64_t i = 0; i < AT_ONCE - 1; i++)
		pair_receive(&p, 8, i);
	world_modify_state(p.qb, IBV_QPS_ERR);
	world_run(&p.world, PERIOD * US / 2);
	ck_assert_uint_eq(p.b->completion_events, 3);
	world_run(&p.world, PERIOD * US);
	ck_assert_uint_eq(p.b->completion_events, 4);
	pair_destroy(&p);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("completions");

	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, events_are_few, 0, 3);
	tcase_add_test(tcase, time_ends_the_waiting);
	return world_main("completions", (TCase *const[]){tcase, NULL});
}
