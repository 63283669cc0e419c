/* SPDX-License-Identifier: BSD-2-Clause */
/* Which bytes are a character of UTF-8: RFC 3629, section 4. */
#include "net/utf8.h"
#include "tests/run_suite.h"

static const struct {
	const char *text;
	size_t length;
} texts[] = {
	{"a", 1},
	{"\x7f", 1},
	{"\xc2\x80", 2},
	{"\xdf\xbf rest", 2},
	{"\xe0\xa0\x80", 3},
	{"\xed\x9f\xbf", 3},
	{"\xee\x80\x80", 3},
	{"\xf0\x90\x80\x80", 4},
	{"\xf4\x8f\xbf\xbf", 4},
	/* the rest of one */
	{"\x80", 0},
	{"\xbf", 0},
	/* cut off */
	{"\xe9", 0},
	{"\xe9t\xc3\xa9", 0},
	{"\xe2\x82", 0},
	{"\xf0\x90\x80", 0},
	/* longer than need be */
	{"\xc0\xaf", 0},
	{"\xc1\xbf", 0},
	{"\xe0\x9f\xbf", 0},
	{"\xf0\x8f\xbf\xbf", 0},
	/* half of a pair of UTF-16's */
	{"\xed\xa0\x80", 0},
	{"\xed\xbf\xbf", 0},
	/* beyond the last one */
	{"\xf4\x90\x80\x80", 0},
	{"\xf8\x88\x80\x80\x80", 0},
	{"\xff", 0},
};

START_TEST(length_of_the_first_character)
{
	ck_assert_uint_eq(utf8_length(texts[_i].text), texts[_i].length);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("utf8");
	TCase *tests = tcase_create("utf8");

	tcase_add_loop_test(tests, length_of_the_first_character, 0,
			    sizeof(texts) / sizeof(*texts));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
