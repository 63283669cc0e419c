/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: it belongs to the core (emu/objects/dm.h). A forked child may have some of its
 * parent's device, as with the kernel's descriptor.
 */
#include "emu/objects/dm.h"

#include "verbs/context.h"

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *host_addr, size_t length)
{
	return set_errno(dm_copy_to((struct dm *)dm, offset, host_addr, length));
}

static int memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	return set_errno(dm_copy_from(host_addr, (struct dm *)dm, offset, length));
}

struct ibv_dm *urxe_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct dm *dm;
	int error = attr->comp_mask
			    ? EINVAL
			    : dm_alloc(to_hca(context), attr->length, attr->log_align_req, &dm);

	if (error)
		return fail(error);
	dm->ibv.context = context;
	dm->ibv.memcpy_to_dm = memcpy_to_dm;
	dm->ibv.memcpy_from_dm = memcpy_from_dm;
	context_get(context);
	return &dm->ibv;
}

int urxe_free_dm(struct ibv_dm *dm)
{
	struct ibv_context *context = dm->context;
	int error = HANDLE_IS_GOOD((struct dm *)dm) ? dm_free((struct dm *)dm) : ENOENT;

	if (!error)
		context_put(context);
	return set_errno(error);
}

struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
			      size_t length, unsigned int access)
{
	struct mr *mr;
	int error = EINVAL;

	if (domain_is_good(pd) && HANDLE_IS_GOOD((struct dm *)dm) &&
	    to_pd(pd)->hca == ((struct dm *)dm)->hca)
		error = dm_register(to_pd(pd), (struct dm *)dm, dm_offset, length,
				    access & ~ACCESS_OPTIONAL, &mr);
	return error ? fail(error) : mr_hand_out(mr, pd);
}
