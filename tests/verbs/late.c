/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library with a destructor that calls back. It depends on none that offers verbs, so the
 * dynamic linker knows of no order between their destructors. Built twice, under two names.
 */
#include "tests/verbs/late.h"

static void (*callback)(void);

__attribute__((visibility("default"))) void LATE(void (*function)(void))
{
	callback = function;
}

static __attribute__((destructor)) void call_back(void)
{
	if (callback)
		callback();
}
