/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings: buffers of the application that the peer writes to directly. The peer is told of each
 * by an RDMA WRITE into its table, before the next data, which riowrite()'s is, too: so data that
 * was sent after riomap() finds the mapping known. Ours, which the peer writes, is looked at by
 * riowrite().
 */
#include <byteswap.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "net/cause/cause.h"
#include "net/clock.h"
#include "verbs/rsocket/rsocket.h"
#include "verbs/rsocket/rsocket_calls.h"

/* --- our buffers ----------------------------------------------------------------------------- */

static int by_index(const struct rsocket_iomap *a, const struct rsocket_iomap *b)
{
	return a->index - b->index;
}

/* The first that is free in the peer's table, or -1. */
static int free_index(const struct rsocket *rs)
{
	const struct rsocket_iomap *map;
	int index = 0;

	LL_FOREACH (rs->iomaps, map) {
		if (map->index > index)
			break;
		index = map->index + 1;
	}
	return index < (int)rs->peer_mappings ? index : -1;
}

static bool overlaps(const struct rsocket *rs, uint64_t offset, size_t length)
{
	const struct rsocket_iomap *map;

	LL_FOREACH (rs->iomaps, map) {
		if (map->index >= 0 && offset < map->offset + map->mr->length &&
		    map->offset < offset + length)
			return true;
	}
	return false;
}

/* With rs->lock. Returns the offset, or -1 with *@error. */
static off_t map_locked(struct rsocket *rs, void *buffer, size_t length, bool remote, off_t offset,
			int *error)
{
	struct rsocket_iomap *map = calloc(1, sizeof(*map));
	int access = IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0);

	*error = 0;
	if (!map)
		*error = refuse(ENOMEM, CAUSE_OUT_OF_MEMORY, "for a mapping of an rsocket");
	else if (rs->state != RSOCKET_CONNECTED && rs->state != RSOCKET_ACCEPTING)
		*error = EINVAL;
	if (!*error) {
		map->index = remote ? free_index(rs) : -1;
		/* An address is as good as any other number that isn't taken. */
		map->offset = offset < 0 ? (uintptr_t)buffer : (uint64_t)offset;
		if (remote && length > UINT32_MAX) /* more than the peer can be told of */
			*error = EINVAL;
		else if (remote && map->index < 0)
			*error = ENOMEM;
		else if (remote && overlaps(rs, map->offset, length))
			*error = EINVAL;
	}
	if (!*error) {
		map->mr = ibv_reg_mr(rs->id->pd, buffer, length, access);
		*error = map->mr ? 0 : errno;
	}
	if (*error) {
		free(map);
		return -1;
	}
	map->pending = remote;
	rs->iomap_pending |= remote;
	LL_INSERT_INORDER(rs->iomaps, map, by_index);
	return map->offset;
}

off_t urxe_riomap(int socket, void *buffer, size_t length, int protection, int flags, off_t offset)
{
	struct rsocket *rs;
	int error;

	if (!length || (protection & ~(PROT_WRITE | PROT_NONE)) || (flags & ~MAP_FIXED))
		return rsocket_return(EINVAL);
	rs = rsocket_get(socket);
	if (!rs)
		return -1;
	if (rs->datagram) {
		error = ENOTSUP;
	} else {
		pthread_mutex_lock(&rs->lock);
		offset = map_locked(rs, buffer, length, protection & PROT_WRITE, offset, &error);
		pthread_mutex_unlock(&rs->lock);
	}
	rsocket_put(rs);
	return error ? rsocket_return(error) : offset;
}

static int unmap_locked(struct rsocket *rs, const void *buffer, size_t length)
{
	struct rsocket_iomap *map;

	LL_FOREACH (rs->iomaps, map) {
		if (map->mr->addr != buffer || map->mr->length != length)
			continue;
		LL_DELETE(rs->iomaps, map);
		ibv_dereg_mr(map->mr);
		free(map);
		return 0;
	}
	return EINVAL;
}

int urxe_riounmap(int socket, void *buffer, size_t length)
{
	struct rsocket *rs = rsocket_get(socket);
	int error;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	error = unmap_locked(rs, buffer, length);
	pthread_mutex_unlock(&rs->lock);
	rsocket_put(rs);
	return rsocket_return(error);
}

void rsocket_iomap_destroy(struct rsocket *rs)
{
	struct rsocket_iomap *map, *next;

	LL_FOREACH_SAFE (rs->iomaps, map, next) {
		ibv_dereg_mr(map->mr);
		free(map);
	}
	rs->iomaps = NULL;
}

static struct rsocket_mapping mapping_for_peer(const struct rsocket *rs,
					       const struct rsocket_iomap *map)
{
	struct rsocket_mapping mapping = {
		.offset = map->offset,
		.place = {.addr = (uintptr_t)map->mr->addr,
			  .key = map->mr->rkey,
			  .length = map->mr->length},
	};

	if (!rs->swapped)
		return mapping;
	return (struct rsocket_mapping){.offset = bswap_64(mapping.offset),
					.place = rsocket_place_swap(&mapping.place)};
}

bool rsocket_iomap_tell(struct rsocket *rs)
{
	uint64_t table = rs->in.peer_target + rs->in.peer_entries * sizeof(struct rsocket_place);
	struct rsocket_iomap *map;

	if (!rs->iomap_pending)
		return true;
	LL_FOREACH (rs->iomaps, map) {
		struct rsocket_mapping mapping;

		if (!map->pending)
			continue;
		mapping = mapping_for_peer(rs, map);
		if (rsocket_post_message(rs, rsocket_message(RSOCKET_MAPPED, map->index),
					 table + map->index * sizeof(mapping), &mapping,
					 sizeof(mapping)) != 0)
			return false;
		map->pending = false;
	}
	rs->iomap_pending = false;
	return true;
}

/* --- the peer's ------------------------------------------------------------------------------ */

/* With rs->lock. The mapping of ours that has @offset: what of it lies behind. */
static bool find_mapping(const struct rsocket *rs, uint64_t offset, struct rsocket_place *place)
{
	for (uint32_t i = 0; rs->targets.known && i < rs->options.iomap_size; i++) {
		struct rsocket_mapping mapping = rs->targets.known[i];

		if (offset < mapping.offset || offset - mapping.offset >= mapping.place.length)
			continue;
		offset -= mapping.offset;
		*place = (struct rsocket_place){.addr = mapping.place.addr + offset,
						.key = mapping.place.key,
						.length = mapping.place.length - offset};
		return true;
	}
	return false;
}

/* With rs->lock. A piece of a riowrite(). Returns its length; 0 with *@error, EAGAIN: no room. */
static size_t write_piece(struct rsocket *rs, const uint8_t *from, size_t length, uint64_t offset,
			  int *error)
{
	struct rsocket_place place = {};
	uint32_t room;

	rsocket_progress(rs);
	room = rsocket_post_direct_room(rs);
	*error = rsocket_is_opening(rs)		     ? EAGAIN
		 : !rs->sends			     ? rsocket_why_ended(rs)
		 : !rsocket_iomap_tell(rs)	     ? EAGAIN
		 : !find_mapping(rs, offset, &place) ? ENXIO
		 : room == 0			     ? EAGAIN
						     : 0;
	if (*error == EAGAIN)
		rs->news_out++;
	if (*error)
		return 0;
	if (length > room)
		length = room;
	if (length > place.length)
		length = place.length;
	memcpy(rs->out.buffer + rs->out.offset, from, length);
	*error = rsocket_post_direct(rs, length, place.addr, place.key);
	return *error ? 0 : length;
}

/* With rs->send_lock. Returns how much of it was written; less than all with *@error. */
static size_t write_pieces(struct rsocket *rs, const uint8_t *from, size_t length, uint64_t offset,
			   bool waits, int *error)
{
	size_t done = 0;

	*error = 0;
	pthread_mutex_lock(&rs->lock);
	while (done < length && !*error) {
		done += write_piece(rs, from + done, length - done, offset + done, error);
		if (*error == EAGAIN && waits)
			*error = rsocket_wait(rs, TIME_NEVER);
	}
	pthread_mutex_unlock(&rs->lock);
	if (*error == ENXIO) /* as librdmacm has it, none: nothing is written there */
		*error = 0;
	return done;
}

static size_t write_mapped(struct rsocket *rs, const void *buffer, size_t length, off_t offset,
			   int flags)
{
	const bool waits = rsocket_waits(rs, flags);
	size_t done;
	int error;

	if (rs->datagram)
		return (size_t)rsocket_return(ENOTSUP);
	pthread_mutex_lock(&rs->send_lock);
	pthread_cleanup_push(rsocket_cleanup_unlock, &rs->send_lock);
	done = write_pieces(rs, buffer, length, offset, waits, &error);
	pthread_cleanup_pop(1);
	return error && !done ? (size_t)rsocket_fail(rs, error) : done;
}

size_t urxe_riowrite(int socket, const void *buffer, size_t length, off_t offset, int flags)
{
	struct rsocket *rs = rsocket_get(socket);
	size_t done;

	if (!rs)
		return (size_t)-1;
	pthread_cleanup_push(rsocket_cleanup_put, rs);
	done = write_mapped(rs, buffer, length, offset, flags);
	pthread_cleanup_pop(1);
	return done;
}
