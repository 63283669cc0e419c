/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of URXE_CHECK=json=FILE, one JSON object a line. It is opened for each line: a
 * descriptor that stays open is one that applications close. Several processes may append to one.
 *
 * Called by verbs/check/report.c, and by verbs/check/options.c when the configuration is read. No
 * state, no locks.
 */
#ifndef URXE_VERBS_CHECK_REPORT_FILE_H
#define URXE_VERBS_CHECK_REPORT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* @name as an absolute path: the application may change its folder. NULL without memory. */
char *report_file_path(const char *name);
/*
 * It isn't created: a process that reports nothing, such as one that asks for the devices alone,
 * leaves none.
 */
bool report_file_is_writable(const char *path);

void report_file_append(const char *path, const char *line, size_t length);

/* @text as a JSON string, with its quotes; each byte that isn't UTF-8 (net/utf8.h) as "?". */
void json_write_string(FILE *stream, const char *text);

#endif
