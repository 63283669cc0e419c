/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager on a network that loses, duplicates and reorders:
 * every connect ends established on both sides, or in an error on both, and
 * every disconnect ends. Each seed is another run.
 */
#include <stdlib.h>
#include <utlist.h>

#include "caller.h"
#include "emu/cm/cm_internal.h"
#include "net/random.h"
#include "tests/sanitizers.h"

#define CONNECTIONS 12
#define LONG_ENOUGH                                                                                \
	(400 * SECOND) /* longer than all retries of REQ, REP and MRA one after another */

/* Mild to bad. */
static struct sim_options weather(uint64_t *random)
{
	return (struct sim_options){
		.latency = 50 * 1000,
		.jitter = random_below(random, 2) * 20 * MS,
		.drop = random_below(random, 4) * 0.08,
		.duplicate = random_below(random, 3) * 0.15,
		.reorder = random_below(random, 3) * 0.2,
		.corrupt = random_below(random, 2) * 0.02,
	};
}

static bool established(const struct caller *caller)
{
	return cm_id_state(caller->id) == CM_STATE_ESTABLISHED;
}

static bool failed(const struct caller *caller)
{
	enum cm_state state = cm_id_state(caller->id);

	return (caller_heard(caller, CM_EVENT_REQ_ERROR) ||
		caller_heard(caller, CM_EVENT_REP_ERROR) ||
		caller_heard(caller, CM_EVENT_REJ_RECEIVED)) &&
	       (state == CM_STATE_IDLE || state == CM_STATE_TIMEWAIT);
}

/* Both sides of each connection agree. Returns how many are established. */
static unsigned int count_established(struct callers *c, int seed)
{
	struct caller *caller, *other;
	unsigned int count = 0;

	LL_FOREACH (c->head, caller) {
		if (caller->passive)
			continue;
		other = caller_peer(caller);
		must_msg(established(caller) || failed(caller), "seed %d: a half, state %d", seed,
			 cm_id_state(caller->id));
		must_msg(!other || established(other) == established(caller),
			 "seed %d: states %d and %d", seed, cm_id_state(caller->id),
			 cm_id_state(other->id));
		must_msg(other || !established(caller), "seed %d: established alone", seed);
		must_msg(!other || established(other) || failed(other), "seed %d: no end", seed);
		count += established(caller);
	}
	return count;
}

/* Nothing is left in a CM but its listeners. */
static void check_empty(struct callers *c, int seed)
{
	for (unsigned int i = 0; i < c->world.count; i++) {
		struct cm *cm = c->world.nodes[i].hca->cm;
		struct cm_id *id;

		DL_FOREACH (cm->all, id) {
			must_msg(id->state == CM_STATE_LISTEN, "seed %d: id in state %d is left",
				 seed, id->state);
		}
		must(!cm->by_id && !cm->by_qp && !c->world.nodes[i].cm_queue.events);
	}
}

static void destroy_all(struct callers *c)
{
	struct caller *caller;

	LL_FOREACH (c->head, caller) {
		caller_destroy(caller);
	}
}

/* One side, the other, or both at the same time. */
static void disconnect(struct callers *c, uint64_t *random)
{
	struct caller *caller;

	LL_FOREACH (c->head, caller) {
		struct caller *other = caller->passive ? NULL : caller_peer(caller);
		unsigned int who = 1 + random_below(random, 3);
		uint64_t now = world_now(&c->world);

		if (!other || !established(caller))
			continue;
		if (who & 1)
			must(cm_send_dreq(caller->id, now) == 0);
		if (who & 2)
			must(cm_send_dreq(other->id, now) == 0);
	}
}

static void check_disconnected(struct callers *c, int seed)
{
	struct caller *caller;

	LL_FOREACH (c->head, caller) {
		int heard = caller_heard(caller, CM_EVENT_DREQ_RECEIVED) +
			    caller_heard(caller, CM_EVENT_DREP_RECEIVED) +
			    caller_heard(caller, CM_EVENT_DREQ_ERROR);
		bool was = caller_heard(caller, CM_EVENT_RTU_RECEIVED) ||
			   caller_heard(caller, CM_EVENT_REP_RECEIVED);

		must_msg(cm_id_state(caller->id) == CM_STATE_IDLE, "seed %d: state %d", seed,
			 cm_id_state(caller->id));
		must_msg(failed(caller) || !was || heard >= 1, "seed %d: not disconnected", seed);
		must_msg(heard == 0 || caller_heard(caller, CM_EVENT_TIMEWAIT_EXIT),
			 "seed %d: no end of timewait", seed);
	}
}

START_TEST(test_stress)
{
	uint64_t random = 0x1000 + _i;
	struct sim_options options = weather(&random);
	struct callers c;

	callers_create(&c, &options, _i);
	callers_listen(&c, 0, SERVICE);
	callers_listen(&c, 1, SERVICE);
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		caller_connect(&c, i % 2, (i + 1) % 2, SERVICE);
	world_run(&c.world, LONG_ENOUGH);
	/* It isn't so bad that everything fails. */
	must(count_established(&c, _i) > CONNECTIONS / 2);
	disconnect(&c, &random);
	world_run(&c.world, LONG_ENOUGH);
	check_disconnected(&c, _i);
	destroy_all(&c);
	check_empty(&c, _i);
	callers_destroy(&c);
}
END_TEST

/* Whatever is destroyed at any time, nothing is left of it, here or there. */
START_TEST(test_destroyed)
{
	uint64_t random = 0x2000 + _i;
	struct sim_options options = weather(&random);
	struct caller *caller;
	struct callers c;

	callers_create(&c, &options, _i);
	c.answer = _i % 3 == 0 ? ANSWER_NOTHING : _i % 3 == 1 ? ANSWER_ACCEPT : ANSWER_REJECT;
	c.no_rtu = _i % 5 == 0;
	callers_listen(&c, 1, SERVICE);
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		caller_connect(&c, 0, 1, SERVICE);
	for (unsigned int round = 0; round < 20; round++) {
		world_run(&c.world, random_below(&random, 5 * SECOND));
		LL_FOREACH (c.head, caller) {
			uint64_t now = world_now(&c.world);

			if (!caller->id || !random_hit(&random, 0.1))
				continue;
			if (random_hit(&random, 0.5))
				cm_send_dreq(caller->id, now);
			else
				caller_destroy(caller);
		}
	}
	destroy_all(&c);
	world_run(&c.world, LONG_ENOUGH);
	/* Requests that were still on their way when the ids were destroyed. */
	destroy_all(&c);
	world_run(&c.world, LONG_ENOUGH);
	check_empty(&c, _i);
	callers_destroy(&c);
}
END_TEST

/* Each question is answered, or ends with an error when it isn't. */
START_TEST(test_services)
{
	uint64_t random = 0x3000 + _i;
	struct sim_options options = weather(&random);
	struct caller *caller;
	struct callers c;

	callers_create(&c, &options, _i);
	callers_listen_datagram(&c, 1, SERVICE);
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		caller_resolve(&c, 0, 1, SERVICE + i % 2);
	world_run(&c.world, LONG_ENOUGH);
	LL_FOREACH (c.head, caller) {
		must_msg(cm_id_state(caller->id) == CM_STATE_IDLE, "seed %d: state %d", _i,
			 cm_id_state(caller->id));
		if (caller->passive)
			continue;
		must_msg(caller->count == 1, "seed %d: %u events", _i, caller->count);
		if (caller->events[0] == CM_EVENT_SIDR_REP_RECEIVED)
			must(caller->last.service_id == SERVICE
				     ? caller->last.status == CM_SIDR_SUCCESS
				     : caller->last.status == CM_SIDR_UNSUPPORTED);
		else
			must(caller->events[0] == CM_EVENT_SIDR_REQ_ERROR);
	}
	destroy_all(&c);
	check_empty(&c, _i);
	callers_destroy(&c);
}
END_TEST

/* A network that works for a while, and then doesn't: errors on both sides. */
START_TEST(test_cut)
{
	uint64_t random = 0x4000 + _i;
	struct sim_options options = {.latency = 1000000, .jitter = 2000000};
	struct caller *caller;
	struct callers c;

	callers_create(&c, &options, _i);
	callers_listen(&c, 1, SERVICE);
	for (unsigned int i = 0; i < CONNECTIONS; i++) {
		caller_connect(&c, 0, 1, SERVICE);
		world_run(&c.world, random_below(&random, MS));
	}
	sim_partition(c.world.sim, &c.world.nodes[1].gids.entries[0].gid, true);
	world_run(&c.world, LONG_ENOUGH);
	LL_FOREACH (c.head, caller) {
		struct caller *other = caller->passive ? NULL : caller_peer(caller);

		/* Only the last message of the three may make a difference. */
		if (!caller->passive)
			must(established(caller) || caller_heard(caller, CM_EVENT_REQ_ERROR));
		else
			must(established(caller) || caller_heard(caller, CM_EVENT_REP_ERROR));
		must(!other || !established(other) || established(caller));
		if (established(caller))
			must(cm_send_dreq(caller->id, world_now(&c.world)) == 0);
	}
	world_run(&c.world, LONG_ENOUGH);
	LL_FOREACH (c.head, caller) {
		must(cm_id_state(caller->id) == CM_STATE_IDLE);
	}
	destroy_all(&c);
	check_empty(&c, _i);
	callers_destroy(&c);
}
END_TEST

/* Thousands at once, and a server with as many ids. */
START_TEST(test_thousands)
{
	const unsigned int count = 4000;
	struct sim_options options = {.latency = 1000, .drop = 0.01};
	struct caller **active = malloc(count * sizeof(struct caller *)), *caller;
	struct callers c;
	unsigned int n = 0;

	callers_create(&c, &options, 1);
	callers_listen(&c, 1, SERVICE);
	for (unsigned int i = 0; i < count; i++) {
		active[i] = caller_connect(&c, 0, 1, SERVICE);
		if (i % 64 == 0)
			world_run(&c.world, MS);
	}
	world_run(&c.world, LONG_ENOUGH);
	LL_FOREACH (c.head, caller) {
		must(established(caller));
		n++;
	}
	must(n == 2 * count);
	for (unsigned int i = 0; i < count; i++)
		caller_destroy(active[i]);
	world_run(&c.world, LONG_ENOUGH);
	LL_FOREACH (c.head, caller) {
		must(!caller->passive || cm_id_state(caller->id) == CM_STATE_IDLE);
	}
	destroy_all(&c);
	check_empty(&c, 0);
	callers_destroy(&c);
	free(active);
}
END_TEST

#define SEEDS (SANITIZED ? 60 : 300)

int main(void)
{
	TCase *tcase = tcase_create("cm_loss");

	tcase_add_loop_test(tcase, test_stress, 0, SEEDS);
	tcase_add_loop_test(tcase, test_destroyed, 0, SEEDS);
	tcase_add_loop_test(tcase, test_services, 0, SEEDS);
	tcase_add_loop_test(tcase, test_cut, 0, SEEDS);
	tcase_add_test(tcase, test_thousands);
	return world_main("cm_loss", (TCase *[]){tcase, NULL});
}
