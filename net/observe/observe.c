/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All blocks that there can be are mapped at the start, whatever a page's size, so that a record's
 * address tells its block. One is used only once the file system has given the space for it: a
 * store where it couldn't would be a SIGBUS. Until then nothing is allowed there, or valgrind,
 * which looks for pointers in all memory that can be written when the program ends, would have a
 * SIGBUS for each word beyond the file's end, and take minutes. What is in the file may be
 * overwritten by any process of the user, so which records are free is kept in memory of the
 * process alone; and it may be truncated, so it is guarded: records are then no other process's to
 * see.
 */
#include "net/observe/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "net/cache_line.h"
#include "net/descriptor.h"
#include "net/guard.h"
#include "net/log.h"
#include "net/observe/file.h"
#include "net/process.h"
#include "net/shared_file.h"

#define MAPPED (OBSERVE_HEADER + (size_t)OBSERVE_BLOCK * OBSERVE_BLOCKS)
#define RECORDS (OBSERVE_BLOCK / CACHE_LINE) /* in a block, at the most */

struct block {
	enum observe_kind kind;
	unsigned int index, used;
	uint64_t used_records[RECORDS / 64]; /* a bit each */
	struct block *prev, *next;	     /* those with free records, utlist */
};

struct observe {
	pthread_mutex_t lock;
	_Atomic uint32_t last_id;
	int fd; /* -1: there is no file */
	struct descriptor_identity identity;
	char path[2 * OBSERVE_PATH];
	uint8_t *base;	 /* NULL: there is no file */
	size_t reserved; /* bytes of it that are the file's */
	struct observe_header *header;
	struct block *block[OBSERVE_BLOCKS];
	unsigned int blocks;
	struct block *free[OBSERVE_KINDS];
};

/* --- the file ------------------------------------------------------------------------------ */

/* Up to @end, behind what was reserved before. */
static bool reserve_space(struct observe *observe, size_t end)
{
	size_t before = observe->reserved;
	int error = shared_file_reserve(observe->fd, before, end - before);

	if (error)
		errno = error;
	if (error || mprotect(observe->base, end, PROT_READ | PROT_WRITE) < 0)
		return false;
	observe->reserved = end;
	return true;
}

static void read_command(char command[OBSERVE_COMMAND])
{
	int fd = open("/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, command, OBSERVE_COMMAND - 1);

	if (fd >= 0)
		close(fd);
	/* Arguments end with zeros, and the last one would be a space at the end. */
	for (ssize_t i = 0; i + 1 < length; i++) {
		if (!command[i])
			command[i] = ' ';
	}
}

static void fill_header(struct observe_header *header, const char *session)
{
	memcpy(header->magic, OBSERVE_MAGIC, sizeof(header->magic));
	header->version = OBSERVE_VERSION;
	header->pid = getpid();
	header->pid_namespace = process_namespace("pid");
	header->net_namespace = process_namespace("net");
	header->started = observe_wall_clock();
	read_command(header->command);
	snprintf(header->session, sizeof(header->session), "%s", session ? session : "");
}

/* It gets its name when it is locked, and says whose it is: so no reader finds it before. */
static bool give_name(struct observe *observe, const char *directory)
{
	char name[OBSERVE_PATH];
	int length;

	if (!observe_name(name))
		return false;
	length = snprintf(observe->path, sizeof(observe->path), "%s/%s", directory, name);
	if (length >= (int)sizeof(observe->path))
		return false;
	return shared_file_publish(observe->fd, observe->path);
}

static bool make_file(struct observe *observe, const char *directory, const char *session)
{
	observe->fd = shared_file_create(directory);
	if (observe->fd < 0)
		return false;
	observe->identity = descriptor_identify(observe->fd);
	observe->base = mmap(NULL, MAPPED, PROT_NONE, MAP_SHARED, observe->fd, 0);
	if (observe->base == MAP_FAILED) {
		observe->base = NULL;
		return false;
	}
	if (!reserve_space(observe, OBSERVE_HEADER) || !guard_file(observe->base, MAPPED))
		return false;
	observe->header = (struct observe_header *)observe->base;
	fill_header(observe->header, session);
	return give_name(observe, directory);
}

static void drop_file(struct observe *observe)
{
	if (observe->base) {
		guard_forget_file(observe->base);
		munmap(observe->base, MAPPED);
	}
	descriptor_close(observe->fd, &observe->identity);
	observe->base = NULL;
	observe->header = NULL;
	observe->fd = -1;
}

struct observe *observe_open(const char *directory, const char *session)
{
	struct observe *observe = calloc(1, sizeof(*observe));

	if (!observe)
		return NULL;
	pthread_mutex_init(&observe->lock, NULL);
	observe->fd = -1;
	observe_sweep(directory);
	if (!make_file(observe, directory, session)) {
		if (session)
			log_warn("no file in %s (%s): urxe stat has no figures of this process",
				 directory, strerror(errno));
		else
			log_info("no file in %s (%s): urxe ps and urxe top won't show this process",
				 directory, strerror(errno));
		drop_file(observe);
	}
	return observe;
}

void observe_close(struct observe *observe)
{
	if (observe->base && !observe->header->session[0])
		unlink(observe->path);
	drop_file(observe);
	for (unsigned int i = 0; i < observe->blocks; i++)
		free(observe->block[i]);
	pthread_mutex_destroy(&observe->lock);
	free(observe);
}

bool observe_is_shared(const struct observe *observe)
{
	return observe && observe->base;
}

/* --- records ------------------------------------------------------------------------------- */

static uint8_t *block_memory(const struct observe *observe, unsigned int index)
{
	return observe->base + OBSERVE_HEADER + (size_t)index * OBSERVE_BLOCK;
}

/* Another block for @kind, or NULL. */
static struct block *add_block(struct observe *observe, enum observe_kind kind)
{
	unsigned int index = observe->blocks;
	struct block *block;

	if (index == OBSERVE_BLOCKS)
		return NULL;
	block = calloc(1, sizeof(*block));
	if (!block)
		return NULL;
	if (!reserve_space(observe, OBSERVE_HEADER + (size_t)(index + 1) * OBSERVE_BLOCK)) {
		free(block);
		return NULL;
	}
	block->kind = kind;
	block->index = index;
	observe->block[observe->blocks++] = block;
	DL_APPEND(observe->free[kind], block);
	observe->header->kind[index] = kind;
	atomic_store(&observe->header->blocks, observe->blocks);
	return block;
}

static unsigned int free_record(const struct block *block)
{
	unsigned int word = 0;

	while (block->used_records[word] == UINT64_MAX)
		word++;
	return word * 64 + __builtin_ctzll(~block->used_records[word]);
}

/* Of the file, with the lock; or NULL. */
static void *claim(struct observe *observe, enum observe_kind kind)
{
	struct block *block = observe->free[kind] ? observe->free[kind] : add_block(observe, kind);
	unsigned int number;

	if (!block)
		return NULL;
	number = free_record(block);
	block->used_records[number / 64] |= UINT64_C(1) << number % 64;
	if (++block->used == observe_block_records(kind))
		DL_DELETE(observe->free[kind], block);
	return block_memory(observe, block->index) + number * observe_record_size(kind);
}

static void *private_record(enum observe_kind kind)
{
	size_t size = observe_record_size(kind);
	void *record = aligned_alloc(CACHE_LINE, size);

	if (record)
		memset(record, 0, size);
	return record;
}

static void *claim_anywhere(struct observe *observe, enum observe_kind kind)
{
	void *record = NULL;

	if (observe->base)
		record = claim(observe, kind);
	if (record)
		return memset(record, 0, observe_record_size(kind));
	if (observe->base)
		atomic_fetch_add(&observe->header->left_out[kind], 1);
	return private_record(kind);
}

void *observe_claim(struct observe *observe, enum observe_kind kind, uint32_t device)
{
	struct observe_head *record;

	if (!observe)
		return private_record(kind);
	guard_thread();
	pthread_mutex_lock(&observe->lock);
	record = claim_anywhere(observe, kind);
	pthread_mutex_unlock(&observe->lock);
	if (record)
		record->device = device;
	return record;
}

uint32_t observe_show(struct observe *observe, void *record)
{
	struct observe_head *head = record;
	uint32_t id = 0;

	/* Never 0, not even after 2^32 objects. */
	while (observe && !id)
		id = atomic_fetch_add(&observe->last_id, 1) + 1;
	atomic_store_explicit(&head->id, id, memory_order_release);
	return id;
}

bool observe_is_seen(const struct observe *observe, const void *record)
{
	const uint8_t *byte = record;

	return observe && observe->base && byte >= observe->base && byte < observe->base + MAPPED;
}

/* With the lock. */
static void free_in_file(struct observe *observe, enum observe_kind kind, void *record)
{
	size_t offset = (uint8_t *)record - block_memory(observe, 0);
	struct block *block = observe->block[offset / OBSERVE_BLOCK];
	unsigned int number = offset % OBSERVE_BLOCK / observe_record_size(kind);

	block->used_records[number / 64] &= ~(UINT64_C(1) << number % 64);
	if (block->used-- == observe_block_records(kind))
		DL_APPEND(observe->free[kind], block);
}

void observe_free(struct observe *observe, enum observe_kind kind, void *record)
{
	struct observe_head *head = record;

	if (!record)
		return;
	if (!observe_is_seen(observe, record)) {
		if (observe && observe->base)
			atomic_fetch_sub(&observe->header->left_out[kind], 1);
		free(record);
		return;
	}
	atomic_store_explicit(&head->id, 0, memory_order_relaxed);
	pthread_mutex_lock(&observe->lock);
	free_in_file(observe, kind, record);
	pthread_mutex_unlock(&observe->lock);
}

/* --- fork and exit ------------------------------------------------------------------------- */

static bool block_has_peers(const struct observe *observe, const struct block *block)
{
	size_t size = observe_record_size(OBSERVE_QP);
	const uint8_t *record = block_memory(observe, block->index);

	for (unsigned int i = 0; i < observe_block_records(OBSERVE_QP); i++, record += size) {
		const struct observe_qp *qp = (const void *)record;

		if (qp->head.id && qp->peer_qpn && qp->progress.state >= IBV_QPS_RTR)
			return true;
	}
	return false;
}

static bool has_peers(const struct observe *observe)
{
	for (unsigned int i = 0; i < observe->blocks; i++) {
		if (observe->block[i]->kind == OBSERVE_QP &&
		    block_has_peers(observe, observe->block[i]))
			return true;
	}
	return false;
}

void observe_at_exit(struct observe *observe)
{
	if (observe->base && !observe->header->session[0] && !has_peers(observe))
		unlink(observe->path);
}

void observe_after_fork_child(struct observe *observe)
{
	if (observe->base)
		mmap(observe->base, MAPPED, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	descriptor_close(observe->fd, &observe->identity);
	observe->fd = -1;
}
