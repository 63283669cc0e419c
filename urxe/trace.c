/* SPDX-License-Identifier: BSD-2-Clause */
/* urxe trace: captures as tables, sequence diagrams and JSON. How it works is in urxe/trace.h. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "urxe/command.h"
#include "urxe/options.h"
#include "urxe/trace.h"

enum { FORMAT = 0x100, JSON, QP, PACKETS, FROM, TO };

struct arguments {
	void (*format)(const struct trace *trace, const struct trace_view *view, FILE *out);
	bool summary;
	const char **paths;
	unsigned int path_count;
	struct trace_view view;
	struct trace trace;
};

static const struct format {
	const char *name;
	void (*print)(const struct trace *trace, const struct trace_view *view, FILE *out);
	bool summary; /* goes below it */
} formats[] = {
	{"table", trace_table, true},
	{"diagram", trace_diagram, true},
	{"svg", trace_svg, false},
	{"json", trace_json, false},
};

static void read_format(struct arguments *arguments, const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		if (strcmp(name, formats[i].name) == 0) {
			arguments->format = formats[i].print;
			arguments->summary = formats[i].summary;
			return;
		}
	}
	die("--format is table, diagram, svg or json, and not %s", given(name));
}

#define MOST_TIME 1e12 /* milliseconds, which fit into 64 bits as nanoseconds */

/* In nanoseconds what is given in milliseconds, as the tables have them. */
static uint64_t read_time(const char *option, const char *text)
{
	return option_decimal(option, text, 0, MOST_TIME) * 1e6;
}

static uint32_t read_qpn(const char *text)
{
	bool hexadecimal = strncasecmp(text, "0x", 2) == 0;
	char *end;
	unsigned long qpn = strtoul(text, &end, hexadecimal ? 16 : 10);

	if (end == text || *end || qpn > QPN_MASK)
		die("--qp takes the number of a queue pair, and not %s", given(text));
	return qpn;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case FORMAT:
		read_format(arguments, argument);
		return 0;
	case JSON:
		read_format(arguments, "json");
		return 0;
	case QP:
		arguments->view.qpn = read_qpn(argument);
		arguments->view.limited_to_qp = true;
		return 0;
	case PACKETS:
		arguments->trace.unfolded = true;
		return 0;
	case FROM:
		arguments->view.from = read_time("--from", argument);
		return 0;
	case TO:
		arguments->view.to = read_time("--to", argument);
		return 0;
	case ARGP_KEY_ARG:
		arguments->paths = trace_grow(arguments->paths, arguments->path_count,
					      sizeof(*arguments->paths));
		arguments->paths[arguments->path_count++] = argument;
		return 0;
	case ARGP_KEY_NO_ARGS:
		die("no captures to read; see urxe trace --help");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"format", FORMAT, "FORMAT", 0,
	 "table (default), diagram: a sequence diagram as text, svg: one as a picture, or json"},
	{"json", JSON, NULL, 0, "As --format json"},
	{"qp", QP, "N", 0, "Only what is from or to queue pair N"},
	{"packets", PACKETS, NULL, 0, "A row for each packet, instead of one for a message"},
	{"from", FROM, "MS", 0, "Leave out what was before, in milliseconds from the first packet"},
	{"to", TO, "MS", 0, "Leave out what was after"},
	{0},
};

static void check_qp(const struct arguments *arguments, const char *where)
{
	const struct trace *trace = &arguments->trace;

	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		if (trace_shows(&arguments->view, trace->conversations[i]))
			return;
	}
	die("no packets from or to queue pair %#x in %s", arguments->view.qpn, where);
}

int command_trace(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE...",
		.children = plain_options,
		.doc = "Show what is in captures (urxe run --pcap), of one end or both: messages, "
		       "acknowledgements, what was lost and sent again.",
	};
	struct arguments arguments = {
		.format = trace_table, .summary = true, .view = {.to = UINT64_MAX}};
	struct trace *trace = &arguments.trace;
	const char *where;

	if (argp_parse(&argp, argc, argv, 0, NULL, &arguments))
		return EXIT_REFUSED;
	if (arguments.view.from > arguments.view.to)
		die("--from is later than --to");
	for (unsigned int i = 0; i < arguments.path_count; i++)
		trace_read(trace, arguments.paths[i]);
	where = arguments.path_count == 1 ? *arguments.paths : "any of these files";
	if (!trace->record_count)
		die("no RoCE packets in %s", where);
	trace_find_conversations(trace);
	if (arguments.view.limited_to_qp)
		check_qp(&arguments, where);
	trace_match(trace);
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		trace_find_messages(trace->conversations[i]);
		trace_make_rows(trace, trace->conversations[i]);
	}
	arguments.format(trace, &arguments.view, stdout);
	if (arguments.summary)
		trace_summary(trace, &arguments.view, stdout);
	return EXIT_SUCCESS;
}
