/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Start a program with the library preloaded, once it is known that it will get the devices.
 * Called by the commands that do. Where it wouldn't get them these end with die().
 */
#ifndef URXE_LAUNCH_H
#define URXE_LAUNCH_H

/* Become @argv[0], found in PATH. */
_Noreturn void launch(char **argv);

/*
 * The same in two steps: the first, which returns the library, can be made once for many processes.
 * The second ends with 126 or 127, as a shell does, for what can't be executed.
 */
const char *launch_check(const char *program);
_Noreturn void launch_checked(char **argv, const char *library);

/* Become this program's command @name, whose process has the devices. */
_Noreturn void launch_command(const char *name);

#endif
