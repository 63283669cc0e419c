/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two nodes with a connected QP each and a region each: what most simulator
 * tests start from. Requests go from a to b unless a test says otherwise.
 */
#ifndef URXE_TESTS_SIM_PAIR_H
#define URXE_TESTS_SIM_PAIR_H

#include "world.h"

#define PAIR_MEMORY (1 << 20)
#define PAIR_DEPTH 64

struct pair {
	struct world world;
	struct node *a, *b;
	struct qp *qa, *qb;
	struct xrcd *xrcd; /* XRC: b's, in which qb and srq are */
	struct srq *srq;
	uint8_t *ma, *mb; /* PAIR_MEMORY bytes each */
	struct mr *ra, *rb;
};

/*
 * Both QPs of @type (XRC_SEND: b's is XRC_RECV) in RTS, on a network with @options (NULL: clean).
 */
void pair_create(struct pair *p, enum ibv_qp_type type, const struct sim_options *options,
		 uint64_t seed, const struct connection *c);
/* The same, but nothing is connected yet. */
void pair_create_apart(struct pair *p, enum ibv_qp_type type, const struct sim_options *options,
		       uint64_t seed);
/* Nothing may be left of either QP's work. */
void pair_destroy(struct pair *p);

/* A signaled request of @length bytes between the beginnings of both regions. */
struct pair_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};
struct ibv_send_wr *pair_wr(const struct pair *p, struct pair_wr *request,
			    enum ibv_wr_opcode opcode, uint32_t length, uint64_t id);
void pair_post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t length, uint64_t id);
void pair_receive(struct pair *p, uint32_t length, uint64_t id);

/* A pattern that differs with @seed. */
void pair_fill(uint8_t *memory, uint32_t length, uint32_t seed);

/* Cut b off, or join it again. */
void pair_cut(struct pair *p, bool cut);

#endif
