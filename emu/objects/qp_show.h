/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What other processes see of a queue pair: its record (net/observe/record.h). Everything here
 * is under qp.lock.
 */
#ifndef URXE_EMU_QP_SHOW_H
#define URXE_EMU_QP_SHOW_H

#include "emu/objects/qp.h"

/* When the QP is made and destroyed, and with new attributes. ENOMEM. */
int qp_show_create(struct qp *qp);
void qp_show_destroy(struct qp *qp);
void qp_show_attributes(struct qp *qp);

/* A completion with an error that isn't a flush. */
void qp_show_error(struct qp *qp, const struct ibv_wc *wc);

/* A work request is done, after @now - posted_at. */
void qp_show_request(struct qp *qp, const struct send_wqe *wqe);

/* Before qp.lock is released: a line of 64 bytes, of numbers that are in the CPU's cache. */
static inline void qp_show_progress(struct qp *qp)
{
	uint64_t in_flight = qp->recovery.member.in_flight;

	qp->observed->progress = (struct observe_qp_progress){
		.changed = qp->now,
		.posted = qp->sq.posted,
		.sent = qp->sq.next,
		.done = qp->sq.done,
		.receives = qp->rq.count,
		.psn = qp->requester.psn,
		.unacked = qp->requester.unacked,
		.expected_psn = qp->responder.expected_psn,
		.in_flight = in_flight < UINT32_MAX ? in_flight : UINT32_MAX,
		.rd_atomic = qp->requester.rd_atomic,
		.state = qp->state,
		.recovery = qp->recovery.state,
		.retries = qp->recovery.retries,
		.rnr_retries = qp->recovery.rnr_retries,
	};
}

/* So many SENDs and RDMA WRITEs are done, @bytes together: where nothing is measured. */
static inline void qp_show_sent(struct qp *qp, uint32_t messages, uint64_t bytes)
{
	qp->observed->done.traffic.sent_messages += messages;
	qp->observed->done.traffic.sent_bytes += bytes;
}

/* A message of @bytes has arrived, or leaves as the answer to the peer's READ. */
static inline void qp_show_received(struct qp *qp, uint64_t bytes)
{
	qp->observed->done.traffic.received_messages++;
	qp->observed->done.traffic.received_bytes += bytes;
}

static inline void qp_show_answered(struct qp *qp, uint64_t bytes)
{
	qp->observed->done.traffic.sent_messages++;
	qp->observed->done.traffic.sent_bytes += bytes;
}

#endif
