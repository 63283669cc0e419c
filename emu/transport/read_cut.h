/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a READ is cut into requests. One READ request asks for so many packets at the most; a longer
 * READ is several requests with consecutive PSNs, each as a retry of a part would be
 * (IBA 9.7.5.1.3). So it is the requester that decides how much is in flight.
 *
 * Called by the requester, under qp.lock. Where the cuts are is in the work request (struct
 * read_cut of emu/transport/send_queue.h), for retransmissions and for the completer.
 */
#ifndef URXE_EMU_READ_CUT_H
#define URXE_EMU_READ_CUT_H

struct qp;
struct send_wqe;

/* @wqe, a READ, has its PSNs, and nothing of it has been asked for yet. */
void read_cut_begin(const struct qp *qp, struct send_wqe *wqe);

/*
 * The window may be another one than when @wqe, at the cursor, began. What hasn't been asked for
 * yet is cut anew, unless some of what was cut two sizes ago has yet to be answered. What was asked
 * for is asked for again within the same bounds: a responder knows each request by them
 * (IBA 9.7.5.1.3).
 */
void read_cut_anew(const struct qp *qp, struct send_wqe *wqe);

#endif
