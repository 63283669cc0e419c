/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What came of the runs: a table of the findings, each with the command that repeats it; or JSON of
 * all places.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "urxe/command.h"
#include "urxe/fuzz.h"
#include "urxe/json.h"
#include "urxe/processes.h"

static const char *const outcome_names[FUZZ_OUTCOMES] = {
	[FUZZ_UNTRIED] = "untried",	  [FUZZ_REPORTED] = "reported", [FUZZ_WENT_ON] = "went on",
	[FUZZ_UNREACHED] = "unreached",	  [FUZZ_CRASH] = "crash",	[FUZZ_HANG] = "hang",
	[FUZZ_PEER_CRASH] = "peer crash", [FUZZ_LEAK] = "leak",		[FUZZ_MISUSE] = "misuse",
};

static unsigned int count_outcome(const struct fuzz *fuzz, enum fuzz_outcome outcome)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < fuzz->place_count; i++)
		count += fuzz->places[i].outcome == outcome;
	return count;
}

unsigned int fuzz_count_findings(const struct fuzz *fuzz)
{
	unsigned int count = 0;

	for (enum fuzz_outcome outcome = 0; outcome < FUZZ_OUTCOMES; outcome++)
		count += fuzz_is_finding(outcome) ? count_outcome(fuzz, outcome) : 0;
	return count;
}

/* --- progress ------------------------------------------------------------------------------ */

void fuzz_show_progress(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rurxe fuzz: %td of %u, found %u: %.60s\033[K",
			place - fuzz->places + 1, fuzz->place_count, fuzz_count_findings(fuzz),
			place->fault);
}

void fuzz_end_progress(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

/* --- commands ------------------------------------------------------------------------------ */

/* As a shell reads it. */
static void print_word(FILE *stream, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-+=./:,@%^";

	if (*word && word[strspn(word, plain)] == '\0') {
		fputs(word, stream);
		return;
	}
	fputc('\'', stream);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", stream);
		else
			fputc(*word, stream);
	}
	fputc('\'', stream);
}

/* An option that stands for the variable @name, if that is set. */
static void print_option(FILE *stream, const char *option, const char *name)
{
	const char *value = fuzz_variable(name);

	if (!value)
		return;
	fprintf(stream, " %s ", option);
	print_word(stream, value);
}

/* The beginning of a command, with what the program and its peer have been given alike. */
static void print_run(const struct fuzz *fuzz, FILE *stream, const char *node)
{
	if (node) {
		/* A shell that has it set can't have a node. */
		fprintf(stream, "%surxe run --node ", fuzz->devices ? "env -u URXE_DEVICES " : "");
		print_word(stream, node);
	} else {
		fputs("URXE_DEVICES=", stream);
		print_word(stream, fuzz->devices);
		fputs(" urxe run", stream);
	}
	print_option(stream, "--link", "URXE_LINK");
	print_option(stream, "--profile", "URXE_PROFILE");
	print_option(stream, "--pcap", "URXE_PCAP");
}

static void print_check(FILE *stream)
{
	const char *options = fuzz_variable("URXE_CHECK");

	fputs(" --check", stream);
	if (!options)
		return;
	fputc('=', stream);
	print_word(stream, options);
}

/* What runs the program with the fault of @place. The caller frees it. */
static char *make_command(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	char *command = NULL, *faults = fuzz_join_faults(fuzz, place->fault);
	size_t size;
	FILE *stream = open_memstream(&command, &size);

	if (!stream)
		die("out of memory");
	print_run(fuzz, stream, fuzz->node);
	if (fuzz_is_checked(fuzz, place))
		print_check(stream);
	fputs(" --faults ", stream);
	print_word(stream, faults);
	fputs(" --", stream);
	for (char **word = fuzz->program; *word; word++) {
		fputc(' ', stream);
		print_word(stream, *word);
	}
	fclose(stream);
	free(faults);
	return command;
}

static char *make_peer_command(const struct fuzz *fuzz)
{
	char *command = NULL;
	size_t size;
	FILE *stream = open_memstream(&command, &size);

	if (!stream)
		die("out of memory");
	print_run(fuzz, stream, fuzz->peer_node);
	fputs(" -- sh -c ", stream);
	print_word(stream, fuzz->peer);
	fclose(stream);
	return command;
}

/* --- text ---------------------------------------------------------------------------------- */

/* "SIGSEGV", "exit status 3". */
static void print_status(FILE *stream, int status)
{
	int number = fuzz_crash_signal(status);
	const char *name = sigabbrev_np(number);

	if (number && name)
		fprintf(stream, "SIG%s", name);
	else if (number)
		fprintf(stream, "signal %d", number);
	else
		fprintf(stream, "exit status %d", WEXITSTATUS(status));
}

static void print_detail(const struct fuzz_place *place)
{
	const struct fuzz_run *run = &place->run;
	char time[AMOUNT_TEXT];

	if (place->outcome == FUZZ_LEAK || place->outcome == FUZZ_MISUSE) {
		fputs(run->report, stdout);
		return;
	}
	if (place->outcome == FUZZ_HANG)
		printf("killed after %s", time_text(run->seconds * 1e9, time));
	else
		print_status(stdout,
			     place->outcome == FUZZ_PEER_CRASH ? run->peer_status : run->status);
	if (run->last < FAULT_CALLS && place->outcome != FUZZ_PEER_CRASH)
		printf(", its last call was %s()", fault_call_name(run->last));
}

static void print_finding(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	char *command = make_command(fuzz, place);

	printf("%-10s  %-36s  ", outcome_names[place->outcome], place->fault);
	print_detail(place);
	printf("\n            %s\n", command);
	if (fuzz->output)
		printf("            %s\n", place->run.output);
	free(command);
}

static void print_left_out(const struct fuzz *fuzz)
{
	for (unsigned int i = 0; i < fuzz->left_out_count; i++)
		printf("%s%s() is called %u times, of which %u were tried", i ? "; " : "",
		       fault_call_name(fuzz->left_out[i].call), fuzz->left_out[i].calls,
		       fuzz->left_out[i].tried);
	if (fuzz->left_out_count)
		puts(".");
	if (count_outcome(fuzz, FUZZ_UNTRIED) && !fuzz_has_stopped(fuzz))
		printf("%u places are left out, as others like them hang; see --keep-going.\n",
		       count_outcome(fuzz, FUZZ_UNTRIED));
}

void fuzz_print_text(const struct fuzz *fuzz)
{
	unsigned int findings = fuzz_count_findings(fuzz);
	const char *separator = "";

	for (unsigned int i = 0; i < fuzz->place_count; i++) {
		if (fuzz_is_finding(fuzz->places[i].outcome))
			print_finding(fuzz, &fuzz->places[i]);
	}
	if (findings && fuzz->peer) {
		char *command = make_peer_command(fuzz);

		printf("The peer, to be started before: %s\n", command);
		free(command);
	}
	printf("%s%u places: ", findings ? "\n" : "", fuzz->place_count);
	for (enum fuzz_outcome outcome = 0; outcome < FUZZ_OUTCOMES; outcome++) {
		unsigned int count = count_outcome(fuzz, outcome);

		if (!count)
			continue;
		printf("%s%u %s", separator, count, outcome_names[outcome]);
		separator = ", ";
	}
	puts(".");
	print_left_out(fuzz);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static json_t *status_json(int status)
{
	int number = fuzz_crash_signal(status);
	char name[32] = "";

	if (!number)
		return json_pack("{s:i}", "exit_status", WEXITSTATUS(status));
	snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(number) ?: "?");
	return json_pack("{s:s}", "signal", name);
}

static json_t *place_json(const struct fuzz *fuzz, const struct fuzz_place *place)
{
	const struct fuzz_run *run = &place->run;
	char *command = make_command(fuzz, place);
	json_t *json =
		json_pack("{s:s, s:s, s:s, s:o, s:f}", "fault", place->fault, "kind",
			  fuzz_kind_name(place->kind), "outcome", outcome_names[place->outcome],
			  "command", text_json(command), "seconds", run->seconds);

	if (place->outcome != FUZZ_UNTRIED && !run->hung)
		json_object_set_new(json, "program", status_json(run->status));
	if (place->outcome == FUZZ_PEER_CRASH)
		json_object_set_new(json, "peer", status_json(run->peer_status));
	if (place->outcome != FUZZ_UNTRIED && run->last < FAULT_CALLS)
		json_object_set_new(json, "last_call", json_string(fault_call_name(run->last)));
	if (run->report)
		json_object_set_new(json, "report", text_json(run->report));
	if (fuzz->output && fuzz_is_finding(place->outcome))
		json_object_set_new(json, "output", text_json(run->output));
	free(command);
	return json;
}

static json_t *left_out_json(const struct fuzz_left_out *left_out)
{
	return json_pack("{s:s, s:i, s:i}", "call", fault_call_name(left_out->call), "calls",
			 (int)left_out->calls, "tried", (int)left_out->tried);
}

void fuzz_print_json(const struct fuzz *fuzz)
{
	json_t *json = json_object(), *places = json_array(), *left_out = json_array();
	json_t *outcomes = json_object();

	for (unsigned int i = 0; i < fuzz->place_count; i++)
		json_array_append_new(places, place_json(fuzz, &fuzz->places[i]));
	for (unsigned int i = 0; i < fuzz->left_out_count; i++)
		json_array_append_new(left_out, left_out_json(&fuzz->left_out[i]));
	for (enum fuzz_outcome outcome = 0; outcome < FUZZ_OUTCOMES; outcome++)
		json_object_set_new(outcomes, outcome_names[outcome],
				    json_integer(count_outcome(fuzz, outcome)));
	json_object_set_new(json, "places", places);
	json_object_set_new(json, "outcomes", outcomes);
	json_object_set_new(json, "left_out", left_out);
	if (fuzz->peer) {
		char *command = make_peer_command(fuzz);

		json_object_set_new(json, "peer", text_json(command));
		free(command);
	}
	json_print(stdout, json, JSON_INDENT(2));
}
