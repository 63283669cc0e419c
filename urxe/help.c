/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe help: the overview, the manual of a command, a topic, or a page of the manual.
 */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "urxe/command.h"
#include "urxe/faults.h"
#include "urxe/installed.h"
#include "urxe/options.h"

static const struct topic {
	const char *name;
	void (*print)(void);
} topics[] = {
	{"faults", faults_print_grammar},    {"opcodes", faults_print_opcodes},
	{"calls", faults_print_calls},	     {"work", faults_print_work},
	{"statuses", faults_print_statuses}, {"events", faults_print_events},
	{"reasons", faults_print_reasons},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	const char **subject = state->input;

	if (key != ARGP_KEY_ARG || state->arg_num > 0)
		return ARGP_ERR_UNKNOWN;
	*subject = argument;
	return 0;
}

static char *list_topics(int key, const char *text, void *input)
{
	char *list = NULL;
	size_t size;
	FILE *stream;

	if (key != ARGP_KEY_HELP_POST_DOC || !(stream = open_memstream(&list, &size)))
		return (char *)text;
	fputs("Topics:", stream);
	for (unsigned int i = 0; i < sizeof(topics) / sizeof(*topics); i++)
		fprintf(stream, " %s", topics[i].name);
	/* Those that are no command's. */
	fputs("\nPages: urxe.7 urxe-check.7 urxe-faults.7 urxe-profiles.7", stream);
	fclose(stream);
	return list;
}

/* The section in which a page is asked for, behind its name: "", ".7" or "(7)"; 0: in any. */
static bool read_section(const char *text, char *section)
{
	*section = *text ? text[1] : '\0';
	return !*text || (*section && strcmp(text + 2, *text == '(' ? ")" : "") == 0);
}

/* A page by its name, with or without "urxe-", and its section; or NULL. */
static char *find_page(const char *name)
{
	static const char *const places[] = {"../docs/man",	  "../share/man/man1",
					     "../share/man/man7", URXE_MANDIR "/man1",
					     URXE_MANDIR "/man7", NULL};
	/* Distributions compress them. */
	static const char *const endings[] = {"1", "1.gz", "7", "7.gz"};
	const char *prefix = strncmp(name, "urxe", 4) == 0 ? "" : "urxe-";
	int length = strcspn(name, ".(");
	char section, file[64], *page = NULL;

	if (!read_section(name + length, &section))
		return NULL;
	for (unsigned int i = 0; !page && i < sizeof(endings) / sizeof(*endings); i++) {
		if (section && section != *endings[i])
			continue;
		snprintf(file, sizeof(file), "%s%.*s.%s", prefix, length, name, endings[i]);
		page = installed_find(places, file);
	}
	return page;
}

/* Become man(1) with the page @name. Returns the page without man, NULL without a page. */
static const char *show_manual(const char *name)
{
	char *page = find_page(name);

	if (page)
		execlp("man", "man", page, NULL);
	return page;
}

/* The options of a command, as it says them itself. */
static int show_options(const struct command *command)
{
	char name[64], *arguments[] = {name, "--help", NULL};

	snprintf(name, sizeof(name), "urxe %s", command->name);
	return command->call(2, arguments);
}

int command_help(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "[COMMAND|TOPIC|PAGE]",
		.children = plain_options,
		.doc = "Show the manual of a command, a topic, or a page of the manual.",
		.help_filter = list_topics,
	};
	const struct command *command;
	const char *subject = NULL, *page;

	if (argp_parse(&argp, argc, argv, 0, NULL, &subject))
		return EXIT_REFUSED;
	if (!subject) {
		command_overview(stdout);
		return EXIT_SUCCESS;
	}
	for (unsigned int i = 0; i < sizeof(topics) / sizeof(*topics); i++) {
		if (strcmp(subject, topics[i].name) == 0) {
			topics[i].print();
			return EXIT_SUCCESS;
		}
	}
	page = show_manual(subject);
	command = command_find(subject);
	if (!command && page)
		die("man isn't installed, which shows %s: apt-get install man-db", page);
	if (!command)
		die("no help about %s; see urxe help --help", given(subject));
	return show_options(command);
}
