/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The deadlines of loss recovery: when an answer is late enough for a probe, and when the local ACK
 * timeout expires (IBA 9.7.6.1.3; RFC 9002, 6.2). Called by the other files of
 * recovery, and by emu/explain/peer, with qp.lock held.
 */
#ifndef URXE_EMU_RECOVERY_TIMERS_H
#define URXE_EMU_RECOVERY_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct qp;
struct recovery;

/* Begin anew, if there is anything outstanding. */
void recovery_timers_restart(struct qp *qp, uint64_t now);
/* Also cancels the probe that the requester was to send. */
void recovery_timers_stop(struct recovery *recovery);

/* The local ACK timeout at the least: by the QP's attribute, and as the card has it. */
uint64_t recovery_least_timeout(const struct qp *qp);

/* How long what sends a packet twice waits: longer than what doesn't, where losses are unlikely. */
uint64_t recovery_retransmit_timeout(const struct recovery *recovery);
/* When the next probe is due, unless there is an answer. */
uint64_t recovery_next_probe(const struct qp *qp, uint64_t now);

/*
 * Responses came behind one that is missing, where many are lost: the peer is still answering, and
 * what was asked for again may follow them.
 */
void recovery_put_off_asking(struct qp *qp, uint64_t now);

/* Whether the probe that is due is to be a retransmission, rather than a new packet. */
bool recovery_retransmit_due(const struct qp *qp, uint64_t now);

/*
 * Whether it is to be the oldest packet alone, while sending goes on: where many packets are lost,
 * to a peer that keeps what is behind them.
 */
bool recovery_early_due(const struct qp *qp, uint64_t now);

/*
 * The local ACK timeout has expired. Whether the answer may be among what had arrived by then and
 * we haven't read yet, for want of the CPU: then the timeout is put off for a moment, and for
 * TIMEOUT_PUT_OFF_MOST in all.
 */
bool recovery_put_off(struct qp *qp, uint64_t now);

/*
 * Whether the receiver, a process of this machine, has our packets and hasn't read them: it is
 * stopped by a debugger, or doesn't get the CPU. Hardware would have answered for such a process,
 * so this is no retry. One that has read all that waited for it a timeout ago could have answered.
 */
bool recovery_is_unread(struct qp *qp);

#endif
