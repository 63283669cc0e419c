/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port that a connected QP's peer on this machine sends from. Any user of a machine
 * can send from each of its addresses, so the address of a packet doesn't show that it is
 * the peer's. Which user sent it the link can find out, as long as the sending
 * socket is there; the port of one that was found to be the peer's is remembered, and a
 * packet from another port has to come from a socket of the peer's user as well.
 *
 * A peer that ends must not lose what it said last: until a port is known, packets of
 * sockets that are gone count. RoCE v2 lets senders change their port at any time, so peers
 * elsewhere are never held to one.
 *
 * Called by emu/receive and emu/transport/migration, under the QP's lock.
 */
#ifndef URXE_EMU_SOURCE_PORT_H
#define URXE_EMU_SOURCE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"

struct qp;

/* All zeros to begin with a new peer. */
struct source_port {
	bool any;      /* the peer isn't on this machine, or nothing is known of it */
	bool reported; /* that a packet was dropped */
	uint16_t port; /* 0: not known yet */
};

/* A frame from another port than @source, one of @qp's, knows: the slow part of what follows. */
bool source_port_check(struct qp *qp, struct source_port *source, const struct link_frame *frame);

/* Whether @frame, which came from the address of @qp's peer, is taken for the peer's. */
static inline bool source_port_allows(struct qp *qp, struct source_port *source,
				      const struct link_frame *frame)
{
	return source->any || frame->source_port == source->port ||
	       source_port_check(qp, source, frame);
}

#endif
