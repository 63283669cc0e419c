/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair of the type XRC_RECV may have several handles: the one that ibv_create_qp_ex()
 * returned, and those of ibv_open_qp(). The first is the core's object; the others look like it as
 * far as verbs/ looks at any QP, with a handle that is none, so that what only a real one can do is
 * refused. The QP goes with its last handle.
 *
 * Each handle keeps the XRC domain by which it was made from being closed, and with it the context.
 *
 * device.contexts_lock protects the handles of a QP. Called by verbs/qp.c, verbs/event.c and
 * verbs/context.c.
 */
#ifndef URXE_VERBS_OPEN_QP_H
#define URXE_VERBS_OPEN_QP_H

#include "verbs/context.h"

#define OPENED_QP UINT32_MAX

struct opened_qp {
	union {
		struct ibv_qp ibv;
		uint8_t newest[ABI_QP_EX_SIZE];
	};
	void *verbs;	   /* &extra */
	uint32_t handle;   /* OPENED_QP */
	struct qp *qp;	   /* that it is a handle of */
	struct xrcd *xrcd; /* by which it was opened */
	struct qp_extra extra;
	struct opened_qp *prev, *next; /* utlist, qp_extra.opened */
};

_Static_assert(offsetof(struct opened_qp, verbs) == offsetof(struct qp, verbs) &&
		       offsetof(struct opened_qp, handle) == offsetof(struct qp, handle),
	       "either may be behind an ibv_qp");

static inline struct opened_qp *to_opened(struct ibv_qp *qp)
{
	return to_qp(qp)->handle == OPENED_QP ? (struct opened_qp *)qp : NULL;
}

/* The QP behind any handle of it, or NULL: the handle isn't what it was when it was made. */
static inline struct qp *shared_qp(struct ibv_qp *qp)
{
	if (to_opened(qp))
		return to_opened(qp)->qp;
	return HANDLE_IS_GOOD(to_qp(qp)) ? to_qp(qp) : NULL;
}

/* Call @function for each handle that the application has of @qp. */
void qp_each_handle(struct qp *qp, void (*function)(struct ibv_qp *handle, int argument),
		    int argument);

/* Whether all contexts of @device are closed that the application has handles of @qp of. */
bool qp_is_abandoned(struct qp *qp, struct device *device);

/*
 * @ibv is being destroyed. Returns its QP if that has no other handle, and is to be destroyed
 * along with it, or NULL: then all is done.
 */
struct qp *qp_close_handle(struct ibv_qp *ibv);

#endif
