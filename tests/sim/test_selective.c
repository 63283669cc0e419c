/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random traffic over random paths, between HCAs that keep what arrives behind a gap and HCAs that
 * drop it, each way: what must come of it (stress.h), and what each packet must be (tap.h). The
 * number of the iteration is the seed, from which all follows; URXE_TEST_SEEDS=FIRST-LAST in the
 * environment runs others than the ones that are run always.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "net/random.h"
#include "stress.h"
#include "tap.h"
#include "tests/sanitizers.h"
#include "tests/seeds.h"

#define US UINT64_C(1000)

/* One of an array's elements. */
#define ONE_OF(random, array) (array)[random_below(random, sizeof(array) / sizeof((array)[0]))]

struct plan {
	struct sim_options network;
	struct tap_options taps;
	struct stress_options stress;
	unsigned int connections;
	bool receives_in_time;
	bool drops[2];	 /* the node drops what arrives behind a gap */
	bool drains;	 /* QPs go to SQD and back */
	bool reconnects; /* connections are reset and made anew */
};

struct run {
	struct plan plan;
	uint64_t random;
	struct world world;
	struct stress stress;
	struct tap *taps[2];
	struct {
		struct qp *qp; /* in SQD; NULL: none */
		unsigned int rounds;
	} draining;
	unsigned int reconnects; /* left */
};

/* --- from a seed ------------------------------------------------------------------------- */

static const uint64_t delays[] = {0, 20 * US, 1 * MS, 20 * MS};
static const double losses[] = {0, 0.001, 0.01, 0.05, 0.2};
static const double bursts[] = {0, 0, 0.0005, 0.005};
static const double reorderings[] = {0, 0.01, 0.1};
static const double duplications[] = {0, 0, 0.01, 0.1};
static const double corruptions[] = {0, 0, 0.005};
static const uint32_t queues[] = {0, 0, 208 << 10};

static const struct {
	uint32_t operations, max_length;
} traffic[] = {{60, 200}, {50, 3000}, {25, 30000}, {10, 150000}};

static void draw_path(struct plan *plan, uint64_t *random)
{
	uint64_t delay = ONE_OF(random, delays);
	struct sim_options *n = &plan->network;

	n->latency = delay;
	n->jitter = random_below(random, 2) ? delay / 4 : 0;
	n->drop = ONE_OF(random, losses);
	n->reorder = ONE_OF(random, reorderings);
	n->duplicate = ONE_OF(random, duplications);
	n->corrupt = ONE_OF(random, corruptions);
	n->receive_queue = ONE_OF(random, queues);
	n->hide_ip_id = random_below(random, 2);
	plan->taps.burst = ONE_OF(random, bursts);
	plan->taps.burst_time = 2 * delay + 100 * US;
	/* At least two round trips, with all that is added to them. */
	plan->stress.least_timeout = 8;
	while ((UINT64_C(4096) << plan->stress.least_timeout) < 10 * delay)
		plan->stress.least_timeout++;
}

static void draw_plan(struct plan *plan, uint64_t *random)
{
	unsigned int kind = random_below(random, sizeof(traffic) / sizeof(traffic[0]));

	*plan = (struct plan){.connections = 1 + random_below(random, 3)};
	draw_path(plan, random);
	plan->stress.random_connection = true;
	plan->stress.operations = traffic[kind].operations;
	plan->stress.max_length = traffic[kind].max_length;
	plan->stress.srq = random_below(random, 3) == 0;
	plan->stress.late = random_below(random, 2) ? 0 : 0.3;
	plan->receives_in_time = plan->stress.late == 0 && !plan->stress.srq;
	plan->drops[0] = random_below(random, 3) == 0;
	plan->drops[1] = random_below(random, 3) == 0;
	plan->drains = random_below(random, 4) == 0;
	/* A receive of an SRQ that a message had taken would be gone. */
	plan->reconnects = !plan->stress.srq && random_below(random, 4) == 0;
}

/* --- what happens meanwhile --------------------------------------------------------------- */

static void on_connected(struct stress *stress, struct qp *qp)
{
	struct run *run = stress->context;

	tap_connected(run->taps[world_node(qp) - run->world.nodes], qp);
}

/* Each try was lost, or its answer was. A NAK that the network doubles counts twice. */
static void on_failed(struct stress *stress, struct qp *qp, const struct ibv_wc *wc)
{
	struct run *run = stress->context;
	const struct plan *plan = &run->plan;
	unsigned int attempts = tap_attempts(run->taps[world_node(qp) - run->world.nodes], qp);

	must_msg(wc->status == IBV_WC_RETRY_EXC_ERR, "completion %" PRIu64 " has status %d",
		 wc->wr_id, wc->status);
	must_msg(plan->network.drop >= 0.05, "retries are exhausted with a loss of %f",
		 plan->network.drop);
	must_msg(attempts + (plan->network.duplicate > 0) >= qp->attr.retry_cnt,
		 "retries are exhausted after %u attempts", attempts);
}

static void drain(struct run *run)
{
	struct qp *qp = run->draining.qp;

	if (!qp && random_below(&run->random, 50) == 0) {
		qp = stress_sender(&run->stress,
				   random_below(&run->random, 2 * run->plan.connections));
		world_modify_state(qp, IBV_QPS_SQD);
		run->draining.qp = qp;
		run->draining.rounds = random_below(&run->random, 5);
	} else if (qp && !qp->draining && run->draining.rounds-- == 0) {
		world_modify_state(qp, IBV_QPS_RTS);
		run->draining.qp = NULL;
	}
}

static void on_step(struct stress *stress)
{
	struct run *run = stress->context;
	const struct sim_options *n = &run->plan.network;

	if (run->plan.drains)
		drain(run);
	if (run->reconnects && !run->draining.qp && random_below(&run->random, 100) == 0) {
		run->reconnects--;
		stress_reconnect(stress, 2 * random_below(&run->random, run->plan.connections),
				 8 * (n->latency + n->jitter) + MS);
	}
}

/* --- a run ---------------------------------------------------------------------------------- */

static void run_create(struct run *run, uint64_t seed)
{
	*run = (struct run){.random = seed * 0x9e3779b97f4a7c15};
	draw_plan(&run->plan, &run->random);
	run->reconnects = run->plan.reconnects ? 2 : 0;
	world_create(&run->world, 2, &run->plan.network, seed);
	for (unsigned int i = 0; i < 2; i++) {
		struct node *node = &run->world.nodes[i];

		node->hca->behaviour.drops_out_of_order = run->plan.drops[i];
		run->plan.taps.keeps = run->plan.receives_in_time && !run->plan.drops[i];
		run->taps[i] = tap_create(node, &run->plan.taps);
	}
	stress_create(&run->stress, &run->world, &run->plan.stress);
	run->stress.context = run;
	run->stress.step = on_step;
	run->stress.connected = on_connected;
	run->stress.failed = on_failed;
	for (unsigned int i = 0; i < run->plan.connections; i++)
		stress_connect(&run->stress, &run->world.nodes[0], &run->world.nodes[1]);
}

static void run_destroy(struct run *run)
{
	if (run->draining.qp && !run->stress.ended)
		world_modify_state(run->draining.qp, IBV_QPS_RTS);
	stress_destroy(&run->stress);
	for (unsigned int i = 0; i < 2; i++)
		tap_destroy(run->taps[i]);
	world_destroy(&run->world);
}

START_TEST(random_paths)
{
	struct run run;

	run_create(&run, _i);
	stress_run(&run.stress, 100000 * SECOND);
	if (run.stress.ended && getenv("URXE_TEST_SEEDS"))
		fprintf(stderr, "seed %d: lost more often than there are retries\n", _i);
	run_destroy(&run);
}
END_TEST

int main(void)
{
	TCase *paths = tcase_create("paths");
	struct seeds seeds = {1, SANITIZED ? 40 : 250};

	seeds_read(&seeds);
	tcase_add_loop_test(paths, random_paths, seeds.first, seeds.last + 1);
	return world_main("selective", (TCase *const[]){paths, NULL});
}
