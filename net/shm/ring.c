/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shm/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/guard.h"
#include "net/shared_file.h"

/* A record's first word: the packet's length, and: */
#define LENGTH_MASK 0xffffu
#define IS_RECORD (1u << 31) /* or the word is zero */
#define IS_SEALED (1u << 30)
#define HAS_GIDS (1u << 29)
#define IS_LAST (1u << 28) /* of those that were published together */
#define FLAGS (IS_RECORD | IS_SEALED | HAS_GIDS | IS_LAST)

_Static_assert(RING_PACKET_MAX <= LENGTH_MASK, "a packet's length");

struct record {
	_Atomic uint32_t word;
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

#define GIDS_LENGTH (2 * sizeof(union ibv_gid))

/* Of all pages of a machine, the largest that is common: 64 KiB. */
#define HEAD_SIZE (1u << 16)
#define FILE_SIZE (HEAD_SIZE + RING_BYTES)
#define MAPPING_SIZE (FILE_SIZE + RING_BYTES)

_Static_assert(sizeof(struct ring_head) <= HEAD_SIZE, "it has space");

void *ring_alloc(size_t size)
{
	void *memory = aligned_alloc(CACHE_LINE, size);

	return memory ? memset(memory, 0, size) : NULL;
}

/* --- the file ------------------------------------------------------------------------------- */

/* 0 or an errno. */
static int map_ring(struct ring *ring, int fd)
{
	uint8_t *memory = mmap(NULL, MAPPING_SIZE, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	const int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
	int error = 0;

	if (memory == MAP_FAILED)
		return errno;
	if (mmap(memory, FILE_SIZE, access, flags, fd, 0) == MAP_FAILED ||
	    mmap(memory + FILE_SIZE, RING_BYTES, access, flags, fd, HEAD_SIZE) == MAP_FAILED)
		error = errno;
	/* The file may be truncated by the other process. */
	else if (!guard_file(memory, MAPPING_SIZE))
		error = ENOSPC;
	if (error) {
		munmap(memory, MAPPING_SIZE);
		return error;
	}
	madvise(memory, MAPPING_SIZE, MADV_DONTFORK);
	*ring = (struct ring){.head = (struct ring_head *)memory, .bytes = memory + HEAD_SIZE};
	return 0;
}

int ring_create(struct ring *ring, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int error;

	if (fd < 0)
		return errno;
	fchmod(fd, 0600); /* whatever the umask */
	error = shared_file_reserve(fd, 0, FILE_SIZE);
	if (!error)
		error = map_ring(ring, fd);
	if (error)
		unlink(path);
	else
		ring->head->size = FILE_SIZE;
	close(fd);
	return error;
}

int ring_open(struct ring *ring, const char *path)
{
	int fd = shared_file_open(AT_FDCWD, path, O_RDWR), error = 0;
	struct stat file;

	if (fd < 0)
		return errno;
	if (fstat(fd, &file) < 0)
		error = errno;
	else if (file.st_size != FILE_SIZE)
		error = EBADMSG;
	if (!error)
		error = map_ring(ring, fd);
	close(fd);
	return error;
}

void ring_close(struct ring *ring)
{
	if (!ring->head)
		return;
	guard_forget_file(ring->head);
	munmap(ring->head, MAPPING_SIZE);
	*ring = (struct ring){};
}

/* --- the writer ----------------------------------------------------------------------------- */

static uint32_t record_size(uint32_t length, bool gids)
{
	return cache_line_end(sizeof(struct record) + (gids ? GIDS_LENGTH : 0) + length);
}

static void look_at_reader(struct ring *ring)
{
	uint64_t released = atomic_load_explicit(&ring->head->released, memory_order_acquire);

	/* Forward, and not beyond what was written. */
	if (released - ring->released > ring->next - ring->released)
		ring->broken = true;
	else
		ring->released = released;
}

enum ring_reader ring_reader(struct ring *ring)
{
	uint32_t reader = atomic_load_explicit(&ring->head->reader, memory_order_relaxed);

	if (reader >= RING_CLOSED)
		ring->broken = true;
	return ring->broken ? RING_CLOSED : reader;
}

void ring_verify(struct ring *ring)
{
	uint32_t word;

	ring_reader(ring);
	look_at_reader(ring);
	word = atomic_load_explicit(ring_word(ring, ring->released), memory_order_relaxed);
	if (ring->released != (ring->first_word ? ring->first : ring->next) && !(word & IS_RECORD))
		ring->broken = true;
}

/* But for the line behind the last record, where the zero word is. */
static uint32_t space(const struct ring *ring)
{
	uint32_t used = ring->next - ring->released;

	return ring->broken || used + CACHE_LINE > RING_BYTES ? 0 : RING_BYTES - CACHE_LINE - used;
}

uint32_t ring_cost(uint32_t length)
{
	return record_size(length, true);
}

uint32_t ring_unread(struct ring *ring)
{
	look_at_reader(ring);
	return ring->broken ? 0 : ring->next - ring->released;
}

uint32_t ring_space(struct ring *ring)
{
	look_at_reader(ring);
	return space(ring);
}

/* Whether the next record, of @size, is staged: all before it are, and there is space. */
static bool is_staged(const struct ring *ring, uint32_t size)
{
	return ring_unpublished(ring) == ring->staged && ring->staged + size <= RING_STAGE;
}

static struct record *next_record(struct ring *ring, uint32_t size)
{
	return is_staged(ring, size) ? (struct record *)(ring->stage + ring->staged)
				     : (struct record *)ring_word(ring, ring->next);
}

/* Whether a packet has other addresses than the ring, so that its record says which. */
static bool needs_gids(const struct ring *ring, const struct ring_source *from)
{
	return memcmp(&ring->source, &from->source, sizeof(from->source)) != 0 ||
	       memcmp(&ring->destination, &from->destination, sizeof(from->destination)) != 0;
}

uint8_t *ring_reserve(struct ring *ring, const struct ring_source *from, uint32_t length)
{
	bool gids = needs_gids(ring, from);
	uint32_t size = record_size(length, gids);

	if (length > RING_PACKET_MAX)
		return NULL;
	if (space(ring) < size && ring_space(ring) < size)
		return NULL;
	return (uint8_t *)(next_record(ring, size) + 1) + (gids ? GIDS_LENGTH : 0);
}

void ring_append(struct ring *ring, const struct ring_source *from, uint32_t length, bool sealed)
{
	bool gids = needs_gids(ring, from);
	uint32_t size = record_size(length, gids);
	uint32_t word = IS_RECORD | (sealed ? IS_SEALED : 0) | (gids ? HAS_GIDS : 0) | length;
	struct record *record = next_record(ring, size);

	record->source_port = from->source_port;
	record->traffic_class = from->traffic_class;
	record->hop_limit = from->hop_limit;
	if (gids) {
		memcpy(record + 1, &from->source, sizeof(from->source));
		memcpy((uint8_t *)(record + 1) + sizeof(from->source), &from->destination,
		       sizeof(from->destination));
		ring->source = from->source;
		ring->destination = from->destination;
	}
	if (is_staged(ring, size))
		ring->staged += size;
	if (ring->first_word) {
		atomic_store_explicit(&record->word, word, memory_order_relaxed);
	} else {
		/* Zero until all are published: the reader doesn't get past it. */
		ring->first = ring->next;
		ring->first_word = word;
	}
	ring->last = ring->next;
	ring->last_word = word;
	ring->next += size;
}

/* All but the first word. The line that the reader looks at comes last. */
static void copy_stage(struct ring *ring, _Atomic uint32_t *word)
{
	uint8_t *to = (uint8_t *)word;

	for (uint32_t at = ring->staged; at > CACHE_LINE; at -= CACHE_LINE)
		memcpy(to + at - CACHE_LINE, ring->stage + at - CACHE_LINE, CACHE_LINE);
	if (ring->staged)
		memcpy(word + 1, ring->stage + sizeof(*word), CACHE_LINE - sizeof(*word));
	ring->staged = 0;
}

/* Where the last record is until all are published. */
static _Atomic uint32_t *last_word(struct ring *ring)
{
	uint64_t offset = ring->last - ring->first;

	return offset < ring->staged ? (_Atomic uint32_t *)(ring->stage + offset)
				     : ring_word(ring, ring->last);
}

void ring_publish(struct ring *ring)
{
	_Atomic uint32_t *word = ring_word(ring, ring->first);

	if (!ring->first_word)
		return;
	if (ring->last == ring->first)
		ring->first_word |= IS_LAST;
	else
		atomic_store_explicit(last_word(ring), ring->last_word | IS_LAST,
				      memory_order_relaxed);
	atomic_store_explicit(ring_word(ring, ring->next), 0, memory_order_relaxed);
	copy_stage(ring, word);
	atomic_store_explicit(word, ring->first_word, memory_order_release);
	ring->first_word = 0;
}

/* --- the reader ----------------------------------------------------------------------------- */

bool ring_receive(struct ring *ring, struct ring_packet *packet)
{
	const struct record *record = (const struct record *)ring_word(ring, ring->next);
	uint32_t word, length, size;
	const uint8_t *data = (const uint8_t *)(record + 1);
	bool gids;

	if (ring->broken)
		return false;
	word = atomic_load_explicit(ring_word(ring, ring->next), memory_order_acquire);
	if (!word)
		return false;
	length = word & LENGTH_MASK;
	gids = word & HAS_GIDS;
	size = record_size(length, gids);
	/* It was read once: from here on it can't change any more. */
	if ((word & ~(FLAGS | LENGTH_MASK)) || !(word & IS_RECORD) || length > RING_PACKET_MAX ||
	    ring->next + size - ring->released > RING_BYTES) {
		ring->broken = true;
		return false;
	}
	if (gids) {
		memcpy(&ring->source, data, sizeof(ring->source));
		memcpy(&ring->destination, data + sizeof(ring->source), sizeof(ring->destination));
		data += GIDS_LENGTH;
	}
	packet->from.source = ring->source;
	packet->from.destination = ring->destination;
	packet->from.source_port = record->source_port;
	packet->from.traffic_class = record->traffic_class;
	packet->from.hop_limit = record->hop_limit;
	packet->data = data;
	packet->length = length;
	packet->sealed = word & IS_SEALED;
	packet->last = word & IS_LAST;
	ring->next += size;
	if (length >= SHM_PREFETCH_LEAST)
		__builtin_prefetch(ring_word(ring, ring->next + SHM_PREFETCH_RECORDS * size));
	return true;
}

void ring_release(struct ring *ring)
{
	if (ring->released == ring->next)
		return;
	ring->released = ring->next;
	atomic_store_explicit(&ring->head->released, ring->released, memory_order_release);
}
