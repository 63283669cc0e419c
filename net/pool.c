/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Thread ids are addresses, a multiple of the stack size apart: Fibonacci hashing spreads them. */
static struct pool_slot *pool_slot_of_thread(struct pool *pool)
{
	uint64_t hash = (uint64_t)(uintptr_t)pthread_self() * UINT64_C(0x9e3779b97f4a7c15);

	return &pool->slots[(hash >> 32) % POOL_SLOTS];
}

static void *pool_allocate(size_t size)
{
	void *buffer = aligned_alloc(CACHE_LINE, cache_line_end(size));

	if (buffer)
		memset(buffer, 0, size < POOL_ZEROS ? size : POOL_ZEROS);
	return buffer;
}

/* With the slot taken, so that no other thread gives it a buffer. */
static void *pool_slot_buffer(struct pool_slot *slot, size_t size)
{
	void *buffer = atomic_load_explicit(&slot->buffer, memory_order_relaxed);

	if (buffer)
		return buffer;
	buffer = pool_allocate(size);
	atomic_store_explicit(&slot->buffer, buffer, memory_order_relaxed);
	return buffer;
}

/* A store is enough: what takes a locked instruction waits for the stores before it. */
static void pool_slot_release(struct pool_slot *slot)
{
	atomic_store_explicit(&slot->taken, false, memory_order_release);
}

int pool_reserve(struct pool *pool, size_t size)
{
	void *buffer = pool_allocate(size);

	if (!buffer)
		return ENOMEM;
	atomic_store(&pool->reserve, buffer);
	return 0;
}

static void *pool_take_reserve(struct pool *pool)
{
	return atomic_exchange(&pool->reserve, NULL);
}

/* Whether it is the reserve from now on. */
static bool pool_put_reserve(struct pool *pool, void *buffer)
{
	void *none = NULL;

	return atomic_compare_exchange_strong(&pool->reserve, &none, buffer);
}

void *pool_get(struct pool *pool, size_t size)
{
	struct pool_slot *slot = pool_slot_of_thread(pool);
	void *buffer;

	if (atomic_exchange_explicit(&slot->taken, true, memory_order_acquire)) {
		buffer = pool_allocate(size);
	} else {
		buffer = pool_slot_buffer(slot, size);
		if (!buffer)
			pool_slot_release(slot);
	}
	return buffer ? buffer : pool_take_reserve(pool);
}

void pool_put(struct pool *pool, void *buffer)
{
	struct pool_slot *slot = pool_slot_of_thread(pool);

	if (buffer == atomic_load_explicit(&slot->buffer, memory_order_relaxed))
		pool_slot_release(slot);
	else if (!pool_put_reserve(pool, buffer))
		free(buffer);
}

void pool_destroy(struct pool *pool)
{
	for (unsigned int i = 0; i < POOL_SLOTS; i++) {
		free(atomic_load_explicit(&pool->slots[i].buffer, memory_order_relaxed));
		atomic_store_explicit(&pool->slots[i].buffer, NULL, memory_order_relaxed);
	}
	free(pool_take_reserve(pool));
}
