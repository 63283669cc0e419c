/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/host.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/route.h"
#include "net/syscalls.h"
#include "net/wire/gid.h"
#include "net/wire/gid_table.h"
#include "verbs/memory.h"

/* To wait for another thread that has the lock, at the end of the process. */
#define EXIT_SECONDS 1
#define EXIT_PAUSE 100000 /* ns */

static void process_yield(void)
{
	sched_yield();
}

static size_t process_page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

/*
 * What else the question may fail of is no matter of routes. It takes longer than all the rest of a
 * queue pair's making: from the loopback device it isn't asked.
 */
static int process_check_route(const struct gid_entry *source, const union ibv_gid *destination)
{
	struct sockaddr_storage from, to;
	int error;

	if (gid_is_loopback(&source->gid))
		return 0;
	gid_to_scoped_sockaddr(&source->gid, 0, source->ifindex, &from);
	gid_to_scoped_sockaddr(destination, 0, source->ifindex, &to);
	error = route_ask((const struct sockaddr *)&to, &from, NULL);
	return error == ENETUNREACH || error == EHOSTUNREACH ? error : 0;
}

/*
 * Not by pthread_mutex_timedlock(), for the time of day may be set back meanwhile; nor by
 * pthread_mutex_clocklock(), which TSan doesn't know.
 */
static bool process_lock_at_exit(pthread_mutex_t *lock)
{
	const uint64_t end = clock_now() + EXIT_SECONDS * NS_PER_S;

	while (pthread_mutex_trylock(lock) != 0) {
		if (clock_now() > end)
			return false;
		sys_nanosleep(&(struct timespec){.tv_nsec = EXIT_PAUSE});
	}
	return true;
}

static void process_wake(const _Atomic uint32_t *word)
{
	sys_futex_wake((const void *)word);
}

const struct hca_host process_host = {
	.yield = process_yield,
	.page_size = process_page_size,
	.check_memory = memory_check,
	.check_route = process_check_route,
	.lock_at_exit = process_lock_at_exit,
	.wake = process_wake,
};
