/* SPDX-License-Identifier: BSD-2-Clause */
/* Strings in what the checker appends to a file (URXE_CHECK=json): RFC 8259, 7. */
#include "verbs/check/report_file.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/run_suite.h"

static const struct {
	const char *text, *written;
} strings[] = {
	{"", "\"\""},
	{"objects.c:12 (leak_regions)", "\"objects.c:12 (leak_regions)\""},
	{"a \"name\" of C:\\", "\"a \\\"name\\\" of C:\\\\\""},
	{"\x01 \n \x1f", "\"\\u0001 \\u000a \\u001f\""},
	{"\u00e4 \u20ac", "\"\u00e4 \u20ac\""},
	{"\xff \xc3", "\"? ?\""}, /* no UTF-8 */
};

START_TEST(strings_of_json)
{
	char *written = NULL;
	size_t size;
	FILE *stream = open_memstream(&written, &size);

	ck_assert_ptr_nonnull(stream);
	json_write_string(stream, strings[_i].text);
	ck_assert_int_eq(fclose(stream), 0);
	ck_assert_str_eq(written, strings[_i].written);
	free(written);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("report_file");
	TCase *tests = tcase_create("report_file");

	tcase_add_loop_test(tests, strings_of_json, 0, sizeof(strings) / sizeof(strings[0]));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
