/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of two processes that test a queue pair between them: plain libibverbs,
 * with a TCP connection for what applications exchange out of band. Used by the
 * scenarios. Whatever goes wrong is said on stderr and ends the process.
 */
#ifndef URXE_TESTS_E2E_PAIR_H
#define URXE_TESTS_E2E_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			pair_fail(__FILE__, __LINE__, "%s", #condition);                           \
	} while (0)
/* Two numbers are equal; says both when not. */
#define CHECK_EQUAL(actual, expected)                                                              \
	do {                                                                                       \
		long long actual_ = (long long)(actual), expected_ = (long long)(expected);        \
		if (actual_ != expected_)                                                          \
			pair_fail(__FILE__, __LINE__, #actual " is %lld, not %lld", actual_,       \
				  expected_);                                                      \
	} while (0)

_Noreturn void pair_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct pair_options {
	enum ibv_qp_type type; /* default RC */
	enum ibv_mtu mtu;
	uint32_t send_depth, receive_depth, max_sge, max_inline;
	size_t memory; /* bytes of the registered buffer */
	int access;    /* of the region; default: everything */
	uint8_t min_rnr_timer, rnr_retry;
	bool srq, events, signal_all, foreign_pd /* the region is in another PD than the QP */;
	uint64_t send_operations; /* for ibv_wr_*; 0: plain ibv_post_send */
	uint64_t wc_flags;	  /* of extended CQs; 0: plain ones */
	uint32_t receive_cqe;	  /* fewer than receive_depth: the CQ ignores overruns */
};

/*
 * What each side tells the other: in network byte order, as the other machine may have another,
 * and without padding, which would be sent uninitialized.
 */
struct pair_endpoint {
	union ibv_gid gid;
	uint32_t qpn, psn;
	uint64_t rkey, address, length;
};

struct pair {
	bool server, lossy;
	enum ibv_mtu mtu;
	int socket;
	struct pair_options options;
	struct ibv_context *context;
	struct ibv_pd *pd, *region_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD */
	struct ibv_mr *mr;
	uint8_t *memory;
	struct pair_endpoint local, remote;
	unsigned int channel_events[2]; /* to acknowledge: send, receive */
};

/* Everything up to a QP in RTS, connected to the peer's. */
void pair_open(struct pair *pair, const struct pair_options *options);
/* Destroys everything, and insists that each call succeeds. */
void pair_close(struct pair *pair);

/* @length bytes from each side to the other. */
void pair_exchange(struct pair *pair, const void *mine, void *theirs, size_t length);
/* A number from each side to the other. */
uint64_t pair_exchange_number(struct pair *pair, uint64_t mine);
/* To network byte order, and from it. */
struct pair_endpoint pair_endpoint_swap(const struct pair_endpoint *endpoint);
/*
 * Wait until the peer is here too; sleeps in read(2), so that the application doesn't poll
 * meanwhile.
 */
void pair_barrier(struct pair *pair);

/* The next completion; sleeps on the channel when options.events. */
void pair_wait(struct pair *pair, struct ibv_cq *cq, struct ibv_wc *wc);
/* The next completion is successful and for @wr_id. */
void pair_expect(struct pair *pair, struct ibv_cq *cq, uint64_t wr_id, struct ibv_wc *wc);
/* The next completion is for @wr_id and has @status. */
void pair_expect_status(struct pair *pair, struct ibv_cq *cq, uint64_t wr_id,
			enum ibv_wc_status status);
/* Nothing has completed. */
void pair_expect_nothing(struct ibv_cq *cq);

/* Post one receive for @length bytes at @offset of the memory. */
void pair_receive(struct pair *pair, uint64_t wr_id, size_t offset, uint32_t length);
/* Post one send request, filled in but for what the connection knows. Returns ibv_post_send's. */
int pair_post(struct pair *pair, struct ibv_send_wr *wr);
/* One SGE of the memory. */
struct ibv_sge pair_sge(struct pair *pair, size_t offset, uint32_t length);

enum ibv_qp_state pair_state(struct pair *pair);
/* The next async event is @type; acknowledges it. */
void pair_expect_event(struct pair *pair, enum ibv_event_type type);

/* Bytes that tell where they belong: no two @seed and offset give long equal runs. */
void pattern_fill(uint8_t *data, size_t length, uint64_t seed);
bool pattern_matches(const uint8_t *data, size_t length, uint64_t seed);

/* A small deterministic generator for choices. */
uint32_t choose(uint64_t *state, uint32_t limit);

#endif
