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
#define MINUS_ERRNO(error) (-set_errno(error))

/* @prepare: before it fails. */
#define OPERATION(member, type, name, call, parameters, arguments, failure, prepare)               \
	type hooked_##name parameters                                                              \
	{                                                                                          \
		int error = hook_call(FAULT_CALL_ibv_##call);                                      \
                                                                                                   \
		if (error) {                                                                       \
			prepare;                                                                   \
			return failure(error);                                                     \
		}                                                                                  \
		return checked_##name arguments;                                                   \
	}
#include "verbs/operations.def"
#undef OPERATION

/*
 * Not for TSan: the inline functions of verbs.h read them plainly meanwhile. Each is a pointer, and
 * a call goes to what was there or to what is there then.
 */
__attribute__((no_sanitize("thread"))) void hooks_set_operations(struct context *context)
{
	struct verbs_context *verbs = &context->verbs;

#define OPERATION(member, type, name, ...) verbs->member = hooked_##name;
#include "verbs/operations.def"
#undef OPERATION
}
