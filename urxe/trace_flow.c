/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records become flows, and flows conversations. A packet of RC, UC or XRC names the QP that it is
 * for and not the one that it is from, so what belongs together is found: the connection manager
 * said so; or the one flow acknowledges PSNs of the other; or there are no others.
 */
#include <stdlib.h>
#include <string.h>

#include "net/wire/mad.h"
#include "urxe/trace.h"

/* --- Flows -------------------------------------------------------------------------- */

static uint8_t transport_of(const struct record *record)
{
	return record->opcode & WIRE_TRANSPORT_MASK;
}

static bool belongs(const struct flow *flow, const struct record *record)
{
	uint8_t transport = transport_of(record);

	/* Congestion notifications have no transport of their own. */
	return flow->source == record->source && flow->destination == record->destination &&
	       flow->qpn == record->qpn &&
	       (flow->transport != WIRE_UD || flow->source_qpn == record->source_qpn) &&
	       (flow->transport == transport || transport == WIRE_CNP);
}

static struct flow *flow_of(struct trace *trace, const struct record *record)
{
	struct flow *flow;

	/* Of many flows, the next packet is mostly of a recent one. */
	for (unsigned int i = trace->flow_count; i-- > 0;) {
		if (belongs(trace->flows[i], record))
			return trace->flows[i];
	}
	flow = trace_allocate(sizeof(*flow));
	*flow = (struct flow){.source = record->source,
			      .destination = record->destination,
			      .qpn = record->qpn,
			      .source_qpn = record->source_qpn,
			      .transport = transport_of(record),
			      .first = record->time,
			      .index = trace->flow_count};
	trace->flows = trace_grow(trace->flows, trace->flow_count, sizeof(flow));
	return trace->flows[trace->flow_count++] = flow;
}

static int compare_records(const void *a, const void *b)
{
	const struct record *one = a, *other = b;

	if (one->time != other->time)
		return one->time < other->time ? -1 : 1;
	if (one->file != other->file)
		return one->file < other->file ? -1 : 1;
	return one->number < other->number ? -1 : one->number > other->number;
}

static void find_flows(struct trace *trace)
{
	struct flow *latest = NULL;

	for (size_t i = 0; i < trace->record_count; i++) {
		struct record *record = &trace->records[i];

		if (!latest || !belongs(latest, record))
			latest = flow_of(trace, record);
		record->flow = latest;
	}
}

/* --- What the connection manager says -------------------------------------------------- */

/* A connection that is being made: the ends' addresses, communication ids and QPs. */
struct connection {
	struct {
		unsigned int address;
		uint32_t id, qpn;
	} ends[2];	    /* the one that asks, the one that answers */
	unsigned int first; /* the end that is the conversation's first one */
	struct conversation *conversation;
	struct record **records;
	unsigned int record_count;
};

struct connections {
	struct connection **all;
	unsigned int count;
};

static bool end_is(const struct connection *connection, unsigned int end, unsigned int address,
		   uint32_t id)
{
	return connection->ends[end].address == address && connection->ends[end].id == id && id;
}

/* The connection that a message is about, or NULL. */
static struct connection *connection_of(const struct connections *connections,
					const struct record *record)
{
	const struct cm *cm = record->cm;

	for (unsigned int i = connections->count; i-- > 0;) {
		struct connection *connection = connections->all[i];

		for (unsigned int end = 0; end < 2; end++) {
			if (end_is(connection, end, record->source, cm->local_id) ||
			    end_is(connection, end, record->destination, cm->remote_id))
				return connection;
		}
	}
	return NULL;
}

/* By the ids, as both ends may have one address. */
static unsigned int connection_end(const struct connection *connection, const struct record *record)
{
	return !end_is(connection, 0, record->source, record->cm->local_id) &&
	       !end_is(connection, 1, record->destination, record->cm->remote_id);
}

static struct connection *connection_add(struct connections *connections,
					 const struct record *record)
{
	struct connection *connection = trace_allocate(sizeof(*connection));

	*connection = (struct connection){
		.ends = {{record->source, record->cm->local_id, record->cm->qpn},
			 {record->destination, 0, 0}}};
	connections->all = trace_grow(connections->all, connections->count, sizeof(connection));
	return connections->all[connections->count++] = connection;
}

static struct connections find_connections(const struct trace *trace)
{
	struct connections connections = {};

	for (size_t i = 0; i < trace->record_count; i++) {
		struct record *record = &trace->records[i];
		struct connection *connection;

		if (!record->cm)
			continue;
		connection = connection_of(&connections, record);
		if (!connection && record->cm->attribute == CM_REQ)
			connection = connection_add(&connections, record);
		if (!connection)
			continue;
		if (record->cm->attribute == CM_REP) {
			connection->ends[1].id = record->cm->local_id;
			connection->ends[1].qpn = record->cm->qpn;
		}
		connection->records =
			trace_grow(connection->records, connection->record_count, sizeof(record));
		connection->records[connection->record_count++] = record;
	}
	return connections;
}

/* --- Conversations ---------------------------------------------------------------------- */

static struct conversation *conversation_add(struct trace *trace, struct flow *flow)
{
	struct conversation *conversation = trace_allocate(sizeof(*conversation));

	*conversation =
		(struct conversation){.transport = flow->transport,
				      .ends = {{.address = flow->source, .qpn = flow->source_qpn},
					       {.address = flow->destination, .qpn = flow->qpn}},
				      .flows = {flow}};
	flow->conversation = conversation;
	trace->conversations =
		trace_grow(trace->conversations, trace->conversation_count, sizeof(conversation));
	return trace->conversations[trace->conversation_count++] = conversation;
}

static void join(struct conversation *conversation, struct flow *flow)
{
	flow->end = 1;
	flow->conversation = conversation;
	conversation->flows[1] = flow;
	conversation->ends[0].qpn = flow->qpn;
}

/* Flow to flow, between the same addresses, of one transport, and neither has another yet. */
static bool may_answer(const struct flow *flow, const struct flow *answer)
{
	return flow != answer && flow->source == answer->destination &&
	       flow->destination == answer->source && flow->transport == answer->transport;
}

static struct flow *flow_find(const struct trace *trace, unsigned int source,
			      unsigned int destination, uint32_t qpn)
{
	for (unsigned int i = 0; i < trace->flow_count; i++) {
		struct flow *flow = trace->flows[i];

		if (flow->source == source && flow->destination == destination &&
		    flow->qpn == qpn && flow->transport != WIRE_UD)
			return flow;
	}
	return NULL;
}

/* The flows that the connection manager has connected. */
static void join_connected(struct trace *trace, const struct connections *connections)
{
	for (unsigned int i = 0; i < connections->count; i++) {
		struct connection *c = connections->all[i];
		struct flow *flows[2];
		unsigned int first;

		for (unsigned int end = 0; end < 2; end++)
			flows[end] = c->ends[!end].qpn
					     ? flow_find(trace, c->ends[end].address,
							 c->ends[!end].address, c->ends[!end].qpn)
					     : NULL;
		if (!flows[0] && !flows[1])
			continue;
		first = !flows[0] || (flows[1] && flows[1]->first < flows[0]->first);
		if (flows[first]->conversation || (flows[!first] && flows[!first]->conversation))
			continue; /* a QP that was connected once more */
		c->first = first;
		c->conversation = conversation_add(trace, flows[first]);
		c->conversation->ends[0].qpn = c->ends[first].qpn;
		if (flows[!first])
			join(c->conversation, flows[!first]);
	}
}

/* UD: both QPs are in each packet. */
static bool answers_datagrams(const struct flow *flow, const struct flow *answer)
{
	return flow->qpn == answer->source_qpn && flow->source_qpn == answer->qpn;
}

#define SAMPLE 16 /* answers of a flow that are compared with another's requests */

/* The PSNs of a flow's requests, in order, and of its first answers. */
struct psns {
	uint32_t *requests, answers[SAMPLE];
	size_t request_count, answer_count;
};

static int compare_psns(const void *a, const void *b)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return one < other ? -1 : one > other;
}

static void find_psns(const struct trace *trace, struct psns *psns)
{
	for (size_t i = 0; i < trace->record_count; i++) {
		const struct record *record = &trace->records[i];
		struct psns *of = &psns[record->flow->index];

		if (!record->op || transport_of(record) == WIRE_CNP)
			continue;
		if (record->op->flags & OPCODE_RESPONSE) {
			if (of->answer_count < SAMPLE)
				of->answers[of->answer_count++] = record->psn;
			continue;
		}
		of->requests = trace_grow(of->requests, of->request_count, sizeof(uint32_t));
		of->requests[of->request_count++] = record->psn;
	}
	for (unsigned int i = 0; i < trace->flow_count; i++) {
		if (psns[i].request_count)
			qsort(psns[i].requests, psns[i].request_count, sizeof(uint32_t),
			      compare_psns);
	}
}

/* How many answers of one flow are to requests of the other. */
static unsigned int matches(const struct psns *requests, const struct psns *answers)
{
	unsigned int count = 0;

	for (size_t i = 0; requests->request_count && i < answers->answer_count; i++)
		count += bsearch(&answers->answers[i], requests->requests, requests->request_count,
				 sizeof(uint32_t), compare_psns) != NULL;
	return count;
}

/* The flow that answers flow @index best, or NULL. */
static struct flow *best_answer(const struct trace *trace, const struct psns *psns,
				unsigned int index)
{
	const struct flow *flow = trace->flows[index];
	unsigned int most = 0, possible = 0, last = 0, best = 0;

	for (unsigned int i = 0; i < trace->flow_count; i++) {
		unsigned int count;

		if (!may_answer(flow, trace->flows[i]) || trace->flows[i]->conversation)
			continue;
		if (flow->transport == WIRE_UD && !answers_datagrams(flow, trace->flows[i]))
			continue;
		possible++;
		last = i;
		count = matches(&psns[index], &psns[i]) + matches(&psns[i], &psns[index]);
		if (count > most) {
			most = count;
			best = i;
		}
	}
	if (most)
		return trace->flows[best];
	return possible == 1 ? trace->flows[last] : NULL;
}

static void find_conversations(struct trace *trace)
{
	struct psns *psns = trace_allocate((trace->flow_count + 1) * sizeof(*psns));

	memset(psns, 0, (trace->flow_count + 1) * sizeof(*psns));
	find_psns(trace, psns);
	for (unsigned int i = 0; i < trace->flow_count; i++) {
		struct conversation *conversation;
		struct flow *answer;

		if (trace->flows[i]->conversation)
			continue;
		conversation = conversation_add(trace, trace->flows[i]);
		answer = best_answer(trace, psns, i);
		if (answer)
			join(conversation, answer);
	}
}

/* --- What each conversation consists of ------------------------------------------------- */

static void conversation_add_record(struct conversation *conversation, struct record *record)
{
	conversation->records =
		trace_grow(conversation->records, conversation->record_count, sizeof(record));
	conversation->records[conversation->record_count++] = record;
}

static int compare_record_pointers(const void *a, const void *b)
{
	return compare_records(*(struct record *const *)a, *(struct record *const *)b);
}

static void distribute_records(struct trace *trace, const struct connections *connections)
{
	for (size_t i = 0; i < trace->record_count; i++)
		conversation_add_record(trace->records[i].flow->conversation, &trace->records[i]);
	for (unsigned int i = 0; i < connections->count; i++) {
		const struct connection *connection = connections->all[i];

		for (unsigned int k = 0; k < connection->record_count; k++) {
			struct record *record = connection->records[k];

			record->cm->end = connection_end(connection, record) ^ connection->first;
			if (!connection->conversation) /* it was rejected, perhaps */
				continue;
			conversation_add_record(connection->conversation, record);
			record->flow->conversation->lent++;
		}
	}
	for (unsigned int i = 0; i < trace->conversation_count; i++) {
		struct conversation *conversation = trace->conversations[i];

		qsort(conversation->records, conversation->record_count, sizeof(struct record *),
		      compare_record_pointers);
	}
}

static int compare_conversations(const void *a, const void *b)
{
	const struct conversation *one = *(struct conversation *const *)a;
	const struct conversation *other = *(struct conversation *const *)b;

	return compare_records(one->records[0], other->records[0]);
}

void trace_find_conversations(struct trace *trace)
{
	struct connections connections;

	if (trace->record_count)
		qsort(trace->records, trace->record_count, sizeof(struct record), compare_records);
	trace->start = trace->record_count ? trace->records[0].time : 0;
	find_flows(trace);
	connections = find_connections(trace);
	join_connected(trace, &connections);
	find_conversations(trace);
	distribute_records(trace, &connections);
	if (trace->conversation_count)
		qsort(trace->conversations, trace->conversation_count,
		      sizeof(struct conversation *), compare_conversations);
}
