/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of the fault filter: the clauses of a specification that are about packets
 * (net/fault/fault_clause.h), and judging packets by them. Called by net/fault/fault with its
 * lock held.
 */
#ifndef URXE_NET_FAULT_RULES_H
#define URXE_NET_FAULT_RULES_H

#include <infiniband/verbs.h>

#include "net/fault/fault_clause.h"

#define OPCODE_UNKNOWN (-1)

struct fault_rules {
	struct fault_clauses clauses;
	bool any[2];	 /* of them is about packets: by direction */
	bool by_message; /* one is about messages of the connection manager: flow.message is wanted
			  */
};

/* What a rule can tell packets by. */
struct flow {
	union ibv_gid source, destination;
	int opcode; /* may be OPCODE_UNKNOWN */
	uint32_t qpn;
	uint16_t message; /* enum cm_attribute, or 0 */
};

/* What is to become of a packet: everything that the rules that hit it say. */
struct verdict {
	bool drop, duplicate, reorder, corrupt, mark;
	uint64_t delay;
	uint64_t random; /* which bit to flip */
	/*
	 * The rules that said so, a bit each, of the first 64; those that say duplicate are apart,
	 * as they hit the copy.
	 */
	uint64_t hits, duplicates;
};

/* As fault_clauses_read(). */
int fault_rules_read(struct fault_rules *rules, const char *specification,
		     struct fault_error *error);
void fault_rules_destroy(struct fault_rules *rules);

/* Show a packet to every rule. */
struct verdict fault_rules_judge(struct fault_rules *rules, enum direction direction,
				 const struct flow *flow);

/*
 * Write what the rules @hits did to a packet: "dropped by drop#2/RC_SEND", or several such with
 * commas. As snprintf() does.
 */
int fault_rules_describe(const struct fault_rules *rules, uint64_t hits, char *text, size_t size);

/* Log how often each rule hit. */
void fault_rules_report(const struct fault_rules *rules);

#endif
