/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "net/syscalls.h"

struct descriptor_identity descriptor_identify(int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return (struct descriptor_identity){};
	return (struct descriptor_identity){status.st_dev, status.st_ino};
}

bool descriptor_is(int fd, const struct descriptor_identity *identity)
{
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 &&
	       descriptor_same(&(struct descriptor_identity){status.st_dev, status.st_ino},
			       identity);
}

bool descriptor_verify(int *fd, const struct descriptor_identity *identity)
{
	int number = __atomic_load_n(fd, __ATOMIC_ACQUIRE); /* and what @identity is */

	return number < 0 || descriptor_is(number, identity) ||
	       !__atomic_compare_exchange_n(fd, &number, -1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

void descriptor_close(int fd, const struct descriptor_identity *identity)
{
	if (descriptor_is(fd, identity))
		sys_close(fd);
}

int descriptor_above_standard(int fd)
{
	int above, error;
	bool closed_by_exec;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	closed_by_exec = fcntl(fd, F_GETFD) & FD_CLOEXEC;
	above = fcntl(fd, closed_by_exec ? F_DUPFD_CLOEXEC : F_DUPFD, STDERR_FILENO + 1);
	error = errno;
	sys_close(fd);
	errno = error;
	return above;
}
