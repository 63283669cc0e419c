/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester: send work requests become request packets (IBA 9.7.2 to 9.7.3,
 * 9.7.5.1). Packets are never kept: a retransmission is built again from the
 * work request and the application's memory, by moving the cursor back.
 *
 * Its state belongs to the QP and is protected by qp.lock.
 */
#ifndef URXE_EMU_REQUESTER_H
#define URXE_EMU_REQUESTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct qp;
struct outbox;
struct cwnd;

struct requester {
	uint32_t psn;		 /* of the next packet to send: the cursor */
	uint32_t unacked;	 /* the oldest PSN without acknowledgement; == psn when nothing is
				    outstanding */
	uint32_t highest;	 /* one beyond the highest PSN ever sent */
	uint32_t rd_atomic;	 /* READ and atomic request packets without their response */
	uint32_t since_request;	 /* packets since the last AckReq */
	uint64_t in_flight;	 /* what this QP has in its congestion window */
	struct cwnd *cwnd;	 /* RC, once connected */
	uint32_t rcvbuf_space;	 /* UC, UD: bytes until the link is asked again for the receiver's
				    space ... */
	uint32_t paces;		 /* how often in a row there was none */
	union ibv_gid rcvbuf_at; /* ... at this destination */
	uint32_t rcvbuf_qpn;

	uint64_t arrived; /* was in the congestion window until this run of responses; to be
			     released */
	bool progress;	  /* and this run acknowledged something new */

	bool implied_nak; /* a missing response was noticed: not again before there is progress */

	uint8_t retries, rnr_retries; /* left */
	uint64_t timeout_at;	      /* local ACK timeout; TIME_NEVER when not armed */
	uint64_t stale_at;	      /* when in_flight doesn't count any more; or TIME_NEVER */
	/*
	 * Nothing that follows shows that the last packets, or the NAK, were lost. So if
	 * there is no answer for a while the oldest packet is sent again, alone: whatever
	 * the responder has, it acknowledges. This isn't a retry, for nothing says that
	 * anything was lost.
	 */
	uint64_t probe_at;     /* or TIME_NEVER */
	uint8_t probes;	       /* since there was progress */
	bool probing;	       /* one packet at a time, until there is progress */
	uint64_t paused_until; /* RNR delay or pacing; 0 when not paused */

	/* In cwnd->waiting. */
	bool waiting;
	uint8_t skipped; /* how often the space was too small since it last sent */
	struct qp *waiting_prev, *waiting_next;
};

void requester_reset(struct requester *requester);

/* Send what may be sent now. The caller flushes the outbox before it unlocks the QP. */
void requester_run(struct qp *qp, struct outbox *outbox);

/*
 * Go back: everything from requester.unacked on is to be sent again. The
 * caller has counted the retry.
 */
void requester_restart(struct qp *qp);

/* There was no answer for long: ask for one. */
void requester_probe(struct qp *qp, uint64_t now);

/* Begin or begin anew the local ACK timeout (IBA 9.7.6.1.3), or stop it when nothing is
 * outstanding. */
void requester_restart_timeout(struct qp *qp, uint64_t now);

/* There was no progress for CWND_STALE: leave the congestion window to others. */
void requester_leave_cwnd(struct qp *qp);

/* The earliest of its deadlines, or TIME_NEVER. */
uint64_t requester_deadline(const struct requester *requester);

/*
 * Whether what is posted may wait for more: while much is under way small messages
 * are coalesced, for a call that sends one costs as much as one that sends many. What
 * is under way will be acknowledged; then, or when enough have come together, they go.
 */
bool requester_coalesces(struct qp *qp);

#endif
