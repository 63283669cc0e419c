/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: it belongs to the core (emu/objects/dm.h). A forked child may have some of its
 * parent's device, as with the kernel's descriptor.
 */
#include "emu/objects/dm.h"

#include <stdlib.h>

#include "net/cause/cause.h"
#include "net/quarantine.h"
#include "verbs/context.h"
#include "verbs/domain.h"
#include "verbs/inherited.h"

/* Another name of device memory. */
struct imported_dm {
	struct ibv_dm ibv;
	uint32_t handle;
	struct hca *hca; /* NULL; never in a struct dm */
	struct dm *dm;
};

_Static_assert(offsetof(struct imported_dm, handle) == offsetof(struct dm, handle) &&
		       offsetof(struct imported_dm, hca) == offsetof(struct dm, hca),
	       "either may be behind an ibv_dm");

static struct imported_dm *to_import(struct ibv_dm *dm)
{
	return ((struct dm *)dm)->hca ? NULL : (struct imported_dm *)dm;
}

static struct dm *to_dm(struct ibv_dm *dm)
{
	return to_import(dm) ? to_import(dm)->dm : (struct dm *)dm;
}

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *host_addr, size_t length)
{
	return set_errno(dm_copy_to(to_dm(dm), offset, host_addr, length));
}

static int memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	return set_errno(dm_copy_from(host_addr, to_dm(dm), offset, length));
}

static struct ibv_dm *name_dm(struct ibv_dm *dm, struct ibv_context *context)
{
	dm->context = context;
	dm->memcpy_to_dm = memcpy_to_dm;
	dm->memcpy_from_dm = memcpy_from_dm;
	context_get(context);
	return dm;
}

/* In no list yet. */
static struct ibv_dm *alloc_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr)
{
	struct dm *dm;
	int error;

	if (attr->comp_mask)
		return fail(refuse(EINVAL, CAUSE_DM_ATTRIBUTES, "ibv_alloc_dm(): comp_mask is 0x%x",
				   attr->comp_mask));
	error = dm_alloc(to_hca(context), attr->length, attr->log_align_req, &dm);
	return error ? fail(error) : name_dm(&dm->ibv, context);
}

struct ibv_dm *urxe_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct ibv_dm *dm = alloc_dm(context, attr);

	if (dm)
		dm_list(to_dm(dm));
	return dm;
}

/* The memory lives on, unless it is freed and this was its last name. */
static void dm_end_name(struct ibv_dm *name)
{
	struct ibv_context *context = name->context;
	struct dm *dm = to_dm(name);

	if (to_import(name))
		quarantine_free(name, sizeof(struct imported_dm));
	dm_put(dm);
	context_put(context);
}

#define REFUSE_DM(error, call, memory) REFUSE_HANDLE(error, call, (const struct dm *)(memory))

int urxe_free_dm(struct ibv_dm *dm)
{
	int error = HANDLE_IS_GOOD((struct dm *)dm) ? dm_destroy(to_dm(dm))
						    : REFUSE_DM(ENOENT, "ibv_free_dm()", dm);

	if (!error)
		dm_end_name(dm);
	return set_errno(error);
}

/* The parent's threads may have held the lock of the list: the child has nothing in it. */
struct ibv_dm *inherited_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	return alloc_dm(context, attr);
}

int inherited_free_dm(struct ibv_dm *dm)
{
	to_dm(dm)->listed = false;
	return urxe_free_dm(dm);
}

struct ibv_dm *urxe_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	struct dm *dm = dm_find(to_hca(context), dm_handle);
	struct imported_dm *import;

	if (!dm || !context_shares_file(dm->ibv.context, context))
		return fail(refuse_import("ibv_import_dm()", dm_handle, "device memory", dm));
	import = calloc(1, sizeof(*import));
	if (!import)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for device memory"));
	import->ibv.handle = import->handle = dm_handle;
	import->dm = dm;
	names_add(&dm->names);
	return name_dm(&import->ibv, context);
}

void urxe_unimport_dm(struct ibv_dm *dm)
{
	if (HANDLE_IS_GOOD((struct dm *)dm))
		dm_end_name(dm);
}

struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
			      size_t length, unsigned int access)
{
	struct mr *mr;
	int error;

	if (!domain_is_good(pd))
		error = domain_refuse(EINVAL, "ibv_reg_dm_mr()", pd);
	else if (!HANDLE_IS_GOOD((struct dm *)dm))
		error = REFUSE_DM(EINVAL, "ibv_reg_dm_mr(), dm", dm);
	else if (to_pd(pd)->hca != to_dm(dm)->hca)
		error = refuse(EINVAL, CAUSE_DM_DEVICE,
			       "ibv_reg_dm_mr(): the memory is of %s, the protection domain of %s",
			       dm->context->device->name, pd->context->device->name);
	else if (!context_shares_file(pd->context, dm->context))
		error = refuse(EINVAL, CAUSE_OTHER_CONTEXT,
			       "ibv_reg_dm_mr(): dm and pd are of different contexts");
	else
		error = dm_register(to_pd(pd), to_dm(dm), dm_offset, length,
				    access & ~ACCESS_OPTIONAL, &mr);
	return error ? fail(error) : mr_hand_out(mr, pd);
}
