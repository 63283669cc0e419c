/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the checker (URXE_CHECK) reported in a run that it doesn't report without faults: by its
 * cause and the places in the program that belong to it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/cause/cause.h"
#include "urxe/command.h"
#include "urxe/fuzz.h"

char *fuzz_check_option(const struct fuzz *fuzz)
{
	const char *wanted = fuzz_variable("URXE_CHECK");
	char *option;

	if (fuzz->unchecked || (wanted && strcmp(wanted, "0") == 0))
		return NULL;
	if (asprintf(&option, "%s%sjson=%s/reports", wanted ?: "", wanted ? "," : "",
		     fuzz->directory) < 0)
		die("out of memory");
	return option;
}

/* What is left over because it couldn't be destroyed isn't the program's fault. */
bool fuzz_is_checked(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	return fuzz->check &&
	       (place->call == FAULT_CALLS || fault_call_error(place->call) != EBUSY);
}

/* An array of them; the file is removed. */
static json_t *read_reports(const struct fuzz *fuzz)
{
	json_t *reports = json_array();
	char *path, *line = NULL;
	size_t size = 0;
	FILE *file;

	if (asprintf(&path, "%s/reports", fuzz->directory) < 0)
		die("out of memory");
	file = fopen(path, "re");
	/* A process that was killed may have written half a line. */
	while (file && getline(&line, &size, file) > 0)
		json_array_append_new(reports, json_loads(line, 0, NULL));
	if (file)
		fclose(file);
	unlink(path);
	free(line);
	free(path);
	return reports;
}

static unsigned int cause_of(const json_t *report)
{
	const char *text = json_string_value(json_object_get(report, "cause"));

	return text ? strtoul(text, NULL, 0) : 0;
}

static bool contains(const json_t *reports, const json_t *wanted)
{
	const json_t *report;
	size_t i;

	json_array_foreach(reports, i, report)
	{
		if (cause_of(report) == cause_of(wanted) &&
		    json_equal(json_object_get(report, "places"),
			       json_object_get(wanted, "places")))
			return true;
	}
	return false;
}

/*
 * Whether a destroying call was made: a program that ends at once when something fails leaves what
 * it has to the kernel, and isn't said to leak.
 */
static bool tidies_up(const struct fuzz *fuzz)
{
	for (enum fault_call call = 0; call < FAULT_CALLS; call++) {
		if (fault_call_error(call) == EBUSY && call_counts_of(fuzz->counts, call))
			return true;
	}
	return false;
}

/* "OBJECT_LEAKED: list of devices 0x55c070840c00 ...; made at app.c:7 (setup)" */
static char *describe(const json_t *report)
{
	const json_t *places = json_object_get(report, "places"), *place;
	const char *name = json_string_value(json_object_get(report, "name"));
	const char *found = json_string_value(json_object_get(report, "found"));
	char *text = NULL;
	size_t size, i;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		die("out of memory");
	fprintf(stream, "%s: %s", name ?: "?", found ?: "?");
	json_array_foreach(places, i, place)
	{
		const char *what = json_string_value(json_object_get(place, "what"));
		const char *frame =
			json_string_value(json_array_get(json_object_get(place, "frames"), 0));

		if (what && frame)
			fprintf(stream, "; %s at %s", what, frame);
	}
	fclose(stream);
	return text;
}

void fuzz_check_first(struct fuzz *fuzz)
{
	fuzz->known_reports = read_reports(fuzz);
}

enum fuzz_outcome fuzz_check(const struct fuzz *fuzz, struct fuzz_run *run)
{
	json_t *reports = read_reports(fuzz), *report;
	enum fuzz_outcome outcome = FUZZ_UNTRIED;
	size_t i;

	json_array_foreach(reports, i, report)
	{
		unsigned int cause = cause_of(report);
		bool left = cause == CAUSE_OBJECT_LEAKED || cause == CAUSE_EVENTS_LEFT;

		if (contains(fuzz->known_reports, report) || (left && !tidies_up(fuzz)))
			continue;
		outcome = left || cause == CAUSE_OBJECT_DESTROYED_IN_USE ? FUZZ_LEAK : FUZZ_MISUSE;
		run->report = describe(report);
		break;
	}
	json_decref(reports);
	return outcome;
}
