/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalogue of causes, and when what is written (net/cause). */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/cause/cause.h"
#include "net/cm_text.h"
#include "net/log.h"
#include "net/qp_text.h"
#include "tests/run_suite.h"

static char said[8192];

/* What @report writes to stderr, into said. */
static void listen_to(void (*report)(void))
{
	FILE *file = tmpfile();
	int before = dup(STDERR_FILENO);
	size_t length;

	ck_assert_ptr_nonnull(file);
	dup2(fileno(file), STDERR_FILENO);
	report();
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(file);
	length = fread(said, 1, sizeof(said) - 1, file);
	said[length] = '\0';
	fclose(file);
}

static void an_error(void)
{
	errno = ENOENT;
	ck_assert_int_eq(refuse(EINVAL, CAUSE_PATH_NOT_GLOBAL, "found %d", 42), EINVAL);
	ck_assert_int_eq(errno, ENOENT);
}

static void an_error_of_no_call(void)
{
	cause_report(CAUSE_LOCAL_KEY_UNKNOWN, "found %d", 42);
}

static void a_notice(void)
{
	cause_report(CAUSE_COMM_EST, "QP %d", 42);
}

START_TEST(entries_are_whole_and_in_order)
{
	const struct cause_entry *entry;
	uint32_t last = 0;

	for (unsigned int i = 0; (entry = cause_at(i)); i++) {
		ck_assert_msg((uint32_t)entry->cause > last, "0x%x", entry->cause);
		last = entry->cause;
		ck_assert_ptr_eq(cause_find(entry->cause), entry);
		ck_assert(*entry->title && *entry->shows && *entry->meaning && *entry->reasons &&
			  *entry->advice);
		ck_assert_msg(strlen(entry->meaning) < 480, "0x%x: a paragraph", entry->cause);
		ck_assert(!strchr(entry->title, '\n') && !strchr(entry->meaning, '\n'));
	}
	ck_assert_uint_gt(last, 0x5000);
	ck_assert_ptr_null(cause_find(0x1000));
}
END_TEST

START_TEST(first_error_alone_is_a_warning)
{
	listen_to(an_error);
	ck_assert_ptr_nonnull(strstr(said, " warn: 0x4001 "));
	ck_assert_ptr_nonnull(strstr(said, "found 42 (the first error; URXE_EXPLAIN=1"));
	ck_assert(!cause_wanted(CAUSE_PATH_NOT_GLOBAL));
	listen_to(an_error);
	ck_assert_str_eq(said, "");
	log_set_level(LOG_INFO);
	listen_to(an_error);
	ck_assert_ptr_nonnull(strstr(said, " info: 0x4001 "));
}
END_TEST

START_TEST(notices_are_information)
{
	listen_to(a_notice);
	ck_assert_str_eq(said, "");
	cause_configure(true);
	listen_to(a_notice);
	ck_assert_str_eq(said, "");
	log_set_level(LOG_INFO);
	listen_to(a_notice);
	ck_assert_ptr_nonnull(strstr(said, " info: 0x3001 "));
}
END_TEST

static void a_warning(void)
{
	char found[] = "found 42" CAUSE_LINE "and 43";

	errno = ENOENT;
	cause_warn_text(CAUSE_PEER_NOT_READING, found);
	ck_assert_int_eq(errno, ENOENT);
}

START_TEST(warnings_are_told_each_time)
{
	for (int i = 0; i < 2; i++) {
		listen_to(a_warning);
		ck_assert_ptr_nonnull(strstr(said, " warn: 0x"));
		ck_assert_ptr_nonnull(strstr(said, ": found 42; and 43\n"));
	}
	cause_configure(true);
	listen_to(a_warning);
	ck_assert_ptr_nonnull(strstr(said, "\n    found 42\n    and 43\n"));
}
END_TEST

START_TEST(paragraphs_have_an_end)
{
	cause_configure(true);
	listen_to(an_error);
	ck_assert_ptr_nonnull(strstr(said, "0x4001 "));
	ck_assert_ptr_nonnull(strstr(said, "\n    found 42\n    "));
	ck_assert_ptr_nonnull(strstr(said, "(urxe explain 0x4001)"));
	ck_assert_ptr_null(strstr(said, "not shown again"));
	for (int i = 0; i < 100 && !strstr(said, "not shown again"); i++)
		listen_to(an_error);
	ck_assert_ptr_nonnull(strstr(said, "not shown again"));
	ck_assert(!cause_wanted(CAUSE_PATH_NOT_GLOBAL));
	listen_to(an_error);
	ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(refused_calls_have_a_place)
{
	cause_configure(true);
	listen_to(an_error);
	ck_assert_ptr_nonnull(strstr(said, "found 42\n    called at "));
	listen_to(an_error_of_no_call);
	ck_assert_ptr_nonnull(strstr(said, "found 42\n"));
	ck_assert_ptr_null(strstr(said, "called at"));
}
END_TEST

START_TEST(findings_have_a_text_where_it_is_wanted)
{
	struct finding finding = {};

	finding_set(&finding, CAUSE_PATH_NOT_GLOBAL, "%s", "this");
	ck_assert_int_eq(finding.cause, CAUSE_PATH_NOT_GLOBAL);
	ck_assert_str_eq(finding.text, "this");
	finding_set(&finding, CAUSE_PATH_NOT_GLOBAL, " and %s", "that");
	ck_assert_str_eq(finding.text, "this and that");
	finding_set(&finding, CAUSE_COMM_EST, "%s", "that");
	ck_assert_int_eq(finding.cause, CAUSE_COMM_EST);
	ck_assert_str_eq(finding.text, "");
}
END_TEST

/* Also of numbers that another process has written. */
START_TEST(numbers_have_words)
{
	char text[CM_SERVICE_TEXT];

	ck_assert_str_eq(qp_state_text(IBV_QPS_SQD), "SQD");
	ck_assert_str_eq(qp_state_text(7), "unknown");
	ck_assert_str_eq(qp_type_text(IBV_QPT_XRC_RECV), "XRC_RECV");
	ck_assert_str_eq(qp_type_text(0), "unknown");
	ck_assert_str_eq(qp_type_text(UINT32_MAX), "unknown");
	ck_assert_str_eq(cm_state_text(CM_STATE_SIDR_REQ_RECEIVED), "SIDR_REQ_RECEIVED");
	ck_assert_str_eq(cm_state_text(CM_STATE_COUNT), "unknown");
	ck_assert_str_eq(cm_service_text(0x01061d2f, text), "port 7471 (TCP)");
	ck_assert_str_eq(cm_service_text(0x00021d2f, text), "port 7471 (IPOIB)");
	ck_assert_str_eq(cm_service_text(0x1001061d2f, text), "service 0x1001061d2f");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cause");
	TCase *tests = tcase_create("cause");

	tcase_add_test(tests, entries_are_whole_and_in_order);
	tcase_add_test(tests, first_error_alone_is_a_warning);
	tcase_add_test(tests, notices_are_information);
	tcase_add_test(tests, warnings_are_told_each_time);
	tcase_add_test(tests, paragraphs_have_an_end);
	tcase_add_test(tests, refused_calls_have_a_place);
	tcase_add_test(tests, findings_have_a_text_where_it_is_wanted);
	tcase_add_test(tests, numbers_have_words);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
