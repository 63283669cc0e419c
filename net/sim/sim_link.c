/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link of the simulated network, as the core sees it (net/link.h): what it sends is sealed and
 * leaves by a wire of its own, one packet after the other; what has arrived waits in its queue.
 *
 * Called through struct link by the core. One thread; no locks.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "net/random.h"
#include "net/sim/sim_internal.h"
#include "net/wire/gid.h"
#include "net/wire/icrc.h"

/* --- Sending -------------------------------------------------------------------- */

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

/* To its destination, or to each member of the group that this is. */
static void transmit(struct sim_link *link, const struct link_packet *packet, uint64_t departure)
{
	const union ibv_gid *destination = &packet->path->destination;
	struct sim_pair *pair = sim_pair_get(link->sim, packet->path);
	struct sim_membership *membership;

	if (!gid_is_multicast(destination)) {
		sim_transmit(link, pair, NULL, packet, departure);
		return;
	}
	DL_FOREACH (link->sim->memberships, membership) {
		if (gid_equal(&membership->group, destination))
			sim_transmit(link, pair, membership->link, packet, departure);
	}
}

static void send_one(struct sim_link *link, struct link_packet *packet, uint64_t now)
{
	struct sim *sim = link->sim;
	uint32_t length = link_packet_length(packet), queue = sim->options.send_queue;
	const struct path *original = packet->path;
	struct path path = *original;
	uint64_t departure;

	if (queue && waiting(link, now) + length > queue) {
		sim->statistics.sent++;
		sim->statistics.overflowed++;
		return;
	}
	departure = departure_time(link, length, now);
	mark_if_long(link, &path, now);
	packet->path = &path;
	if (icrc_seal(packet, link->source_port,
		      sim->options.hide_ip_id ? (uint16_t)random_next(&sim->random) : 0))
		transmit(link, packet, departure);
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

/* --- Receiving ------------------------------------------------------------------ */

static unsigned int sim_link_receive(struct link *base, struct link_frame *frames, unsigned int max,
				     uint64_t now)
{
	struct sim_link *link = (struct sim_link *)base;
	struct sim_event *event;
	unsigned int count = 0;

	sim_events_free(&link->lent);
	sim_deliver_due(link->sim); /* without latency nothing need move the clock */
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
static struct sim_address *known_receiver(struct link *base, const struct path *path)
{
	struct sim *sim = ((struct sim_link *)base)->sim;
	struct sim_address *address;

	if (!sim->options.receive_queue)
		return NULL;
	HASH_FIND(hh, sim->addresses, &path->destination, sizeof(path->destination), address);
	return address && address->owner ? address : NULL;
}

static uint32_t sim_link_rcvbuf_space(struct link *base, const struct path *path, uint32_t qpn)
{
	struct sim *sim = ((struct sim_link *)base)->sim;
	struct sim_address *address = known_receiver(base, path);
	uint64_t taken;

	if (!address)
		return UINT32_MAX;
	taken = address->owner->queued + address->in_flight;
	return taken < sim->options.receive_queue ? sim->options.receive_queue - taken : 0;
}

static uint32_t sim_link_unread(struct link *base, const struct path *path, uint32_t qpn,
				uint64_t *read)
{
	const struct sim_address *address = known_receiver(base, path);

	*read = address ? address->owner->read : 0;
	return address ? address->owner->queued : 0;
}

static int sim_link_add_address(struct link *base, const union ibv_gid *gid, unsigned int interface)
{
	struct sim_link *link = (struct sim_link *)base;
	struct sim_address *address = sim_address_get(link->sim, gid);

	if (!address)
		return ENOMEM;
	if (address->owner && address->owner != link)
		return EADDRINUSE;
	address->owner = link;
	return 0;
}

static struct sim_membership *find_membership(struct sim_link *link, const union ibv_gid *group)
{
	struct sim_membership *membership;

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
	struct sim_membership *membership = find_membership(link, group);

	if (membership)
		return 0;
	membership = malloc(sizeof(*membership));
	if (!membership)
		return ENOMEM;
	*membership = (struct sim_membership){.link = link, .group = *group};
	DL_APPEND(link->sim->memberships, membership);
	return 0;
}

static void sim_link_leave(struct link *base, const union ibv_gid *group)
{
	struct sim_link *link = (struct sim_link *)base;
	struct sim_membership *membership = find_membership(link, group);

	if (!membership)
		return;
	DL_DELETE(link->sim->memberships, membership);
	free(membership);
}

/* Also of what is on its way to it. */
static void leave_all(struct sim_link *link)
{
	struct sim_membership *membership, *next;
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
	struct sim_address *address, *next;

	HASH_ITER (hh, link->sim->addresses, address, next) {
		if (address->owner == link)
			address->owner = NULL;
	}
	leave_all(link);
	sim_events_free(&link->arrived);
	sim_events_free(&link->lent);
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
