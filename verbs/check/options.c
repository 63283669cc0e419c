/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/check/cards.h"
#include "verbs/check/report_file.h"
#include "verbs/check/suppress.h"

#define STATUS_MAX 255

/* Each returns NULL, or what @value of the option should have been. */

static const char *read_on(const char *value, struct check_options *options)
{
	return NULL;
}

static const char *read_order(const char *value, struct check_options *options)
{
	options->order = true;
	return NULL;
}

static const char *read_no_leaks(const char *value, struct check_options *options)
{
	options->no_leaks = true;
	return NULL;
}

static const char *read_exit(const char *value, struct check_options *options)
{
	char *end;
	long status = strtol(value, &end, 10);

	if (end == value || *end || status < 1 || status > STATUS_MAX)
		return "a status from 1 to 255";
	options->exit_status = status;
	return NULL;
}

static const char *read_json(const char *value, struct check_options *options)
{
	options->json = report_file_path(value);
	return options->json && report_file_is_writable(options->json)
		       ? NULL
		       : "a file that can be written";
}

static const char *read_suppress(const char *value, struct check_options *options)
{
	options->suppress = strdup(value);
	return options->suppress && suppress_read(value) ? NULL
							 : "a readable file with lines of the form "
							   "\"CAUSE PATTERN\"";
}

static const char *read_portability(const char *value, struct check_options *options)
{
	const char *error = cards_read(value);
	char *expected;

	if (!error || asprintf(&expected, "a list of profiles: %s", error) < 0)
		return error;
	return expected;
}

static const struct option {
	const char *name;
	bool has_value;
	const char *(*read)(const char *value, struct check_options *options);
} known[] = {
	{"1", false, read_on},
	{"order", false, read_order},
	{"no-leaks", false, read_no_leaks},
	{"exit", true, read_exit},
	{"json", true, read_json},
	{"suppress", true, read_suppress},
	{"portability", false, read_portability},
	{"portability", true, read_portability},
};

static const char *describe_error(const char *item, const char *expected)
{
	char *error;

	if (asprintf(&error, "URXE_CHECK: %s is not %s", item, expected) < 0)
		return "out of memory";
	return error;
}

static const char *read_item(const char *item, struct check_options *options)
{
	const char *equals = strchr(item, '=');
	const char *value = equals && equals[1] ? equals + 1 : NULL;
	size_t length = value ? (size_t)(equals - item) : strlen(item);

	for (unsigned int i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const char *expected;

		if (strlen(known[i].name) != length || strncmp(known[i].name, item, length) != 0 ||
		    known[i].has_value != !!value)
			continue;
		expected = known[i].read(value, options);
		return expected ? describe_error(item, expected) : NULL;
	}
	return describe_error(item,
			      "1, order, no-leaks, exit=N, json=FILE, suppress=FILE, portability "
			      "or portability=NAME+NAME");
}

const char *check_options_read(const char *text, struct check_options *options)
{
	const char *error = NULL;
	char *copy, *rest = NULL;

	if (!text || strcmp(text, "0") == 0)
		return NULL;
	copy = strdup(text);
	if (!copy)
		return "out of memory";
	options->on = true;
	for (char *item = strtok_r(copy, ",", &rest); item && !error;
	     item = strtok_r(NULL, ",", &rest))
		error = read_item(item, options);
	free(copy);
	return error;
}
