/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responses that the requester misses. A READ, an atomic and the like have responses of their own,
 * which are sent in order (IBA 9.7.5.1.4): when one comes, those before it that haven't come were
 * lost (9.9.2.3). Those that come behind it are kept (emu/transport/reorder.h), and what is missing
 * is asked for again, each range by a request of its own (9.7.5.1.3).
 *
 * The completer notes what comes and receives what was kept; recovery says when to ask, and the
 * requester asks. Belongs to a queue pair and is protected by qp.lock.
 */
#ifndef URXE_EMU_MISSING_H
#define URXE_EMU_MISSING_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/transport/reorder.h"

struct qp;

struct missing {
	struct reorder kept; /* responses that came before one that is missing */
	bool any;	     /* there are some: what follows says which */
	uint32_t seen;	     /* one beyond the highest PSN that is known to be answered */

	/* The latest NAK that came before one that is missing. */
	bool nak_came;
	struct packet nak;

	bool wanted;	    /* the requester is to ask */
	bool again;	    /* for those that it asked for before, too */
	bool whole;	    /* for the rest of the READ request, as if nothing had been kept */
	uint32_t asked_end; /* those before this have come, or it has asked for them */
	/*
	 * For those before @round_end when requester.highest was @round_mark: the response to a
	 * later request says that they were lost again.
	 */
	uint32_t round_end, round_mark;
};

/* From @psn on; of one request packet. */
struct missing_range {
	uint32_t psn, count;
};

/* Nothing is known to be missing any more: forget what was kept. */
void missing_clear(struct missing *missing);
/* Likewise, and free its memory. */
void missing_destroy(struct missing *missing);

/* --- called by the completer ------------------------------------------------------------- */

/* All requests before @end have been answered, and requester.unacked hasn't come. */
void missing_note(struct qp *qp, uint32_t end);
/* All requests before that of @nak have been answered: keep it until their responses have come. */
void missing_keep_nak(struct qp *qp, const struct packet *nak);
/* Whether @packet, which came before one that is missing, is worth keeping. */
bool missing_wants(const struct qp *qp, const struct packet *packet);
/*
 * Whether the payload of @packet, a response to the READ at @index of the send queue, may be placed
 * before its turn: nothing of the responses before it is yet to go there, for of two READs to the
 * same memory the later one stays. Memory is the same where its addresses are; two mappings of the
 * same pages aren't recognised.
 */
bool missing_may_place(struct qp *qp, uint32_t index, const struct packet *packet);
/*
 * Keep @packet, which missing_wants() wants; @placed: without its payload. False: there is no room
 * for it.
 */
bool missing_keep(struct qp *qp, const struct packet *packet, bool placed);
/* What was kept of requester.unacked, or NULL. It is the caller's, to be freed (reorder_free()). */
const struct packet *missing_take(struct qp *qp);

/* --- called by recovery ------------------------------------------------------------------- */

/*
 * Whether there are some that were never asked for, or were lost again. @in_order: the responder
 * may go through the answer to a READ request just once, so that of each request a single range is
 * asked for, when the last response to it has come or was lost: all from the first that is missing
 * to the last one.
 */
bool missing_is_due(struct qp *qp, bool in_order);
/* Whether the oldest one is one of those. */
bool missing_oldest_is_due(const struct qp *qp);
/* How many in a row are, of the first that were never asked for. */
uint32_t missing_run(const struct qp *qp);
/* Ask for all of them again. @whole: and don't rely on what was kept. */
void missing_ask_all(struct missing *missing, bool whole);

/* --- called by the requester ---------------------------------------------------------------- */

/*
 * The range to be asked for behind the one in *@range, which is empty at requester.unacked at
 * first. False: now all have been asked for. @in_order: as above.
 */
bool missing_ask(struct qp *qp, bool in_order, struct missing_range *range);

#endif
