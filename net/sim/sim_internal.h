/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the simulator share: sim.c (the network: packets on their way, the clock) and
 * sim_link.c (its links, as the core sees them). One thread; no locks.
 */
#ifndef URXE_NET_SIM_INTERNAL_H
#define URXE_NET_SIM_INTERNAL_H

#include <uthash.h>

#include "net/sim/sim.h"

struct sim_link;

/*
 * A GID that a link has, or that was sent to, sent from or cut off. Lives as long as the network.
 */
struct sim_address {
	union ibv_gid gid;
	struct sim_link *owner;
	uint64_t in_flight; /* bytes on their way to it */
	bool cut;
	UT_hash_handle hh;
};

struct sim_pair_key {
	union ibv_gid source, destination;
};

/* Order is kept between a source and a destination, as one route keeps it. */
struct sim_pair {
	struct sim_pair_key key;
	struct sim_address *source, *destination;
	uint64_t arrival;		/* of the latest packet that kept its place */
	uint64_t sent, highest_arrived; /* numbers of packets */
	UT_hash_handle hh;
};

struct sim_event {
	uint64_t time;
	uint64_t order;
	uint64_t number; /* within the pair */
	struct sim_pair *pair;
	struct sim_link *member; /* of the group that it was sent to; NULL: it has gone */
	struct link_frame frame;
	struct sim_event *prev, *next;
	uint8_t bytes[];
};

/* A link is in a group. */
struct sim_membership {
	struct sim_link *link;
	union ibv_gid group;
	struct sim_membership *prev, *next;
};

struct sim_link {
	struct link link;
	struct sim *sim;
	uint16_t source_port;
	uint64_t free_at;	   /* when the sender has put everything so far on the wire */
	struct sim_event *arrived; /* not yet received */
	struct sim_event *lent;	   /* the frames of the last receive() */
	uint64_t queued;	   /* bytes in @arrived */
	uint64_t read;		   /* bytes that were */
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
	struct sim_membership *memberships;
	struct sim_address *addresses;
	struct sim_pair *pairs;
	struct sim_event **heap;
	size_t count, capacity;
};

/* --- sim.c ------------------------------------------------------------------------------------ */

/* Find it or make it. NULL without memory. */
struct sim_address *sim_address_get(struct sim *sim, const union ibv_gid *gid);
struct sim_pair *sim_pair_get(struct sim *sim, const struct path *path);

/*
 * Send a copy of a sealed packet, which leaves @link at @departure; to @member if it goes to a
 * group. It may be lost, corrupted, delayed or duplicated. @pair: NULL, without memory for it,
 * loses it.
 */
void sim_transmit(struct sim_link *link, struct sim_pair *pair, struct sim_link *member,
		  const struct link_packet *packet, uint64_t departure);

/* What has arrived by now goes to its link's queue. */
void sim_deliver_due(struct sim *sim);

/* All of @list, which is empty then. */
void sim_events_free(struct sim_event **list);

#endif
