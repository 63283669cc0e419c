/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/reorder.h"

#include <stdlib.h>

#include "net/tuning.h"

/* Slots at first; more when a packet comes from further ahead. */
#define REORDER_SLOTS_LEAST 64

struct reorder_packet {
	struct packet packet; /* points to bytes */
	uint32_t length;
	uint8_t bytes[];
};

_Static_assert(sizeof(struct reorder_packet) + WIRE_PACKET_MAX <= PACKET_POOL_LARGEST, "");

static struct reorder_packet **slot(const struct reorder *reorder, uint32_t psn)
{
	return &reorder->ring[psn & (reorder->size - 1)];
}

/* A slot has one PSN of those that are less than the ring's size ahead of the first. */
static struct reorder_packet *find_kept(const struct reorder *reorder, uint32_t psn)
{
	struct reorder_packet *kept = reorder->count ? *slot(reorder, psn) : NULL;

	return kept && kept->packet.psn == psn ? kept : NULL;
}

static void free_packet(struct reorder *reorder, struct reorder_packet *kept)
{
	packet_arena_put(&reorder->arena, kept);
}

/* Out of its slot. */
static void detach(struct reorder *reorder, struct reorder_packet *kept)
{
	*slot(reorder, kept->packet.psn) = NULL;
	reorder->count--;
	reorder->bytes -= kept->length;
}

static void attach(struct reorder *reorder, struct reorder_packet *kept)
{
	uint32_t psn = kept->packet.psn;

	if (!reorder->count) {
		reorder->first = psn;
		reorder->end = psn_add(psn, 1);
	}
	if (psn_distance(psn, reorder->first) < 0)
		reorder->first = psn;
	if (psn_distance(psn, reorder->end) >= 0)
		reorder->end = psn_add(psn, 1);
	*slot(reorder, psn) = kept;
	reorder->count++;
	reorder->bytes += kept->length;
}

void reorder_remove_before(struct reorder *reorder, uint32_t psn)
{
	while (reorder->count && psn_distance(reorder->first, psn) < 0) {
		struct reorder_packet *kept = find_kept(reorder, reorder->first);

		if (kept) {
			detach(reorder, kept);
			free_packet(reorder, kept);
		}
		reorder->first = psn_add(reorder->first, 1);
	}
}

void reorder_clear(struct reorder *reorder)
{
	if (reorder->count)
		reorder_remove_before(reorder, reorder->end);
}

void reorder_destroy(struct reorder *reorder)
{
	reorder_clear(reorder);
	free(reorder->ring);
	*reorder = (struct reorder){};
}

/* So that @ahead PSNs from the first have slots of their own. */
static bool grow(struct reorder *reorder, uint32_t ahead)
{
	struct reorder larger = {.size = REORDER_SLOTS_LEAST};

	while (larger.size < ahead)
		larger.size *= 2;
	larger.ring = calloc(larger.size, sizeof(struct reorder_packet *));
	if (!larger.ring)
		return false;
	for (uint32_t i = 0; i < reorder->size; i++)
		if (reorder->ring[i])
			*slot(&larger, reorder->ring[i]->packet.psn) = reorder->ring[i];
	free(reorder->ring);
	reorder->ring = larger.ring;
	reorder->size = larger.size;
	return true;
}

static bool has_room(struct reorder *reorder, uint32_t length, uint32_t ahead)
{
	if (ahead > REORDER_PSNS || reorder->bytes + length > REORDER_BYTES)
		return false;
	return ahead <= reorder->size || grow(reorder, ahead);
}

/*
 * @placed isn't in @packet yet: a copy that reads what has just been written waits for the stores
 * of the whole payload (a twentieth of a receiver's time with 1 % loss).
 */
bool reorder_keep(struct reorder *reorder, struct packet_pool *pool, const struct packet *packet,
		  bool placed, uint32_t missing)
{
	uint32_t payload = placed ? 0 : packet->payload_length;
	uint32_t length = packet->op->headers_length + payload;
	uint32_t ahead = psn_distance(packet->psn, missing) + 1;
	struct reorder_packet *kept;

	reorder_remove_before(reorder, missing);
	if (find_kept(reorder, packet->psn))
		return true;
	if (!has_room(reorder, length, ahead))
		return false;
	kept = packet_arena_get(&reorder->arena, pool, sizeof(*kept) + length, REORDER_BYTES_ALL);
	if (!kept)
		return false;
	/* Its headers needn't lie before its payload (packet_keep_headers()). */
	memcpy(kept->bytes, packet->headers, packet->op->headers_length);
	memcpy(kept->bytes + packet->op->headers_length, packet->payload, payload);
	kept->length = length;
	kept->packet = *packet;
	kept->packet.placed = placed;
	kept->packet.headers = kept->bytes;
	kept->packet.payload = kept->bytes + packet->op->headers_length;
	attach(reorder, kept);
	return true;
}

bool reorder_has(const struct reorder *reorder, uint32_t psn)
{
	return find_kept(reorder, psn) != NULL;
}

bool reorder_is_placed(const struct reorder *reorder, uint32_t psn)
{
	const struct reorder_packet *kept = find_kept(reorder, psn);

	return kept && kept->packet.placed;
}

const struct packet *reorder_take(struct reorder *reorder, uint32_t psn)
{
	struct reorder_packet *kept = find_kept(reorder, psn);

	if (!kept)
		return NULL;
	detach(reorder, kept);
	return &kept->packet;
}

void reorder_free(struct reorder *reorder, const struct packet *packet)
{
	free_packet(reorder, (struct reorder_packet *)packet);
}

void reorder_return(struct reorder *reorder, const struct packet *packet)
{
	attach(reorder, (struct reorder_packet *)packet);
}
