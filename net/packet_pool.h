/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for copies of packets that outlive the link's buffers: what arrived out of order
 * (emu/transport/reorder.h). They are cut from chunks, one behind another (as page_frag of
 * Linux): packets come and go in about the same order and in large numbers, which malloc()
 * answers with a page fault each.
 *
 * A pool has the chunks of all; any thread may call, and its lock is a leaf. What packets are cut
 * from is an arena's alone, under the lock of its owner: a locked instruction for each packet would
 * wait until the copy of the one before has left the CPU's store buffer, as long as the copy takes.
 */
#ifndef URXE_NET_PACKET_POOL_H
#define URXE_NET_PACKET_POOL_H

#include <pthread.h>
#include <stddef.h>

struct packet_chunk;

struct packet_pool {
	pthread_mutex_t lock;
	struct packet_chunk *spare; /* utlist */
	unsigned int spare_count;
	unsigned int used_count; /* chunks that arenas have */
};

/* All zeros is an empty one, and so it is when everything has been put. */
struct packet_arena {
	struct packet_pool *pool;     /* of its chunks */
	struct packet_chunk *current; /* that packets are cut from, or NULL */
};

void packet_pool_init(struct packet_pool *pool);
/* Everything must have been put. */
void packet_pool_destroy(struct packet_pool *pool);

/*
 * @size bytes, at most PACKET_POOL_LARGEST, aligned for any structure; @pool is the same until all
 * have been put. NULL: there is no memory, or @limit bytes of the pool are in use with what lies
 * between packets that stayed.
 */
#define PACKET_POOL_LARGEST 16384
void *packet_arena_get(struct packet_arena *arena, struct packet_pool *pool, size_t size,
		       size_t limit);
void packet_arena_put(struct packet_arena *arena, void *memory);

#endif
