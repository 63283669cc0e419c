/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checks of work requests, of the memory that they name, and of their completions: causes
 * 0x71xx. They hear of work from the core (emu/watch.h), which knows exactly what is posted, in
 * which order, and what is done: so nothing here guesses which completion belongs to what.
 *
 * A work request is a record from its post until its completion is polled:
 *
 *   work_qp.sends       all sends of a queue pair that aren't polled, oldest first
 *   work_qp.receives    receives of its queue, likewise of work_srq.receives
 *   work_qp.taken       receives that a message has begun to fill, of either queue
 *
 * work.lock protects all of it; it is a leaf, the core's locks are held when it is taken. Nothing
 * is reported (but notices when the process exits) and no memory of the application is read with it
 * held.
 */
#ifndef URXE_VERBS_CHECK_WORK_H
#define URXE_VERBS_CHECK_WORK_H

#include <infiniband/verbs.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/watch.h"

struct completion;
struct cq;
struct hca;
struct origin;
struct pd;
struct qp;
struct srq;

/* Of the memory that SGEs name: whether there is a checksum of it, or it can't be read any more. */
enum memory_state { MEMORY_UNKNOWN, MEMORY_SUMMED, MEMORY_GONE };

struct work_part {
	struct ibv_sge sge;
	const uint8_t *address; /* of sge.addr in the process */
};

struct work {
	struct work *prev, *next; /* utlist */
	const struct qp *qp;	  /* that it was posted to; or NULL, and then */
	const struct srq *srq;
	struct hca *hca;
	const struct pd *pd; /* of its memory */
	uint64_t wr_id;
	const char *operation; /* "SEND" */
	bool receive, signaled;
	bool done; /* the device is through with it */

	enum memory_state memory; /* when it was posted; MEMORY_UNKNOWN: isn't to be compared */
	uint32_t checksum;
	uint64_t written; /* work_written() had been called so often */

	struct origin *posted;
	uint32_t num_parts;
	struct work_part parts[];
};

/* An error that the application has been given. */
struct work_error {
	enum ibv_wc_status status; /* IBV_WC_SUCCESS: none */
	uint64_t wr_id;
	const struct cq *cq; /* where it was polled, */
	uint64_t polls;	     /* by this call */
	struct origin *polled;
	unsigned int posts[2]; /* to each queue, since the application polled that CQ again */
};

struct work_qp {
	struct work_qp *prev, *next;
	struct qp *qp;
	struct work *sends, *receives, *taken;
	struct work *undone; /* the oldest of sends that isn't done, or NULL */
	uint32_t unsignaled; /* in a row, the newest last */
	struct work_error error;
	uint64_t missing; /* messages that met no receive */
};

struct work_srq {
	struct work_srq *prev, *next;
	struct srq *srq;
	struct work *receives;
};

struct work_cq {
	struct work_cq *prev, *next;
	struct cq *cq;
	uint64_t polls, arms;
	uint32_t sends, receives; /* posted, whose completions would come here */
	uint32_t unsignaled;	  /* of the sends */
	bool told;		  /* that it is too small */
	pid_t taker; /* the thread that took its event, and hasn't armed it since; or 0 */
};

/* Of all devices. */
struct work_lists {
	struct work_qp *qps;
	struct work_srq *srqs;
};
extern struct work_lists work_lists;

void work_lock(void);
void work_unlock(void);
/* At exit: whether it can be taken (check_can_take()). */
bool work_can_lock(void);

/* The core's functions for hca_options.watch; NULL: the checker is off. */
const struct work_watch *work_watch(void);

void work_before_fork(void);
void work_after_fork(void);
/* What there is is the parent's. */
void work_after_fork_child(void);
/* What is to be said of queue pairs that are left. */
void work_at_exit(void);

/* --- memory: work_memory.c -------------------------------------------------------------- */

/* Remember what the memory of @work holds. No work.lock. */
void work_sum(struct work *work);
/* Report what has become of it since. The same. */
void work_compare(struct work *work);
/* struct work_watch: the device writes there, told before and after. */
void work_written(const void *address, size_t length);
/* Report that @key ends, if work that isn't done names it. */
void work_key_ends(const struct key *key);

/* --- queues: work_queues.c ---------------------------------------------------------------- */

/* Sends, or receives, were posted to @qp, that complete to the CQ it has for them. No work.lock. */
void work_check_posted(struct qp *qp, bool receive);
/* The application was given @completion. No work.lock. */
void work_check_polled(struct cq *cq, const struct completion *completion);
/* struct work_watch */
void work_send_refused(struct qp *qp, const char *call, uint64_t wr_id, int error);
void work_receive_refused(struct qp *qp, uint64_t wr_id, int error);
/* Messages that met no receive are told when the queue pair ends. */
void work_tell_missing(const struct work_qp *of);

/* --- waiting: work_events.c ---------------------------------------------------------------- */

/*
 * sem_wait(), in which ibv_get_cq_event() waits for an event of @channel (verbs/channel.c). Each
 * second a thread of the checker's looks whether the event can come.
 */
int work_wait(struct ibv_comp_channel *channel, sem_t *look);

/* ibv_get_cq_event() gives an event of @cq to this thread. */
void work_event_taken(struct cq *cq);

/* struct work_watch: they are in a list with a lock of its own, outside of the core's. */
void work_cq_created(struct cq *cq);
void work_cq_destroyed(struct cq *cq);
void work_events_before_fork(void);
void work_events_after_fork(void);
void work_events_after_fork_child(void);

#endif
