/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for copies of packets that outlive the link's buffers: what arrived out of order
 * (emu/transport/reorder.h). They are cut from chunks, one behind another (as page_frag of
 * Linux): packets come and go in about the same order and in large numbers, which malloc()
 * answers with a page fault each.
 *
 * Any thread may call; the lock is a leaf.
 */
#ifndef URXE_NET_PACKET_POOL_H
#define URXE_NET_PACKET_POOL_H

#include <pthread.h>
#include <stddef.h>

struct packet_chunk;

struct packet_pool {
	pthread_mutex_t lock;
	struct packet_chunk *current; /* that packets are cut from, or NULL */
	struct packet_chunk *spare;   /* utlist */
	unsigned int spare_count;
	unsigned int used_count; /* chunks with packets */
};

void packet_pool_init(struct packet_pool *pool);
/* Everything must have been put. */
void packet_pool_destroy(struct packet_pool *pool);

/*
 * @size bytes, at most PACKET_POOL_LARGEST, aligned for any structure. NULL: there is no memory, or
 * @limit bytes are in use with what lies between packets that stayed.
 */
#define PACKET_POOL_LARGEST 16384
void *packet_pool_get(struct packet_pool *pool, size_t size, size_t limit);
void packet_pool_put(struct packet_pool *pool, void *memory);

#endif
