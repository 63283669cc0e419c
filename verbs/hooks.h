/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hooks in the application's calls of our verbs, for faults that refuse calls and for the checker.
 * Off, they cost a look at a flag where a function is exported, and nothing in the operations
 * that the inline functions of verbs.h call: those of the contexts are exchanged when hooks go on.
 *
 * A hooked call first asks hook_call(), then goes to checked_NAME() (verbs/check/checked.h).
 * Calls of the library's own use urxe_NAME() and are never hooked.
 *
 * Any thread. device.contexts_lock is held around hooks_set_operations(); hooks_enable() takes it.
 */
#ifndef URXE_VERBS_HOOKS_H
#define URXE_VERBS_HOOKS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/fault/calls.h"

struct context;

extern _Atomic bool hooks_are_on;

static inline bool hooks_on(void)
{
	return atomic_load_explicit(&hooks_are_on, memory_order_relaxed);
}

/* On if the configuration wants them: before the first call that may be hooked. */
void hooks_configure(void);
/* On for good, at any time, in all contexts that are open and will be. */
void hooks_enable(void);

/* 0, or the errno with which @call fails instead of being made. */
int hook_call(enum fault_call call);
/* The same while hooks are on; else 0, at the cost of a look. */
static inline int hook_refusal(enum fault_call call)
{
	return __builtin_expect(hooks_on(), 0) ? hook_call(call) : 0;
}

/* Exchange the operations of a context for hooked ones. */
void hooks_set_operations(struct context *context);

#define OPERATION(member, type, name, call, parameters, ...) type hooked_##name parameters;
#include "verbs/operations.def"
#undef OPERATION

#endif
