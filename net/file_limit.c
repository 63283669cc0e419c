/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/file_limit.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "net/syscalls.h"

/* Pipes and terminals have no size. */
static off_t size_of(int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) ? file.st_size : -1;
}

static rlim_t most(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

static bool is_beyond(off_t end)
{
	const rlim_t limit = most();

	return limit != RLIM_INFINITY && (rlim_t)end > limit;
}

bool file_limit_is_before(int fd, off_t end)
{
	off_t size = is_beyond(end) ? size_of(fd) : -1;

	return size >= 0 && size < end;
}

bool file_limit_reached(int fd, size_t length)
{
	const rlim_t limit = most();
	/* Few processes have a limit: without one the file isn't asked for its length. */
	const off_t size = limit == RLIM_INFINITY ? -1 : size_of(fd);

	return size >= 0 && (rlim_t)size + length > limit;
}

ssize_t file_limit_write(int fd, const void *data, size_t length)
{
	if (!file_limit_reached(fd, length))
		return sys_write(fd, data, length);
	errno = EFBIG;
	return -1;
}

ssize_t file_limit_pwrite(int fd, const void *data, size_t length, off_t offset)
{
	if (!is_beyond(offset + length))
		return sys_pwrite(fd, data, length, offset);
	errno = EFBIG;
	return -1;
}
