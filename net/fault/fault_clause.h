/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The language of faults (URXE_FAULTS, --faults, urxe ctl; urxe-faults(7) describes it): a
 * specification becomes a list of clauses ACTION WHEN MATCH, which are numbers, sets and masks, and
 * count what they match and hit.
 *
 * Two modules act by them: net/fault/fault_rules on packets, net/fault/injector on everything
 * else; each is shown all clauses and ignores the other's. They hold their own locks; there is none
 * here. A specification may also be read only to check it (verbs/configuration.c, urxe).
 */
#ifndef URXE_NET_FAULT_CLAUSE_H
#define URXE_NET_FAULT_CLAUSE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "net/fault/fault_words.h"

enum fault_action {
	ACTION_DROP,
	ACTION_DUPLICATE,
	ACTION_REORDER,
	ACTION_CORRUPT,
	ACTION_MARK,
	ACTION_DELAY,
	ACTION_FAIL,
	ACTION_COMPLETE,
	ACTION_LATE,
	ACTION_EVENT,
	ACTION_DOWN,
	ACTION_REMOVE,
	ACTION_REJECT,
	ACTION_CM_EVENT,
	ACTION_COALESCE,
	ACTION_SPURIOUS,
	ACTIONS,
};

/* What a clause is shown, and counts. */
enum fault_subject {
	SUBJECT_PACKET,
	SUBJECT_CALL,	 /* of the application's; names: enum fault_call */
	SUBJECT_WORK,	 /* a work request that is to complete; names: fault_works */
	SUBJECT_MESSAGE, /* one that has completed, likewise */
	SUBJECT_REQUEST, /* a REQ or REP that arrives; names: enum cm_attribute */
	SUBJECT_STEP,	 /* of librdmacm's that succeeds; names: enum fault_cm_event */
	SUBJECT_CQ,	 /* a completion queue that gets a completion event, or is armed for one */
};

enum fault_when {
	WHEN_RATE,
	WHEN_NTH,
	WHEN_ONWARD, /* the N-th and all after it */
	WHEN_EVERY,  /* every N-th */
	WHEN_TIME,
	WHEN_ALWAYS, /* a clause that doesn't say */
};

enum direction { SENT, RECEIVED };

struct fault_clause {
	enum fault_action action;
	/*
	 * By the action: nanoseconds, an errno (0: that of the call), enum ibv_wc_status, enum
	 * ibv_event_type, enum cm_reject_reason, a count.
	 */
	uint64_t argument;

	enum fault_when when;
	double rate;
	uint64_t number; /* N, or the time in nanoseconds */

	/* What matches. */
	enum direction direction;
	bool any_name, any_qp, any_address;
	struct fault_set names;
	uint32_t qpn;
	union ibv_gid address;

	/* State */
	uint64_t random; /* of its stream: each clause draws from its own */
	uint64_t matches, hits;
	/* Of the injector: hits that injector_due() has yet to report, and the last message hit. */
	uint64_t pending;
	uint64_t due_number;
	const void *due_hca;
	uint32_t due_qpn;

	const char *text; /* in the list's copy of the specification */
	int text_length;
};

struct fault_clauses {
	char *specification;
	struct fault_clause *list;
	unsigned int count;
};

/* Where a specification can't be read, and what could have been read there instead. */
struct fault_error {
	const char *place;
	const char *expected; /* "an errno, such as ENOMEM" */
};

/* Returns 0, ENOMEM, or EINVAL with *@error, which may be NULL. */
int fault_clauses_read(struct fault_clauses *clauses, const char *specification,
		       struct fault_error *error);
/* A line about @name, which can't be read; the caller frees it. NULL without memory. */
char *fault_error_text(const struct fault_error *error, const char *name);
void fault_clauses_destroy(struct fault_clauses *clauses);

enum fault_subject fault_clause_subject(const struct fault_clause *clause);

/* Something that @clause matches: whether it hits. Counts both. */
bool fault_clause_hits(struct fault_clause *clause);

/* How often it hit: "drop#2: 1 of 40 packets". As snprintf() does. */
int fault_clause_describe(const struct fault_clause *clause, char *text, size_t size);
/* Log that. */
void fault_clause_report(const struct fault_clause *clause);

#endif
