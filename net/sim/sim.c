/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network in virtual time. A packet that is sent is sealed and copied into
 * an event; events wait in a heap until the clock passes them and then move to
 * the queue of the link that owns their destination. Everything random comes
 * from one generator and ties in time are broken by order of sending, so equal
 * seeds and equal calls give equal runs.
 *
 * Called by the tests of the core and through struct link by the core itself.
 * One thread; no locks.
 */
#include "net/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>
#include <utlist.h>

#include "net/random.h"
#include "net/wire/gid.h"
#include "net/wire/icrc.h"

/* How far behind a packet falls that overtakes none by jitter alone. */
#define REORDER_MIN_NS 1000

struct sim_link;

/* A GID that a link has, or that was sent to, sent from or cut off. Lives as long as the network.
 */
struct address {
	union ibv_gid gid;
	struct sim_link *owner;
	uint64_t in_flight; /* bytes on their way to it */
	bool cut;
	UT_hash_handle hh;
};

struct pair_key {
	union ibv_gid source, destination;
};

/* Order is kept between a source and a destination, as one route keeps it. */
struct pair {
	struct pair_key key;
	struct address *source, *destination;
	uint64_t arrival;		/* of the latest packet that kept its place */
	uint64_t sent, highest_arrived; /* numbers of packets */
	UT_hash_handle hh;
};

struct event {
	uint64_t time;
	uint64_t order;
	uint64_t number; /* within the pair */
	struct pair *pair;
	struct sim_link *member; /* of the group that it was sent to; NULL: it has gone */
	struct link_frame frame;
	struct event *prev, *next;
	uint8_t bytes[];
};

/* A link is in a group. */
struct membership {
	struct sim_link *link;
	union ibv_gid group;
	struct membership *prev, *next;
};

struct sim_link {
	struct link link;
	struct sim *sim;
	uint16_t source_port;
	uint64_t free_at;      /* when the sender has put everything so far on the wire */
	struct event *arrived; /* not yet received */
	struct event *lent;    /* the frames of the last receive() */
	uint64_t queued;       /* bytes in @arrived */
	uint64_t read;	       /* bytes that were */
	struct sim_link *prev, *next;
};

struct sim {
	struct sim_options options;
	struct sim_statistics statistics;
	uint64_t now;
	uint64_t random;
	uint64_t order;
	unsigned int links_created;
	struct sim_link *links;
	struct membership *memberships;
	struct address *addresses;
	struct pair *pairs;
	struct event **heap;
	size_t count, capacity;
};

/* --- The heap of events: a binary one, earliest first ---------------------- */

static bool event_before(const struct event *a, const struct event *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static bool heap_push(struct sim *sim, struct event *event)
{
	size_t at = sim->count, parent;

	if (sim->count == sim->capacity) {
		size_t capacity = sim->capacity ? 2 * sim->capacity : 64;
		struct event **heap = realloc(sim->heap, capacity * sizeof(*heap));

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

static struct event *heap_pop(struct sim *sim)
{
	struct event *first = sim->heap[0], *last = sim->heap[--sim->count];
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

static struct address *address_get(struct sim *sim, const union ibv_gid *gid)
{
	struct address *address;

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

static struct pair *pair_get(struct sim *sim, const struct path *path)
{
	struct pair_key key = {path->source, path->destination};
	struct pair *pair;

	HASH_FIND(hh, sim->pairs, &key, sizeof(key), pair);
	if (pair)
		return pair;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	pair->key = key;
	pair->source = address_get(sim, &path->source);
	pair->destination = address_get(sim, &path->destination);
	if (pair->source && pair->destination)
		HASH_ADD(hh, sim->pairs, key, sizeof(pair->key), pair);
	if (!pair->hh.tbl) {
		free(pair);
		return NULL;
	}
	return pair;
}

/* --- Sending -------------------------------------------------------------------- */

static struct event *event_create(struct sim_link *from, struct pair *pair,
				  const struct link_packet *packet)
{
	uint32_t size = link_packet_length(packet);
	const struct path *path = packet->path;
	struct event *event = malloc(sizeof(*event) + size);

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

static void event_corrupt(struct sim *sim, struct event *event)
{
	uint32_t bit = icrc_covered_bit(&sim->random, event->frame.length);

	event->bytes[bit / 8] ^= 1u << bit % 8;
	sim->statistics.corrupted++;
}

/* When a packet that leaves its sender at @departure arrives. */
static uint64_t arrival_time(struct sim *sim, struct pair *pair, uint64_t departure)
{
	const struct sim_options *options = &sim->options;
	uint64_t time = departure + options->latency;

	if (options->jitter)
		time += random_below(&sim->random, options->jitter + 1);
	if (options->reorder > 0 && random_hit(&sim->random, options->reorder)) {
		uint64_t window = 2 * (options->latency + options->jitter) + REORDER_MIN_NS;

		return time + 1 + random_below(&sim->random, window);
	}
	if (time < pair->arrival)
		time = pair->arrival;
	pair->arrival = time;
	return time;
}

/* Put one copy of a sealed packet on its way; to @member if it goes to a group. */
static void launch(struct sim_link *from, struct pair *pair, struct sim_link *member,
		   const struct link_packet *packet, uint64_t departure)
{
	struct sim *sim = from->sim;
	struct event *event = event_create(from, pair, packet);

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

/* The sender's own wire takes one packet after the other. */
static uint64_t departure_time(struct sim_link *link, uint32_t length, uint64_t now)
{
	uint64_t start = link->free_at > now ? link->free_at : now;

	if (!link->sim->options.bandwidth)
		return now;
	link->free_at = start + (uint64_t)length * 1000 / link->sim->options.bandwidth;
	return link->free_at;
}

/* Bytes that wait to leave, with the last one sent. */
static uint64_t waiting(const struct sim_link *link, uint64_t now)
{
	return link->free_at > now ? (link->free_at - now) * link->sim->options.bandwidth / 1000
				   : 0;
}

/* RFC 3168, 5: as the queue in front of a slow wire does. */
static void mark_if_long(struct sim_link *link, struct path *path, uint64_t now)
{
	struct sim *sim = link->sim;
	uint64_t length = waiting(link, now);

	if (length > sim->statistics.longest_queue)
		sim->statistics.longest_queue = length;
	if (!sim->options.mark_queue || length <= sim->options.mark_queue)
		return;
	path->traffic_class = ecn_mark(path->traffic_class);
	sim->statistics.marked += ecn_is_marked(path->traffic_class);
}

static bool link_is_cut(const struct sim *sim, const struct sim_link *link)
{
	const struct address *address;

	for (address = sim->addresses; address; address = address->hh.next) {
		if (address->owner == link && address->cut)
			return true;
	}
	return false;
}

/* Whether a packet on its way to @member's or the destination's owner can arrive. */
static bool is_open(const struct sim *sim, const struct pair *pair, const struct sim_link *member)
{
	if (pair->source->cut || pair->destination->cut)
		return false;
	if (gid_is_multicast(&pair->key.destination))
		return member && !link_is_cut(sim, member);
	return pair->destination->owner;
}

static void send_copy(struct sim_link *link, struct pair *pair, struct sim_link *member,
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

static void send_one(struct sim_link *link, struct link_packet *packet, uint64_t now)
{
	struct sim *sim = link->sim;
	uint32_t length = link_packet_length(packet), queue = sim->options.send_queue;
	const struct path *original = packet->path;
	struct path path = *original;
	struct membership *membership;
	uint64_t departure;
	struct pair *pair;

	if (queue && waiting(link, now) + length > queue) {
		sim->statistics.sent++;
		sim->statistics.overflowed++;
		return;
	}
	departure = departure_time(link, length, now);
	pair = pair_get(sim, packet->path);
	mark_if_long(link, &path, now);
	packet->path = &path;

	if (!icrc_seal(packet, link->source_port,
		       sim->options.hide_ip_id ? (uint16_t)random_next(&sim->random) : 0)) {
		packet->path = original;
		return;
	}
	if (!gid_is_multicast(&packet->path->destination)) {
		send_copy(link, pair, NULL, packet, departure);
		packet->path = original;
		return;
	}
	DL_FOREACH (sim->memberships, membership) {
		if (gid_equal(&membership->group, &path.destination))
			send_copy(link, pair, membership->link, packet, departure);
	}
	packet->path = original;
}

/* What the network drops on the way was sent: none is refused. */
static unsigned int sim_link_send(struct link *base, struct link_packet *packets,
				  unsigned int count, uint64_t now)
{
	struct sim_link *link = (struct sim_link *)base;
	unsigned int i;

	if (now < link->sim->now)
		now = link->sim->now;
	for (i = 0; i < count; i++)
		send_one(link, &packets[i], now);
	return 0;
}

/* --- Arriving ------------------------------------------------------------------- */

static void arrive(struct sim *sim, struct event *event)
{
	struct pair *pair = event->pair;
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

static void deliver_due(struct sim *sim)
{
	while (sim->count && sim->heap[0]->time <= sim->now)
		arrive(sim, heap_pop(sim));
}

static void events_free(struct event **list)
{
	struct event *event, *next;

	DL_FOREACH_SAFE (*list, event, next)
		free(event);
	*list = NULL;
}

static unsigned int sim_link_receive(struct link *base, struct link_frame *frames, unsigned int max,
				     uint64_t now)
{
	struct sim_link *link = (struct sim_link *)base;
	struct event *event;
	unsigned int count = 0;

	events_free(&link->lent);
	deliver_due(link->sim); /* without latency nothing need move the clock */
	while (count < max && link->arrived) {
		event = link->arrived;
		DL_DELETE(link->arrived, event);
		link->queued -= event->frame.length;
		link->read += event->frame.length;
		frames[count++] = event->frame;
		DL_APPEND(link->lent, event);
	}
	return count;
}

/* --- The rest of a link ------------------------------------------------------- */

/* There is no descriptor to poll, so what has arrived is a deadline that has passed. */
static uint64_t sim_link_deadline(struct link *base)
{
	struct sim_link *link = (struct sim_link *)base;

	return link->arrived ? link->sim->now : TIME_NEVER;
}

/* Whose queue can be looked at, if it is limited; or NULL. */
static struct address *known_receiver(struct link *base, const struct path *path)
{
	struct sim *sim = ((struct sim_link *)base)->sim;
	struct address *address;

	if (!sim->options.receive_queue)
		return NULL;
	HASH_FIND(hh, sim->addresses, &path->destination, sizeof(path->destination), address);
	return address && address->owner ? address : NULL;
}

static uint32_t sim_link_rcvbuf_space(struct link *base, const struct path *path, uint32_t qpn)
{
	struct sim *sim = ((struct sim_link *)base)->sim;
	struct address *address = known_receiver(base, path);
	uint64_t taken;

	if (!address)
		return UINT32_MAX;
	taken = address->owner->queued + address->in_flight;
	return taken < sim->options.receive_queue ? sim->options.receive_queue - taken : 0;
}

static uint32_t sim_link_unread(struct link *base, const struct path *path, uint32_t qpn,
				uint64_t *read)
{
	const struct address *address = known_receiver(base, path);

	*read = address ? address->owner->read : 0;
	return address ? address->owner->queued : 0;
}

static int sim_link_add_address(struct link *base, const union ibv_gid *gid)
{
	struct sim_link *link = (struct sim_link *)base;
	struct address *address = address_get(link->sim, gid);

	if (!address)
		return ENOMEM;
	if (address->owner && address->owner != link)
		return EADDRINUSE;
	address->owner = link;
	return 0;
}

static struct membership *membership_find(struct sim_link *link, const union ibv_gid *group)
{
	struct membership *membership;

	DL_FOREACH (link->sim->memberships, membership) {
		if (membership->link == link && gid_equal(&membership->group, group))
			return membership;
	}
	return NULL;
}

/* The network is one place. */
static int sim_link_join(struct link *base, const union ibv_gid *group, const union ibv_gid *source)
{
	struct sim_link *link = (struct sim_link *)base;
	struct membership *membership = membership_find(link, group);

	if (membership)
		return 0;
	membership = malloc(sizeof(*membership));
	if (!membership)
		return ENOMEM;
	*membership = (struct membership){.link = link, .group = *group};
	DL_APPEND(link->sim->memberships, membership);
	return 0;
}

static void sim_link_leave(struct link *base, const union ibv_gid *group)
{
	struct sim_link *link = (struct sim_link *)base;
	struct membership *membership = membership_find(link, group);

	if (!membership)
		return;
	DL_DELETE(link->sim->memberships, membership);
	free(membership);
}

/* Also of what is on its way to it. */
static void leave_all(struct sim_link *link)
{
	struct membership *membership, *next;
	struct sim *sim = link->sim;

	DL_FOREACH_SAFE (sim->memberships, membership, next) {
		if (membership->link != link)
			continue;
		DL_DELETE(sim->memberships, membership);
		free(membership);
	}
	for (size_t i = 0; i < sim->count; i++) {
		if (sim->heap[i]->member == link)
			sim->heap[i]->member = NULL;
	}
}

static unsigned int sim_link_descriptors(struct link *base, int *fds, unsigned int max)
{
	return 0;
}

/* What is still on its way arrives at the link that has the address by then, if any. */
static void sim_link_close(struct link *base)
{
	struct sim_link *link = (struct sim_link *)base;
	struct address *address, *next;

	HASH_ITER (hh, link->sim->addresses, address, next) {
		if (address->owner == link)
			address->owner = NULL;
	}
	leave_all(link);
	events_free(&link->arrived);
	events_free(&link->lent);
	DL_DELETE(link->sim->links, link);
	free(link);
}

static const struct link_ops sim_link_ops = {
	.send = sim_link_send,
	.receive = sim_link_receive,
	.deadline = sim_link_deadline,
	.rcvbuf_space = sim_link_rcvbuf_space,
	.unread = sim_link_unread,
	.add_address = sim_link_add_address,
	.join = sim_link_join,
	.leave = sim_link_leave,
	.descriptors = sim_link_descriptors,
	.close = sim_link_close,
};

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
	struct address *address, *next_address;
	struct pair *pair, *next_pair;

	while (sim->links)
		sim_link_close(&sim->links->link);
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

struct link *sim_link_create(struct sim *sim)
{
	struct sim_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->link.ops = &sim_link_ops;
	link->sim = sim;
	link->source_port = ROCE_V2_SOURCE_PORT_MIN + (sim->links_created++ & 0x3fff);
	DL_APPEND(sim->links, link);
	return &link->link;
}

void sim_partition(struct sim *sim, const union ibv_gid *gid, bool cut)
{
	struct address *address = address_get(sim, gid);

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
	deliver_due(sim);
}

void sim_statistics(const struct sim *sim, struct sim_statistics *statistics)
{
	*statistics = sim->statistics;
}

uint64_t sim_random(struct sim *sim)
{
	return random_next(&sim->random);
}
