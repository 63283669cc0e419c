/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of links: what an application has registered, and unmapped before it is sent. */
#ifndef URXE_TESTS_UNIT_LOST_MEMORY_H
#define URXE_TESTS_UNIT_LOST_MEMORY_H

#include <check.h>
#include <sys/mman.h>

#include "faults.h"

/* @size bytes that can't be read. A fault there ends the access alone from now on. */
static inline void *lost_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	catch_faults();
	return memory;
}

#endif
