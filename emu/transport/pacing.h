/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing of UC and UD, which have no acknowledgements: how much a receiver on this machine can take
 * (link_ops.rcvbuf_space), or what leads to those elsewhere (link_ops.sndbuf_space). Called by the
 * requester for each packet, with the QP's lock held.
 *
 * What is known belongs to the receiver, not to the QP that sends to it. One that is full is waited
 * for, since most often it only reads more slowly than we send; one that stays full is taken for
 * stopped: from then on its packets leave at once and are lost in its socket, and packets to other
 * receivers don't wait behind them. A multicast is never paced by the members of its group.
 *
 * pacing.lock protects it all; a leaf.
 */
#ifndef URXE_EMU_PACING_H
#define URXE_EMU_PACING_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>

#include "net/link.h"

struct outbox;

/* Receivers are found by a hash that leads to one of so many rows, and sought in that one. */
#define PACING_ROW_BITS 5
#define PACING_ROWS (1 << PACING_ROW_BITS)
#define PACING_COLUMNS 8

enum pacing_state {
	PACING_READING,	  /* may be sent as much as its buffer had space for */
	PACING_FULL,	  /* is waited for */
	PACING_STOPPED,	  /* isn't waited for */
	PACING_ELSEWHERE, /* not on this machine, or the kernel doesn't say */
};

/* A receiving socket: that of the process at @gid that has the block @block of QP numbers. */
struct pacing_receiver {
	union ibv_gid gid;
	uint32_t block;
	enum pacing_state state;
	uint32_t space;	   /* bytes that may be sent before the link is asked again */
	uint64_t patience; /* ns that it may be waited for */
	uint64_t ask_at;   /* not before */
	uint64_t used_at;
};

struct pacing {
	pthread_mutex_t lock;
	struct pacing_receiver receivers[PACING_ROWS][PACING_COLUMNS];
};

void pacing_init(struct pacing *pacing);
void pacing_destroy(struct pacing *pacing);

/*
 * May a packet of @cost bytes leave now for @qpn at the end of @path? Returns 0, and has accounted
 * for it, or the time at which to ask again. Flushes @outbox before it asks the link, which is to
 * know of the packets in it.
 */
uint64_t pacing_take(struct outbox *outbox, const struct path *path, uint32_t qpn, uint32_t cost);

#endif
