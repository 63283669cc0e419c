/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/host.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "net/syscalls.h"
#include "verbs/memory.h"

/* To wait for a thread that connects, at the end of the process. */
#define EXIT_SECONDS 1

static void process_yield(void)
{
	sched_yield();
}

static size_t process_page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

static bool process_lock_at_exit(pthread_mutex_t *lock)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += EXIT_SECONDS;
	return pthread_mutex_timedlock(lock, &until) == 0;
}

static void process_wake(const _Atomic uint32_t *word)
{
	sys_futex_wake((const void *)word);
}

const struct hca_host process_host = {
	.yield = process_yield,
	.page_size = process_page_size,
	.check_memory = memory_check,
	.lock_at_exit = process_lock_at_exit,
	.wake = process_wake,
};
