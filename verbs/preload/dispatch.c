/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public functions of libibverbs: ours or real? Decided by the object that
 * the function is about, in constant time; objects of the real library go there
 * untouched. One line a function:
 *
 *   VERB(type, name, node, parameters, arguments, object, failure)
 *
 * is ibv_NAME, in version NODE of the symbol map; @object is the context or the
 * device that decides, @failure how it fails, as it does with EOPNOTSUPP on a host without the real
 * library. INT_VERB() is one that returns an int: an errno value is left in errno, too. DESTROY()
 * is one that frees its object, VOID_VERB() one that can't fail.
 */
#include "net/guard.h"
#include "verbs/check/check.h"
#include "verbs/check/checked.h"
#include "verbs/command_fd.h"
#include "verbs/context.h"
#include "verbs/hooks.h"
#include "verbs/inherited.h"
#include "verbs/preload/export.h"
#include "verbs/preload/real.h"
#include "verbs/registry.h"

/* How a function says that it failed. */
#define A_NULL(error) fail(error)
#define AN_ERRNO(error) (error)
#define MINUS_ONE(error) (errno = (error), -1)
#define REREG_ERROR(error) (errno = (error), IBV_REREG_MR_ERR_INPUT)
#define ZERO(error) ((void)(error), 0)

/* Before our verb, while hooks are on (verbs/hooks.h). */
#define HOOK(name, arguments, failure, result)                                                     \
	if (unlikely(hooks_on())) {                                                                \
		int error = hook_call(FAULT_CALL_ibv_##name);                                      \
                                                                                                   \
		if (error)                                                                         \
			return errno = error, failure(error);                                      \
		return result(checked_##name arguments);                                           \
	}

#define FORWARD(type, symbol, node, parameters, arguments, failure)                                \
	static void *cache;                                                                        \
	type(*real) parameters = real_find(&cache, REAL_VERBS, symbol, node);                      \
	return real ? real arguments : failure

#define VERB(type, name, node, parameters, arguments, object, failure)                             \
	EXPORT type ibv_##name parameters                                                          \
	{                                                                                          \
		if (likely(OURS(object))) {                                                        \
			guard_thread();                                                            \
			HOOK(name, arguments, failure, )                                           \
			return urxe_##name arguments;                                              \
		}                                                                                  \
		if (INHERITED(object)) {                                                           \
			report_inherited("ibv_" #name "()");                                       \
			return failure(EOPNOTSUPP);                                                \
		}                                                                                  \
		FORWARD(type, "ibv_" #name, node, parameters, arguments, failure(EOPNOTSUPP));     \
	}

#define VOID_VERB(name, node, parameters, arguments, object)                                       \
	EXPORT void ibv_##name parameters                                                          \
	{                                                                                          \
		if (likely(OURS(object))) {                                                        \
			guard_thread();                                                            \
			HOOKED(name) arguments;                                                    \
			return;                                                                    \
		}                                                                                  \
		if (INHERITED(object)) {                                                           \
			report_inherited("ibv_" #name "()");                                       \
			return;                                                                    \
		}                                                                                  \
		FORWARD(void, "ibv_" #name, node, parameters, arguments, (void)0);                 \
	}

/* @inherited is what a forked child gets for an object of its parent's. */
#define INT_CALL(name, node, parameters, arguments, object, failure, inherited)                    \
	EXPORT int ibv_##name parameters                                                           \
	{                                                                                          \
		if (likely(OURS(object))) {                                                        \
			guard_thread();                                                            \
			HOOK(name, arguments, failure, set_errno)                                  \
			return set_errno(urxe_##name arguments);                                   \
		}                                                                                  \
		if (INHERITED(object))                                                             \
			return inherited;                                                          \
		FORWARD(int, "ibv_" #name, node, parameters, arguments, failure(EOPNOTSUPP));      \
	}

#define INT_VERB(name, node, parameters, arguments, object, failure)                               \
	INT_CALL(name, node, parameters, arguments, object, failure,                               \
		 (report_inherited("ibv_" #name "()"), set_errno(failure(EOPNOTSUPP))))

/* Of its parent's objects a forked child has nothing to free. */
#define DESTROY(name, node, parameters, arguments, object)                                         \
	INT_CALL(name, node, parameters, arguments, object, AN_ERRNO,                              \
		 (check_inherited("ibv_" #name "()"), 0))

#define OURS(object)                                                                               \
	_Generic((object), struct ibv_context *                                                    \
		 : context_is_ours, struct ibv_device *                                            \
		 : device_is_ours)(object)

/* Of the parent, and this is a forked child. Devices are the process's own. */
#define INHERITED(object)                                                                          \
	_Generic((object), struct ibv_context *                                                    \
		 : context_is_inherited, struct ibv_device *                                       \
		 : device_is_inherited)(object)

static inline bool device_is_inherited(const struct ibv_device *device)
{
	return false;
}

#define V1_0 "IBVERBS_1.0"
#define V1_1 "IBVERBS_1.1"

/* clang-format off */

/* --- devices and contexts ------------------------------------------------------ */
VERB(struct ibv_context *, open_device, V1_1, (struct ibv_device *device), (device), device, A_NULL)
DESTROY(close_device, V1_1, (struct ibv_context *context), (context), context)
INT_VERB(get_async_event, V1_1, (struct ibv_context *context, struct ibv_async_event *event), (context, event), context, MINUS_ONE)
INT_VERB(query_device, V1_1, (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr), context, AN_ERRNO)
INT_VERB(query_port, V1_1, (struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr), (context, port_num, attr), context, AN_ERRNO)
INT_VERB(query_gid, V1_1, (struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid), (context, port_num, index, gid), context, MINUS_ONE)
INT_VERB(query_pkey, V1_1, (struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey), (context, port_num, index, pkey), context, MINUS_ONE)
INT_VERB(get_pkey_index, "IBVERBS_1.5", (struct ibv_context *context, uint8_t port_num, __be16 pkey), (context, port_num, pkey), context, MINUS_ONE)
INT_VERB(resolve_eth_l2_from_gid, V1_1, (struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid), (context, attr, eth_mac, vid), context, AN_ERRNO)
VERB(struct ibv_dm *, import_dm, "IBVERBS_1.13", (struct ibv_context *context, uint32_t dm_handle), (context, dm_handle), context, A_NULL)
VERB(struct ibv_pd *, import_pd, "IBVERBS_1.10", (struct ibv_context *context, uint32_t pd_handle), (context, pd_handle), context, A_NULL)
VOID_VERB(unimport_dm, "IBVERBS_1.13", (struct ibv_dm *dm), (dm), dm->context)
VOID_VERB(unimport_pd, "IBVERBS_1.10", (struct ibv_pd *pd), (pd), pd->context)
VOID_VERB(unimport_mr, "IBVERBS_1.10", (struct ibv_mr *mr), (mr), mr->context)

/* --- completion channels ---------------------------------------------------------- */
VERB(struct ibv_comp_channel *, create_comp_channel, V1_0, (struct ibv_context *context), (context), context, A_NULL)
DESTROY(destroy_comp_channel, V1_0, (struct ibv_comp_channel *channel), (channel), channel->context)
INT_VERB(get_cq_event, V1_1, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context), (channel, cq, cq_context), channel->context, MINUS_ONE)

/* --- protection domains, memory ---------------------------------------------------- */
VERB(struct ibv_pd *, alloc_pd, V1_1, (struct ibv_context *context), (context), context, A_NULL)
DESTROY(dealloc_pd, V1_1, (struct ibv_pd *pd), (pd), pd->context)
VERB(struct ibv_mr *, reg_mr, V1_1, (struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access), pd->context, A_NULL)
VERB(struct ibv_mr *, reg_mr_iova, "IBVERBS_1.7", (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access), (pd, addr, length, iova, access), pd->context, A_NULL)
VERB(struct ibv_mr *, reg_mr_iova2, "IBVERBS_1.8", (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access), (pd, addr, length, iova, access), pd->context, A_NULL)
INT_VERB(rereg_mr, V1_1, (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access), (mr, flags, pd, addr, length, access), mr->context, REREG_ERROR)
DESTROY(dereg_mr, V1_1, (struct ibv_mr *mr), (mr), mr->context)
VERB(struct ibv_mr *, reg_dmabuf_mr, "IBVERBS_1.12", (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access), (pd, offset, length, iova, fd, access), pd->context, A_NULL)
VERB(struct ibv_mr *, import_mr, "IBVERBS_1.10", (struct ibv_pd *pd, uint32_t mr_handle), (pd, mr_handle), pd->context, A_NULL)

/* --- completion queues -------------------------------------------------------------- */
VERB(struct ibv_cq *, create_cq, V1_1, (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector), (context, cqe, cq_context, channel, comp_vector), context, A_NULL)
INT_VERB(resize_cq, V1_1, (struct ibv_cq *cq, int cqe), (cq, cqe), cq->context, AN_ERRNO)
DESTROY(destroy_cq, V1_1, (struct ibv_cq *cq), (cq), cq->context)

/* --- shared receive queues ------------------------------------------------------------ */
VERB(struct ibv_srq *, create_srq, V1_1, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr), pd->context, A_NULL)
INT_VERB(modify_srq, V1_1, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask), srq->context, AN_ERRNO)
INT_VERB(query_srq, V1_1, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr), srq->context, AN_ERRNO)
DESTROY(destroy_srq, V1_1, (struct ibv_srq *srq), (srq), srq->context)

/* --- queue pairs ------------------------------------------------------------------------ */
VERB(struct ibv_qp *, create_qp, V1_1, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr), pd->context, A_NULL)
VERB(struct ibv_qp_ex *, qp_to_qp_ex, "IBVERBS_1.6", (struct ibv_qp *qp), (qp), qp->context, A_NULL)
INT_VERB(modify_qp, V1_1, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask), qp->context, AN_ERRNO)
INT_VERB(query_qp, V1_1, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr), (qp, attr, mask, init_attr), qp->context, AN_ERRNO)
INT_VERB(query_qp_data_in_order, "IBVERBS_1.14", (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags), qp->context, ZERO)
DESTROY(destroy_qp, V1_1, (struct ibv_qp *qp), (qp), qp->context)
INT_VERB(attach_mcast, V1_1, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), qp->context, AN_ERRNO)
DESTROY(detach_mcast, V1_1, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), qp->context)
INT_VERB(set_ece, "IBVERBS_1.10", (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context, AN_ERRNO)
INT_VERB(query_ece, "IBVERBS_1.10", (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context, AN_ERRNO)

/* --- address handles ---------------------------------------------------------------------- */
VERB(struct ibv_ah *, create_ah, V1_1, (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr), pd->context, A_NULL)
INT_VERB(init_ah_from_wc, V1_1, (struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr), (context, port_num, wc, grh, attr), context, MINUS_ONE)
VERB(struct ibv_ah *, create_ah_from_wc, V1_1, (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num), (pd, wc, grh, port_num), pd->context, A_NULL)
DESTROY(destroy_ah, V1_1, (struct ibv_ah *ah), (ah), ah->context)

/* clang-format on */

/* --- names without ibv_, and types that no installed header has ------------------------------ */

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	if (context_is_ours(context))
		return set_errno(HOOKED(query_gid_ex)(context, port_num, gid_index, entry, flags,
						      entry_size));
	if (context_is_inherited(context)) {
		report_inherited("ibv_query_gid_ex()");
		return set_errno(EOPNOTSUPP);
	}
	FORWARD(int, "_ibv_query_gid_ex", "IBVERBS_1.11",
		(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *, uint32_t,
		 size_t),
		(context, port_num, gid_index, entry, flags, entry_size), EOPNOTSUPP);
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t max_entries, uint32_t flags, size_t entry_size)
{
	if (context_is_ours(context))
		return HOOKED(query_gid_table)(context, entries, max_entries, flags, entry_size);
	if (context_is_inherited(context)) {
		report_inherited("ibv_query_gid_table()");
		return -EOPNOTSUPP;
	}
	FORWARD(ssize_t, "_ibv_query_gid_table", "IBVERBS_1.11",
		(struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t),
		(context, entries, max_entries, flags, entry_size), -EOPNOTSUPP);
}

/* Private to rdma-core, yet ibv_devinfo calls it. Exported without a version: see liburxe.map. */
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
			      int *type)
{
	if (context_is_ours(context))
		return HOOKED(query_gid_type)(context, port_num, index, type);
	if (context_is_inherited(context)) {
		report_inherited("ibv_query_gid_type()");
		return MINUS_ONE(EOPNOTSUPP);
	}
	FORWARD(int, "ibv_query_gid_type", NULL,
		(struct ibv_context *, uint8_t, unsigned int, int *),
		(context, port_num, index, type), MINUS_ONE(EOPNOTSUPP));
}

/* --- public members only: the same for our objects and real ones ---------------------------- */

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	if (context_is_inherited(cq->context))
		return;
	HOOKED(ack_cq_events)(cq, count);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	HOOKED(ack_async_event)(event);
}

/* --- devices, without opening them ---------------------------------------------------------- */

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	if (device_is_ours(device))
		return ((struct device *)device)->guid;
	FORWARD(__be64, "ibv_get_device_guid", V1_1, (struct ibv_device *), (device), 0);
}

/* The kernel numbers its devices; ours have no number. */
EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	if (device_is_ours(device))
		return -1;
	FORWARD(int, "ibv_get_device_index", "IBVERBS_1.9", (struct ibv_device *), (device), -1);
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	if (registry_mode() != MODE_HW && command_fd_is_ours(cmd_fd))
		return HOOKED(import_device)(cmd_fd);
	/* What rdma-core says to what is no command descriptor. */
	if (registry_mode() == MODE_EMU)
		return fail(refuse(EINVAL, CAUSE_IMPORT_UNKNOWN,
				   "ibv_import_device(): descriptor %d is of no context", cmd_fd));
	FORWARD(struct ibv_context *, "ibv_import_device", "IBVERBS_1.10", (int), (cmd_fd),
		fail(EOPNOTSUPP));
}

/* --- fork: our devices use memory as the process does, nothing is pinned --------------------- */

EXPORT int ibv_fork_init(void)
{
	check_fork_init();
	if (registry_mode() == MODE_EMU)
		return 0;
	FORWARD(int, "ibv_fork_init", V1_1, (void), (), 0);
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	check_fork_asked();
	if (registry_mode() == MODE_EMU)
		return IBV_FORK_UNNEEDED;
	FORWARD(enum ibv_fork_status, "ibv_is_fork_initialized", "IBVERBS_1.13", (void), (),
		IBV_FORK_UNNEEDED);
}
