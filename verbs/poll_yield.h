/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling threads that find nothing give up their CPU now and then: where there are more threads
 * than CPUs, the one that they wait for may need it. Called by progress_poll(), with no lock held;
 * all state is the calling thread's.
 */
#ifndef URXE_VERBS_POLL_YIELD_H
#define URXE_VERBS_POLL_YIELD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The calling thread has polled at @now. @begins: the poll found something, or is the first one
 * after a pause; else it is one more in a loop that found nothing.
 */
void poll_yield(uint64_t now, bool begins);

#endif
