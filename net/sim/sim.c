/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network in virtual time. A packet that is sent is copied into an event; events wait in a heap
 * until the clock passes them and then move to the queue of the link that owns their destination
 * (sim_link.c). Everything random comes from one generator and ties in time are broken by order of
 * sending, so equal seeds and equal calls give equal runs.
 *
 * Called by the tests of the core. One thread; no locks.
 */
#include "net/sim/sim_internal.h"

#include <stdlib.h>
#include <utlist.h>

#include "net/random.h"
#include "net/wire/gid.h"
#include "net/wire/icrc.h"

/* How far behind a packet falls that overtakes none by jitter alone. */
#define REORDER_MIN_NS 1000

/* --- The heap of events: a binary one, earliest first ---------------------- */

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static bool heap_push(struct sim *sim, struct sim_event *event)
{
	size_t at = sim->count, parent;

	if (sim->count == sim->capacity) {
		size_t capacity = sim->capacity ? 2 * sim->capacity : 64;
		struct sim_event **heap = realloc(sim->heap, capacity * sizeof(*heap));

		if (!heap)
			return false;
		sim->heap = heap;
		sim->capacity = capacity;
	}
	sim->count++;
	for (; at > 0; at = parent) {
		parent = (at - 1) / 2;
		if (!event_before(event, sim->heap[parent]))
			break;
		sim->heap[at] = sim->heap[parent];
	}
	sim->heap[at] = event;
	return true;
}

static struct sim_event *heap_pop(struct sim *sim)
{
	struct sim_event *first = sim->heap[0], *last = sim->heap[--sim->count];
	size_t at = 0, child;

	for (; (child = 2 * at + 1) < sim->count; at = child) {
		if (child + 1 < sim->count && event_before(sim->heap[child + 1], sim->heap[child]))
			child++;
		if (!event_before(sim->heap[child], last))
			break;
		sim->heap[at] = sim->heap[child];
	}
	sim->heap[at] = last;
	return first;
}

/* --- Addresses and pairs ------------------------------------------------------ */

struct sim_address *sim_address_get(struct sim *sim, const union ibv_gid *gid)
{
	struct sim_address *address;

	HASH_FIND(hh, sim->addresses, gid, sizeof(*gid), address);
	if (address)
		return address;
	address = calloc(1, sizeof(*address));
	if (!address)
		return NULL;
	address->gid = *gid;
	HASH_ADD(hh, sim->addresses, gid, sizeof(address->gid), address);
	if (!address->hh.tbl) {
		free(address);
		return NULL;
	}
	return address;
}

struct sim_pair *sim_pair_get(struct sim *sim, const struct path *path)
{
	struct sim_pair_key key = {path->source, path->destination};
	struct sim_pair *pair;

	HASH_FIND(hh, sim->pairs, &key, sizeof(key), pair);
	if (pair)
		return pair;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	pair->key = key;
	pair->source = sim_address_get(sim, &path->source);
	pair->destination = sim_address_get(sim, &path->destination);
	if (pair->source && pair->destination)
		HASH_ADD(hh, sim->pairs, key, sizeof(pair->key), pair);
	if (!pair->hh.tbl) {
		free(pair);
		return NULL;
	}
	return pair;
}

/* --- On the way --------------------------------------------------------------------- */

static struct sim_event *event_create(struct sim_link *from, struct sim_pair *pair,
				      const struct link_packet *packet)
{
	uint32_t size = link_packet_length(packet);
	const struct path *path = packet->path;
	struct sim_event *event = malloc(sizeof(*event) + size);

	if (!event)
		return NULL;
	event->pair = pair;
	event->member = NULL;
	event->number = pair->sent;
	event->frame = (struct link_frame){
		.data = event->bytes,
		.length = size,
		.ip_id = from->sim->options.hide_ip_id ? IP_ID_UNKNOWN : 0,
		.source = path->source,
		.destination = path->destination,
		.source_port = from->source_port,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
	};
	link_packet_copy(packet, event->bytes);
	return event;
}

static void event_corrupt(struct sim *sim, struct sim_event *event)
{
	uint32_t bit = icrc_covered_bit(&sim->random, event->frame.length);

	event->bytes[bit / 8] ^= 1u << bit % 8;
	sim->statistics.corrupted++;
}

/* When a packet that leaves its sender at @departure arrives. */
static uint64_t arrival_time(struct sim *sim, struct sim_pair *pair, uint64_t departure)
{
	const struct sim_options *options = &sim->options;
	uint64_t time = departure + options->latency;

	if (options->jitter)
		time += random_below(&sim->random, options->jitter + 1);
	if (options->reorder > 0 && random_hit(&sim->random, options->reorder)) {
		uint64_t window = options->lateness;

		if (!window)
			window = 2 * (options->latency + options->jitter) + REORDER_MIN_NS;
		return time + 1 + random_below(&sim->random, window);
	}
	if (time < pair->arrival)
		time = pair->arrival;
	pair->arrival = time;
	return time;
}

/* Put one copy of a sealed packet on its way; to @member if it goes to a group. */
static void launch(struct sim_link *from, struct sim_pair *pair, struct sim_link *member,
		   const struct link_packet *packet, uint64_t departure)
{
	struct sim *sim = from->sim;
	struct sim_event *event = event_create(from, pair, packet);

	if (!event)
		goto lost;
	if (sim->options.corrupt > 0 && random_hit(&sim->random, sim->options.corrupt))
		event_corrupt(sim, event);
	event->member = member;
	event->time = arrival_time(sim, pair, departure);
	event->order = sim->order++;
	if (!heap_push(sim, event))
		goto lost;
	pair->destination->in_flight += event->frame.length;
	return;
lost:
	free(event);
	sim->statistics.dropped++;
}

static bool link_is_cut(const struct sim *sim, const struct sim_link *link)
{
	const struct sim_address *address;

	for (address = sim->addresses; address; address = address->hh.next) {
		if (address->owner == link && address->cut)
			return true;
	}
	return false;
}

/* Whether a packet on its way to @member's or the destination's owner can arrive. */
static bool is_open(const struct sim *sim, const struct sim_pair *pair,
		    const struct sim_link *member)
{
	if (pair->source->cut || pair->destination->cut)
		return false;
	if (gid_is_multicast(&pair->key.destination))
		return member && !link_is_cut(sim, member);
	return pair->destination->owner;
}

void sim_transmit(struct sim_link *link, struct sim_pair *pair, struct sim_link *member,
		  const struct link_packet *packet, uint64_t departure)
{
	struct sim *sim = link->sim;
	const struct sim_options *options = &sim->options;

	sim->statistics.sent++;
	if (!pair || !is_open(sim, pair, member) ||
	    (options->drop > 0 && random_hit(&sim->random, options->drop))) {
		sim->statistics.dropped++;
		return;
	}
	pair->sent++;
	launch(link, pair, member, packet, departure);
	if (options->duplicate > 0 && random_hit(&sim->random, options->duplicate)) {
		sim->statistics.duplicated++;
		launch(link, pair, member, packet, departure);
	}
}

/* --- Arriving ------------------------------------------------------------------- */

static void arrive(struct sim *sim, struct sim_event *event)
{
	struct sim_pair *pair = event->pair;
	struct sim_link *owner = event->member ? event->member : pair->destination->owner;
	uint32_t length = event->frame.length;

	pair->destination->in_flight -= length;
	if (!is_open(sim, pair, event->member)) {
		sim->statistics.dropped++;
		free(event);
		return;
	}
	if (sim->options.receive_queue && owner->queued + length > sim->options.receive_queue) {
		sim->statistics.overflowed++;
		free(event);
		return;
	}
	if (event->number < pair->highest_arrived)
		sim->statistics.reordered++;
	else
		pair->highest_arrived = event->number;
	sim->statistics.delivered++;
	owner->queued += length;
	DL_APPEND(owner->arrived, event);
}

void sim_deliver_due(struct sim *sim)
{
	while (sim->count && sim->heap[0]->time <= sim->now)
		arrive(sim, heap_pop(sim));
}

void sim_events_free(struct sim_event **list)
{
	struct sim_event *event, *next;

	DL_FOREACH_SAFE (*list, event, next)
		free(event);
	*list = NULL;
}

/* --- The network ---------------------------------------------------------------- */

struct sim *sim_create(const struct sim_options *options)
{
	struct sim *sim = calloc(1, sizeof(*sim));

	if (!sim)
		return NULL;
	sim->options = *options;
	sim->random = options->seed;
	return sim;
}

void sim_destroy(struct sim *sim)
{
	struct sim_address *address, *next_address;
	struct sim_pair *pair, *next_pair;

	while (sim->links)
		sim->links->link.ops->close(&sim->links->link);
	while (sim->count)
		free(sim->heap[--sim->count]);
	HASH_ITER (hh, sim->pairs, pair, next_pair) {
		HASH_DEL(sim->pairs, pair);
		free(pair);
	}
	HASH_ITER (hh, sim->addresses, address, next_address) {
		HASH_DEL(sim->addresses, address);
		free(address);
	}
	free(sim->heap);
	free(sim);
}

void sim_configure(struct sim *sim, const struct sim_options *options)
{
	sim->options = *options;
}

void sim_partition(struct sim *sim, const union ibv_gid *gid, bool cut)
{
	struct sim_address *address = sim_address_get(sim, gid);

	if (address)
		address->cut = cut;
}

uint64_t sim_now(const struct sim *sim)
{
	return sim->now;
}

uint64_t sim_next(const struct sim *sim)
{
	return sim->count ? sim->heap[0]->time : TIME_NEVER;
}

void sim_advance(struct sim *sim, uint64_t time)
{
	if (time > sim->now)
		sim->now = time;
	sim_deliver_due(sim);
}

void sim_statistics(const struct sim *sim, struct sim_statistics *statistics)
{
	*statistics = sim->statistics;
}

uint64_t sim_random(struct sim *sim)
{
	return random_next(&sim->random);
}
