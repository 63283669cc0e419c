/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP state table of IBA 10.3.1 and 11.2.5.2 as data: which transitions
 * exist for which transport, and which attributes each requires and allows; and what
 * a QP may do in each state. No state, no locks; called by all that looks at a QP's state
 * or changes it.
 */
#ifndef URXE_EMU_QP_STATE_H
#define URXE_EMU_QP_STATE_H

#include <infiniband/verbs.h>

#include "net/cause/cause.h"

/*
 * Whether a QP of @type may go from @current to @next with the attributes of
 * @mask. Returns 0, EINVAL (no such transition; a required attribute missing;
 * one that is neither required nor optional), or EOPNOTSUPP (mask bits that
 * user space can't set).
 */
int qp_state_check(enum ibv_qp_type type, enum ibv_qp_state current, enum ibv_qp_state next,
		   int mask);
/* What qp_state_check() has refused to a QP of this type. */
void qp_state_explain(enum ibv_qp_type type, enum ibv_qp_state current, enum ibv_qp_state next,
		      int mask, struct finding *finding);

/* What may be done in a state (IBA 10.3.1). */
enum qp_ability {
	QP_POST_SEND = 1 << 0,	 /* otherwise EINVAL */
	QP_POST_RECV = 1 << 1,	 /* otherwise EINVAL */
	QP_SEND = 1 << 2,	 /* new requests are started */
	QP_FINISH_SEND = 1 << 3, /* requests that were started are finished; responses taken */
	QP_RECEIVE = 1 << 4,	 /* requests are taken and answered */
	QP_FLUSH_SEND = 1 << 5,	 /* sends complete with a flush error */
	QP_FLUSH_RECV = 1 << 6,	 /* receives complete with a flush error */
};

unsigned int qp_state_abilities(enum ibv_qp_state state);

#endif
