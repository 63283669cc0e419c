/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, thread domains, parent domains. A thread domain promises
 * that its objects need no locking; we lock regardless. A parent domain and an import are
 * names of their protection domain, told apart by the HCA that they don't have.
 */
#include "verbs/domain.h"

#include <stdlib.h>

#include "net/quarantine.h"
#include "verbs/context.h"

#define PARENT_DOMAIN UINT32_MAX

/* Another name of a protection domain: a parent domain or an import. */
struct parent_domain {
	struct ibv_pd ibv;
	uint32_t handle; /* PARENT_DOMAIN, or that of @pd */
	struct hca *hca; /* NULL; never in a struct pd */
	struct pd *pd;
	struct ibv_td *td;
	/* What was created in it, and itself until it has ended: it and its context are kept. */
	_Atomic uint32_t references;
};

struct thread_domain {
	struct ibv_td ibv;
	_Atomic uint32_t users; /* parent domains */
};

_Static_assert(offsetof(struct parent_domain, handle) == offsetof(struct pd, handle) &&
		       offsetof(struct parent_domain, hca) == offsetof(struct pd, hca),
	       "either may be behind an ibv_pd");

static bool has_handle(const struct ibv_pd *pd)
{
	return HANDLE_IS_GOOD((const struct pd *)pd);
}

static struct parent_domain *to_parent(struct ibv_pd *pd)
{
	return ((struct pd *)pd)->hca ? NULL : (struct parent_domain *)pd;
}

static bool is_import(struct ibv_pd *pd)
{
	return to_parent(pd) && to_parent(pd)->handle != PARENT_DOMAIN;
}

bool domain_is_parent(struct ibv_pd *pd, const struct ibv_context *context)
{
	return pd && pd->context == context && has_handle(pd) && to_parent(pd) && !is_import(pd);
}

struct pd *to_pd(struct ibv_pd *pd)
{
	return pd && to_parent(pd) ? to_parent(pd)->pd : (struct pd *)pd;
}

bool domain_is_good(struct ibv_pd *pd)
{
	return has_handle(pd) && !to_pd(pd)->names.destroyed;
}

int domain_refuse(int error, const char *call, struct ibv_pd *pd)
{
	if (has_handle(pd))
		return refuse(error, CAUSE_HANDLE_CHANGED,
			      "%s: the protection domain was deallocated, by another import of it",
			      call);
	return REFUSE_HANDLE(error, call, (const struct pd *)pd);
}

void domain_get(struct ibv_pd *pd)
{
	if (to_parent(pd))
		to_parent(pd)->references++;
}

void domain_put(struct ibv_pd *pd)
{
	struct parent_domain *parent = to_parent(pd);
	struct ibv_context *context = pd->context;

	if (!parent || --parent->references)
		return;
	quarantine_free(parent, sizeof(*parent));
	context_put(context);
}

struct ibv_pd *urxe_alloc_pd(struct ibv_context *context)
{
	struct pd *pd;
	int error = pd_alloc(to_hca(context), &pd);

	if (error)
		return fail(error);
	pd->ibv.context = context;
	context_get(context);
	return &pd->ibv;
}

static int dealloc_parent_domain(struct parent_domain *parent)
{
	uint32_t users = parent->references - 1;

	if (users)
		return refuse(EBUSY, CAUSE_OBJECT_IN_USE,
			      "ibv_dealloc_pd(): in use by %u objects that were made in the parent "
			      "domain",
			      users);
	if (parent->td)
		((struct thread_domain *)parent->td)->users--;
	users_add(&parent->pd->users, USER_PARENT_DOMAIN, -1);
	domain_put(&parent->ibv);
	return 0;
}

/* The protection domain lives on, unless it is destroyed and this was its last name. */
static void pd_end_name(struct ibv_pd *name)
{
	struct ibv_context *context = name->context;
	bool imported = to_parent(name);

	pd_put(to_pd(name));
	if (imported)
		domain_put(name);
	else
		context_put(context);
}

int urxe_dealloc_pd(struct ibv_pd *pd)
{
	int error;

	if (!has_handle(pd))
		return domain_refuse(ENOENT, "ibv_dealloc_pd()", pd);
	if (to_parent(pd) && !is_import(pd))
		return dealloc_parent_domain(to_parent(pd));
	error = pd_destroy(to_pd(pd));
	if (!error)
		pd_end_name(pd);
	return error;
}

struct ibv_pd *urxe_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct pd *pd = pd_find(to_hca(context), pd_handle);
	struct parent_domain *import;

	if (!pd || !context_shares_file(pd->ibv.context, context))
		return fail(refuse_import("ibv_import_pd()", pd_handle, "protection domain", pd));
	import = calloc(1, sizeof(*import));
	if (!import)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a protection domain"));
	import->ibv.context = context;
	import->ibv.handle = import->handle = pd_handle;
	import->pd = pd;
	import->references = 1;
	names_add(&pd->names);
	context_get(context);
	return &import->ibv;
}

void urxe_unimport_pd(struct ibv_pd *pd)
{
	if (has_handle(pd) && (!to_parent(pd) || is_import(pd)))
		pd_end_name(pd);
}

struct ibv_td *urxe_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct thread_domain *td;

	if (attr->comp_mask)
		return fail(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
				   "ibv_alloc_td(): comp_mask 0x%x", attr->comp_mask));
	td = calloc(1, sizeof(*td));
	if (!td)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a thread domain"));
	td->ibv.context = context;
	context_get(context);
	return &td->ibv;
}

int urxe_dealloc_td(struct ibv_td *td)
{
	struct ibv_context *context = td->context;

	if (((struct thread_domain *)td)->users)
		return set_errno(refuse(EBUSY, CAUSE_OBJECT_IN_USE,
					"ibv_dealloc_td(): in use by %u parent domains",
					((struct thread_domain *)td)->users));
	quarantine_free(td, sizeof(struct thread_domain));
	context_put(context);
	return 0;
}

struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	struct parent_domain *parent;

	if (!attr->pd)
		return fail(refuse(EINVAL, CAUSE_OBJECT_MISSING,
				   "ibv_alloc_parent_domain(): pd is NULL"));
	if (!domain_is_good(attr->pd))
		return fail(domain_refuse(EINVAL, "ibv_alloc_parent_domain(), pd", attr->pd));
	if (!context_shares_file(attr->pd->context, context))
		return fail(refuse(EINVAL, CAUSE_OTHER_CONTEXT,
				   "ibv_alloc_parent_domain(): pd is of another context"));
	if (to_parent(attr->pd) && !is_import(attr->pd))
		return fail(refuse(EINVAL, CAUSE_NO_DOMAIN_OF_KIND,
				   "ibv_alloc_parent_domain(): pd is a parent domain itself"));
	/* The application's allocators have nothing to allocate: our queues aren't shared. */
	if (attr->comp_mask & ~(uint32_t)IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		return fail(refuse(EOPNOTSUPP, CAUSE_NOT_SUPPORTED,
				   "ibv_alloc_parent_domain(): comp_mask 0x%x", attr->comp_mask));
	parent = calloc(1, sizeof(*parent));
	if (!parent)
		return fail(refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a parent domain"));
	parent->ibv.context = context;
	parent->ibv.handle = parent->handle = PARENT_DOMAIN;
	parent->pd = to_pd(attr->pd);
	parent->references = 1;
	context_get(context);
	users_add(&parent->pd->users, USER_PARENT_DOMAIN, 1);
	parent->td = attr->td;
	if (parent->td)
		((struct thread_domain *)parent->td)->users++;
	return &parent->ibv;
}
