/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts that a forked child finds: they are the parent's, whose threads may have held their
 * locks at the fork. Their operations are exchanged for some that touch nothing: sending and
 * creating fail, polling finds nothing, destroying does nothing. What stays are device memory and
 * the question how much there is of it, which take no lock. The child opens devices of its own.
 *
 * verbs/device.c exchanges the operations, in the child's only thread; verbs/preload asks before
 * each verb that isn't one of them, and so do extended CQs and QPs and events.
 */
#ifndef URXE_VERBS_INHERITED_H
#define URXE_VERBS_INHERITED_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct context;

/* This is a forked child, and @context its parent's. */
void context_inherit(struct context *context);

int inherited_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

/* Ours, but of the parent process: nothing of it may be touched. */
static inline bool context_is_inherited(const struct ibv_context *context)
{
	return context && context->ops.poll_cq == inherited_poll_cq;
}

/* @call is refused to a forked child. */
void report_inherited(const char *call);

/* dm.c */
struct ibv_dm *inherited_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int inherited_free_dm(struct ibv_dm *dm);

#endif
