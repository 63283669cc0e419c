/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_*() calls of extended queue pairs: ibv_wr_start() to ibv_wr_complete() build a list of
 * work requests, which is then posted as by ibv_post_send().
 *
 * Called by verbs/qp.c when such a QP is made and destroyed; the operations themselves by the
 * application, through the pointers of struct ibv_qp_ex. The builder is the QP's and has a lock of
 * its own, which is held from start to complete or abort (ibv_wr_post(3)).
 */
#ifndef URXE_VERBS_QP_EX_H
#define URXE_VERBS_QP_EX_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct qp;
struct builder;
struct hca;

/* Whether a QP of @type can be given every operation of @send_ops_flags. */
bool qp_ex_supports(const struct hca *hca, enum ibv_qp_type type, uint64_t send_ops_flags);

/* Give @qp its operations. Returns 0 or ENOMEM. */
int qp_ex_init(struct qp *qp, uint64_t send_ops_flags);
void qp_ex_destroy(struct builder *builder);

#endif
