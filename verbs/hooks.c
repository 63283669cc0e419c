/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/hooks.h"

#include <string.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/fault/call_counts.h"
#include "net/fault/injector.h"
#include "net/log.h"
#include "verbs/check/check.h"
#include "verbs/check/checked.h"
#include "verbs/context.h"
#include "verbs/devices.h"
#include "verbs/registry.h"

_Atomic bool hooks_are_on;

void hooks_enable(void)
{
	struct device *devices;
	unsigned int count;

	if (atomic_exchange(&hooks_are_on, true))
		return;
	count = devices_all(&devices);
	for (unsigned int i = 0; i < count; i++) {
		struct context *context;

		pthread_mutex_lock(&devices[i].contexts_lock);
		DL_FOREACH (devices[i].contexts, context)
			hooks_set_operations(context);
		pthread_mutex_unlock(&devices[i].contexts_lock);
	}
}

static struct call_counter counter; /* for `urxe fuzz` */

static void count_in_child(void)
{
	call_counter_fork(&counter);
}

static void start_counting(void)
{
	static struct registry_hooks hooks = {.order = FORK_LEAF,
					      .after_fork_in_child = count_in_child};
	const char *file = registry_configuration()->calls;
	int error = file ? call_counter_open(&counter, file) : 0;

	if (error)
		log_warn("URXE_CALLS=%s: %s; calls aren't counted", file, strerror(error));
	if (counter.counts)
		registry_add_hooks(&hooks);
}

void hooks_configure(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	check_start();
	pthread_once(&once, start_counting);
	if (check_is_on() || counter.counts || injector_has(registry_injector(), ACTION_FAIL))
		atomic_store(&hooks_are_on, true);
}

int hook_call(enum fault_call call)
{
	struct fault_hit hit;
	int error = injector_call(registry_injector(), call, &hit);

	call_counter_add(&counter, call);
	if (error)
		cause_report(CAUSE_CALL_REFUSED_BY_FAULT,
			     "%s() fails with %s: it was call %llu of %s", fault_call_name(call),
			     strerrorname_np(error) ?: "an unknown errno",
			     (unsigned long long)hit.count, hit.clause);
	return error;
}

/* --- operations ----------------------------------------------------------------- */

#define A_NULL(error) fail(error)
#define AN_ERRNO(error) set_errno(error)

/* hooked_NAME(); @prepare: before it fails. */
#define OPERATION(type, name, call, parameters, arguments, failure, prepare)                       \
	static type hooked_##name parameters                                                       \
	{                                                                                          \
		int error = hook_call(FAULT_CALL_ibv_##call);                                      \
                                                                                                   \
		if (error) {                                                                       \
			prepare;                                                                   \
			return failure(error);                                                     \
		}                                                                                  \
		return checked_##name arguments;                                                   \
	}

/* clang-format off */
OPERATION(int, query_device, query_device, (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr), AN_ERRNO, )
OPERATION(int, query_port, query_port, (struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr), (context, port_num, attr), AN_ERRNO, )
OPERATION(struct ibv_mw *, alloc_mw, alloc_mw, (struct ibv_pd *pd, enum ibv_mw_type type), (pd, type), A_NULL, )
OPERATION(int, bind_mw, bind_mw, (struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind), (qp, mw, bind), AN_ERRNO, )
OPERATION(int, dealloc_mw, dealloc_mw, (struct ibv_mw *mw), (mw), AN_ERRNO, )
OPERATION(int, req_notify_cq, req_notify_cq, (struct ibv_cq *cq, int solicited_only), (cq, solicited_only), AN_ERRNO, )
OPERATION(int, post_srq_recv, post_srq_recv, (struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), (srq, wr, bad), AN_ERRNO, TELL_BAD(bad, wr))
OPERATION(int, post_send, post_send, (struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad), (qp, wr, bad), AN_ERRNO, TELL_BAD(bad, wr))
OPERATION(int, post_recv, post_recv, (struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad), (qp, wr, bad), AN_ERRNO, TELL_BAD(bad, wr))
OPERATION(int, query_port_ex, query_port, (struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr, size_t attr_size), (context, port_num, attr, attr_size), AN_ERRNO, )
OPERATION(int, query_device_ex, query_device_ex, (struct ibv_context *context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr, size_t attr_size), (context, input, attr, attr_size), AN_ERRNO, )
OPERATION(int, query_rt_values, query_rt_values, (struct ibv_context *context, struct ibv_values_ex *values), (context, values), AN_ERRNO, )
OPERATION(struct ibv_pd *, alloc_parent_domain, alloc_parent_domain, (struct ibv_context *context, struct ibv_parent_domain_init_attr *attr), (context, attr), A_NULL, )
OPERATION(struct ibv_td *, alloc_td, alloc_td, (struct ibv_context *context, struct ibv_td_init_attr *attr), (context, attr), A_NULL, )
OPERATION(int, dealloc_td, dealloc_td, (struct ibv_td *td), (td), AN_ERRNO, )
OPERATION(int, advise_mr, advise_mr, (struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge), (pd, advice, flags, sg_list, num_sge), AN_ERRNO, )
OPERATION(struct ibv_mr *, alloc_null_mr, alloc_null_mr, (struct ibv_pd *pd), (pd), A_NULL, )
OPERATION(struct ibv_dm *, alloc_dm, alloc_dm, (struct ibv_context *context, struct ibv_alloc_dm_attr *attr), (context, attr), A_NULL, )
OPERATION(int, free_dm, free_dm, (struct ibv_dm *dm), (dm), AN_ERRNO, )
OPERATION(struct ibv_mr *, reg_dm_mr, reg_dm_mr, (struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length, unsigned int access), (pd, dm, dm_offset, length, access), A_NULL, )
OPERATION(struct ibv_cq_ex *, create_cq_ex, create_cq_ex, (struct ibv_context *context, struct ibv_cq_init_attr_ex *attr), (context, attr), A_NULL, )
OPERATION(int, modify_cq, modify_cq, (struct ibv_cq *cq, struct ibv_modify_cq_attr *attr), (cq, attr), AN_ERRNO, )
OPERATION(struct ibv_qp *, create_qp_ex, create_qp_ex, (struct ibv_context *context, struct ibv_qp_init_attr_ex *attr), (context, attr), A_NULL, )
OPERATION(struct ibv_srq *, create_srq_ex, create_srq_ex, (struct ibv_context *context, struct ibv_srq_init_attr_ex *attr), (context, attr), A_NULL, )
OPERATION(struct ibv_xrcd *, open_xrcd, open_xrcd, (struct ibv_context *context, struct ibv_xrcd_init_attr *attr), (context, attr), A_NULL, )
OPERATION(int, close_xrcd, close_xrcd, (struct ibv_xrcd *xrcd), (xrcd), AN_ERRNO, )
OPERATION(int, get_srq_num, get_srq_num, (struct ibv_srq *srq, uint32_t *number), (srq, number), AN_ERRNO, )
OPERATION(struct ibv_qp *, open_qp, open_qp, (struct ibv_context *context, struct ibv_qp_open_attr *attr), (context, attr), A_NULL, )
/* clang-format on */

int hooked_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int error = hook_call(FAULT_CALL_ibv_poll_cq);

	return error ? -set_errno(error) : checked_poll_cq(cq, num_entries, wc);
}

/*
 * Not for TSan: the inline functions of verbs.h read them plainly meanwhile. Each is a pointer, and
 * a call goes to what was there or to what is there then.
 */
__attribute__((no_sanitize("thread"))) void hooks_set_operations(struct context *context)
{
	struct verbs_context *verbs = &context->verbs;
	struct ibv_context_ops *ops = &verbs->context.ops;

	ops->_compat_query_device = hooked_query_device;
	ops->_compat_query_port = hooked_query_port;
	ops->alloc_mw = hooked_alloc_mw;
	ops->bind_mw = hooked_bind_mw;
	ops->dealloc_mw = hooked_dealloc_mw;
	ops->poll_cq = hooked_poll_cq;
	ops->req_notify_cq = hooked_req_notify_cq;
	ops->post_srq_recv = hooked_post_srq_recv;
	ops->post_send = hooked_post_send;
	ops->post_recv = hooked_post_recv;

	verbs->query_port = hooked_query_port_ex;
	verbs->query_device_ex = hooked_query_device_ex;
	verbs->query_rt_values = hooked_query_rt_values;
	verbs->alloc_parent_domain = hooked_alloc_parent_domain;
	verbs->alloc_td = hooked_alloc_td;
	verbs->dealloc_td = hooked_dealloc_td;
	verbs->advise_mr = hooked_advise_mr;
	verbs->alloc_null_mr = hooked_alloc_null_mr;
	verbs->alloc_dm = hooked_alloc_dm;
	verbs->free_dm = hooked_free_dm;
	verbs->reg_dm_mr = hooked_reg_dm_mr;
	verbs->create_cq_ex = hooked_create_cq_ex;
	verbs->modify_cq = hooked_modify_cq;
	verbs->create_qp_ex = hooked_create_qp_ex;
	verbs->create_srq_ex = hooked_create_srq_ex;
	verbs->open_xrcd = hooked_open_xrcd;
	verbs->close_xrcd = hooked_close_xrcd;
	verbs->get_srq_num = hooked_get_srq_num;
	verbs->open_qp = hooked_open_qp;
}
