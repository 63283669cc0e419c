/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe run: a program with the emulated devices.
 */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "urxe/command.h"
#include "urxe/launch.h"
#include "urxe/options.h"
#include "urxe/stat.h"

static error_t parse(int key, char *argument, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARGS:
		*(char ***)state->input = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		die("no program to run; see urxe run --help");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_run(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]",
		.doc = "Run PROGRAM with the emulated RoCEv2 devices.",
		.children = program_options,
	};
	char **program;

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &program))
		return EXIT_REFUSED;
	/* What else it may be is the session that this program is part of. */
	if (strcmp(getenv("URXE_STAT") ?: "", "1") == 0)
		return stat_program(program, false);
	launch(program);
}
