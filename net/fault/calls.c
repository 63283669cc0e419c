/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/calls.h"

#include <errno.h>

static const struct {
	const char *name;
	int error;
} calls[] = {
#define FAULT_CALL(name, error) [FAULT_CALL_##name] = {#name, error},
#include "net/fault/calls.def"
#undef FAULT_CALL
};

const char *fault_call_name(enum fault_call call)
{
	return calls[call].name;
}

int fault_call_error(enum fault_call call)
{
	return calls[call].error;
}
