/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Seeded random numbers for what must be repeatable: the simulator and the
 * fault filter. SplitMix64 (Steele, Lea and Flood, 2014): the state is a
 * counter, so any seed is a good one. Never for secrets. The state is the
 * caller's, and so is its lock.
 */
#ifndef URXE_NET_RANDOM_H
#define URXE_NET_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Uniform in [0, @bound); 0 for a bound of 0. The bias is below bound / 2^64. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)random_next(state) * bound) >> 64);
}

/* True with @probability; draws a number either way, so that streams stay aligned. */
static inline bool random_hit(uint64_t *state, double probability)
{
	return (double)(random_next(state) >> 11) * 0x1p-53 < probability;
}

#endif
