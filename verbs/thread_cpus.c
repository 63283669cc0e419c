/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/thread_cpus.h"

#include <stdbool.h>

static bool given_to_this_thread(cpu_set_t *set)
{
	return sched_getaffinity(0, sizeof(*set), set) == 0;
}

unsigned int thread_cpus_count(void)
{
	cpu_set_t set;

	return given_to_this_thread(&set) ? CPU_COUNT(&set) : 2;
}

static void give_back(struct thread_cpus *cpus)
{
	if (cpus->avoided != CPU_NONE)
		sched_setaffinity(0, sizeof(cpus->given), &cpus->given);
	cpus->avoided = CPU_NONE;
}

void thread_cpus_avoid(struct thread_cpus *cpus, int cpu)
{
	cpu_set_t others;

	if (cpu == cpus->avoided)
		return;
	give_back(cpus);
	if (cpu == CPU_NONE || !given_to_this_thread(&cpus->given))
		return;
	others = cpus->given;
	CPU_CLR(cpu, &others);
	if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
		cpus->avoided = cpu;
}
