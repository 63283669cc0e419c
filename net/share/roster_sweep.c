/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Removes the files of network namespaces that are gone. There is no telling that one
 * is; but in a file that had no member for an hour, no more is lost than where to lease
 * next, and packets and retries don't take an hour. Called by net/share/roster.c when it
 * created a file.
 *
 * Nobody writes down when a member is killed. So a file's mtime is when it was opened
 * last, and its atime, if that is later, since when a sweep has known it deserted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/share/roster_internal.h"

#define DESERTED_MAX 3600 /* seconds */

/* Whether it is one that we know how members lock: of a newer version we don't. */
static bool is_named_as_ours(const char *name)
{
	unsigned long long net;
	unsigned int user;
	int version, end = 0;

	return sscanf(name, ROSTER_FILE_NAME "%n", &version, &user, &net, &end) == 3 &&
	       !name[end] && version <= ROSTER_VERSION && user == geteuid();
}

/* All bytes that anybody might have, at once: then nobody is a member, nor becomes one. */
static bool lock_all(int fd, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* With all of it locked. */
static void remove_or_mark(int directory, const char *name, int fd)
{
	struct timespec times[2] = {{0}, {.tv_nsec = UTIME_OMIT}};
	struct stat file;

	/* Without links, the name is another file's by now. */
	if (fstat(fd, &file) < 0 || file.st_nlink == 0)
		return;
	clock_gettime(CLOCK_REALTIME, &times[0]);
	if (!is_later(file.st_atim, file.st_mtim))
		futimens(fd, times);
	else if (times[0].tv_sec - file.st_atim.tv_sec > DESERTED_MAX)
		unlinkat(directory, name, 0);
}

static void sweep_file(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	if (roster_file_is_safe(fd) && lock_all(fd, F_WRLCK)) {
		remove_or_mark(directory, name, fd);
		lock_all(fd, F_UNLCK); /* a child that was forked just now has it open too */
	}
	close(fd);
}

void roster_sweep(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *parent = slash ? strndup(path, slash - path + 1) : NULL;
	DIR *directory = parent ? opendir(parent) : NULL;
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		if (is_named_as_ours(entry->d_name))
			sweep_file(dirfd(directory), entry->d_name);
	}
	if (directory)
		closedir(directory);
	free(parent);
}
