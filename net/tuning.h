/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tuning: every constant that was chosen by measuring, with the reason for its
 * value. What the specification or the wire format fixes isn't here. How to
 * measure again: docs/performance.md.
 */
#ifndef URXE_NET_TUNING_H
#define URXE_NET_TUNING_H

/* --- acknowledgements that wait (emu/ack_queue.h), ns ----------------------------------- */

/*
 * For the turn that finds nothing to receive. The background thread goes on at
 * once while an application that waits for its memory to change needs up to a
 * microsecond to post its answer; a peer that waits for the ACK alone loses this.
 */
#define ACK_WAIT 2000
/* For a polling thread that finds nothing: its application has had the time to answer. */
#define ACK_WAIT_POLLED 500
/* For turns that do find something: other QPs' streams mustn't hold up an ACK for ever. */
#define ACK_WAIT_BUSY 20000
/* A stream is acknowledged this often at least: some 5 % of what its packets cost. */
#define ACK_PACKETS 32
/*
 * An application that polls, and then computes before it answers, leaves its ACK
 * to the background thread's tick. One that waited longer than this did so in
 * vain, and the next so many of the QP's ACKs don't wait.
 */
#define ACK_VAIN 50000
#define ACK_HASTY 16

#endif
