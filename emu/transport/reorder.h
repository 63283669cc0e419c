/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that arrived before one that is missing, as the out-of-order queue of TCP: copies, by
 * their PSN, to be received when all before them have come, with all checks as if they came then.
 * The responder has one for requests (emu/transport/responder_gap.c), the completer one for
 * responses (emu/transport/missing.h). What isn't kept is as good as lost.
 *
 * Bounded: REORDER_BYTES per queue pair, REORDER_BYTES_ALL per HCA, and REORDER_PSNS ahead.
 *
 * Belongs to a queue pair and is protected by qp.lock. All zeros is an empty one.
 */
#ifndef URXE_EMU_REORDER_H
#define URXE_EMU_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/packet_pool.h"
#include "net/wire/wire.h"

struct reorder {
	struct packet_arena arena;    /* that they are in */
	struct reorder_packet **ring; /* by PSN modulo its size; NULL until there was one */
	uint32_t size;		      /* a power of two, or 0 */
	uint32_t count;		      /* packets */
	uint32_t bytes;		      /* of them */
	uint32_t first, end;	      /* unless it is empty: their PSNs are first <= PSN < end */
};

/* Forget all packets; reorder_destroy() frees the ring, too. */
void reorder_clear(struct reorder *reorder);
void reorder_destroy(struct reorder *reorder);

/*
 * Keep a copy of @packet in memory of @pool; @placed: without its payload, which is where it
 * belongs already. @missing: the lowest PSN that can still come. False: there is no room for it.
 * One whose PSN is there already needs none.
 */
bool reorder_keep(struct reorder *reorder, struct packet_pool *pool, const struct packet *packet,
		  bool placed, uint32_t missing);

/* Whether the packet with @psn is there. */
bool reorder_has(const struct reorder *reorder, uint32_t psn);
/* Whether it is there without its payload, which is placed. */
bool reorder_is_placed(const struct reorder *reorder, uint32_t psn);

/*
 * Take the packet with @psn out, or NULL. It is the caller's to receive, whatever becomes of the
 * others by that, and then to free; or to return, if it can't be received yet.
 */
const struct packet *reorder_take(struct reorder *reorder, uint32_t psn);
void reorder_free(struct reorder *reorder, const struct packet *packet);
void reorder_return(struct reorder *reorder, const struct packet *packet);

/* Free those before @psn. */
void reorder_remove_before(struct reorder *reorder, uint32_t psn);

#endif
