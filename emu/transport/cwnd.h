/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes in flight to one destination, over all QPs that send there. RC has no
 * window of its own, and what overflows on a UDP path is the receiver's socket
 * buffer, which all of them share: so the budget is per destination. Starts
 * small, grows with acknowledgements, halves on loss (RFC 5681's rules, with
 * bytes as the unit). READ responses count from the moment they are requested.
 *
 * Called by requester and completer with a QP lock held. cwnd.lock is a leaf
 * but for hca.run_lock: QPs go from the waiting list to the run queue under it,
 * so that one being destroyed is on neither after cwnd_stop_waiting() and
 * hca_unschedule().
 */
#ifndef URXE_EMU_CWND_H
#define URXE_EMU_CWND_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct hca;
struct qp;

/* What a packet costs a receiver's buffer beyond its bytes (limits.md: 832 bytes for a small one).
 */
#define CWND_PACKET_OVERHEAD 512

/*
 * What has been in flight this long without any progress of its QP is lost, or
 * its receiver is gone: it doesn't count any more, though the QP may wait much
 * longer (or for ever: timeout 0) before it sends again. Other QPs needn't.
 */
#define CWND_STALE UINT64_C(20000000)

struct cwnd {
	UT_hash_handle hh; /* in hca->cwnds, by destination, under hca->cwnds_lock */
	union ibv_gid destination;
	uint32_t users; /* connected QPs; under hca->cwnds_lock */
	struct hca *hca;

	pthread_mutex_t lock;
	uint64_t in_flight;
	uint64_t limit;
	uint64_t threshold; /* below it the limit grows by what is acknowledged, above it slowly */
	uint64_t last_loss; /* one halving a round: losses within a round of it are the same event;
			       TIME_NEVER: none yet */
	struct qp *waiting_head; /* QPs refused by cwnd_take(), in order; utlist */
	uint32_t waiting;	 /* how many */
};

int cwnd_get(struct hca *hca, const union ibv_gid *destination, struct cwnd **cwnd);
void cwnd_put(struct cwnd *cwnd);

/*
 * Account up to @count packets of @cost bytes each in flight, as many as fit, and
 * return how many. If none does, @qp is put on the waiting list and will be run
 * when something was released; so too if only a few did, for a call that sends a
 * packet or two costs as much as one that sends many.
 */
uint32_t cwnd_take(struct cwnd *cwnd, struct qp *qp, uint64_t cost, uint32_t count);

/* How much may be in flight now. */
uint64_t cwnd_limit(struct cwnd *cwnd);

/* @cost bytes are no longer in flight; @acknowledged: they arrived, so the limit may grow. */
void cwnd_release(struct cwnd *cwnd, uint64_t cost, bool acknowledged);

/* Something was lost. */
void cwnd_loss(struct cwnd *cwnd, uint64_t now);

/* @qp no longer waits (it is being destroyed or reset). */
void cwnd_stop_waiting(struct cwnd *cwnd, struct qp *qp);

#endif
