/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run of messages of one kind and length, of which no packet was lost or late and as many were
 * sent again, is one row; and so are their acknowledgements, or the responses to them. A run of
 * responses is one, too. Whatever else there is ends a run.
 */
#include "urxe/trace.h"

#define RUN_LEAST 4 /* messages */

/* The rows of one run. */
struct run {
	struct row *messages, *answers; /* what they become; answers may be NULL */
	unsigned int count;		/* of messages */
	size_t end;			/* the row behind it */
};

static bool is_plain(const struct row *row)
{
	return row->mark_count == 0 && row->lost == 0;
}

static bool goes_on(const struct row *first, const struct row *row)
{
	return row->kind == first->kind && row->end == first->end && is_plain(row) &&
	       row->message && row->message->flags == first->message->flags &&
	       row->bytes == first->bytes && row->packets == first->packets &&
	       row->message->resent == first->message->resent && row->message->complete;
}

static bool is_answer(const struct row *first, const struct row *answers, const struct row *row)
{
	return first->kind == ROW_MESSAGE && (row->kind == ROW_ACK || row->kind == ROW_RESPONSE) &&
	       row->end != first->end && is_plain(row) && (!answers || answers->kind == row->kind);
}

/* How far the run goes that begins with row @index. */
static struct run run_find(const struct conversation *conversation, size_t index)
{
	struct row *first = conversation->rows[index];
	struct run run = {.messages = first, .end = index};

	if ((first->kind != ROW_MESSAGE && first->kind != ROW_RESPONSE) || !goes_on(first, first))
		return run;
	for (; run.end < conversation->row_count; run.end++) {
		struct row *row = conversation->rows[run.end];

		if (goes_on(first, row))
			run.count++;
		else if (!is_answer(first, run.answers, row))
			break;
		else if (!run.answers)
			run.answers = row;
	}
	return run;
}

static void row_join(struct row *row, const struct row *other)
{
	row->bytes += other->bytes;
	row->packets += other->packets;
	row->resent += other->resent;
	row->messages += other->messages;
	row->until = other->until;
	psn_list_join(&row->psns, &other->psns);
}

/* Returns how many rows there are at the end of @kept now. */
static size_t run_fold(struct conversation *conversation, const struct run *run, size_t index,
		       size_t kept)
{
	for (size_t i = index; i < run->end; i++) {
		struct row *row = conversation->rows[i];

		if (row != run->messages && row != run->answers)
			row_join(row->kind == run->messages->kind ? run->messages : run->answers,
				 row);
	}
	conversation->rows[kept++] = run->messages;
	if (run->answers)
		conversation->rows[kept++] = run->answers;
	return kept;
}

void trace_fold(struct conversation *conversation)
{
	size_t kept = 0;

	for (size_t i = 0; i < conversation->row_count;) {
		struct run run = run_find(conversation, i);

		if (run.count < RUN_LEAST) {
			conversation->rows[kept++] = conversation->rows[i++];
			continue;
		}
		kept = run_fold(conversation, &run, i, kept);
		i = run.end;
	}
	conversation->row_count = kept;
}
