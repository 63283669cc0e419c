/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes in flight to one destination, over all QPs that send there. RC has no
 * window of its own, and what overflows on a UDP path is the receiver's socket
 * buffer, which all of them share: so the budget is per destination. Starts
 * small, grows with acknowledgements, halves on loss (RFC 5681's rules, with
 * bytes as the unit). READ responses count from the moment they are requested.
 *
 * Called by requester and completer with a QP lock held. window.lock is a leaf
 * but for hca.run_lock: QPs go from the waiting list to the run queue under it,
 * so that one being destroyed is on neither after window_forget() and
 * hca_unschedule().
 */
#ifndef URXE_EMU_WINDOW_H
#define URXE_EMU_WINDOW_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct hca;
struct qp;

/* What a packet costs a receiver's buffer beyond its bytes (limits.md: 832 bytes for a small one).
 */
#define WINDOW_PACKET_OVERHEAD 512

/*
 * What has been in flight this long without any progress of its QP is lost, or
 * its receiver is gone: it doesn't count any more, though the QP may wait much
 * longer (or for ever: timeout 0) before it sends again. Other QPs needn't.
 */
#define WINDOW_STALE UINT64_C(20000000)

struct window {
	UT_hash_handle hh; /* in hca->windows, by destination, under hca->windows_lock */
	union ibv_gid destination;
	uint32_t users; /* connected QPs; under hca->windows_lock */
	struct hca *hca;

	pthread_mutex_t lock;
	uint64_t in_flight;
	uint64_t limit;
	uint64_t threshold; /* below it the limit grows by what is acknowledged, above it slowly */
	uint64_t last_loss; /* one halving a round: losses within a round of it are the same event;
			       TIME_NEVER: none yet */
	struct qp *waiting_head; /* QPs refused by window_take(), in order; utlist */
	uint32_t waiting;	 /* how many */
};

int window_get(struct hca *hca, const union ibv_gid *destination, struct window **window);
void window_put(struct window *window);

/*
 * Account up to @count packets of @cost bytes each in flight, as many as fit, and
 * return how many. If none does, @qp is put on the waiting list and will be run
 * when something was released; so too if only a few did, for a call that sends a
 * packet or two costs as much as one that sends many.
 */
uint32_t window_take(struct window *window, struct qp *qp, uint64_t cost, uint32_t count);

/* How much may be in flight now. */
uint64_t window_limit(struct window *window);

/* @cost bytes are no longer in flight; @acknowledged: they arrived, so the limit may grow. */
void window_release(struct window *window, uint64_t cost, bool acknowledged);

/* Something was lost. */
void window_loss(struct window *window, uint64_t now);

/* @qp no longer waits (it is being destroyed or reset). */
void window_forget(struct window *window, struct qp *qp);

#endif
