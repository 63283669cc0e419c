/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A binary heap of deadlines: emu/transport/timer.h says of what, and what its lock
 * allows. Every timer knows its place, so that cancelling needs no search.
 */
#include "emu/transport/timer.h"

#include <stdlib.h>

#include "net/clock.h"

#define TIMER_HEAP_INITIAL 64

void timer_heap_init(struct timer_heap *heap)
{
	*heap = (struct timer_heap){0};
	atomic_init(&heap->next, TIME_NEVER);
	pthread_mutex_init(&heap->lock, NULL);
}

void timer_heap_destroy(struct timer_heap *heap)
{
	free(heap->heap);
	pthread_mutex_destroy(&heap->lock);
}

static uint64_t timer_time(const struct timer *timer)
{
	return atomic_load_explicit(&timer->time, memory_order_relaxed);
}

static void timer_set_time(struct timer *timer, uint64_t time)
{
	atomic_store_explicit(&timer->time, time, memory_order_relaxed);
}

static void timer_place(struct timer_heap *heap, size_t index, struct timer *timer)
{
	heap->heap[index] = timer;
	timer->position = index + 1;
}

static void timer_sift_up(struct timer_heap *heap, size_t index, struct timer *timer)
{
	while (index > 0) {
		size_t parent = (index - 1) / 2;

		if (timer_time(heap->heap[parent]) <= timer_time(timer))
			break;
		timer_place(heap, index, heap->heap[parent]);
		index = parent;
	}
	timer_place(heap, index, timer);
}

static void timer_sift_down(struct timer_heap *heap, size_t index, struct timer *timer)
{
	for (;;) {
		size_t child = 2 * index + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    timer_time(heap->heap[child + 1]) < timer_time(heap->heap[child]))
			child++;
		if (timer_time(timer) <= timer_time(heap->heap[child]))
			break;
		timer_place(heap, index, heap->heap[child]);
		index = child;
	}
	timer_place(heap, index, timer);
}

static uint64_t timer_first(const struct timer_heap *heap)
{
	return heap->count ? timer_time(heap->heap[0]) : TIME_NEVER;
}

static void timer_update_next(struct timer_heap *heap)
{
	atomic_store(&heap->next, timer_first(heap));
}

static void timer_take_out(struct timer_heap *heap, struct timer *timer)
{
	size_t index = timer->position - 1;
	struct timer *last = heap->heap[--heap->count];

	timer->position = 0;
	if (last != timer) {
		if (timer_time(last) < timer_time(timer))
			timer_sift_up(heap, index, last);
		else
			timer_sift_down(heap, index, last);
	}
	timer_set_time(timer, 0);
	timer_update_next(heap);
}

static bool timer_grow(struct timer_heap *heap)
{
	size_t capacity = heap->capacity ? 2 * heap->capacity : TIMER_HEAP_INITIAL;
	struct timer **grown;

	if (heap->count < heap->capacity)
		return true;
	grown = reallocarray(heap->heap, capacity, sizeof(struct timer *));
	if (!grown)
		return false;
	heap->heap = grown;
	heap->capacity = capacity;
	return true;
}

static bool timer_arm_locked(struct timer_heap *heap, struct timer *timer, uint64_t time)
{
	uint64_t before = timer_first(heap);

	if (timer->position) {
		if (timer_time(timer) <= time)
			return false;
		timer_set_time(timer, time);
		timer_sift_up(heap, timer->position - 1, timer);
	} else {
		/* Without memory the QP waits for its next packet instead of its deadline. */
		if (!timer_grow(heap))
			return false;
		timer_set_time(timer, time);
		timer_sift_up(heap, heap->count++, timer);
	}
	timer_update_next(heap);
	return time < before;
}

bool timer_arm(struct timer_heap *heap, struct timer *timer, uint64_t time)
{
	uint64_t armed = timer_time(timer);
	bool earlier;

	if (time == TIME_NEVER || (armed && armed <= time))
		return false;
	pthread_mutex_lock(&heap->lock);
	earlier = timer_arm_locked(heap, timer, time);
	pthread_mutex_unlock(&heap->lock);
	return earlier;
}

void timer_cancel(struct timer_heap *heap, struct timer *timer)
{
	pthread_mutex_lock(&heap->lock);
	if (timer->position)
		timer_take_out(heap, timer);
	pthread_mutex_unlock(&heap->lock);
}

uint32_t timer_expire(struct timer_heap *heap, uint64_t now)
{
	uint32_t number = 0;

	if (atomic_load(&heap->next) > now)
		return 0;
	pthread_mutex_lock(&heap->lock);
	if (heap->count && timer_first(heap) <= now) {
		number = heap->heap[0]->number;
		timer_take_out(heap, heap->heap[0]);
	}
	pthread_mutex_unlock(&heap->lock);
	return number;
}
