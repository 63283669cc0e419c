/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/stores.h"

#include <string.h>

#include "net/clock.h"
#include "net/link.h"
#include "net/tuning.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* New memory has no pages yet, so what is written to it first tells nothing. */
void stores_init(struct stores *stores, uint32_t turn)
{
	*stores = (struct stores){.turn = turn, .written = STORES_ROUND - 2 * (uint64_t)turn};
}

/*
 * How much is written in the other way, after each round. What isn't in any cache, since it was
 * written past them, has to be there before the caches can show what they gain.
 */
static uint64_t trial(const struct stores *stores)
{
	return stores->nontemporal ? stores->turn + STORES_TRIAL : STORES_TRIAL;
}

struct stores_block stores_begin(const struct stores *stores)
{
	uint64_t end = STORES_ROUND + trial(stores);
	bool other = stores->written >= STORES_ROUND;
	bool timed = stores->written >= (other ? end : STORES_ROUND) - STORES_TRIAL;

	return (struct stores_block){
		.nontemporal = stores->nontemporal != other,
		.begun = timed ? clock_now() : 0,
	};
}

static void note(uint64_t *least, uint64_t time)
{
	if (!*least || time < *least)
		*least = time;
}

/*
 * Past the caches it has to take half the time: what the receiver then fetches from memory takes it
 * longer than from a cache that both share.
 */
static void decide(struct stores *stores)
{
	stores->nontemporal = 2 * stores->least[true] < stores->least[false];
	stores->least[false] = stores->least[true] = 0;
	stores->written = 0;
}

void stores_end_after(struct stores *stores, const struct stores_block *block, uint32_t length,
		      uint64_t time)
{
	if (block->begun)
		note(&stores->least[block->nontemporal], (time << 20) / length);
	stores->written += length;
	if (stores->written >= STORES_ROUND + trial(stores))
		decide(stores);
}

void stores_end(struct stores *stores, const struct stores_block *block, uint32_t length)
{
	stores_end_after(stores, block, length,
			 block->begun ? elapsed(block->begun, clock_now()) : 0);
}

#if defined(__SSE2__)

void stores_copy_nontemporal(uint8_t *to, const uint8_t *from, uint32_t length)
{
	uint32_t head = -(uintptr_t)to % CACHE_LINE;

	if (head > length)
		head = length;
	memcpy(to, from, head);
	to += head;
	from += head;
	length -= head;
	for (; length >= CACHE_LINE; to += CACHE_LINE, from += CACHE_LINE, length -= CACHE_LINE) {
		for (unsigned int i = 0; i < CACHE_LINE; i += sizeof(__m128i))
			_mm_stream_si128((__m128i *)(to + i),
					 _mm_loadu_si128((const __m128i *)(from + i)));
	}
	_mm_sfence();
	memcpy(to, from, length);
}

#else

void stores_copy_nontemporal(uint8_t *to, const uint8_t *from, uint32_t length)
{
	memcpy(to, from, length);
}

#endif
