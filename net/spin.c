/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/spin.h"

#include <errno.h>
#include <sched.h>

#include "net/syscalls.h"

#define SPIN_LOOKS 32	 /* as long as the lock is held by a thread that runs */
#define SPIN_YIELDS 32	 /* for one that doesn't, and could on this CPU */
#define SPIN_SLEEP 50000 /* ns; a yield leaves the CPU to no thread of a lower priority */

void spin_wait(pthread_spinlock_t *lock)
{
	const struct timespec sleep = {.tv_nsec = SPIN_SLEEP};
	int before = errno;

	for (unsigned int tries = 0; pthread_spin_trylock(lock) != 0; tries++) {
		if (tries < SPIN_LOOKS)
			spin_pause();
		else if (tries < SPIN_LOOKS + SPIN_YIELDS)
			sched_yield();
		else
			sys_nanosleep(&sleep);
	}
	errno = before;
}
