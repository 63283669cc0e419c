/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/profile_file.h"

#include <string.h>

int profile_name_length(const char *file)
{
	size_t length = strlen(file), suffix = strlen(PROFILE_SUFFIX);

	return length > suffix && strcmp(file + length - suffix, PROFILE_SUFFIX) == 0
		       ? length - suffix
		       : 0;
}

int profile_is_file(const struct dirent *entry)
{
	return profile_name_length(entry->d_name);
}

/* Without the spaces around it. */
static char *trim(char *text)
{
	char *end;

	text += strspn(text, " \t");
	end = text + strlen(text);
	while (end > text && strchr(" \t\r\n", end[-1]))
		end--;
	*end = '\0';
	return text;
}

bool profile_split_line(char *line, char **key, char **value)
{
	char *equals;

	line[strcspn(line, "#")] = '\0';
	*key = trim(line);
	*value = NULL;
	equals = strchr(*key, '=');
	if (!equals)
		return !**key;
	*equals = '\0';
	*key = trim(*key);
	*value = trim(equals + 1);
	return true;
}
