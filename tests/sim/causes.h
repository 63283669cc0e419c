/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of causes (net/cause): a table whose rows provoke each a failure, and say what the
 * completions of both sides and the reports on stderr are. Every entry of the catalogue in a range
 * of numbers must have a row, or be shown by a test elsewhere.
 */
#ifndef URXE_TESTS_SIM_CAUSES_H
#define URXE_TESTS_SIM_CAUSES_H

#include "net/cause/cause.h"
#include "tests/sim/pair.h"
#include "tests/sim/peer.h"

struct outcome {
	enum ibv_wc_status
		status; /* of the first completion without success; 0: none is looked for */
	enum cause cause;
};

struct cause_row {
	enum cause cause;
	void (*provoke)(void);
	const char *found; /* what its report must have */
	struct outcome a, b;
};

/* What a scenario is played by: one of them is made by it. */
extern struct pair p;
extern struct peer peer;

/* With both QPs of @type in RTS; @c NULL: the usual connection. */
void causes_pair(enum ibv_qp_type type, const struct connection *c);
void causes_peer(enum ibv_qp_type type, const struct connection *c);

/* Objects that are gone when the scenario is over. */
struct pd *causes_pd(struct node *node);
struct mr *causes_mr(struct pd *pd, void *memory, size_t length, int access);
struct mr *causes_null_mr(struct node *node);
struct mw *causes_mw(struct pd *pd, enum ibv_mw_type type);
struct qp *causes_qp(struct node *node);
/*
 * A page that is unmapped after @mr was made of it; with @returns it is there again when looked at
 * a second time.
 */
struct mr *causes_gone(struct pd *pd, int access, bool returns);

/* A signaled request of one element to the beginning of b's memory. */
void causes_post(struct qp *qp, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t length,
		 uint32_t lkey);
/* From the beginning of a's memory. */
void causes_reach(enum ibv_wr_opcode opcode, uint64_t va, uint32_t length, uint32_t rkey);

/* The next packet of the peer; va counts from the start of its memory, whose key is the default. */
void causes_request(const struct peer_packet *packet);

struct cause_table {
	const char *name;
	uint32_t first, last; /* the numbers that it is about */
	const struct cause_row *rows;
	unsigned int count;
	const enum cause *elsewhere; /* shown by other tests, with CAUSE_NONE at the end; or NULL */
};

/* Play each row of @table and look at what came of it; each number has a row, or is elsewhere. */
int causes_main(const struct cause_table *table);

#endif
