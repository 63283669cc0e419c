/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The summary that "urxe stat" and "urxe run --stat" print when a program has ended.
 */
#ifndef URXE_STAT_H
#define URXE_STAT_H

#include <stdbool.h>

/*
 * Run @program, found in PATH, and print the summary on stderr. Returns the exit status; dies where
 * the program can't be started (urxe/launch.h).
 */
int stat_program(char **program, bool json);

#endif
