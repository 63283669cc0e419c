/* SPDX-License-Identifier: BSD-2-Clause */
/* What urxe has by value of the headers of rdma-core 65, against them or newer ones. */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "net/newer_verbs.h"
#include "verbs/mr_ex.h"
#include "verbs/rdma/rdma.h"

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #theirs)
#define SAME_MEMBER(member)                                                                        \
	SAME(offsetof(struct mr_init_attr, member), offsetof(struct ibv_mr_init_attr, member))

SAME((int)MR_EX_IOVA, (int)IBV_REG_MR_MASK_IOVA);
SAME((int)MR_EX_ADDR, (int)IBV_REG_MR_MASK_ADDR);
SAME((int)MR_EX_FD, (int)IBV_REG_MR_MASK_FD);
SAME((int)MR_EX_FD_OFFSET, (int)IBV_REG_MR_MASK_FD_OFFSET);
SAME((int)MR_EX_DMAH, (int)IBV_REG_MR_MASK_DMAH);
SAME((int)MR_EX_BUF, (int)IBV_REG_MR_MASK_BUF);
SAME_MEMBER(length);
SAME_MEMBER(access);
SAME_MEMBER(comp_mask);
SAME_MEMBER(iova);
SAME_MEMBER(addr);
SAME_MEMBER(fd);
SAME_MEMBER(fd_offset);
SAME_MEMBER(dmah);
SAME_MEMBER(buf);

SAME(ODP_SUPPORT_FLUSH, IBV_ODP_SUPPORT_FLUSH);
SAME(ODP_SUPPORT_ATOMIC_WRITE, IBV_ODP_SUPPORT_ATOMIC_WRITE);
SAME(EVENT_DEVICE_SPEED_CHANGE, IBV_EVENT_DEVICE_SPEED_CHANGE);
SAME(PORT_ATTR_ACTIVE_SPEED_EX, offsetof(struct ibv_port_attr, active_speed_ex));

SAME(RDMA_EVENT_ADDRINFO_RESOLVED, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
SAME(RDMA_EVENT_ADDRINFO_ERROR, RDMA_CM_EVENT_ADDRINFO_ERROR);
SAME(RDMA_EVENT_USER, RDMA_CM_EVENT_USER);
