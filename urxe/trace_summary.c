/* SPDX-License-Identifier: BSD-2-Clause */
/* What each QP sent to its peer, in one line. */
#include <stdlib.h>

#include "urxe/trace.h"

static void print_line(const struct trace *trace, const struct conversation *conversation,
		       unsigned int end, FILE *out)
{
	const struct totals *totals = &conversation->totals[end];
	char *from = trace_end(trace, &conversation->ends[end]);
	char *to = trace_end(trace, &conversation->ends[!end]);
	char *pause = totals->pause ? trace_duration(totals->pause) : trace_text("-");

	fprintf(out, "%-4s %-28s %-28s %8u %12llu %8u %6u %6u %6u %4u %4u  %s\n",
		trace_transport_name(conversation->transport), from, to, totals->messages,
		(unsigned long long)totals->bytes, totals->packets, totals->lost, totals->resent,
		totals->duplicates, totals->naks, totals->rnr_naks, pause);
	free(from);
	free(to);
	free(pause);
}

void trace_summary(const struct trace *trace, const struct trace_view *view, FILE *out)
{
	fprintf(out, "%-4s %-28s %-28s %8s %12s %8s %6s %6s %6s %4s %4s  %s\n", "", "FROM", "TO",
		"MESSAGES", "BYTES", "PACKETS", "LOST", "RESENT", "DUP", "NAK", "RNR", "PAUSE");
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		const struct conversation *conversation = trace->conversations[i];

		for (unsigned int end = 0; end < 2 && trace_shows(view, conversation); end++) {
			if (conversation->flows[end])
				print_line(trace, conversation, end, out);
		}
	}
}
