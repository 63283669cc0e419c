/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The faults that are not about packets: calls that are refused, completions with a status or
 * later, events, a link that is down, a device that is removed, requests for connections that are
 * rejected, completion events. Deterministic: each clause of the specification
 * (net/fault/fault_clause.h, urxe-faults(7)) counts what it is shown and draws from its own stream.
 *
 * A process has one (verbs/registry.h), which the calls ask (verbs/hooks.c) and each HCA
 * (hca_options.injector); a simulation may have one per HCA, or none: all questions can be asked of
 * NULL. Its specification can be replaced at any time; fault links (net/fault/fault.h) follow.
 *
 * While there is no clause of an action, its question is a load and a branch. Any thread asks, with
 * any lock held: injector.lock is a leaf. What happened is reported by the code that makes it
 * happen, with the clause's text from struct fault_hit.
 */
#ifndef URXE_NET_FAULT_INJECTOR_H
#define URXE_NET_FAULT_INJECTOR_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/clock.h"
#include "net/fault/calls.h"
#include "net/fault/fault_clause.h"

struct fault_rules;

struct injector {
	_Atomic uint32_t actions;    /* a bit for each enum fault_action that has a clause */
	_Atomic uint32_t generation; /* of the specification */
	_Atomic uint64_t deadline;   /* when injector_due() has a fault, or has to begin */
	pthread_mutex_t lock;	     /* of the rest: */
	struct fault_clauses clauses;
	uint64_t start; /* of @TIME: when injector_due() was first asked; TIME_NEVER: not yet */
};

#define INJECTOR_INITIALIZER                                                                       \
	{                                                                                          \
		.deadline = TIME_NEVER, .lock = PTHREAD_MUTEX_INITIALIZER, .start = TIME_NEVER     \
	}

/* A clause that hits: what is to happen. */
#define FAULT_HIT_TEXT 96

struct fault_hit {
	enum fault_action action;
	uint64_t argument; /* of struct fault_clause */
	uint32_t qpn;	   /* of an event: the QP that it is about; 0: any */
	uint64_t count;	   /* it was the count-th that the clause matches; 0: it was time */
	char clause[FAULT_HIT_TEXT];
};

/* --- The specification ------------------------------------------------------------------ */

void injector_init(struct injector *injector);
void injector_destroy(struct injector *injector);

/*
 * Replace the specification, "" for none; all counts and times begin anew. 0, ENOMEM, or EINVAL
 * with *@error (which may be NULL); then everything stays as it was. An HCA that sleeps has to be
 * woken for its new deadline.
 */
int injector_set(struct injector *injector, const char *specification, struct fault_error *error);

/* Read what it says of packets, with its generation. 0 or ENOMEM. */
int injector_read_rules(struct injector *injector, struct fault_rules *rules, uint32_t *generation);

/*
 * Show all clauses that are not about packets, with injector.lock held. What those about packets
 * hit, each link counts for itself.
 */
void injector_for_each(struct injector *injector,
		       void (*show)(void *context, const struct fault_clause *clause),
		       void *context);
/* At the end of the process: log how often each of them hit. */
void injector_report(struct injector *injector);

static inline bool injector_has(const struct injector *injector, enum fault_action action)
{
	return injector &&
	       atomic_load_explicit(&injector->actions, memory_order_relaxed) & 1u << action;
}

/* --- Questions ---------------------------------------------------------------------------- */

/* Asked whether @injector has a clause of @action; others are the next functions. */
bool injector_ask(struct injector *injector, enum fault_action action, unsigned int name,
		  uint32_t qpn, struct fault_hit *hit);
bool injector_count_message(struct injector *injector, const void *hca, unsigned int work,
			    uint32_t qpn);
bool injector_find_due(struct injector *injector, const void *hca, uint64_t now,
		       struct fault_hit *hit);
/* @hca is being destroyed: what is due to it never comes. */
void injector_forget(struct injector *injector, const void *hca);

/* Before a call is made: the errno that it fails with, or 0. */
static inline int injector_call(struct injector *injector, enum fault_call call,
				struct fault_hit *hit)
{
	if (!injector_has(injector, ACTION_FAIL) ||
	    !injector_ask(injector, ACTION_FAIL, call, 0, hit))
		return 0;
	return hit->argument ? (int)hit->argument : fault_call_error(call);
}

/*
 * Once for each work request, @work is its opcode (enum ibv_wr_opcode) or FAULT_WORK_RECV, @qpn its
 * own QP: the status that it completes with instead, or IBV_WC_SUCCESS.
 */
static inline enum ibv_wc_status injector_complete(struct injector *injector, unsigned int work,
						   uint32_t qpn, struct fault_hit *hit)
{
	if (!injector_has(injector, ACTION_COMPLETE) ||
	    !injector_ask(injector, ACTION_COMPLETE, work, qpn, hit))
		return IBV_WC_SUCCESS;
	return (enum ibv_wc_status)hit->argument;
}

/* Likewise: by how many nanoseconds its completion is late, or 0. */
static inline uint64_t injector_late(struct injector *injector, unsigned int work, uint32_t qpn,
				     struct fault_hit *hit)
{
	if (!injector_has(injector, ACTION_LATE) ||
	    !injector_ask(injector, ACTION_LATE, work, qpn, hit))
		return 0;
	return hit->argument;
}

/*
 * A work request of @hca has completed, @work and @qpn as above. When true, injector_due() has
 * something for this HCA: have a thread call hca_progress() soon. (Events aren't raised here: the
 * caller holds the lock of a QP.)
 */
static inline bool injector_message(struct injector *injector, const void *hca, unsigned int work,
				    uint32_t qpn)
{
	const uint32_t any = 1u << ACTION_EVENT | 1u << ACTION_DOWN | 1u << ACTION_REMOVE;

	return injector && atomic_load_explicit(&injector->actions, memory_order_relaxed) & any &&
	       injector_count_message(injector, hca, work, qpn);
}

/*
 * In each round of @hca, until false: ACTION_EVENT, ACTION_DOWN or ACTION_REMOVE, that is due by
 * its time or after a message. What is due by its time happens once, to the HCA that asks first.
 */
static inline bool injector_due(struct injector *injector, const void *hca, uint64_t now,
				struct fault_hit *hit)
{
	return injector && now >= atomic_load_explicit(&injector->deadline, memory_order_relaxed) &&
	       injector_find_due(injector, hca, now, hit);
}

/* When injector_due() wants to be asked next, or TIME_NEVER. */
static inline uint64_t injector_deadline(const struct injector *injector)
{
	return injector ? atomic_load_explicit(&injector->deadline, memory_order_relaxed)
			: TIME_NEVER;
}

/* A REQ or REP has arrived (enum cm_attribute): the reason it is rejected for, or 0. */
static inline unsigned int injector_cm(struct injector *injector, uint16_t attribute,
				       struct fault_hit *hit)
{
	if (!injector_has(injector, ACTION_REJECT) ||
	    !injector_ask(injector, ACTION_REJECT, attribute, 0, hit))
		return 0;
	return hit->argument;
}

/*
 * A step of librdmacm has succeeded that @event can come in the place of (or behind, for
 * ADDR_CHANGE): whether it comes.
 */
static inline bool injector_cm_event(struct injector *injector, enum fault_cm_event event,
				     struct fault_hit *hit)
{
	return injector_has(injector, ACTION_CM_EVENT) &&
	       injector_ask(injector, ACTION_CM_EVENT, event, 0, hit);
}

/* An armed completion queue gets a completion: its event waits until there are so many; 0: one. */
static inline unsigned int injector_coalesce(struct injector *injector, struct fault_hit *hit)
{
	if (!injector_has(injector, ACTION_COALESCE) ||
	    !injector_ask(injector, ACTION_COALESCE, 0, 0, hit))
		return 0;
	return hit->argument;
}

/* A completion queue is being armed: whether an event comes of it though nothing completed. */
static inline bool injector_spurious(struct injector *injector, struct fault_hit *hit)
{
	return injector_has(injector, ACTION_SPURIOUS) &&
	       injector_ask(injector, ACTION_SPURIOUS, 0, 0, hit);
}

#endif
