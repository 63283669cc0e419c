/* SPDX-License-Identifier: BSD-2-Clause */
/* What urxe says of RDMA FLUSH by value, against headers that have it: rdma-core 47 and newer. */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "net/newer_verbs.h"

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #theirs)

SAME(ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_GLOBAL);
SAME(ACCESS_FLUSH_PERSISTENT, IBV_ACCESS_FLUSH_PERSISTENT);
SAME(WR_FLUSH, IBV_WR_FLUSH);
SAME(WC_FLUSH, IBV_WC_FLUSH);
SAME(QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_FLUSH);
SAME(QP_EX_WR_FLUSH_OFFSET, offsetof(struct ibv_qp_ex, wr_flush));
_Static_assert(__builtin_types_compatible_p(wr_flush_function,
					    __typeof__(((struct ibv_qp_ex *)0)->wr_flush)),
	       "wr_flush");
SAME((int)FLUSH_GLOBAL, (int)IBV_FLUSH_GLOBAL);
SAME((int)FLUSH_PERSISTENT, (int)IBV_FLUSH_PERSISTENT);
SAME((int)FLUSH_RANGE, (int)IBV_FLUSH_RANGE);
SAME((int)FLUSH_MR, (int)IBV_FLUSH_MR);
