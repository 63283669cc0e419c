/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is said of connections (net/cause/cause.h), for the verbs layer, too, which decides on
 * requests and knows which call an application has made too early. No state; the sink calls
 * cm_tell_refused() with cm.lock held.
 */
#ifndef URXE_EMU_CM_CAUSE_H
#define URXE_EMU_CM_CAUSE_H

#include "emu/cm/cm.h"
#include "net/cause/cause.h"

/* Report that a @request from @source is refused for @cause, of which @found has the details. */
void cm_tell_refused(enum cause cause, const struct cm_message *request,
		     const union ibv_gid *source, const char *found);

#endif
