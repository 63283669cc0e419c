/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/call_counts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/file_limit.h"

#define MAGIC 0x63786d75

/* --- the file ---------------------------------------------------------------------------- */

/* What a process writes to has to be all there. */
static struct call_counts_file *map_counts(int fd)
{
	struct call_counts_file *file;
	struct stat status;

	if (fstat(fd, &status) != 0)
		return NULL;
	if (status.st_size != sizeof(*file)) {
		errno = EINVAL;
		return NULL;
	}
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return file == MAP_FAILED ? NULL : file;
}

struct call_counts_file *call_counts_create(const char *path)
{
	struct call_counts_file *file = NULL;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int error;

	if (fd < 0)
		return NULL;
	error = file_limit_is_before(fd, sizeof(*file)) ? EFBIG
							: posix_fallocate(fd, 0, sizeof(*file));
	if (!error && !(file = map_counts(fd)))
		error = errno;
	close(fd);
	if (file)
		call_counts_clear(file);
	else
		unlink(path);
	errno = error;
	return file;
}

void call_counts_clear(struct call_counts_file *file)
{
	memset(file, 0, sizeof(*file));
	file->magic = MAGIC;
	file->calls = FAULT_CALLS;
}

void call_counts_unmap(struct call_counts_file *file)
{
	munmap(file, sizeof(*file));
}

/* --- a process that counts --------------------------------------------------------------- */

static struct call_counts *claim_counts(struct call_counts_file *file)
{
	for (unsigned int i = 0; i < CALL_COUNTS_PROCESSES; i++) {
		uint32_t unused = 0;

		if (atomic_compare_exchange_strong(&file->process[i].pid, &unused, getpid()))
			return &file->process[i];
	}
	return NULL;
}

int call_counter_open(struct call_counter *counter, const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), error = EINVAL;

	*counter = (struct call_counter){};
	if (fd < 0)
		return errno;
	counter->file = map_counts(fd);
	if (!counter->file)
		error = errno;
	else if (counter->file->magic == MAGIC && counter->file->calls == FAULT_CALLS)
		counter->counts = claim_counts(counter->file);
	close(fd);
	if (counter->counts)
		return 0;
	if (counter->file)
		munmap(counter->file, sizeof(*counter->file));
	counter->file = NULL;
	return error;
}

void call_counter_fork(struct call_counter *counter)
{
	const struct call_counts *parent = counter->counts;

	if (!parent)
		return;
	counter->counts = claim_counts(counter->file);
	for (unsigned int i = 0; counter->counts && i < FAULT_CALLS; i++)
		counter->counts->count[i] = parent->count[i];
}

/* --- urxe fuzz --------------------------------------------------------------------------- */

uint32_t call_counts_of(const struct call_counts_file *file, enum fault_call call)
{
	uint32_t most = 0;

	for (unsigned int i = 0; i < CALL_COUNTS_PROCESSES; i++) {
		uint32_t count = file->process[i].count[call];

		most = count > most ? count : most;
	}
	return most;
}

enum fault_call call_counts_last(const struct call_counts_file *file)
{
	for (unsigned int i = 0; i < CALL_COUNTS_PROCESSES; i++) {
		uint32_t last = file->process[i].last;

		if (last && last <= FAULT_CALLS)
			return last - 1;
	}
	return FAULT_CALLS;
}
