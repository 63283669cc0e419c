/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * accept4(2) for programs under librspreload.so, which has accept() only: the call would be made
 * with the descriptor that stands for an rsocket, and fail. Elsewhere it is libc's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "verbs/preload/export.h"
#include "verbs/preload/real.h"

/* Whether accept() is librspreload's. */
static bool has_rsockets(void)
{
	Dl_info info;

	return dladdr(dlsym(RTLD_DEFAULT, "accept"), &info) && info.dli_fname &&
	       strstr(info.dli_fname, "librspreload");
}

EXPORT int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	static void *cache;
	int (*next)(int, struct sockaddr *, socklen_t *, int);
	int accepted;

	if (!has_rsockets()) {
		next = real_next(&cache, "accept4");
		return next(fd, address, length, flags);
	}
	if (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) {
		errno = EINVAL;
		return -1;
	}
	accepted = accept(fd, address, length);
	if (accepted >= 0 && flags & SOCK_NONBLOCK)
		fcntl(accepted, F_SETFL, O_NONBLOCK);
	if (accepted >= 0 && flags & SOCK_CLOEXEC)
		fcntl(accepted, F_SETFD, FD_CLOEXEC);
	return accepted;
}
