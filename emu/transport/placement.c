/* SPDX-License-Identifier: BSD-2-Clause */
#include "emu/transport/placement.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hca.h"
#include "emu/objects/mr.h"
#include "emu/objects/qp.h"
#include "net/cache_line.h"
#include "net/guard.h"
#include "net/random.h"

/* Beyond that a random piece makes room. None is larger than a packet's payload. */
#define PIECES_MAX 1024

struct piece {
	struct placement_target target;
	const uint8_t *address; /* as it was when the piece came, to see what is in its way */
	uint32_t length;
	uint64_t due;
	uint8_t data[];
};

struct placement {
	pthread_mutex_t lock;
	uint64_t random;
	struct piece *pieces[PIECES_MAX]; /* in no order */
	unsigned int count;
	_Atomic uint64_t deadline; /* the earliest, or TIME_NEVER: read without the lock */
};

int placement_enable(struct hca *hca, uint64_t seed)
{
	struct placement *placement = calloc(1, sizeof(*placement));

	if (!placement)
		return ENOMEM;
	pthread_mutex_init(&placement->lock, NULL);
	placement->random = seed;
	atomic_store(&placement->deadline, TIME_NEVER);
	hca->placement = placement;
	return 0;
}

void placement_disable(struct hca *hca)
{
	if (!hca->placement)
		return;
	placement_finish(hca);
	pthread_mutex_destroy(&hca->placement->lock);
	free(hca->placement);
	hca->placement = NULL;
}

uint64_t placement_random(struct hca *hca, uint64_t bound)
{
	struct placement *placement = hca->placement;
	uint64_t number;

	pthread_mutex_lock(&placement->lock);
	number = random_below(&placement->random, bound);
	pthread_mutex_unlock(&placement->lock);
	return number;
}

/* --- keys ------------------------------------------------------------------------------ */

static int pin_target(const struct placement_target *target, uint64_t length, struct mr_pin *pin)
{
	if (target->remote)
		return mr_pin_remote(target->pd, target->qp, target->key, target->va, length,
				     IBV_ACCESS_REMOTE_WRITE, pin);
	return mr_pin(target->qp->hca, target->pd, target->key, target->va, length,
		      IBV_ACCESS_LOCAL_WRITE, pin);
}

/* Whether @length bytes could be placed now, and where; *@address is NULL where none ever are. */
static int probe_target(const struct placement_target *target, uint32_t length,
			const uint8_t **address)
{
	struct mr_pin pin;
	int error = pin_target(target, length, &pin);

	if (error)
		return error;
	*address = pin.key->kind == KEY_NULL ? NULL : pin.address;
	if (*address && !guard_probe(*address, length, true, NULL))
		error = mr_fault(&pin);
	mr_unpin(target->qp->hca, &pin);
	return error;
}

/* --- pieces, locked -------------------------------------------------------------------- */

/* A key that ended at this moment leaves nothing to write to. */
static void place_piece(struct placement *placement, unsigned int index)
{
	struct piece *piece = placement->pieces[index];
	struct mr_pin pin;

	if (pin_target(&piece->target, piece->length, &pin) == 0) {
		mr_write(piece->target.qp->hca, &pin, pin.address, piece->data, piece->length);
		mr_unpin(piece->target.qp->hca, &pin);
	}
	placement->pieces[index] = placement->pieces[--placement->count];
	free(piece);
}

/* Those for which @wanted holds, in any order. Returns whether there were any. */
static bool place_wanted(struct placement *placement,
			 bool (*wanted)(const struct piece *piece, const void *context),
			 const void *context)
{
	uint64_t deadline = TIME_NEVER;
	bool any = false;

	for (unsigned int i = placement->count; i-- > 0;) {
		const struct piece *piece = placement->pieces[i];

		if (wanted(piece, context)) {
			place_piece(placement, i);
			any = true;
		} else if (piece->due < deadline) {
			deadline = piece->due;
		}
	}
	atomic_store(&placement->deadline, deadline);
	return any;
}

static void make_room(struct placement *placement)
{
	if (placement->count == PIECES_MAX)
		place_piece(placement, random_below(&placement->random, placement->count));
}

/*
 * Each order of magnitude up to PLACEMENT_DELAY is as likely: whatever time a program believes to
 * be enough, some data comes later.
 */
static uint64_t delay(struct placement *placement)
{
	return random_below(&placement->random, PLACEMENT_DELAY) >>
	       random_below(&placement->random, 8);
}

/* Returns false without memory for it. */
static bool keep_piece(struct placement *placement, const struct placement_target *target,
		       const uint8_t *address, const void *data, uint32_t length)
{
	struct piece *piece = malloc(sizeof(*piece) + length);

	if (!piece)
		return false;
	piece->target = *target;
	piece->address = address;
	piece->length = length;
	piece->due = target->qp->now + delay(placement);
	memcpy(piece->data, data, length);
	make_room(placement);
	placement->pieces[placement->count++] = piece;
	if (piece->due < atomic_load(&placement->deadline))
		atomic_store(&placement->deadline, piece->due);
	return true;
}

/*
 * The length of a piece, which ends with one of the cache lines that @length bytes at @address are
 * in. A line is written as a whole, as devices do: programs may rely on a flag that shares the line
 * of its data, and on no more.
 */
static uint32_t cut(struct placement *placement, const uint8_t *address, uint32_t length)
{
	uint32_t part = 1 + random_below(&placement->random, length);

	part += -((uintptr_t)address + part) % CACHE_LINE;
	return part < length ? part : length;
}

/* --- in ---------------------------------------------------------------------------------- */

struct range {
	const uint8_t *address;
	uint32_t length;
};

static bool overlaps(const struct piece *piece, const void *context)
{
	const struct range *range = context;

	return piece->address < range->address + range->length &&
	       range->address < piece->address + piece->length;
}

/* In pieces. Returns how much of it there was memory for. */
static uint32_t keep_pieces(struct placement *placement, struct placement_target target,
			    const uint8_t *address, const uint8_t *data, uint32_t length)
{
	uint32_t kept = 0;

	while (kept < length) {
		uint32_t part = cut(placement, address + kept, length - kept);

		if (!keep_piece(placement, &target, address + kept, data + kept, part))
			break;
		kept += part;
		target.va += part;
	}
	return kept;
}

static int place_now(struct placement_target target, uint32_t offset, const uint8_t *data,
		     uint32_t length)
{
	struct mr_pin pin;
	int error;

	target.va += offset;
	error = pin_target(&target, length, &pin);
	if (error)
		return error;
	error = mr_write(target.qp->hca, &pin, pin.address, data, length);
	mr_unpin(target.qp->hca, &pin);
	return error;
}

int placement_keep(const struct placement_target *target, const void *data, uint32_t length)
{
	struct hca *hca = target->qp->hca;
	struct placement *placement = hca->placement;
	struct range range = {.length = length};
	uint64_t before, after;
	uint32_t kept;
	int error;

	if (!length)
		return 0;
	error = probe_target(target, length, &range.address);
	if (error || !range.address)
		return error;
	pthread_mutex_lock(&placement->lock);
	before = atomic_load(&placement->deadline);
	place_wanted(placement, overlaps, &range);
	kept = keep_pieces(placement, *target, range.address, data, length);
	after = atomic_load(&placement->deadline);
	pthread_mutex_unlock(&placement->lock);
	if (after < before)
		hca_wake_at(hca, after);
	if (kept < length)
		error = place_now(*target, kept, (const uint8_t *)data + kept, length - kept);
	return error;
}

int placement_scatter(const struct qp *qp, const struct pd *pd, const struct ibv_sge *sge,
		      uint32_t count, uint64_t offset, const void *data, uint32_t length)
{
	const uint8_t *from = data;

	for (uint32_t i = 0; i < count && length; i++) {
		struct placement_target target = {qp, pd, sge[i].lkey};
		uint32_t part = sge_part(&sge[i], &offset, length, &target.va);
		int error;

		if (!part)
			continue;
		error = placement_keep(&target, from, part);
		if (error)
			return error;
		from += part;
		length -= part;
	}
	return 0;
}

/* --- into place ------------------------------------------------------------------------- */

static bool is_any(const struct piece *piece, const void *context)
{
	return true;
}

static bool is_of_qp(const struct piece *piece, const void *context)
{
	return piece->target.qp == context;
}

static bool is_local_of_qp(const struct piece *piece, const void *context)
{
	return piece->target.qp == context && !piece->target.remote;
}

static bool is_due(const struct piece *piece, const void *context)
{
	return piece->due <= *(const uint64_t *)context;
}

static bool finish(struct hca *hca, bool (*wanted)(const struct piece *, const void *),
		   const void *context)
{
	struct placement *placement = hca->placement;
	bool any;

	if (!placement)
		return false;
	pthread_mutex_lock(&placement->lock);
	any = place_wanted(placement, wanted, context);
	pthread_mutex_unlock(&placement->lock);
	return any;
}

void placement_finish(struct hca *hca)
{
	finish(hca, is_any, NULL);
}

void placement_finish_qp(const struct qp *qp)
{
	finish(qp->hca, is_of_qp, qp);
}

void placement_finish_local(const struct qp *qp)
{
	finish(qp->hca, is_local_of_qp, qp);
}

bool placement_run(struct hca *hca, uint64_t now)
{
	return now >= placement_deadline(hca) && finish(hca, is_due, &now);
}

uint64_t placement_deadline(struct hca *hca)
{
	return hca->placement ? atomic_load(&hca->placement->deadline) : TIME_NEVER;
}
