/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands of urxe(1), one file each. main.c has their table and calls the one that is named,
 * with argv[0] "urxe NAME", as argp(3) has it in its messages. A command returns the exit status.
 * One thread, no locks.
 */
#ifndef URXE_COMMAND_H
#define URXE_COMMAND_H

#include <stdio.h>

/* What was asked for can't be read or can't be done: nothing was started. */
#define EXIT_REFUSED 2

struct command {
	const char *name;
	int (*call)(int argc, char **argv);
	const char *help; /* one line; NULL: only this program itself calls it */
};

int command_run(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_top(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_ctl(int argc, char **argv);
int command_devices(int argc, char **argv);
int command_list_devices(int argc, char **argv);
int command_profiles(int argc, char **argv);
int command_fuzz(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_help(int argc, char **argv);

/* NULL: there is none of that name. */
const struct command *command_find(const char *name);
/* What there is, as "urxe --help" shows it. */
void command_overview(FILE *stream);

/* What was given, as a message has it: that it is empty shows. */
static inline const char *given(const char *text)
{
	return *text ? text : "\"\"";
}

/* NULL, or what die() calls first: a command that has changed the terminal sets it back. */
extern void (*die_first)(void);
/* One line on stderr, "urxe: ...", and the end with EXIT_REFUSED. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
