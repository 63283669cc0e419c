/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where in the application an object was made, or a call was made: a backtrace, which costs some
 * microseconds, kept while explanations are on (net/cause/cause.h) and written as a line of the
 * source when a report names it.
 *
 * Objects of the core and of rdma_cm have one from their creation until they are freed. Reports
 * describe it, in any thread, with or without locks held (net/cause/place.h).
 */
#ifndef URXE_NET_CAUSE_ORIGIN_H
#define URXE_NET_CAUSE_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for a description, which is cut at need. */
#define ORIGIN_TEXT 128

struct origin;

/* Load what backtraces and their lines need. Once, under no lock, when explanations are turned on.
 */
void origin_prepare(void);

/* Of the calling thread. NULL without explanations, or memory. */
struct origin *origin_capture(void);
void origin_free(struct origin *origin);

/*
 * "app.c:112 (setup_buffers)": the innermost frame that isn't of liburxe, libibverbs or librdmacm.
 * Of code without debug information it is "setup (libfoo.so.1)" or "libfoo.so.1+0x1234", with the
 * next caller that has some: ", from app.c:57 (main)". Returns false, and an empty text, when there
 * is no such frame: @origin is NULL, or of a thread of the library's own.
 */
bool origin_describe(const struct origin *origin, char *buffer, size_t size);

/* @before and the description, for a sentence: ", made at " gives ", made at app.c:112 (main)"; or
 * "". */
const char *origin_phrase(const struct origin *origin, const char *before,
			  char buffer[ORIGIN_TEXT]);

/* Of all frames of the application, one after the other, until @tell returns false. */
void origin_describe_all(const struct origin *origin,
			 bool (*tell)(void *argument, const char *text), void *argument);

#endif
