/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Assertions for any thread, which Check's are not: what doesn't hold ends the
 * process. And addresses that no other test has at the same time, and which
 * sanitizer is watching.
 */
#ifndef URXE_TESTS_THREADS_MUST_H
#define URXE_TESTS_THREADS_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__,           \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#else
#define HAS_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif

#define OWN_ADDRESS_LENGTH 16

/* "127.a.b.c", made of the process id: the @index-th of this process and of no other. */
static inline void own_address(char text[OWN_ADDRESS_LENGTH], unsigned int index)
{
	unsigned int pid = getpid();

	snprintf(text, OWN_ADDRESS_LENGTH, "127.%u.%u.%u", (96 + index * 8 + (pid >> 16 & 7)) & 255,
		 pid >> 8 & 255, pid & 255);
}

#endif
