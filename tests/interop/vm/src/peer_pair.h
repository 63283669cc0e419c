/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of two processes with a queue pair between them, and a TCP connection for what they tell each
 * other. Plain libibverbs, for any device. What completes is printed, whatever its status; what
 * else goes wrong is said on stderr, and ends the process. Nothing is destroyed: that is left to
 * the end of the process.
 */
#ifndef URXE_INTEROP_PEER_PAIR_H
#define URXE_INTEROP_PEER_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGION_SIZE (1u << 20)
#define TARGET (REGION_SIZE / 2) /* where a region is written to and read from by the peer */
#define EVERY_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define NO_COMPLETION 99 /* instead of a status of enum ibv_wc_status */

/* What the command line says. */
struct pair_place {
	const char *device; /* NULL: the first one */
	int gid_index;
	enum ibv_mtu mtu;
	const char *host; /* where the responder is; NULL: here */
	const char *port;
};

/* What a scenario needs to be otherwise; 0 stands for the default. */
struct pair_options {
	enum ibv_qp_type type; /* RC */
	int access;	       /* of the region: EVERY_ACCESS */
	int qp_access;	       /* as the region's */
	uint32_t psn;	       /* one for each side */
	uint8_t timeout;       /* 18, which is a second */
	uint8_t retry_count;   /* 7 */
	uint8_t rnr_retry;     /* 7, which has no end */
	uint8_t min_rnr_timer; /* 12, which is 0.64 ms */
	uint8_t traffic_class, hop_limit /* 64 */;
	uint32_t flow_label;
	uint64_t send_operations; /* for ibv_wr_*; ibv_post_send alone */
};

/* What each side tells the other. hostud.py does so, too. */
struct pair_endpoint {
	uint32_t qpn, psn, rkey, window_rkey;
	uint64_t address, window_address;
	union ibv_gid gid;
	uint32_t unused[4];
};
_Static_assert(sizeof(struct pair_endpoint) == 64, "what hostud.py sends");

struct pair {
	const struct pair_place *place;
	struct pair_options options;
	int socket;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD */
	uint8_t *memory;
	struct pair_endpoint local, remote;
};

/* Of a send queue; pair_post() makes the one point to the other. */
struct pair_request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

void check(bool good, const char *what);
#define CHECK(condition) check(condition, #condition)

/* Everything up to a queue pair in RTS, connected to the peer's. */
void pair_open(struct pair *pair, const struct pair_place *place,
	       const struct pair_options *options);
/* Tell the peer pair->local, and hear pair->remote from it. */
void pair_exchange(struct pair *pair);
/* Wait until the peer is here, too. */
void pair_barrier(struct pair *pair);
/* Let the requester begin, and wait until it has finished. */
void pair_stand_by(struct pair *pair);

/* Post a receive for @length bytes at @offset of the memory. */
void pair_receive(struct pair *pair, uint64_t wr_id, size_t offset, uint32_t length);
/* With @length bytes at @offset of the memory, to or from the peer's TARGET. */
struct pair_request pair_request(struct pair *pair, uint64_t wr_id, enum ibv_wr_opcode opcode,
				 size_t offset, uint32_t length);
/* On the peer's TARGET, with the result at the beginning of the memory. */
struct pair_request pair_atomic(struct pair *pair, uint64_t wr_id, enum ibv_wr_opcode opcode,
				uint64_t compare_add, uint64_t swap);
/* Post @count requests as one list. Returns what ibv_post_send() does, and prints it if not 0. */
int pair_post(struct pair *pair, struct pair_request *requests, int count);
/* Post a request that is as pair_request() makes it. */
void pair_post_plain(struct pair *pair, uint64_t wr_id, enum ibv_wr_opcode opcode, size_t offset,
		     uint32_t length);

/* Print the next completion after @what, and return it, or NO_COMPLETION after @seconds. */
struct ibv_wc pair_wait(struct pair *pair, const char *what, double seconds);
void print_completion(const char *what, const struct ibv_wc *wc);
void pair_print_state(struct pair *pair);

/* Bytes that depend on @seed, at @offset of the memory. */
void pattern_fill(struct pair *pair, size_t offset, uint32_t length, int seed);
/* Print whether they are there. */
void pattern_check(struct pair *pair, size_t offset, uint32_t length, int seed);

#endif
