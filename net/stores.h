/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How to write memory that another CPU reads, and that this one writes again and again: through
 * the caches, or past them with non-temporal stores. CPUs that share a cache are twice as fast with
 * the first, the one that reads even three times. Where they share none (the core complexes of
 * large processors, sockets), each line has to be taken from the reader's cache before it is
 * written: 64 KiB take 15 to 35 us instead of 5. Which CPUs the two run on changes, those of a
 * virtual machine without a notice; so both ways are tried from time to time, and compared by the
 * time that they take. Where the compiler has no such stores, as on arm64, both are the first.
 *
 * Called by the links that write into memory from which a receiver reads (net/udp, net/shm), with
 * the lock of the connection or ring that it belongs to.
 */
#ifndef URXE_NET_STORES_H
#define URXE_NET_STORES_H

#include <stdbool.h>
#include <stdint.h>

#include "net/cache_line.h"

/* The choice for the memory that one receiver reads. */
struct stores {
	uint32_t turn;	   /* bytes until the same memory is written again */
	bool nontemporal;  /* rather than through the caches */
	uint64_t written;  /* bytes since the latest decision */
	uint64_t least[2]; /* the shortest time for a MiB, ns, by whether it was non-temporal; 0:
			      none */
};

/* One piece that is written. */
struct stores_block {
	bool nontemporal;
	uint64_t begun; /* ns; 0: its time isn't taken */
};

/* @turn: all of the memory, bytes. */
void stores_init(struct stores *stores, uint32_t turn);
/* A block is to be written: which way? */
struct stores_block stores_begin(const struct stores *stores);
/* It has been, all of its @length bytes. */
void stores_end(struct stores *stores, const struct stores_block *block, uint32_t length);
/* The same, in @time ns, which are of no importance unless @block's time is taken. */
void stores_end_after(struct stores *stores, const struct stores_block *block, uint32_t length,
		      uint64_t time);

/*
 * As memcpy(), past the caches but for the incomplete lines at the ends. Whatever is stored
 * afterwards is seen afterwards.
 */
void stores_copy_nontemporal(uint8_t *to, const uint8_t *from, uint32_t length);

#endif
