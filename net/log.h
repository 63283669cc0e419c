/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Log lines on stderr, by level (URXE_LOG=error|warn|info|debug). The default
 * is warn: silent but for real problems. The level is set once by the verbs
 * layer before any device opens; writing is one write(2) a line, thread-safe.
 */
#ifndef URXE_NET_LOG_H
#define URXE_NET_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
/* Returns 0, or -1 when @name is none of the levels. */
int log_parse_level(const char *name, enum log_level *level);
bool log_is_enabled(enum log_level level);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Whatever the level: what was asked for (net/cause/cause.h). The strings of @parts, one after the
 * other, of which there are at most LOG_PARTS. It takes no buffer: the stack may be small.
 */
#define LOG_PARTS 12
void log_paragraph(const char *const *parts, unsigned int count);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
