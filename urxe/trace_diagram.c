/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows as a sequence diagram in text: two ends, an arrow a row. */
#include <stdlib.h>
#include <string.h>

#include "urxe/trace.h"

#define DISTANCE 74 /* columns between the ends */
#define LOST_AT 56  /* how far an arrow goes that doesn't arrive */

static void fill(char *line, int from, int to, char with)
{
	if (to > from)
		memset(line + from, with, to - from);
}

/* The arrow of @row between the two ends. A label that is too long loses its end. */
static void draw(char line[DISTANCE + 1], const struct row *row)
{
	bool lost = row->lost == row->packets, right = row->end == 0;
	int length = lost ? LOST_AT : DISTANCE, start = right ? 0 : DISTANCE - length;
	char *label = trace_label(row);
	int space = length - 8, used = strlen(label);

	used = used > space ? space : used;
	fill(line, 0, DISTANCE, ' ');
	line[DISTANCE] = '\0';
	fill(line, start, start + length, '-');
	line[right ? start + length - 1 : start] = lost ? 'X' : right ? '>' : '<';
	line[start + 3] = ' ';
	memcpy(line + start + 4, label, used);
	line[start + 4 + used] = ' ';
	free(label);
}

static void draw_conversation(const struct trace *trace, const struct trace_view *view,
			      const struct conversation *conversation, FILE *out)
{
	char *left = trace_end(trace, &conversation->ends[0]);
	char *right = trace_end(trace, &conversation->ends[1]);
	char line[DISTANCE + 1];

	fprintf(out, "%10s  %-*s  %s\n", trace_transport_name(conversation->transport),
		DISTANCE - (int)strlen(right) / 2, left, right);
	for (size_t i = 0; i < conversation->row_count; i++) {
		const struct row *row = conversation->rows[i];

		if (!trace_shows_row(trace, view, row))
			continue;
		draw(line, row);
		fprintf(out, "%10.3f  |%s|%s%s\n", (row->time - trace->start) / 1e6, line,
			*row->notes ? "  " : "", row->notes);
	}
	fputc('\n', out);
	free(left);
	free(right);
}

void trace_diagram(const struct trace *trace, const struct trace_view *view, FILE *out)
{
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		if (trace_shows(view, trace->conversations[i]))
			draw_conversation(trace, view, trace->conversations[i], out);
	}
}
