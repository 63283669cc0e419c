/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that a fault refuses (urxe-faults(7)): each one that can be refused, by its row
 * (tests/verbs/refused.h). The second call fails with the errno that was asked for, in the way of
 * its interface, and the ones before and behind it are as ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/control.h"
#include "net/process.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/refused.h"

#define PATIENCE 120 /* seconds, reached by a defect alone */
#define ERRNO EXDEV  /* no call fails with it otherwise */

struct pair refused_pair;

/* What this process answers to `urxe ctl`. */
static const char *control(const char *question)
{
	static struct control_reply reply;

	ck_assert_int_eq(
		control_ask(getpid(), process_namespace("pid"), question, PATIENCE, &reply), 0);
	ck_assert_msg(reply.ok, "%s: %s", question, reply.text);
	return reply.text;
}

static int make(const struct refused_row *row)
{
	errno = 0;
	return row->make();
}

START_TEST(the_second_call_is_refused)
{
	const struct refused_row *row = &refused_verbs[_i];
	const char *name = fault_call_name(_i);
	char question[200];

	refused_verbs_setup();
	if (!row->make) {
		refused_manager_setup();
		row = &refused_manager[_i];
	}
	ck_assert_msg(row->make != NULL, "%s has no row", name);
	snprintf(question, sizeof(question), "faults fail(EXDEV)#2/%s", name);
	control(question);
	for (unsigned int i = 1; i <= 3; i++) {
		int result = make(row), expected = i == 2 ? ERRNO : row->usual;

		ck_assert_msg(result == expected, "%s: call %u: %s instead of %s", name, i,
			      strerror(result), strerror(expected));
	}
}
END_TEST

/* --- from the start ------------------------------------------------------------------------- */

START_TEST(the_first_call_of_a_process_can_be_refused)
{
	struct ibv_device **list;
	struct ibv_context *context;

	setenv("URXE_FAULTS", "fail(ENOSPC)#1;fail#3", 1);
	ck_fails_null(rdma_create_event_channel(), ENOSPC);
	ck_assert_ptr_nonnull(list = ibv_get_device_list(NULL));
	ck_assert_ptr_nonnull(context = ibv_open_device(list[0]));
	/* As the call usually fails. */
	ck_fails_null(ibv_alloc_pd(context), ENOMEM);
	ck_assert_int_eq(ibv_close_device(context), 0);
	ibv_free_device_list(list);
}
END_TEST

START_TEST(a_refused_call_is_a_notice)
{
	static struct said said;
	struct ibv_context *context;

	setenv("URXE_FAULTS", "fail(EMFILE)#1/ibv_alloc_pd", 1);
	setenv("URXE_LOG", "info", 1);
	context = fixture_open();
	said_begin(&said);
	ck_fails_null(ibv_alloc_pd(context), EMFILE);
	said_end(&said);
	ck_assert_uint_eq(said_count(&said, CAUSE_CALL_REFUSED_BY_FAULT), 1);
	ck_assert_ptr_nonnull(strstr(said.text, "ibv_alloc_pd() fails with EMFILE"));
	ck_assert_ptr_nonnull(strstr(said.text, "call 1 of fail(EMFILE)#1/ibv_alloc_pd"));
	fixture_close(context);
}
END_TEST

/* A connection is made in spite of messages that are lost, come twice or late. */
static const struct {
	const char *faults, *hits;
} lost[] = {
	{"drop#1/CM_REP@rx", "drop#1/CM_REP@rx: 1 of 2 packets"},
	{"delay(50ms)#1/CM_RTU;dup=100%/CM_RE@rx", "dup=100%/CM_RE@rx: 2 of 2 packets"},
};

START_TEST(messages_of_the_manager_can_be_lost)
{
	struct rdma_conn_param param = {.responder_resources = 1, .retry_count = 7};
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *client, *server;
	struct rdma_cm_event *event;
	const char *hits;
	uint16_t port;

	setenv("URXE_FAULTS", lost[_i].faults, 1);
	channel = open_channel();
	listener = open_id(channel, RDMA_PS_TCP);
	port = start_listening(listener, 0);
	client = open_id(channel, RDMA_PS_TCP);
	resolve(client, port);
	create_qp(client);
	ck_assert_int_eq(rdma_connect(client, &param), 0);
	event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	server = event->id;
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	create_qp(server);
	ck_assert_int_eq(rdma_accept(server, &param), 0);
	for (unsigned int i = 0; i < 2; i++) {
		event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
		ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	}
	hits = control("faults");
	ck_assert_msg(strstr(hits, lost[_i].hits) != NULL, "%s: %s", lost[_i].faults, hits);
	destroy(client);
	destroy(server);
	destroy(listener);
	rdma_destroy_event_channel(channel);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("refused");
	TCase *tests = tcase_create("refused");

	fixture_environment();
	tcase_set_timeout(tests, 2 * PATIENCE);
	tcase_add_loop_test(tests, the_second_call_is_refused, 0, FAULT_CALLS);
	tcase_add_test(tests, the_first_call_of_a_process_can_be_refused);
	tcase_add_test(tests, a_refused_call_is_a_notice);
	tcase_add_loop_test(tests, messages_of_the_manager_can_be_lost, 0,
			    sizeof(lost) / sizeof(*lost));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
