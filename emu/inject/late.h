/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions that come late because a fault asks for it. They wait with their QP, those behind
 * them too, for the completions of a QP keep their order; its timer brings them. Under qp.lock.
 */
#ifndef URXE_EMU_INJECT_LATE_H
#define URXE_EMU_INJECT_LATE_H

#include <stdbool.h>
#include <stdint.h>

struct completion;
struct cq;
struct qp;

/*
 * @completion, the latest of the send queue or of the receive queue, is to go into @cq. False: now,
 * for no fault asks that it be late, and none is before it.
 */
bool late_add(struct qp *qp, struct cq *cq, const struct completion *completion);
/* Those that are due go where they belong. */
void late_run(struct qp *qp, uint64_t now);
/* When the next one is due, or TIME_NEVER. */
uint64_t late_deadline(const struct qp *qp);
/* The QP is reset: they vanish as those in the CQs do. */
void late_drop(struct qp *qp);

#endif
