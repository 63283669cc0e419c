/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers that threads borrow: each thread gets its own back, and no two have the same one. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "net/pool.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"

#define SIZE 4096
#define THREADS 8
#define ROUNDS 2000

static struct pool pool;

START_TEST(the_thread_s_own_comes_back)
{
	void *first = pool_get(&pool, SIZE), *second;

	ck_assert_ptr_nonnull(first);
	pool_put(&pool, first);
	ck_assert_ptr_eq(pool_get(&pool, SIZE), first);
	/* The one that is in use isn't given twice, whichever is put first. */
	second = pool_get(&pool, SIZE);
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_ne(second, first);
	pool_put(&pool, second);
	second = pool_get(&pool, SIZE);
	ck_assert_ptr_ne(second, first);
	pool_put(&pool, first);
	ck_assert_ptr_eq(pool_get(&pool, SIZE), first);
	pool_put(&pool, second);
	pool_put(&pool, first);
	pool_destroy(&pool);
}
END_TEST

START_TEST(a_new_one_begins_with_zeros)
{
	uint8_t *buffer;

	/* Freed with ones in it, memory for the next one. */
	buffer = pool_get(&pool, SIZE);
	ck_assert_ptr_nonnull(buffer);
	memset(buffer, 0xff, SIZE);
	pool_put(&pool, buffer);
	pool_destroy(&pool);

	buffer = pool_get(&pool, SIZE);
	ck_assert_ptr_nonnull(buffer);
	for (unsigned int i = 0; i < POOL_ZEROS; i++)
		ck_assert_uint_eq(buffer[i], 0);
	pool_put(&pool, buffer);
	pool_destroy(&pool);
}
END_TEST

/* Without memory for another one: what is no buffer's size stands for that. */
START_TEST(without_memory_threads_take_turns)
{
	const size_t too_much = SIZE_MAX / 4;
	void *first, *reserve;

	if (HAS_ASAN || HAS_TSAN) /* they end the process */
		return;
	ck_assert_int_eq(pool_reserve(&pool, SIZE), 0);
	for (int i = 0; i < 2; i++) {
		reserve = pool_get(&pool, too_much);
		ck_assert_ptr_nonnull(reserve);
		ck_assert_ptr_null(pool_get(&pool, too_much));
		first = pool_get(&pool, SIZE);
		ck_assert_ptr_nonnull(first);
		ck_assert_ptr_ne(first, reserve);
		ck_assert_ptr_null(pool_get(&pool, too_much));
		pool_put(&pool, reserve);
		ck_assert_ptr_eq(pool_get(&pool, too_much), reserve);
		pool_put(&pool, first);
		pool_put(&pool, reserve);
		pool_destroy(&pool);
		ck_assert_ptr_null(pool_get(&pool, too_much));
		ck_assert_int_eq(pool_reserve(&pool, too_much), ENOMEM);
		ck_assert_int_eq(pool_reserve(&pool, SIZE), 0);
	}
	pool_destroy(&pool);
}
END_TEST

static void *borrow(void *number)
{
	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *buffer = pool_get(&pool, SIZE);

		must(buffer);
		memset(buffer, (int)(intptr_t)number, SIZE);
		for (int k = 0; k < SIZE; k++)
			must(buffer[k] == (intptr_t)number);
		pool_put(&pool, buffer);
	}
	return NULL;
}

START_TEST(no_buffer_is_in_use_twice)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, borrow, (void *)(intptr_t)(i + 1)) == 0);
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(threads[i], NULL) == 0);
	pool_destroy(&pool);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pool");
	TCase *tests = tcase_create("pool");

	tcase_add_test(tests, the_thread_s_own_comes_back);
	tcase_add_test(tests, a_new_one_begins_with_zeros);
	tcase_add_test(tests, without_memory_threads_take_turns);
	tcase_add_test(tests, no_buffer_is_in_use_twice);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
