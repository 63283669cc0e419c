/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libc that take a path, so that paths of our devices lead to the
 * files of sysfs.c. Any other path costs one comparison and a jump to libc. libc
 * calls itself without passing by here, so each entry point has its wrapper,
 * those for binaries built before glibc 2.33 (__xstat) included.
 *
 *   PATH_CALL(type, name, parameters, arguments)   the parameter @path is the path
 */

/* This file defines both open() and open64(), and wants neither renamed nor checked. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "verbs/preload/export.h"
#include "verbs/preload/real.h"
#include "verbs/preload/sysfs.h"

#define REDIRECT(path)                                                                             \
	do {                                                                                       \
		if (unlikely(sysfs_watches(path)))                                                 \
			path = sysfs_redirect(path, __builtin_return_address(0));                  \
	} while (0)

#define PATH_CALL(type, name, parameters, arguments)                                               \
	EXPORT type name parameters;                                                               \
	EXPORT type name parameters                                                                \
	{                                                                                          \
		static void *cache;                                                                \
		type(*real) parameters = real_next(&cache, #name);                                 \
                                                                                                   \
		REDIRECT(path);                                                                    \
		return real arguments;                                                             \
	}

/* clang-format off */
PATH_CALL(int, access, (const char *path, int mode), (path, mode))
PATH_CALL(int, faccessat, (int folder, const char *path, int mode, int flags), (folder, path, mode, flags))
PATH_CALL(int, __open_2, (const char *path, int flags), (path, flags))
PATH_CALL(int, __open64_2, (const char *path, int flags), (path, flags))
PATH_CALL(int, __openat_2, (int folder, const char *path, int flags), (folder, path, flags))
PATH_CALL(int, __openat64_2, (int folder, const char *path, int flags), (folder, path, flags))
PATH_CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode))
PATH_CALL(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
PATH_CALL(FILE *, freopen, (const char *path, const char *mode, FILE *file), (path, mode, file))
PATH_CALL(FILE *, freopen64, (const char *path, const char *mode, FILE *file), (path, mode, file))
PATH_CALL(int, stat, (const char *path, struct stat *status), (path, status))
PATH_CALL(int, stat64, (const char *path, struct stat64 *status), (path, status))
PATH_CALL(int, lstat, (const char *path, struct stat *status), (path, status))
PATH_CALL(int, lstat64, (const char *path, struct stat64 *status), (path, status))
PATH_CALL(int, fstatat, (int folder, const char *path, struct stat *status, int flags), (folder, path, status, flags))
PATH_CALL(int, fstatat64, (int folder, const char *path, struct stat64 *status, int flags), (folder, path, status, flags))
PATH_CALL(int, statx, (int folder, const char *path, int flags, unsigned int mask, struct statx *status), (folder, path, flags, mask, status))
PATH_CALL(int, chdir, (const char *path), (path))
PATH_CALL(DIR *, opendir, (const char *path), (path))
PATH_CALL(int, scandir, (const char *path, struct dirent ***list, int (*filter)(const struct dirent *), int (*compare)(const struct dirent **, const struct dirent **)), (path, list, filter, compare))
PATH_CALL(int, scandir64, (const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *), int (*compare)(const struct dirent64 **, const struct dirent64 **)), (path, list, filter, compare))
PATH_CALL(ssize_t, readlink, (const char *path, char *buffer, size_t size), (path, buffer, size))
PATH_CALL(ssize_t, readlinkat, (int folder, const char *path, char *buffer, size_t size), (folder, path, buffer, size))
PATH_CALL(ssize_t, __readlink_chk, (const char *path, char *buffer, size_t size, size_t available), (path, buffer, size, available))
PATH_CALL(ssize_t, __readlinkat_chk, (int folder, const char *path, char *buffer, size_t size, size_t available), (folder, path, buffer, size, available))
PATH_CALL(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
PATH_CALL(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
PATH_CALL(ssize_t, listxattr, (const char *path, char *list, size_t size), (path, list, size))
PATH_CALL(ssize_t, llistxattr, (const char *path, char *list, size_t size), (path, list, size))
/* clang-format on */

/* --- open: a mode only when a file is created -------------------------------------------- */

#define OPEN_CALL(name, parameters, arguments)                                                     \
	EXPORT int name parameters                                                                 \
	{                                                                                          \
		static void *cache;                                                                \
		int(*real) parameters = real_next(&cache, #name);                                  \
		mode_t mode = 0;                                                                   \
                                                                                                   \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                         \
			va_list rest;                                                              \
                                                                                                   \
			va_start(rest, flags);                                                     \
			mode = va_arg(rest, mode_t);                                               \
			va_end(rest);                                                              \
		}                                                                                  \
		REDIRECT(path);                                                                    \
		return real arguments;                                                             \
	}

OPEN_CALL(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN_CALL(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* --- realpath: the answer is a path again --------------------------------------------------- */

static char *restored(char *result)
{
	if (result)
		sysfs_restore(result);
	return result;
}

EXPORT char *realpath(const char *path, char *resolved)
{
	static void *cache;
	char *(*real)(const char *, char *) = real_next(&cache, "realpath");

	if (likely(!sysfs_watches(path)))
		return real(path, resolved);
	path = sysfs_redirect(path, __builtin_return_address(0));
	return restored(real(path, resolved));
}

EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	static void *cache;
	char *(*real)(const char *, char *, size_t) = real_next(&cache, "__realpath_chk");

	if (likely(!sysfs_watches(path)))
		return real(path, resolved, size);
	path = sysfs_redirect(path, __builtin_return_address(0));
	return restored(real(path, resolved, size));
}

EXPORT char *canonicalize_file_name(const char *path)
{
	static void *cache;
	char *(*real)(const char *) = real_next(&cache, "canonicalize_file_name");

	if (likely(!sysfs_watches(path)))
		return real(path);
	path = sysfs_redirect(path, __builtin_return_address(0));
	return restored(real(path));
}

/* --- before glibc 2.33: the version of the structure comes first ------------------------------ */

#define VERSIONED_CALL(name, target, parameters, arguments)                                        \
	EXPORT int name parameters;                                                                \
	EXPORT int name parameters                                                                 \
	{                                                                                          \
		REDIRECT(path);                                                                    \
		return target arguments;                                                           \
	}

/* clang-format off */
VERSIONED_CALL(__xstat, stat, (int version, const char *path, struct stat *status), (path, status))
VERSIONED_CALL(__xstat64, stat64, (int version, const char *path, struct stat64 *status), (path, status))
VERSIONED_CALL(__lxstat, lstat, (int version, const char *path, struct stat *status), (path, status))
VERSIONED_CALL(__lxstat64, lstat64, (int version, const char *path, struct stat64 *status), (path, status))
VERSIONED_CALL(__fxstatat, fstatat, (int version, int folder, const char *path, struct stat *status, int flags), (folder, path, status, flags))
VERSIONED_CALL(__fxstatat64, fstatat64, (int version, int folder, const char *path, struct stat64 *status, int flags), (folder, path, status, flags))
/* clang-format on */
