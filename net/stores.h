/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How to write memory that another CPU reads, and that this one writes again and again: through
 * the caches, or past them with non-temporal stores. CPUs that share a cache are twice as fast with
 * the first, the one that reads even three times. Where they share none (the core complexes of
 * large processors, sockets), each line has to be taken from the reader's cache before it is
 * written: 64 KiB take 15 to 35 us instead of 5. Which CPUs the two run on changes, so it is a
 * choice (net/choice.h). Where the compiler has no such stores, as on arm64, both ways are the
 * first.
 *
 * Called by the links that write into memory from which a receiver reads (net/udp, net/shm), with
 * the lock of the connection or ring that it belongs to.
 */
#ifndef URXE_NET_STORES_H
#define URXE_NET_STORES_H

#include <stdint.h>

#include "net/choice.h"
#include "net/tuning.h"

/*
 * Of the choice for memory of @turn bytes that one receiver reads, of which non-temporal stores are
 * the special way. What isn't in any cache, since it was written past them, has to be there before
 * the caches can show what they gain. And new memory has no pages yet, so what is written to it
 * first tells nothing.
 */
#define STORES_RULE(turn)                                                                          \
	{                                                                                          \
		.first = 2 * (uint64_t)(turn), .round = STORES_ROUND, .trial = STORES_TRIAL,       \
		.settling[false] = (turn), .percent = STORES_PERCENT,                              \
	}

/*
 * As memcpy(), past the caches but for the incomplete lines at the ends. Whatever is stored
 * afterwards is seen afterwards.
 */
void stores_copy_nontemporal(uint8_t *to, const uint8_t *from, uint32_t length);

#endif
