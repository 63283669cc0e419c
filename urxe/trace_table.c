/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows as a table, one for each conversation. */
#include <stdlib.h>
#include <string.h>

#include "urxe/trace.h"

/* A number that is 0 is an empty column. */
static char *number_text(uint64_t number)
{
	return number ? trace_text("%llu", (unsigned long long)number) : trace_text("%s", "");
}

static void print_row(const struct trace *trace, const struct row *row, int what_width,
		      int psn_width, FILE *out)
{
	char *bytes = row->kind == ROW_MESSAGE ? trace_text("%llu", (unsigned long long)row->bytes)
					       : number_text(row->bytes);
	char *lost = number_text(row->lost), *resent = number_text(row->resent);
	char *line = trace_text("%10.3f  %s  %-*s  %10s  %-*s  %7u  %4s  %6s  %s",
				(row->time - trace->start) / 1e6, row->end == 0 ? "->" : "<-",
				what_width, row->what, bytes, psn_width, row->psn_text,
				row->packets, lost, resent, row->notes);
	size_t length = strlen(line);

	while (length && line[length - 1] == ' ')
		length--;
	fprintf(out, "%.*s\n", (int)length, line);
	free(line);
	free(bytes);
	free(lost);
	free(resent);
}

/* The longest texts of two columns, so that they stand below each other. */
static void measure(const struct trace *trace, const struct trace_view *view,
		    const struct conversation *conversation, int *what_width, int *psn_width)
{
	*what_width = strlen("MESSAGE");
	*psn_width = strlen("PSN");
	for (size_t i = 0; i < conversation->row_count; i++) {
		const struct row *row = conversation->rows[i];
		int what = strlen(row->what), psn = strlen(row->psn_text);

		if (!trace_shows_row(trace, view, row))
			continue;
		*what_width = what > *what_width ? what : *what_width;
		*psn_width = psn > *psn_width ? psn : *psn_width;
	}
}

static void print_conversation(const struct trace *trace, const struct trace_view *view,
			       const struct conversation *conversation, FILE *out)
{
	int what_width, psn_width;

	fprintf(out, "%s  %s -> %s\n\n", trace_transport_name(conversation->transport),
		trace_end(trace, &conversation->ends[0]), trace_end(trace, &conversation->ends[1]));
	measure(trace, view, conversation, &what_width, &psn_width);
	fprintf(out, "%10s      %-*s  %10s  %-*s  %7s  %4s  %6s  %s\n", "MS", what_width, "MESSAGE",
		"BYTES", psn_width, "PSN", "PACKETS", "LOST", "RESENT", "NOTES");
	for (size_t i = 0; i < conversation->row_count; i++) {
		if (trace_shows_row(trace, view, conversation->rows[i]))
			print_row(trace, conversation->rows[i], what_width, psn_width, out);
	}
	fputc('\n', out);
}

void trace_table(const struct trace *trace, const struct trace_view *view, FILE *out)
{
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		if (trace_shows(view, trace->conversations[i]))
			print_conversation(trace, view, trace->conversations[i], out);
	}
}
