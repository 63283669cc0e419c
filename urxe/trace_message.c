/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmissions become messages: packets of consecutive PSNs from a FIRST to a LAST, or an ONLY. A
 * PSN that was there before is sent again, whatever its packet: a READ that is resumed asks for the
 * rest. Requests and the responses to them share a space of PSNs, the requester's.
 */
#include "urxe/command.h"
#include "urxe/trace.h"

#define uthash_nonfatal_oom(page) die("out of memory")
#include <uthash.h>

/* --- PSNs ----------------------------------------------------------------------------- */

#define PSN_SPACE (1ull << PSN_BITS)

/* The number that is @psn modulo 2^24 and next to @near; 0: none is known. */
static uint64_t unwrap(uint32_t psn, uint64_t near)
{
	return near ? near + psn_distance(psn, near & PSN_MASK) : PSN_SPACE + psn;
}

/* PSNs next to each other. A forged one may be far from all others. */
#define PAGE_PSNS 64

struct psn_page {
	uint64_t number;
	struct message *messages[PAGE_PSNS];
	UT_hash_handle hh;
};

static struct psn_page *psn_page_find(const struct psn_map *map, uint64_t number)
{
	struct psn_page *page;

	HASH_FIND(hh, map->pages, &number, sizeof(number), page);
	return page;
}

static struct psn_page *psn_page_add(struct psn_map *map, uint64_t number)
{
	struct psn_page *page = trace_allocate(sizeof(*page));

	*page = (struct psn_page){.number = number};
	HASH_ADD(hh, map->pages, number, sizeof(page->number), page);
	return page;
}

static struct message *psn_map_find(const struct psn_map *map, uint64_t psn)
{
	const struct psn_page *page = psn_page_find(map, psn / PAGE_PSNS);

	return page ? page->messages[psn % PAGE_PSNS] : NULL;
}

static void psn_map_set(struct psn_map *map, uint64_t psn, struct message *message)
{
	struct psn_page *page = psn_page_find(map, psn / PAGE_PSNS);

	if (!page)
		page = psn_page_add(map, psn / PAGE_PSNS);
	page->messages[psn % PAGE_PSNS] = message;
}

/* --- Requests -------------------------------------------------------------------------- */

static struct message *message_add(struct flow *flow, const struct transmission *transmission)
{
	struct message *message = trace_allocate(sizeof(*message));

	*message = (struct message){.first = transmission->psn,
				    .last = transmission->psn,
				    .begin = transmission->time,
				    .acked = TIME_UNKNOWN};
	flow->messages = trace_grow(flow->messages, flow->message_count, sizeof(message));
	return flow->messages[flow->message_count++] = message;
}

/* Packets of a message that may be missing in a row. A PSN that is further off is a forged one. */
#define MISSING_MOST (PSN_SPACE / 16)

/* The message that lacks its end and that @psn may be of. */
static struct message *open_message(const struct flow *flow, uint64_t psn)
{
	struct message *before = psn_map_find(&flow->requests, psn - 1);

	if (before)
		return before->complete ? NULL : before;
	/* Packets between are missing here: those of the latest message, it may be. */
	for (unsigned int i = flow->message_count; i-- > 0;) {
		struct message *message = flow->messages[i];

		if (message->first < psn)
			return message->complete || psn - message->last > MISSING_MOST ? NULL
										       : message;
	}
	return NULL;
}

/* How many PSNs a READ of @length bytes takes: one a response. A forged length makes no sense. */
static uint64_t responses_to(uint32_t length, uint32_t mtu)
{
	uint64_t count = mtu ? ((uint64_t)length + mtu - 1) / mtu : 1;

	return count == 0 || count > PSN_SPACE / 2 ? 1 : count;
}

static void extend_to(struct flow *flow, struct message *message, uint64_t psn)
{
	for (uint64_t i = psn < message->first ? psn : message->last;
	     i <= psn || i < message->first; i++)
		psn_map_set(&flow->requests, i, message);
	message->first = psn < message->first ? psn : message->first;
	message->last = psn > message->last ? psn : message->last;
}

/* A READ request takes the PSNs of the responses to it, too. */
static void note_sent(struct flow *flow, const struct message *message,
		      const struct transmission *transmission)
{
	uint64_t end = message->flags & OPCODE_READ ? message->last : transmission->psn;

	for (uint64_t psn = transmission->psn; psn <= end; psn++)
		psn_map_set(&flow->sent, psn, (struct message *)message);
}

static struct message *message_of(struct flow *flow, const struct transmission *transmission,
				  uint16_t flags, uint32_t mtu)
{
	const struct record *record = transmission->record;
	struct message *message = NULL;

	if (!(flags & OPCODE_FIRST))
		message = open_message(flow, transmission->psn);
	else if (!(flags & OPCODE_LAST)) {
		/* Overtaken by those behind it. */
		message = psn_map_find(&flow->requests, transmission->psn + 1);
		if (message && message->flags & OPCODE_FIRST)
			message = NULL;
	}
	if (!message)
		message = message_add(flow, transmission);
	extend_to(flow, message, transmission->psn);
	if (flags & OPCODE_READ)
		extend_to(flow, message,
			  transmission->psn + responses_to(record->dma_length, mtu) - 1);
	return message;
}

/* What headers say of the message that they begin or end. */
static void message_learn(struct message *message, const struct record *record)
{
	uint16_t flags = record->op ? record->op->flags : OPCODE_FIRST | OPCODE_LAST;

	message->flags |= flags;
	if (flags & OPCODE_FIRST)
		message->opcode = record->opcode;
	if (flags & OPCODE_LAST)
		message->complete = true;
	message->bytes += flags & OPCODE_READ ? record->dma_length : record->payload;
}

static bool was_copied(const struct record *record)
{
	return record->side != SIDE_RECEIVER && record->fault &&
	       strstr(record->fault, "duplicated by");
}

static void on_request(struct transmission *transmission, struct flow *flow, uint32_t mtu)
{
	const struct record *record = transmission->record;
	uint16_t flags = record->op ? record->op->flags : OPCODE_FIRST | OPCODE_LAST;
	struct message *message;

	transmission->psn = unwrap(record->psn, flow->highest);
	flow->highest = transmission->psn > flow->highest ? transmission->psn : flow->highest;
	message = psn_map_find(&flow->sent, transmission->psn);
	if (message) {
		transmission->copied = was_copied(record);
		transmission->resent = !transmission->copied;
		message->resent += transmission->resent;
	} else {
		message = psn_map_find(&flow->requests, transmission->psn);
		if (!message)
			message = message_of(flow, transmission, flags, mtu);
		message_learn(message, record);
		note_sent(flow, message, transmission);
		/* The next request's PSN is behind the last response's. */
		flow->highest = message->last > flow->highest ? message->last : flow->highest;
	}
	transmission->message = message;
}

/* --- Responses -------------------------------------------------------------------------- */

static bool is_positive(const struct record *record)
{
	return !record->op->aeth || (record->syndrome & AETH_TYPE_MASK) == AETH_ACK;
}

/* All requests up to @psn have been carried out: a NAK says so of what is before its own. */
static void acknowledge(struct flow *flow, uint64_t psn, uint64_t time)
{
	while (flow->acked_count < flow->message_count &&
	       flow->messages[flow->acked_count]->last <= psn) {
		struct message *message = flow->messages[flow->acked_count++];

		/* Two clocks drift apart: then that may seem to be before it was sent. */
		if (time >= message->begin)
			message->acked = time;
	}
}

/* @answers: the flow with the response; @asks: the one with the requests, or NULL. */
static void on_response(struct transmission *transmission, struct flow *answers, struct flow *asks)
{
	const struct record *record = transmission->record;
	bool carries = record->op->flags & (OPCODE_READ | OPCODE_ATOMIC);
	uint64_t time = transmission->received ? transmission->received->time : transmission->time;

	transmission->psn = unwrap(record->psn, asks ? asks->highest : 0);
	if (!asks)
		return;
	transmission->message = psn_map_find(&asks->requests, transmission->psn);
	if (carries && transmission->message) {
		transmission->resent = psn_map_find(&answers->responses, transmission->psn);
		transmission->copied = transmission->resent && was_copied(record);
		transmission->resent &= !transmission->copied;
		psn_map_set(&answers->responses, transmission->psn, transmission->message);
	}
	/* Of what wasn't sent it says nothing: the two ends don't agree on the PSN. */
	if (!transmission->lost && transmission->psn <= asks->highest)
		acknowledge(asks, is_positive(record) ? transmission->psn : transmission->psn - 1,
			    time);
}

/* --- All -------------------------------------------------------------------------------- */

static bool is_full(const struct record *record)
{
	return record->op && record->op->payload == PAYLOAD_FULL;
}

static uint32_t find_mtu(const struct conversation *conversation)
{
	for (size_t i = 0; i < conversation->transmission_count; i++) {
		if (is_full(conversation->transmissions[i].record))
			return conversation->transmissions[i].record->payload;
	}
	return 0;
}

static void add_totals(struct conversation *conversation)
{
	for (unsigned int end = 0; end < 2; end++) {
		struct flow *flow = conversation->flows[end];

		for (unsigned int i = 0; flow && i < flow->message_count; i++) {
			conversation->totals[end].messages++;
			conversation->totals[end].bytes += flow->messages[i]->bytes;
		}
	}
	for (size_t i = 0; i < conversation->transmission_count; i++) {
		const struct transmission *transmission = &conversation->transmissions[i];
		struct totals *totals = &conversation->totals[transmission->end];
		const struct record *record = transmission->record;

		if (record->cm && conversation->flows[0]->transport != WIRE_UD)
			continue;
		totals->packets++;
		totals->lost += transmission->lost;
		totals->resent += transmission->resent;
		totals->duplicates += transmission->copied;
		totals->duplicates += transmission->arrivals > 1 ? transmission->arrivals - 1 : 0;
		if (record->op && record->op->aeth && !is_positive(record)) {
			if ((record->syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
				conversation->totals[!transmission->end].rnr_naks++;
			else
				conversation->totals[!transmission->end].naks++;
		}
	}
}

/* The longest time without a packet while a request was outstanding. */
static void find_pauses(struct conversation *conversation)
{
	for (unsigned int end = 0; end < 2; end++) {
		const struct flow *flow = conversation->flows[end];
		unsigned int next = 0;
		uint64_t outstanding = 0, latest = 0;
		bool reliable = flow && (flow->transport == WIRE_RC || flow->transport == WIRE_XRC);

		if (!flow)
			continue;
		/* Until the last of the messages begun so far is acknowledged. */
		for (size_t i = 0; i < conversation->transmission_count; i++) {
			uint64_t time = conversation->transmissions[i].time;
			struct totals *totals = &conversation->totals[end];
			uint64_t end_of_pause = time < outstanding ? time : outstanding;

			if (latest && latest < end_of_pause &&
			    end_of_pause - latest > totals->pause)
				totals->pause = end_of_pause - latest;
			latest = time;
			for (; next < flow->message_count && flow->messages[next]->begin <= time;
			     next++) {
				if (reliable && flow->messages[next]->acked > outstanding)
					outstanding = flow->messages[next]->acked;
			}
		}
	}
}

void trace_find_messages(struct conversation *conversation)
{
	uint32_t mtu = find_mtu(conversation);

	for (size_t i = 0; i < conversation->transmission_count; i++) {
		struct transmission *transmission = &conversation->transmissions[i];
		const struct record *record = transmission->record;
		struct flow *flow = record->flow;

		transmission->psn = record->psn;
		if (flow->conversation != conversation || record->opcode == WIRE_OPCODE_CNP ||
		    record->cm)
			continue;
		if (record->op && record->op->flags & OPCODE_RESPONSE)
			on_response(transmission, flow, conversation->flows[!flow->end]);
		else
			on_request(transmission, flow, mtu);
	}
	add_totals(conversation);
	find_pauses(conversation);
}
