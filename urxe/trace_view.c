/* SPDX-License-Identifier: BSD-2-Clause */
/* What all outputs share: which conversations and rows are shown, and the label of an arrow. */
#include <stdlib.h>

#include "urxe/command.h"
#include "urxe/trace.h"

bool trace_shows(const struct trace_view *view, const struct conversation *conversation)
{
	/* QP 1's, if all of it is shown with other conversations, isn't shown once more. */
	if (!view->limited_to_qp)
		return conversation->lent < conversation->record_count;
	return conversation->ends[0].qpn == view->qpn || conversation->ends[1].qpn == view->qpn;
}

bool trace_shows_row(const struct trace *trace, const struct trace_view *view,
		     const struct row *row)
{
	return row->until - trace->start >= view->from && row->time - trace->start <= view->to;
}

char *trace_label(const struct row *row)
{
	char *label = NULL, *size = trace_size(row->bytes);
	size_t length;
	FILE *stream = open_memstream(&label, &length);

	if (!stream)
		die("out of memory");
	fputs(row->what, stream);
	if (row->bytes)
		fprintf(stream, " %s", size);
	if (*row->psn_text)
		fprintf(stream, ", PSN %s", row->psn_text);
	if (row->packets > 1)
		fprintf(stream, ", %u packets", row->packets);
	if (row->lost && row->lost < row->packets)
		fprintf(stream, ", %u lost", row->lost);
	if (row->resent)
		fprintf(stream, ", resent %u", row->resent);
	if (fclose(stream) != 0)
		die("out of memory");
	free(size);
	return label;
}
