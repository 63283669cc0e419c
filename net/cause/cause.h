/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why something failed. Each check that can fail has a cause: a number that stays the same from
 * version to version, and an entry of the catalogue that says what it means. The number of a
 * failed completion is its vendor_err; urxe-explain(1) prints an entry; docs/errors.md has all.
 *
 * What is reported goes to stderr (net/log.h):
 *   with URXE_EXPLAIN=1   a paragraph: what was found, what it means
 *   else                  a line at URXE_LOG=info; at warn the first error of the process alone,
 *                         with the hint to URXE_EXPLAIN
 * Notices (what applications provoke on purpose, what ends well) are lines at info in either case.
 *
 * Called by all layers, with or without locks held: a report is one write(2), as a log line is.
 * Configured once by the verbs layer before any device opens.
 */
#ifndef URXE_NET_CAUSE_H
#define URXE_NET_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

enum cause {
	CAUSE_NONE = 0,
#define CAUSE(number, name, ...) CAUSE_##name = (number),
#include "net/cause/catalogue.def"
#undef CAUSE
};

/* Misuse is what the checker finds and reports itself (verbs/check/report.h). */
enum cause_kind { CAUSE_ERROR, CAUSE_NOTICE, CAUSE_MISUSE };

/* Texts are sentences without a line end; the lists have one reason or advice a line. */
struct cause_entry {
	enum cause cause;
	const char *name; /* "PATH_NOT_GLOBAL" */
	enum cause_kind kind;
	const char *title;   /* what failed: a line */
	const char *shows;   /* as what applications see it: status, event, errno */
	const char *meaning; /* a paragraph */
	const char *reasons; /* what usually makes it happen, a line each */
	const char *advice;  /* what to look at, a line each */
};

/* NULL: no such cause. */
const struct cause_entry *cause_find(uint32_t number);
/* In the order of their numbers; NULL beyond the last. */
const struct cause_entry *cause_at(unsigned int index);

void cause_configure(bool explain);
/* Whether reports are paragraphs: then more is remembered of objects, to be reported with them. */
bool cause_explaining(void);
/* Whether a report of @cause would be written: spares collecting what it would say. */
bool cause_wanted(enum cause cause);

/* Between parts of a report that are lines of the paragraph; in a line of the log it is "; ". */
#define CAUSE_LINE "\n    "

/* @format: what was found, with its numbers; a sentence or more, then, as other parts, of what. */
void cause_report(enum cause cause, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same without a copy on the stack, which applications may have little of. Changes @found. */
void cause_report_text(enum cause cause, char *found);
/* Likewise of a notice, whatever was asked for: the application waits, perhaps for ever. */
void cause_warn_text(enum cause cause, char *found);

/*
 * The same of what leaves a program without a device: unless it is explained it is a line at
 * error, whatever was reported before.
 */
void cause_error(enum cause cause, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A call that fails with @error, which is returned. @format begins with what was called; the
 * paragraph names the line of the application that called it.
 */
int refuse(int error, enum cause cause, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Bytes of what was found, as a text on the stack. */
#define FOUND_TEXT 768

/*
 * What a check found, on its way to the place that reports it: a check of memory doesn't know
 * which work request it is done for. That place may have begun the text with it. All zeros to
 * begin with.
 */
#define FINDING_TEXT 800

struct finding {
	enum cause cause;
	char text[FINDING_TEXT]; /* empty unless cause_wanted() */
};

/* The text goes on with @format. */
void finding_set(struct finding *finding, enum cause cause, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
