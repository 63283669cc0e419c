/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The application's calls that a fault may refuse, by name. Constant: no lock.
 */
#ifndef URXE_NET_FAULT_CALLS_H
#define URXE_NET_FAULT_CALLS_H

enum fault_call {
#define FAULT_CALL(name, error) FAULT_CALL_##name,
#include "net/fault/calls.def"
#undef FAULT_CALL
	FAULT_CALLS
};

const char *fault_call_name(enum fault_call call);
/* The errno that it usually fails with. */
int fault_call_error(enum fault_call call);

#endif
