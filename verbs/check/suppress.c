/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/suppress.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct suppression {
	struct suppression *next;
	char *pattern;
	char cause[]; /* @pattern lies behind it */
};

static struct suppression *suppressions;

static bool add_suppression(const char *cause, const char *pattern)
{
	size_t length = strlen(cause) + 1;
	struct suppression *made = malloc(sizeof(*made) + length + strlen(pattern) + 1);

	if (!made)
		return false;
	made->pattern = made->cause + length;
	memcpy(made->cause, cause, length);
	strcpy(made->pattern, pattern);
	LL_PREPEND(suppressions, made);
	return true;
}

static bool read_line(char *line)
{
	static const char blank[] = " \t\r\n";
	char *rest, *cause, *pattern;

	line[strcspn(line, "#")] = '\0';
	cause = strtok_r(line, blank, &rest);
	if (!cause)
		return true;
	pattern = strtok_r(NULL, blank, &rest);
	return pattern && !strtok_r(NULL, blank, &rest) && add_suppression(cause, pattern);
}

bool suppress_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	bool good = file;

	while (good && getline(&line, &size, file) >= 0)
		good = read_line(line);
	/* A directory can be opened. */
	good = good && !ferror(file);
	free(line);
	if (file)
		fclose(file);
	return good;
}

struct search {
	const struct cause_entry *cause;
	bool found;
};

static bool is_of_cause(const struct suppression *suppression, const struct cause_entry *cause)
{
	char number[8];

	snprintf(number, sizeof(number), "0x%04x", cause->cause & 0xffff);
	return fnmatch(suppression->cause, cause->name, 0) == 0 ||
	       strcasecmp(suppression->cause, number) == 0;
}

static bool matches(const char *pattern, const char *name)
{
	return name && fnmatch(pattern, name, 0) == 0;
}

static bool try_place(void *argument, const struct place *place)
{
	struct search *search = argument;
	const struct suppression *suppression;

	LL_FOREACH (suppressions, suppression) {
		const char *pattern = suppression->pattern;

		search->found = is_of_cause(suppression, search->cause) &&
				(matches(pattern, place->function) ||
				 matches(pattern, place->file) || matches(pattern, place->object));
		if (search->found)
			return false;
	}
	return true;
}

bool suppress_matches(const struct cause_entry *cause, const struct origin *origin)
{
	struct search search = {.cause = cause};

	if (suppressions)
		origin_visit(origin, try_place, &search);
	return search.found;
}
