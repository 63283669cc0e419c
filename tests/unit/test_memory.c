/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The three ways to ask what is mapped against each other: a kernel only ever
 * needs one of them, so they are reached from inside.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "verbs/memory.c"

static uint8_t *memory;
static size_t page;

/* Pages: writable, readable, inaccessible, unmapped, writable. */
static void map(void)
{
	page = sysconf(_SC_PAGESIZE);
	memory = mmap(NULL, 5 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(mprotect(memory + page, page, PROT_READ), 0);
	ck_assert_int_eq(mprotect(memory + 2 * page, page, PROT_NONE), 0);
	ck_assert_int_eq(munmap(memory + 3 * page, page), 0);
}

static const struct {
	unsigned int first, last;
	int read, write;
} cases[] = {
	{0, 0, 0, 0},		{0, 1, 0, EFAULT},	{1, 1, 0, EFAULT},
	{1, 2, EFAULT, EFAULT}, {2, 2, EFAULT, EFAULT}, {0, 2, EFAULT, EFAULT},
	{2, 3, EFAULT, EFAULT}, {3, 3, EFAULT, EFAULT}, {3, 4, EFAULT, EFAULT},
	{0, 4, EFAULT, EFAULT}, {4, 4, 0, 0},
};

/* From the last byte of the first page to the first byte of the last. */
static struct memory_range range(int i, uint64_t protection)
{
	uint64_t start = (uintptr_t)memory + cases[i].first * page;
	uint64_t end = (uintptr_t)memory + cases[i].last * page + 1;

	if (cases[i].first != cases[i].last)
		start += page - 1;
	return (struct memory_range){start, end, protection};
}

static int by_text(struct memory_range asked)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int error = memory_check_text(maps, &asked);

	fclose(maps);
	return error;
}

/* -1 where the kernel has no such query. */
static int by_query(struct memory_range asked)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int error = memory_check_query(fileno(maps), &asked);

	fclose(maps);
	return error == ENOTTY ? -1 : error;
}

START_TEST(all_ways_agree)
{
	const uint64_t both = MAPPING_READABLE | MAPPING_WRITABLE;

	map();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct memory_range read = range(i, MAPPING_READABLE), write = range(i, both);
		const void *start = (void *)(uintptr_t)read.start;

		ck_assert_int_eq(by_text(read), cases[i].read);
		ck_assert_int_eq(by_text(write), cases[i].write);
		if (by_query(read) >= 0) {
			ck_assert_int_eq(by_query(read), cases[i].read);
			ck_assert_int_eq(by_query(write), cases[i].write);
		}
		ck_assert_int_eq(memory_check_pages(&read), cases[i].read);
		ck_assert_int_eq(memory_check_pages(&write), cases[i].write);
		ck_assert_int_eq(memory_check(start, read.end - read.start, false), cases[i].read);
		ck_assert_int_eq(memory_check(start, read.end - read.start, true), cases[i].write);
	}
}
END_TEST

/*
 * A mapping may go on behind the end of its file, up to the end of whose last page it can be used.
 */
START_TEST(a_file_ends)
{
	int file = memfd_create("file", 0);

	page = sysconf(_SC_PAGESIZE);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(ftruncate(file, page + 1), 0);
	memory = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(memory_check(memory, 2 * page, true), 0);
	ck_assert_int_eq(memory_check(memory, 2 * page + 1, true), EFAULT);
	ck_assert_int_eq(memory_check(memory, 2 * page + 1, false), EFAULT);
	ck_assert_int_eq(memory_check(memory + 3 * page, 1, false), EFAULT);
	ck_assert_int_eq(memory_check(memory + 3 * page, 0, false), 0);
	close(file);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {all_ways_agree, a_file_ends, NULL};

	return core_run("memory", tests);
}
