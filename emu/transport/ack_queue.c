/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/ack_queue.h"

#include <utlist.h>

#include "net/clock.h"
#include "net/spin.h"

void ack_queue_init(struct ack_queue *queue)
{
	*queue = (struct ack_queue){0};
	atomic_init(&queue->oldest, TIME_NEVER);
	spin_init(&queue->lock);
}

void ack_queue_destroy(struct ack_queue *queue)
{
	pthread_spin_destroy(&queue->lock);
}

/* Released: who finds none left sees who has them (hca.acknowledging). */
static void update_oldest(struct ack_queue *queue)
{
	atomic_store_explicit(&queue->oldest, queue->head ? queue->head->since : TIME_NEVER,
			      memory_order_release);
}

static void take_out(struct ack_queue *queue, struct delayed_ack *ack)
{
	ack->queued = false;
	DL_DELETE(queue->head, ack);
	update_oldest(queue);
}

void ack_queue_add(struct ack_queue *queue, struct delayed_ack *ack, uint64_t now)
{
	spin_lock(&queue->lock);
	if (!ack->queued) {
		ack->queued = true;
		ack->since = now;
		DL_APPEND(queue->head, ack);
		update_oldest(queue);
	}
	pthread_spin_unlock(&queue->lock);
}

void ack_queue_remove(struct ack_queue *queue, struct delayed_ack *ack)
{
	spin_lock(&queue->lock);
	if (ack->queued)
		take_out(queue, ack);
	pthread_spin_unlock(&queue->lock);
}

static uint32_t take_locked(struct ack_queue *queue, uint64_t until)
{
	struct delayed_ack *oldest = queue->head;

	if (!oldest || oldest->since > until)
		return 0;
	take_out(queue, oldest);
	return oldest->number;
}

uint32_t ack_queue_take(struct ack_queue *queue, uint64_t until)
{
	uint32_t number;

	if (atomic_load_explicit(&queue->oldest, memory_order_relaxed) > until)
		return 0;
	spin_lock(&queue->lock);
	number = take_locked(queue, until);
	pthread_spin_unlock(&queue->lock);
	return number;
}

uint32_t ack_queue_try_take(struct ack_queue *queue)
{
	uint32_t number;

	if (pthread_spin_trylock(&queue->lock) != 0)
		return 0;
	number = take_locked(queue, TIME_NEVER);
	pthread_spin_unlock(&queue->lock);
	return number;
}
