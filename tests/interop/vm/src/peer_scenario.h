/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two processes do, by name, once they have a pair. Then they wait for each other. */
#ifndef URXE_INTEROP_PEER_SCENARIO_H
#define URXE_INTEROP_PEER_SCENARIO_H

#include "peer_pair.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
/* The options of scenarios whose packets are lost on the way: a timeout of 0.13 s. */
#define LOSSY .timeout = 15

struct scenario {
	const char *name;
	struct pair_options options;
	void (*responder)(struct pair *pair);
	void (*requester)(struct pair *pair);
};

/* Ended by an entry without a name. */
extern const struct scenario scenarios_messages[], scenarios_memory[], scenarios_errors[];

#endif
