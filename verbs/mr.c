/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and windows: they belong to the core (emu/objects/mr.h, emu/objects/mw.h,
 * emu/objects/odp.h).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "emu/objects/odp.h"
#include "net/cause/cause.h"
#include "net/quarantine.h"
#include "verbs/context.h"
#include "verbs/domain.h"

/* Another name of a region. */
struct imported_mr {
	struct ibv_mr ibv;
	uint32_t handle;
	struct hca *hca; /* NULL; never in a struct mr */
	struct mr *mr;
	struct pd *pd; /* stays readable: the import doesn't keep it from being deallocated */
};

_Static_assert(offsetof(struct imported_mr, handle) == offsetof(struct mr, handle) &&
		       offsetof(struct imported_mr, hca) == offsetof(struct mr, hca),
	       "either may be behind an ibv_mr");

static struct imported_mr *to_import(struct ibv_mr *mr)
{
	return ((struct mr *)mr)->hca ? NULL : (struct imported_mr *)mr;
}

static struct mr *to_mr(struct ibv_mr *mr)
{
	return to_import(mr) ? to_import(mr)->mr : (struct mr *)mr;
}

#define REFUSE_REGION(error, call, region) REFUSE_HANDLE(error, call, (const struct mr *)(region))
#define REFUSE_WINDOW(error, call, window) REFUSE_HANDLE(error, call, (const struct mw *)(window))

struct ibv_mr *mr_hand_out(struct mr *mr, struct ibv_pd *pd)
{
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	domain_get(pd);
	return &mr->ibv;
}

struct ibv_mr *urxe_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned int access)
{
	struct mr *mr;
	int error;

	if (!domain_is_good(pd))
		return fail(domain_refuse(EINVAL, "ibv_reg_mr_iova2()", pd));
	error = mr_register(to_pd(pd), addr, length, iova, access & ~ACCESS_OPTIONAL, &mr);
	return error ? fail(error) : mr_hand_out(mr, pd);
}

struct ibv_mr *urxe_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				int access)
{
	return urxe_reg_mr_iova2(pd, addr, length, iova, access);
}

struct ibv_mr *urxe_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return urxe_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

static int check_rereg(struct ibv_mr *mr, bool moves, struct ibv_pd *pd)
{
	if (!HANDLE_IS_GOOD((struct mr *)mr))
		return REFUSE_REGION(IBV_REREG_MR_ERR_INPUT, "ibv_rereg_mr()", mr);
	if (to_import(mr))
		return refuse(IBV_REREG_MR_ERR_INPUT, CAUSE_MR_REREG_KIND, "region %u is imported",
			      mr->handle);
	if (!moves)
		return 0;
	if (!pd)
		return refuse(IBV_REREG_MR_ERR_INPUT, CAUSE_MR_REREG_INPUT,
			      "ibv_rereg_mr(): CHANGE_PD without a protection domain");
	if (!domain_is_good(pd))
		return domain_refuse(IBV_REREG_MR_ERR_INPUT, "ibv_rereg_mr(), pd", pd);
	if (pd->context == mr->context)
		return 0;
	return refuse(IBV_REREG_MR_ERR_INPUT, CAUSE_MR_REREG_INPUT,
		      "ibv_rereg_mr(): the protection domain is of another context");
}

int urxe_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_PD;
	int result = check_rereg(mr, moves, pd);

	/* Without CHANGE_ACCESS any access is an error, one that a device may ignore, too. */
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		access &= ~ACCESS_OPTIONAL;
	if (result == 0)
		result = mr_reregister((struct mr *)mr, flags, moves ? to_pd(pd) : NULL, addr,
				       length, access);
	if (result == IBV_REREG_MR_ERR_INPUT)
		errno = EINVAL;
	if (result == 0 && moves) {
		domain_get(pd);
		domain_put(mr->pd);
		mr->pd = pd;
	}
	return result;
}

/* The region lives on, unless it is destroyed and this was its last name. */
static void mr_end_name(struct ibv_mr *name)
{
	struct mr *mr = to_mr(name);

	if (to_import(name)) {
		domain_put(name->pd);
		pd_put(to_import(name)->pd);
		quarantine_free(name, sizeof(struct imported_mr));
	}
	mr_put(mr);
}

int urxe_dereg_mr(struct ibv_mr *name)
{
	struct mr *mr = to_mr(name);
	int error = HANDLE_IS_GOOD((struct mr *)name)
			    ? mr_destroy(mr)
			    : REFUSE_REGION(ENOENT, "ibv_dereg_mr()", name);

	if (error)
		return error;
	domain_put(mr->ibv.pd);
	mr_end_name(name);
	return 0;
}

struct ibv_mr *urxe_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct imported_mr *import;
	struct mr *mr;

	if (!domain_is_good(pd))
		return fail(domain_refuse(EINVAL, "ibv_import_mr()", pd));
	mr = mr_find(to_pd(pd)->hca, mr_handle);
	if (!mr || !context_shares_file(mr->ibv.context, pd->context))
		return fail(refuse_import("ibv_import_mr()", mr_handle, "region", mr));
	import = calloc(1, sizeof(*import));
	if (!import)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a memory region"));
	import->ibv = mr->ibv;
	import->ibv.context = pd->context;
	import->ibv.pd = pd;
	import->ibv.addr = NULL; /* ibv_import_mr(3) */
	import->handle = mr_handle;
	import->mr = mr;
	import->pd = to_pd(pd);
	names_add(&mr->names);
	names_add(&import->pd->names);
	domain_get(pd);
	return &import->ibv;
}

void urxe_unimport_mr(struct ibv_mr *mr)
{
	if (HANDLE_IS_GOOD((struct mr *)mr))
		mr_end_name(mr);
}

struct ibv_mr *urxe_alloc_null_mr(struct ibv_pd *pd)
{
	struct mr *mr;
	int error = domain_is_good(pd) ? mr_alloc_null(to_pd(pd), &mr)
				       : domain_refuse(EINVAL, "ibv_alloc_null_mr()", pd);

	return error ? fail(error) : mr_hand_out(mr, pd);
}

int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sg_list, uint32_t num_sge)
{
	/* What is asked for is done when this returns: IBV_ADVISE_MR_FLAG_FLUSH or not. */
	if (!domain_is_good(pd))
		return set_errno(domain_refuse(EINVAL, "ibv_advise_mr()", pd));
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
		return set_errno(refuse(EINVAL, CAUSE_ADVICE_EMPTY,
					"ibv_advise_mr(): flags is 0x%x", flags));
	return set_errno(odp_advise(to_pd(pd), advice, sg_list, num_sge));
}

struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct mw *mw;
	int error = domain_is_good(pd) ? mw_alloc(to_pd(pd), type, &mw)
				       : domain_refuse(EINVAL, "ibv_alloc_mw()", pd);

	if (error)
		return fail(error);
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	domain_get(pd);
	return &mw->ibv;
}

/* What Linux providers refuse at once; everything else is told by the completion. */
static int check_bind(const struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	if (!HANDLE_IS_GOOD((const struct mw *)mw))
		return REFUSE_WINDOW(ENOENT, "ibv_bind_mw()", mw);
	if (info->mr && !HANDLE_IS_GOOD((const struct mr *)info->mr))
		return REFUSE_REGION(ENOENT, "ibv_bind_mw(), the region", info->mr);
	if (mw->type != IBV_MW_TYPE_1)
		return refuse(EINVAL, CAUSE_MW_BIND_TYPE, "ibv_bind_mw(): window 0x%x is of type 2",
			      mw->rkey);
	if (!info->mr && (info->addr || info->length))
		return refuse(EINVAL, CAUSE_MW_BIND_NOTHING,
			      "ibv_bind_mw(): %" PRIu64 " bytes at 0x%" PRIx64 " of no region",
			      info->length, info->addr);
	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED) /* o10-36.2.2 */
		return refuse(EINVAL, CAUSE_MW_BIND_ZERO_BASED,
			      "ibv_bind_mw(): window 0x%x, access 0x%x has ZERO_BASED", mw->rkey,
			      info->mw_access_flags);
	if (info->mr && to_pd(info->mr->pd) != to_pd(mw->pd))
		return refuse(EPERM, CAUSE_MW_BIND_PD, "ibv_bind_mw(): window 0x%x and region 0x%x",
			      mw->rkey, info->mr->lkey);
	return 0;
}

/* Windows of type 1: the device picks the R_Key, known once the request is posted. */
int urxe_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info},
	};
	struct ibv_send_wr *bad;
	int error = check_bind(mw, &bind->bind_info);

	if (!error)
		error = urxe_post_send(qp, &wr, &bad);
	if (!error)
		mw->rkey = wr.bind_mw.rkey;
	return set_errno(error);
}

int urxe_dealloc_mw(struct ibv_mw *mw)
{
	struct ibv_pd *pd = mw->pd;

	if (!HANDLE_IS_GOOD((struct mw *)mw))
		return set_errno(REFUSE_WINDOW(ENOENT, "ibv_dealloc_mw()", mw));
	mw_dealloc((struct mw *)mw);
	domain_put(pd);
	return 0;
}
