/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device at the end of its process: what its peers would wait for leaves before. Called by
 * verbs/devices.c; by _exit() perhaps in a signal handler, amid anything, and then by any thread.
 */
#include <time.h>
#include <unistd.h>

#include "emu/hca.h"
#include "net/clock.h"
#include "net/fault/fault.h"
#include "net/syscalls.h"
#include "verbs/device.h"
#include "verbs/progress.h"

/*
 * How long the end of a process waits for another thread: for so many pauses of so many ns, at
 * least a tenth of a second. Those don't count in which that thread waits for a CPU, or has yet to
 * run at all: ours is given one again and again meanwhile, as it sleeps most of the time. But for
 * one device it is not longer than END_MOST ns in all.
 */
#define END_PAUSES 1000
#define END_PAUSE 100000
#define END_MOST 2000000000

/* Pauses that are left, and until when. */
struct end_patience {
	unsigned int pauses;
	uint64_t deadline;
};

static struct end_patience end_patience(void)
{
	return (struct end_patience){END_PAUSES, clock_now() + END_MOST};
}

/* Returns false when either is used up. */
static bool end_pause(struct end_patience *patience, bool counts)
{
	if (patience->pauses == 0 || clock_now() > patience->deadline)
		return false;
	patience->pauses -= counts;
	sys_nanosleep(&(struct timespec){.tv_nsec = END_PAUSE});
	return true;
}

/*
 * What another thread has received, and the application seen the completion of, is acknowledged by
 * that thread, or by the progress thread. In a copy of the process there are none.
 */
static void await_acks(struct device *device, struct end_patience *patience)
{
	if (!device->client)
		return;
	while (hca_request_acks(device->hca)) {
		progress_app_sleeping(device->client);
		if (!end_pause(patience, !progress_is_runnable(device->client)))
			break;
	}
}

/* Other processes don't find it any more. */
static void end_link(struct device *device)
{
	if (device->link->ops->at_exit)
		device->link->ops->at_exit(device->link);
}

void device_flush_on_exit(struct device *device)
{
	struct end_patience patience = end_patience();

	if (!device_try_lock(device))
		return;
	atomic_store(&device->ending, gettid());
	await_acks(device, &patience);
	progress_release_descriptors(device->client);
	hca_flush_on_exit(device->hca, clock_now());
	end_link(device);
	fault_link_report(device->link);
	atomic_store(&device->ending, 0);
	device_unlock(device);
}

/* Another thread may end the process, too, and has the lock until what it waits for has left. */
static bool lock_at_end(struct device *device, struct end_patience *patience)
{
	while (pthread_mutex_trylock(&device->lock) != 0) {
		if (!end_pause(patience, !atomic_load(&device->ending)))
			return false;
	}
	atomic_store(&device->ending, gettid());
	return true;
}

void device_end(struct device *device)
{
	struct end_patience patience = end_patience();
	/* In a signal handler, which has interrupted the thread amid this. */
	bool has_lock = atomic_load(&device->ending) == gettid();

	if (!has_lock && !lock_at_end(device, &patience))
		return;
	if (device->hca) {
		await_acks(device, &patience);
		end_link(device);
	}
	if (has_lock)
		return;
	atomic_store(&device->ending, 0);
	device_unlock(device);
}
