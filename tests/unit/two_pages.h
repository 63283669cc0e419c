/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain, and two pages to register in it: for the tests of memory regions. */
#ifndef URXE_TESTS_TWO_PAGES_H
#define URXE_TESTS_TWO_PAGES_H

#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "emu/objects/mr.h"

static struct pd *pd;
static uint8_t *memory; /* two pages, neither of them there yet */
static size_t page;

static void begin(void)
{
	page = sysconf(_SC_PAGESIZE);
	pd = core_pd();
	memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
}

static void end(void)
{
	munmap(memory, 2 * page);
	ck_assert_uint_eq(pd->users.counts[USER_MR], 0);
	ck_assert_uint_eq(core.mr_count, 0);
	ck_assert_uint_eq(core_shown.regions, 0);
	ck_assert_uint_eq(core_shown.region_bytes, 0);
	ck_assert_int_eq(pd_dealloc(pd), 0);
}

static struct mr *make_mr(void *addr, size_t length, int access)
{
	struct mr *mr;

	ck_assert_int_eq(mr_register(pd, addr, length, (uintptr_t)addr, access, &mr), 0);
	return mr;
}

#endif
