/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe(1): the table of commands, and the options before a command.
 */
#include <argp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "urxe/command.h"

static const struct command commands[] = {
	{"run", command_run, "run a program with the emulated devices"},
	{"devices", command_devices, "list the devices that a program would find"},
	{"ps", command_ps, "list processes with open devices, and their objects"},
	{"top", command_top, "show what these processes are doing"},
	{"ctl", command_ctl, "change the faults, the log and explanations of a process"},
	{"stat", command_stat, "run a program, and say what it has transferred"},
	{"profiles", command_profiles, "list device profiles, and show what is in them"},
	{"fuzz", command_fuzz, "run a program with one fault after the other"},
	{"explain", command_explain, "explain an error: what it means, what to look at"},
	{"trace", command_trace, "show captures as tables and sequence diagrams"},
	{"help", command_help, "show the manual of a command, a topic, or a page"},
	{"list-devices", command_list_devices, NULL},
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

void (*die_first)(void);

void die(const char *format, ...)
{
	va_list arguments;

	if (die_first)
		die_first();
	va_start(arguments, format);
	fputs("urxe: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(EXIT_REFUSED);
}

static const char overview[] =
	"Run RDMA programs on emulated RoCEv2 devices, and see what they do.\v"
	"Examples:\n"
	"  urxe run --node 127.0.0.1 -- ./server\n"
	"  urxe run --node 127.0.0.2 --faults 'drop=1%' -- ./client 127.0.0.1\n\n"
	"\"urxe COMMAND --help\" has the options of a command, \"urxe help COMMAND\" its manual.";

/* The list of commands follows the first sentence. */
static char *filter_help(int key, const char *text, void *input)
{
	char *list = NULL;
	size_t size;
	FILE *stream;

	if (key != ARGP_KEY_HELP_PRE_DOC || !(stream = open_memstream(&list, &size)))
		return (char *)text;
	fprintf(stream, "%s\n\nCommands:\n", text);
	for (const struct command *command = commands; command < commands + COMMANDS; command++) {
		if (command->help)
			fprintf(stream, "  %-10s %s\n", command->name, command->help);
	}
	fclose(stream);
	return list;
}

const struct command *command_find(const char *name)
{
	for (const struct command *command = commands; command < commands + COMMANDS; command++) {
		if (strcmp(name, command->name) == 0)
			return command;
	}
	return NULL;
}

static int call(int argc, char **argv)
{
	const struct command *command = command_find(argv[0]);
	char name[64];

	if (!command)
		die("no command %s; see urxe --help", given(argv[0]));
	snprintf(name, sizeof(name), "urxe %s", command->name);
	argv[0] = name;
	return command->call(argc, argv);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	int *status = state->input;

	switch (key) {
	case 'h':
		command_overview(stdout);
		exit(EXIT_SUCCESS);
	case ARGP_KEY_ARGS:
		*status = call(state->argc - state->next, state->argv + state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_overview(stderr);
		exit(EXIT_REFUSED);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "COMMAND [ARGUMENT...]",
	.doc = overview,
	.help_filter = filter_help,
};

void command_overview(FILE *stream)
{
	argp_help(&argp, stream, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, "urxe");
}

/* At exit: what reads the output knows by the status that it isn't all of it. */
static void finish_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	fputs("urxe: the output can't be written\n", stderr);
	_exit(EXIT_REFUSED);
}

/*
 * The numbers of streams that were closed before this program began aren't those of its files. To
 * write there fails all the same, and what it executes finds them closed.
 */
static void keep_streams_apart(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	int status = EXIT_SUCCESS;

	keep_streams_apart();
	atexit(finish_output);
	argp_program_version = "urxe " URXE_VERSION;
	argp_err_exit_status = EXIT_REFUSED;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &status))
		return EXIT_REFUSED;
	return status;
}
