/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams: queue pairs that always have requests posted, for tests of how fast and how evenly
 * they go, on nodes that stall now and then.
 */
#ifndef URXE_TESTS_SIM_STREAM_H
#define URXE_TESTS_SIM_STREAM_H

#include "world.h"

#define STREAM_MEMORY (1 << 20) /* of each node; the longest request */
#define STREAMS_MAX 16

struct stream {
	struct node *from, *to;
	struct qp *qp, *peer;
	enum ibv_wr_opcode opcode;
	uint32_t length, depth;
	uint32_t posted; /* that haven't completed */
	uint64_t bytes;	 /* of requests that have */
	bool stopped;	 /* posts no more */
	bool failed;
	struct ibv_wc wc;		      /* of the first that failed */
	uint64_t completed_at, longest_pause; /* of completions; set to 0 to measure anew */
};

/* Each node stalls at random, alone or along with another. */
struct stalls {
	uint64_t longest; /* ns; 0: none */
	uint64_t between; /* on average */
};

struct streams {
	struct world world;
	unsigned int count;
	struct stream streams[STREAMS_MAX];
	struct stalls stalls;
	unsigned int stall_count;
	uint64_t *stall_at; /* by node */
	uint8_t *memory;
	struct mr **regions; /* by node */
};

void streams_create(struct streams *streams, unsigned int nodes, const struct sim_options *options,
		    uint64_t seed);
void streams_destroy(struct streams *streams);

/* One more, from node @from to node @to, with @depth requests of @length bytes posted. */
struct stream *stream_add(struct streams *streams, unsigned int from, unsigned int to,
			  enum ibv_wr_opcode opcode, uint32_t length, uint32_t depth,
			  const struct connection *connection);

/* Post @count of its requests, beyond what keeps it going. */
void stream_post(struct streams *streams, struct stream *stream, unsigned int count);

void streams_stall(struct streams *streams, const struct stalls *stalls);

/* Let @time ns pass. */
void streams_run(struct streams *streams, uint64_t time);
/* Until nothing posted is left, which is true within @limit ns. */
bool streams_drain(struct streams *streams, uint64_t limit);

/* What @stream's destination knows. */
const struct cwnd *stream_cwnd(const struct stream *stream);

#endif
