/* SPDX-License-Identifier: BSD-2-Clause */
/* Fences: in which order other processors see what this thread does. */
#ifndef URXE_NET_FENCE_H
#define URXE_NET_FENCE_H

/*
 * What this thread reads from now on is no older than what it wrote before: of two that each write
 * and then look at what the other writes, one sees it. ThreadSanitizer knows no fences, and
 * the compiler says so of atomic_thread_fence().
 */
static inline void fence_all(void)
{
	__sync_synchronize();
}

#endif
