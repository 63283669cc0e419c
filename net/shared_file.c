/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/descriptor.h"
#include "net/file_limit.h"
#include "net/syscalls.h"

int shared_file_create(const char *directory)
{
	int fd = descriptor_above_standard(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));

	if (fd >= 0)
		fchmod(fd, 0600);
	return fd;
}

bool shared_file_name(int fd, const char *path)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/thread-self/fd/%d", fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* In another user namespace 0 is another user, too. */
static bool is_own_file(const struct stat *file)
{
	return S_ISREG(file->st_mode) && file->st_uid == geteuid();
}

bool shared_file_is_safe(int fd)
{
	struct stat file;

	return fstat(fd, &file) == 0 && is_own_file(&file) && (file.st_mode & 077) == 0;
}

bool shared_file_is_ours(int directory, const char *name)
{
	struct stat file;

	return fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && is_own_file(&file);
}

int shared_file_open(int directory, const char *name, int flags)
{
	int fd = descriptor_above_standard(
		openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));

	if (fd < 0 || shared_file_is_safe(fd))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

/* --- space ------------------------------------------------------------------------------------ */

int shared_file_reserve(int fd, off_t offset, off_t length)
{
	int error;

	if (file_limit_is_before(fd, offset + length))
		return EFBIG;
	do
		error = sys_fallocate(fd, 0, offset, length) < 0 ? errno : 0;
	while (error == EINTR);
	return error;
}

/* --- the lock --------------------------------------------------------------------------------- */

bool shared_file_publish(int fd, const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0 && shared_file_name(fd, path);
}

bool shared_file_is_locked(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
