/* SPDX-License-Identifier: BSD-2-Clause */
/* Preloaded: a machine without /dev/shm, as far as the files of processes are looked for there. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

__attribute__((visibility("default"))) DIR *opendir(const char *name)
{
	DIR *(*next)(const char *name) = dlsym(RTLD_NEXT, "opendir");

	if (strcmp(name, "/dev/shm") != 0)
		return next(name);
	errno = ENOENT;
	return NULL;
}
