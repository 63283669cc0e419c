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
	_Atomic uint64_t retransmit_least; /* the least wait before a packet is sent twice */
	_Atomic uint64_t repair_timeout;   /* of retransmissions after a NAK; 0: not measured */
	/* destination_answered_late(), as long as no round trip was measured; else 0. */
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
 * @bytes were acknowledged; @sample: a round trip that was measured, or 0. @ambiguous: a probe was
 * sent meanwhile, and @sample may time the answer to that. Where packets have been lost lately the
 * sample is ignored then; elsewhere it counts, for the peer was only slow.
 */
void destination_acked(struct destination *destination, uint64_t bytes, uint64_t sample,
		       bool ambiguous, uint64_t now);
/* @bytes leave the window without an acknowledgement: they weren't sent, or count no longer. */
void destination_discard(struct destination *destination, uint64_t bytes);

/* Whether anything was acknowledged after @time. */
bool destination_acked_since(const struct destination *destination, uint64_t time);

/* Whether packets have been lost lately. */
bool destination_lossy(const struct destination *destination, uint64_t now);
/* So many that a NAK or what it asked for is lost more often than an answer is late. */
bool destination_very_lossy(const struct destination *destination, uint64_t now);

/* Something was lost, or marked. Returns what cwnd_on_lost() does. */
uint32_t destination_lost(struct destination *destination, enum cwnd_loss loss, uint64_t now);
/* What was lost was sent before the latest reduction: no reason for another (RFC 9002, 7.3.2). */
void destination_lost_before(struct destination *destination, uint64_t now);
/* A queue pair goes back N, for some of what it had in flight was lost. */
void destination_restarted(struct destination *destination);
/*
 * A packet was retransmitted as a probe, and its acknowledgement came @time later. Returns whether
 * the first copy had been lost. It had, if that is about a round trip: a peer that was only slow
 * would acknowledge the first copy, which may happen at any time.
 */
bool destination_probe_answered(struct destination *destination, uint64_t time, uint64_t now);
/*
 * After an ACK timeout the answer came, @time after the packet had first been sent. As long as no
 * round trip was measured this is all that is known of a path on which one takes longer than the
 * timeout: what was retransmitted isn't timed (Karn's rule).
 */
void destination_answered_late(struct destination *destination, uint64_t time);
/* How long an answer may take, as far as is known. */
uint64_t destination_slowest_answer(const struct destination *destination);
/* The retransmission that a NAK asked for was acknowledged after @time. */
void destination_repaired(struct destination *destination, uint64_t time, uint64_t now);
/* What was taken for lost in reduction number @reduction had arrived. */
void destination_spurious(struct destination *destination, uint32_t reduction);

/*
 * The peer misses a packet: whether that one is to be retransmitted alone, rather than all from
 * there on. Not if the peer drops what comes behind a gap; but each DROPS_UNTIL_RETRANSMIT-th gap
 * is a test whether it still does.
 */
bool destination_on_gap(struct destination *destination);
/* Whether the peer is known to keep what comes behind a gap. */
bool destination_keeps(struct destination *destination);
/* The answer to a retransmission shows that the peer had kept what was sent behind it, or not. */
void destination_note_kept(struct destination *destination);
void destination_note_dropped(struct destination *destination);

/* Whether @time is shorter than any round trip: an answer so soon is to an earlier packet. */
bool destination_answers_later(struct destination *destination, uint64_t time);

/* The shortest round trip, ns; 0: none was measured yet. */
uint64_t destination_least_round_trip(struct destination *destination);

/* Whether a round trip has ever taken COALESCE_ROUND_MOST or less. */
bool destination_is_near(const struct destination *destination);

/* The size of the congestion window, bytes. */
uint64_t destination_limit(struct destination *destination);

/* @member doesn't wait any more (its QP is being destroyed or reset). */
void destination_forget(struct destination *destination, struct arbiter_member *member);

#endif
