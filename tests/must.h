/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An assertion for any thread, for programs without Check, and for loops: Check
 * writes a note to a file each time one of its own passes. What doesn't hold ends
 * the process.
 */
#ifndef URXE_TESTS_MUST_H
#define URXE_TESTS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must_msg(condition, ...)                                                                   \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                            \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define must(condition) must_msg(condition, "%s does not hold", #condition)

#endif
