/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: a network in virtual time. Any number of links, one thread,
 * one seeded random generator; packets are copied, delayed, lost, duplicated
 * and reordered by it, and their ICRCs are real. Tests give each HCA one of its
 * links and step the clock from event to event. Not thread-safe on purpose.
 */
#ifndef URXE_NET_SIM_H
#define URXE_NET_SIM_H

#include "net/link.h"

struct sim;

struct sim_options {
	uint64_t seed;
	uint64_t latency; /* ns, one way, the least */
	uint64_t jitter; /* ns, up to this much is added at random, in order unless @reorder hits */
	double drop, duplicate, reorder, corrupt; /* probabilities, 0 to 1 */
	uint64_t lateness; /* ns, the most by which @reorder delays; 0: two latencies with jitter */
	uint32_t bandwidth;  /* bytes a microsecond out of each link; 0: unlimited */
	uint32_t mark_queue; /* bytes that wait to leave above which packets are marked; 0: never */
	uint32_t send_queue; /* bytes that may wait to leave a link, what is more is lost; 0: any */
	uint32_t receive_queue; /* bytes that fit a receiver's queue; 0: unlimited */
	bool hide_ip_id;	/* frames come with IP_ID_UNKNOWN and a random identification */
};

struct sim *sim_create(const struct sim_options *options);
/* Closes the links that are still open. */
void sim_destroy(struct sim *sim);

/* Change the options of a running network (the seed is not read again). */
void sim_configure(struct sim *sim, const struct sim_options *options);

/* A new link on the network; link_ops.add_address gives it its addresses. */
struct link *sim_link_create(struct sim *sim);

/* Cut @gid off (packets from and to it vanish), or join it again. */
void sim_partition(struct sim *sim, const union ibv_gid *gid, bool cut);

uint64_t sim_now(const struct sim *sim);

/* When the next packet arrives anywhere, or TIME_NEVER. */
uint64_t sim_next(const struct sim *sim);

/* Move the clock forward to @time. Packets due by then can be received. */
void sim_advance(struct sim *sim, uint64_t time);

/*
 * What the network did so far, so that tests can assert that faults really happened.
 * sent + duplicated = delivered + dropped + overflowed, when nothing is on its way.
 * Of a packet to a group each member's copy counts. Dropped is also what was cut off
 * or sent to an address that no link has; reordered is what arrived behind a later packet from the
 * same source to the same destination.
 */
struct sim_statistics {
	uint64_t sent, delivered, dropped, duplicated, reordered, corrupted, overflowed, marked;
	uint64_t longest_queue; /* bytes that ever waited to leave one link */
};
void sim_statistics(const struct sim *sim, struct sim_statistics *statistics);

/* Uniform random numbers from the simulation's seed, for tests to draw on. */
uint64_t sim_random(struct sim *sim);

#endif
