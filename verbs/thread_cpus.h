/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPUs that the progress thread runs on: those that it was given, but for one where an
 * application thread spins in its own memory until a packet has been placed there. A thread that
 * packets wake there gets that CPU at the kernel's next tick, milliseconds later; on the others are
 * threads that poll, and yield, or none.
 *
 * thread_cpus_avoid() is called by the progress thread alone, about itself.
 */
#ifndef URXE_VERBS_THREAD_CPUS_H
#define URXE_VERBS_THREAD_CPUS_H

#include <sched.h>

#define CPU_NONE (-1)

struct thread_cpus {
	int avoided;	 /* or CPU_NONE */
	cpu_set_t given; /* while one is avoided: what the thread goes back to */
};

#define THREAD_CPUS_INIT ((struct thread_cpus){.avoided = CPU_NONE})

/* How many the thread may run on; 2 where that can't be told. */
unsigned int thread_cpus_count(void);

/* Run on any but @cpu from now on, or on any for CPU_NONE. The only one isn't avoided. */
void thread_cpus_avoid(struct thread_cpus *cpus, int cpu);

#endif
