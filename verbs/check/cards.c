/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check/cards.h"

#include <stdlib.h>
#include <string.h>

struct cards cards;

static const char *read_one(const char *name)
{
	struct profile *longer = realloc(cards.profiles, (cards.count + 1) * sizeof(*longer));
	char *error = NULL;

	if (!longer)
		return "out of memory";
	cards.profiles = longer;
	if (!profile_read(&cards.profiles[cards.count], name, &error))
		return error ? error : "out of memory";
	cards.count++;
	return NULL;
}

const char *cards_read(const char *names)
{
	char *copy = names ? strdup(names) : profile_names(), *rest = NULL;
	const char *error = copy ? NULL : "there are no profiles";

	for (char *name = copy ? strtok_r(copy, "+, ", &rest) : NULL; name && !error;
	     name = strtok_r(NULL, "+, ", &rest)) {
		if (names || strcmp(name, "strict") != 0)
			error = read_one(name);
	}
	free(copy);
	if (error)
		cards.count = 0;
	return error;
}
