/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows as a sequence diagram in SVG: two vertical lines for each conversation, an arrow a row.
 * Plain elements and one style sheet; what is lost ends in a cross.
 */
#include <stdlib.h>
#include <string.h>

#include "urxe/trace.h"

#define WIDTH_LEAST 900
#define CHARACTER 7 /* the width of one, rounded up */
#define LEFT 90
#define RIGHT 590
#define NOTES 12 /* from there */
#define LOST 440 /* how far an arrow goes that doesn't arrive */
#define ROW 24
#define HEAD 60 /* above the rows of a conversation */
#define FOOT 20

static const char style[] = "text{font:11px monospace;fill:#222}"
			    "text.end{font-weight:bold;text-anchor:middle}"
			    "text.time{text-anchor:end;fill:#777}"
			    "text.label{text-anchor:middle}"
			    "text.notes{fill:#555}"
			    "line.life{stroke:#bbb}"
			    "path{stroke:#1a6;fill:none;stroke-width:1.4}"
			    "path.resent{stroke:#d80}"
			    "path.response{stroke:#27a}"
			    "path.ack{stroke:#aaa}"
			    "path.nak{stroke:#c22}"
			    "path.cm{stroke:#84c}"
			    "path.lost{stroke-dasharray:5 3}";

static const char *const classes[] = {
	[ROW_MESSAGE] = "message", [ROW_RESENT] = "resent", [ROW_RESPONSE] = "response",
	[ROW_ACK] = "ack",	   [ROW_NAK] = "nak",	    [ROW_RNR_NAK] = "nak",
	[ROW_CM] = "cm",	   [ROW_CNP] = "nak",
};

static void print_escaped(const char *text, FILE *out)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		default:
			/* Of a fault's text; XML has no other control characters. */
			fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
		}
	}
}

static void print_text(const char *class, int x, int y, const char *text, FILE *out)
{
	fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y);
	print_escaped(text, out);
	fputs("</text>\n", out);
}

/* From @from to @to, with a head there, or a cross. */
static void print_arrow(const char *class, bool lost, int from, int to, int y, FILE *out)
{
	int back = to > from ? -7 : 7;

	fprintf(out, "<path class=\"%s%s\" d=\"M%d %dH%d", class, lost ? " lost" : "", from, y, to);
	if (lost)
		fprintf(out, "m-4 -4l8 8m0 -8l-8 8");
	else
		fprintf(out, "m%d -4L%d %dl%d 4", back, to, y, back);
	fputs("\"/>\n", out);
}

static void print_row(const struct trace *trace, const struct row *row, int y, FILE *out)
{
	bool lost = row->lost == row->packets;
	int from = row->end == 0 ? LEFT : RIGHT, to = row->end == 0 ? RIGHT : LEFT;
	char *time = trace_text("%.3f", (row->time - trace->start) / 1e6);
	char *label = trace_label(row);

	if (lost)
		to = row->end == 0 ? LEFT + LOST : RIGHT - LOST;
	print_text("time", LEFT - 8, y + 4, time, out);
	print_arrow(classes[row->kind], lost, from, to, y, out);
	print_text("label", (from + to) / 2, y - 4, label, out);
	if (*row->notes)
		print_text("notes", RIGHT + NOTES, y + 4, row->notes, out);
	free(time);
	free(label);
}

/* Returns the height of the rows. */
static int height_of(const struct trace *trace, const struct trace_view *view,
		     const struct conversation *conversation)
{
	int height = 0;

	for (size_t i = 0; i < conversation->row_count; i++)
		height += trace_shows_row(trace, view, conversation->rows[i]) ? ROW : 0;
	return height;
}

/* With space for the longest notes. */
static int width_of(const struct trace *trace, const struct trace_view *view)
{
	int width = WIDTH_LEAST;

	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		const struct conversation *conversation = trace->conversations[i];

		for (size_t k = 0; k < conversation->row_count; k++) {
			const struct row *row = conversation->rows[k];
			int end = RIGHT + NOTES + CHARACTER * (int)strlen(row->notes);

			if (trace_shows(view, conversation) && trace_shows_row(trace, view, row))
				width = end > width ? end : width;
		}
	}
	return width;
}

static void print_conversation(const struct trace *trace, const struct trace_view *view,
			       const struct conversation *conversation, int y, FILE *out)
{
	char *left = trace_end(trace, &conversation->ends[0]);
	char *right = trace_end(trace, &conversation->ends[1]);
	int end = y + HEAD + height_of(trace, view, conversation);

	print_text("time", LEFT - 8, y + HEAD - 24, "ms", out);
	print_text("end", LEFT, y + 20, trace_transport_name(conversation->transport), out);
	print_text("end", LEFT + 40, y + 36, left, out);
	print_text("end", RIGHT, y + 36, right, out);
	fprintf(out, "<line class=\"life\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", LEFT,
		y + HEAD - 16, LEFT, end);
	fprintf(out, "<line class=\"life\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", RIGHT,
		y + HEAD - 16, RIGHT, end);
	y += HEAD + ROW / 2;
	for (size_t i = 0; i < conversation->row_count; i++) {
		if (!trace_shows_row(trace, view, conversation->rows[i]))
			continue;
		print_row(trace, conversation->rows[i], y, out);
		y += ROW;
	}
	free(left);
	free(right);
}

void trace_svg(const struct trace *trace, const struct trace_view *view, FILE *out)
{
	int width = width_of(trace, view), height = 0, y = 0;

	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		if (trace_shows(view, trace->conversations[i]))
			height += HEAD + height_of(trace, view, trace->conversations[i]) + FOOT;
	}
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\">\n<style>%s</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		width, height, width, height, style);
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		const struct conversation *conversation = trace->conversations[i];

		if (!trace_shows(view, conversation))
			continue;
		print_conversation(trace, view, conversation, y, out);
		y += HEAD + height_of(trace, view, conversation) + FOOT;
	}
	fputs("</svg>\n", out);
}
