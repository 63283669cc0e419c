/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/pool.h"

#include <pthread.h>
#include <stdatomic.h>
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

void *pool_get(struct pool *pool, size_t size)
{
	struct pool_slot *slot = pool_slot_of_thread(pool);
	void *buffer = atomic_exchange_explicit(&slot->buffer, NULL, memory_order_acquire);

	return buffer ? buffer : pool_allocate(size);
}

void pool_put(struct pool *pool, void *buffer)
{
	struct pool_slot *slot = pool_slot_of_thread(pool);
	void *other = atomic_exchange_explicit(&slot->buffer, buffer, memory_order_acq_rel);

	free(other);
}

void pool_destroy(struct pool *pool)
{
	for (unsigned int i = 0; i < POOL_SLOTS; i++)
		free(atomic_exchange(&pool->slots[i].buffer, NULL));
}
