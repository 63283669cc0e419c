/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The smaller and the larger of two amounts. For times there are earlier() and later()
 * (net/clock.h), for PSNs, which wrap, psn_distance() (net/wire/wire.h).
 */
#ifndef URXE_NET_MINMAX_H
#define URXE_NET_MINMAX_H

#include <stdint.h>

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
