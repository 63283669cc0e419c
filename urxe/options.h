/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of commands that start a program with devices. Each stands for an environment
 * variable, and sets it.
 */
#ifndef URXE_OPTIONS_H
#define URXE_OPTIONS_H

#include <argp.h>

/* @value; dies if it is empty: that is the same as unset, and hardly what a script meant. */
const char *option_value(const char *option, const char *value);

/* Children of a command's argp. */
extern const struct argp_child device_options[];  /* which devices */
extern const struct argp_child program_options[]; /* these, and what is told of the program */

#endif
