/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmissions become rows. Folded, a row is a message with all its packets that are sent for the
 * first time, a run of packets that are sent again, the responses to a READ, a run of ACKs.
 * What became of which packets is said in the row's notes.
 */
#include <stdlib.h>
#include <string.h>

#include "urxe/trace.h"

#define RANGES_MOST 2	/* of PSNs in a column */
#define SILENCE 1000000 /* ns: that is worth mentioning */

struct builder {
	const struct trace *trace;
	struct conversation *conversation;
	struct {
		struct row *resent, *response; /* that go on, or NULL */
		const struct row *nak;	       /* that this end got and hasn't acted on, or NULL */
	} ends[2];
	uint64_t latest; /* the time of the transmission before */
};

/* --- Rows ------------------------------------------------------------------------------- */

static enum row_kind kind_of(const struct transmission *transmission)
{
	const struct record *record = transmission->record;

	if (record->cm)
		return ROW_CM;
	if (record->opcode == WIRE_OPCODE_CNP)
		return ROW_CNP;
	if (transmission->resent)
		return ROW_RESENT;
	if (!record->op || !(record->op->flags & OPCODE_RESPONSE))
		return ROW_MESSAGE;
	if (!(record->op->flags & OPCODE_ACK))
		return ROW_RESPONSE;
	switch (record->syndrome & AETH_TYPE_MASK) {
	case AETH_ACK:
		return ROW_ACK;
	case AETH_RNR_NAK:
		return ROW_RNR_NAK;
	default:
		return ROW_NAK;
	}
}

static bool is_response(const struct transmission *transmission)
{
	return transmission->record->op && transmission->record->op->flags & OPCODE_RESPONSE;
}

/* The row that the packet goes on with, or NULL. */
static struct row *row_of(const struct builder *builder, enum row_kind kind,
			  const struct transmission *transmission)
{
	const struct conversation *conversation = builder->conversation;
	struct row *resent = builder->ends[transmission->end].resent;
	struct row *response = builder->ends[transmission->end].response;
	struct row *last =
		conversation->row_count ? conversation->rows[conversation->row_count - 1] : NULL;

	if (builder->trace->unfolded)
		return NULL;
	if (transmission->copied)
		return resent && psn_list_last(&resent->psns) == transmission->psn ? resent
		       : kind == ROW_MESSAGE ? transmission->message->row
					     : response;
	switch (kind) {
	case ROW_MESSAGE:
		return transmission->message->row;
	case ROW_RESENT:
		return resent && is_response(resent->transmission) == is_response(transmission) &&
				       transmission->psn > psn_list_last(&resent->psns)
			       ? resent
			       : NULL;
	case ROW_RESPONSE:
		return response && response->message == transmission->message ? response : NULL;
	case ROW_ACK:
		return last && last->kind == ROW_ACK && last->end == transmission->end ? last
										       : NULL;
	default:
		return NULL;
	}
}

/* What is sent again because of a NAK begins where that says. */
static void find_cause(struct builder *builder, struct row *row)
{
	const struct row *nak = builder->ends[row->end].nak;

	row->silence = row->time - builder->latest;
	if (is_response(row->transmission) || !nak ||
	    row->transmission->psn > nak->transmission->psn)
		return;
	row->cause = nak;
	builder->ends[row->end].nak = NULL;
}

/* Whether the connection manager said the same before. */
static bool is_repeated(const struct conversation *conversation, const struct row *row)
{
	const struct cm *cm = row->transmission->record->cm;

	for (size_t i = 0; i < conversation->row_count; i++) {
		const struct row *before = conversation->rows[i];

		if (before->kind == ROW_CM && before->end == row->end &&
		    before->transmission->record->cm->attribute == cm->attribute &&
		    before->transmission->record->cm->local_id == cm->local_id &&
		    before->transmission->record->cm->remote_id == cm->remote_id)
			return true;
	}
	return false;
}

static struct row *row_add(struct builder *builder, enum row_kind kind,
			   const struct transmission *transmission)
{
	struct conversation *conversation = builder->conversation;
	struct row *row = trace_allocate(sizeof(*row));

	*row = (struct row){.kind = kind,
			    .end = transmission->end,
			    .time = transmission->time,
			    .messages = 1,
			    .transmission = transmission,
			    .message = transmission->message};
	if (kind == ROW_RESENT)
		find_cause(builder, row);
	row->repeated = kind == ROW_CM && is_repeated(conversation, row);
	conversation->rows = trace_grow(conversation->rows, conversation->row_count, sizeof(row));
	return conversation->rows[conversation->row_count++] = row;
}

/* Which rows of the ends go on behind this packet. */
static void follow(struct builder *builder, struct row *row, struct transmission *transmission)
{
	unsigned int end = transmission->end;

	switch (row->kind) {
	case ROW_MESSAGE:
		transmission->message->row = row;
		builder->ends[end].resent = NULL;
		break;
	case ROW_RESENT:
		builder->ends[end].resent = row;
		break;
	case ROW_RESPONSE:
		builder->ends[end].response = row;
		builder->ends[end].resent = NULL;
		break;
	case ROW_NAK:
	case ROW_RNR_NAK:
		if (transmission->lost)
			break;
		builder->ends[!end].resent = NULL;
		/* Packets behind the one with an RNR NAK make rxe send another one. */
		if (row->kind == ROW_RNR_NAK || !builder->ends[!end].nak)
			builder->ends[!end].nak = row;
		break;
	default:
		break;
	}
}

/* --- Marks -------------------------------------------------------------------------------- */

static void mark(struct row *row, const char *text, uint64_t psn)
{
	struct mark *found = NULL;

	for (unsigned int i = 0; !found && i < row->mark_count; i++) {
		if (strcmp(row->marks[i].text, text) == 0)
			found = &row->marks[i];
	}
	if (!found) {
		row->marks = trace_grow(row->marks, row->mark_count, sizeof(*row->marks));
		found = &row->marks[row->mark_count++];
		*found = (struct mark){.text = text};
	}
	psn_list_add(&found->psns, psn);
}

static const char *fault_of(const struct record *record)
{
	return record ? record->fault : NULL;
}

static void mark_all(const struct conversation *conversation, struct row *row,
		     const struct transmission *transmission)
{
	const char *sent = fault_of(transmission->sent);
	const char *received = fault_of(transmission->received);
	bool dropped = (sent && strstr(sent, "dropped by")) ||
		       (received && strstr(received, "dropped by"));

	if (sent)
		mark(row, sent, transmission->psn);
	if (received)
		mark(row, received, transmission->psn);
	if (transmission->lost && !dropped)
		mark(row, "lost", transmission->psn);
	if (transmission->arrivals > 1)
		mark(row, transmission->arrivals > 2 ? "arrived several times" : "arrived twice",
		     transmission->psn);
	if (transmission->overtaken)
		mark(row, "arrived late", transmission->psn);
	if (!transmission->sent && conversation->ends[transmission->end].captured)
		mark(row, "not in the sender's capture", transmission->psn);
}

/* --- Text --------------------------------------------------------------------------------- */

static char *what_of(const struct trace *trace, const struct row *row)
{
	const struct record *record = row->transmission->record;
	const struct message *message = row->message;

	switch (row->kind) {
	case ROW_CM:
		return trace_text("CM %s%s", trace_cm_name(record->cm->attribute),
				  row->repeated ? " again" : "");
	case ROW_CNP:
		return trace_text("CNP");
	case ROW_ACK:
		return trace_text("ACK");
	case ROW_NAK:
		return trace_text("NAK %s", trace_nak_name(record->syndrome));
	case ROW_RNR_NAK:
		return trace_text("RNR NAK");
	default:
		break;
	}
	if (!record->op)
		return trace_text("opcode 0x%02x", record->opcode);
	if (trace->unfolded)
		return trace_text("%s", record->op->name);
	if (is_response(row->transmission))
		return trace_text("%s%s", row->kind == ROW_RESENT ? "resent " : "",
				  record->op->flags & OPCODE_READ ? "READ response"
								  : "atomic response");
	if (row->kind == ROW_RESENT && !message)
		return trace_text("resent");
	if (row->kind == ROW_RESENT)
		return trace_text("resent %s", trace_message_name(message->flags, message->opcode));
	if (row->messages > 1)
		return trace_text("%u x %s", row->messages,
				  trace_message_name(message->flags, message->opcode));
	return trace_text("%s", trace_message_name(message->flags, message->opcode));
}

/* One note behind another. */
static void note(char **notes, char *text)
{
	char *before = *notes;

	*notes = before ? trace_text("%s; %s", before, text) : trace_text("%s", text);
	free(before);
	free(text);
}

static void note_cm(const struct cm *cm, char **notes)
{
	if (cm->service)
		note(notes, trace_text("%s", cm->service));
	if (cm->qpn)
		note(notes, trace_text("QP 0x%x, from PSN %u", cm->qpn, cm->psn));
	if (cm->reason)
		note(notes, trace_text("reason %u", cm->reason));
}

/* The packet that an RNR NAK asked to be sent again later. */
static const struct row *row_after(const struct conversation *conversation, size_t index)
{
	for (size_t i = index + 1; i < conversation->row_count; i++) {
		if (conversation->rows[i]->cause == conversation->rows[index])
			return conversation->rows[i];
	}
	return NULL;
}

static void note_rnr_nak(const struct conversation *conversation, size_t index, char **notes)
{
	const struct row *row = conversation->rows[index], *again = row_after(conversation, index);

	note(notes,
	     trace_text("not before %s",
			trace_duration(aeth_rnr_delay(row->transmission->record->syndrome))));
	if (again)
		note(notes,
		     trace_text("sent again after %s", trace_duration(again->time - row->time)));
}

static void note_resent(const struct row *row, char **notes)
{
	if (row->cause)
		note(notes, trace_text("after %s", row->cause->what));
	else if (row->silence >= SILENCE)
		note(notes, trace_text("after %s of silence", trace_duration(row->silence)));
}

static void note_message(const struct row *row, char **notes)
{
	const struct message *message = row->message;

	if (row->messages > 1)
		note(notes, trace_text("%s each, in %s", trace_size(message->bytes),
				       trace_duration(row->until - row->time)));
	else if (message->acked != TIME_UNKNOWN)
		note(notes, trace_text("acknowledged after %s",
				       trace_duration(message->acked - message->begin)));
}

static void note_packet(const struct row *row, char **notes)
{
	const struct transmission *transmission = row->transmission;

	if (transmission->resent)
		note(notes, trace_text("resent"));
	if (transmission->record->rkey)
		note(notes, trace_text("address 0x%llx, rkey 0x%x",
				       (unsigned long long)transmission->record->va,
				       transmission->record->rkey));
	if (transmission->record->ack_request)
		note(notes, trace_text("asks for an acknowledge"));
	/* Two clocks drift apart: then it may seem to arrive before it is sent. */
	if (transmission->sent && transmission->received &&
	    transmission->received->time >= transmission->sent->time)
		note(notes,
		     trace_text("arrived after %s", trace_duration(transmission->received->time -
								   transmission->sent->time)));
}

static void write_text(const struct trace *trace, struct conversation *conversation, size_t index)
{
	struct row *row = conversation->rows[index];
	const struct record *record = row->transmission->record;

	row->what = what_of(trace, row);
	if (record->cm || row->kind == ROW_CNP)
		row->psn_text = trace_text("%s", "");
	else if (row->kind == ROW_ACK || row->messages > 1 || row->psns.count > RANGES_MOST)
		row->psn_text = psn_list_span(&row->psns);
	else
		row->psn_text = psn_list_text(&row->psns);
	for (unsigned int i = 0; i < row->mark_count; i++)
		note(&row->notes,
		     row->packets == 1 ? trace_text("%s", row->marks[i].text)
				       : trace_text("PSN %s %s", psn_list_text(&row->marks[i].psns),
						    row->marks[i].text));
	if (row->kind == ROW_CM)
		note_cm(record->cm, &row->notes);
	if (row->kind == ROW_RNR_NAK)
		note_rnr_nak(conversation, index, &row->notes);
	if (trace->unfolded)
		note_packet(row, &row->notes);
	else if (row->kind == ROW_RESENT)
		note_resent(row, &row->notes);
	else if (row->kind == ROW_MESSAGE)
		note_message(row, &row->notes);
	if (!row->notes)
		row->notes = trace_text("%s", "");
}

/* ------------------------------------------------------------------------------------------ */

void trace_make_rows(const struct trace *trace, struct conversation *conversation)
{
	struct builder builder = {.trace = trace, .conversation = conversation};

	for (size_t i = 0; i < conversation->transmission_count; i++) {
		struct transmission *transmission = &conversation->transmissions[i];
		enum row_kind kind = kind_of(transmission);
		struct row *row = row_of(&builder, kind, transmission);

		if (!row)
			row = row_add(&builder, kind, transmission);
		follow(&builder, row, transmission);
		row->until = transmission->time;
		row->packets += !transmission->copied || trace->unfolded;
		row->lost += transmission->lost;
		if (!transmission->copied && !transmission->record->cm)
			row->bytes += transmission->record->payload;
		psn_list_add(&row->psns, transmission->psn);
		if (row->message != transmission->message)
			row->message = NULL;
		mark_all(conversation, row, transmission);
		builder.latest = transmission->time;
	}
	for (size_t i = 0; i < conversation->row_count; i++) {
		struct row *row = conversation->rows[i];

		if (row->kind == ROW_MESSAGE && !trace->unfolded) {
			row->bytes = row->message->bytes;
			row->resent = row->message->resent;
		}
	}
	if (!trace->unfolded)
		trace_fold(conversation);
	for (size_t i = 0; i < conversation->row_count; i++)
		write_text(trace, conversation, i);
}
