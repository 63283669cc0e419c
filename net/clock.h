/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The monotonic clock in nanoseconds: the time that real links and the verbs layer hand to the
 * core, which has no clock of its own.
 */
#ifndef URXE_NET_CLOCK_H
#define URXE_NET_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
