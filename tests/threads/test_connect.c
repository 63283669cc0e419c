/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections made, ended and destroyed by many threads at once, with events
 * delivered by whichever thread makes progress. What is destroyed is freed, so
 * that ASan sees a thread that still uses it.
 */
#include <check.h>
#include <sched.h>
#include <string.h>

#include "net/clock.h"
#include "net/random.h"
#include "node.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"

#define CLIENTS 4
#define REAPERS 2
#define ROUNDS (HAS_TSAN ? 1000 : 5000)
#define SERVICE 0x01067000
#define IDS_MAX (CLIENTS * ROUNDS * 2)

/* The client's side of one connection; its id's context. */
struct call {
	_Atomic bool destroyed, answered, over;
};

struct connecting {
	struct progress *progress;
	struct node client, server;
	struct cm_id *listener;
	_Atomic unsigned int established, disconnected;

	/* The server's ids, for its reapers. */
	pthread_mutex_t lock;
	struct cm_id *ids[IDS_MAX];
	unsigned int made, reaped;
	_Atomic bool over;
};

static struct connecting test;

static void on_client(struct node *node, struct cm_event *event)
{
	struct call *call = event->id->context;

	must(call && !atomic_load(&call->destroyed));
	switch (event->type) {
	case CM_EVENT_REP_RECEIVED:
		if (cm_send_rtu(event->id, clock_now()) == 0)
			atomic_fetch_add(&test.established, 1);
		atomic_store(&call->answered, true);
		break;
	case CM_EVENT_REJ_RECEIVED:
		atomic_store(&call->answered, true);
		atomic_store(&call->over, true);
		break;
	case CM_EVENT_DREQ_RECEIVED:
		cm_send_drep(event->id, clock_now());
		atomic_store(&call->over, true);
		break;
	case CM_EVENT_DREP_RECEIVED:
		atomic_store(&call->over, true);
		break;
	default:
		break;
	}
}

/* Every fifth request is destroyed at once, in its own event, and every fifth rejected. */
static void on_request(struct cm_event *event)
{
	const struct cm_reply reply = {.qpn = 1 + test.made};

	switch (test.made % 5) {
	case 0:
		cm_queue_destroy_id(&test.server.cm_queue, event->id, clock_now());
		test.ids[test.made++] = NULL;
		return;
	case 1:
		/* The client may have gone already. */
		cm_send_rej(event->id, CM_REJECT_CONSUMER, NULL, 0, clock_now());
		break;
	default:
		cm_send_rep(event->id, &reply, clock_now());
	}
	test.ids[test.made++] = event->id;
}

static void on_server(struct node *node, struct cm_event *event)
{
	if (event->type == CM_EVENT_REQ_RECEIVED) {
		must(event->listener == test.listener && event->listener_context == &test);
		pthread_mutex_lock(&test.lock);
		must(test.made < IDS_MAX);
		on_request(event);
		pthread_mutex_unlock(&test.lock);
	} else if (event->type == CM_EVENT_DREQ_RECEIVED) {
		cm_send_drep(event->id, clock_now());
		atomic_fetch_add(&test.disconnected, 1);
	}
}

/* --- threads ----------------------------------------------------------------------------- */

static void wait_for(const _Atomic bool *flag)
{
	while (!atomic_load(flag)) {
		if (!progress_poll(test.client.client, clock_now(), NULL))
			sched_yield();
	}
}

static void make_call(uint64_t *random)
{
	const struct cm_request request = {
		.path = {.source = test.client.gids.entries[0].gid,
			 .destination = test.server.gids.entries[0].gid,
			 .hop_limit = 64},
		.service_id = SERVICE,
		.qp_type = IBV_QPT_RC,
		.mtu = IBV_MTU_1024,
		/* What is refused here and there is sent again soon. */
		.packet_life_time = 1,
	};
	struct call *call = calloc(1, sizeof(*call));
	unsigned int kind = random_below(random, 4);
	struct cm_id *id;

	must(call && cm_id_create(test.client.hca->cm, call, &id) == 0);
	must(cm_send_req(id, &request, clock_now()) == 0);
	if (kind > 0)
		wait_for(&call->answered);
	if (kind > 1 && cm_send_dreq(id, clock_now()) == 0 && kind > 2)
		wait_for(&call->over);
	cm_queue_destroy_id(&test.client.cm_queue, id, clock_now());
	atomic_store(&call->destroyed, true);
	free(call);
}

static void *call_all(void *argument)
{
	uint64_t random = (uintptr_t)argument;

	for (unsigned int i = 0; i < ROUNDS; i++)
		make_call(&random);
	return NULL;
}

/* The next of the server's ids that a reaper may have; NULL: none now. */
static struct cm_id *next_id(void)
{
	struct cm_id *id = NULL;

	pthread_mutex_lock(&test.lock);
	/* Some stay for a while. */
	while (!id && test.reaped + (test.over ? 0 : 16) < test.made)
		id = test.ids[test.reaped++];
	pthread_mutex_unlock(&test.lock);
	return id;
}

static void *reap_all(void *argument)
{
	bool over;

	do {
		struct cm_id *id;

		over = atomic_load(&test.over);
		while ((id = next_id())) {
			cm_notify(id);
			cm_id_state(id);
			cm_queue_destroy_id(&test.server.cm_queue, id, clock_now());
		}
		sched_yield();
	} while (!over);
	return NULL;
}

START_TEST(test_many_threads)
{
	const struct cm_listen listen = {.service_id = SERVICE, .ipv4 = true};
	pthread_t clients[CLIENTS], reapers[REAPERS];

	pthread_mutex_init(&test.lock, NULL);
	must(progress_create(&test.progress) == 0);
	node_create(&test.client, test.progress, 0, NULL);
	node_create(&test.server, test.progress, 1, NULL);
	test.client.connection = on_client;
	test.server.connection = on_server;
	must(cm_id_create(test.server.hca->cm, &test, &test.listener) == 0);
	must(cm_id_listen(test.listener, &listen) == 0);

	for (uintptr_t i = 0; i < REAPERS; i++)
		must(pthread_create(&reapers[i], NULL, reap_all, NULL) == 0);
	for (uintptr_t i = 0; i < CLIENTS; i++)
		must(pthread_create(&clients[i], NULL, call_all, (void *)(i + 1)) == 0);
	for (unsigned int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	/* Then no more requests are made into ids. */
	cm_queue_destroy_id(&test.server.cm_queue, test.listener, clock_now());
	atomic_store(&test.over, true);
	for (unsigned int i = 0; i < REAPERS; i++)
		pthread_join(reapers[i], NULL);
	must(test.reaped == test.made);
	must(atomic_load(&test.established) > 0);
	must(atomic_load(&test.disconnected) > 0);

	node_destroy(&test.client);
	node_destroy(&test.server);
	progress_destroy(test.progress);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("connect");
	TCase *tcase = tcase_create("connect");

	tcase_set_timeout(tcase, 500);
	tcase_add_test(tcase, test_many_threads);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
