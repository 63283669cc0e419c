/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory for packets: no two overlap, what is put is used again, and there is a limit. */
#include <stdint.h>
#include <string.h>

#include "net/packet_pool.h"
#include "net/random.h"
#include "net/tuning.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define COUNT 500
#define ARENAS 3
#define NO_LIMIT SIZE_MAX

struct kept {
	uint8_t *memory;
	uint32_t size;
	uint8_t value;
};

static void check_and_put(struct packet_arena *arena, struct kept *kept)
{
	for (uint32_t i = 0; i < kept->size; i++)
		must(kept->memory[i] == kept->value);
	packet_arena_put(arena, kept->memory);
	kept->memory = NULL;
}

START_TEST(packets_come_and_go_in_any_order)
{
	struct kept kept[COUNT] = {};
	struct packet_arena arenas[ARENAS] = {};
	struct packet_pool pool;
	uint64_t random = _i;

	packet_pool_init(&pool);
	for (uint32_t round = 0; round < 20000; round++) {
		struct kept *k = &kept[random_below(&random, COUNT)];
		struct packet_arena *arena = &arenas[(k - kept) % ARENAS];

		if (k->memory) {
			check_and_put(arena, k);
			continue;
		}
		k->size = 1 + random_below(&random, random_below(&random, 2) ? 4200 : 100);
		k->value = round;
		k->memory = packet_arena_get(arena, &pool, k->size, NO_LIMIT);
		must(k->memory && (uintptr_t)k->memory % _Alignof(max_align_t) == 0);
		memset(k->memory, k->value, k->size);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		if (kept[i].memory)
			check_and_put(&arenas[i % ARENAS], &kept[i]);
	ck_assert_uint_eq(pool.used_count, 0);
	for (uint32_t i = 0; i < ARENAS; i++)
		must(!arenas[i].current);
	packet_pool_destroy(&pool);
}
END_TEST

START_TEST(a_limit)
{
	enum { CHUNKS = 4, SIZE = PACKET_POOL_LARGEST };
	void *first, *last = NULL, *memory;
	struct packet_arena arena = {};
	struct packet_pool pool;
	unsigned int count = 0;

	packet_pool_init(&pool);
	first = packet_arena_get(&arena, &pool, SIZE, CHUNKS * PACKET_POOL_CHUNK);
	must(first);
	*(void **)first = NULL;
	last = first;
	while ((memory = packet_arena_get(&arena, &pool, SIZE, CHUNKS * PACKET_POOL_CHUNK))) {
		*(void **)memory = last;
		last = memory;
		count++;
	}
	ck_assert_uint_eq(pool.used_count, CHUNKS);
	ck_assert_uint_eq(count + 1, CHUNKS * (PACKET_POOL_CHUNK / (SIZE + 16)));
	/* Without a limit there is more, which counts. */
	memory = packet_arena_get(&arena, &pool, SIZE, NO_LIMIT);
	must(memory);
	packet_arena_put(&arena, memory);
	for (; last; last = memory) {
		memory = *(void **)last;
		packet_arena_put(&arena, last);
	}
	ck_assert_uint_eq(pool.used_count, 0);
	memory = packet_arena_get(&arena, &pool, 1, PACKET_POOL_CHUNK);
	must(memory);
	packet_arena_put(&arena, memory);
	packet_pool_destroy(&pool);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("packet_pool");
	TCase *tests = tcase_create("packet_pool");

	tcase_add_loop_test(tests, packets_come_and_go_in_any_order, 0, 4);
	tcase_add_test(tests, a_limit);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
