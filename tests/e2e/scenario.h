/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two processes do, by name: each side runs the same function, and
 * pair->server tells it which side it is. A function opens the pair with what it
 * needs and closes it.
 */
#ifndef URXE_TESTS_E2E_SCENARIO_H
#define URXE_TESTS_E2E_SCENARIO_H

#include "pair.h"

struct scenario {
	const char *name;
	void (*run)(struct pair *pair);
};

/* Ended by an entry without a name. */
extern const struct scenario scenarios_data[], scenarios_datagram[], scenarios_error[],
	scenarios_flush[], scenarios_queue[], scenarios_multicast[], scenarios_migration[],
	scenarios_exp[], scenarios_memory[], scenarios_ofa[];

#endif
