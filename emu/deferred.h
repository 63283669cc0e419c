/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames for queue pairs that another thread has locked, as the backlog of a socket in Linux:
 * that thread may be an application's which lost the CPU in the middle of sending, and the
 * receiving thread, which serves all queue pairs, doesn't wait for it. They are copies, in
 * order, and delivered before any later frame of their queue pair.
 *
 * A peer's two directions of XRC are two queue pairs each, an initiator and a target. It sends an
 * ACK before the application's answer to what is acknowledged, and applications count on their
 * completing in this order: a target's frames wait behind the responses for initiators, too.
 *
 * A MAD that ends the connection of a queue pair waits among its frames.
 *
 * Called by emu/receive.c. All of it belongs to the thread that receives (hca.receive_lock), but
 * for deferred_retry_at(), which any thread may call.
 */
#ifndef URXE_EMU_DEFERRED_H
#define URXE_EMU_DEFERRED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"

struct deferred_frame {
	struct link_frame frame;
	struct deferred_frame *next;
	uint8_t data[];
};

struct deferred_qp;

struct deferred {
	struct deferred_qp *qps;   /* uthash, by QP number */
	unsigned int initiators;   /* of XRC, among @qps: whose first frame is a response */
	_Atomic uint64_t tried_at; /* when this was tried last, or began; TIME_NEVER: empty */
};

void deferred_init(struct deferred *deferred);
void deferred_destroy(struct deferred *deferred);

/* Whether frames for QP @number are waiting, so that a later one must, too. */
bool deferred_has(const struct deferred *deferred, uint32_t number);

/* Whether @frame is for a target of XRC, and has to wait for the responses for an initiator. */
bool deferred_precedes(const struct deferred *deferred, const struct link_frame *frame);

/* Whether @length bytes more may be kept for it. */
bool deferred_has_room(const struct deferred *deferred, uint32_t number, uint32_t length);

/* Keep a copy of @frame. Returns false when there is no room or memory for it: it is lost. */
bool deferred_add(struct deferred *deferred, uint32_t number, const struct link_frame *frame,
		  uint64_t now);

/*
 * Call @deliver for each queue pair with the list (utlist) of its frames; the one that it returns
 * and those behind it stay (NULL: none), the others are dropped. Returns whether any went.
 */
typedef const struct deferred_frame *deferred_deliver(void *context, uint32_t number,
						      const struct deferred_frame *frames,
						      uint64_t now);
bool deferred_retry(struct deferred *deferred, deferred_deliver *deliver, void *context,
		    uint64_t now);

/* When to retry if nothing else makes a round before, or TIME_NEVER. */
uint64_t deferred_retry_at(const struct deferred *deferred);

#endif
