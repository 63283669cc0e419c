/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where in the application an object was made, or a call was made: a backtrace, which costs some
 * microseconds, kept while explanations (net/cause/cause.h) or the checker (verbs/check/report.h)
 * are on and written as a line of the source when a report names it.
 *
 * Objects of the core and of rdma_cm have one from their creation until they are freed. Reports
 * describe it, in any thread, with or without locks held (net/cause/place.h).
 */
#ifndef URXE_NET_CAUSE_ORIGIN_H
#define URXE_NET_CAUSE_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/cause/place.h"

/* Enough for a description, which is cut at need. */
#define ORIGIN_TEXT 128

struct origin;

/* Load what backtraces and their lines need, and capture from now on. Once, under no lock. */
void origin_prepare(void);

/* Of the calling thread. NULL unless prepared, or without memory. */
struct origin *origin_capture(void);
void origin_free(struct origin *origin);
/* NULL of NULL, or without memory. */
struct origin *origin_copy(const struct origin *origin);

/*
 * "app.c:112 (setup_buffers)": the innermost frame that isn't of liburxe, libibverbs or librdmacm.
 * Of code without debug information it is "setup (libfoo.so.1)" or "libfoo.so.1+0x1234", with the
 * next caller that has some: ", from app.c:57 (main)". Returns false, and an empty text, when there
 * is no such frame: @origin is NULL, or of a thread of the library's own.
 */
bool origin_describe(const struct origin *origin, char *buffer, size_t size);

/*
 * @before and the description, for a sentence: ", made at " gives ", made at app.c:112 (main)"; or
 * "".
 */
const char *origin_phrase(const struct origin *origin, const char *before,
			  char buffer[ORIGIN_TEXT]);

/* The innermost frame of the application as a number, to tell places apart; 0: there is none. */
uintptr_t origin_place(const struct origin *origin);
/* Call @visit for the frames of the application, the innermost first, until it returns false. */
void origin_visit(const struct origin *origin, place_visit visit, void *argument);
/* Call @show with each of them in words, likewise. */
void origin_describe_all(const struct origin *origin,
			 bool (*show)(void *argument, const char *text), void *argument);

#endif
