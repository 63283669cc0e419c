/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/profile_file.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/must.h"

static const char *folder(void)
{
	const char *path = getenv("URXE_TEST_PROFILES");

	must(path);
	return path;
}

unsigned int profile_names(char names[PROFILE_FILES][64])
{
	DIR *directory = opendir(folder());
	unsigned int count = 0;
	struct dirent *entry;

	must(directory);
	while ((entry = readdir(directory))) {
		const char *suffix = strstr(entry->d_name, ".profile");

		if (!suffix)
			continue;
		must(count < PROFILE_FILES);
		snprintf(names[count++], 64, "%.*s", (int)(suffix - entry->d_name), entry->d_name);
	}
	closedir(directory);
	return count;
}

static void path_of(const char *name, char path[4096])
{
	snprintf(path, 4096, "%s/%s.profile", folder(), name);
}

void use_profile(const char *name)
{
	char path[4096];

	path_of(name, path);
	ck_assert_int_eq(setenv("URXE_PROFILE", path, 1), 0);
}

static struct search {
	const char *key;
	char value[256];
	bool found;
} search;

static void compare(const char *key, const char *value)
{
	if (strcmp(key, search.key) != 0)
		return;
	search.found = true;
	snprintf(search.value, sizeof(search.value), "%s", value);
}

const char *profile_text(const char *name, const char *key)
{
	search = (struct search){.key = key};
	profile_lines(name, compare);
	return search.found ? search.value : NULL;
}

uint64_t profile_value(const char *name, const char *key)
{
	const char *text = profile_text(name, key);
	uint64_t value;
	char *end;

	ck_assert_msg(text, "%s has no %s", name, key);
	value = strtoull(text, &end, 0);
	ck_assert_msg(!*end, "%s: %s is %s", name, key, text);
	return value;
}

void profile_lines(const char *name, void (*each)(const char *key, const char *value))
{
	char path[4096], *line = NULL, key[64], value[256];
	size_t size = 0;
	FILE *file;

	path_of(name, path);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	while (getline(&line, &size, file) >= 0) {
		size_t end;

		if (sscanf(line, " %63[a-z0-9_] = %255[^#\n]", key, value) != 2)
			continue;
		for (end = strlen(value); end && value[end - 1] == ' '; end--)
			value[end - 1] = '\0';
		each(key, value);
	}
	free(line);
	fclose(file);
}
