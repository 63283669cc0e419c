/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault filter's own: what sending (fault_send) and receiving (fault_receive) share.
 *
 * The lock protects the rules and the lanes; it is not held while the inner link sends or
 * receives. @lent belongs to receive(), which is called by one thread at a time.
 */
#ifndef URXE_NET_FAULT_LINK_H
#define URXE_NET_FAULT_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/fault/fault_lane.h"
#include "net/fault/fault_rules.h"
#include "net/fault/injector.h"
#include "net/link.h"
#include "net/wire/wire.h"

struct fault_link {
	struct link link;
	struct link *inner;
	struct injector *injector;   /* whose specification the rules are of; NULL: they stay */
	_Atomic uint32_t generation; /* that it had when they were read; stored behind @filters */
	_Atomic bool filters;	     /* there is or was a rule */
	pthread_mutex_t lock;
	struct lane lanes[2];
	struct held *lent;  /* copies given out by the last receive() */
	struct held *spare; /* memory for others; under the lock */
	struct fault_rules rules;
};

static inline void fault_note_loss(struct fault_link *fault)
{
	if (atomic_load_explicit(&fault->inner->lost, memory_order_relaxed))
		atomic_store(&fault->link.lost, true);
}

/* Read the specification that the injector has now, unless that has been done. */
void fault_read_rules(struct fault_link *fault);

static inline bool fault_rules_are_current(const struct fault_link *fault)
{
	return atomic_load_explicit(&fault->injector->generation, memory_order_relaxed) ==
	       atomic_load_explicit(&fault->generation, memory_order_acquire);
}

/* Whether packets pass untouched, and without the lock: there has been no rule. */
static inline bool fault_is_idle(struct fault_link *fault)
{
	if (fault->injector && !fault_rules_are_current(fault))
		fault_read_rules(fault);
	return !atomic_load_explicit(&fault->filters, memory_order_relaxed);
}

static inline struct bth bth_of(const uint8_t *data, uint32_t length)
{
	struct bth bth = {};

	memcpy(&bth, data, length < sizeof(bth) ? length : sizeof(bth));
	return bth;
}

/*
 * Filled in place. A struct that is returned is copied in larger pieces than it was written in,
 * which a CPU waits for: half the time that a verdict takes.
 */
void fault_flow(struct flow *flow, const union ibv_gid *source, const union ibv_gid *destination,
		const uint8_t *data, uint32_t length);
/* The message of the connection manager that the payload of a packet of @flow is, or 0. */
uint16_t fault_cm_message(const struct flow *flow, const uint8_t *mad, uint32_t length);

/* The rules @hits, of those that there are, hit the packet captured at @captured. With the lock. */
void fault_note(const struct fault_link *fault, enum direction direction, uint64_t captured,
		const struct bth *bth, uint64_t hits);

/* Send all of @list, which is empty then. Without the lock. */
void fault_send_held(struct fault_link *fault, struct held **list, uint64_t now);

/* link_ops */
unsigned int fault_link_send(struct link *link, struct link_packet *packets, unsigned int count,
			     uint64_t now);
unsigned int fault_link_receive(struct link *link, struct link_frame *frames, unsigned int max,
				uint64_t now);

#endif
