/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that makes random calls of rdma_cm with ids of its own (test_any_calls.c): its ids, and
 * the events that they get. It gets these itself, has another thread that waits for them, or its
 * ids are synchronous.
 */
#ifndef URXE_TESTS_ANY_WORKER_H
#define URXE_TESTS_ANY_WORKER_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/verbs/any_calls.h"

enum { WORKERS = 5, SLOTS = 12, STEPS = 300, CHANNELS = 2, HELD = 4, LINES = 96, LINE = 96 };
enum { PORTS = 4, TOKENS = WORKERS * STEPS, GROUPS = 3 };

/* An id, and what is known of it. */
struct slot {
	struct rdma_cm_id *id; /* NULL: free */
	struct model model;
	struct ibv_xrcd *xrcd; /* or NULL: of its SRQ, opened for it alone */
};

/* What another thread has got, and acked. */
struct got {
	struct rdma_cm_event event;
	uint32_t token;
	struct got *next;
};

struct worker {
	unsigned int number;
	uint64_t random;
	bool waited_for;  /* by a thread of its own, which gets the events of channels[0] */
	bool synchronous; /* its ids are: each call takes the event that it is followed by */
	struct rdma_event_channel *channels[CHANNELS];
	struct slot slots[SLOTS];
	struct rdma_cm_event *held[HELD]; /* not acked yet */
	unsigned int tokens;
	pthread_t thread, waiter;
	pthread_mutex_t lock; /* of what the waiter has got */
	struct got *got, *last_got;
	_Atomic bool over;
	char lines[LINES][LINE]; /* what it did last */
	unsigned int line;
};

/* What the threads of one seed share. */
struct any_world {
	uint64_t seed;
	bool has_ipv6;
	/* That ids listen at. */
	_Atomic uint16_t ports[MODEL_SPACES][MODEL_FAMILIES][PORTS];
	_Atomic unsigned int requests[TOKENS + 1]; /* how often each was requested */
};

extern struct any_world any_world;

static inline unsigned int slot_number(const struct worker *w, const struct slot *slot)
{
	return slot - w->slots;
}

/* What it does, for the case that something fails; and all of that, to stderr. */
__attribute__((format(printf, 2, 3))) void worker_note(struct worker *w, const char *format, ...);
void worker_print(const struct worker *w);

#define holds(w, condition, ...)                                                                   \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr,                                                            \
				"seed %lu: %s does not hold: ", (unsigned long)any_world.seed,     \
				#condition);                                                       \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			worker_print(w);                                                           \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

unsigned int worker_random(struct worker *w, unsigned int bound);
/* One that some id listens at, mostly. */
uint16_t worker_any_port(struct worker *w, const struct model *model);
_Atomic uint16_t *worker_ports(const struct model *model);

/* @id NULL: a free slot. NULL: there is none. */
struct slot *worker_find_slot(struct worker *w, const struct rdma_cm_id *id);
void worker_create_id(struct worker *w, struct slot *slot);
/*
 * By rdma_create_ep(): its addresses are resolved, or it may listen. It is synchronous, or becomes
 * one of a channel.
 */
bool worker_makes_endpoints(struct worker *w);
void worker_create_endpoint(struct worker *w, struct slot *slot);
void worker_destroy_id(struct worker *w, struct slot *slot);

/* Each event has to be one that the model of its id allows. Returns whether there were any. */
bool worker_take_events(struct worker *w);
/* The same, but wait a moment for one. */
void worker_await_events(struct worker *w);
/* What a call of a synchronous id has waited for. Returns the errno that it stands for. */
int worker_take_synchronous(struct worker *w, struct slot *slot);
/* That a synchronous one has got: @holder is the new id, or the listener. */
void worker_take_request(struct worker *w, struct rdma_cm_id *holder, bool has_qp);
/* Events are acked late: before what would wait for that. */
void worker_ack_held(struct worker *w);

/* --- any_address.c: of this node, and of @model's family */
struct sockaddr *model_address(const struct model *model, uint16_t port);
struct sockaddr *model_any_address(const struct model *model);
/* As rdma_getaddrinfo() has it. */
struct rdma_addrinfo *model_look_up(const struct model *model, bool passive, uint16_t port);

/* --- any_srq.c: the SRQ of an id */
int srq_create(struct worker *w, struct slot *slot);
/* Unless a queue pair uses it. */
void srq_destroy(struct slot *slot);

/* Its channels, and the thread that waits for events. */
void worker_open(struct worker *w);
void worker_close(struct worker *w);

#endif
