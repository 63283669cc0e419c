/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and references, and references against removals from several threads. */
#include <errno.h>

#include "core.h"

static struct table table;

START_TEST(numbers_are_handed_out_in_a_circle)
{
	uint32_t number;
	int object;

	ck_assert_int_eq(table_init(&table, &process_host, 5, 8), 0);
	for (uint32_t i = 5; i < 8; i++) {
		ck_assert_int_eq(table_reserve(&table, &number), 0);
		ck_assert_uint_eq(number, i);
	}
	ck_assert_int_eq(table_reserve(&table, &number), ENOMEM);
	table_remove(&table, 6);
	table_remove(&table, 5);
	/* The circle goes on from the last number given. */
	ck_assert_int_eq(table_reserve(&table, &number), 0);
	ck_assert_uint_eq(number, 5);
	table_publish(&table, 5, &object);
	table_remove(&table, 5);
	ck_assert_int_eq(table_reserve(&table, &number), 0);
	ck_assert_uint_eq(number, 6);
	table_remove(&table, 6);
	table_remove(&table, 7);
	table_destroy(&table);
}
END_TEST

START_TEST(ranges_are_added)
{
	static const uint32_t expected[] = {41, 42, 43, 10, 11, 40};
	uint32_t number;

	ck_assert_int_eq(table_init(&table, &process_host, 50, 50), 0);
	ck_assert_int_eq(table_reserve(&table, &number), ENOMEM);
	ck_assert_int_eq(table_add_range(&table, 10, 2, 10), 0);
	ck_assert_int_eq(table_add_range(&table, 40, 4, 41), 0);
	/* From the last start given through all ranges. */
	for (unsigned int i = 0; i < 6; i++) {
		ck_assert_int_eq(table_reserve(&table, &number), 0);
		ck_assert_uint_eq(number, expected[i]);
	}
	ck_assert_int_eq(table_reserve(&table, &number), ENOMEM);
	ck_assert_ptr_null(table_get(&table, 12));
	table_remove(&table, 11);
	ck_assert_int_eq(table_reserve(&table, &number), 0);
	ck_assert_uint_eq(number, 11);
	for (unsigned int i = 0; i < 6; i++)
		table_remove(&table, expected[i]);
	table_destroy(&table);
}
END_TEST

START_TEST(objects_are_found_in_the_order_of_their_numbers)
{
	const uint32_t far = 7 * TABLE_CHUNK + 1; /* behind chunks that no number has needed */
	uint32_t reserved, number;
	int objects[2];

	ck_assert_int_eq(table_init(&table, &process_host, 0, 9 * TABLE_CHUNK), 0);
	ck_assert_int_eq(table_add_range(&table, 3, 2, 3), 0);
	ck_assert_int_eq(table_add_range(&table, far, 1, far), 0);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_int_eq(table_reserve(&table, &reserved), 0);
	table_publish(&table, 4, &objects[0]);
	table_publish(&table, far, &objects[1]);
	number = 0;
	ck_assert_ptr_eq(table_get_next(&table, &number), &objects[0]);
	ck_assert_uint_eq(number, 4);
	table_put(&table, number++);
	ck_assert_ptr_eq(table_get_next(&table, &number), &objects[1]);
	ck_assert_uint_eq(number, far);
	table_put(&table, number++);
	ck_assert_ptr_null(table_get_next(&table, &number));
	for (number = 3; number < 5; number++)
		table_remove(&table, number);
	table_remove(&table, far);
	table_destroy(&table);
}
END_TEST

START_TEST(only_published_objects_are_found)
{
	uint32_t number;
	int object;

	ck_assert_int_eq(table_init(&table, &process_host, 1, 3 * TABLE_CHUNK), 0);
	table.cursor = 2 * TABLE_CHUNK;
	ck_assert_int_eq(table_reserve(&table, &number), 0);
	ck_assert_uint_eq(number, 2 * TABLE_CHUNK);
	ck_assert_ptr_null(table_get(&table, number));
	table_publish(&table, number, &object);
	ck_assert_ptr_eq(table_get(&table, number), &object);
	table_put(&table, number);

	/* No chunk there; a neighbour; outside the table. */
	ck_assert_ptr_null(table_get(&table, 1));
	ck_assert_ptr_null(table_get(&table, number + 1));
	ck_assert_ptr_null(table_get(&table, 0));
	ck_assert_ptr_null(table_get(&table, 3 * TABLE_CHUNK));
	ck_assert_ptr_null(table_get(&table, UINT32_MAX));

	table_withdraw(&table, number);
	ck_assert_ptr_null(table_get(&table, number));
	table_publish(&table, number, &object);
	ck_assert_ptr_eq(table_get(&table, number), &object);
	table_put(&table, number);
	table_remove(&table, number);
	ck_assert_ptr_null(table_get(&table, number));
	table_destroy(&table);
}
END_TEST

static unsigned int yields;

/* The other thread's turn: the second time it puts its reference. */
static void put_at_second(void)
{
	if (++yields == 2)
		table_put(&table, 1);
}

START_TEST(removal_yields_until_the_reference_is_put)
{
	const struct hca_host host = {.yield = put_at_second};
	uint32_t number;
	int object;

	yields = 0;
	ck_assert_int_eq(table_init(&table, &host, 1, 2), 0);
	ck_assert_int_eq(table_reserve(&table, &number), 0);
	table_publish(&table, number, &object);
	ck_assert_ptr_eq(table_get(&table, number), &object);
	table_remove(&table, number);
	ck_assert_uint_eq(yields, 2);
	table_destroy(&table);
}
END_TEST

#define STRESS_NUMBERS 8
#define STRESS_ROUNDS 3000
#define STRESS_ALIVE 0x600df00du

static _Atomic bool stop;
static _Atomic unsigned int found;

static void *stress_get(void *unused)
{
	for (uint32_t i = 0; !stop; i++) {
		uint32_t number = 1 + i % STRESS_NUMBERS;
		uint32_t *object = table_get(&table, number);

		if (!object)
			continue;
		ck_assert_uint_eq(*object, STRESS_ALIVE);
		found++;
		table_put(&table, number);
	}
	return NULL;
}

static void *stress_remove(void *unused)
{
	for (int i = 0; i < STRESS_ROUNDS; i++) {
		uint32_t *object = malloc(sizeof(*object));
		uint32_t number;

		*object = STRESS_ALIVE;
		ck_assert_int_eq(table_reserve(&table, &number), 0);
		table_publish(&table, number, object);
		if (i % 4 == 0)
			sched_yield();
		table_remove(&table, number);
		*object = 0;
		free(object);
	}
	return NULL;
}

START_TEST(nothing_in_use_is_freed)
{
	pthread_t getters[2], removers[2];

	ck_assert_int_eq(table_init(&table, &process_host, 1, 1 + STRESS_NUMBERS), 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&getters[i], NULL, stress_get, NULL);
	/* Again until getters have met objects, however the threads were scheduled. */
	do {
		for (int i = 0; i < 2; i++)
			pthread_create(&removers[i], NULL, stress_remove, NULL);
		for (int i = 0; i < 2; i++)
			pthread_join(removers[i], NULL);
	} while (!found);
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(getters[i], NULL);
	ck_assert_uint_eq(table.count, 0);
	table_destroy(&table);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {numbers_are_handed_out_in_a_circle,
				      ranges_are_added,
				      only_published_objects_are_found,
				      objects_are_found_in_the_order_of_their_numbers,
				      removal_yields_until_the_reference_is_put,
				      nothing_in_use_is_freed,
				      NULL};

	return core_run("table", tests);
}
