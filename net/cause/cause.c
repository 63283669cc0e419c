/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cause/cause.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/cause/origin.h"
#include "net/log.h"

static const struct cause_entry catalogue[] = {
#define CAUSE(number, name, kind, ...) {CAUSE_##name, #name, CAUSE_##kind, __VA_ARGS__},
#include "net/cause/catalogue.def"
#undef CAUSE
};

#define ENTRIES (sizeof(catalogue) / sizeof(catalogue[0]))

/* A cause that comes again and again would fill a terminal. */
#define PARAGRAPHS_OF_A_CAUSE 20

#define HINT " (the first error; URXE_EXPLAIN=1 explains all)"

static _Atomic bool explaining;
static atomic_bool reported;		    /* an error, without explanations */
static _Atomic unsigned int shown[ENTRIES]; /* paragraphs */

static int compare(const void *number, const void *entry)
{
	uint32_t wanted = *(const uint32_t *)number;
	uint32_t cause = ((const struct cause_entry *)entry)->cause;

	return (wanted > cause) - (wanted < cause);
}

const struct cause_entry *cause_find(uint32_t number)
{
	return bsearch(&number, catalogue, ENTRIES, sizeof(catalogue[0]), compare);
}

const struct cause_entry *cause_at(unsigned int index)
{
	return index < ENTRIES ? &catalogue[index] : NULL;
}

void cause_configure(bool explain)
{
	if (explain)
		origin_prepare();
	explaining = explain;
}

bool cause_explaining(void)
{
	return explaining;
}

bool cause_wanted(enum cause cause)
{
	const struct cause_entry *entry = cause_find(cause);

	if (!entry)
		return false;
	if (explaining && entry->kind == CAUSE_ERROR)
		return atomic_load_explicit(&shown[entry - catalogue], memory_order_relaxed) <
		       PARAGRAPHS_OF_A_CAUSE;
	if (log_is_enabled(LOG_INFO))
		return true;
	return entry->kind == CAUSE_ERROR && !atomic_load_explicit(&reported, memory_order_relaxed);
}

/*
 * Where the application's call that is refused was made, for the paragraph, which notices haven't;
 * or NULL. Unwinding takes more of the stack than all else here, 4 KiB on arm64: so it comes first,
 * and texts are in functions that aren't inlined.
 */
static struct origin *capture_call(enum cause cause)
{
	return explaining && cause_find(cause)->kind == CAUSE_ERROR ? origin_capture() : NULL;
}

static void write_paragraph(const struct cause_entry *entry, const char *found, const char *called,
			    const char *ending)
{
	char number[8];
	const char *const parts[] = {
		number, " ",	    entry->title,   CAUSE_LINE,	       found,
		called, CAUSE_LINE, entry->meaning, " (urxe explain ", number,
		")",	ending,
	};

	snprintf(number, sizeof(number), "0x%04x", entry->cause & 0xffff);
	log_paragraph(parts, sizeof(parts) / sizeof(*parts));
}

/* The paragraph: what was found, then what the catalogue says of it. */
static void explain(const struct cause_entry *entry, const struct origin *call, const char *found)
{
	unsigned int before =
		atomic_fetch_add_explicit(&shown[entry - catalogue], 1, memory_order_relaxed);
	bool last = before + 1 == PARAGRAPHS_OF_A_CAUSE;
	char called[ORIGIN_TEXT];

	if (before < PARAGRAPHS_OF_A_CAUSE)
		write_paragraph(entry, found, origin_phrase(call, CAUSE_LINE "called at ", called),
				last ? CAUSE_LINE "It is not shown again." : "");
}

/* In a line of the log there are no others. */
static void join_lines(char *found)
{
	const char separator[] = "; ";
	char *line;

	while ((line = strstr(found, CAUSE_LINE))) {
		char *next = line + strlen(CAUSE_LINE);

		memcpy(line, separator, strlen(separator));
		line += strlen(separator);
		memmove(line, next, strlen(next) + 1);
	}
}

#define GAP " ... "
#define TAIL (FOUND_TEXT / 2)

/*
 * What is too long loses its middle: there stands what the user gave, and behind it what of that is
 * wrong.
 */
static void format_error(char found[FOUND_TEXT], const char *format, va_list arguments)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, arguments);
	length = vsnprintf(found, FOUND_TEXT, format, arguments);
	if (length >= FOUND_TEXT && vasprintf(&text, format, again) >= 0) {
		snprintf(found + FOUND_TEXT - TAIL, TAIL, GAP "%s",
			 text + length + strlen(GAP) + 1 - TAIL);
		free(text);
	}
	va_end(again);
	/* It is one line, and terminals obey control characters. */
	for (char *c = found; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
}

__attribute__((noinline)) static void error_formatted(enum cause cause, const struct origin *call,
						      const char *format, va_list arguments)
{
	const struct cause_entry *entry = cause_find(cause);
	char found[FOUND_TEXT];

	format_error(found, format, arguments);
	atomic_store(&reported, true);
	if (explaining)
		explain(entry, call, found);
	else
		log_error("0x%04x %s: %s (urxe explain 0x%04x)", cause, entry->title, found, cause);
}

void cause_error(enum cause cause, const char *format, ...)
{
	int error = errno;
	struct origin *call = capture_call(cause);
	va_list arguments;

	va_start(arguments, format);
	error_formatted(cause, call, format, arguments);
	va_end(arguments);
	origin_free(call);
	errno = error;
}

static void report(enum cause cause, const struct origin *call, char *found)
{
	const struct cause_entry *entry = cause_find(cause);

	if (!entry)
		return;
	if (entry->kind == CAUSE_NOTICE || !explaining)
		join_lines(found);
	if (entry->kind == CAUSE_NOTICE)
		log_info("0x%04x %s: %s", cause, entry->title, found);
	else if (explaining)
		explain(entry, call, found);
	else if (!atomic_exchange(&reported, true))
		log_warn("0x%04x %s: %s%s", cause, entry->title, found, HINT);
	else
		log_info("0x%04x %s: %s", cause, entry->title, found);
}

void cause_report_text(enum cause cause, char *found)
{
	int error = errno;

	if (cause_wanted(cause))
		report(cause, NULL, found);
	errno = error;
}

void cause_warn_text(enum cause cause, char *found)
{
	const struct cause_entry *entry = cause_find(cause);
	int error = errno;

	if (explaining) {
		explain(entry, NULL, found);
	} else {
		join_lines(found);
		log_warn("0x%04x %s: %s", cause, entry->title, found);
	}
	errno = error;
}

__attribute__((noinline)) static void report_formatted(enum cause cause, const struct origin *call,
						       const char *format, va_list arguments)
{
	char found[FOUND_TEXT];

	vsnprintf(found, sizeof(found), format, arguments);
	report(cause, call, found);
}

/* 0x4xxx: what functions that return no error report, too. */
static bool is_of_a_call(enum cause cause)
{
	return cause >> 12 == 4;
}

void cause_report(enum cause cause, const char *format, ...)
{
	int error = errno;
	struct origin *call;
	va_list arguments;

	if (!cause_wanted(cause))
		return;
	call = is_of_a_call(cause) ? capture_call(cause) : NULL;
	va_start(arguments, format);
	report_formatted(cause, call, format, arguments);
	va_end(arguments);
	origin_free(call);
	errno = error;
}

int refuse(int error, enum cause cause, const char *format, ...)
{
	int before = errno;
	struct origin *call;
	va_list arguments;

	if (!cause_wanted(cause))
		return error;
	call = capture_call(cause);
	va_start(arguments, format);
	report_formatted(cause, call, format, arguments);
	va_end(arguments);
	origin_free(call);
	errno = before;
	return error;
}

void finding_set(struct finding *finding, enum cause cause, const char *format, ...)
{
	size_t length = strlen(finding->text);
	va_list arguments;

	finding->cause = cause;
	if (!cause_wanted(cause)) {
		finding->text[0] = '\0';
		return;
	}
	va_start(arguments, format);
	vsnprintf(finding->text + length, sizeof(finding->text) - length, format, arguments);
	va_end(arguments);
}
