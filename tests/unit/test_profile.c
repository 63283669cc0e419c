/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of a profile's file: how they are read, and which are too much for the core. */
#include "verbs/profile.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/run_suite.h"

static bool read_text(struct profile *profile, const char *text, char **error)
{
	FILE *file = tmpfile();
	char path[64];
	bool good;

	ck_assert_ptr_nonnull(file);
	ck_assert(fputs(text, file) >= 0 && fflush(file) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(file));
	good = profile_read(profile, path, error);
	fclose(file);
	return good;
}

static uint64_t number(const struct profile *profile, const char *name)
{
	const struct profile_key *key = profile_keys;

	while (strcmp(key->name, name) != 0)
		key++;
	return profile_number(profile, key);
}

static const struct {
	const char *text, *key;
	uint64_t value;
	const char *lowered; /* or NULL */
} rows[] = {
	{"ack_timeout_factor = 7\n", "ack_timeout_factor", 700, NULL},
	{"ack_timeout_factor = 1.5\n", "ack_timeout_factor", 150, NULL},
	{"ack_timeout_factor = 1.75\n", "ack_timeout_factor", 175, NULL},
	{"ack_timeout_factor = 0.05\n", "ack_timeout_factor", 5, NULL},
	{"max_qp_rd_atom = 128\n", "max_qp_rd_atom", 128, NULL},
	{"max_qp_rd_atom = 129\n", "max_qp_rd_atom", 128, "max_qp_rd_atom: 129 -> 128"},
	{"max_qp_rd_atom = 0x81\nmax_mw = 16777216\n", "max_mw", 16777215,
	 "max_qp_rd_atom: 129 -> 128, max_mw: 16777216 -> 16777215"},
	{"qp_types = 0x8000000c\n", "qp_types", 0xc, "qp_types: 0x8000000c -> 0xc"},
	{"description = a card\n", "description", 0, NULL},
};

START_TEST(values)
{
	struct profile profile = {};
	char *error = NULL;

	ck_assert_msg(read_text(&profile, rows[_i].text, &error), "%s", error);
	ck_assert_uint_eq(number(&profile, rows[_i].key), rows[_i].value);
	ck_assert_pstr_eq(profile.lowered, rows[_i].lowered);
	profile_destroy(&profile);
	ck_assert_ptr_null(profile.lowered);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("profile");
	TCase *tests = tcase_create("profile");

	tcase_add_loop_test(tests, values, 0, sizeof(rows) / sizeof(rows[0]));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
