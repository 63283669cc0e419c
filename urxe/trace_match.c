/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of both ends become transmissions. First it is found out which file is which end's, where
 * the files don't say: what travels takes time, so a packet is later in the capture of the end
 * that it goes to; and if the clocks of two machines differ, the packets of one direction seem to
 * take longer by what those of the other seem to save. Then records of one packet are paired by
 * flow, PSN, opcode and ICRC.
 */
#include <stdlib.h>
#include <string.h>

#include "urxe/trace.h"

/* --- The order of equal packets -------------------------------------------------------- */

static int compare_numbers(uint64_t one, uint64_t other)
{
	return one < other ? -1 : one > other;
}

/* Those of one packet together, by time. */
static int compare_packets(const void *a, const void *b)
{
	const struct record *one = *(struct record *const *)a, *other = *(struct record *const *)b;
	int order = compare_numbers(one->flow->index, other->flow->index);

	order = order ? order : compare_numbers(one->psn, other->psn);
	order = order ? order : compare_numbers(one->opcode, other->opcode);
	order = order ? order : compare_numbers(one->crc, other->crc);
	order = order ? order : compare_numbers(one->time, other->time);
	return order ? order : compare_numbers(one->number, other->number);
}

static bool same_packet(const struct record *one, const struct record *other)
{
	return one->flow == other->flow && one->psn == other->psn && one->opcode == other->opcode &&
	       one->crc == other->crc;
}

/* A copy of the records of @conversation in that order. */
static struct record **by_packet(const struct conversation *conversation)
{
	size_t size = conversation->record_count * sizeof(struct record *);
	struct record **records = trace_allocate(size);

	memcpy(records, conversation->records, size);
	qsort(records, conversation->record_count, sizeof(*records), compare_packets);
	return records;
}

/* --- Which end a file is of ------------------------------------------------------------ */

enum { END_UNKNOWN = -1, END_BOTH = 2, NOT_THERE = -2 };

/* Of the files that have records of a conversation. */
struct places {
	int *ends; /* by file: 0, 1, or one of the above */
	unsigned int count;
};

/* Of what the connection managers of one address send each other there is one flow. */
static unsigned int end_of(const struct conversation *conversation, const struct record *record)
{
	const struct flow *flow = record->flow;

	if (flow->conversation != conversation || (record->cm && flow->source == flow->destination))
		return record->cm->end;
	return flow->end;
}

static void find_places(const struct trace *trace, const struct conversation *conversation,
			struct places *places)
{
	places->count = trace->file_count;
	places->ends = trace_allocate(places->count * sizeof(int));
	for (unsigned int i = 0; i < places->count; i++)
		places->ends[i] = NOT_THERE;
	for (size_t i = 0; i < conversation->record_count; i++) {
		const struct record *record = conversation->records[i];
		int *end = &places->ends[record->file], here = END_UNKNOWN;

		if (record->side != SIDE_UNKNOWN)
			here = end_of(conversation, record) ^ (record->side == SIDE_RECEIVER);
		*end = *end == NOT_THERE || *end == here ? here : END_BOTH;
	}
}

/* The only file with @end, which isn't @other; or -1. */
static int only(const struct places *places, int end, int other)
{
	int found = -1;

	for (unsigned int i = 0; i < places->count; i++) {
		if (places->ends[i] != end || (int)i == other)
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/*
 * The least time by which what end @end sends is later in file @g than in file @f. False when they
 * have no packet in common that each has once.
 */
static bool least_delay(const struct conversation *conversation, unsigned int end, unsigned int f,
			unsigned int g, int64_t *delay)
{
	struct record **records = by_packet(conversation);
	bool found = false;

	for (size_t i = 0, next; i < conversation->record_count; i = next) {
		const struct record *in[2] = {};
		unsigned int count = 0;
		int64_t this;

		for (next = i;
		     next < conversation->record_count && same_packet(records[i], records[next]);
		     next++) {
			in[0] = records[next]->file == f ? records[next] : in[0];
			in[1] = records[next]->file == g ? records[next] : in[1];
			count++;
		}
		if (count != 2 || !in[0] || !in[1] || end_of(conversation, in[0]) != end)
			continue;
		this = (int64_t)(in[1]->time - in[0]->time);
		*delay = found && *delay < this ? *delay : this;
		found = true;
	}
	free(records);
	return found;
}

/* Two files that don't say: which one is of end 0? */
static void tell_apart(const struct conversation *conversation, struct places *places)
{
	int f = -1, g = -1;
	int64_t there, back;
	bool has_there, has_back, f_first;

	for (unsigned int i = 0; i < places->count; i++) {
		if (places->ends[i] != END_UNKNOWN)
			continue;
		if (g >= 0)
			return;
		g = f >= 0 ? (int)i : -1;
		f = f >= 0 ? f : (int)i;
	}
	if (g < 0)
		return;
	has_there = least_delay(conversation, 0, f, g, &there);
	has_back = least_delay(conversation, 1, f, g, &back);
	if (!has_there && !has_back)
		return;
	if (has_there && has_back)
		f_first = there > back;
	else
		f_first = has_there ? there > 0 : back < 0;
	places->ends[f] = f_first ? 0 : 1;
	places->ends[g] = f_first ? 1 : 0;
}

/* The file of one end is known: the only other one is the other end's. */
static void complete(struct places *places)
{
	int unknown = only(places, END_UNKNOWN, -1);

	for (int end = 0; unknown >= 0 && end < 2; end++) {
		if (only(places, end, -1) >= 0 && only(places, !end, -1) < 0)
			places->ends[unknown] = !end;
	}
}

/*
 * Two clocks: what goes there seems to take @there, what comes back @back, and one of them is too
 * long by what the other is too short. As long as neither arrives before it is sent, they may be
 * one.
 */
static void compare_clocks(struct trace *trace, const struct conversation *conversation,
			   const struct places *places)
{
	int f = only(places, 0, -1), g = only(places, 1, -1);
	int64_t there, back;

	if (f < 0 || g < 0 || trace->files[f].shift || trace->files[g].shift ||
	    !least_delay(conversation, 0, f, g, &there))
		return;
	if (!least_delay(conversation, 1, g, f, &back))
		back = there < 0 ? -there : 0;
	if (there < 0 || back < 0)
		trace->files[g].shift = (back - there) / 2;
}

static void find_sides(struct trace *trace, struct conversation *conversation)
{
	struct places places;

	find_places(trace, conversation, &places);
	complete(&places);
	tell_apart(conversation, &places);
	for (size_t i = 0; i < conversation->record_count; i++) {
		struct record *record = conversation->records[i];
		int place = places.ends[record->file];

		if (record->side == SIDE_UNKNOWN && (place == 0 || place == 1))
			record->side = (int)end_of(conversation, record) == place ? SIDE_SENDER
										  : SIDE_RECEIVER;
	}
	compare_clocks(trace, conversation, &places);
	free(places.ends);
}

/* --- Pairs ---------------------------------------------------------------------------- */

/* All records of one packet: by the side that they are of, by time. */
struct group {
	const struct record **sent, **received;
	size_t sent_count, received_count;
};

static struct transmission *add(struct conversation *conversation, const struct record *sent,
				const struct record *received)
{
	const struct record *record = sent ? sent : received;
	struct transmission *transmission;

	conversation->transmissions =
		trace_grow(conversation->transmissions, conversation->transmission_count,
			   sizeof(*conversation->transmissions));
	transmission = &conversation->transmissions[conversation->transmission_count++];
	*transmission = (struct transmission){.sent = sent,
					      .received = received,
					      .record = record,
					      .time = record->time,
					      .end = end_of(conversation, record),
					      .arrivals = received != NULL};
	return transmission;
}

/* No more arrived than was sent: each is of the latest sending before it. */
static void pair_some(struct conversation *conversation, const struct group *group)
{
	size_t sending = group->sent_count;

	for (size_t left = group->received_count; left > 0; left--) {
		const struct record *received = group->received[left - 1];

		while (sending > left && group->sent[sending - 1]->time > received->time)
			add(conversation, group->sent[--sending], NULL);
		add(conversation, group->sent[--sending], received);
	}
	while (sending > 0)
		add(conversation, group->sent[--sending], NULL);
}

/* More arrived than was sent: each sending has what came before the next one. */
static void pair_duplicates(struct conversation *conversation, const struct group *group)
{
	size_t next = 0;

	for (size_t i = 0; i < group->sent_count; i++) {
		size_t later = group->sent_count - i - 1;
		struct transmission *transmission =
			add(conversation, group->sent[i], group->received[next++]);

		while (group->received_count - next > later &&
		       (!later || group->received[next]->time < group->sent[i + 1]->time)) {
			transmission->arrivals++;
			next++;
		}
	}
}

static void pair(struct conversation *conversation, const struct group *group)
{
	if (!group->sent_count) {
		for (size_t i = 0; i < group->received_count; i++)
			add(conversation, NULL, group->received[i]);
	} else if (group->received_count <= group->sent_count) {
		pair_some(conversation, group);
	} else {
		pair_duplicates(conversation, group);
	}
}

static void pair_all(struct conversation *conversation)
{
	struct record **records = by_packet(conversation);
	size_t count = conversation->record_count;
	struct group group = {.sent = trace_allocate(count * sizeof(void *)),
			      .received = trace_allocate(count * sizeof(void *))};

	for (size_t i = 0, next; i < count; i = next) {
		group.sent_count = group.received_count = 0;
		for (next = i; next < count && same_packet(records[i], records[next]); next++) {
			if (records[next]->side == SIDE_RECEIVER)
				group.received[group.received_count++] = records[next];
			else
				group.sent[group.sent_count++] = records[next];
		}
		pair(conversation, &group);
	}
	free(group.sent);
	free(group.received);
	free(records);
}

/* --- Lost, late ----------------------------------------------------------------------- */

static bool was_dropped(const struct record *record)
{
	return record && record->fault && strstr(record->fault, "dropped by");
}

static void find_losses(struct conversation *conversation)
{
	for (size_t i = 0; i < conversation->record_count; i++) {
		const struct record *record = conversation->records[i];

		if (record->side != SIDE_UNKNOWN)
			conversation
				->ends[end_of(conversation, record) ^
				       (record->side == SIDE_RECEIVER)]
				.captured = true;
	}
	for (size_t i = 0; i < conversation->transmission_count; i++) {
		struct transmission *transmission = &conversation->transmissions[i];

		transmission->lost = was_dropped(transmission->sent) ||
				     was_dropped(transmission->received) ||
				     (!transmission->received &&
				      conversation->ends[!transmission->end].captured);
	}
}

static int compare_sent(const void *a, const void *b)
{
	const struct transmission *one = a, *other = b;
	int order = compare_numbers(one->time, other->time);

	order = order ? order : compare_numbers(one->record->file, other->record->file);
	return order ? order : compare_numbers(one->record->number, other->record->number);
}

static int compare_received(const void *a, const void *b)
{
	const struct transmission *one = *(struct transmission *const *)a;
	const struct transmission *other = *(struct transmission *const *)b;
	int order = compare_numbers(one->received->time, other->received->time);

	return order ? order : compare_numbers(one->received->number, other->received->number);
}

/* @conversation->transmissions are in the order in which they were sent. */
static void find_overtaken(struct conversation *conversation, unsigned int end)
{
	struct transmission **arrived =
		trace_allocate(conversation->transmission_count * sizeof(*arrived));
	const struct transmission *latest = NULL;
	size_t count = 0;

	for (size_t i = 0; i < conversation->transmission_count; i++) {
		struct transmission *transmission = &conversation->transmissions[i];

		if (transmission->end == end && transmission->sent && transmission->received)
			arrived[count++] = transmission;
	}
	qsort(arrived, count, sizeof(*arrived), compare_received);
	for (size_t i = 0; i < count; i++) {
		arrived[i]->overtaken = arrived[i] < latest;
		latest = arrived[i] < latest ? latest : arrived[i];
	}
	free(arrived);
}

static int compare_times(const void *a, const void *b)
{
	const struct record *one = *(struct record *const *)a, *other = *(struct record *const *)b;
	int order = compare_numbers(one->time, other->time);

	return order ? order : compare_numbers(one->number, other->number);
}

void trace_match(struct trace *trace)
{
	bool shifted = false;

	for (unsigned int i = 0; i < trace->conversation_count; i++)
		find_sides(trace, trace->conversations[i]);
	for (size_t i = 0; i < trace->record_count; i++) {
		trace->records[i].time += trace->files[trace->records[i].file].shift;
		shifted |= trace->files[trace->records[i].file].shift != 0;
		if (i == 0 || trace->records[i].time < trace->start)
			trace->start = trace->records[i].time;
	}
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		struct conversation *conversation = trace->conversations[i];

		if (shifted)
			qsort(conversation->records, conversation->record_count,
			      sizeof(struct record *), compare_times);
		pair_all(conversation);
		qsort(conversation->transmissions, conversation->transmission_count,
		      sizeof(struct transmission), compare_sent);
		find_losses(conversation);
		find_overtaken(conversation, 0);
		find_overtaken(conversation, 1);
	}
}
