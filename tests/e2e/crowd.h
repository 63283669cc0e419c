/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes on one address: what they and the one that starts them share.
 *
 * Out of band, they meet on a board, a piece of shared memory. Each member writes
 * its own part only; a part is read by anybody, at any time, though its owner may
 * be killed at any time: so what belongs together is published by one atomic key,
 * written last. Whatever goes wrong is said on stderr and ends the process, as in
 * pair.h.
 */
#ifndef URXE_TESTS_E2E_CROWD_H
#define URXE_TESTS_E2E_CROWD_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pair.h"

#define CROWD_MAX 64
#define CROWD_QKEY 0x11111111
#define CROWD_QPNS (1u << 24)

enum family { FAMILY_IPV4, FAMILY_IPV6, FAMILIES };

/* One incarnation of a member tells one of another how to reach its QP. */
struct board_link {
	_Atomic uint64_t key;	/* link_key(), or 0 while the rest is being changed */
	_Atomic uint64_t ready; /* the key, once the QP can receive */
	_Atomic uint64_t sent;	/* messages to that incarnation, when there will be no more */
	_Atomic uint32_t turns; /* of traffic completed, over all incarnations */
	_Atomic uint32_t qpn, rkey;
	_Atomic uint64_t address;
};

enum order { ORDER_RUN, ORDER_EXIT /* leaving everything as it is */, ORDER_LEAVE, ORDER_QUIET };

struct board_member {
	_Atomic uint32_t incarnation; /* from 1; that of the process that has the device open */
	_Atomic uint32_t doomed;      /* incarnations up to this one may be dead */
	_Atomic enum order order;     /* to the present incarnation */
	_Atomic bool done;	      /* nothing of the present incarnation is outstanding */
	bool has[FAMILIES];
	union ibv_gid gids[FAMILIES];
	_Atomic uint32_t ud_qpn;
	struct board_link links[CROWD_MAX];
	_Atomic uint32_t datagrams[CROWD_MAX]; /* that came from each */
};

struct board {
	uint32_t count, rounds;
	bool one_address;  /* all QP numbers are different */
	bool lossy;	   /* datagrams may be lost, or come twice */
	uint64_t deadline; /* CLOCK_MONOTONIC, seconds */
	pthread_barrier_t barrier;
	_Atomic uint64_t total;		      /* whatever the kind of crowd counts */
	_Atomic uint32_t failures;	      /* of connections to the dead */
	_Atomic uint8_t qpns[CROWD_QPNS / 8]; /* that ever were in use */
	struct board_member members[CROWD_MAX];
};

static inline uint64_t link_key(uint32_t mine, uint32_t theirs)
{
	return (uint64_t)mine << 32 | theirs;
}

/* The device as one process has it open. */
struct member {
	struct board *board;
	struct board_member *self;
	unsigned int id;
	uint32_t incarnation;
	bool sleeps; /* in the channel; else it polls */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned int events;
	uint8_t gid_index[FAMILIES];
};

/* --- crowd.c: the one that starts them ------------------------------------------ */

struct crowd {
	struct board *board;
	int board_fd;
	char **nodes; /* of the members in turn; NULL: ours */
	unsigned int node_count;
	const char *kind; /* what a member is to do */
	uint64_t seed;
	bool verbose;
	pid_t pids[CROWD_MAX]; /* 0: not running */
};

/* A new process, by exec. */
void crowd_start(struct crowd *crowd, unsigned int id, uint32_t incarnation);
/* Waits for its end, and insists on a good one, or on @signal if that isn't 0. */
void crowd_reap(struct crowd *crowd, unsigned int id, int signal);
/* All that run, to a good end. */
void crowd_reap_all(struct crowd *crowd);
/* Fails when a process that should run doesn't. */
void crowd_watch(struct crowd *crowd);
/* A process outside of the board opens the device, and sends itself a message. */
void crowd_newcomer(struct crowd *crowd);

/* --- crowd_member.c: what all kinds of members do --------------------------------- */

/* @events: sleep in the completion channel. Publishes nothing. */
void member_open(struct member *member, struct board *board, unsigned int id, uint32_t incarnation,
		 unsigned int cq_depth);
void member_close(struct member *member);

struct ibv_qp *member_create_qp(struct member *member, enum ibv_qp_type type, uint32_t send_depth,
				uint32_t receive_depth);
/* To INIT, where receives can be posted; UD goes on to RTS. */
void member_init_qp(struct member *member, struct ibv_qp *qp);
void member_connect(struct member *member, struct ibv_qp *qp, enum family family,
		    const union ibv_gid *gid, uint32_t qpn);
struct ibv_ah *member_create_ah(struct member *member, enum family family,
				const union ibv_gid *gid);
/* Completions; waits a moment (not long) when there are none, and fails past the deadline. */
int member_poll(struct member *member, struct ibv_wc *wc, int max);
/* Opens the device, sends itself a message, and closes it again. */
void member_greet_self(struct board *board, unsigned int id);
/* By which addresses two members reach each other; FAMILIES: not at all. */
enum family member_family(const struct board *board, unsigned int a, unsigned int b);
void board_check_deadline(const struct board *board);

/* --- the kinds ---------------------------------------------------------------------- */

struct crowd_kind {
	const char *name;
	void (*member)(struct board *board, unsigned int id, uint32_t incarnation); /* or NULL */
	void (*lead)(struct crowd *crowd);
};

extern const struct crowd_kind crowd_all_to_all, crowd_chaos, crowd_fork, crowd_stranger,
	crowd_doors;

/* crowd_traffic.c: verified traffic with all members that come and go, until told to end.
 * Returns when ordered to leave or after being quiet; ends the process when ordered to exit. */
void crowd_traffic(struct board *board, unsigned int id, uint32_t incarnation);
/* Wait until all that run have traffic with each other. */
void crowd_heal(struct crowd *crowd);
/* Have all that run end in order, having received all that was sent. */
void crowd_quiet(struct crowd *crowd);

#endif
