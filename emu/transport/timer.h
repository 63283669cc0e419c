/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines: a heap of QPs by the time at which they want to be run, and of CQs whose
 * events wait (emu/objects/cq.h), for which all that follows holds, too. The ids of the
 * connection manager have a heap of their own (emu/cm/cm_timer.c). Lazy: a QP
 * that postpones its deadline (every acknowledgement does) leaves its entry
 * where it is and is put back when the entry comes up; only an earlier deadline
 * touches the heap. The heap's lock is a leaf: it may be taken with a QP lock
 * held, and nothing is taken under it.
 */
#ifndef URXE_EMU_TIMER_H
#define URXE_EMU_TIMER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
	_Atomic uint64_t time; /* its key in the heap; 0: it isn't there */
	size_t position;       /* 1 + index in the heap; 0: not in it */
	uint32_t number;       /* the QP's; the CQ's with TIMER_OF_CQ; or the id's index */
};

#define TIMER_OF_CQ 0x80000000u /* QP numbers have 24 bits */

struct timer_heap {
	pthread_mutex_t lock;
	struct timer **heap;
	size_t count, capacity;
	_Atomic uint64_t next; /* the earliest time, or TIME_NEVER: read without the lock */
};

void timer_heap_init(struct timer_heap *heap);
void timer_heap_destroy(struct timer_heap *heap);

/*
 * Make sure that @timer comes up at @time or earlier. Returns whether the
 * heap's earliest time has become earlier: then a thread that sleeps until the
 * earliest time must be woken. The caller holds the QP's lock, and the thread that
 * takes the timer out of the heap takes that lock next, to look for what is due: so
 * a timer that is found armed early enough, without the heap's lock, is.
 */
bool timer_arm(struct timer_heap *heap, struct timer *timer, uint64_t time);
void timer_cancel(struct timer_heap *heap, struct timer *timer);

/* Take out one timer that is due at @now and return its number, or 0 when none is. */
uint32_t timer_expire(struct timer_heap *heap, uint64_t now);

#endif
