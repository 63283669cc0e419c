/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/verbs/causes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/verbs/fixture.h"

static const struct entry {
	enum cause cause;
	const char *name;
	enum { CAUSE_ERROR, CAUSE_NOTICE, CAUSE_MISUSE } kind;
	const char *title;
} catalogue[] = {
#define CAUSE(number, name, kind, title, ...) {CAUSE_##name, #name, CAUSE_##kind, title},
#include "net/cause/catalogue.def"
#undef CAUSE
};

#define ENTRIES (sizeof(catalogue) / sizeof(catalogue[0]))

static const struct cause_table *table;

static const struct entry *find_entry(enum cause cause)
{
	unsigned int i = 0;

	while (i < ENTRIES && catalogue[i].cause != cause)
		i++;
	ck_assert_uint_lt(i, ENTRIES);
	return &catalogue[i];
}

/* A line, not a paragraph, as what an application waits for is (cause_warn_text()). */
static bool is_line(const struct entry *entry)
{
	return entry->kind == CAUSE_NOTICE && entry->cause != CAUSE_CM_NO_PROCESS;
}

/* Where a report of @entry begins in @said, from where what was found is written; or NULL. */
static const char *find_report(const char *said, const struct entry *entry)
{
	char begins[256];

	snprintf(begins, sizeof(begins), "%s0x%04x %s%s", is_line(entry) ? " info: " : "] ",
		 entry->cause, entry->title, is_line(entry) ? ": " : "\n    ");
	said = strstr(said, begins);
	return said ? said + strlen(begins) : NULL;
}

/* Whether one of the reports of @entry has @wanted on the line with what was found. */
static bool says(const char *said, const struct entry *entry, const char *wanted)
{
	while ((said = find_report(said, entry))) {
		const char *found = strstr(said, wanted);

		if (found && found < said + strcspn(said, "\n"))
			return true;
	}
	return false;
}

static unsigned int count_reports(const char *said)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < ENTRIES; i++) {
		const struct entry *entry = &catalogue[i];

		if ((uint32_t)entry->cause < table->first || (uint32_t)entry->cause > table->last)
			continue;
		for (const char *at = said; (at = find_report(at, entry));)
			count++;
	}
	return count;
}

/* What @provoke has written to stderr, to be freed. */
static char *listen_to(void (*provoke)(void))
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	char *said;
	long length;

	ck_assert_ptr_nonnull(file);
	dup2(fileno(file), STDERR_FILENO);
	provoke();
	dup2(before, STDERR_FILENO);
	close(before);
	fseek(file, 0, SEEK_END);
	length = ftell(file);
	rewind(file);
	said = calloc(1, length + 1);
	ck_assert_ptr_nonnull(said);
	ck_assert_uint_eq(fread(said, 1, length, file), length);
	fclose(file);
	return said;
}

void wait_until_said(const char *text)
{
	static char said[65536];
	ssize_t length;

	do {
		usleep(1000);
		length = pread(STDERR_FILENO, said, sizeof(said) - 1, 0);
		ck_assert_int_ge(length, 0);
		said[length] = '\0';
	} while (!strstr(said, text));
}

START_TEST(cause_is_reported)
{
	const struct cause_row *row = &table->rows[_i];
	const struct entry *entry = find_entry(row->cause);
	char *said = listen_to(row->provoke);

	ck_assert_msg(says(said, entry, row->says), "0x%04x %s: not \"%s\" but:\n%s", entry->cause,
		      entry->name, row->says, said);
	ck_assert_msg(!row->never || !find_report(said, find_entry(row->never)),
		      "0x%04x %s: with 0x%04x:\n%s", entry->cause, entry->name, row->never, said);
	ck_assert_msg(!table->alone || count_reports(said) == 1,
		      "0x%04x %s: more than one report:\n%s", entry->cause, entry->name, said);
	free(said);
}
END_TEST

START_TEST(every_cause_has_a_row)
{
	for (unsigned int i = 0; i < ENTRIES; i++) {
		const struct entry *entry = &catalogue[i];
		bool has_row = false;

		if ((uint32_t)entry->cause < table->first || (uint32_t)entry->cause > table->last)
			continue;
		for (unsigned int row = 0; row < table->count; row++)
			has_row |= table->rows[row].cause == entry->cause;
		ck_assert_msg(has_row, "0x%04x %s: nothing provokes it", entry->cause, entry->name);
	}
}
END_TEST

Suite *causes_suite(const struct cause_table *wanted)
{
	Suite *suite = suite_create(wanted->name);
	TCase *tests = tcase_create("rows"), *complete = tcase_create("complete");

	table = wanted;
	fixture_environment();
	setenv("URXE_EXPLAIN", "1", 1);
	setenv("URXE_LOG", "info", 1); /* for notices */
	tcase_add_loop_test(tests, cause_is_reported, 0, wanted->count);
	suite_add_tcase(suite, tests);
	tcase_add_test(complete, every_cause_has_a_row);
	suite_add_tcase(suite, complete);
	return suite;
}
