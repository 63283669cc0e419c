/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm's part of the library under many threads: clients that connect,
 * are refused and give up at any point, on one channel or synchronously, while
 * a server answers. Worth most under TSan and ASan.
 */
#include <stdatomic.h>

#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"

#define PORT 7473
#define CLIENTS 6
#define ROUNDS 40

static struct rdma_cm_id *listener;
static _Atomic bool stopping;

/* --- the server ------------------------------------------------------------------ */

static void answer(struct rdma_cm_id *id, unsigned int number)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	if (number % 5 == 0) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
	} else if (number % 7 == 0) {
		rdma_destroy_id(id); /* which refuses, too */
	} else if (!try_create_qp(id)) {
		rdma_destroy_id(id); /* the client has given up already */
	} else {
		rdma_accept(id, &param);
	}
}

static void end(struct rdma_cm_id *id)
{
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void *serve(void *channel)
{
	struct rdma_cm_event *event;
	unsigned int requests = 0;

	while (rdma_get_cm_event(channel, &event) == 0) {
		enum rdma_cm_event_type type = event->event;
		struct rdma_cm_id *id = event->id;

		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST && atomic_load(&stopping)) {
			rdma_destroy_id(id);
			break;
		}
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			answer(id, requests++);
		else if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED)
			end(id);
	}
	return NULL;
}

/* --- clients --------------------------------------------------------------------- */

/* Gives up after @steps of the way. */
static void go(struct rdma_cm_id *id, unsigned int steps)
{
	if (steps == 0 || rdma_resolve_addr(id, NULL, socket_address(NULL, PORT), 1000) != 0)
		return;
	if (steps == 1 || rdma_resolve_route(id, 1000) != 0)
		return;
	create_qp(id);
	if (steps == 2 || rdma_connect(id, NULL) != 0 || steps == 3)
		return;
	rdma_disconnect(id);
}

static void *connect_synchronously(void *argument)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id = open_id(NULL, RDMA_PS_TCP);

		go(id, i % 6);
		destroy(id);
	}
	return NULL;
}

/* Takes the events as they come, of which there may be fewer each time. */
static void *connect_by_events(void *argument)
{
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct rdma_event_channel *channel = open_channel(), *other = open_channel();
		struct rdma_cm_id *id = open_id(channel, RDMA_PS_TCP);
		struct rdma_cm_event *event;

		go(id, 3);
		if (i % 2)
			ck_assert_int_eq(rdma_migrate_id(id, other), 0);
		for (unsigned int taken = 0; taken < i % 4; taken++) {
			if (rdma_get_cm_event(id->channel, &event) == 0)
				rdma_ack_cm_event(event);
		}
		destroy(id);
		rdma_destroy_event_channel(channel);
		rdma_destroy_event_channel(other);
	}
	return NULL;
}

START_TEST(connections)
{
	struct rdma_event_channel *channel = open_channel();
	pthread_t server, clients[CLIENTS];
	struct rdma_cm_id *last;

	listener = open_id(channel, RDMA_PS_TCP);
	start_listening(listener, PORT);
	ck_assert_int_eq(pthread_create(&server, NULL, serve, channel), 0);
	for (int i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(pthread_create(&clients[i], NULL,
						i % 2 ? connect_by_events : connect_synchronously,
						NULL),
				 0);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	/* The server waits for events; the request of a last client ends it. */
	atomic_store(&stopping, true);
	last = open_id(NULL, RDMA_PS_TCP);
	go(last, 4);
	pthread_join(server, NULL);
	destroy(last);
	ck_assert_int_eq(rdma_destroy_id(listener), 0);
	/* Not how it is done, with ids that the server hasn't come to: but nothing bad happens. */
	rdma_destroy_event_channel(channel);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("manager");
	TCase *tests = tcase_create("manager");

	fixture_environment();
	tcase_set_timeout(tests, 300);
	tcase_add_test(tests, connections);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
