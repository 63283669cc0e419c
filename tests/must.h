/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An assertion for any thread and for programs without Check: what doesn't hold
 * ends the process.
 */
#ifndef URXE_TESTS_MUST_H
#define URXE_TESTS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__,           \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
