/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One HCA at the mercy of one peer, in virtual time. Its link receives only what
 * host_deliver() gives it; what becomes of packets that are sent is the target's
 * business, which is why the target has the table of the link's functions.
 */
#ifndef URXE_TESTS_FUZZ_HOST_H
#define URXE_TESTS_FUZZ_HOST_H

#include "emu/hca.h"
#include "input.h"

struct host {
	struct link link; /* first, so that a link is its host */
	uint64_t now;
	struct gid_table gids; /* with one address */
	union ibv_gid peer;
	struct hca *hca;

	/* What the link receives next. */
	bool arrived;
	struct link_frame frame;
};

/* @host is zeros; @options is without link and gids. */
void host_init(struct host *host, const struct link_ops *ops, struct hca_options options);
void host_destroy(struct host *host);

/* Entries of the target's table. */
unsigned int host_receive(struct link *link, struct link_frame *frames, unsigned int max,
			  uint64_t now);
uint64_t host_deadline(struct link *link);

/* Until there is nothing to do at this instant. */
void host_progress(struct host *host);
/* On by @time; if that is 0, to the next deadline if there is one. */
void host_wait(struct host *host, uint64_t time);

/* Make host->frame one from the peer, or from another address. It has no data yet. */
void host_address_frame(struct host *host, bool somebody_else);
/* Put the ICRC behind the @length bytes of a frame that is addressed, which has it then too. */
void host_seal(struct host *host, uint8_t *bytes, uint32_t length);
/* Receive host->frame, and do what is to be done. */
void host_deliver(struct host *host);

#endif
