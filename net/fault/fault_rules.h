/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of the fault filter: reading them (the language is described in
 * net/fault/fault.h), and judging packets by them. Called by net/fault/fault with its lock
 * held; a specification may also be read only to check it (verbs/configuration.c).
 */
#ifndef URXE_NET_FAULT_RULES_H
#define URXE_NET_FAULT_RULES_H

#include <infiniband/verbs.h>

#include "net/wire/wire.h"

#define OPCODE_UNKNOWN (-1)

enum direction { SENT, RECEIVED };

struct rule;

struct fault_rules {
	char *specification;
	struct rule *rules;
	unsigned int count;
};

/* What a rule can tell packets by. */
struct flow {
	union ibv_gid source, destination;
	int opcode; /* may be OPCODE_UNKNOWN */
	uint32_t qpn;
};

/* What is to become of a packet: everything that the rules that hit it say. */
struct verdict {
	bool drop, duplicate, reorder, corrupt, mark;
	uint64_t delay;
	uint64_t random; /* which bit to flip */
	uint64_t
		hits; /* the rules that said so, a bit each: of the first 64, without @duplicates */
	uint64_t duplicates; /* those that say duplicate: they hit the copy, not the original */
};

/* Returns 0 or an errno; with EINVAL, *@error is the place in @specification. */
int fault_rules_read(struct fault_rules *rules, const char *specification, const char **error);
void fault_rules_destroy(struct fault_rules *rules);

/* Show a packet to every rule. */
struct verdict fault_rules_judge(struct fault_rules *rules, enum direction direction,
				 const struct flow *flow);

/*
 * Write what the rules @hits did to a packet: "dropped by drop#2/RC_SEND", or several such with
 * commas. As snprintf() does.
 */
int fault_rules_describe(const struct fault_rules *rules, uint64_t hits, char *text, size_t size);

/* Tell in the log how often each rule hit. */
void fault_rules_report(const struct fault_rules *rules);

#endif
