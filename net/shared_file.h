/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files in a directory like /dev/shm, which processes of one user map and by whose locks they know
 * of each other whether they live. Any user can create files there, of any name: none but the
 * user's own is opened.
 *
 * Called by net/observe, net/shm and net/share. No locks but those on files.
 */
#ifndef URXE_NET_SHARED_FILE_H
#define URXE_NET_SHARED_FILE_H

#include <stdbool.h>
#include <sys/types.h>

/* Create one without a name, for its user alone, whatever the umask. -1 with errno. */
int shared_file_create(const char *directory);
/*
 * Lock it for as long as @fd is open, then give it the name @path: no process finds it unlocked.
 * False with errno. It is to be complete by then.
 */
bool shared_file_publish(int fd, const char *path);

/* The same without the lock. */
bool shared_file_name(int fd, const char *path);

/* Whether an open file is safely ours: any user can create files of any name. */
bool shared_file_is_safe(int fd);
/* Whether there is one of our user's by that name, though it may not be opened. */
bool shared_file_is_ours(int directory, const char *name);
/* Open one that is safely ours. -1 with errno: ENOENT alone says that there is none. */
int shared_file_open(int directory, const char *name, int flags);

/*
 * Have the file system give the space now: where it couldn't later, a store would be a SIGBUS.
 * Returns 0 or an errno: EFBIG beyond the process's limit (ulimit -f), without its signal.
 */
int shared_file_reserve(int fd, off_t offset, off_t length);

/* Whether the process that has published it lives. */
bool shared_file_is_locked(int fd);

#endif
