/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: it has the source from its beginning on, which nothing but these calls writes, and
 * behind it a place for each work request.
 */
#include <errno.h>

#include "calls.h"

#define UNIT 4 /* of copies */

void call_alloc_dm(struct world *world)
{
	static const size_t sizes[] = {DM_SIZE, SOURCE_SIZE, 0, 1, 4, 2 << 20, 1 << 20, SIZE_MAX};
	struct fuzz_dm *dm = UNUSED(world, dms);
	struct ibv_context *context = pick_context(world);
	uint8_t choice = input_u8(&world->input);
	struct ibv_alloc_dm_attr attr = {
		.length = sizes[choice % COUNT_OF(sizes)],
		.log_align_req = choice >> 4,
		.comp_mask = choice == 0xff,
	};
	size_t filled;

	if (!dm)
		return;
	dm->ibv = ibv_alloc_dm(context, &attr);
	dm->length = attr.length;
	must(dm->ibv ? attr.length > 0 : errno);
	if (!dm->ibv)
		return;
	filled = attr.length < SOURCE_SIZE ? attr.length : SOURCE_SIZE;
	must(ibv_memcpy_to_dm(dm->ibv, 0, arena.source, filled / UNIT * UNIT) == 0);
}

/* Of the source, which stays what it is. */
void call_copy_dm(struct world *world)
{
	static const uint64_t offsets[] = {0,	    4,		 64, 3, 4096, SOURCE_SIZE - 8,
					   DM_SIZE, -UINT64_C(4)};
	static const uint32_t copied[] = {8, 4, 0, 1, 64, 300, 4096, 12};
	struct fuzz_dm *dm = PICK(world, dms);
	uint8_t choice = input_u8(&world->input);
	uint64_t offset = offsets[choice & 7];
	uint32_t length = copied[choice >> 3 & 7];
	uint8_t data[4096];
	bool good;

	if (!dm)
		return;
	good = offset % UNIT == 0 && length % UNIT == 0 && offset <= dm->length &&
	       length <= dm->length - offset;
	if (offset > SOURCE_SIZE || length > SOURCE_SIZE - offset || choice & 0x40) {
		must((ibv_memcpy_from_dm(data, dm->ibv, offset, length) == 0) == good);
		if (good && offset + length <= SOURCE_SIZE)
			must(memcmp(data, arena.source + offset, length) == 0);
		return;
	}
	must((ibv_memcpy_to_dm(dm->ibv, offset, arena.source + offset, length) == 0) == good);
}

/* Whether it has anything there, which is in @data then. */
static bool read_place(const struct fuzz_dm *dm, uint32_t index, uint8_t data[PLACE_SIZE])
{
	if (!dm->ibv || dm->length < DM_SIZE)
		return false;
	must(ibv_memcpy_from_dm(data, dm->ibv, offsetof(struct arena, places[index]), PLACE_SIZE) ==
	     0);
	return !is_zero(data, PLACE_SIZE);
}

const uint8_t *arrived_data(struct world *world, uint32_t index, uint32_t length)
{
	static uint8_t data[PLACE_SIZE];

	if (length > PLACE_SIZE)
		return arena.slots[index];
	for (unsigned int i = 0; i < DMS; i++)
		if (read_place(&world->dms[i], index, data))
			return data;
	return is_zero(arena.places[index], PLACE_SIZE) ? arena.slots[index] : arena.places[index];
}

/* What has come to it may be asked for yet. */
static void keep_places(const struct world *world, const struct fuzz_dm *dm)
{
	uint8_t data[PLACE_SIZE];

	for (uint32_t i = 0; i < world->work_count; i++)
		if (read_place(dm, i, data))
			memcpy(arena.places[i], data, sizeof(data));
}

void free_dm(struct world *world, struct fuzz_dm *dm)
{
	bool busy = false;

	for (unsigned int i = 0; i < MRS; i++)
		busy |= world->mrs[i].ibv && world->mrs[i].dm == dm->ibv;
	if (!busy)
		keep_places(world, dm);
	must_destroy(ibv_free_dm(dm->ibv), busy, "ibv_free_dm()");
	if (!busy)
		*dm = (struct fuzz_dm){};
}

void call_free_dm(struct world *world)
{
	struct fuzz_dm *dm = PICK(world, dms);

	if (dm)
		free_dm(world, dm);
}
