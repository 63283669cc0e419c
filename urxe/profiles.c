/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe profiles: the device profiles that are installed, by what their files say: lines
 * "key = value   # source" (verbs/profile.h, whose reader checks them).
 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/profile_file.h"
#include "urxe/command.h"
#include "urxe/installed.h"
#include "urxe/options.h"

#define KEYS_MAX 128 /* of all files together */
#define TEXT 160
#define LINE 512

/* --- files --------------------------------------------------------------------------- */

static char *folder(void)
{
	static const char *const places[] = {"..", "../share/urxe", URXE_DATADIR "/urxe", NULL};
	char *path = installed_find(places, "profiles");

	if (!path)
		die("no profiles are installed");
	return path;
}

static FILE *open_profile(const char *name)
{
	char *installed, *path;
	FILE *file;

	if (profile_is_path(name))
		return fopen(name, "re");
	installed = folder();
	if (asprintf(&path, "%s/%s" PROFILE_SUFFIX, installed, name) < 0)
		die("out of memory");
	free(installed);
	file = fopen(path, "re");
	free(path);
	return file;
}

/* Its next line that has a value; false at the end. Both are in @line. */
static bool next_value(FILE *file, char line[LINE], char **key, char **value)
{
	while (fgets(line, LINE, file)) {
		if (profile_split_line(line, key, value) && *value)
			return true;
	}
	return false;
}

/* Call @tell for each installed profile, in the order of their names. */
static void each(void (*tell)(void *argument, const char *name, FILE *file), void *argument)
{
	char *path = folder();
	struct dirent **entries;
	int count = scandir(path, &entries, profile_is_file, alphasort);

	for (int i = 0; i < count; i++) {
		FILE *file;

		entries[i]->d_name[profile_name_length(entries[i]->d_name)] = '\0';
		file = open_profile(entries[i]->d_name);
		if (file) {
			tell(argument, entries[i]->d_name, file);
			fclose(file);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	free(path);
}

/* --- what is printed -------------------------------------------------------------------- */

static void list_one(void *argument, const char *name, FILE *file)
{
	char line[LINE], *key, *value;

	while (next_value(file, line, &key, &value)) {
		if (strcmp(key, "description") == 0) {
			printf("%-8s  %s\n", name, value);
			return;
		}
	}
	puts(name);
}

static bool show(const char *name)
{
	FILE *file = open_profile(name);
	char line[LINE];
	bool good;

	if (!file && errno == ENOENT && !profile_is_path(name)) {
		fprintf(stderr, "urxe: there is no profile %s; urxe profiles lists them\n",
			given(name));
		return false;
	}
	while (file && fgets(line, sizeof(line), file))
		fputs(line, stdout);
	/* A folder can be opened, and not read. */
	good = file && !ferror(file);
	if (!good)
		fprintf(stderr, "urxe: %s: %s\n", name, strerror(errno));
	if (file)
		fclose(file);
	return good;
}

/* --- side by side, for docs/profiles.md -------------------------------------------------- */

#define CARDS_MAX 32

struct table {
	char keys[KEYS_MAX][TEXT], names[CARDS_MAX][TEXT];
	char values[CARDS_MAX][KEYS_MAX][TEXT];
	unsigned int key_count, card_count;
};

static void copy(char text[TEXT], const char *from)
{
	snprintf(text, TEXT, "%s", from);
}

/* A key that is new comes behind @before, which the file has before it. */
static unsigned int row_of(struct table *table, const char *key, int before)
{
	unsigned int row;

	for (row = 0; row < table->key_count; row++) {
		if (strcmp(table->keys[row], key) == 0)
			return row;
	}
	if (table->key_count == KEYS_MAX)
		die("there are more than %d keys", KEYS_MAX);
	row = before + 1;
	memmove(table->keys[row + 1], table->keys[row], (table->key_count - row) * TEXT);
	for (unsigned int i = 0; i <= table->card_count; i++) {
		memmove(table->values[i][row + 1], table->values[i][row],
			(table->key_count - row) * TEXT);
		*table->values[i][row] = '\0';
	}
	table->key_count++;
	copy(table->keys[row], key);
	return row;
}

static void read_one(void *argument, const char *name, FILE *file)
{
	char line[LINE], *key, *value;
	struct table *table = argument;
	int row = -1;

	if (table->card_count == CARDS_MAX)
		die("there are more than %d profiles", CARDS_MAX);
	copy(table->names[table->card_count], name);
	while (next_value(file, line, &key, &value)) {
		row = row_of(table, key, row);
		copy(table->values[table->card_count][row], value);
	}
	table->card_count++;
}

static void markdown(void)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		die("out of memory");
	each(read_one, table);
	puts("# Device profiles\n\n"
	     "What cards answer, limit and do differently, as `urxe run --profile NAME` has it; "
	     "urxe-profiles(7)\n"
	     "says what the keys mean, and `urxe profiles NAME` where each value is from. What is "
	     "empty isn't\n"
	     "known: it is as without a profile.\n\n"
	     "This file is written by `urxe profiles --markdown`.\n");
	for (unsigned int i = 0; i < table->card_count; i++)
		printf("- `%s`: %s\n", table->names[i],
		       table->values[i][row_of(table, "description", -1)]);
	printf("\n| |");
	for (unsigned int i = 0; i < table->card_count; i++)
		printf(" %s |", table->names[i]);
	printf("\n|---|");
	for (unsigned int i = 0; i < table->card_count; i++)
		printf("---|");
	for (unsigned int row = 0; row < table->key_count; row++) {
		if (strcmp(table->keys[row], "description") == 0)
			continue;
		printf("\n| %s |", table->keys[row]);
		for (unsigned int i = 0; i < table->card_count; i++)
			printf(" %s |", table->values[i][row]);
	}
	puts("");
	free(table);
}

/* --- the command --------------------------------------------------------------------------- */

enum { MARKDOWN = 0x100 };

struct request {
	bool markdown;
	int status;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct request *request = state->input;

	switch (key) {
	case MARKDOWN:
		request->markdown = true;
		return 0;
	case ARGP_KEY_ARG:
		if (request->markdown)
			die("--markdown has all profiles, and takes no argument: %s",
			    given(argument));
		if (!show(argument))
			request->status = EXIT_FAILURE;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (request->markdown)
			markdown();
		else
			each(list_one, NULL);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_profiles(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"markdown", MARKDOWN, NULL, 0,
		 "Write all side by side, as docs/profiles.md has them"},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[NAME...]",
		.children = plain_options,
		.doc = "List the device profiles that there are, or show what is in them.\v"
		       "urxe run --profile NAME makes devices like that card; urxe-profiles(7) "
		       "says what the keys mean.",
	};
	struct request request = {.status = EXIT_SUCCESS};

	if (argp_parse(&argp, argc, argv, 0, NULL, &request))
		return EXIT_REFUSED;
	return request.status;
}
