/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss recovery of a reliable queue pair: everything between sending a packet and its
 * acknowledgement (IBA 9.7.6, 9.9.2; RFC 9002 and RFC 8985 where IBA leaves it to us). It owns the
 * state, the retry counters, the deadlines, the bytes in flight and what is retransmitted;
 * recovery_events.c has the table of which event leads where. The requester asks it what may be
 * sent and reports what was; the completer reports acknowledgements and NAKs; time comes by
 * recovery_run().
 *
 * A packet counts as lost when a NAK says so, when a response was passed over, or when a probe
 * shows it; never because an answer takes long. When the local ACK timeout expires the oldest
 * packet is retransmitted, which counts as a retry.
 *
 * Its state belongs to the QP and is protected by qp.lock.
 */
#ifndef URXE_EMU_RECOVERY_H
#define URXE_EMU_RECOVERY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/transport/arbiter.h"

struct qp;
struct destination;

enum recovery_state {
	RECOVERY_SENDING,
	/*
	 * What a NAK asked for is on its way again, alone, and sending goes on: a responder that
	 * has kept what came behind the gap (as urxe does) misses no more than that. The answer
	 * shows whether it has (destination_on_gap()). Where many are lost, a silence has
	 * the oldest packet retransmitted in the same way.
	 */
	RECOVERY_RETRANSMIT,
	/*
	 * No answer for a probe timeout. What shows a loss is a packet behind it: the next one,
	 * if there is one, though the window be full (RFC 9002, 6.2.4), and then another one.
	 * Sending goes on.
	 */
	RECOVERY_NEXT_PROBE,
	/*
	 * There was none, or still no answer. It may be the NAK that was lost, which comes only
	 * once (IBA 9.7.5.2.3), or the last packets: the oldest one again, alone, and nothing else
	 * until there is an answer. If that acknowledges more, nothing was lost, and sending goes
	 * on where it was (as F-RTO, RFC 5682). What was in flight doesn't count meanwhile, so that
	 * others can send.
	 */
	RECOVERY_HEAD_PROBE,
	/*
	 * The answer acknowledged just this packet, perhaps as it arrived the first time: the one
	 * behind it again. If the answer is the same, all of them are lost.
	 */
	RECOVERY_SECOND_PROBE,
	RECOVERY_RNR_WAIT, /* for the time that an RNR NAK asked for (IBA 9.7.5.2.8) */
	RECOVERY_FAILED,   /* retries are used up: the QP is in error */
	RECOVERY_STATES
};

struct recovery {
	enum recovery_state state;
	enum recovery_state previous;	 /* before the latest event */
	struct destination *destination; /* once connected */
	struct arbiter_member member;	 /* its part in it, with the bytes in flight */
	/* Bytes in flight that @destination doesn't count until there is an answer. */
	uint64_t uncounted;

	uint8_t retries, rnr_retries; /* left */
	uint8_t probes;		      /* since there was progress */
	bool probe_wanted;	      /* the requester is to send one */
	bool nothing_new;	      /* it had no new packet to send as the last one */
	bool probes_only;	      /* until there is an answer: its peer answers others */
	bool response_missed;	      /* a response was: not noted again before there is progress */
	bool timed_out;		      /* since there was progress */

	/*
	 * HEAD_PROBE, SECOND_PROBE: the cursor before it went back to the oldest packet.
	 * RETRANSMIT: the cursor when the retransmission was sent. After go back N:
	 * requester.unacked.
	 */
	uint32_t resume_psn;

	/* A timer caused the retransmission, not a NAK: the packets before it may only be late. */
	bool retransmit_unasked;
	/*
	 * When the packet that a NAK asked for was retransmitted; 0: none, or its answer can't be
	 * distinguished from another one's.
	 */
	uint64_t retransmitted_at;
	bool retransmit_wanted;	  /* the requester is to retransmit the oldest packet, alone */
	bool retransmit_response; /* what was retransmitted last asks for a response */
	bool nak_follows;	  /* it was retransmitted before its NAK, which is ignored */
	uint8_t retransmit_run;	  /* packets in a row that were retransmitted one by one */
	uint32_t retransmit_end;  /* one beyond what was retransmitted last */
	uint32_t highest_retransmitted; /* one beyond the last that was sent more than once */
	uint32_t probed_psn;		/* of what was retransmitted as a probe */

	/* At the last ACK timeout bytes waited for the receiver to read them. */
	bool unread;
	/* When *@read of link_ops.unread() reaches this, all of those were read. */
	uint64_t read_until;

	uint64_t since;	       /* when there was progress, or the first packet was sent; ns */
	uint64_t nak_at;       /* when a NAK for requester.unacked came; 0: not since progress */
	uint64_t probed_at;    /* when a packet was retransmitted as a probe; 0: it was answered */
	uint64_t silent_since; /* what @since was at the first of the retries */

	/* Deadlines, ns, or TIME_NEVER. */
	uint64_t timeout_at; /* the local ACK timeout, IBA 9.7.6.1.3 */
	uint64_t expired_at; /* when it was to expire, before it was put off; 0: it wasn't */
	uint64_t probe_at;
	uint64_t rnr_until;
	uint32_t rnr_psn; /* which the receiver wasn't ready for */

	/* One packet at a time is timed, never one that was retransmitted (Karn's rule). */
	bool timing;
	bool ambiguous; /* its answer may be a probe's */
	uint32_t timed_psn;
	uint64_t timed_since;

	/* What the acknowledgements of one batch add up to, until recovery_drain(). */
	bool progress;
	uint64_t acked; /* bytes */

	bool beyond; /* the acknowledgement being looked at is of what was to be retransmitted */

	uint32_t reduction;  /* of the window, taken back if nothing was lost after all; 0: none */
	bool reduced_all;    /* for all that was in flight, not for packets that were missing */
	uint32_t doubt_end;  /* one beyond what was taken for lost */
	uint64_t reduced_at; /* when that was */
	/* No loss before this PSN is a reason for another reduction (RFC 9002, 7.3.2). */
	uint32_t reduced_end;
};

void recovery_reset(struct recovery *recovery);
/* The first packet will have @psn. */
void recovery_begin(struct recovery *recovery, uint32_t psn);

/* The path leads to @destination from now on, which this takes over; NULL: nowhere. */
void recovery_set_destination(struct qp *qp, struct destination *destination);
/*
 * The same on migration (emu/transport/migration.h), with all retries. Returns the destination
 * before, which is the caller's now.
 */
struct destination *recovery_migrate(struct qp *qp, struct destination *destination);
/* The QP has migrated: what was under way may have been lost on the path before. */
void recovery_on_migrated(struct qp *qp, uint64_t now);
/* As many retries as @attr says. */
void recovery_reload(struct recovery *recovery, const struct ibv_qp_attr *attr);
/* The send queue was flushed: nothing is outstanding, nothing is due. */
void recovery_stop(struct qp *qp);

/* --- called by the requester ------------------------------------------------ */

/* Whether requests may be sent at all; if only one, a probe, probe_wanted says so. */
bool recovery_may_send(const struct qp *qp);
/*
 * How many of @count packets of @cost bytes may be sent; what isn't goes back. @until: as
 * destination_take() has it.
 */
uint32_t recovery_take(struct qp *qp, uint64_t cost, uint32_t count, uint64_t now, uint64_t *until);
/* The requester's run is over: @unused bytes of what recovery_take() gave go back. */
void recovery_end_run(struct qp *qp, uint64_t unused);
/* A probe of @cost bytes may be sent whatever the window says. Returns @cost. */
uint64_t recovery_take_probe(struct qp *qp, uint64_t cost);

/* The packet with @psn, of what recovery_take() gave, is on its way; @again: not the first time. */
void recovery_on_sent(struct qp *qp, uint32_t psn, uint64_t cost, bool again, uint64_t now);
/*
 * Whether it may pay to retransmit more than the packet that is missing: many are lost, and the
 * responder keeps what is behind them.
 */
bool recovery_retransmits_more(const struct qp *qp, uint64_t now);
/*
 * The packet at requester.unacked was retransmitted, alone, as retransmit_wanted asked for. It is
 * in the window since it was sent first. @end: one beyond it, or beyond the last of the responses
 * that it asks for.
 */
void recovery_on_retransmitted(struct qp *qp, uint32_t end, bool response, uint64_t now);
/* A probe was wanted, and there is nothing new to send. */
void recovery_nothing_new(struct qp *qp, uint64_t now);
/* All of this run has been sent: deadlines begin, unless they run already. */
void recovery_arm(struct qp *qp, uint64_t now);

/* --- called by the completer ------------------------------------------------ */

/*
 * Packets of @cost bytes were acknowledged; recovery_on_acked() follows. @beyond: the last of them
 * lies beyond the cursor, which had been moved back to retransmit it.
 */
void recovery_count_acked(struct qp *qp, uint64_t cost, bool beyond);
/* A response acknowledged something new: everything before requester.unacked. */
void recovery_on_acked(struct qp *qp, uint64_t now);
/* The responder misses the packet at requester.unacked, says a NAK (IBA 9.7.5.2.3). */
void recovery_on_sequence_nak(struct qp *qp, uint64_t now);
/* A response was passed over (IBA 9.9.2.3), and what came behind it is dropped. */
void recovery_on_response_missed(struct qp *qp, uint64_t now);
/* The same, but that is kept: what is missing may have to be asked for (missing.h). */
void recovery_on_missing(struct qp *qp, uint64_t now);
/* One beyond all that has been sent and isn't going to be retransmitted in any case. */
uint32_t recovery_sent_end(const struct qp *qp);
/* The responder has no receive for @delay ns (IBA 9.7.5.2.8). */
void recovery_on_rnr_nak(struct qp *qp, uint64_t delay, uint64_t now);
/* After a batch of responses: what they acknowledged leaves the window, deadlines begin anew. */
void recovery_drain(struct qp *qp, uint64_t now);

/* --- time ------------------------------------------------------------------- */

/* What is due. */
void recovery_run(struct qp *qp, uint64_t now);
/* The earliest deadline, or TIME_NEVER. */
uint64_t recovery_deadline(const struct recovery *recovery);

#endif
