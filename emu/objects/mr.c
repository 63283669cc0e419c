/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: emu/objects/mr.h has the rules. A region is published in hca->keys
 * and changes only while it is not, so that mr_pin() reads it without a lock.
 */
#include "emu/objects/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "emu/capacity.h"
#include "emu/hca.h"
#include "emu/objects/access.h"
#include "emu/objects/pd.h"
#include "emu/transport/placement.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/newer_verbs.h"
#include "net/observe/observe.h"
#include "net/quarantine.h"
#include "net/wire/wire.h"

#define ACCESS_OPTIONAL 0x3ff00000 /* what a device may ignore */

#define ACCESS_REMOTE_CHANGE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_SUPPORTED                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGE | IBV_ACCESS_REMOTE_READ |                  \
	 IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |  \
	 ACCESS_FLUSH_GLOBAL | ACCESS_OPTIONAL)
/* Nothing here survives a loss of power. */
#define ACCESS_UNSUPPORTED ACCESS_FLUSH_PERSISTENT
/* What makes Linux pin memory for writing (ib_access_writable). */
#define ACCESS_WRITABLE (IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGE | IBV_ACCESS_MW_BIND)

int mr_check_access(const struct hca *hca, int access)
{
	char text[ACCESS_TEXT];

	if (access & ~(ACCESS_SUPPORTED | ACCESS_UNSUPPORTED))
		return refuse(EINVAL, CAUSE_ACCESS_UNKNOWN,
			      "access is 0x%x, in which 0x%x means nothing", access,
			      access & ~(ACCESS_SUPPORTED | ACCESS_UNSUPPORTED));
	if (access & IBV_ACCESS_ON_DEMAND && hca->limits.no_odp)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "access is %s: the device has no regions on demand",
			      access_text(access, text));
	if (access & ACCESS_FLUSH_GLOBAL && !capacity_has(hca, DEVICE_FLUSH_GLOBAL))
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
			      "access is %s: the device has no FLUSH", access_text(access, text));
	if (access & ACCESS_UNSUPPORTED)
		return refuse(EOPNOTSUPP, CAUSE_ACCESS_PERSISTENT, "access is %s",
			      access_text(access, text));
	/* IBA 10.6.3.1: a remote peer may not do what isn't allowed locally. */
	if (access & ACCESS_REMOTE_CHANGE && !(access & IBV_ACCESS_LOCAL_WRITE))
		return refuse(EINVAL, CAUSE_ACCESS_NEEDS_LOCAL_WRITE,
			      "access is %s, without LOCAL_WRITE", access_text(access, text));
	return 0;
}

/* Of a region whose end lies beyond that of the addresses. */
static int refuse_wrap(const char *what, uint64_t address, size_t length)
{
	return refuse(EINVAL, CAUSE_MR_RANGE, "%s 0x%" PRIx64 " with %zu bytes ends beyond 2^64",
		      what, address, length);
}

static int mr_check_range(const struct hca *hca, const void *addr, size_t length, uint64_t iova,
			  int access)
{
	uint64_t offset_mask = hca->host->page_size() - 1;

	if ((uintptr_t)addr + length < length)
		return refuse_wrap("address", (uintptr_t)addr, length);
	if (length > hca->limits.device.max_mr_size)
		return refuse(EINVAL, CAUSE_MR_RANGE,
			      "%zu bytes, the device has %" PRIu64 " (max_mr_size)", length,
			      hca->limits.device.max_mr_size);
	/* IBA allows a region of no bytes, but Linux refuses one of no pages (ib_umem_get()). */
	if (!length && !((uintptr_t)addr & offset_mask))
		return refuse(EINVAL, CAUSE_MR_EMPTY, "0 bytes at %p, where a page begins", addr);
	/* The whole address space isn't made of huge pages (ibv_reg_mr(3)). */
	if (!addr && length == SIZE_MAX && access & IBV_ACCESS_HUGETLB)
		return refuse(EINVAL, CAUSE_MR_HUGETLB,
			      "address NULL, length SIZE_MAX, access with HUGETLB");
	if (access & IBV_ACCESS_ZERO_BASED)
		return 0;
	/* Hardware translates page by page, so offsets into pages have to agree. */
	if (((uintptr_t)addr ^ iova) & offset_mask)
		return refuse(EINVAL, CAUSE_MR_IOVA,
			      "address %p is at byte %" PRIu64 " of its page, iova 0x%" PRIx64
			      " at byte %" PRIu64,
			      addr, (uintptr_t)addr & offset_mask, iova, iova & offset_mask);
	return iova + length < length ? refuse_wrap("iova", iova, length) : 0;
}

static int mr_check_memory(const struct hca *hca, const void *addr, size_t length, int access)
{
	if (access & IBV_ACCESS_ON_DEMAND)
		return 0;
	return hca->host->check_memory(addr, length, access & ACCESS_WRITABLE);
}

static void mr_new_key(struct mr *mr, uint32_t number)
{
	uint32_t byte = atomic_fetch_add(&mr->hca->key_byte, 1);

	mr->key.value = key_value(number, byte);
	mr->ibv.lkey = mr->ibv.rkey = mr->key.value;
}

static void mr_set_range(struct mr *mr, void *addr, size_t length, uint64_t iova)
{
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->key.address = addr;
	mr->key.length = length;
	mr->key.iova = mr->key.access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

/* The null region has no memory. */
static uint64_t mr_shown_length(const struct mr *mr)
{
	return mr->key.kind == KEY_NULL ? 0 : mr->key.length;
}

static void mr_show(struct mr *mr)
{
	struct observe_device *device = mr->hca->observed;

	atomic_fetch_sub_explicit(&device->region_bytes, mr->observed->length,
				  memory_order_relaxed);
	mr->observed->key = mr->key.value;
	mr->observed->access = mr->key.access;
	mr->observed->address = mr->key.kind == KEY_NULL ? 0 : (uintptr_t)mr->ibv.addr;
	mr->observed->length = mr_shown_length(mr);
	atomic_fetch_add_explicit(&device->region_bytes, mr->observed->length,
				  memory_order_relaxed);
}

static void mr_show_destroy(struct mr *mr)
{
	struct observe_device *device = mr->hca->observed;

	atomic_fetch_sub_explicit(&device->region_bytes, mr->observed->length,
				  memory_order_relaxed);
	atomic_fetch_sub_explicit(&device->regions, 1, memory_order_relaxed);
	observe_free(mr->hca->observe, OBSERVE_REGION, mr->observed);
}

int mr_refuse_key(struct hca *hca, int error)
{
	uint32_t capacity;

	if (!table_is_full(&hca->keys, &capacity))
		return refuse(error, CAUSE_OUT_OF_MEMORY, "for a table of regions and windows");
	return refuse(error, CAUSE_KEYS_USED_UP,
		      "there are %u regions and windows, as many as can be", capacity);
}

static int refuse_bound(const struct mr *mr)
{
	return refuse(EBUSY, CAUSE_MR_BUSY,
		      "%u memory windows are bound to region 0x%x (%zu bytes at %p)", mr->windows,
		      mr->key.value, mr->ibv.length, mr->ibv.addr);
}

/* Without a key. NULL, and it is reported: there is no memory. */
static struct mr *mr_allocate(struct hca *hca)
{
	struct mr *mr = calloc(1, sizeof(*mr));

	if (mr)
		mr->observed = observe_claim(hca->observe, OBSERVE_REGION, hca->observed->head.id);
	if (mr && mr->observed)
		return mr;
	free(mr);
	refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a memory region");
	return NULL;
}

int mr_create(struct pd *pd, const struct mr_init *init, struct mr **result)
{
	struct hca *hca = pd->hca;
	uint32_t number;
	struct mr *mr;
	int error;

	error = capacity_take(hca, &hca->mr_count, hca->limits.device.max_mr, "memory regions",
			      "max_mr");
	if (error)
		return error;
	mr = mr_allocate(hca);
	if (!mr) {
		error = ENOMEM;
		goto put_capacity;
	}
	error = table_reserve(&hca->keys, &number);
	if (error) {
		error = mr_refuse_key(hca, error);
		goto free_mr;
	}
	mr->hca = hca;
	mr->key.kind = init->kind;
	mr->key.valid = true;
	mr->key.pd = pd;
	mr->key.access = init->access;
	mr->release = init->release;
	mr->backing = init->backing;
	mr->key.origin = origin_capture();
	mr->ibv.handle = mr->handle = hca_next_handle(hca);
	mr_set_range(mr, init->address, init->length, init->iova);
	mr_new_key(mr, number);
	users_add(&pd->users, USER_MR, 1);
	atomic_fetch_add_explicit(&hca->observed->regions, 1, memory_order_relaxed);
	mr_show(mr);
	observe_show(hca->observe, mr->observed);
	table_publish(&hca->keys, number, &mr->key);
	*result = mr;
	return 0;

free_mr:
	observe_free(hca->observe, OBSERVE_REGION, mr->observed);
	free(mr);
put_capacity:
	capacity_put(&hca->mr_count);
	return error;
}

int mr_register(struct pd *pd, void *addr, size_t length, uint64_t iova, int access, struct mr **mr)
{
	const struct mr_init init = {KEY_REGION, addr, length, iova, access};
	int error;

	error = mr_check_access(pd->hca, access);
	if (!error)
		error = mr_check_range(pd->hca, addr, length, iova, access);
	if (!error)
		error = mr_check_memory(pd->hca, addr, length, access);
	return error ? error : mr_create(pd, &init, mr);
}

int mr_alloc_null(struct pd *pd, struct mr **mr)
{
	static uint8_t zeros[WIRE_PATH_MTU_MAX];
	const struct mr_init init = {KEY_NULL, zeros, SIZE_MAX, 0, IBV_ACCESS_LOCAL_WRITE};
	int error = mr_create(pd, &init, mr);

	if (error)
		return error;
	(*mr)->ibv.addr = NULL;
	(*mr)->ibv.rkey = 0;
	return 0;
}

static int check_registered(const struct mr *mr)
{
	if (!mr->names.destroyed)
		return 0;
	return refuse(ENOENT, CAUSE_HANDLE_CHANGED,
		      "region 0x%x was deregistered before, by another name of it", mr->key.value);
}

int mr_destroy(struct mr *mr)
{
	struct table *keys = &mr->hca->keys;
	uint32_t number = key_number(mr->key.value);
	int error = check_registered(mr);

	if (error)
		return error;
	/* Looked at before withdrawing it, so that accesses by its key aren't disturbed. */
	if (mr->windows)
		return refuse_bound(mr);
	WATCH(mr->hca, key_ends, &mr->key);
	placement_finish(mr->hca);
	/* Withdrawn, it can't be bound to any more: so the windows that are, are all. */
	table_withdraw(keys, number);
	if (mr->windows) {
		table_publish(keys, number, &mr->key);
		return refuse_bound(mr);
	}
	table_remove(keys, number);
	former_keys_add(&mr->hca->former_keys, &mr->key);
	users_add(&mr->key.pd->users, USER_MR, -1);
	capacity_put(&mr->hca->mr_count);
	mr_show_destroy(mr);
	if (mr->release)
		mr->release(mr->backing);
	names_destroy(&mr->names);
	return 0;
}

void mr_put(struct mr *mr)
{
	if (names_end(&mr->names))
		quarantine_free(mr, sizeof(*mr));
}

struct mr *mr_find(struct hca *hca, uint32_t handle)
{
	struct key *key;
	struct mr *mr = NULL;

	for (uint32_t number = 0; !mr && (key = table_get_next(&hca->keys, &number)); number++) {
		if (key->kind != KEY_WINDOW)
			mr = mr_of_key(key);
		if (mr && mr->handle != handle)
			mr = NULL;
		table_put(&hca->keys, number);
	}
	return mr;
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
		access = mr->key.access;
	error = mr_check_access(mr->hca, access);
	if (!error)
		error = mr_check_range(mr->hca, addr, length, (uintptr_t)addr, access);
	if (!error && flags & (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS))
		error = mr_check_memory(mr->hca, addr, length, access);
	return error;
}

static void mr_change_withdrawn(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length,
				int access)
{
	bool was_zero_based = mr->key.access & IBV_ACCESS_ZERO_BASED;

	if (flags & IBV_REREG_MR_CHANGE_PD) {
		users_add(&pd->users, USER_MR, 1);
		users_add(&mr->key.pd->users, USER_MR, -1);
		mr->key.pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		uint64_t iova = was_zero_based ? (uintptr_t)mr->ibv.addr : mr->key.iova;

		mr->key.access = access;
		mr_set_range(mr, mr->ibv.addr, mr->ibv.length, iova);
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		former_keys_add(&mr->hca->former_keys, &mr->key);
		mr_set_range(mr, addr, length, (uintptr_t)addr);
		mr_new_key(mr, key_number(mr->key.value));
	}
	origin_free(mr->key.origin);
	mr->key.origin = origin_capture();
	mr_show(mr);
}

/* 0, or EBUSY when a window was bound to it meanwhile: that window has its address. */
static int mr_change(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, int access)
{
	uint32_t number = key_number(mr->key.value);
	int error;

	if (flags & (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD))
		WATCH(mr->hca, key_ends, &mr->key);
	placement_finish(mr->hca);
	table_withdraw(&mr->hca->keys, number);
	error = mr->windows ? refuse_bound(mr) : 0;
	if (!error)
		mr_change_withdrawn(mr, flags, pd, addr, length, access);
	table_publish(&mr->hca->keys, number, &mr->key);
	return error;
}

/* Of arguments that don't go together: libibverbs says so before the device is asked. */
static int refuse_change(const char *found)
{
	return refuse(IBV_REREG_MR_ERR_INPUT, CAUSE_MR_REREG_INPUT, "ibv_rereg_mr(): %s", found);
}

static int check_change_input(int flags, const struct pd *pd, const void *addr, size_t length,
			      int access)
{
	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return refuse_change("flags has a bit that means nothing");
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return refuse_change("CHANGE_TRANSLATION with address NULL or length 0");
	if (flags & IBV_REREG_MR_CHANGE_PD && !pd)
		return refuse_change("CHANGE_PD without a protection domain");
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return refuse_change("access is given without CHANGE_ACCESS");
	return 0;
}

int mr_reregister(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, int access)
{
	int error;

	if (mr->key.kind != KEY_REGION || mr->release)
		return refuse(IBV_REREG_MR_ERR_INPUT, CAUSE_MR_REREG_KIND, "region 0x%x is %s",
			      mr->key.value,
			      mr->release ? "of device memory or a dma-buf" : "the null region");
	error = check_change_input(flags, pd, addr, length, access);
	if (error)
		return error;
	error = check_registered(mr);
	if (!error)
		error = capacity_alive(mr->hca, "ibv_rereg_mr()");
	/* Linux refuses an empty change behind the command. */
	if (!error && !flags)
		error = refuse(EINVAL, CAUSE_MR_REREG_INPUT, "ibv_rereg_mr(): flags is 0");
	if (!error)
		error = mr_check_change(mr, flags, addr, length, access);
	if (!error && mr->windows)
		error = refuse_bound(mr);
	if (!error)
		error = mr_change(mr, flags, pd, addr, length, access);
	if (error) {
		errno = error;
		return IBV_REREG_MR_ERR_CMD;
	}
	return 0;
}
