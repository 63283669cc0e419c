/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A destination: what the reliable queue pairs that send to one address have in common. How long
 * a round trip takes (rtt), how many bytes may be in flight (cwnd), when they leave (pacer), and
 * which queue pair gets the next ones (arbiter). Called by recovery, the requester, congestion
 * notification (ecn) and what connects, moves and resets queue pairs, with a QP lock held.
 *
 * destination.lock protects these parts. It is a leaf but for hca.run_lock: queue pairs go
 * from the arbiter's list to the run queue under it, so that one being destroyed is on neither
 * after destination_forget() and hca_unschedule().
 */
#ifndef URXE_EMU_DESTINATION_H
#define URXE_EMU_DESTINATION_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

#include "emu/transport/arbiter.h"
#include "emu/transport/cwnd.h"
#include "emu/transport/pacer.h"
#include "emu/transport/rtt.h"

struct hca;

/*
 * What a responder there does with packets that come behind a gap, as far as its answers to a
 * retransmission have shown. IBA lets it drop them (9.7.5.2.3); it needn't.
 */
enum behind_gap {
	BEHIND_GAP_UNKNOWN,
	BEHIND_GAP_DROPPED_ONCE, /* or lost, too */
	BEHIND_GAP_DROPPED,
	BEHIND_GAP_KEPT
};

struct destination {
	UT_hash_handle hh; /* in hca->destinations, by address, under hca->destinations_lock */
	union ibv_gid gid;
	uint32_t users; /* connected QPs; under hca->destinations_lock */
	struct hca *hca;
	/* ns; written under the lock, read without it */
	_Atomic uint64_t probe_timeout;	   /* RTT and variation */
	_Atomic uint64_t retransmit_least; /* the least, before anything is sent twice */
	_Atomic uint64_t repair_timeout;   /* the same of what a NAK asked for; 0: not measured */
	/* What an answer took that came after an ACK timeout, if none was measured; 0: none did. */
	_Atomic uint64_t late_answer;
	_Atomic uint64_t acked_at;	/* when something arrived last */
	_Atomic uint64_t lost_at;	/* 0: nothing ever was */
	_Atomic uint64_t loss_interval; /* bytes from one loss to the next, smoothed */
	_Atomic bool near;		/* an answer came within COALESCE_ROUND_MOST, once */

	pthread_spinlock_t lock;
	uint64_t acked_since_loss; /* bytes */
	enum behind_gap behind_gap;
	uint32_t drops;		/* gaps since the peer was found to drop */
	struct rtt rtt, repair; /* @repair: from a retransmission to its answer */
	struct cwnd cwnd;
	struct pacer pacer;
	struct arbiter arbiter;
};

/* Find or make it, for a QP that is being connected. ENOMEM. */
int destination_get(struct hca *hca, const union ibv_gid *gid, struct destination **destination);
void destination_put(struct destination *destination);

/* No more than @bytes may ever be in flight (link_ops.capacity). */
void destination_bound(struct destination *destination, uint64_t bytes);

/*
 * Account as many of @count packets of @cost bytes as sent as the arbiter grants. If none because
 * of the pacer, @until is when to ask again, else 0.
 */
uint32_t destination_take(struct destination *destination, struct arbiter_member *member,
			  uint64_t cost, uint32_t count, uint64_t now, uint64_t *until);
/* Account @bytes as sent whether the window has space for them or not: a probe. */
void destination_sent(struct destination *destination, uint64_t bytes);

/*
 * @bytes have arrived; @sample: a round trip that was measured, or 0. @ambiguous: unless an
 * answer was lost and what it times is the answer to a probe. Where packets have been lost lately
 * that doesn't count; elsewhere it was the peer that took its time.
 */
void destination_acked(struct destination *destination, uint64_t bytes, uint64_t sample,
		       bool ambiguous, uint64_t now);
/* @bytes weren't used, or aren't in flight any more, and nothing is known of them. */
void destination_discard(struct destination *destination, uint64_t bytes);

/* Whether anything was acknowledged after @time. */
bool destination_acked_since(const struct destination *destination, uint64_t time);

/* Whether packets have been lost lately. */
bool destination_lossy(const struct destination *destination, uint64_t now);
/* So many that a NAK or what it asked for is lost more often than an answer is late. */
bool destination_very_lossy(const struct destination *destination, uint64_t now);

/* Something was lost, or marked. Returns the number of the window's reduction. */
uint32_t destination_lost(struct destination *destination, enum cwnd_loss loss, uint64_t now);
/* The same of what was sent before the latest reduction (RFC 9002, 7.3.2): no reason for another.
 */
void destination_lost_before(struct destination *destination, uint64_t now);
/* A queue pair sends again all that was in flight, for some of it was lost. */
void destination_restarted(struct destination *destination);
/*
 * After a silence a packet was sent again, and @time after that came an answer. Returns whether
 * something was lost: the peer hasn't been slow, for it answered soon; and what was sent before
 * isn't what it answered, or that would have come at any time.
 */
bool destination_probe_answered(struct destination *destination, uint64_t time, uint64_t now);
/*
 * After an ACK timeout the answer came @time after what it answers was sent first. As long as no
 * round trip was measured that is all that is known of one that takes longer than the timeout, for
 * what is sent again isn't timed (Karn's rule).
 */
void destination_answered_late(struct destination *destination, uint64_t time);
/* How long an answer may take, as far as is known. */
uint64_t destination_slowest_answer(const struct destination *destination);
/* What a NAK asked for was answered @time after it was sent. */
void destination_repaired(struct destination *destination, uint64_t time, uint64_t now);
/* What was taken for lost then had arrived. */
void destination_spurious(struct destination *destination, uint32_t reduction);

/*
 * A packet is missing: whether it is to be sent again alone. Not if the peer drops what is behind
 * it; but with each DROPS_UNTIL_RETRANSMIT-th gap it is found out anew whether it does.
 */
bool destination_on_gap(struct destination *destination);
/* Whether a peer that misses the next one, too, has lost it rather than dropped it. */
bool destination_keeps(struct destination *destination);
/* A retransmission was answered: what was behind it had been kept there, or not. */
void destination_note_kept(struct destination *destination);
void destination_note_dropped(struct destination *destination);

/* Whether it is known that no answer comes as soon as @time after what it answers was sent. */
bool destination_answers_later(struct destination *destination, uint64_t time);

/* Nothing that is sent now is answered before, ns; 0: not known. */
uint64_t destination_least_round_trip(struct destination *destination);

/* Whether answers come soon, as far as is known. */
bool destination_is_near(const struct destination *destination);

/* How much may be in flight now. */
uint64_t destination_limit(struct destination *destination);

/* @member doesn't wait any more (its QP is being destroyed or reset). */
void destination_forget(struct destination *destination, struct arbiter_member *member);

#endif
