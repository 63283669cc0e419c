/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of asynchronous events where they are raised (net/cause/events.def). Those that a
 * refused request raises are reported by emu/explain/responder. Called with the locks of the
 * objects held.
 */
#ifndef URXE_EMU_EXPLAIN_EVENT_H
#define URXE_EMU_EXPLAIN_EVENT_H

#include "net/cause/cause.h"

struct cq;
struct link_frame;
struct qp;
struct srq;

/* "QP ...: @what" */
void explain_qp_event(const struct qp *qp, enum cause cause, const char *what);
void explain_srq_limit(const struct srq *srq, uint32_t limit);
/* @frame asks for a migration that this side can't follow. */
void explain_bad_migration(const struct qp *qp, const struct link_frame *frame);
/* A completion of the QP with the number @qpn finds it full. */
void explain_cq_overrun(const struct cq *cq, uint32_t qpn);
/* One of @qp's is lost as an earlier one was. */
void explain_cq_in_error(const struct qp *qp, const struct cq *cq);

#endif
