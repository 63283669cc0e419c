/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A preload that shows /dev/null where the kernel would have uverbs0. With
 * SYSFS_PATH on a made-up tree the real libibverbs then loads its rxe provider
 * and opens a device that isn't there: real objects, without a kernel module.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UVERBS "/dev/infiniband/uverbs"

static const char *shown(const char *path)
{
	return path && strncmp(path, UVERBS, strlen(UVERBS)) == 0 ? "/dev/null" : path;
}

__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	va_list arguments;
	int mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, int);
	va_end(arguments);
	return real(shown(path), flags, mode);
}

__attribute__((visibility("default"))) int stat(const char *path, struct stat *status)
{
	int (*real)(const char *, struct stat *) =
		(int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");

	return real(shown(path), status);
}
