/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues. Producers are the machines of the QPs (with the QP lock
 * held), the consumer is ibv_poll_cq; cq.lock protects the ring, the arming and the moderation
 * (lock order QP -> SRQ -> CQ).
 */
#ifndef URXE_EMU_CQ_H
#define URXE_EMU_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>

#include "emu/objects/event.h"
#include "emu/objects/users.h"
#include "emu/transport/timer.h"

struct hca;
struct origin;
struct qp;

struct completion {
	struct ibv_wc wc;
	struct qp *qp;	     /* that completed it; entries of a QP leave the CQ with it. NULL: an
				SRQ's of XRC, which stay */
	uint32_t send_slots; /* a send completion frees this many slots of the QP's send queue when
				polled */
	bool solicited;	     /* came with the SE bit (IBA 11.4.2.2) */
	uint64_t timestamp;  /* when it was made, by the time that the core was given: ns */
};

enum cq_armed { CQ_IDLE, CQ_ARMED_SOLICITED, CQ_ARMED_NEXT };

/*
 * How long the event of an armed CQ waits for more completions: until there are @count of those
 * that it is armed for, or @period after the first, whichever comes first. An armed CQ never waits
 * longer, so no wake-up is lost; errors and solicited completions wait as others do, as with
 * ConnectX.
 */
struct cq_moderation {
	uint32_t count;	    /* 0: any number, the period alone ends the waiting */
	uint64_t period;    /* ns; 0: there is no moderation */
	uint32_t coalesced; /* a fault asks for this event to wait, for so many; or 0 */
	uint32_t waiting;
	uint64_t due;	    /* of the event, while completions are @waiting for it */
	struct timer timer; /* under timer_heap.lock; its number is the CQ's in hca.cqs, or 0.
			       For what is withheld, too */
};

/*
 * Room for the newest ibv_cq_ex, whatever headers this was built with. The mutex in it has not the
 * same size on all processors.
 */
#define ABI_CQ_EX_SIZE (248 + sizeof(pthread_mutex_t))

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
		uint8_t newest[ABI_CQ_EX_SIZE];
	};
	void *verbs;	 /* what the verbs layer keeps with it */
	void *watched;	 /* and the checker: emu/watch.h */
	uint32_t handle; /* as it was made: that of the ABI structure is the application's */
	struct hca *hca;
	struct origin *origin; /* where it was made: net/cause/origin.h */
	struct users users;
	struct observe_cq *observed; /* to other processes */

	pthread_spinlock_t lock;
	struct completion *ring; /* of @allocated entries */
	uint32_t allocated;
	uint32_t capacity;	/* entries granted, ibv.cqe */
	uint32_t size;		/* in use as a ring: what isn't needed stays out of the cache */
	uint32_t head;		/* the next to poll */
	_Atomic uint32_t count; /* read without the lock to see whether polling is worth it */
	uint32_t sleepers;	/* threads that sleep until that isn't 0 (verbs/poll_yield.h) */
	uint32_t withheld;	/* behind them, to be delivered later: emu/transport/placement.h */
	uint64_t deliver_at;	/* when they are to be, ns */
	enum cq_armed armed;
	struct cq_moderation moderation;
	bool overrun;	     /* IBA 11.6.3.1: the CQ is in error */
	uint32_t overrun_by; /* the QP whose completion was the first to be lost */
	/* As the verbs layer sets them before any QP uses the CQ. */
	bool ignores_overrun; /* a completion that finds it full takes the place of the oldest */
	bool timestamped;     /* completions are looked at for when they were made */
	uint64_t latest;      /* timestamp of all, if it is timestamped */
	struct event event;
};

/* @entries: 1 to max_cqe. Returns 0, EINVAL, ENOMEM or an error of capacity_take(). */
int cq_create(struct hca *hca, uint32_t entries, struct cq **cq);
/* EBUSY, reported, while queue pairs or shared receive queues use it. */
int cq_check_unused(struct cq *cq);
/*
 * No event is raised any more, not even one that waits. For destroy, when nothing uses it: before
 * what was delivered of its events is looked for.
 */
void cq_silence(struct cq *cq);
int cq_destroy(struct cq *cq); /* 0 or EBUSY */
/* EINVAL when fewer than the entries held, or out of range; ENOMEM. */
int cq_resize(struct cq *cq, uint32_t entries);

/*
 * Add a completion; raise the event if the CQ is armed for it. Returns 0, or
 * ENOSPC on overrun: the completion is lost, IBV_EVENT_CQ_ERR raised, and the
 * caller moves its QP to the error state.
 */
int cq_push(struct cq *cq, const struct completion *completion);

/* Without the lock: whether there is nothing to be polled at this instant. */
static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->count, memory_order_relaxed) == 0;
}

/* Take up to @max completions in order. Never waits, drives nothing. */
int cq_poll(struct cq *cq, struct completion *completions, int max);

/*
 * One event with the next completion, or the next that is solicited or an error (IBA 11.4.2.2).
 * Completions that are in the queue raise none. A CQ that is armed for any stays so.
 */
void cq_arm(struct cq *cq, bool solicited_only);

/* Into the error state without an overrun, as a catastrophic error does (IBA 11.6.3.1). */
void cq_fail(struct cq *cq);

/*
 * ibv_modify_cq: at most one event for @count completions or @period microseconds; 0 as a period
 * ends it. An event that waits is raised. EINVAL: a longer period than hca_limits.max_cq_period;
 * ENOMEM.
 */
int cq_moderate(struct cq *cq, uint16_t count, uint16_t period);

/* Its timer has come up: deliver what is withheld, raise the event, if they are due. */
void cq_run(struct cq *cq, uint64_t now);

/* Drop the completions of @qp (it is being destroyed or reset). */
void cq_purge(struct cq *cq, const struct qp *qp);

#endif
