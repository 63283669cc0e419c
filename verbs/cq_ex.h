/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended polling: ibv_start_poll() and what goes with it, one completion after the other, of
 * which the application reads just the fields that it wants.
 *
 * Called by verbs/cq.c when such a CQ is made; the operations by the application, through the
 * pointers of struct ibv_cq_ex. cq_extra.poll_lock is held from a successful ibv_start_poll() to
 * ibv_end_poll().
 */
#ifndef URXE_VERBS_CQ_EX_H
#define URXE_VERBS_CQ_EX_H

#include <infiniband/verbs.h>

#include "emu/objects/cq.h"

/*
 * The wc_flags that we can serve. Not those of what the kernel keeps for itself (a VLAN's tag) and
 * of what a device has without RoCE (flow steering, tag matching).
 */
#define CQ_EX_TIMESTAMPS                                                                           \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define CQ_EX_FLAGS (IBV_WC_STANDARD_FLAGS | CQ_EX_TIMESTAMPS)

void cq_ex_init(struct cq *cq, uint64_t wc_flags);

/* Take completions, driving the link when there are none. verbs/cq.c */
int cq_take(struct cq *cq, struct completion *completions, int max);

#endif
