/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes on one address: what they and the one that starts them share.
 *
 * Out of band, they meet on a board, a piece of shared memory. Each member writes
 * its own part only; all read it at any time, though the member may be killed
 * while it writes: so what belongs together is published by one atomic key,
 * written last. Whatever goes wrong is said on stderr and ends the process, as in
 * pair.h.
 */
#ifndef URXE_TESTS_E2E_MULTI_PROCESS_H
#define URXE_TESTS_E2E_MULTI_PROCESS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pair.h"

#define MULTI_PROCESS_MAX 64
#define MULTI_PROCESS_QKEY 0x11111111
#define MULTI_PROCESS_QPNS (1u << 24)

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
	struct board_link links[MULTI_PROCESS_MAX];
	_Atomic uint32_t datagrams[MULTI_PROCESS_MAX]; /* that came from each */
};

struct board {
	uint32_t count, rounds;
	bool one_address;  /* all QP numbers are different */
	bool lossy;	   /* datagrams may be lost, or come twice */
	uint64_t deadline; /* CLOCK_MONOTONIC, seconds */
	pthread_barrier_t barrier;
	_Atomic uint64_t total;			      /* whatever the kind of run counts */
	_Atomic uint32_t failures;		      /* of connections to the dead */
	_Atomic uint8_t qpns[MULTI_PROCESS_QPNS / 8]; /* that ever were in use */
	struct board_member members[MULTI_PROCESS_MAX];
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

/* --- multi_process.c: the one that starts them ------------------------------------------ */

struct multi_process {
	struct board *board;
	int board_fd;
	char **nodes; /* of the members in turn; NULL: ours */
	unsigned int node_count;
	const char *kind; /* what a member is to do */
	uint64_t seed;
	bool verbose;
	pid_t pids[MULTI_PROCESS_MAX]; /* 0: not running */
};

/* A new process, by exec. */
void multi_process_start(struct multi_process *processes, unsigned int id, uint32_t incarnation);
/* Waits for its end, and insists on a good one, or on @signal if that isn't 0. */
void multi_process_reap(struct multi_process *processes, unsigned int id, int signal);
/* All that run, to a good end. */
void multi_process_reap_all(struct multi_process *processes);
/* Fails when a process that should run doesn't. */
void multi_process_watch(struct multi_process *processes);
/* A process outside of the board opens the device, and sends itself a message. */
void multi_process_newcomer(struct multi_process *processes);

/* --- multi_process_member.c: what all kinds of members do --------------------------------- */

/* One with an odd @id sleeps in its completion channel. Publishes nothing. */
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

struct multi_process_kind {
	const char *name;
	void (*member)(struct board *board, unsigned int id, uint32_t incarnation); /* or NULL */
	void (*lead)(struct multi_process *processes);
};

extern const struct multi_process_kind multi_process_all_to_all, multi_process_chaos,
	multi_process_fork, multi_process_stranger, multi_process_open_close;

/*
 * multi_process_traffic.c: verified traffic with all members that come and go, until told to end.
 * Returns when ordered to leave or after being quiet; ends the process when ordered to exit.
 */
void multi_process_traffic(struct board *board, unsigned int id, uint32_t incarnation);
/* Wait until all that run have traffic with each other. */
void multi_process_heal(struct multi_process *processes);
/* Have all that run end in order, having received all that was sent. */
void multi_process_quiet(struct multi_process *processes);

#endif
