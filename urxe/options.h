/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of commands that start a program with devices. Each stands for an environment
 * variable, and sets it. And what is read from the command line by more than one command.
 */
#ifndef URXE_OPTIONS_H
#define URXE_OPTIONS_H

#include <argp.h>
#include <sys/types.h>

/* @value; dies if it is empty: that is the same as unset, and hardly what a script meant. */
const char *option_value(const char *option, const char *value);

/* The process id @text; dies if it is none. */
pid_t option_pid(const char *text);

/* The number @text that @option has; dies if it is none of @least to @most. */
unsigned long option_number(const char *option, const char *text, unsigned long least,
			    unsigned long most);

/* The same, perhaps with a fraction; "nan" and "inf" are none. */
double option_decimal(const char *option, const char *text, double least, double most);

/* Children of a command's argp. */
extern const struct argp_child plain_options[];	  /* -h, which all commands have */
extern const struct argp_child device_options[];  /* with which devices */
extern const struct argp_child program_options[]; /* with these, and what is told of the program */

#endif
