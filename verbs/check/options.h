/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What URXE_CHECK asks of the checker: "1", or options separated by commas, of which "1" may be
 * one. Read with the configuration, immutable afterwards.
 *
 *   exit=N         the status of a process in which something was reported
 *   json=FILE      each report as a line of JSON, too; "%p" becomes the process id
 *   suppress=FILE  what not to report (verbs/check/suppress.h)
 *   no-leaks       say nothing of what is left at exit
 *   portability    compare with all profiles of cards; portability=NAME+NAME: with these
 *   order          complete and place data in unusual order, where the specification allows it
 */
#ifndef URXE_VERBS_CHECK_OPTIONS_H
#define URXE_VERBS_CHECK_OPTIONS_H

#include <stdbool.h>

struct check_options {
	bool on;
	bool order;
	bool no_leaks;
	int exit_status;      /* 0: unchanged */
	const char *json;     /* an absolute path, or NULL */
	const char *suppress; /* a path, or NULL */
};

/* NULL, or what is wrong with @text: "exit=0 is not ...". @text NULL or "0": the checker is off. */
const char *check_options_read(const char *text, struct check_options *options);

#endif
