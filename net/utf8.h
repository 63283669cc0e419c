/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which bytes are UTF-8 (RFC 3629), for those that write JSON, which has no others: names of files
 * may have any. Called by the checker's reports (verbs/check/report_file.c) and by the commands
 * with --json (urxe/json.c). No state, no locks.
 */
#ifndef URXE_NET_UTF8_H
#define URXE_NET_UTF8_H

#include <stddef.h>

/* Bytes of the character that @text, which isn't empty, begins with; 0: it begins with none. */
size_t utf8_length(const char *text);

#endif
