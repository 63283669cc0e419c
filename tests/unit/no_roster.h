/* SPDX-License-Identifier: BSD-2-Clause */
/* As where no roster can be had: for as long as the kernel has no random number for its members. */
#ifndef URXE_TESTS_UNIT_NO_ROSTER_H
#define URXE_TESTS_UNIT_NO_ROSTER_H

#include <errno.h>
#include <stdbool.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool no_roster;

/* Of libc, which the roster calls. */
ssize_t getrandom(void *buffer, size_t length, unsigned int flags)
{
	if (!no_roster)
		return syscall(SYS_getrandom, buffer, length, flags);
	errno = ENOSYS;
	return -1;
}

#endif
