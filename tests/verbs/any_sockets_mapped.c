/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of test_any_sockets.c that map memory, which the peer writes to: with rsockets alone.
 * Each slot has an area, and another one that knows what is in it. What the peer knows of mappings
 * it knows of data that was sent behind them; what it was told of and is no more mustn't be written
 * to, for that ends the connection.
 */
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/verbs/any_sockets.h"

enum { PLACES = 6, PLACE = 1000 }; /* offsets that are chosen: multiples of it */

static uint8_t areas[SLOTS][AREA], expected[SLOTS][AREA];

void mapped_prepare(struct slot *slot)
{
	static const unsigned int sizes[] = {0, 1, 3, MAPPINGS};
	int size = sizes[below(4)];

	slot->entries = size;
	if (rsetsockopt(slot->fds[RSOCKETS], SOL_RDMA, RDMA_IOMAPSIZE, &size, sizeof(size)) != 0)
		sockets_fail("RDMA_IOMAPSIZE fails");
}

void mapped_check(const struct slot *slot)
{
	for (unsigned int i = 0; i < AREA; i++) {
		if (areas[slot->number][i] == expected[slot->number][i])
			continue;
		sockets_note("%u: byte %u of the area is %u, not %u", slot->number, i,
			     areas[slot->number][i], expected[slot->number][i]);
		sockets_fail("other bytes in mapped memory");
	}
}

/* --- mapping -------------------------------------------------------------------------------- */

static struct mapping *find_mapping(struct slot *slot, bool used)
{
	const unsigned int start = below(MAPPINGS);

	for (unsigned int i = 0; i < MAPPINGS; i++) {
		struct mapping *mapping = &slot->mappings[(start + i) % MAPPINGS];

		if (mapping->used == used)
			return mapping;
	}
	return NULL;
}

/* -1: there is none. */
static int free_entry(const struct slot *slot)
{
	for (unsigned int entry = 0; entry < slot->peer->entries; entry++) {
		bool taken = false;

		for (unsigned int i = 0; i < MAPPINGS; i++)
			taken |= slot->mappings[i].used && slot->mappings[i].index == (int)entry;
		if (!taken)
			return entry;
	}
	return -1;
}

static bool overlaps(const struct slot *slot, const struct mapping *new)
{
	for (unsigned int i = 0; i < MAPPINGS; i++) {
		const struct mapping *old = &slot->mappings[i];

		if (old->used && old->index >= 0 && new->offset < old->offset + old->length &&
		    old->offset < new->offset + new->length)
			return true;
	}
	return false;
}

/* What is to become of it: 0 or an errno. */
static int map_error(const struct slot *slot, const struct mapping *mapping, bool remote)
{
	if (!mapping->length)
		return EINVAL;
	if (slot->datagram)
		return ENOTSUP;
	if (slot->kind != CONNECTED)
		return EINVAL;
	if (remote && mapping->index < 0)
		return ENOMEM;
	return remote && overlaps(slot, mapping) ? EINVAL : 0;
}

bool mapped_is_untold(const struct slot *slot)
{
	for (unsigned int i = 0; i < MAPPINGS; i++) {
		const struct mapping *mapping = &slot->mappings[i];

		if (mapping->used && mapping->index >= 0 && !mapping->known)
			return true;
	}
	return false;
}

/* A byte behind them tells the peer of the mappings, and of it all has been received. */
void mapped_tell(struct slot *slot)
{
	send_bytes(slot, 1);
	receive_rest(slot->peer);
	for (unsigned int i = 0; i < MAPPINGS; i++) {
		struct mapping *mapping = &slot->mappings[i];

		if (!mapping->used || mapping->index < 0)
			continue;
		mapping->known = true;
		slot->stale[mapping->index].to = 0;
	}
}

static void check_result(const struct slot *slot, const char *call, struct result result,
			 long value, int error)
{
	sockets_note("%u: %s: %ld %s, expected %ld %s", slot->number, call, result.value,
		     result.error ? strerrorname_np(result.error) : "", value,
		     error ? strerrorname_np(error) : "");
	if (result.value != value || result.error != error)
		sockets_fail("another result");
}

static void map_one(struct slot *slot)
{
	struct mapping *mapping = find_mapping(slot, false);
	const bool remote = below(8), whole = is_whole(slot);
	struct result result;
	int error;

	if (!mapping || slot->refused || (slot->kind == CONNECTED && !whole))
		return;
	*mapping = (struct mapping){.start = below(AREA / 2),
				    .length = below(PLACE + 1),
				    .offset = (int64_t)below(2 * PLACES) * PLACE / 2,
				    .index = remote && whole ? free_entry(slot) : -1};
	error = map_error(slot, mapping, remote);
	result = result_of(riomap(slot->fds[RSOCKETS], areas[slot->number] + mapping->start,
				  mapping->length, remote ? PROT_WRITE : PROT_NONE, 0,
				  mapping->offset));
	check_result(slot, "map", result, error ? -1 : mapping->offset, error);
	mapping->used = !error;
}

void step_map(struct slot *any)
{
	struct slot *whole = find_whole(any), *slot = whole && below(4) ? whole : any;

	for (unsigned int i = 1 + below(3); i; i--)
		map_one(slot);
	if (is_whole(slot) && below(4))
		mapped_tell(slot);
}

/* The first of those that are alike ends, in the order of the table. */
static struct mapping *first_alike(struct slot *slot, const struct mapping *mapping)
{
	struct mapping *first = NULL;

	for (unsigned int i = 0; i < MAPPINGS; i++) {
		struct mapping *other = &slot->mappings[i];

		if (other->used && other->start == mapping->start &&
		    other->length == mapping->length && (!first || other->index < first->index))
			first = other;
	}
	return first;
}

/* Of one that isn't told of it is this or what was there before. */
static void note_stale(struct slot *slot, const struct mapping *mapping)
{
	int64_t from = mapping->offset, to = mapping->offset + mapping->length;

	if (slot->stale[mapping->index].to && slot->stale[mapping->index].from < from)
		from = slot->stale[mapping->index].from;
	if (slot->stale[mapping->index].to > to)
		to = slot->stale[mapping->index].to;
	slot->stale[mapping->index].from = from;
	slot->stale[mapping->index].to = to;
}

void step_unmap(struct slot *slot)
{
	struct mapping *mapping = find_mapping(slot, true);
	uint8_t *area = areas[slot->number];

	if (slot->datagram || slot->refused)
		return;
	if (below(4) == 0)
		check_result(slot, "unmap of nothing",
			     result_of(riounmap(slot->fds[RSOCKETS], area, AREA)), -1, EINVAL);
	if (!mapping)
		return;
	mapping = first_alike(slot, mapping);
	if (mapping->index >= 0)
		note_stale(slot, mapping);
	mapping->used = false;
	check_result(
		slot, "unmap",
		result_of(riounmap(slot->fds[RSOCKETS], area + mapping->start, mapping->length)), 0,
		0);
}

/* --- writing -------------------------------------------------------------------------------- */

/* Of @slot's table what lies at @offset; NULL: nothing. */
static const struct mapping *mapping_at(const struct slot *slot, int64_t offset)
{
	for (unsigned int i = 0; i < MAPPINGS; i++) {
		const struct mapping *mapping = &slot->mappings[i];

		if (mapping->used && mapping->index >= 0 && offset >= mapping->offset &&
		    offset < mapping->offset + mapping->length)
			return mapping;
	}
	return NULL;
}

/* Whether what the writer sees there is what there is. */
static bool is_settled(const struct slot *slot, int64_t from, int64_t to)
{
	for (unsigned int i = 0; i < MAPPINGS; i++) {
		const struct mapping *mapping = &slot->mappings[i];

		if (slot->stale[i].to > from && slot->stale[i].from < to)
			return false;
		if (mapping->used && mapping->index >= 0 && !mapping->known &&
		    mapping->offset < to && mapping->offset + mapping->length > from)
			return false;
	}
	return true;
}

/* How much of it is written, which @expected has from then on. */
static unsigned int write_expected(const struct slot *to, int64_t offset, const uint8_t *data,
				   unsigned int length)
{
	unsigned int done = 0;

	while (done < length) {
		const struct mapping *mapping = mapping_at(to, offset + done);
		unsigned int part, from;

		if (!mapping)
			break;
		from = offset + done - mapping->offset;
		part = mapping->length - from < length - done ? mapping->length - from
							      : length - done;
		memcpy(expected[to->number] + mapping->start + from, data + done, part);
		done += part;
	}
	return done;
}

/* In pieces, where there is no room for all at once. */
static struct result write_all(int fd, const uint8_t *data, unsigned int length, int64_t offset)
{
	unsigned int done = 0;
	struct result result = {};

	do {
		result = result_of(riowrite(fd, data + done, length - done, offset + done, 0));
		if (result.value < 0 && result.error == EAGAIN)
			poll(NULL, 0, 1);
		else if (result.value < 0)
			break;
		else
			done += result.value;
	} while (done < length && result.value != 0);
	return done ? (struct result){.value = done} : result;
}

void step_write_mapped(struct slot *any)
{
	struct slot *whole = find_whole(any), *slot = whole && below(4) ? whole : any;
	const int64_t offset = below(PLACES * PLACE);
	const unsigned int length = below(3) ? below(2 * PLACE) : below(3);
	uint8_t data[2 * PLACE];
	unsigned int written;

	if (slot->datagram || slot->refused)
		return;
	for (unsigned int i = 0; i < length; i++)
		data[i] = below(256);
	if (slot->kind != CONNECTED) {
		check_result(slot, "write, not connected",
			     result_of(riowrite(slot->fds[RSOCKETS], data, length, offset, 0)),
			     length ? -1 : 0, length ? ENOTCONN : 0);
		return;
	}
	if (!is_whole(slot) || !is_settled(slot->peer, offset, offset + length))
		return;
	written = write_expected(slot->peer, offset, data, length);
	check_result(slot, "write", write_all(slot->fds[RSOCKETS], data, length, offset), written,
		     0);
	mapped_tell(slot);
	mapped_check(slot->peer);
}

/* --- by a thread of its own ------------------------------------------------------------------- */

const struct mapping *mapped_of_peer(const struct slot *slot)
{
	const struct mapping *mapping = find_mapping(slot->peer, true);

	return mapping && mapping->index >= 0 &&
			       is_settled(slot->peer, mapping->offset,
					  mapping->offset + mapping->length)
		       ? mapping
		       : NULL;
}

void mapped_write(const struct slot *slot, const struct mapping *mapping, unsigned int from,
		  unsigned int length, uint8_t value)
{
	uint8_t data[PLACE];

	memset(data, value, length);
	if (write_expected(slot->peer, mapping->offset + from, data, length) != length ||
	    write_all(slot->fds[RSOCKETS], data, length, mapping->offset + from).value != length)
		sockets_fail("riowrite() fails");
}

void mapped_local(const struct slot *slot)
{
	static uint8_t unused[64];
	const int fd = slot->fds[RSOCKETS];

	if (riomap(fd, unused, sizeof(unused), PROT_NONE, 0, 0) != 0 ||
	    riounmap(fd, unused, sizeof(unused)) != 0)
		sockets_fail("riomap() fails");
}
