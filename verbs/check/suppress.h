/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Misuse that the user doesn't want to hear of, by cause and place: a file of lines
 *
 *   CAUSE PATTERN
 *
 * where CAUSE is a cause's name or number ("OBJECT_LEAKED", "0x7020") or a pattern of names, and
 * PATTERN, one of the shell, is matched against the function, the source file and the library or
 * program of each of the application's frames. Empty lines, and what follows a '#', are ignored.
 *
 * Read once, with the configuration; immutable afterwards.
 */
#ifndef URXE_VERBS_CHECK_SUPPRESS_H
#define URXE_VERBS_CHECK_SUPPRESS_H

#include <stdbool.h>

#include "net/cause/cause.h"
#include "net/cause/origin.h"

/* False: the file can't be read, or a line isn't of that form. */
bool suppress_read(const char *path);

/* Whether a line suppresses reports of @cause with a frame of @origin. */
bool suppress_matches(const struct cause_entry *cause, const struct origin *origin);

#endif
