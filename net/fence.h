/* SPDX-License-Identifier: BSD-2-Clause */
/* Fences: in which order other processors see what this thread does. */
#ifndef URXE_NET_FENCE_H
#define URXE_NET_FENCE_H

#include <stdatomic.h>

/*
 * What this thread reads from now on is no older than what it wrote before: of two that each write
 * and then look at what the other writes, one sees it. ThreadSanitizer knows no fences, and
 * the compiler says so of atomic_thread_fence().
 */
static inline void fence_all(void)
{
	__sync_synchronize();
}

/*
 * For memory of the application, which isn't atomic: what this thread writes from now on is seen
 * behind what it wrote before. No instruction on x86.
 */
static inline void fence_writes(void)
{
#if !defined(__SANITIZE_THREAD__)
	atomic_thread_fence(memory_order_release);
#endif
}

/* Likewise: what it reads from now on is no older than what it read before. */
static inline void fence_reads(void)
{
#if !defined(__SANITIZE_THREAD__)
	atomic_thread_fence(memory_order_acquire);
#endif
}

#endif
