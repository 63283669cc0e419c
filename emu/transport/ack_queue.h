/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delayed ACKs. An ACK on its own costs both sides as much as the
 * message that it answers, and a message that goes back can piggyback it for
 * next to nothing; so a QP that has nothing pending but an ACK isn't run at once, but
 * queued here, in the order in which they became pending. It leaves the queue when
 * a request piggybacks the ACK, or when the HCA sends what is old enough
 * (net/tuning.h): soon, when nothing else arrives; later, while packets do, or when an application
 * that has polled lately is likely to answer.
 *
 * ack_queue.lock is a leaf; QPs add and remove themselves under their own lock.
 * Only numbers come out, since a QP may be destroyed meanwhile.
 */
#ifndef URXE_EMU_ACK_QUEUE_H
#define URXE_EMU_ACK_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A QP's place in the queue. */
struct delayed_ack {
	struct delayed_ack *prev, *next; /* utlist */
	bool queued;
	uint64_t since;
	uint32_t number;
};

struct ack_queue {
	pthread_spinlock_t lock;
	struct delayed_ack *head;
	_Atomic uint64_t oldest; /* head->since or TIME_NEVER: read without the lock */
};

void ack_queue_init(struct ack_queue *queue);
void ack_queue_destroy(struct ack_queue *queue);

/* From @now on, unless it waits already. */
void ack_queue_add(struct ack_queue *queue, struct delayed_ack *ack, uint64_t now);
void ack_queue_remove(struct ack_queue *queue, struct delayed_ack *ack);

/* Whether one waits for @age or longer. */
static inline bool ack_queue_is_due(const struct ack_queue *queue, uint64_t now, uint64_t age)
{
	return now >= age &&
	       atomic_load_explicit(&queue->oldest, memory_order_relaxed) <= now - age;
}

/* Take out the oldest that waits since @until or longer. Returns its number, or 0. */
uint32_t ack_queue_take(struct ack_queue *queue, uint64_t until);

/* Take out any, without waiting for the lock. Returns its number, or 0. */
uint32_t ack_queue_try_take(struct ack_queue *queue);

#endif
