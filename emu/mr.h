/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions, and the one check that every access through a key passes
 * (IBA 10.6.3): key, protection domain, access right, bounds. L_Key and R_Key
 * are the same number: the region's number, then eight bits that change with
 * each use of the number.
 *
 * Regions are found without a lock (emu/table.h). mr_hold() keeps one
 * registered until mr_release(); ibv_dereg_mr waits for holders, so memory can
 * be touched between the two.
 */
#ifndef URXE_EMU_MR_H
#define URXE_EMU_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct hca;
struct pd;

#define MR_KEY_BITS 8

struct mr {
	struct ibv_mr ibv; /* addr, length, lkey, rkey */
	struct hca *hca;
	struct pd *pd;
	uint64_t iova; /* the address by which SGEs and remote peers name ibv.addr */
	int access;    /* IBV_ACCESS_* */
};

/*
 * Register @length bytes at @addr, named by @iova. Errors: EINVAL (REMOTE_WRITE
 * or REMOTE_ATOMIC without LOCAL_WRITE, IBA 10.6.3.1; unknown access bits;
 * wrap-around; length 0 ... see verbs.md 9), EOPNOTSUPP (on demand, flush),
 * EFAULT (not mapped, or not writable where the access needs it), ENOMEM.
 */
int mr_register(struct pd *pd, void *addr, size_t length, uint64_t iova, int access,
		struct mr **mr);
int mr_deregister(struct mr *mr);

/* ibv_rereg_mr: 0 or one of the negative IBV_REREG_MR_ERR_*. Keys change with the translation. */
int mr_reregister(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, int access);

/* Memory that may be touched until mr_release(). */
struct mr_hold {
	uint8_t *address;
	uint32_t number; /* for mr_release() */
};

/*
 * The check. @access: the IBV_ACCESS_* bits needed (0 for a local read).
 * Returns 0, or EACCES whichever of the checks failed. @length 0 is the
 * caller's to skip (no key is checked for it).
 */
int mr_hold(struct hca *hca, const struct pd *pd, uint32_t key, uint64_t va, uint64_t length,
	    int access, struct mr_hold *hold);
void mr_release(struct hca *hca, const struct mr_hold *hold);

#endif
