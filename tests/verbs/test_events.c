/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of rdma_cm that no exchange with a peer makes: those that the application writes itself.
 */
#include <string.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_manager.h"

static uint64_t argument_of(const struct rdma_cm_event *event)
{
	uint64_t argument;

	memcpy(&argument, &event->param, sizeof(argument));
	return argument;
}

/* In their order among the others, of any id in any state. */
START_TEST(written_events)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP),
			  *other = open_id(channel, RDMA_PS_UDP);
	struct rdma_cm_event *event;

	ck_assert_int_eq(newer_write_cm_event(id, NEWER_EVENT_USER, 0x11223344, 0x55667788aabbccdd),
			 0);
	ck_assert_int_eq(rdma_resolve_addr(id, NULL, socket_address(NULL, 1), 1000), 0);
	ck_assert_int_eq(newer_write_cm_event(other, NEWER_EVENT_USER, -5, 7), 0);
	event = next_event(channel, NEWER_EVENT_USER, 0x11223344);
	ck_assert_ptr_eq(event->id, id);
	ck_assert_ptr_null(event->listen_id);
	ck_assert_uint_eq(argument_of(event), 0x55667788aabbccdd);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	expect(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	event = next_event(channel, NEWER_EVENT_USER, -5);
	ck_assert_ptr_eq(event->id, other);
	ck_assert_uint_eq(argument_of(event), 7);
	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	ck_assert(!is_readable(channel));
	destroy(id);
	destroy(other);
	rdma_destroy_event_channel(channel);
}
END_TEST

START_TEST(written_events_refused)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);

	ck_fails(newer_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	ck_fails(newer_write_cm_event(id, NEWER_EVENT_INTERNAL, 0, 0), EINVAL);
	ck_assert(!is_readable(channel));
	/* Where to? */
	rdma_destroy_event_channel(channel);
	ck_fails(newer_write_cm_event(id, NEWER_EVENT_USER, 0, 0), EINVAL);
	destroy(id);
}
END_TEST

static void *wait_for_event(void *channel)
{
	struct rdma_cm_event *event = next_event(channel, NEWER_EVENT_USER, 0);
	uint64_t argument = argument_of(event);

	ck_assert_int_eq(rdma_ack_cm_event(event), 0);
	return (void *)(uintptr_t)argument;
}

/* What they are for: a thread that waits for the channel hears of another one. */
START_TEST(written_events_wake)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_event, channel), 0);
	ck_assert_int_eq(newer_write_cm_event(id, NEWER_EVENT_USER, 0, 42), 0);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	ck_assert_ptr_eq(result, (void *)42);
	destroy(id);
	rdma_destroy_event_channel(channel);
}
END_TEST

START_TEST(names)
{
	ck_assert_str_eq(rdma_event_str(NEWER_EVENT_USER), "RDMA_CM_EVENT_USER");
	ck_assert_str_eq(rdma_event_str(NEWER_EVENT_ADDRINFO_RESOLVED),
			 "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	ck_assert_str_eq(rdma_event_str(NEWER_EVENT_ADDRINFO_ERROR),
			 "RDMA_CM_EVENT_ADDRINFO_ERROR");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("events");
	TCase *tests = tcase_create("events");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, written_events);
	tcase_add_test(tests, written_events_refused);
	tcase_add_test(tests, written_events_wake);
	tcase_add_test(tests, names);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
