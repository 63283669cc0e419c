/* SPDX-License-Identifier: BSD-2-Clause */
/* When a polling thread gives up its CPU: verbs/poll_yield.h. */
#include "verbs/poll_yield.h"

#include <sched.h>
#include <sys/resource.h>

#include "net/clock.h"
#include "net/tuning.h"

/* Of a thread, not of a client: while one thread's polls make progress, another's don't. */
static _Thread_local struct {
	uint64_t since;	 /* when the polls that found nothing began, ns; or when they count again */
	bool cpu_wanted; /* another thread ran when this one last yielded */
} empty;

/* How often this thread has lost its CPU. A yield that nothing came of isn't among them. */
static long context_switches(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) != 0)
		return 0;
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/*
 * If other threads want this CPU, one of them may be the peer's, or the one of ours that is
 * receiving: let them have it. One that doesn't give it back soon is none of these.
 */
static void yield_to_others(void)
{
	long switches = context_switches();
	uint64_t before = clock_now(), after;

	sched_yield();
	after = clock_now();
	empty.cpu_wanted = context_switches() != switches;
	empty.since = after;
	if (after - before > POLL_YIELD_LOST)
		empty.since += PROGRESS_CPU_CONTENDED;
}

void poll_yield(uint64_t now, bool begins)
{
	uint64_t patience = empty.cpu_wanted ? POLL_YIELD_AFTER_WANTED : POLL_YIELD_AFTER;
	int64_t passed = now - empty.since;

	if (begins && passed > PROGRESS_POLL_GRAIN)
		empty.since = now;
	else if (!begins && passed > (int64_t)patience)
		yield_to_others();
}
