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
 *
 * The receives may be those of an SRQ, which the flows to a node share: then each is filled by one
 * message, in the order of the flow. A connection may be reset and made anew.
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
	uint8_t least_timeout;	/* then the smallest local ACK timeout, instead of 8 */
	bool srq;
};

struct flow;
struct stress_qp;
struct stress_srq;

struct stress {
	struct world *world;
	struct stress_options options;
	struct flow *flows;
	unsigned int flow_count, flow_capacity;
	struct stress_qp *qps;		     /* uthash, by node and number */
	struct stress_srq *srqs;	     /* one per node, if there are any */
	bool ended;			     /* a QP failed, and that was expected */
	void (*step)(struct stress *stress); /* called every round; or NULL */
	/* Asserts that what isn't a success had to come; or NULL, when nothing may fail. */
	void (*failed)(struct stress *stress, struct qp *qp, const struct ibv_wc *wc);
	void (*connected)(struct stress *stress, struct qp *qp); /* or NULL */
	void *context;						 /* the test's */
};

void stress_create(struct stress *stress, struct world *world,
		   const struct stress_options *options);
/* One connection between @a and @b with a flow each way. */
void stress_connect(struct stress *stress, struct node *a, struct node *b);
/*
 * Reset the connection that flow @number is of, and connect it again: what wasn't completed never
 * was. For @rest ns nothing is posted before that: so long packets may still come.
 */
void stress_reconnect(struct stress *stress, unsigned int number, uint64_t rest);
/* The QP that flow @number sends on: two a connection, one each way. */
struct qp *stress_sender(const struct stress *stress, unsigned int number);
/* Until every flow is done or one failed; fails the test when that takes longer than @limit. */
void stress_run(struct stress *stress, uint64_t limit);
/* Asserts that nothing is left. */
void stress_destroy(struct stress *stress);

#endif
