/* SPDX-License-Identifier: BSD-2-Clause */
/* What each QP sent to its peer, in one line. */
#include <stdlib.h>
#include <string.h>

#include "urxe/trace.h"

#define WIDTH_LEAST 28 /* of an IPv4 address and a QP */

/* The longest text of an end, so that the columns stand below each other. */
static int width_of(const struct trace *trace, const struct trace_view *view)
{
	int width = WIDTH_LEAST;

	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		const struct conversation *conversation = trace->conversations[i];

		for (unsigned int end = 0; end < 2 && trace_shows(view, conversation); end++) {
			char *text = trace_end(trace, &conversation->ends[end]);
			int length = strlen(text);

			width = length > width ? length : width;
			free(text);
		}
	}
	return width;
}

static void print_line(const struct trace *trace, const struct conversation *conversation,
		       unsigned int end, int width, FILE *out)
{
	const struct totals *totals = &conversation->totals[end];
	char *from = trace_end(trace, &conversation->ends[end]);
	char *to = trace_end(trace, &conversation->ends[!end]);
	char *pause = totals->pause ? trace_duration(totals->pause) : trace_text("-");

	fprintf(out, "%-4s %-*s %-*s %8u %12llu %8u %6u %6u %6u %4u %4u  %s\n",
		trace_transport_name(conversation->transport), width, from, width, to,
		totals->messages, (unsigned long long)totals->bytes, totals->packets, totals->lost,
		totals->resent, totals->duplicates, totals->naks, totals->rnr_naks, pause);
	free(from);
	free(to);
	free(pause);
}

void trace_summary(const struct trace *trace, const struct trace_view *view, FILE *out)
{
	int width = width_of(trace, view);

	fprintf(out, "%-4s %-*s %-*s %8s %12s %8s %6s %6s %6s %4s %4s  %s\n", "", width, "FROM",
		width, "TO", "MESSAGES", "BYTES", "PACKETS", "LOST", "RESENT", "DUP", "NAK", "RNR",
		"PAUSE");
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		const struct conversation *conversation = trace->conversations[i];

		for (unsigned int end = 0; end < 2 && trace_shows(view, conversation); end++) {
			if (conversation->flows[end])
				print_line(trace, conversation, end, width, out);
		}
	}
}
