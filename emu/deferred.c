/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/deferred.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "net/tuning.h"
#include "net/wire/wire.h"

struct deferred_qp {
	UT_hash_handle hh;
	uint32_t number;
	uint32_t bytes;
	struct deferred_frame *first, *last;
};

void deferred_init(struct deferred *deferred)
{
	deferred->qps = NULL;
	deferred->initiators = 0;
	atomic_init(&deferred->tried_at, TIME_NEVER);
}

static struct deferred_qp *find_qp(const struct deferred *deferred, uint32_t number)
{
	struct deferred_qp *qp = NULL;

	if (deferred->qps)
		HASH_FIND(hh, deferred->qps, &number, sizeof(number), qp);
	return qp;
}

bool deferred_has(const struct deferred *deferred, uint32_t number)
{
	return find_qp(deferred, number) != NULL;
}

static bool is_xrc(const struct link_frame *frame, enum opcode_flags kind)
{
	const struct bth *bth = (const struct bth *)frame->data;
	const struct opcode *op = opcode_find(bth->opcode);

	return (bth->opcode & WIRE_TRANSPORT_MASK) == WIRE_XRC && op && op->flags & kind;
}

/*
 * By its first frame alone: else a target's request would wait for a stray response behind it,
 * which waits for the request.
 */
static bool is_initiator(const struct deferred_qp *qp)
{
	return qp->first && is_xrc(&qp->first->frame, OPCODE_RESPONSE);
}

bool deferred_precedes(const struct deferred *deferred, const struct link_frame *frame)
{
	return deferred->initiators && is_xrc(frame, OPCODE_REQUEST);
}

bool deferred_has_room(const struct deferred *deferred, uint32_t number, uint32_t length)
{
	const struct deferred_qp *qp = find_qp(deferred, number);

	return !qp || qp->bytes + sizeof(struct deferred_frame) + length <= DEFERRED_BYTES;
}

static struct deferred_qp *add_qp(struct deferred *deferred, uint32_t number)
{
	struct deferred_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->number = number;
	HASH_ADD(hh, deferred->qps, number, sizeof(qp->number), qp);
	if (!qp->hh.tbl) {
		free(qp);
		return NULL;
	}
	return qp;
}

static void remove_qp(struct deferred *deferred, struct deferred_qp *qp)
{
	struct deferred_frame *frame, *next;

	HASH_DEL(deferred->qps, qp);
	LL_FOREACH_SAFE (qp->first, frame, next)
		free(frame);
	free(qp);
}

void deferred_destroy(struct deferred *deferred)
{
	struct deferred_qp *qp, *next;

	HASH_ITER (hh, deferred->qps, qp, next)
		remove_qp(deferred, qp);
}

static void set_time(struct deferred *deferred, uint64_t now)
{
	atomic_store(&deferred->tried_at, deferred->qps ? now : TIME_NEVER);
}

bool deferred_add(struct deferred *deferred, uint32_t number, const struct link_frame *frame,
		  uint64_t now)
{
	struct deferred_qp *qp = find_qp(deferred, number);
	struct deferred_frame *copy;

	if (!deferred_has_room(deferred, number, frame->length))
		return false;
	copy = malloc(sizeof(*copy) + frame->length);
	if (!copy)
		return false;
	if (!qp)
		qp = add_qp(deferred, number);
	if (!qp) {
		free(copy);
		return false;
	}
	copy->frame = *frame;
	copy->frame.data = memcpy(copy->data, frame->data, frame->length);
	copy->next = NULL;
	if (qp->last) {
		qp->last->next = copy;
	} else {
		qp->first = copy;
		deferred->initiators += is_initiator(qp);
	}
	qp->last = copy;
	qp->bytes += sizeof(*copy) + frame->length;
	if (atomic_load(&deferred->tried_at) == TIME_NEVER)
		set_time(deferred, now);
	return true;
}

static void drop_until(struct deferred *deferred, struct deferred_qp *qp,
		       const struct deferred_frame *stays)
{
	deferred->initiators -= is_initiator(qp);
	while (qp->first != stays) {
		struct deferred_frame *frame = qp->first;

		qp->first = frame->next;
		qp->bytes -= sizeof(*frame) + frame->frame.length;
		free(frame);
	}
	deferred->initiators += is_initiator(qp);
}

bool deferred_retry(struct deferred *deferred, deferred_deliver *deliver, void *context,
		    uint64_t now)
{
	struct deferred_qp *qp, *next;
	bool any = false;

	if (!deferred->qps)
		return false;
	HASH_ITER (hh, deferred->qps, qp, next) {
		const struct deferred_frame *stays = deliver(context, qp->number, qp->first, now);

		any |= stays != qp->first;
		drop_until(deferred, qp, stays);
		if (!qp->first)
			remove_qp(deferred, qp);
	}
	set_time(deferred, now);
	return any;
}

uint64_t deferred_retry_at(const struct deferred *deferred)
{
	uint64_t tried_at = atomic_load(&deferred->tried_at);

	return tried_at == TIME_NEVER ? TIME_NEVER : tried_at + DEFERRED_RETRY;
}
