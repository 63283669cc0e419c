/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of packets: a filter around a link that drops, duplicates, reorders, delays, corrupts
 * and marks (RFC 3168) packets, by rate or at the n-th match, from a seed. Deterministic
 * for the same seed and the same packets. Called like any link. Of a specification
 * (urxe-faults(7), net/fault/fault_clause.h) it does what is about packets.
 */
#ifndef URXE_NET_FAULT_H
#define URXE_NET_FAULT_H

#include "net/fault/fault_clause.h"
#include "net/link.h"

struct injector;

/*
 * Wrap @inner, which then belongs to the wrapper. Returns 0 and *@link, or ENOMEM, or
 * EINVAL for a specification that can't be read (see fault_clauses_read()).
 */
int fault_link_create(struct link *inner, const char *specification, struct link **link,
		      struct fault_error *error);

/*
 * The same with the specification that @injector has, at any time. As long as it has had none
 * about packets, they pass the wrapper untouched.
 */
int fault_link_follow(struct link *inner, struct injector *injector, struct link **link);

/* Show all clauses that are about packets. @link is one of the above. */
void fault_link_for_each(struct link *link,
			 void (*show)(void *context, const struct fault_clause *clause),
			 void *context);

/*
 * At the end of a process that leaves the link open: log how often each rule hit, as closing it
 * does. A thread that had the lock may be gone; then nothing is logged.
 */
void fault_link_report(struct link *link);

#endif
