/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whole stacks in one process for tests of threads: HCAs on loopback addresses
 * of their own, over UDP or shared memory, driven by the one progress thread and
 * by the test's threads as they poll.
 */
#ifndef URXE_TESTS_THREADS_NODE_H
#define URXE_TESTS_THREADS_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/hca.h"
#include "emu/objects/cq.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "net/shm/shm.h"
#include "tests/cm_queue.h"
#include "tests/destroy.h"
#include "tests/must.h"
#include "verbs/progress.h"

struct node {
	struct gid_table gids;
	struct link *link;
	struct hca *hca;
	struct progress_client *client;
	struct pd *pd;
	struct cq *cq; /* shared by all threads of the test */

	/* From the event sink: how many there were, for threads that sleep. */
	pthread_mutex_t lock;
	pthread_cond_t event;
	uint64_t completion_events;
	unsigned int async_events[32];

	struct cm_queue cm_queue;
	/* Told what connections do (emu/cm/cm.h), if it is set before anything connects. */
	void (*connection)(struct node *node, struct cm_event *event);
	void *context;
};

/* @faults: as in net/fault/fault.h, or NULL. Over shared memory with URXE_LINK=shm. */
void node_create(struct node *node, struct progress *progress, unsigned int index,
		 const char *faults);
/* @shm: NULL for UDP alone. */
void node_create_over(struct node *node, struct progress *progress, unsigned int index,
		      const char *faults, const struct shm_options *shm);
/* Everything made on the node but its own PD and CQ has been destroyed. */
void node_destroy(struct node *node);

/* What ibv_poll_cq does: take what is there, else a round and another look. */
int node_poll(struct node *node, struct cq *cq, struct completion *completions, int max);

/* Wait until there were more than @seen completion events. Returns how many there were. */
uint64_t node_sleep(struct node *node, uint64_t seen);
uint64_t node_completion_events(struct node *node);

struct qp *node_qp(struct node *node, enum ibv_qp_type type, struct cq *cq, struct srq *srq);
struct mr *node_mr(struct node *node, void *memory, size_t length);

/* From RESET to RTS. RC and UC: connected with @peer. UD: @peer is ignored. */
void node_connect(struct node *node, struct qp *qp, const struct node *peer, uint32_t peer_qpn,
		  uint32_t psn);
int node_modify(struct qp *qp, enum ibv_qp_state state);

/* Each thread has its own random numbers: net/random.h. */
void fill_pattern(uint8_t *memory, uint32_t length, uint64_t seed);
bool has_pattern(const uint8_t *memory, uint32_t length, uint64_t seed);

#endif
