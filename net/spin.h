/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks that each message takes, and that are held for some ten nanoseconds then: those of CQs,
 * destinations, the run queue and delayed ACKs. Releasing one is a store, where releasing a mutex
 * takes a locked instruction, which waits until all stores before it have left the CPU.
 *
 * They are the C library's spin locks, but for waiting: the thread that has the lock may have lost
 * its CPU, perhaps to the one that waits. Where a thread gives up at once when it doesn't get the
 * lock, that is pthread_spin_trylock(), and the lock may be held for long.
 */
#ifndef URXE_NET_SPIN_H
#define URXE_NET_SPIN_H

#include <pthread.h>

static inline void spin_init(pthread_spinlock_t *lock)
{
	pthread_spin_init(lock, PTHREAD_PROCESS_PRIVATE);
}

/* errno is as it was. */
void spin_wait(pthread_spinlock_t *lock);

static inline void spin_lock(pthread_spinlock_t *lock)
{
/* ThreadSanitizer finds locks that are taken in two orders, but for those that are tried. */
#if defined(__SANITIZE_THREAD__)
	pthread_spin_lock(lock);
#else
	if (__builtin_expect(pthread_spin_trylock(lock) != 0, 0))
		spin_wait(lock);
#endif
}

/* Between two looks at memory that another thread writes to: what shares the core gets on. */
static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

#endif
