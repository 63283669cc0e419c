/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues. srq.lock protects the queue and the limit (lock order
 * QP -> SRQ -> CQ). The verbs layer makes and fills them; a QP takes an entry when a message
 * begins, or for a WRITE when its immediate data comes (emu/transport/message).
 */
#ifndef URXE_EMU_SRQ_H
#define URXE_EMU_SRQ_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "emu/objects/users.h"
#include "emu/transport/receive_queue.h"

struct cq;
struct hca;
struct origin;
struct pd;
struct xrcd;

struct srq {
	struct ibv_srq ibv;
	uint32_t handle; /* as it was made: that of the ABI structure is the application's */
	void *verbs;	 /* what the verbs layer keeps with it */
	void *watched;	 /* and the checker: emu/watch.h */
	struct hca *hca;
	struct observe_srq *observed; /* to other processes */
	struct pd *pd;
	struct origin *origin; /* where it was made: net/cause/origin.h */
	struct users users;

	/* Of XRC; otherwise NULL and 0. */
	struct xrcd *xrcd;
	struct cq *cq;	 /* of its completions */
	uint32_t number; /* in hca.srqs; no QP has it */

	pthread_mutex_t lock;
	struct receive_queue queue;
	uint32_t limit; /* 0: not armed; else an event when fewer entries remain (IBA 10.2.9.1) */
};

/*
 * @attr gets what was granted. EINVAL: max_wr 0 or beyond the device, max_sge beyond the device;
 * ENOMEM; or an error of capacity_take().
 */
int srq_create(struct pd *pd, struct ibv_srq_attr *attr, struct srq **srq);
/* Likewise, one that requests of XRC in @xrcd name by its number. ENOMEM, too: none is left. */
int srq_create_xrc(struct pd *pd, struct xrcd *xrcd, struct cq *cq, struct ibv_srq_attr *attr,
		   struct srq **srq);
/* EBUSY, reported, while queue pairs use it. */
int srq_check_unused(struct srq *srq);
/*
 * No request finds it by its number any more, and no event is raised of it. For destroy, when
 * nothing uses it: before what was delivered of its events is looked for.
 */
void srq_silence(struct srq *srq);
int srq_destroy(struct srq *srq); /* 0 or EBUSY */

/*
 * ibv_modify_srq: nothing is modified unless everything is valid. Returns 0 or
 *   EIO     the device is gone
 *   EINVAL  unknown bits in @mask; the device can't resize; a size of 0, beyond the device or below
 *           what is posted; a limit beyond the size
 *   ENOMEM
 */
int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask);
void srq_query(struct srq *srq, struct ibv_srq_attr *attr);

/*
 * Post a list. On an error *@bad is the request that was refused, and those before it are posted.
 * ENOMEM: the queue is full; EINVAL: too many SGEs.
 */
int srq_post(struct srq *srq, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad);

/* As receive_queue_pop(); raises IBV_EVENT_SRQ_LIMIT_REACHED. */
bool srq_pop(struct srq *srq, struct receive_wqe *wqe, struct ibv_sge *sges);

#endif
