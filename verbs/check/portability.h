/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What works here and not on another card: what the application asked for and was granted is
 * compared with profiles (verbs/check/cards.h), and reported with the numbers of both, as the
 * causes 0x72xx. What a profile doesn't say is never reported; nor is a limit that the device
 * itself has: the application has asked the device for it, and does so elsewhere.
 *
 * compared_NAME() has the arguments and results of urxe_NAME(), calls it, and compares if it
 * succeeded. What librdmacm makes for an id it makes by verbs, which are compared. The checked
 * verbs (verbs/check/calls.h) call these, in any thread, without locks. Off, each is a look at a
 * number.
 */
#ifndef URXE_VERBS_CHECK_PORTABILITY_H
#define URXE_VERBS_CHECK_PORTABILITY_H

#include "verbs/mr_ex.h"
#include "verbs/ours.h"
#include "verbs/rdma/rdma.h"

#define COMPARED(name) __typeof__(urxe_##name) compared_##name

COMPARED(alloc_pd);
COMPARED(reg_mr);
COMPARED(reg_mr_iova);
COMPARED(reg_mr_iova2);
COMPARED(alloc_mw);
COMPARED(alloc_dm);
COMPARED(create_ah);
COMPARED(create_cq);
COMPARED(create_cq_ex);
COMPARED(resize_cq);
COMPARED(create_srq);
COMPARED(create_srq_ex);
COMPARED(open_xrcd);
COMPARED(create_qp);
COMPARED(create_qp_ex);
COMPARED(modify_qp);
COMPARED(attach_mcast);
COMPARED(post_send);
/* post_requests() of what ibv_wr_complete() has built. */
int compared_post_built(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
COMPARED(rdma_connect);
COMPARED(rdma_accept);
COMPARED(rdma_join_multicast);
COMPARED(rdma_join_multicast_ex);

#endif
