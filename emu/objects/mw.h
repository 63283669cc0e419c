/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBA 10.6.7): keys that a work request binds to a part of a
 * memory region, and that can be taken back without touching the region.
 *
 *   type 1   bound by ibv_bind_mw(); the device picks a new R_Key each time; any
 *            QP of the protection domain may use it; bound to nothing by length 0
 *   type 2B  bound by IBV_WR_BIND_MW to one QP; the consumer picks the low eight
 *            bits of the R_Key, and ibv_mw.rkey is the key of the last bind; must
 *            be invalidated before it is bound again, by IBV_WR_LOCAL_INV here or a
 *            SEND with invalidate from the peer. When that QP is destroyed the window stays
 *            bound, and no QP can use it, until it is deallocated
 *
 * The verbs layer makes and destroys windows. The requester binds, and it and the responder
 * invalidate, with a QP lock held; hca.mw_bind_lock, taken under it, makes that one at a time.
 */
#ifndef URXE_EMU_MW_H
#define URXE_EMU_MW_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "emu/objects/mr.h"

struct mw {
	struct ibv_mw ibv;
	uint32_t handle; /* as it was made: that of the ABI structure is the application's */
	struct hca *hca;
	struct key key;
	struct mr *region; /* that it is bound to, or NULL */
};

/* The window that has @key, of kind KEY_WINDOW. */
static inline struct mw *mw_of_key(const struct key *key)
{
	return (struct mw *)((char *)key - offsetof(struct mw, key));
}

/* What a bind asks for, as kept in a work request. */
struct mw_bind {
	uint32_t window; /* the number of its key */
	uint32_t rkey;	 /* the new one, of which the low MR_KEY_BITS count */
	uint32_t region; /* L_Key; 0 for none */
	uint64_t addr, length;
	int access;
};

/* 0, EINVAL (no such type), EOPNOTSUPP (the device lacks it) or an error of capacity_take(). */
int mw_alloc(struct pd *pd, enum ibv_mw_type type, struct mw **mw);
void mw_dealloc(struct mw *mw);

/* Whether it may get @access, IBV_ACCESS_*, by a bind. */
bool mw_allows_access(const struct mw *mw, int access);

/*
 * Execute a bind for @qp. 0, or EINVAL for any of the reasons of IBA 10.6.7.2
 * (the completion says MW_BIND_ERR).
 */
int mw_bind(struct qp *qp, const struct mw_bind *bind);

/* Take back the type 2 window behind @rkey, for @qp. 0, or EINVAL when it is no such thing. */
int mw_invalidate(struct qp *qp, uint32_t rkey);

#endif
