/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics: each word has those of one kind. Those that add one find different values; of those that
 * put their number where they find 0 one alone finds it, and the others that one's number.
 */
#include "calls.h"

static unsigned int word_of(enum ibv_wr_opcode opcode, uint32_t source)
{
	return source / 64 % (ATOMICS / 2) * 2 + (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD);
}

void atomic_stage(struct ibv_send_wr *wr, uint32_t source)
{
	wr->wr.atomic.remote_addr = (uintptr_t)&arena.atomics[word_of(wr->opcode, source)];
	wr->wr.atomic.compare_add = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr->wr.atomic.swap = wr->wr_id + 1;
}

static bool is_of_word(const struct work *work, unsigned int word)
{
	return work->is_send && work->state != WORK_NONE &&
	       (work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) &&
	       word_of(work->opcode, work->source) == word;
}

void atomic_check(struct world *world, uint32_t index)
{
	struct work *work = &world->works[index];
	const unsigned int word = word_of(work->opcode, work->source);

	if (world->has_null) /* it may be what has got the original value */
		return;
	memcpy(&work->original, arrived_data(world, index, sizeof(work->original)),
	       sizeof(work->original));
	for (uint32_t i = 0; i < world->work_count; i++) {
		const struct work *other = &world->works[i];

		if (!other->has_original || !is_of_word(other, word))
			continue;
		if (work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || !work->original)
			must(other->original != work->original);
	}
	work->has_original = true;
}

static void check_word(const struct world *world, unsigned int word)
{
	const uint64_t value = arena.atomics[word];
	unsigned int count = 0;

	for (uint32_t i = 0; i < world->work_count; i++) {
		const struct work *work = &world->works[i];
		const bool adds = work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

		if (!is_of_word(work, word))
			continue;
		count++;
		if (work->has_original && adds)
			must(work->original < value);
		else if (work->has_original)
			must(work->original == (i + 1 == value ? 0 : value));
	}
	if (word % 2)
		must(value <= count);
	else
		must(!value || is_of_word(&world->works[value - 1], word));
}

void atomics_end(const struct world *world)
{
	for (unsigned int i = 0; i < ATOMICS; i++)
		check_word(world, i);
}
