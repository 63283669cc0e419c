/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of connections (net/cause/cause.h) that the verbs layer makes, too: it decides on
 * requests. No state; the sink calls this with cm.lock held. The connection manager's own reports
 * are in cm_internal.h.
 */
#ifndef URXE_EMU_CM_CAUSE_H
#define URXE_EMU_CM_CAUSE_H

#include "emu/cm/cm.h"
#include "net/cause/cause.h"

/* Report that a @request from @source is refused for @cause, of which @found has the details. */
void cm_report_refused(enum cause cause, const struct cm_message *request,
		       const union ibv_gid *source, const char *found);

#endif
