/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/objects/dm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "emu/capacity.h"
#include "emu/hca.h"
#include "emu/objects/access.h"
#include "emu/objects/mr.h"
#include "emu/objects/pd.h"
#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "net/quarantine.h"

#define DM_UNIT 4
#define DM_LOG_ALIGNMENT 6 /* at least: a cache line */
#define DM_LOG_ALIGNMENT_MAX 12

#define DM_ACCESS                                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

static bool dm_claim(struct hca *hca, size_t length)
{
	uint64_t size = atomic_load(&hca->dm_size);

	do {
		if (length > hca->limits.max_dm_size - size)
			return false;
	} while (!atomic_compare_exchange_weak(&hca->dm_size, &size, size + length));
	return true;
}

int dm_alloc(struct hca *hca, size_t length, uint32_t log_alignment, struct dm **result)
{
	struct dm *dm;
	void *memory;
	int error = capacity_alive(hca, "ibv_alloc_dm()");

	if (error)
		return error;
	if (!hca->limits.max_dm_size)
		return refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED, "ibv_alloc_dm(): max_dm_size is 0");
	if (!length || length > hca->limits.max_dm_size || log_alignment > DM_LOG_ALIGNMENT_MAX)
		return refuse(EINVAL, CAUSE_DM_ATTRIBUTES,
			      "ibv_alloc_dm(): length %zu of 1 to %" PRIu64
			      ", log_align_req %u of at most %d",
			      length, hca->limits.max_dm_size, log_alignment, DM_LOG_ALIGNMENT_MAX);
	if (log_alignment < DM_LOG_ALIGNMENT)
		log_alignment = DM_LOG_ALIGNMENT;
	if (!dm_claim(hca, length))
		return refuse(ENOMEM, CAUSE_DM_USED_UP,
			      "ibv_alloc_dm(): %zu bytes; of the device's %" PRIu64
			      " bytes %" PRIu64 " are left",
			      length, hca->limits.max_dm_size,
			      hca->limits.max_dm_size - hca->dm_size);
	dm = calloc(1, sizeof(*dm));
	if (!dm || posix_memalign(&memory, (size_t)1 << log_alignment, length)) {
		free(dm);
		atomic_fetch_sub(&hca->dm_size, length);
		return refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for %zu bytes of device memory",
			      length);
	}
	memset(memory, 0, length);
	dm->hca = hca;
	dm->origin = origin_capture();
	dm->memory = memory;
	dm->length = length;
	dm->ibv.handle = dm->handle = hca_next_handle(hca);
	*result = dm;
	return 0;
}

void dm_list(struct dm *dm)
{
	struct hca *hca = dm->hca;

	pthread_mutex_lock(&hca->objects_lock);
	DL_APPEND(hca->dms, dm);
	pthread_mutex_unlock(&hca->objects_lock);
	dm->listed = true;
}

static void dm_unlist(struct dm *dm)
{
	struct hca *hca = dm->hca;

	pthread_mutex_lock(&hca->objects_lock);
	DL_DELETE(hca->dms, dm);
	pthread_mutex_unlock(&hca->objects_lock);
}

struct dm *dm_find(struct hca *hca, uint32_t handle)
{
	struct dm *dm;

	pthread_mutex_lock(&hca->objects_lock);
	DL_SEARCH_SCALAR(hca->dms, dm, handle, handle);
	pthread_mutex_unlock(&hca->objects_lock);
	return dm;
}

int dm_destroy(struct dm *dm)
{
	if (dm->names.destroyed)
		return refuse(ENOENT, CAUSE_HANDLE_CHANGED,
			      "device memory %u was freed before, by another name of it",
			      dm->handle);
	if (atomic_load(&dm->users))
		return refuse(EBUSY, CAUSE_DM_BUSY,
			      "ibv_free_dm(): %u regions of this device memory of %zu bytes are "
			      "registered",
			      dm->users, dm->length);
	if (dm->listed)
		dm_unlist(dm);
	atomic_fetch_sub(&dm->hca->dm_size, dm->length);
	free(dm->memory);
	names_destroy(&dm->names);
	return 0;
}

void dm_put(struct dm *dm)
{
	if (!names_end(&dm->names))
		return;
	origin_free(dm->origin);
	quarantine_free(dm, sizeof(*dm));
}

static bool dm_covers(const struct dm *dm, uint64_t offset, size_t length)
{
	return length <= dm->length && offset <= dm->length - length;
}

static int refuse_range(int error, const struct dm *dm, uint64_t offset, size_t length)
{
	return refuse(error, CAUSE_DM_RANGE,
		      "%zu bytes at offset %" PRIu64 "; this device memory has %zu bytes", length,
		      offset, dm->length);
}

static int check_allocated(const struct dm *dm, int error)
{
	if (!dm->names.destroyed)
		return 0;
	return refuse(error, CAUSE_HANDLE_CHANGED,
		      "device memory %u was freed, by another name of it", dm->handle);
}

static int check_copy(const struct dm *dm, uint64_t offset, size_t length)
{
	if (offset % DM_UNIT || length % DM_UNIT)
		return refuse(EINVAL, CAUSE_DM_UNIT,
			      "%zu bytes at offset %" PRIu64 ": not both multiples of %d", length,
			      offset, DM_UNIT);
	if (check_allocated(dm, EFAULT) != 0)
		return EFAULT;
	return dm_covers(dm, offset, length) ? 0 : refuse_range(EFAULT, dm, offset, length);
}

int dm_copy_to(struct dm *dm, uint64_t offset, const void *from, size_t length)
{
	int error = check_copy(dm, offset, length);

	if (!error)
		memcpy(dm->memory + offset, from, length);
	return error;
}

int dm_copy_from(void *to, const struct dm *dm, uint64_t offset, size_t length)
{
	int error = check_copy(dm, offset, length);

	if (!error)
		memcpy(to, dm->memory + offset, length);
	return error;
}

static void dm_release(void *backing)
{
	struct dm *dm = backing;

	atomic_fetch_sub(&dm->users, 1);
}

int dm_register(struct pd *pd, struct dm *dm, uint64_t offset, size_t length, int access,
		struct mr **mr)
{
	struct mr_init init = {
		.kind = KEY_REGION,
		.length = length,
		.access = access,
		.release = dm_release,
		.backing = dm,
	};
	int error = mr_check_access(dm->hca, access);
	char text[ACCESS_TEXT];

	if (error)
		return EINVAL;
	if (access & ~DM_ACCESS || !(access & IBV_ACCESS_ZERO_BASED))
		return refuse(EINVAL, CAUSE_DM_ACCESS, "ibv_reg_dm_mr(): access is %s",
			      access_text(access, text));
	if (check_allocated(dm, EINVAL) != 0)
		return EINVAL;
	if (!dm_covers(dm, offset, length))
		return refuse_range(EINVAL, dm, offset, length);
	init.address = dm->memory + offset;
	atomic_fetch_add(&dm->users, 1);
	error = mr_create(pd, &init, mr);
	if (error) {
		atomic_fetch_sub(&dm->users, 1);
		return error;
	}
	(*mr)->ibv.addr = NULL; /* the application can't reach it */
	return 0;
}
