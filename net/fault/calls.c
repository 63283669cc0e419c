/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/calls.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	int error;
} calls[] = {
#define FAULT_CALL(name, error) [FAULT_CALL_##name] = {#name, error},
#include "net/fault/calls.def"
#undef FAULT_CALL
};

enum fault_call fault_call_find(const char *name, size_t length)
{
	unsigned int i = 0;

	while (i < FAULT_CALLS &&
	       (strlen(calls[i].name) != length || memcmp(calls[i].name, name, length) != 0))
		i++;
	return i;
}

const char *fault_call_name(enum fault_call call)
{
	return calls[call].name;
}

int fault_call_error(enum fault_call call)
{
	return calls[call].error;
}
