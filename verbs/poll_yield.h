/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling threads that find nothing give up their CPU now and then: where there are more threads
 * than CPUs, the one that they wait for may need it. They yield; and where another thread keeps
 * polling, and so receives for all, they sleep until that thread has brought what they wait for. A
 * thread that yields is runnable, and for that alone the kernel gives it a share of the CPU.
 *
 * Not so where threads take turns to poll a queue: then it is a lock of the application's that they
 * wait for, and the one that polls has it. If that one yielded or slept with it, the others would
 * be woken in vain again and again.
 *
 * Called by progress_poll(), with no lock held. But for the keeper and a queue's turns all state is
 * the calling thread's.
 */
#ifndef URXE_VERBS_POLL_YIELD_H
#define URXE_VERBS_POLL_YIELD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Of a client: the thread that keeps polling it, when it last began to, ns, and whether its own CPU
 * was wanted when it last looked. All zeros at first.
 */
struct poll_keeper {
	_Atomic(const void *) thread; /* an address of its own memory */
	_Atomic uint64_t polled_at;
	_Atomic bool cpu_wanted;
};

/*
 * Of a queue: how often another thread than before polled it, and never two at once; the latest
 * one, and when it began to, ns. All zeros at first.
 */
struct poll_turns {
	_Atomic(const void *) thread; /* an address of its own memory */
	_Atomic uint64_t since;
	_Atomic uint32_t count;
	_Atomic uint32_t polling; /* threads that do now, of those that found @count not 0 */
};

/*
 * What a thread polls. Under @lock something is added, and where @count was 0 and there are
 * @sleepers, the threads that sleep on @count are woken (FUTEX_WAIT_PRIVATE).
 */
struct poll_queue {
	const _Atomic uint32_t *count;
	uint32_t *sleepers;
	pthread_spinlock_t *lock;
	struct poll_turns *turns;
};

/*
 * The calling thread begins to poll at @now for what may come into @queue, which was empty; NULL:
 * it doesn't wait for a queue. What is returned is for poll_end().
 */
bool poll_begin(const struct poll_queue *queue, uint64_t now);
void poll_end(const struct poll_queue *queue, bool counted);

/*
 * The calling thread is about to poll the client of @keeper. Where that is left to another thread
 * this one sleeps, and returns true.
 */
bool poll_sleep(struct poll_keeper *keeper, const struct poll_queue *queue, uint64_t now);

/*
 * The calling thread has polled the client of @keeper at @now. @begins: the poll found something,
 * or is the first one after a pause; else it is one more in a loop that found nothing.
 */
void poll_yield(struct poll_keeper *keeper, const struct poll_queue *queue, uint64_t now,
		bool begins);

#endif
