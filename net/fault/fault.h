/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults: a filter around a link that drops, duplicates, reorders, delays, corrupts
 * and marks (RFC 3168) packets, by rate or at the n-th match, from a seed. Deterministic
 * for the same seed and the same packets. Called like any link.
 *
 * The specification is a list of clauses separated by ';' or ',' (URXE_FAULTS):
 *
 *   seed=N                        (default 1)
 *   ACTION=RATE[MATCH]            RATE is a percentage ("1%") or a probability below 1 ("0.01")
 *   ACTION#N[MATCH]               the N-th matching packet, counted from 1, once
 *   ACTION#N+[MATCH]              that and all after it
 *   ACTION:   drop | dup | reorder | corrupt | mark | delay(TIME)   TIME: 500us, 2ms
 *   MATCH:    @tx | @rx           direction (default @tx)
 *             /OPCODE             a name of the opcode table, or a prefix of it ("RC_SEND")
 *             >QPN                destination QP number
 *             [ADDRESS]           from or to this IP address
 *
 *   "seed=7;drop=1%;dup=0.5%;reorder=0.5%"      "drop#3/RC_ACKNOWLEDGE@rx"
 */
#ifndef URXE_NET_FAULT_H
#define URXE_NET_FAULT_H

#include "net/link.h"

/*
 * Wrap @inner, which then belongs to the wrapper. Returns 0 and *@link, or
 * EINVAL for a specification that can't be read (with its place in *@error,
 * a pointer into @specification).
 */
int fault_link_create(struct link *inner, const char *specification, struct link **link,
		      const char **error);

#endif
