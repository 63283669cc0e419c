/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ibv_wr_*() calls of extended queue pairs.
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
