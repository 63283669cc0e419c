/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On-demand paging: regions with IBV_ACCESS_ON_DEMAND, whose memory may come and go while they
 * are registered. Nothing is pinned here in any region, so these differ in little: what is
 * registered needn't be there, the whole address space can be (address NULL, length SIZE_MAX),
 * and an access to what isn't there is refused like one that the key doesn't cover.
 *
 * For verbs/. No state, no locks.
 */
#ifndef URXE_EMU_ODP_H
#define URXE_EMU_ODP_H

#include <infiniband/verbs.h>

struct pd;

/* What may be on demand, by transport: ibv_query_device_ex(), which has XRC in another field. */
extern const struct ibv_odp_caps odp_caps;
extern const uint32_t odp_xrc_caps;

/*
 * Have pages of on-demand regions present, as ibv_advise_mr(3) says. Returns 0 or
 *   ENOTSUP  no such advice
 *   EINVAL   no SGE; a memory window's key; a region that isn't on demand
 *   ENOENT   a key that its region doesn't have any more
 *   EPERM    another protection domain's; PREFETCH_WRITE of what can't be written
 *   EFAULT   no such key; beyond the region; nothing is mapped there
 */
int odp_advise(struct pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *sge,
	       uint32_t count);

#endif
