/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings and their protection: verbs/memory.h. Linux 6.11 answers for one
 * mapping by an ioctl; before that there is only the text of /proc/thread-self/maps,
 * whose length is that of the process. Neither says where a mapped file ends.
 */
#include "verbs/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "net/cause/cause.h"
#include "net/guard.h"

/* <linux/fs.h> has these from 6.11 on. */
struct mapping_query {
	uint64_t size;
	uint64_t flags;
	uint64_t address;
	uint64_t start, end;
	uint64_t protection;
	uint64_t page_size, offset, inode;
	uint32_t device_major, device_minor;
	uint32_t name_size, build_id_size;
	uint64_t name_address, build_id_address;
};

#define MAPPING_QUERY _IOWR('f', 17, struct mapping_query)
#define MAPPING_READABLE 1
#define MAPPING_WRITABLE 2

/* The part of [start, end) that is still to be found, moving on mapping by mapping. */
struct memory_range {
	uint64_t start, end;
	uint64_t protection; /* MAPPING_* that every mapping needs */
	uint64_t begin;	     /* where it began */
};

/* --- what is wrong with it ---------------------------------------------------------------- */

/* @address is the first one of which @what is true. */
static int refuse_memory(const struct memory_range *range, enum cause cause, uint64_t address,
			 const char *what)
{
	return refuse(EFAULT, cause,
		      "to register %" PRIu64 " bytes at 0x%" PRIx64 ": byte %" PRIu64
		      ", at 0x%" PRIx64 ", is %s",
		      range->end - range->begin, range->begin, address - range->begin, address,
		      what);
}

static int refuse_protected(const struct memory_range *range, uint64_t protection)
{
	if (protection & MAPPING_READABLE)
		return refuse_memory(range, CAUSE_MR_NOT_WRITABLE, range->start, "read-only");
	return refuse_memory(range, CAUSE_MR_NOT_WRITABLE, range->start,
			     protection & MAPPING_WRITABLE ? "write-only"
							   : "protected (PROT_NONE)");
}

static int refuse_hole(const struct memory_range *range)
{
	return refuse_memory(range, CAUSE_MR_NOT_MAPPED, range->start, "not mapped");
}

static int refuse_fault(const struct memory_range *range, const struct guard_fault *fault)
{
	enum cause cause = CAUSE_MR_NOT_MAPPED;

	if (fault->signal == SIGBUS)
		cause = CAUSE_MR_BEYOND_FILE;
	else if (fault->code == SEGV_ACCERR)
		cause = CAUSE_MR_NOT_WRITABLE;
	return refuse_memory(range, cause, (uintptr_t)fault->address, guard_fault_text(fault));
}

/* --- looking at it -------------------------------------------------------------------------- */

static int memory_try(const struct memory_range *range, uint64_t start, uint64_t end, bool write)
{
	struct guard_fault fault;

	if (guard_probe((const void *)(uintptr_t)start, end - start, write, &fault))
		return 0;
	return refuse_fault(range, &fault);
}

/* 0 when @range can go on behind the mapping, else EFAULT. */
static int memory_step(struct memory_range *range, uint64_t start, uint64_t end,
		       uint64_t protection)
{
	uint64_t last;
	int error;

	if (start > range->start)
		return refuse_hole(range);
	if ((protection & range->protection) != range->protection)
		return refuse_protected(range, protection);
	/* What lies beyond the end of a file is at the end of its mapping. */
	last = end < range->end ? end : range->end;
	error = memory_try(range, last - 1, last, false);
	range->start = end;
	return error;
}

/* 0, EFAULT, or ENOTTY when the kernel has no such query. */
static int memory_check_query(int fd, struct memory_range *range)
{
	while (range->start < range->end) {
		struct mapping_query query = {.size = sizeof(query), .address = range->start};

		if (ioctl(fd, MAPPING_QUERY, &query))
			return errno == ENOENT ? refuse_hole(range) : ENOTTY;
		if (memory_step(range, query.start, query.end, query.protection))
			return EFAULT;
	}
	return 0;
}

static int memory_check_line(const char *line, struct memory_range *range)
{
	uint64_t start, end, protection = 0;
	char *rest;

	start = strtoull(line, &rest, 16);
	if (*rest != '-')
		return refuse_hole(range);
	end = strtoull(rest + 1, &rest, 16);
	if (end <= range->start)
		return 0;
	if (rest[0] == ' ' && rest[1] == 'r')
		protection |= MAPPING_READABLE;
	if (rest[0] == ' ' && rest[1] && rest[2] == 'w')
		protection |= MAPPING_WRITABLE;
	return memory_step(range, start, end, protection);
}

static int memory_check_text(FILE *maps, struct memory_range *range)
{
	char *line = NULL;
	size_t size = 0;
	int error = 0;

	while (!error && range->start < range->end) {
		if (getline(&line, &size, maps) < 0)
			error = refuse_hole(range);
		else
			error = memory_check_line(line, range);
	}
	free(line);
	return error;
}

static int memory_check_pages(const struct memory_range *range)
{
	return memory_try(range, range->start, range->end, range->protection & MAPPING_WRITABLE);
}

static int memory_check_mappings(struct memory_range *range)
{
	FILE *maps = fopen("/proc/thread-self/maps", "re");
	int error;

	if (!maps)
		return memory_check_pages(range);
	error = memory_check_query(fileno(maps), range);
	if (error == ENOTTY)
		error = memory_check_text(maps, range);
	fclose(maps);
	return error;
}

int memory_check(const void *addr, size_t length, bool write)
{
	struct memory_range range = {
		.start = (uintptr_t)addr,
		.end = (uintptr_t)addr + length,
		.begin = (uintptr_t)addr,
		.protection = MAPPING_READABLE | (write ? MAPPING_WRITABLE : 0),
	};
	int error, state;

	/* Reading files is a cancellation point, and this one would stay open. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	error = memory_check_mappings(&range);
	pthread_setcancelstate(state, NULL);
	return error;
}
