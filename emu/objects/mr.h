/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys to memory, and the one check that every access through a key passes
 * (IBA 10.6.3): key, protection domain, access right, bounds. A key stands for a
 * memory region, or for a memory window (emu/objects/mw.h). L_Key and R_Key of a region
 * are the same number: the region's number, then eight bits that change with
 * each use of the number. The null region has an L_Key alone.
 *
 * Keys are found without a lock (emu/objects/table.h). mr_pin() keeps one in force
 * until mr_unpin(); a call that takes it away waits for pins, so memory can be
 * touched between the two. A key changes only while it is withdrawn.
 *
 * The verbs layer makes and destroys regions; the machines of QPs access memory.
 */
#ifndef URXE_EMU_MR_H
#define URXE_EMU_MR_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/objects/names.h"

struct hca;
struct origin;
struct pd;
struct qp;

#define MR_KEY_BITS 8

enum key_kind { KEY_REGION, KEY_WINDOW, KEY_NULL };

/* What is in hca.keys. */
struct key {
	enum key_kind kind;
	uint32_t value; /* the L_Key and R_Key */
	bool valid;	/* windows: bound */
	/*
	 * Windows of type 2: the handle of the only QP that may use it, and its number, which
	 * another one may get; else 0.
	 */
	uint32_t bound_to, bound_to_number;
	struct pd *pd;
	uint8_t *address;
	uint64_t length;
	uint64_t iova;	       /* by which SGEs and remote peers name @address */
	int access;	       /* IBV_ACCESS_* */
	struct origin *origin; /* where it was registered or allocated: net/cause/origin.h */
};

static inline bool key_covers(const struct key *key, uint64_t va, uint64_t length)
{
	return va >= key->iova && length <= key->length && va - key->iova <= key->length - length;
}

/* Of the null region it is always the same one, which has what a packet can carry. */
static inline uint8_t *key_address(const struct key *key, uint64_t va)
{
	uint64_t offset = key->kind == KEY_NULL ? 0 : va - key->iova;

	return (uint8_t *)((uintptr_t)key->address + offset);
}

static inline uint32_t key_number(uint32_t value)
{
	return value >> MR_KEY_BITS;
}

/* The key of entry @number of hca.keys; of @byte its low MR_KEY_BITS count. */
static inline uint32_t key_value(uint32_t number, uint32_t byte)
{
	return number << MR_KEY_BITS | (byte & ((1u << MR_KEY_BITS) - 1));
}

struct mr {
	struct ibv_mr ibv; /* addr, length, lkey, rkey */
	uint32_t handle;   /* as it was made: that of the ABI structure is the application's */
	struct hca *hca;
	struct key key;
	_Atomic uint32_t windows; /* bound to it: EBUSY while there are any */
	/* Of memory that isn't the application's: called with @backing at deregistration. */
	void (*release)(void *backing);
	void *backing;
	struct names names;
	struct observe_region *observed; /* to other processes */
};

/* The region that has @key, which is no window's. */
static inline struct mr *mr_of_key(const struct key *key)
{
	return (struct mr *)((char *)key - offsetof(struct mr, key));
}

/* For regions of memory that isn't the application's. */
struct mr_init {
	enum key_kind kind;
	void *address;
	size_t length;
	uint64_t iova;
	int access;
	void (*release)(void *backing);
	void *backing;
};

/* @init isn't checked. Returns 0, ENOMEM or an error of capacity_take(). */
int mr_create(struct pd *pd, const struct mr_init *init, struct mr **mr);

/*
 * There is no key for a new region or window, for @error, which is returned; why is reported: all
 * keys are in use, or there is no memory for the table of them.
 */
int mr_refuse_key(struct hca *hca, int error);

/* 0, EINVAL or EOPNOTSUPP: what mr_register() says of @access. */
int mr_check_access(const struct hca *hca, int access);

/* All SGEs of it read as zeros; what is written to them is dropped. Returns as mr_create(). */
int mr_alloc_null(struct pd *pd, struct mr **mr);

/*
 * Register @length bytes at @addr, named by @iova. Errors: EINVAL (REMOTE_WRITE
 * or REMOTE_ATOMIC without LOCAL_WRITE, IBA 10.6.3.1; unknown access bits;
 * wrap-around), EOPNOTSUPP (persistent flush),
 * EFAULT (not mapped, beyond a file's end, or not writable where the access needs it), ENOMEM.
 * Memory that is paged on demand (emu/objects/odp.h) needn't be there.
 */
int mr_register(struct pd *pd, void *addr, size_t length, uint64_t iova, int access,
		struct mr **mr);
/* 0; EBUSY: windows are bound to it (IBA 10.6.7.2.6); ENOENT: another name of it destroyed it. */
int mr_destroy(struct mr *mr);
/* A name of it ends, and with the last one its memory. */
void mr_put(struct mr *mr);
/* The one with @handle, or NULL. */
struct mr *mr_find(struct hca *hca, uint32_t handle);

/*
 * ibv_rereg_mr: 0 or one of the negative IBV_REREG_MR_ERR_*; of ERR_CMD, errno tells more. Keys
 * change with the translation. Only regions of the application's memory can be changed.
 */
int mr_reregister(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, int access);

/* Memory that may be touched until mr_unpin(). */
struct mr_pin {
	uint8_t *address;
	uint32_t number; /* for mr_unpin() */
	const struct key *key;
};

/*
 * The check of an L_Key. @access: the IBV_ACCESS_* bits needed (0 for a local
 * read). Returns 0, or EACCES whichever of the checks failed. @length 0 is the
 * caller's to skip (no key is checked for it).
 */
int mr_pin(struct hca *hca, const struct pd *pd, uint32_t lkey, uint64_t va, uint64_t length,
	   int access, struct mr_pin *pin);

/* The check of an R_Key, that a packet for @qp names: regions and windows. */
int mr_pin_remote(const struct pd *pd, const struct qp *qp, uint32_t rkey, uint64_t va,
		  uint64_t length, int access, struct mr_pin *pin);

/* The checks of a key without those of an address: of all that it names. Nothing is pinned. */
bool mr_allows(struct hca *hca, const struct pd *pd, const struct qp *qp, uint32_t key, int access);

/*
 * The same checks of a key that may be pinned already: then there is nothing to
 * pin or to unpin. @qp: the one that got the packet which names an R_Key, NULL for an L_Key.
 * Returns the address, or NULL.
 */
uint8_t *mr_pinned(const struct mr_pin *pin, const struct pd *pd, const struct qp *qp, uint32_t key,
		   uint64_t va, uint64_t length, int access);

void mr_unpin(struct hca *hca, const struct mr_pin *pin);

/*
 * A pin keeps the key, not the memory, which the application may have unmapped, protected or
 * truncated (net/guard.h). Copy @length bytes to @to, which @pin covers, or see whether as
 * many can be read at @from. 0, or what mr_fault() returns.
 */
int mr_write(struct hca *hca, const struct mr_pin *pin, uint8_t *to, const void *from,
	     uint32_t length);
int mr_probe(const struct mr_pin *pin, const uint8_t *from, uint32_t length);

/*
 * The errno of memory that was gone when it was accessed (guard_run()): EFAULT, as hardware would
 * have had it pinned; in a region on demand EACCES, as for a range that the key doesn't cover.
 */
int mr_fault(const struct mr_pin *pin);

/*
 * Access after access with one pin: @pin (with key NULL: none) is kept where it covers this
 * one too, else given up for another. Returns the address; or NULL, and nothing is
 * pinned. @qp: as in mr_pinned().
 */
uint8_t *mr_repin(struct hca *hca, struct mr_pin *pin, const struct pd *pd, const struct qp *qp,
		  uint32_t key, uint64_t va, uint64_t length, int access);

/* Give up what mr_repin() kept pinned, if anything. */
void mr_unpin_kept(struct hca *hca, struct mr_pin *pin);

/* --- scatter/gather lists: for requester, responder and completer, under the QP's lock --- */

/* An SGE of length zero names no memory, and its key isn't checked (IBA 10.6.3.2). */

/*
 * Of @length bytes from *@offset of a list on: how many are in @sge, at *@va. 0: they begin behind
 * it. *@offset becomes where to begin in the next element.
 */
static inline uint32_t sge_part(const struct ibv_sge *sge, uint64_t *offset, uint64_t length,
				uint64_t *va)
{
	uint64_t skipped = *offset;

	if (skipped >= sge->length) {
		*offset -= sge->length;
		return 0;
	}
	*offset = 0;
	*va = sge->addr + skipped;
	return sge->length - skipped < length ? sge->length - skipped : length;
}

/* Whether mr_pin() would allow @access to every SGE of non-zero length. 0 or EACCES. */
int sge_check(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
	      int access);

/*
 * Copy @length bytes to byte @offset of the list. The list is known to be long
 * enough. 0, or EACCES if a part fails its check, or EFAULT if its memory is gone (nothing
 * is said of how much was written then). As packet comes after packet the last part stays
 * pinned, and the next one tries it first (mr_repin()).
 */
int sge_scatter(struct hca *hca, const struct pd *pd, const struct ibv_sge *sge, uint32_t count,
		uint64_t offset, const void *data, uint32_t length, struct mr_pin *pin);

/* "" or what to say of a list that isn't there. */
static inline const char *sge_list_missing(const struct ibv_sge *sge, int count)
{
	return count && !sge ? " and sg_list NULL" : "";
}

/* Whether it can be posted to a queue whose lists have @most SGEs. */
static inline bool sge_list_fits(const struct ibv_sge *sge, int count, uint32_t most)
{
	return (uint32_t)count <= most && (sge || !count);
}

/* Sum of the lengths: up to 2^32 - 1 each, so 64 bits. */
static inline uint64_t sge_total(const struct ibv_sge *sge, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += sge[i].length;
	return total;
}

#endif
