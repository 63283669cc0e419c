/* SPDX-License-Identifier: BSD-2-Clause */
/* The process and its kernel, as the core asks for them (emu/host.h). No state, no locks. */
#ifndef URXE_VERBS_HOST_H
#define URXE_VERBS_HOST_H

#include "emu/host.h"

extern const struct hca_host process_host;

#endif
