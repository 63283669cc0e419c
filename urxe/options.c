/* SPDX-License-Identifier: BSD-2-Clause */
#include "urxe/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "urxe/command.h"

/* Keys of options that have no letter. */
enum { NODE = 0x100, LINK, PCAP, FAULTS, PROFILE, EXPLAIN, STAT, CHECK };

static const struct setting {
	const char *option, *variable;
} settings[] = {
	[NODE - NODE] = {"--node", "URXE_NODE"},
	[LINK - NODE] = {"--link", "URXE_LINK"},
	[PCAP - NODE] = {"--pcap", "URXE_PCAP"},
	[FAULTS - NODE] = {"--faults", "URXE_FAULTS"},
	[PROFILE - NODE] = {"--profile", "URXE_PROFILE"},
	[EXPLAIN - NODE] = {"--explain", "URXE_EXPLAIN"},
	[STAT - NODE] = {"--stat", "URXE_STAT"},
	[CHECK - NODE] = {"--check", "URXE_CHECK"},
};

const char *option_value(const char *option, const char *value)
{
	if (!*value)
		die("%s needs a value that isn't empty", option);
	return value;
}

/* Whether all of @text is a whole number of @least to @most. */
static bool read_number(const char *text, unsigned long least, unsigned long most,
			unsigned long *number)
{
	char *end;

	errno = 0;
	*number = strtoul(text, &end, 10);
	return isdigit((unsigned char)*text) && !*end && !errno && *number >= least &&
	       *number <= most;
}

pid_t option_pid(const char *text)
{
	unsigned long pid;

	if (!read_number(text, 1, INT32_MAX, &pid))
		die("%s is no process id", given(text));
	return pid;
}

unsigned long option_number(const char *option, const char *text, unsigned long least,
			    unsigned long most)
{
	unsigned long number;

	if (!read_number(text, least, most, &number))
		die("%s: %s is no whole number from %lu to %lu", option, given(text), least, most);
	return number;
}

double option_decimal(const char *option, const char *text, double least, double most)
{
	char *end;
	double number = strtod(text, &end);

	/* So that NaN is outside of the range, too. */
	if (end == text || *end || !(number >= least && number <= most))
		die("%s: %s is no number from %g to %.15g", option, given(text), least, most);
	return number;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	const struct setting *setting;

	if (key < NODE || key > CHECK)
		return ARGP_ERR_UNKNOWN;
	setting = &settings[key - NODE];
	if (argument)
		option_value(setting->option, argument);
	if (setenv(setting->variable, argument ? argument : "1", 1) != 0)
		die("out of memory");
	return 0;
}

static const struct argp_option of_devices[] = {
	{"node", NODE, "ADDRESSES", 0,
	 "The addresses of this node, separated by commas (URXE_NODE): 127.0.0.1 and 127.0.0.2 are "
	 "two nodes on one machine; 127.0.0.1/127.0.0.2 is one node with two ports"},
	{"link", LINK, "udp|shm", 0,
	 "shm: memory between processes of this machine that both have it, UDP to all others "
	 "(URXE_LINK)"},
	{"pcap", PCAP, "FILE", 0, "Write every packet to FILE; %p is the process id (URXE_PCAP)"},
	{"faults", FAULTS, "FAULTS", 0,
	 "What goes wrong (URXE_FAULTS): 'seed=7;drop=1%;fail(ENOMEM)#3/ibv_reg_mr'; "
	 "see urxe help faults"},
	{"profile", PROFILE, "NAME|FILE", 0,
	 "Answer, limit and behave like this card (URXE_PROFILE); see urxe-profiles(7)"},
	{0},
};

static const struct argp_option of_programs[] = {
	{"explain", EXPLAIN, NULL, 0,
	 "Say on stderr why an operation or a call failed (URXE_EXPLAIN)"},
	{"check", CHECK, "OPTIONS", OPTION_ARG_OPTIONAL,
	 "Say on stderr what the program does wrong with verbs (URXE_CHECK); OPTIONS: exit=N, "
	 "json=FILE, suppress=FILE, no-leaks, order, portability[=NAME+NAME]; see "
	 "urxe-check(7)"},
	{"stat", STAT, NULL, 0, "Say at the end what was transferred (URXE_STAT)"},
	{0},
};

/* argp itself has --help and -?. */
static const struct argp_option of_help[] = {
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL},
	{0},
};

static error_t parse_help(int key, char *argument, struct argp_state *state)
{
	if (key != 'h')
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
	return 0;
}

static const struct argp help = {of_help, parse_help};
static const struct argp devices = {of_devices, parse};
static const struct argp programs = {of_programs, parse};

const struct argp_child plain_options[] = {{&help}, {0}};
const struct argp_child device_options[] = {{&help}, {&devices}, {0}};
const struct argp_child program_options[] = {{&help}, {&devices}, {&programs}, {0}};
