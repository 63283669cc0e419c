/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uthash.h>

#include "net/log.h"
#include "verbs/check/check.h"
#include "verbs/check/report_file.h"
#include "verbs/check/suppress.h"
#include "verbs/registry.h"

/* A cause at a place. */
struct known_place {
	struct place_key {
		uintptr_t place;
		uintptr_t cause;
	} key;
	bool suppressed;
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock;
	struct known_place *places;
	unsigned int misuses, occurrences, suppressed;
} reports = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What one report says. */
struct report {
	const struct cause_entry *entry;
	const struct check_place *places;
	const char *found;
	unsigned int count;
	bool first; /* of its cause: what that means is said once */
};

/* --- each place once --------------------------------------------------------------- */

/* With the lock; NULL without memory. */
static struct known_place *add_place(const struct place_key *key)
{
	struct known_place *place = calloc(1, sizeof(*place));

	if (!place)
		return NULL;
	place->key = *key;
	HASH_ADD(hh, reports.places, key, sizeof(place->key), place);
	if (place->hh.tbl)
		return place;
	free(place);
	return NULL;
}

static void count(const struct known_place *place, unsigned int occurrences)
{
	if (place && place->suppressed)
		reports.suppressed += occurrences;
	else
		reports.occurrences += occurrences;
}

/* Count a place that is known. False: it is new. */
static bool is_known(const struct place_key *key, unsigned int occurrences)
{
	struct known_place *place;

	pthread_mutex_lock(&reports.lock);
	HASH_FIND(hh, reports.places, key, sizeof(*key), place);
	if (place)
		count(place, occurrences);
	pthread_mutex_unlock(&reports.lock);
	return place;
}

/* With the lock. */
static bool has_reported(uintptr_t cause)
{
	struct known_place *place, *next;

	HASH_ITER (hh, reports.places, place, next) {
		if (place->key.cause == cause && !place->suppressed)
			return true;
	}
	return false;
}

/* False: another thread was first. Without memory it is reported once more. */
static bool remember(const struct place_key *key, unsigned int occurrences, bool suppressed,
		     bool *first_of_cause)
{
	struct known_place *place;
	bool first;

	pthread_mutex_lock(&reports.lock);
	HASH_FIND(hh, reports.places, key, sizeof(*key), place);
	first = !place;
	if (first) {
		*first_of_cause = !has_reported(key->cause);
		place = add_place(key);
		if (place)
			place->suppressed = suppressed;
		reports.misuses += !suppressed;
	}
	count(place, occurrences);
	pthread_mutex_unlock(&reports.lock);
	return first;
}

static bool is_suppressed(const struct report *report)
{
	for (const struct check_place *place = report->places; place->what; place++) {
		if (suppress_matches(report->entry, place->origin))
			return true;
	}
	return false;
}

/* --- a paragraph ------------------------------------------------------------------- */

struct frames {
	FILE *stream;
	const char *before; /* the next one */
	const char *between;
};

static bool write_frame(void *argument, const char *text)
{
	struct frames *frames = argument;

	fprintf(frames->stream, "%s%s", frames->before, text);
	frames->before = frames->between;
	return true;
}

static void write_paragraph(const struct report *report, FILE *stream)
{
	const struct cause_entry *entry = report->entry;

	fprintf(stream, "check: 0x%04x %s: %s" CAUSE_LINE "%s", entry->cause, entry->name,
		entry->title, report->found);
	for (const struct check_place *place = report->places; place->what; place++) {
		char before[64];
		struct frames frames = {stream, before, CAUSE_LINE "    from "};

		snprintf(before, sizeof(before), CAUSE_LINE "%s at ", place->what);
		origin_describe_all(place->origin, write_frame, &frames);
	}
	if (report->first)
		fprintf(stream, CAUSE_LINE "%s (urxe explain 0x%04x)", entry->meaning,
			entry->cause);
}

static bool write_json_frame(void *argument, const char *text)
{
	struct frames *frames = argument;

	fputs(frames->before, frames->stream);
	json_write_string(frames->stream, text);
	frames->before = frames->between;
	return true;
}

static void write_json(const struct report *report, FILE *stream)
{
	const struct cause_entry *entry = report->entry;

	fprintf(stream, "{\"pid\":%d,\"cause\":\"0x%04x\",\"name\":", (int)getpid(), entry->cause);
	json_write_string(stream, entry->name);
	fputs(",\"title\":", stream);
	json_write_string(stream, entry->title);
	fputs(",\"found\":", stream);
	json_write_string(stream, report->found);
	fprintf(stream, ",\"count\":%u,\"places\":[", report->count);
	for (const struct check_place *place = report->places; place->what; place++) {
		struct frames frames = {stream, "", ","};

		fprintf(stream, "%s{\"what\":", place == report->places ? "" : ",");
		json_write_string(stream, place->what);
		fputs(",\"frames\":[", stream);
		origin_describe_all(place->origin, write_json_frame, &frames);
		fputs("]}", stream);
	}
	fputs("]}\n", stream);
}

/* What @write writes, or NULL without memory. */
static char *compose(const struct report *report, size_t *length,
		     void (*write)(const struct report *report, FILE *stream))
{
	char *text = NULL;
	FILE *stream = open_memstream(&text, length);
	bool good;

	if (!stream)
		return NULL;
	write(report, stream);
	good = !ferror(stream);
	if (fclose(stream) == 0 && good)
		return text;
	free(text);
	return NULL;
}

static void write_report(const struct report *report)
{
	const char *json = registry_configuration()->check.json;
	size_t length;
	char *text = compose(report, &length, write_paragraph);
	const char *part = text ? text : report->entry->title;

	log_paragraph(&part, 1);
	free(text);
	text = json ? compose(report, &length, write_json) : NULL;
	if (text)
		report_file_append(json, text, length);
	free(text);
}

/* --- reports ----------------------------------------------------------------------- */

static void report_at(struct report report, const struct origin *place, const char *format,
		      va_list arguments)
{
	const struct place_key key = {origin_place(place), report.entry->cause};
	char found[FOUND_TEXT];

	vsnprintf(found, sizeof(found), format, arguments);
	report.found = found;
	if (is_known(&key, report.count))
		return;
	if (is_suppressed(&report))
		remember(&key, report.count, true, &report.first);
	else if (remember(&key, report.count, false, &report.first))
		write_report(&report);
}

#define PLACES_MAX 8

void check_report(enum cause cause, const struct check_place *others, const char *format, ...)
{
	struct check_place places[PLACES_MAX] = {{"used", NULL}};
	struct report report = {cause_find(cause), places, NULL, 1, false};
	int error = errno;
	struct origin *origin = origin_capture();
	va_list arguments;

	places[0].origin = origin;
	for (unsigned int i = 1; others->what && i < PLACES_MAX - 1; i++)
		places[i] = *others++;
	va_start(arguments, format);
	report_at(report, origin, format, arguments);
	va_end(arguments);
	origin_free(origin);
	errno = error;
}

void check_report_places(enum cause cause, const struct check_place *places, unsigned int count,
			 const char *format, ...)
{
	struct report report = {cause_find(cause), places, NULL, count, false};
	int error = errno;
	va_list arguments;

	va_start(arguments, format);
	report_at(report, places->origin, format, arguments);
	va_end(arguments);
	errno = error;
}

/* --- the end ----------------------------------------------------------------------- */

bool reports_can_lock(void)
{
	return check_can_take(&reports.lock);
}

bool check_reported(void)
{
	bool reported;

	pthread_mutex_lock(&reports.lock);
	reported = reports.misuses;
	pthread_mutex_unlock(&reports.lock);
	return reported;
}

void check_summarize(void)
{
	char text[128], suppressed[48] = "";
	const char *part = text;

	pthread_mutex_lock(&reports.lock);
	if (reports.suppressed)
		snprintf(suppressed, sizeof(suppressed), "; suppressed: %u", reports.suppressed);
	snprintf(text, sizeof(text), "check: %u misuse%s, %u occurrence%s%s", reports.misuses,
		 reports.misuses == 1 ? "" : "s", reports.occurrences,
		 reports.occurrences == 1 ? "" : "s", suppressed);
	if (!reports.misuses)
		part = NULL;
	pthread_mutex_unlock(&reports.lock);
	if (part)
		log_paragraph(&part, 1);
}

void reports_before_fork(void)
{
	pthread_mutex_lock(&reports.lock);
}

void reports_after_fork(void)
{
	pthread_mutex_unlock(&reports.lock);
}

void reports_after_fork_child(void)
{
	struct known_place *place, *next;

	HASH_ITER (hh, reports.places, place, next) {
		HASH_DEL(reports.places, place);
		free(place);
	}
	reports.misuses = reports.occurrences = reports.suppressed = 0;
	reports_after_fork();
}
