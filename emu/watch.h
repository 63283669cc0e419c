/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a checker of the application's work hears of it (URXE_CHECK: verbs/check/work.c): each work
 * request on its way from being posted to its completion being polled, and what becomes of memory.
 * Given with struct hca_options; without it nothing is called, and each place costs a look at
 * hca.watch.
 *
 * Each comment begins with the locks that the caller holds. What is called may pin keys and take
 * locks of its own, which are leaves; it calls nothing else of the core.
 */
#ifndef URXE_EMU_WATCH_H
#define URXE_EMU_WATCH_H

#include <infiniband/verbs.h>
#include <stddef.h>

struct completion;
struct cq;
struct key;
struct qp;
struct srq;

struct work_watch {
	/* None. What the watch keeps with an object is its member `watched`. */
	void (*qp_created)(struct qp *qp);
	void (*qp_destroyed)(struct qp *qp);
	void (*cq_created)(struct cq *cq);
	void (*cq_destroyed)(struct cq *cq);
	void (*srq_destroyed)(struct srq *srq);

	/* qp.lock: the application has modified it. And that it has no work any more. */
	void (*qp_modified)(struct qp *qp);
	void (*qp_reset)(struct qp *qp);

	/* qp.lock: a message that needs a receive finds none, and isn't taken. */
	void (*receive_missing)(struct qp *qp);

	/*
	 * qp.lock, or srq.lock: from @wr to the one before @end (NULL: all), and nothing of it has
	 * been executed or taken yet.
	 */
	void (*sends_posted)(struct qp *qp, const struct ibv_send_wr *wr,
			     const struct ibv_send_wr *end);
	void (*receives_posted)(struct qp *qp, const struct ibv_recv_wr *wr,
				const struct ibv_recv_wr *end);
	void (*srq_receives_posted)(struct srq *srq, const struct ibv_recv_wr *wr,
				    const struct ibv_recv_wr *end);
	/* qp.lock: EINVAL if the state doesn't allow it, ENOMEM if the queue is full; or else. */
	void (*send_refused)(struct qp *qp, const char *call, uint64_t wr_id, int error);
	void (*receive_refused)(struct qp *qp, uint64_t wr_id, int error);

	/* qp.lock: a message begins to fill the oldest receive of @srq or, NULL, of @qp. */
	void (*receive_taken)(struct qp *qp, struct srq *srq);
	/* qp.lock: the oldest of its sends, or of its receives that were taken, is done. */
	void (*send_done)(struct qp *qp);
	void (*receive_done)(struct qp *qp);

	/*
	 * None: the application polls, or arms it; and cq.lock: this completion is the
	 * application's now.
	 */
	void (*polling)(struct cq *cq);
	void (*arming)(struct cq *cq);
	void (*polled)(struct cq *cq, const struct completion *completion);

	/* Any: the device is about to write there; and once more, when it has. */
	void (*written)(const void *address, size_t length);
	/* None, or qp.lock: the key ends, or changes. */
	void (*key_ends)(const struct key *key);
};

#define WATCH(hca, event, ...)                                                                     \
	do {                                                                                       \
		if (__builtin_expect((hca)->watch != NULL, 0))                                     \
			(hca)->watch->event(__VA_ARGS__);                                          \
	} while (0)

#endif
