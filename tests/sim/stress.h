/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random traffic with a model of what must come of it. A flow is one direction
 * of one RC connection: random operations of random lengths, several at a time,
 * posted in lists, some unsignaled, some inline, scattered over SGEs; receives
 * posted sometimes too late. The model asserts:
 *
 *   - every send completes once, in the order of posting, with success
 *   - every receive completes once, in order, with the length, the immediate
 *     and the bytes of its message
 *   - the bytes of every WRITE, ATOMIC WRITE and READ are there when it completes
 *   - every atomic has been executed exactly once: the values returned count
 *   - memory windows are bound and invalidated once each, in order
 *   - nothing is left at the end: no work, nothing in flight, no region held
 */
#ifndef URXE_TESTS_SIM_STRESS_H
#define URXE_TESTS_SIM_STRESS_H

#include "world.h"

#define STRESS_DEPTH 8 /* operations of a flow under way at once */
#define STRESS_SGES 3

struct stress_options {
	uint32_t operations; /* of each flow */
	uint32_t max_length;
	double late; /* probability that a receive isn't posted in time */
	struct connection connection;
	bool random_connection; /* draw MTU, PSNs, depths from the seed instead */
};

struct flow;
struct stress_qp;

struct stress {
	struct world *world;
	struct stress_options options;
	struct flow *flows;
	unsigned int flow_count, flow_capacity;
	struct stress_qp *qps;		     /* uthash, by node and number */
	void (*step)(struct stress *stress); /* called every round; or NULL */
	void *context;			     /* the test's */
};

void stress_create(struct stress *stress, struct world *world,
		   const struct stress_options *options);
/* One connection between @a and @b with a flow each way. */
void stress_connect(struct stress *stress, struct node *a, struct node *b);
/* The QP that flow @number sends on: two a connection, one each way. */
struct qp *stress_sender(const struct stress *stress, unsigned int number);
/* Until every flow is done; fails the test when that takes longer than @limit. */
void stress_run(struct stress *stress, uint64_t limit);
/* Asserts that nothing is left. */
void stress_destroy(struct stress *stress);

#endif
