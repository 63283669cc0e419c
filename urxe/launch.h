/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Start a program with the library preloaded, once it is known that it will get the devices.
 * Called by the commands that do. All of it ends with die() where something is against it.
 */
#ifndef URXE_LAUNCH_H
#define URXE_LAUNCH_H

/* Become @argv[0], found in PATH. */
_Noreturn void launch(char **argv);

/* The same in two steps, of which the first can be made once for many processes. */
const char *launch_check(const char *program);
_Noreturn void launch_checked(char **argv, const char *library);

/* Become this program's command @name, whose process has the devices. */
_Noreturn void launch_command(const char *name);

#endif
