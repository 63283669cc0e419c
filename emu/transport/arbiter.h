/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arbiter: which of the queue pairs that send to one destination gets the next bytes of its
 * congestion window. Queue pairs that find no space wait in order; while some do, none of the
 * others gets more than an equal share; and one that needs more space than the others leave it
 * has the window drained for it at last.
 *
 * Belongs to a destination (emu/transport/destination.h), under its lock.
 */
#ifndef URXE_EMU_ARBITER_H
#define URXE_EMU_ARBITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cwnd;
struct qp;

/* A queue pair's part in it. */
struct arbiter_member {
	struct qp *qp;
	uint64_t in_flight; /* bytes of this queue pair in the window; under qp.lock */
	uint64_t window;    /* all of it, bytes, when this one asked last; under qp.lock */
	bool alone;	    /* no other one waited then; under qp.lock */
	bool waiting;	    /* in the list; this and the rest under the destination's lock */
	_Atomic bool woken; /* scheduled, to ask again; read without the lock */
	uint8_t skipped;    /* how often the space was too small since it last sent */
	struct arbiter_member *prev, *next;
};

struct arbiter {
	struct arbiter_member *head; /* those that wait, in order; utlist */
	uint32_t waiting;	     /* how many */
};

/*
 * How many of @count packets of @cost bytes @member may put into @cwnd now. If none, it waits
 * from now on; so too if there is only space for a few, for a call that sends a packet or two
 * costs as much as one that sends many.
 */
uint32_t arbiter_grant(struct arbiter *arbiter, const struct cwnd *cwnd,
		       struct arbiter_member *member, uint64_t cost, uint32_t count);

/* @member waits, if only for the pacer: so it keeps its share of the window meanwhile. */
void arbiter_wait(struct arbiter *arbiter, struct arbiter_member *member);

/*
 * Schedule as many of those that wait as there is space for. One that then has nothing to send, and
 * so doesn't ask, has to be taken off (arbiter_forget()).
 */
void arbiter_wake(struct arbiter *arbiter, const struct cwnd *cwnd);

/* @member doesn't wait any more: it has nothing to send, or is being destroyed. */
void arbiter_forget(struct arbiter *arbiter, struct arbiter_member *member);

#endif
