/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows as JSON. Times are nanoseconds since the first packet of all files. */
#include "net/clock.h"
#include "urxe/json.h"
#include "urxe/trace.h"

static json_t *psns_json(const struct psn_list *list)
{
	json_t *ranges = json_array();

	for (unsigned int i = 0; i < list->count; i++)
		json_array_append_new(
			ranges, json_pack("[I, I]", (json_int_t)(list->ranges[i].first & PSN_MASK),
					  (json_int_t)(list->ranges[i].last & PSN_MASK)));
	return ranges;
}

static json_t *marks_json(const struct row *row)
{
	json_t *marks = json_array();

	for (unsigned int i = 0; i < row->mark_count; i++)
		json_array_append_new(marks,
				      json_pack("{s:o, s:o}", "what", text_json(row->marks[i].text),
						"psns", psns_json(&row->marks[i].psns)));
	return marks;
}

/* null: it isn't known, or not one message's. */
static json_t *acknowledged_json(const struct row *row)
{
	const struct message *message = row->message;

	if (row->kind != ROW_MESSAGE || row->messages > 1 || !message ||
	    message->acked == TIME_UNKNOWN)
		return json_null();
	return number_json(message->acked - message->begin);
}

static json_t *row_json(const struct trace *trace, const struct row *row)
{
	static const char *const kinds[] = {
		[ROW_MESSAGE] = "message", [ROW_RESENT] = "resent", [ROW_RESPONSE] = "response",
		[ROW_ACK] = "ack",	   [ROW_NAK] = "nak",	    [ROW_RNR_NAK] = "rnr_nak",
		[ROW_CM] = "cm",	   [ROW_CNP] = "cnp",
	};
	json_t *json =
		json_pack("{s:s, s:i, s:o, s:o, s:s, s:o, s:o, s:o}", "kind", kinds[row->kind],
			  "from", row->end, "time_ns", number_json(row->time - trace->start),
			  "until_ns", number_json(row->until - trace->start), "what", row->what,
			  "bytes", number_json(row->bytes), "psns", psns_json(&row->psns),
			  "acknowledged_after_ns", acknowledged_json(row));

	if (json)
		json_object_update_new(json,
				       json_pack("{s:i, s:i, s:i, s:i, s:o, s:o}", "messages",
						 row->messages, "packets", row->packets, "lost",
						 row->lost, "resent", row->resent, "marks",
						 marks_json(row), "notes", text_json(row->notes)));
	return json;
}

/* What the end sent; null: nothing. */
static json_t *totals_json(const struct conversation *conversation, unsigned int end)
{
	const struct totals *totals = &conversation->totals[end];

	if (!conversation->flows[end])
		return json_null();
	return json_pack("{s:i, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "messages",
			 totals->messages, "bytes", number_json(totals->bytes), "packets",
			 totals->packets, "lost", totals->lost, "resent", totals->resent,
			 "duplicates", totals->duplicates, "naks", totals->naks, "rnr_naks",
			 totals->rnr_naks, "pause_ns", number_json(totals->pause));
}

static json_t *end_json(const struct trace *trace, const struct conversation *conversation,
			unsigned int index)
{
	const struct end *end = &conversation->ends[index];

	return json_pack("{s:s, s:o, s:b, s:o}", "address", trace->addresses[end->address], "qpn",
			 end->qpn ? number_json(end->qpn) : json_null(), "captured", end->captured,
			 "sent", totals_json(conversation, index));
}

static json_t *conversation_json(const struct trace *trace, const struct trace_view *view,
				 const struct conversation *conversation)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < conversation->row_count; i++) {
		if (trace_shows_row(trace, view, conversation->rows[i]))
			json_array_append_new(rows, row_json(trace, conversation->rows[i]));
	}
	return json_pack("{s:s, s:[o, o], s:o}", "transport",
			 trace_transport_name(conversation->transport), "ends",
			 end_json(trace, conversation, 0), end_json(trace, conversation, 1), "rows",
			 rows);
}

void trace_json(const struct trace *trace, const struct trace_view *view, FILE *out)
{
	json_t *conversations = json_array();
	char *start = trace_text("%llu.%09llu", (unsigned long long)(trace->start / NS_PER_S),
				 (unsigned long long)(trace->start % NS_PER_S));

	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		if (trace_shows(view, trace->conversations[i]))
			json_array_append_new(
				conversations,
				conversation_json(trace, view, trace->conversations[i]));
	}
	json_print(out, json_pack("{s:s, s:o}", "start", start, "conversations", conversations),
		   JSON_INDENT(2));
}
