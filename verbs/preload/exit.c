/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * _exit(2), by which forked processes and some runtimes leave (os._exit() of Python): hardware
 * answers for a process, whatever becomes of it, and so what was received last is acknowledged
 * here. By another thread, as a signal handler may be the one to call. exit(3) is
 * verbs/registry.c's; the process that is killed, and the one that becomes another program
 * (execve(2)), end without.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs/preload/export.h"
#include "verbs/preload/real.h"
#include "verbs/registry.h"

/* That of libc, or of a sanitizer. */
static void *next;

/* Not when it is called: dlsym() may not be in a signal handler. */
static __attribute__((constructor)) void find_next(void)
{
	real_next(&next, "_exit");
}

EXPORT void _exit(int status)
{
	void (*end)(int status) = next;

	registry_exit_immediately();
	if (end)
		end(status);
	for (;;) /* a constructor that runs before ours has called */
		syscall(SYS_exit_group, status);
}

EXPORT void _Exit(int status)
{
	_exit(status);
}
