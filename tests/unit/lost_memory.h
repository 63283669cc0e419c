/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of links: what an application has registered, and unmapped before it is sent. */
#ifndef URXE_TESTS_UNIT_LOST_MEMORY_H
#define URXE_TESTS_UNIT_LOST_MEMORY_H

#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "net/guard.h"

static inline void catch_fault(int number, siginfo_t *info, void *context)
{
	if (!guard_catch(number, info, context))
		abort();
}

/* @size bytes that can't be read. A fault there ends the access alone from now on. */
static inline void *lost_memory(size_t size)
{
	struct sigaction action = {.sa_sigaction = catch_fault, .sa_flags = SA_SIGINFO};
	void *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
	return memory;
}

#endif
