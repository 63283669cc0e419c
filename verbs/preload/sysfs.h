/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that a kernel would have for our devices: /sys/class/infiniband/NAME,
 * /sys/class/infiniband_verbs/DEV_NAME and /dev/infiniband/DEV_NAME. They are
 * written to a private directory when a program first asks for one of them, and
 * removed at exit. Called by the wrappers of sysfs_calls.c.
 */
#ifndef URXE_VERBS_SYSFS_H
#define URXE_VERBS_SYSFS_H

#include <stdbool.h>
#include <string.h>

/* The one comparison that every path of the application goes through. */
static inline bool sysfs_watches(const char *path)
{
	return path && path[0] == '/' &&
	       ((path[1] == 's' && strncmp(path, "/sys/class/infiniband", 21) == 0) ||
		(path[1] == 'd' && strncmp(path, "/dev/infiniband", 15) == 0));
}

/*
 * Where @path, which is watched, is found: in a buffer of this thread when it is
 * about one of our devices, else @path itself. The real libibverbs and librdmacm
 * (@caller lies in them) see the real files.
 */
const char *sysfs_redirect(const char *path, const void *caller);

/* The path that the application knows for what sysfs_redirect() led to. In place. */
void sysfs_restore(char *path);

#endif
