/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/observe/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "net/descriptor.h"
#include "net/observe/file.h"
#include "net/observe/observe.h"
#include "net/process.h"
#include "net/shared_file.h"

const char *observed_state_name(enum observed_state state)
{
	static const char *const names[] = {
		[OBSERVED_RUNNING] = "running",
		[OBSERVED_STOPPED] = "stopped",
		[OBSERVED_ENDED] = "ended",
	};

	return names[state];
}

/* --- one file ------------------------------------------------------------------------------ */

static enum observed_state state_of(int fd, const struct observe_header *header)
{
	char state;

	if (!shared_file_is_locked(fd))
		return OBSERVED_ENDED;
	state = process_state(header->pid, header->pid_namespace);
	return process_is_stopped(state) ? OBSERVED_STOPPED : OBSERVED_RUNNING;
}

/* All @length bytes, or as many as there are: a file may be truncated. */
static size_t read_at(int fd, void *data, size_t length, off_t offset)
{
	size_t done = 0;
	ssize_t more;

	while (done < length) {
		more = pread(fd, (uint8_t *)data + done, length - done, offset + done);
		if (more <= 0)
			break;
		done += more;
	}
	return done;
}

static void make_printable(char *text, size_t size)
{
	text[size - 1] = '\0';
	/* Terminals obey control characters; what is beyond ASCII may be UTF-8. */
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
	}
}

/* Returns why it can't be read, or NULL. */
static const char *read_header(int fd, struct observe_header *header)
{
	if (read_at(fd, header, sizeof(*header), 0) != sizeof(*header))
		return "it is too short";
	if (memcmp(header->magic, OBSERVE_MAGIC, sizeof(header->magic)) != 0)
		return "it is no file of urxe's";
	if (header->version != OBSERVE_VERSION)
		return "the process has another version of urxe";
	make_printable(header->command, sizeof(header->command));
	make_printable(header->session, sizeof(header->session));
	return NULL;
}

/* The copy is the caller's: so no other reader needs to look. */
static void end_names(struct observed *process)
{
	const struct observe_device *device = NULL;

	while ((device = observed_next(process, OBSERVE_DEVICE, device)))
		make_printable((char *)device->name, sizeof(device->name));
}

static const char *read_blocks(int fd, struct observed *process)
{
	uint32_t count = atomic_load(&process->header.blocks);
	size_t size = (size_t)count * OBSERVE_BLOCK, read;

	if (count > OBSERVE_BLOCKS)
		return "it has more blocks than there can be";
	/* Aligned as in the file, which the compiler relies on where it copies a record. */
	process->blocks = aligned_alloc(CACHE_LINE, size ?: CACHE_LINE);
	if (!process->blocks)
		return "out of memory";
	read = read_at(fd, process->blocks, size, OBSERVE_HEADER);
	process->block_count = read / OBSERVE_BLOCK;
	end_names(process);
	return NULL;
}

static bool is_wanted(const struct observed_options *options, const struct observed *process)
{
	const struct observe_header *header = &process->header;

	if (options->session && strcmp(options->session, header->session) != 0)
		return false;
	if (!options->all_namespaces && header->net_namespace != process_namespace("net"))
		return false;
	return options->ended || process->state != OBSERVED_ENDED;
}

/* Returns why it is left out, "" if it isn't wanted, or NULL. */
static const char *read_file(int fd, const struct observed_options *options,
			     struct observed *process)
{
	const char *why = read_header(fd, &process->header);

	if (why)
		return why;
	process->state = state_of(fd, &process->header);
	if (!is_wanted(options, process))
		return "";
	return read_blocks(fd, process);
}

static void free_process(struct observed *process)
{
	free(process->blocks);
	free(process);
}

/* --- all files ----------------------------------------------------------------------------- */

static const char *add_file(int fd, const char *path, const struct observed_options *options,
			    struct observed **processes)
{
	struct observed *process = calloc(1, sizeof(*process));
	const char *why;

	if (!process)
		return "out of memory";
	snprintf(process->path, sizeof(process->path), "%s", path);
	why = read_file(fd, options, process);
	if (why)
		free_process(process);
	else
		LL_PREPEND(*processes, process);
	return why;
}

static int compare_pids(const struct observed *a, const struct observed *b)
{
	if (a->header.pid != b->header.pid)
		return a->header.pid < b->header.pid ? -1 : 1;
	return strcmp(a->path, b->path);
}

int observed_read(const struct observed_options *options, struct observed **processes)
{
	const char *folder = options->directory ? options->directory : OBSERVE_DIRECTORY;
	DIR *directory = opendir(folder);
	struct dirent *entry;
	int version;

	*processes = NULL;
	if (!directory)
		return errno;
	while ((entry = readdir(directory))) {
		char path[sizeof((*processes)->path)];
		const char *why;
		int fd;

		if (!observe_is_name(entry->d_name, &version))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		/* Not to be looked at is what another user has made under our name. */
		fd = shared_file_open(dirfd(directory), entry->d_name, O_RDONLY);
		if (fd < 0 && !descriptor_is_exhaustion(errno))
			continue;
		why = fd < 0 ? strerror(errno) : add_file(fd, path, options, processes);
		if (why && *why && options->left_out)
			options->left_out(options->context, path, why);
		if (fd >= 0)
			close(fd);
	}
	closedir(directory);
	LL_SORT(*processes, compare_pids);
	return 0;
}

void observed_free(struct observed *processes)
{
	struct observed *process, *next;

	LL_FOREACH_SAFE (processes, process, next)
		free_process(process);
}

/* --- records ------------------------------------------------------------------------------- */

static const struct observe_head *record_at(const struct observed *process, unsigned int block,
					    unsigned int number, size_t size)
{
	return (const void *)(process->blocks + (size_t)block * OBSERVE_BLOCK + number * size);
}

const void *observed_next(const struct observed *process, enum observe_kind kind,
			  const void *previous)
{
	unsigned int count = observe_block_records(kind);
	size_t size = observe_record_size(kind);
	size_t offset = previous ? (const uint8_t *)previous - process->blocks + size : 0;
	unsigned int block = offset / OBSERVE_BLOCK, number = offset % OBSERVE_BLOCK / size;

	for (; block < process->block_count; block++, number = 0) {
		if (process->header.kind[block] != kind)
			continue;
		for (; number < count; number++) {
			const struct observe_head *record = record_at(process, block, number, size);

			if (atomic_load_explicit(&record->id, memory_order_relaxed))
				return record;
		}
	}
	return NULL;
}

const struct observe_device *observed_device(const struct observed *process, uint32_t id)
{
	const struct observe_device *device = NULL;

	while ((device = observed_next(process, OBSERVE_DEVICE, device))) {
		if (device->head.id == id)
			return device;
	}
	return NULL;
}

/* --- a queue pair -------------------------------------------------------------------------- */

static bool has_address(const struct observe_device *device, const union ibv_gid *gid)
{
	for (unsigned int i = 0; device && i < OBSERVE_GIDS; i++) {
		if (memcmp(device->gid[i], gid->raw, sizeof(gid->raw)) == 0)
			return true;
	}
	return false;
}

static const struct observe_qp *find_qp(const struct observed *process, const union ibv_gid *gid,
					uint32_t qpn)
{
	const struct observe_qp *qp = NULL;

	while ((qp = observed_next(process, OBSERVE_QP, qp))) {
		if (qp->number == qpn &&
		    (memcmp(qp->local, gid->raw, sizeof(gid->raw)) == 0 ||
		     has_address(observed_device(process, qp->head.device), gid)))
			return qp;
	}
	return NULL;
}

/* A number may have been another one's before: one that lives goes before those that have ended. */
bool observe_find_qp(const union ibv_gid *gid, uint32_t qpn, struct observed_qp *found)
{
	const struct observed_options options = {.ended = true};
	struct observed *processes, *process;
	const struct observe_qp *qp;
	bool any = false;

	if (observed_read(&options, &processes) != 0)
		return false;
	LL_FOREACH (processes, process) {
		qp = find_qp(process, gid, qpn);
		if (!qp || (any && process->state == OBSERVED_ENDED))
			continue;
		*found = (struct observed_qp){
			.pid = process->header.pid, .process = process->state, .qp = *qp};
		memcpy(found->command, process->header.command, sizeof(found->command));
		any = true;
	}
	observed_free(processes);
	return any;
}
