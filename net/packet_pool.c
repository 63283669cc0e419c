/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/packet_pool.h"

#include <stdbool.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/tuning.h"

struct packet_chunk {
	struct packet_chunk *next;
	unsigned int users; /* packets that were cut from it and are still there */
	size_t used;	    /* bytes of @memory */
	_Alignas(max_align_t) unsigned char memory[PACKET_POOL_CHUNK];
};

/* Before each packet. */
union packet_owner {
	struct packet_chunk *chunk;
	max_align_t alignment;
};

_Static_assert(PACKET_POOL_LARGEST + sizeof(union packet_owner) <= PACKET_POOL_CHUNK, "");

void packet_pool_init(struct packet_pool *pool)
{
	*pool = (struct packet_pool){};
	pthread_mutex_init(&pool->lock, NULL);
}

void packet_pool_destroy(struct packet_pool *pool)
{
	struct packet_chunk *chunk, *next;

	LL_FOREACH_SAFE (pool->spare, chunk, next)
		free(chunk);
	pthread_mutex_destroy(&pool->lock);
}

/* --- chunks, with the pool's lock -------------------------------------------------------- */

static struct packet_chunk *take_chunk(struct packet_pool *pool, size_t limit)
{
	struct packet_chunk *chunk = pool->spare;

	if ((pool->used_count + 1) * (size_t)PACKET_POOL_CHUNK > limit)
		return NULL;
	if (chunk) {
		LL_DELETE(pool->spare, chunk);
		pool->spare_count--;
	} else {
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
	}
	chunk->users = 0;
	chunk->used = 0;
	pool->used_count++;
	return chunk;
}

static void give_chunk(struct packet_pool *pool, struct packet_chunk *chunk)
{
	pool->used_count--;
	if (pool->spare_count == PACKET_POOL_SPARE) {
		free(chunk);
		return;
	}
	LL_PREPEND(pool->spare, chunk);
	pool->spare_count++;
}

/* --- packets ------------------------------------------------------------------------------ */

/* The one before is its packets' alone then: the last of them gives it back. */
static bool next_chunk(struct packet_arena *arena, size_t limit)
{
	struct packet_chunk *chunk;

	pthread_mutex_lock(&arena->pool->lock);
	chunk = take_chunk(arena->pool, limit);
	pthread_mutex_unlock(&arena->pool->lock);
	if (chunk)
		arena->current = chunk;
	return chunk;
}

void *packet_arena_get(struct packet_arena *arena, struct packet_pool *pool, size_t size,
		       size_t limit)
{
	struct packet_chunk *chunk;
	union packet_owner *owner;

	arena->pool = pool;
	size = (size + sizeof(*owner) + sizeof(*owner) - 1) / sizeof(*owner) * sizeof(*owner);
	if ((!arena->current || arena->current->used + size > PACKET_POOL_CHUNK) &&
	    !next_chunk(arena, limit))
		return NULL;
	chunk = arena->current;
	owner = (union packet_owner *)(chunk->memory + chunk->used);
	owner->chunk = chunk;
	chunk->users++;
	chunk->used += size;
	return owner + 1;
}

void packet_arena_put(struct packet_arena *arena, void *memory)
{
	struct packet_chunk *chunk = ((union packet_owner *)memory - 1)->chunk;

	if (--chunk->users)
		return;
	if (chunk == arena->current)
		arena->current = NULL;
	pthread_mutex_lock(&arena->pool->lock);
	give_chunk(arena->pool, chunk);
	pthread_mutex_unlock(&arena->pool->lock);
}
