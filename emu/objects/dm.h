/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: on a NIC its own, here the library's. Applications copy to and from it, and
 * register parts of it as regions, whose addresses count from zero. Called by verbs/.
 *
 * The sum of the lengths and each one's count of regions are atomic. hca.objects_lock is taken for
 * those alone that may be imported (dm_list()): a forked child can free the others, though a thread
 * of its parent had that lock. What is copied while a peer writes is the application's business, as
 * with all memory.
 */
#ifndef URXE_EMU_DM_H
#define URXE_EMU_DM_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "emu/objects/names.h"

struct hca;
struct mr;
struct origin;
struct pd;

struct dm {
	struct ibv_dm ibv;
	uint32_t handle; /* as it was made: that of the ABI structure is the application's */
	struct hca *hca;
	uint8_t *memory;
	size_t length;
	_Atomic uint32_t users; /* regions: EBUSY while there are any */
	struct origin *origin;	/* where it was made: net/cause/origin.h */
	struct names names;
	bool listed;
	struct dm *prev, *next; /* utlist, hca.dms */
};

/*
 * Zeros, at a multiple of 2^@log_alignment. EINVAL: no length, more than there is, an alignment
 * beyond a page's. ENOMEM: others have it.
 */
int dm_alloc(struct hca *hca, size_t length, uint32_t log_alignment, struct dm **dm);
/* 0; EBUSY; ENOENT: it was destroyed by another name of it. */
int dm_destroy(struct dm *dm);
/* A name of it ends, and with the last one its memory. */
void dm_put(struct dm *dm);

/* Let it be found by its handle: this takes a lock, and so does destroying it then. */
void dm_list(struct dm *dm);
/* The one with @handle, or NULL. */
struct dm *dm_find(struct hca *hca, uint32_t handle);

/* In units of four bytes, as of NICs. 0; EINVAL: no multiple of four; EFAULT: beyond its end. */
int dm_copy_to(struct dm *dm, uint64_t offset, const void *from, size_t length);
int dm_copy_from(void *to, const struct dm *dm, uint64_t offset, size_t length);

/*
 * A region of @length bytes from @offset on. EINVAL: beyond the end; access other than local
 * and remote, without ZERO_BASED, or as mr_register() has it.
 */
int dm_register(struct pd *pd, struct dm *dm, uint64_t offset, size_t length, int access,
		struct mr **mr);

#endif
