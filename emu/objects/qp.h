/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: attributes, life cycle, and the calls that reach the three
 * machines (requester, responder, completer). qp.lock protects everything below
 * it in the structure; see hca.h for the order of locks.
 */
#ifndef URXE_EMU_QP_H
#define URXE_EMU_QP_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "emu/hca.h"
#include "emu/objects/qp_state.h"
#include "emu/objects/qp_type.h"
#include "emu/transport/ecn.h"
#include "emu/transport/migration.h"
#include "emu/transport/missing.h"
#include "emu/transport/receive_queue.h"
#include "emu/transport/recovery.h"
#include "emu/transport/requester.h"
#include "emu/transport/responder.h"
#include "emu/transport/send_queue.h"
#include "emu/transport/source_port.h"
#include "emu/transport/timer.h"
#include "emu/transport/xrc_remote.h"
#include "net/clock.h"
#include "net/link.h"
#include "net/newer_verbs.h"
#include "net/tuning.h"
#include "net/wire/gid.h"

struct completion;
struct cq;
struct late;
struct origin;
struct pd;
struct srq;
struct xrcd;
struct outbox;

/* Room for the newest ibv_qp_ex, which ends with wr_flush, whatever headers this was built with. */
#define ABI_QP_EX_SIZE (QP_EX_WR_FLUSH_OFFSET + sizeof(wr_flush_function))

struct qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		uint8_t newest[ABI_QP_EX_SIZE];
	};
	void *verbs;	 /* what the verbs layer keeps with it */
	uint32_t handle; /* as it was made: that of the ABI structure is the application's */
	struct hca *hca;
	void *watched; /* what the checker keeps with it: emu/watch.h */
	/* What its type lacks (emu/objects/qp_type.h) is NULL. */
	struct pd *pd;
	struct xrcd *_Atomic xrcd; /* by which it was made, until qp_leave_xrcd() */
	struct xrc_domain *xrc_domain;
	bool delegate; /* of another process's: emu/transport/xrc_remote.h */
	struct cq *send_cq, *recv_cq;
	struct srq *srq; /* or NULL */
	const struct qp_type *type;
	uint32_t number;
	struct origin *origin; /* where it was made: net/cause/origin.h */
	bool signal_all;
	bool blocks_own_multicast; /* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB */
	struct ibv_qp_cap cap;
	_Atomic uint32_t groups;	/* multicast groups that it is attached to */
	struct timer timer;		/* under timer_heap.lock */
	struct delayed_ack delayed_ack; /* under ack_queue.lock */

	/* In hca.run_*, under hca.run_lock. */
	bool scheduled;
	struct qp *run_prev, *run_next;

	pthread_mutex_t lock;
	uint64_t now; /* of the call that has the lock, or the latest that it was given: completions
			 have it as their timestamp */
	struct observe_qp *observed; /* to other processes: emu/objects/qp_show.h */
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;	/* as set by modify */
	struct path path;		/* RC, UC: to the peer */
	struct source_port source_port; /* of the peer's packets */
	struct migration migration;	/* RC, UC */
	/* The connection before the latest reset, packets of which may still come until @until. */
	struct {
		union ibv_gid peer;
		uint32_t received, sent; /* the PSNs that were to be next */
		uint64_t until;		 /* ns; 0: there was none */
		bool several;		 /* there were more within that time, with any PSNs */
	} former;
	uint32_t mtu;	   /* path MTU, bytes */
	bool drain_notify; /* SQD: IBV_EVENT_SQ_DRAINED is wanted */
	bool draining;	   /* SQD: requests are still in flight */

	struct send_queue sq;
	uint32_t sends_uncounted; /* requests that were posted, and the HCA's counters lack */
	struct receive_queue rq;
	struct requester requester;
	struct recovery recovery; /* RC */
	struct missing missing;	  /* RC */
	struct responder responder;
	struct xrc_remote xrc; /* XRC_RECV */
	struct ecn ecn;	       /* RC */
	struct late *late;     /* completions that wait: emu/inject/late.h; utlist */
};

/*
 * A QP in state RESET. @attr->cap gets what was granted. EINVAL: capacities beyond the device, CQ
 * missing, SRQ on UC; EOPNOTSUPP: a type that there isn't; ENOMEM; or an error of capacity_take().
 */
int qp_create(struct hca *hca, struct pd *pd, struct ibv_qp_init_attr *attr, struct qp **qp);
/* Likewise, of the type XRC_RECV, which has neither work queues nor CQs nor a PD. */
int qp_create_xrc_recv(struct xrcd *xrcd, struct ibv_qp_init_attr *attr, struct qp **qp);
/*
 * The handle of its XRC domain by which @qp was made needn't outlive it any more: the application
 * has other handles of @qp (verbs/open_qp.h), which count theirs.
 */
void qp_leave_xrcd(struct qp *qp);
/* EBUSY, reported, while it is attached to a multicast group; before anything is destroyed. */
int qp_check_unused(struct qp *qp);
/* In any state; completions that weren't polled are dropped. 0, or EBUSY as qp_check_unused(). */
int qp_destroy(struct qp *qp);

/*
 * Send the responses and acknowledgements that are pending, before the QP is reset:
 * the application has seen completions of messages that the peer would otherwise
 * retransmit in vain (a NIC acknowledges before it completes).
 */
void qp_drain(struct qp *qp, uint64_t now);

/* ibv_modify_qp: nothing is modified unless everything is valid (IBA 11.2.5.2). 0 or an errno. */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now);

/* The MTU of a port is @mtu now, to which the datagrams of its queue pairs keep. */
void qp_follow_mtu(struct hca *hca, unsigned int port_num, enum ibv_mtu mtu);
void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init_attr);

/*
 * Post a list. On an error *@bad is the request that was refused and those
 * before it are posted. With @extended it is a batch of ibv_wr_*(): then none is, and it
 * may have requests that are more than an ibv_send_wr (struct flush_wr). The time is needed by
 * what is sent at once, not by what only joins a queue (requester_coalesces()).
 */
int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad, bool extended,
		 struct lazy_time *time);
int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

static inline unsigned int qp_abilities(const struct qp *qp)
{
	return qp_state_abilities(qp->state) & qp->type->abilities;
}

/*
 * Whether the packet with @psn, which isn't the one that is expected, may be of the connection
 * before @qp was reset last, where @former (former.received or sent) was to be next. Kept, it would
 * be taken for the one that has the same PSN now; so it is dropped, as IBA 9.7.5.2.3 has it for all
 * that aren't expected.
 */
static inline bool qp_may_be_stale(const struct qp *qp, uint32_t psn, uint32_t former)
{
	return qp->now < qp->former.until &&
	       (qp->former.several || (abs(psn_distance(psn, former)) < REORDER_PSNS &&
				       gid_equal(&qp->former.peer, &qp->path.destination)));
}

/* --- for the core itself ---------------------------------------------------- */

/* Deadlines, responses, requests, in this order; locks the QP, uses and flushes @outbox. */
void qp_run(struct qp *qp, struct outbox *outbox);

/*
 * Requests, and behind them an ACK that waits: as the last segment, which may be
 * shorter than those before it, it is part of their GSO train (net/udp/udp_send.c).
 * Locked; the caller flushes @outbox.
 */
void qp_send_requests(struct qp *qp, struct outbox *outbox);

/*
 * What was posted is for the HCA's counter when it is sent: an atomic addition takes as long as a
 * good part of a post that only joins the queue. Locked.
 */
void qp_count_sends(struct qp *qp);

/* Send the acknowledgement that waits; locks the QP, uses and flushes @outbox. */
void qp_acknowledge(struct qp *qp, struct outbox *outbox);

/* The caller was given @now. An earlier call may have been given a later time. Locked. */
static inline void qp_set_time(struct qp *qp, uint64_t now)
{
	if (now > qp->now)
		qp->now = now;
}

/* Raise what is due when SQD is reached: all that was started may be finished now. Locked. */
void qp_check_drained(struct qp *qp);

/* Into RESET: all work and state vanish, completions not yet polled too. Locked. */
void qp_reset(struct qp *qp);

/* Into the error state: both queues are flushed (IBA 10.3.1.7). Locked. */
void qp_enter_error(struct qp *qp);

/* Flush the receive queue, or with a SRQ instead raise the event of its last WQE. Locked. */
void qp_flush_receives(struct qp *qp);

/* Local errors of UC and UD requesters: only the send queue is flushed (IBA 10.3.1.6). Locked. */
void qp_enter_sqe(struct qp *qp);

/* Push a completion of this QP; an overrun moves the QP to the error state. Locked. */
void qp_complete(struct qp *qp, struct cq *cq, const struct ibv_wc *wc, uint32_t send_slots,
		 bool solicited);
/* The same with a completion that is made already. */
void qp_push(struct qp *qp, struct cq *cq, const struct completion *completion);

#endif
