/* SPDX-License-Identifier: BSD-2-Clause */
/* Where objects and calls are made (net/cause/origin). */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/cause/cause.h"
#include "net/cause/origin.h"
#include "tests/must.h"
#include "tests/run_suite.h"

#define NO_INLINE __attribute__((noinline))
/* A call is a function's last one, but its frame stays. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

extern struct origin *capture_without_lines(void);

static bool has_no_libdw;

/* In front of libc's: what net/library loads. */
void *dlopen(const char *file, int mode)
{
	static void *(*real)(const char *, int);

	if (!real)
		real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	return has_no_libdw && file && strstr(file, "libdw") ? NULL : real(file, mode);
}

struct made {
	struct origin *origin;
	int line;	  /* of the capture */
	int line_of_call; /* of the one that led there */
};

static NO_INLINE void capture_here(struct made *made)
{
	made->line = __LINE__ + 1;
	made->origin = origin_capture();
	NO_TAIL_CALL();
}

static NO_INLINE void call_capture(struct made *made)
{
	made->line_of_call = __LINE__ + 1;
	capture_here(made);
	NO_TAIL_CALL();
}

static NO_INLINE void call_without_lines(struct made *made)
{
	made->line_of_call = __LINE__ + 1;
	made->origin = capture_without_lines();
	NO_TAIL_CALL();
}

static void expect(struct made *made, const char *format, ...)
{
	char text[ORIGIN_TEXT], expected[ORIGIN_TEXT];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(expected, sizeof(expected), format, arguments);
	va_end(arguments);
	must(made->origin);
	must(origin_describe(made->origin, text, sizeof(text)));
	must_msg(strcmp(text, expected) == 0, "%s instead of %s", text, expected);
	origin_free(made->origin);
}

START_TEST(nothing_is_kept_without_explanations)
{
	struct made made;
	char text[ORIGIN_TEXT];

	call_capture(&made);
	ck_assert_ptr_null(made.origin);
	ck_assert(!origin_describe(NULL, text, sizeof(text)));
	ck_assert_str_eq(text, "");
	ck_assert_str_eq(origin_phrase(NULL, ", made at ", text), "");
	origin_free(NULL);
}
END_TEST

START_TEST(it_is_a_line_of_the_source)
{
	struct made made;

	cause_configure(true);
	call_capture(&made);
	expect(&made, "test_origin.c:%d (capture_here)", made.line);
}
END_TEST

START_TEST(phrases_begin_as_asked)
{
	char text[ORIGIN_TEXT], expected[ORIGIN_TEXT];
	struct made made;

	cause_configure(true);
	capture_here(&made);
	snprintf(expected, sizeof(expected), ", made at test_origin.c:%d (capture_here)",
		 made.line);
	ck_assert_str_eq(origin_phrase(made.origin, ", made at ", text), expected);
	ck_assert(origin_describe(made.origin, text, 10));
	ck_assert_str_eq(text, "test_orig");
	origin_free(made.origin);
}
END_TEST

START_TEST(where_there_is_no_line_the_caller_has_one)
{
	struct made made;

	cause_configure(true);
	call_without_lines(&made);
	expect(&made,
	       "capture_without_lines (test_origin), from test_origin.c:%d (call_without_lines)",
	       made.line_of_call);
}
END_TEST

/* What addr2line(1) wants: an offset in the file, of an instruction of that function. */
START_TEST(without_libdw_it_is_an_address)
{
	char text[ORIGIN_TEXT], *end;
	struct made made;
	uintptr_t offset, begin;
	Dl_info program;

	has_no_libdw = true;
	cause_configure(true);
	call_capture(&made);
	ck_assert(origin_describe(made.origin, text, sizeof(text)));
	origin_free(made.origin);
	ck_assert_msg(strncmp(text, "test_origin+0x", 14) == 0, "%s", text);
	offset = strtoul(text + 12, &end, 16);
	ck_assert_str_eq(end, "");
	ck_assert(dladdr((void *)capture_here, &program));
	begin = (uintptr_t)capture_here - (uintptr_t)program.dli_fbase;
	ck_assert_msg(offset > begin && offset < begin + 256, "%s", text);
}
END_TEST

struct told {
	struct made made;
	unsigned int count;
};

static bool tell(void *argument, const char *text)
{
	struct told *told = argument;
	char expected[ORIGIN_TEXT];

	if (told->count < 2) {
		snprintf(expected, sizeof(expected), "test_origin.c:%d (%s)",
			 told->count ? told->made.line_of_call : told->made.line,
			 told->count ? "call_capture" : "capture_here");
		ck_assert_str_eq(text, expected);
	}
	return ++told->count < 3;
}

START_TEST(all_callers_can_be_told)
{
	struct told told = {0};

	cause_configure(true);
	call_capture(&told.made);
	origin_describe_all(told.made.origin, tell, &told);
	ck_assert_uint_eq(told.count, 3);
	origin_free(told.made.origin);
}
END_TEST

#define THREADS 4

static void *describe_often(void *unused)
{
	for (int i = 0; i < 3; i++) {
		struct made made;

		call_capture(&made);
		expect(&made, "test_origin.c:%d (capture_here)", made.line);
	}
	return NULL;
}

START_TEST(threads_describe_at_once)
{
	pthread_t threads[THREADS];

	cause_configure(true);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, describe_often, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(a_forked_child_describes_what_its_parent_made)
{
	struct made made;
	int status;
	pid_t child;

	cause_configure(true);
	call_capture(&made);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		expect(&made, "test_origin.c:%d (capture_here)", made.line);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	origin_free(made.origin);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("origin");
	TCase *tests = tcase_create("origin");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, nothing_is_kept_without_explanations);
	tcase_add_test(tests, it_is_a_line_of_the_source);
	tcase_add_test(tests, phrases_begin_as_asked);
	tcase_add_test(tests, where_there_is_no_line_the_caller_has_one);
	tcase_add_test(tests, without_libdw_it_is_an_address);
	tcase_add_test(tests, all_callers_can_be_told);
	tcase_add_test(tests, threads_describe_at_once);
	tcase_add_test(tests, a_forked_child_describes_what_its_parent_made);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
