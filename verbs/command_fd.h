/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command descriptor of a context, ibv_context.cmd_fd. On hardware it is the kernel's file
 * with all objects that were made through it; an application hands a duplicate of it to
 * ibv_import_device(), and gets another context on that file. Here it is a memfd that says which
 * device it is of, so that it is known again, in this process and in others.
 *
 * Contexts with one file are known by the file's identity (context.cmd_identity): objects of one
 * are for the others to import, as far as they are in the same process.
 *
 * Called by verbs/context.c and the dispatcher. No locks.
 */
#ifndef URXE_VERBS_COMMAND_FD_H
#define URXE_VERBS_COMMAND_FD_H

#include <stdbool.h>

struct device;

/* A descriptor for a new context on @device, or -1 with errno. */
int command_fd_open(const struct device *device);

/* Whether a process with urxe opened it. */
bool command_fd_is_ours(int fd);
/*
 * The device of @fd, which is ours; NULL with ENODEV where it isn't among the devices of this
 * process, which may have another configuration than the one that opened it.
 */
struct device *command_fd_device(int fd);

#endif
