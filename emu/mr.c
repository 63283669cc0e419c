/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: emu/mr.h has the rules. A region is published in hca->keys
 * and changes only while it is not, so that mr_hold() reads it without a lock.
 */
#include "emu/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "emu/hca.h"
#include "emu/memory.h"
#include "emu/pd.h"

/* What newer headers of libibverbs define. */
#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define ACCESS_OPTIONAL 0x3ff00000 /* what a device may ignore */

#define ACCESS_REMOTE_CHANGE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_SUPPORTED                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGE | IBV_ACCESS_REMOTE_READ |                  \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | ACCESS_OPTIONAL)
#define ACCESS_UNSUPPORTED (IBV_ACCESS_ON_DEMAND | ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT)
/* What makes Linux pin memory for writing (ib_access_writable). */
#define ACCESS_WRITABLE (IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGE | IBV_ACCESS_MW_BIND)

static int mr_check_access(int access)
{
	if (access & ~(ACCESS_SUPPORTED | ACCESS_UNSUPPORTED))
		return EINVAL;
	if (access & ACCESS_UNSUPPORTED)
		return EOPNOTSUPP;
	/* IBA 10.6.3.1: nobody far away may do what isn't allowed here. */
	if (access & ACCESS_REMOTE_CHANGE && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static int mr_check_range(const void *addr, size_t length, uint64_t iova, int access)
{
	uint64_t offset_mask = sysconf(_SC_PAGESIZE) - 1;

	/* Linux finds no page to pin. */
	if (!length)
		return EINVAL;
	if ((uintptr_t)addr + length < length)
		return EINVAL;
	if (access & IBV_ACCESS_ZERO_BASED)
		return 0;
	/* Hardware translates page by page, so offsets into pages have to agree. */
	if (((uintptr_t)addr ^ iova) & offset_mask)
		return EINVAL;
	return iova + length < length ? EINVAL : 0;
}

static int mr_check_memory(const void *addr, size_t length, int access)
{
	return memory_check(addr, length, access & ACCESS_WRITABLE);
}

static void mr_new_key(struct mr *mr, uint32_t number)
{
	uint32_t byte = atomic_fetch_add(&mr->hca->key_byte, 1);

	mr->ibv.lkey = number << MR_KEY_BITS | (byte & ((1u << MR_KEY_BITS) - 1));
	mr->ibv.rkey = mr->ibv.lkey;
}

static void mr_set_range(struct mr *mr, void *addr, size_t length, uint64_t iova)
{
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->iova = mr->access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

int mr_register(struct pd *pd, void *addr, size_t length, uint64_t iova, int access, struct mr **mr)
{
	uint32_t number;
	struct mr *made;
	int error;

	error = mr_check_access(access);
	if (!error)
		error = mr_check_range(addr, length, iova, access);
	if (!error)
		error = mr_check_memory(addr, length, access);
	if (error)
		return error;

	made = calloc(1, sizeof(*made));
	if (!made)
		return ENOMEM;
	error = table_reserve(&pd->hca->keys, &number);
	if (error) {
		free(made);
		return error;
	}
	made->hca = pd->hca;
	made->pd = pd;
	made->access = access;
	made->ibv.handle = atomic_fetch_add(&pd->hca->handle, 1);
	mr_set_range(made, addr, length, iova);
	mr_new_key(made, number);
	atomic_fetch_add(&pd->users, 1);
	table_publish(&pd->hca->keys, number, made);
	*mr = made;
	return 0;
}

int mr_deregister(struct mr *mr)
{
	table_remove(&mr->hca->keys, mr->ibv.lkey >> MR_KEY_BITS);
	atomic_fetch_sub(&mr->pd->users, 1);
	free(mr);
	return 0;
}

/* What the region would be, checked before anything of it changes. 0 or an errno. */
static int mr_check_change(const struct mr *mr, int flags, const void *addr, size_t length,
			   int access)
{
	int error;

	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = mr->ibv.addr;
		length = mr->ibv.length;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = mr->access;
	error = mr_check_access(access);
	if (!error)
		error = mr_check_range(addr, length, (uintptr_t)addr, access);
	if (!error && flags & (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS))
		error = mr_check_memory(addr, length, access);
	return error;
}

static void mr_change(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length,
		      int access)
{
	uint32_t number = mr->ibv.lkey >> MR_KEY_BITS;
	bool was_zero_based = mr->access & IBV_ACCESS_ZERO_BASED;

	table_withdraw(&mr->hca->keys, number);
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_add(&pd->users, 1);
		atomic_fetch_sub(&mr->pd->users, 1);
		mr->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		uint64_t iova = was_zero_based ? (uintptr_t)mr->ibv.addr : mr->iova;

		mr->access = access;
		mr_set_range(mr, mr->ibv.addr, mr->ibv.length, iova);
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr_set_range(mr, addr, length, (uintptr_t)addr);
		mr_new_key(mr, number);
	}
	table_publish(&mr->hca->keys, number, mr);
}

int mr_reregister(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, int access)
{
	int error;

	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return IBV_REREG_MR_ERR_INPUT;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return IBV_REREG_MR_ERR_INPUT;
	if (flags & IBV_REREG_MR_CHANGE_PD && !pd)
		return IBV_REREG_MR_ERR_INPUT;
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return IBV_REREG_MR_ERR_INPUT;
	/* Linux refuses an empty change behind the command. */
	error = flags ? mr_check_change(mr, flags, addr, length, access) : EINVAL;
	if (error) {
		errno = error;
		return IBV_REREG_MR_ERR_CMD;
	}
	mr_change(mr, flags, pd, addr, length, access);
	return 0;
}

static bool mr_allows(const struct mr *mr, const struct pd *pd, uint32_t key, uint64_t va,
		      uint64_t length, int access)
{
	if (mr->ibv.lkey != key || mr->pd != pd)
		return false;
	if ((mr->access & access) != access)
		return false;
	return va >= mr->iova && length <= mr->ibv.length &&
	       va - mr->iova <= mr->ibv.length - length;
}

int mr_hold(struct hca *hca, const struct pd *pd, uint32_t key, uint64_t va, uint64_t length,
	    int access, struct mr_hold *hold)
{
	uint32_t number = key >> MR_KEY_BITS;
	const struct mr *mr = table_hold(&hca->keys, number);

	if (!mr)
		return EACCES;
	if (!mr_allows(mr, pd, key, va, length, access)) {
		table_release(&hca->keys, number);
		return EACCES;
	}
	hold->address = (uint8_t *)mr->ibv.addr + (va - mr->iova);
	hold->number = number;
	return 0;
}

void mr_release(struct hca *hca, const struct mr_hold *hold)
{
	table_release(&hca->keys, hold->number);
}
