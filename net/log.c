/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log lines on stderr. A line is formatted on the stack and written at once, so
 * that lines of several threads and processes don't mix. The level is written
 * before any device opens and only read afterwards: no lock.
 */
#include "net/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "net/syscalls.h"

#define LINE_MAX_LENGTH 1024

static const char *const names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

static enum log_level threshold = LOG_WARN;

void log_set_level(enum log_level level)
{
	__atomic_store_n(&threshold, level, __ATOMIC_RELAXED);
}

int log_parse_level(const char *name, enum log_level *level)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(name, names[i]) == 0) {
			*level = i;
			return 0;
		}
	}
	return -1;
}

void log_write(enum log_level level, const char *format, ...)
{
	char line[LINE_MAX_LENGTH];
	int error = errno;
	int length, rest;
	va_list arguments;

	if (level > __atomic_load_n(&threshold, __ATOMIC_RELAXED))
		return;

	length = snprintf(line, sizeof(line), "urxe[%d] %s: ", (int)getpid(), names[level]);
	va_start(arguments, format);
	rest = vsnprintf(line + length, sizeof(line) - length, format, arguments);
	va_end(arguments);
	if (rest < 0)
		return;
	length += rest;
	if (length > (int)sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n';

	/* There is no place to report that stderr can't be written to. */
	if (sys_write(STDERR_FILENO, line, length) < 0)
		length = 0;
	errno = error; /* logging must be free of effects at any place */
}
