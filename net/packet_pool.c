/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/packet_pool.h"

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
	free(pool->current);
	pthread_mutex_destroy(&pool->lock);
}

/* One without packets, for the next ones to be cut from. */
static struct packet_chunk *new_chunk(struct packet_pool *pool)
{
	struct packet_chunk *chunk = pool->spare;

	if (chunk) {
		LL_DELETE(pool->spare, chunk);
		pool->spare_count--;
	} else {
		chunk = malloc(sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->users = 0;
	}
	chunk->used = 0;
	return chunk;
}

static void free_chunk(struct packet_pool *pool, struct packet_chunk *chunk)
{
	if (pool->spare_count == PACKET_POOL_SPARE) {
		free(chunk);
		return;
	}
	LL_PREPEND(pool->spare, chunk);
	pool->spare_count++;
}

static void *cut(struct packet_pool *pool, size_t size, size_t limit)
{
	struct packet_chunk *chunk = pool->current;
	union packet_owner *owner;

	size = (size + sizeof(*owner) + sizeof(*owner) - 1) / sizeof(*owner) * sizeof(*owner);
	if (!chunk || chunk->used + size > PACKET_POOL_CHUNK) {
		if ((pool->used_count + 1) * (size_t)PACKET_POOL_CHUNK > limit)
			return NULL;
		/* The one before is its packets' alone now: the last of them frees it. */
		chunk = pool->current = new_chunk(pool);
		if (!chunk)
			return NULL;
	}
	pool->used_count += chunk->users++ == 0;
	owner = (union packet_owner *)(chunk->memory + chunk->used);
	owner->chunk = chunk;
	chunk->used += size;
	return owner + 1;
}

void *packet_pool_get(struct packet_pool *pool, size_t size, size_t limit)
{
	void *memory;

	pthread_mutex_lock(&pool->lock);
	memory = cut(pool, size, limit);
	pthread_mutex_unlock(&pool->lock);
	return memory;
}

void packet_pool_put(struct packet_pool *pool, void *memory)
{
	struct packet_chunk *chunk = ((union packet_owner *)memory - 1)->chunk;

	pthread_mutex_lock(&pool->lock);
	if (--chunk->users == 0) {
		pool->used_count--;
		if (chunk == pool->current)
			chunk->used = 0;
		else
			free_chunk(pool, chunk);
	}
	pthread_mutex_unlock(&pool->lock);
}
