/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of a process's files (RLIMIT_FSIZE, ulimit -f). Beyond it the kernel sends SIGXFSZ,
 * which ends an application that has no part in what we write: so it is looked at before.
 *
 * Called wherever a file is written or made longer, by any thread. No state, no locks.
 */
#ifndef URXE_NET_FILE_LIMIT_H
#define URXE_NET_FILE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the file would have to be longer than it may be, to reach to @end. */
bool file_limit_is_before(int fd, off_t end);
/* The same, for @length bytes more. */
bool file_limit_reached(int fd, size_t length);

/* write() at the end of @fd, and pwrite(), which may be within it: EFBIG instead of the signal. */
ssize_t file_limit_write(int fd, const void *data, size_t length);
ssize_t file_limit_pwrite(int fd, const void *data, size_t length, off_t offset);

#endif
