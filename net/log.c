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
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "net/file_limit.h"
#include "net/syscalls.h"

#define LINE_MAX_LENGTH 1536

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

bool log_is_enabled(enum log_level level)
{
	return level <= __atomic_load_n(&threshold, __ATOMIC_RELAXED);
}

static void write_line(const char *level, const char *format, va_list arguments)
{
	char line[LINE_MAX_LENGTH];
	int error = errno;
	int length, rest;

	length = snprintf(line, sizeof(line), "urxe[%d] %s: ", (int)getpid(), level);
	rest = vsnprintf(line + length, sizeof(line) - length, format, arguments);
	if (rest > 0)
		length += rest;
	if (length > (int)sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n';

	/* There is no place to report that stderr can't be written to. */
	file_limit_write(STDERR_FILENO, line, length);
	errno = error; /* logging must be free of effects at any place */
}

void log_write(enum log_level level, const char *format, ...)
{
	va_list arguments;

	if (!log_is_enabled(level))
		return;
	va_start(arguments, format);
	write_line(names[level], format, arguments);
	va_end(arguments);
}

void log_paragraph(const char *const *parts, unsigned int count)
{
	struct iovec iov[LOG_PARTS + 2];
	size_t length = 0;
	int error = errno;
	char header[32];

	iov[0].iov_base = header;
	iov[0].iov_len = snprintf(header, sizeof(header), "urxe[%d] ", (int)getpid());
	for (unsigned int i = 0; i < count; i++)
		iov[i + 1] = (struct iovec){(char *)parts[i], strlen(parts[i])};
	iov[count + 1] = (struct iovec){(char *)"\n", 1};
	for (unsigned int i = 0; i < count + 2; i++)
		length += iov[i].iov_len;
	if (!file_limit_reached(STDERR_FILENO, length))
		sys_writev(STDERR_FILENO, iov, count + 2);
	errno = error;
}
