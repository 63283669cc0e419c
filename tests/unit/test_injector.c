/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault/injector.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "net/fault/fault_rules.h"
#include "net/log.h"
#include "net/wire/mad.h"
#include "tests/run_suite.h"
#include "tests/said.h"

#define QPN 17

static struct injector injector;
static struct fault_hit hit;
static const int hca, other_hca; /* their addresses */

static void setup(void)
{
	injector_init(&injector);
}

static void finish(void)
{
	injector_destroy(&injector);
}

static void set(const char *specification)
{
	ck_assert_int_eq(injector_set(&injector, specification, NULL), 0);
	memset(&hit, 0xee, sizeof(hit));
}

/* Which of @count calls fail: "..x.". */
static const char *calls(enum fault_call call, unsigned int count)
{
	static char text[200];

	ck_assert_uint_lt(count, sizeof(text));
	for (unsigned int i = 0; i < count; i++)
		text[i] = injector_call(&injector, call, &hit) ? 'x' : '.';
	text[count] = '\0';
	return text;
}

START_TEST(nothing_happens_without_clauses)
{
	static struct injector *const none[] = {&injector, NULL};
	struct injector *asked = none[_i];

	set("drop=100%;seed=3");
	ck_assert_int_eq(injector_call(asked, FAULT_CALL_ibv_reg_mr, &hit), 0);
	ck_assert_int_eq(injector_complete(asked, IBV_WR_SEND, QPN, &hit), IBV_WC_SUCCESS);
	ck_assert_uint_eq(injector_late(asked, IBV_WR_SEND, QPN, &hit), 0);
	ck_assert(!injector_message(asked, &hca, IBV_WR_SEND, QPN));
	ck_assert(!injector_due(asked, &hca, UINT64_MAX - 1, &hit));
	ck_assert_uint_eq(injector_deadline(asked), TIME_NEVER);
	ck_assert_uint_eq(injector_cm(asked, CM_REQ, &hit), 0);
	ck_assert_uint_eq(injector_coalesce(asked, &hit), 0);
	ck_assert(!injector_spurious(asked, &hit));
}
END_TEST

START_TEST(calls_fail_when_the_clause_says)
{
	static const struct {
		const char *specification, *calls;
	} cases[] = {
		{"fail#3", "..x....."},
		{"fail#3+", "..xxxxxx"},
		{"fail#3*", "..x..x.."},
		{"fail=100%", "xxxxxxxx"},
		{"fail=0%", "........"},
		{"fail#2/ibv_reg_mr", ".x......"},
		{"fail#2/ibv_reg", ".x......"},
		{"fail#2/ibv_create_qp", "........"},
		{"fail#2/ibv_create_qp/ibv_reg_mr", ".x......"},
		{"fail#2;fail#2;fail#4", ".x.x...."},
	};

	set(cases[_i].specification);
	ck_assert_str_eq(calls(FAULT_CALL_ibv_reg_mr, 8), cases[_i].calls);
}
END_TEST

START_TEST(a_refused_call_has_its_errno)
{
	set("fail(EAGAIN)#1/ibv_post_send;fail(133)#1/ibv_reg;fail#1/ibv_create_qp;fail#2+");
	ck_assert_int_eq(injector_call(&injector, FAULT_CALL_ibv_post_send, &hit), EAGAIN);
	ck_assert_str_eq(hit.clause, "fail(EAGAIN)#1/ibv_post_send");
	ck_assert_uint_eq(hit.count, 1);
	ck_assert_int_eq(injector_call(&injector, FAULT_CALL_ibv_reg_mr, &hit), 133);
	ck_assert_int_eq(injector_call(&injector, FAULT_CALL_ibv_create_qp, &hit), ENOMEM);
	ck_assert_str_eq(hit.clause, "fail#1/ibv_create_qp");
	ck_assert_int_eq(injector_call(&injector, FAULT_CALL_ibv_destroy_qp, &hit), EBUSY);
	ck_assert_uint_eq(hit.count, 4);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_faults)
{
	char first[101];

	set("seed=5;fail=30%");
	strcpy(first, calls(FAULT_CALL_ibv_poll_cq, 100));
	ck_assert_ptr_nonnull(strchr(first, 'x'));
	ck_assert_ptr_nonnull(strchr(first, '.'));
	set("seed=5;fail=30%");
	ck_assert_str_eq(calls(FAULT_CALL_ibv_poll_cq, 100), first);
	/* What other clauses are asked changes nothing. */
	set("seed=5;fail=30%/ibv_poll_cq;fail=50%/ibv_post_send");
	calls(FAULT_CALL_ibv_post_send, 30);
	ck_assert_str_eq(calls(FAULT_CALL_ibv_poll_cq, 100), first);
	set("seed=6;fail=30%");
	ck_assert_str_ne(calls(FAULT_CALL_ibv_poll_cq, 100), first);
}
END_TEST

START_TEST(work_requests_complete_with_a_status)
{
	set("complete(RETRY_EXC_ERR)#2/RDMA_WRITE;complete(LOC_LEN_ERR)#1/RECV>18");
	ck_assert_int_eq(injector_complete(&injector, IBV_WR_RDMA_WRITE, QPN, &hit),
			 IBV_WC_SUCCESS);
	ck_assert_int_eq(injector_complete(&injector, IBV_WR_SEND, QPN, &hit), IBV_WC_SUCCESS);
	ck_assert_int_eq(injector_complete(&injector, IBV_WR_RDMA_WRITE_WITH_IMM, QPN, &hit),
			 IBV_WC_RETRY_EXC_ERR);
	ck_assert_int_eq(injector_complete(&injector, FAULT_WORK_RECV, QPN, &hit), IBV_WC_SUCCESS);
	ck_assert_int_eq(injector_complete(&injector, FAULT_WORK_RECV, 18, &hit),
			 IBV_WC_LOC_LEN_ERR);
	ck_assert_uint_eq(injector_late(&injector, FAULT_WORK_RECV, 18, &hit), 0);
}
END_TEST

START_TEST(completions_are_late)
{
	set("late(2ms)#1/SEND");
	ck_assert_uint_eq(injector_late(&injector, FAULT_WORK_RECV, QPN, &hit), 0);
	ck_assert_uint_eq(injector_late(&injector, IBV_WR_SEND, QPN, &hit), 2000000);
	ck_assert_uint_eq(injector_late(&injector, IBV_WR_SEND, QPN, &hit), 0);
}
END_TEST

START_TEST(events_come_in_time)
{
	set("event(PORT_ACTIVE)@2us;event(PORT_ERR)@1us;event(QP_FATAL)@1us>18");
	ck_assert_uint_eq(injector_deadline(&injector), 0);
	ck_assert(!injector_due(&injector, &hca, 5000, &hit));
	ck_assert_uint_eq(injector_deadline(&injector), 6000);
	ck_assert(!injector_due(&injector, &hca, 5999, &hit));
	ck_assert(injector_due(&injector, &hca, 6000, &hit));
	ck_assert_int_eq(hit.action, ACTION_EVENT);
	ck_assert_uint_eq(hit.argument, IBV_EVENT_PORT_ERR);
	ck_assert_uint_eq(hit.qpn, 0);
	ck_assert_uint_eq(hit.count, 0);
	ck_assert(injector_due(&injector, &hca, 6000, &hit));
	ck_assert_uint_eq(hit.argument, IBV_EVENT_QP_FATAL);
	ck_assert_uint_eq(hit.qpn, 18);
	ck_assert(!injector_due(&injector, &hca, 6000, &hit));
	ck_assert_uint_eq(injector_deadline(&injector), 7000);
	ck_assert(injector_due(&injector, &other_hca, 9000, &hit));
	ck_assert_uint_eq(hit.argument, IBV_EVENT_PORT_ACTIVE);
	ck_assert(!injector_due(&injector, &hca, 20000, &hit));
	ck_assert_uint_eq(injector_deadline(&injector), TIME_NEVER);
}
END_TEST

START_TEST(events_come_after_messages)
{
	set("event(SRQ_ERR)#2/RECV;down(1ms)#2*");
	ck_assert_uint_eq(injector_deadline(&injector), TIME_NEVER);
	ck_assert(!injector_message(&injector, &hca, FAULT_WORK_RECV, QPN));
	ck_assert(injector_message(&injector, &hca, FAULT_WORK_RECV, 18));
	ck_assert_uint_eq(injector_deadline(&injector), 0);
	ck_assert(!injector_due(&injector, &other_hca, 1000, &hit));
	ck_assert(injector_due(&injector, &hca, 1000, &hit));
	ck_assert_uint_eq(hit.argument, IBV_EVENT_SRQ_ERR);
	ck_assert_uint_eq(hit.qpn, 18);
	ck_assert_uint_eq(hit.count, 2);
	ck_assert(injector_due(&injector, &hca, 1000, &hit));
	ck_assert_int_eq(hit.action, ACTION_DOWN);
	ck_assert_uint_eq(hit.argument, 1000000);
	ck_assert(!injector_due(&injector, &hca, 1000, &hit));
	ck_assert_uint_eq(injector_deadline(&injector), TIME_NEVER);
	/* Two before it is asked: both. */
	for (unsigned int i = 0; i < 4; i++)
		injector_message(&injector, &hca, IBV_WR_SEND, QPN);
	ck_assert(injector_due(&injector, &hca, 1000, &hit));
	ck_assert(injector_due(&injector, &hca, 1000, &hit));
	ck_assert(!injector_due(&injector, &hca, 1000, &hit));
}
END_TEST

/* An HCA that is gone asks for nothing that is due to it, and no other one waits for that. */
START_TEST(what_is_due_to_an_hca_goes_with_it)
{
	set("event(QP_FATAL)#1");
	ck_assert(injector_message(&injector, &hca, IBV_WR_SEND, QPN));
	ck_assert_uint_eq(injector_deadline(&injector), 0);
	injector_forget(&injector, &other_hca);
	ck_assert_uint_eq(injector_deadline(&injector), 0);
	injector_forget(&injector, &hca);
	ck_assert_uint_eq(injector_deadline(&injector), TIME_NEVER);
	ck_assert(!injector_due(&injector, &hca, 1000, &hit));
}
END_TEST

/* Each event counts the steps that it is for. */
START_TEST(steps_of_a_connection_end_otherwise)
{
	struct fault_hit hit;

	set("connection(ADDR_ERROR)#2;connection(ROUTE_ERROR)#1");
	ck_assert(!injector_cm_event(&injector, FAULT_ADDR_ERROR, &hit));
	ck_assert(injector_cm_event(&injector, FAULT_ROUTE_ERROR, &hit));
	ck_assert(injector_cm_event(&injector, FAULT_ADDR_ERROR, &hit));
	ck_assert_str_eq(hit.clause, "connection(ADDR_ERROR)#2");
	ck_assert(!injector_cm_event(&injector, FAULT_UNREACHABLE, &hit));
}
END_TEST

START_TEST(requests_are_rejected)
{
	set("reject#1/CM_REP;reject(NO_RESOURCES)#2/CM_REQ;reject(33)#3/CM_REQ");
	ck_assert_uint_eq(injector_cm(&injector, CM_REQ, &hit), 0);
	ck_assert_uint_eq(injector_cm(&injector, CM_REP, &hit), CM_REJECT_CONSUMER);
	ck_assert_uint_eq(injector_cm(&injector, CM_REQ, &hit), CM_REJECT_NO_RESOURCES);
	ck_assert_uint_eq(injector_cm(&injector, CM_REQ, &hit), 33);
}
END_TEST

START_TEST(completion_events_are_coalesced_or_spurious)
{
	set("coalesce(4);spurious#2");
	for (unsigned int i = 1; i < 4; i++) {
		ck_assert_uint_eq(injector_coalesce(&injector, &hit), 4);
		ck_assert_int_eq(injector_spurious(&injector, &hit), i == 2);
	}
}
END_TEST

START_TEST(the_specification_can_be_replaced)
{
	struct fault_error error;
	struct fault_rules rules;
	uint32_t before, after;

	set("fail#2/ibv_reg_mr;event(PORT_ERR)@1us");
	ck_assert_int_eq(injector_read_rules(&injector, &rules, &before), 0);
	ck_assert(!rules.any[SENT] && !rules.any[RECEIVED]);
	fault_rules_destroy(&rules);
	ck_assert_str_eq(calls(FAULT_CALL_ibv_reg_mr, 3), ".x.");
	ck_assert_int_eq(injector_set(&injector, "fail#2;frail", &error), EINVAL);
	ck_assert_str_eq(error.place, "frail");
	ck_assert(injector_has(&injector, ACTION_FAIL));
	set("fail#2/ibv_reg_mr;drop#1");
	ck_assert_uint_eq(injector_deadline(&injector), TIME_NEVER);
	ck_assert_str_eq(calls(FAULT_CALL_ibv_reg_mr, 3), ".x.");
	ck_assert_int_eq(injector_read_rules(&injector, &rules, &after), 0);
	ck_assert(rules.any[SENT]);
	ck_assert_uint_ne(before, after);
	fault_rules_destroy(&rules);
	set("");
	ck_assert(!injector_has(&injector, ACTION_FAIL));
	ck_assert_str_eq(calls(FAULT_CALL_ibv_reg_mr, 3), "...");
}
END_TEST

static void show(void *context, const struct fault_clause *clause)
{
	char text[100], *observed = context;

	fault_clause_describe(clause, text, sizeof(text));
	strcat(strcat(observed, text), "\n");
}

START_TEST(clauses_say_how_often_they_hit)
{
	char observed[500] = "";

	set("drop#1;fail#2*/ibv_reg_mr;remove@1s;event(PORT_ERR)@0s;late(1s)#1");
	calls(FAULT_CALL_ibv_reg_mr, 5);
	ck_assert(injector_due(&injector, &hca, 5, &hit));
	injector_for_each(&injector, show, observed);
	ck_assert_str_eq(observed, "fail#2*/ibv_reg_mr: 2 of 5 calls\n"
				   "remove@1s: did not happen\n"
				   "event(PORT_ERR)@0s: happened\n"
				   "late(1s)#1: 0 of 0 work requests\n");
}
END_TEST

START_TEST(clauses_that_are_replaced_say_so_too)
{
	static struct said said;

	log_set_level(LOG_INFO);
	set("drop#1;fail#2*/ibv_reg_mr");
	calls(FAULT_CALL_ibv_reg_mr, 5);
	said_begin(&said);
	set("remove@1s");
	said_end(&said);
	ck_assert_ptr_nonnull(strstr(said.text, "fault fail#2*/ibv_reg_mr: 2 of 5 calls\n"));
	ck_assert_ptr_null(strstr(said.text, "drop"));
	ck_assert_ptr_null(strstr(said.text, "remove"));
}
END_TEST

/* --- Threads ------------------------------------------------------------------------------ */

#define THREADS 4
#define ROUNDS 5000

static void *asker(void *unused)
{
	uintptr_t hits = 0;
	struct fault_hit mine;

	for (unsigned int i = 0; i < ROUNDS; i++)
		hits += injector_call(&injector, FAULT_CALL_ibv_post_send, &mine) != 0;
	return (void *)hits;
}

START_TEST(threads_may_ask_at_once)
{
	pthread_t threads[THREADS];
	uintptr_t hits = 0;
	void *mine;

	set("fail#10*");
	for (unsigned int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, asker, NULL), 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &mine);
		hits += (uintptr_t)mine;
	}
	ck_assert_uint_eq(hits, THREADS * ROUNDS / 10);
}
END_TEST

START_TEST(it_may_be_replaced_while_threads_ask)
{
	pthread_t threads[THREADS];

	set("fail#1+");
	for (unsigned int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, asker, NULL), 0);
	for (unsigned int i = 0; i < 200; i++)
		set(i % 2 ? "fail=50%" : "");
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("injector");
	TCase *tests = tcase_create("injector");

	tcase_add_checked_fixture(tests, setup, finish);
	tcase_add_loop_test(tests, nothing_happens_without_clauses, 0, 2);
	tcase_add_loop_test(tests, calls_fail_when_the_clause_says, 0, 10);
	tcase_add_test(tests, a_refused_call_has_its_errno);
	tcase_add_test(tests, the_same_seed_gives_the_same_faults);
	tcase_add_test(tests, work_requests_complete_with_a_status);
	tcase_add_test(tests, completions_are_late);
	tcase_add_test(tests, events_come_in_time);
	tcase_add_test(tests, events_come_after_messages);
	tcase_add_test(tests, what_is_due_to_an_hca_goes_with_it);
	tcase_add_test(tests, steps_of_a_connection_end_otherwise);
	tcase_add_test(tests, requests_are_rejected);
	tcase_add_test(tests, completion_events_are_coalesced_or_spurious);
	tcase_add_test(tests, the_specification_can_be_replaced);
	tcase_add_test(tests, clauses_say_how_often_they_hit);
	tcase_add_test(tests, clauses_that_are_replaced_say_so_too);
	tcase_add_test(tests, threads_may_ask_at_once);
	tcase_add_test(tests, it_may_be_replaced_while_threads_ask);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
