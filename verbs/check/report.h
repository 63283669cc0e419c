/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of misuse, the causes 0x70xx to 0x72xx: a paragraph on stderr with the backtraces of the
 * places that belong to it, and a line of the JSON file. Each place is reported once: it is the
 * application's innermost frame of the call that the misuse was found in, or where there is no
 * call, of the first of its places. Other occurrences are counted. At exit the counts are told.
 *
 * Called by the checks of verbs/check/, in any thread that holds none of the checker's locks.
 * reports.lock, a leaf, protects the table of places; it isn't held while anything is written.
 */
#ifndef URXE_VERBS_CHECK_REPORT_H
#define URXE_VERBS_CHECK_REPORT_H

#include <stdbool.h>

#include "net/cause/cause.h"
#include "net/cause/origin.h"

/* Where something was done, for "made at app.c:12 (setup)". */
struct check_place {
	const char *what;	     /* "made", "posted", "destroyed"; NULL: the end of a list */
	const struct origin *origin; /* NULL: unknown, it is left out */
};

/* A list of places, as an argument. */
#define CHECK_PLACES(...) ((const struct check_place[]){__VA_ARGS__, {0}})
#define CHECK_NO_PLACES ((const struct check_place[]){{0}})

/*
 * @cause was found in the call that this thread is in: its place is the first of the report, as
 * "used". @format begins with what was called.
 */
void check_report(enum cause cause, const struct check_place *places, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same of a call whose backtrace was taken before, or of no call. @count: occurrences. */
void check_report_places(enum cause cause, const struct check_place *places, unsigned int count,
			 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* At exit: whether reports.lock can be taken (check_can_take()). */
bool reports_can_lock(void);
/* Whether anything was reported in this process. */
bool check_reported(void);
/* The summary, if anything was reported. */
void check_summarize(void);

void reports_before_fork(void);
void reports_after_fork(void);
/* The child begins with nothing reported. */
void reports_after_fork_child(void);

#endif
