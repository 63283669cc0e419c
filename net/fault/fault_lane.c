/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/fault_lane.h"

#include <stdlib.h>
#include <utlist.h>

#include "net/wire/gid.h"
#include "net/wire/wire.h"

/* A packet held back leaves after this time, though no later one of its flow has come. */
#define SWAP_TIME_NS 1000000

/* Delays are mostly equal, so the place is mostly at the end. */
void lane_delay(struct lane *lane, struct held *held, uint64_t due)
{
	struct held *after = lane->delayed ? lane->delayed->prev : NULL;

	held->due = due;
	if (!after || after->due <= due) {
		DL_APPEND(lane->delayed, held);
		return;
	}
	while (after != lane->delayed && after->prev->due > due)
		after = after->prev;
	DL_PREPEND_ELEM(lane->delayed, after, held);
}

/* Packets of one flow overtake each other: order matters within a queue pair. */
struct held *lane_find_swapped(struct lane *lane, const struct flow *flow)
{
	struct held *held;

	DL_FOREACH (lane->swapped, held) {
		if (held->flow.qpn == flow->qpn &&
		    gid_equal(&held->flow.destination, &flow->destination))
			return held;
	}
	return NULL;
}

void lane_swap(struct lane *lane, struct held *held, uint64_t now)
{
	held->due = now + SWAP_TIME_NS;
	DL_APPEND(lane->swapped, held);
}

void lane_take_due(struct lane *lane, uint64_t now, struct held **list, unsigned int max)
{
	struct held **const queues[] = {&lane->delayed, &lane->swapped};
	struct held *held;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		while (max && *queues[i] && (*queues[i])->due <= now) {
			held = *queues[i];
			DL_DELETE(*queues[i], held);
			DL_APPEND(*list, held);
			max--;
		}
	}
}

uint64_t lane_deadline(const struct lane *lane)
{
	uint64_t delayed = lane->delayed ? lane->delayed->due : TIME_NEVER;
	uint64_t swapped = lane->swapped ? lane->swapped->due : TIME_NEVER;

	return earlier(delayed, swapped);
}

struct held *held_get(struct held **spare, uint32_t length)
{
	uint32_t space = length < WIRE_PACKET_MAX ? WIRE_PACKET_MAX : length;
	struct held *held = *spare;

	if (held && length <= held->space) {
		DL_DELETE(*spare, held);
		return held;
	}
	held = malloc(sizeof(*held) + space);
	if (held)
		held->space = space;
	return held;
}

void held_put(struct held **spare, struct held *held)
{
	/* No packet of a queue pair is longer. */
	if (held->space == WIRE_PACKET_MAX)
		DL_PREPEND(*spare, held);
	else
		free(held);
}

void held_put_all(struct held **spare, struct held **list)
{
	struct held *held, *next;

	DL_FOREACH_SAFE (*list, held, next)
		held_put(spare, held);
	*list = NULL;
}

void held_free(struct held **list)
{
	struct held *held, *next;

	DL_FOREACH_SAFE (*list, held, next)
		free(held);
	*list = NULL;
}
