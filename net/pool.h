/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Working memory for one call at a time, where it would be too much for the stack
 * of an application's thread: the packets of a round (emu/transport/outbox.h) and what
 * the UDP link makes of them (net/udp/udp_send.c). A thread gets the same buffer with each call,
 * and its CPU still has it in its caches.
 *
 * Any thread may call; there is no lock. A pool begins as zeros. All buffers of a
 * pool have one size, and begin at cache lines. A new one begins with zeros, for what a thread
 * keeps from one call to the next; the rest of it is undefined. Where there is no memory for one,
 * threads take turns with the reserve.
 */
#ifndef URXE_NET_POOL_H
#define URXE_NET_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "net/cache_line.h"

#define POOL_ZEROS 512 /* bytes, or the size */

/* A thread has one of these by its identity; one that finds it taken allocates for that call. */
#define POOL_SLOTS 32

struct pool {
	struct pool_slot {
		_Atomic(void *) buffer; /* NULL: it was never taken */
		atomic_bool taken;
		uint8_t padding[CACHE_LINE - 2 * sizeof(void *)]; /* a cache line each */
	} slots[POOL_SLOTS];
	_Atomic(void *) reserve; /* NULL: none was made, or a thread has it */
};

/* Makes the reserve. Returns 0 or ENOMEM. */
int pool_reserve(struct pool *pool, size_t size);

/*
 * Each success is paired with a pool_put() of the same thread. NULL when there is no memory, and
 * another thread has the reserve.
 */
void *pool_get(struct pool *pool, size_t size);
void pool_put(struct pool *pool, void *buffer);

/* Every buffer must have been put. */
void pool_destroy(struct pool *pool);

#endif
