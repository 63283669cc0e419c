/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urxe ctl: a command for a process that has devices open (net/control.h).
 */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "net/control.h"
#include "net/process.h"
#include "urxe/command.h"
#include "urxe/faults.h"
#include "urxe/options.h"
#include "urxe/processes.h"

#define FAULTS "faults "
#define PATIENCE 10 /* seconds */

struct request {
	pid_t pid;
	char question[CONTROL_QUESTION];
	bool too_long;
	unsigned int words;
};

/* --- the process --------------------------------------------------------------------- */

/* What it shows of itself, or NULL; one of our PID namespace goes before others of its number. */
static const struct observed *find(const struct observed *processes, pid_t pid)
{
	const struct observed *process, *found = NULL;

	LL_FOREACH (processes, process) {
		if (process->header.pid != (uint32_t)pid)
			continue;
		if (!found || process->header.pid_namespace == process_namespace("pid"))
			found = process;
	}
	return found;
}

static struct observed *read_all(void)
{
	const struct observed_options options = {.all_namespaces = true};
	struct observed *processes;

	return observed_read(&options, &processes) == 0 ? processes : NULL;
}

/* Why there is no socket: dies. The process may have ended since it was looked for. */
static _Noreturn void explain_absence(pid_t pid)
{
	const struct observed *process = find(read_all(), pid);
	char text[ABSENCE_TEXT];

	if (process && process->header.net_namespace != process_namespace("net"))
		die("process %d is in another network namespace; nsenter(1) leads there", pid);
	if (process)
		die("process %d doesn't listen: it has another version of urxe, or no descriptor "
		    "was left for its socket",
		    pid);
	die("%s; see urxe ps", absence_text(pid, text));
}

static void ask(const struct request *request, struct control_reply *reply)
{
	struct observed *processes = read_all();
	const struct observed *process = find(processes, request->pid);
	uint64_t namespace = process ? process->header.pid_namespace : process_namespace("pid");
	int error;

	if (process && process->state == OBSERVED_STOPPED)
		die("process %d is stopped", request->pid);
	error = control_ask(request->pid, namespace, request->question, PATIENCE, reply);
	if (error == ECONNREFUSED)
		explain_absence(request->pid);
	if (error == ETIMEDOUT)
		die("process %d doesn't answer", request->pid);
	if (error)
		die("process %d: %s", request->pid, strerror(error));
	observed_free(processes);
}

/* --- the command --------------------------------------------------------------------- */

/* What can be known to be wrong before it is sent. */
static void check(const struct request *request)
{
	if (request->words == 0)
		die("no command for process %d; see urxe ctl --help", request->pid);
	if (request->too_long)
		die("a command has at most %d characters", CONTROL_QUESTION - 1);
	if (strncmp(request->question, FAULTS, strlen(FAULTS)) == 0 &&
	    strcmp(request->question, FAULTS "none") != 0)
		faults_check(request->question + strlen(FAULTS), "the specification");
}

static void append(struct request *request, const char *word)
{
	size_t length = strlen(request->question);
	int added = snprintf(request->question + length, sizeof(request->question) - length, "%s%s",
			     request->words ? " " : "", word);

	if (strpbrk(word, "\n"))
		die("a command is one line");
	request->too_long |= length + added >= sizeof(request->question);
	request->words++;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct request *request = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			request->pid = option_pid(argument);
		else
			append(request, argument);
		return 0;
	case ARGP_KEY_NO_ARGS:
		die("no process; see urxe ctl --help");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int command_ctl(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "PID COMMAND",
		.children = plain_options,
		.doc = "Change a process that has devices open, without stopping it.\v"
		       "Commands:\n"
		       "  faults              show the faults, and how often each has hit\n"
		       "  faults FAULTS       have these instead; see urxe help faults\n"
		       "  faults none         have no faults\n"
		       "  log LEVEL           log lines from this level: error, warn, info, debug\n"
		       "  explain on|off      explain on its stderr why operations and calls fail",
	};
	static struct control_reply reply;
	struct request request = {};

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &request))
		return EXIT_REFUSED;
	check(&request);
	ask(&request, &reply);
	if (!reply.ok)
		die("process %d: %s", request.pid, reply.text);
	fputs(reply.text, stdout);
	return EXIT_SUCCESS;
}
