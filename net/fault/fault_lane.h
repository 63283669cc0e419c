/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the fault filter holds back of one direction: packets that are delayed, and packets that
 * wait for a later one of their flow to overtake them. Called by net/fault/fault with its lock
 * held.
 */
#ifndef URXE_NET_FAULT_LANE_H
#define URXE_NET_FAULT_LANE_H

#include "net/fault/fault_rules.h"
#include "net/link.h"

/* Rules of the fault filter, to be noted with what they did. */
struct rule_hits {
	uint64_t rules;	     /* a bit each, as in struct verdict */
	uint32_t generation; /* fault_link.generation: of other rules they say nothing */
};

/* A deep copy: of a packet to send, or of a frame received. */
struct held {
	uint64_t due;
	struct flow flow;
	struct path path;
	struct iovec payload;
	struct link_packet packet;
	struct link_frame frame;
	struct rule_hits hits; /* of a packet to send */
	struct held *prev, *next;
	uint32_t space; /* for bytes */
	uint8_t bytes[];
};

/*
 * Space for @length bytes, of those that were kept in @spare, or NULL without memory: what was held
 * once is used again, for a signal handler of the application may allocate memory (perftest's timer
 * does so), which must not find its thread in malloc() where a device would have none.
 */
struct held *held_get(struct held **spare, uint32_t length);
/* It is no longer held: its memory may be used again. The same for all of @list. */
void held_put(struct held **spare, struct held *held);
void held_put_all(struct held **spare, struct held **list);
/* Free all of @list. */
void held_free(struct held **list);

struct lane {
	struct held *delayed; /* by due time */
	struct held *swapped; /* waiting to be overtaken */
};

void lane_delay(struct lane *lane, struct held *held, uint64_t due);
void lane_swap(struct lane *lane, struct held *held, uint64_t now);

/* The packet that one of @flow overtakes, or NULL. */
struct held *lane_find_swapped(struct lane *lane, const struct flow *flow);

/* Move up to @max that are due to the end of @list. */
void lane_take_due(struct lane *lane, uint64_t now, struct held **list, unsigned int max);
/* When the next one is due, or TIME_NEVER. */
uint64_t lane_deadline(const struct lane *lane);

#endif
