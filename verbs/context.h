/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device, as the application sees it, and the one test that decides
 * whether an object is ours or the real library's.
 *
 * Used throughout the verbs layer. A context is immutable once it is open, but for
 * its event queue, which has its own lock, the count of its users, which is atomic,
 * and what device.contexts_lock protects: its place in a list, whether it is closed,
 * and its operations, which hooks exchange (verbs/hooks.h), and forks (verbs/inherited.h).
 */
#ifndef URXE_VERBS_CONTEXT_H
#define URXE_VERBS_CONTEXT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

#include "emu/hca.h"
#include "emu/objects/cq.h"
#include "emu/objects/event.h"
#include "emu/objects/mr.h"
#include "emu/objects/mw.h"
#include "emu/objects/pd.h"
#include "emu/objects/qp.h"
#include "emu/objects/srq.h"
#include "emu/objects/xrcd.h"
#include "net/cause/cause.h"
#include "verbs/device.h"
#include "verbs/event_fd.h"
#include "verbs/hooks.h"
#include "verbs/ours.h"
#include "verbs/poll_yield.h"
#include "verbs/preload/export.h"
#include "verbs/progress.h"

/* The functions of verbs.h are macros where they dispatch on the caller's headers. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/*
 * verbs_context grows upwards: applications built with newer headers than ours
 * find their operations above what we know, NULL, so that they report
 * EOPNOTSUPP (spec: sz counts the valid bytes from the end). The size is that of rdma-core 65,
 * or of our headers where those are newer still.
 */
#define ABI_VERBS_CONTEXT_65 (46 * sizeof(void *) + sizeof(struct ibv_context))
#define ABI_VERBS_CONTEXT_SIZE                                                                     \
	(sizeof(struct verbs_context) < ABI_VERBS_CONTEXT_65 ? ABI_VERBS_CONTEXT_65                \
							     : sizeof(struct verbs_context))

/*
 * A context that the application closes with objects in use is kept until the last of them
 * is destroyed: they name it. What is left then is its memory alone.
 */
struct context {
	void *newer_operations[(ABI_VERBS_CONTEXT_SIZE - sizeof(struct verbs_context)) /
			       sizeof(void *)];
	struct verbs_context verbs;
	struct device *device;
	struct hca *hca;			 /* the device's */
	struct descriptor_identity cmd_identity; /* of verbs.context.cmd_fd: its file */
	struct event_fd async;
	_Atomic uint32_t users;	     /* what context_get() counts; and being open */
	struct context *prev, *next; /* utlist: device.contexts */
	bool closed;		     /* by ibv_close_device(); under device.contexts_lock */
};

_Static_assert(offsetof(struct context, verbs) + sizeof(struct verbs_context) ==
		       ABI_VERBS_CONTEXT_SIZE,
	       "nothing may lie between newer and known operations");

/* O(1), and without looking beyond what the real library's contexts have too. */
static inline bool context_is_ours(const struct ibv_context *context)
{
	return context && (likely(context->ops.poll_cq == urxe_poll_cq) ||
			   context->ops.poll_cq == hooked_poll_cq);
}

/* The process has as many descriptors as it may. */
static inline bool is_descriptor_error(int error)
{
	return error == EMFILE || error == ENFILE;
}

/* Where a post failed (@bad of ibv_post_*()), for applications that ask. */
#define TELL_BAD(bad, wr)                                                                          \
	do {                                                                                       \
		if (bad)                                                                           \
			*(bad) = (wr);                                                             \
	} while (0)

/*
 * Returns @error of what @call asked the system for; reports which limit was reached, or that a
 * sandbox forbids it, if it is such a one.
 */
int refuse_system_error(int error, const char *call);

static inline bool device_is_ours(const struct ibv_device *device)
{
	return device && device->_ops._dummy1 == device_mark;
}

static inline struct context *to_context(struct ibv_context *context)
{
	return (struct context *)((char *)context - offsetof(struct context, verbs.context));
}

static inline struct hca *to_hca(struct ibv_context *context)
{
	return to_context(context)->hca;
}

static inline struct cq *to_cq(struct ibv_cq *cq)
{
	return (struct cq *)cq;
}

static inline struct qp *to_qp(struct ibv_qp *qp)
{
	return (struct qp *)qp;
}

static inline struct srq *to_srq(struct ibv_srq *srq)
{
	return (struct srq *)srq;
}

static inline struct xrcd *to_xrcd(struct ibv_xrcd *xrcd)
{
	return (struct xrcd *)xrcd;
}

/*
 * Whether both have one command file (verbs/command_fd.h): one was imported with a duplicate of
 * the other's descriptor, and objects of the other can be imported by it. Both are ours.
 */
bool context_shares_file(const struct ibv_context *a, const struct ibv_context *b);
/*
 * ENOENT, reported: @call can't import what has @handle, which is of a context with another file if
 * it was @found, or no @kind's of this process.
 */
int refuse_import(const char *call, uint32_t handle, const char *kind, bool found);

/*
 * For what is created on a context, and names it until it is destroyed: domains, CQs, channels,
 * device memory, buffers, opened QPs. What is created in a domain keeps that alone.
 */
void context_get(struct ibv_context *context);
void context_put(struct ibv_context *context);

/*
 * A real library gives an object's handle to the kernel, which looks it up. Here it has only
 * to be what it was when the object was made.
 */
#define HANDLE_IS_GOOD(object) ((object)->ibv.handle == (object)->handle)
/* What is returned when it isn't: @error, reported. */
#define REFUSE_HANDLE(error, call, object)                                                         \
	refuse((error), CAUSE_HANDLE_CHANGED, "%s: handle is %u, it was made with %u", call,       \
	       (object)->ibv.handle, (object)->handle)

/* Access flags of this range may be ignored by a device that lacks them (ibv_reg_mr(3)). */
#define ACCESS_OPTIONAL ((unsigned int)IBV_ACCESS_OPTIONAL_RANGE)

/* A region that was made in @pd, to the application. */
struct ibv_mr *mr_hand_out(struct mr *mr, struct ibv_pd *pd);

/* qp_post_send() of an application's call, which the progress thread is told of. */
int post_requests(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad,
		  bool extended);

/* What the verbs layer keeps with a CQ, QP or SRQ: events handed to the application. */
struct cq_extra {
	uint32_t completion_events, async_events;
	struct ibv_pd *domain;		/* the parent domain that it was created in, or NULL */
	struct event_record completion; /* in the channel's queue */
	struct completion current;	/* of start_poll and next_poll */
	int64_t wall_offset; /* ns, from the device's clock to the wall clock; when it was polled */
	bool single_threaded;
	pthread_mutex_t poll_lock; /* from start_poll to end_poll */
	struct poll_turns turns;
};

struct qp_extra {
	uint32_t async_events;
	struct builder *builder; /* of ibv_wr_*, or NULL */

	/* XRC_RECV: verbs/open_qp.h */
	struct device *device;
	struct opened_qp *opened; /* its handles but for the first */
	bool closed;		  /* the first was destroyed */
};

struct srq_extra {
	uint32_t async_events;
};

/* Hand out what the core raised. No lock may be held. */
static inline void deliver(struct hca *hca)
{
	if (atomic_load_explicit(&hca->events.pending, memory_order_relaxed))
		event_deliver(&hca->events);
}

/* Verbs that return an errno value leave it in errno, too, as those of rdma-core do. */
static inline int set_errno(int error)
{
	if (error > 0)
		errno = error;
	return error;
}

/* For verbs that return 0, or -1 with errno. */
static inline int errno_result(int error)
{
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/* For verbs that return a pointer. */
static inline void *fail(int error)
{
	errno = error;
	return NULL;
}

#endif
