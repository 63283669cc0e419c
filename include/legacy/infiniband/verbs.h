/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Today's <infiniband/verbs.h>, and what programs of the MLNX_OFED generation found there besides.
 * A program gets this one if the directory above is on its include path before the system's.
 */
#ifndef INFINIBAND_VERBS_LEGACY_H
#define INFINIBAND_VERBS_LEGACY_H

#pragma GCC system_header
#include_next <infiniband/verbs.h>

#include <infiniband/ofa_verbs.h>
#include <infiniband/verbs_exp.h>

#endif
