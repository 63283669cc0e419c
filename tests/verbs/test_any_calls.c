/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random lists of rdma_cm calls, in any state, by a few threads that connect to each other: each
 * call returns what the state of its id allows, each event is one that may come then, none is lost,
 * and nothing is left in the end. A thread gets its events itself, or has another one that waits
 * for them while it makes calls and destroys ids at any moment.
 *
 * The number of the iteration is the seed; URXE_TEST_SEEDS=FIRST-LAST in the environment runs
 * others than the ones that are run always. What the threads do follows from it, but for which of
 * them comes first.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/random.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/seeds.h"
#include "tests/verbs/any_worker.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/manager.h"
#include "tests/verbs/newer_manager.h"

#define SEED_PATIENCE 120 /* seconds, for one seed on a busy machine */

static struct worker *workers;

/* The worker's lines are those that led there; a hang is of any. */
static void hangs(int number)
{
	fprintf(stderr, "seed %lu hangs\n", (unsigned long)any_world.seed);
	for (unsigned int i = 0; i < WORKERS; i++)
		worker_print(&workers[i]);
	abort();
}

/* --- calls ------------------------------------------------------------------------------------ */

static int call_connect(struct worker *w, struct slot *slot)
{
	uint32_t token = 1 + w->number * STEPS + w->tokens;
	struct rdma_conn_param param = {.private_data = &token,
					.private_data_len = sizeof(token),
					.qp_num = 0x100 + token,
					.retry_count = 7};

	w->tokens++; /* also of one that fails by the peer's answer */
	return rdma_connect(slot->id, &param);
}

static int call_accept(struct worker *w, struct slot *slot)
{
	struct rdma_conn_param param = {.qp_num = 0x8000 + worker_random(w, 0x1000),
					.retry_count = 7};

	return rdma_accept(slot->id, &param);
}

static int call_listen(struct worker *w, struct slot *slot)
{
	int result = rdma_listen(slot->id, 0);

	if (result == 0)
		atomic_store(&worker_ports(&slot->model)[worker_random(w, PORTS)],
			     ntohs(rdma_get_src_port(slot->id)));
	return result;
}

/*
 * One that waits already. The queue pair of its id is made of what the listener was given, unless
 * the peer has given up; the listener has the event then.
 */
static int call_get_request(struct worker *w, struct slot *slot)
{
	struct rdma_cm_id *id;
	int result = rdma_get_request(slot->id, &id), error = errno;

	if (result == 0)
		worker_take_request(w, id, slot->model.requests_have_qp);
	else if (slot->model.requests_have_qp && slot->model.state == LISTENING)
		worker_take_request(w, slot->id, false);
	errno = error;
	return result;
}

/* To a channel of its own, and back from that. Others' threads tell it things meanwhile. */
static int migrate_there_and_back(struct worker *w, struct slot *slot)
{
	struct rdma_event_channel *shared = w->channels[0];

	return rdma_migrate_id(slot->id, w->synchronous ? shared : NULL) == 0
		       ? rdma_migrate_id(slot->id, w->synchronous ? NULL : shared)
		       : -1;
}

static int call_migrate(struct worker *w, struct slot *slot)
{
	worker_ack_held(w);
	if (w->waited_for || w->synchronous || worker_random(w, 4) == 0)
		return migrate_there_and_back(w, slot);
	return rdma_migrate_id(slot->id, w->channels[worker_random(w, CHANNELS)]);
}

static int call_destroy_qp(struct worker *w, struct slot *slot)
{
	if (slot->model.has_qp)
		rdma_destroy_qp(slot->id);
	return 0;
}

static struct sockaddr *group(struct worker *w)
{
	static const char *const addresses[GROUPS] = {"239.1.2.3", "239.1.2.4", "239.1.2.5"};

	return socket_address(addresses[w->number % GROUPS], 0);
}

/* What its waiter has got of the group's events is taken first: none comes behind it. */
static int call_leave(struct worker *w, struct slot *slot)
{
	int result;

	worker_ack_held(w);
	result = rdma_leave_multicast(slot->id, group(w));
	if (result == 0 && w->waited_for)
		worker_take_events(w);
	return result;
}

static int set_option(struct slot *slot, int name)
{
	int on = 1;

	return rdma_set_option(slot->id, RDMA_OPTION_ID, name, &on, sizeof(on));
}

/* One that says nothing but what the route is anyway. */
static int set_path(struct slot *slot)
{
	struct ibv_path_data path = {.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
					      IBV_PATH_FLAG_BIDIRECTIONAL};

	return rdma_set_option(slot->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path));
}

static int call_destroy_srq(struct slot *slot)
{
	if (slot->model.has_srq)
		srq_destroy(slot);
	return 0;
}

static int make(struct worker *w, struct slot *slot, enum model_call call)
{
	struct rdma_cm_id *id = slot->id;

	switch (call) {
	case CALL_BIND:
		return rdma_bind_addr(id, model_address(&slot->model, 0));
	case CALL_BIND_ANY:
		return rdma_bind_addr(id, model_any_address(&slot->model));
	case CALL_RESOLVE_ADDR:
		return rdma_resolve_addr(
			id, NULL, model_address(&slot->model, worker_any_port(w, &slot->model)),
			1000);
	case CALL_RESOLVE_ROUTE:
		return rdma_resolve_route(id, 1000);
	case CALL_CONNECT:
		return call_connect(w, slot);
	case CALL_LISTEN:
		return call_listen(w, slot);
	case CALL_ACCEPT:
		return call_accept(w, slot);
	case CALL_REJECT:
		return rdma_reject(id, NULL, 0);
	case CALL_ESTABLISH:
		return rdma_establish(id);
	case CALL_NOTIFY:
		return rdma_notify(id, IBV_EVENT_COMM_EST);
	case CALL_DISCONNECT:
		return rdma_disconnect(id);
	case CALL_CREATE_QP:
		return try_create_qp(id) ? 0 : -1;
	case CALL_DESTROY_QP:
		return call_destroy_qp(w, slot);
	case CALL_REUSE_ADDRESS:
		return set_option(slot, RDMA_OPTION_ID_REUSEADDR);
	case CALL_FAMILY_ONLY:
		return set_option(slot, RDMA_OPTION_ID_AFONLY);
	case CALL_JOIN:
		return rdma_join_multicast(id, group(w), w);
	case CALL_LEAVE:
		return call_leave(w, slot);
	case CALL_USER_EVENT:
		return newer_write_cm_event(id, NEWER_EVENT_USER, 0, 0);
	case CALL_GET_REQUEST:
		return call_get_request(w, slot);
	case CALL_SET_PATH:
		return set_path(slot);
	case CALL_CREATE_SRQ:
		return srq_create(w, slot);
	case CALL_DESTROY_SRQ:
		return call_destroy_srq(slot);
	default:
		return call_migrate(w, slot);
	}
}

/* Synchronous: it would wait for itself. */
static bool connects_to_itself(const struct worker *w, const struct slot *slot)
{
	const __be16 port = rdma_get_dst_port(slot->id);

	for (unsigned int i = 0; i < SLOTS; i++) {
		if (w->slots[i].id && w->slots[i].model.state == LISTENING &&
		    rdma_get_src_port(w->slots[i].id) == port)
			return true;
	}
	return false;
}

/*
 * A thread that gets events moves the QP: the application mustn't destroy it meanwhile. A step that
 * is done before its event was got may be followed by the next one, or not. And who rejects its own
 * request before the answer came tells the peer nothing that this could find its request by: it
 * retries its REP for a minute, with Linux as well.
 */
static bool is_allowed(const struct worker *w, const struct slot *slot, enum model_call call)
{
	const struct model *model = &slot->model;

	if (w->synchronous && call == CALL_CONNECT && connects_to_itself(w, slot))
		return false;
	if (call == CALL_GET_REQUEST && model->state == LISTENING && w->synchronous &&
	    !is_readable(slot->id->channel))
		return false;
	if ((w->waited_for && call == CALL_CREATE_QP) ||
	    (w->synchronous && call == CALL_USER_EVENT))
		return false;
	/* It waits for no event; and a queue pair uses the SRQ. */
	if ((w->synchronous && call == CALL_SET_PATH) ||
	    (call == CALL_DESTROY_SRQ && model->has_qp && model->space != SPACE_XRC))
		return false;
	return !(model->state == RESOLVING &&
		 (call == CALL_RESOLVE_ROUTE || call == CALL_SET_PATH)) &&
	       !(model->state == ROUTING && call == CALL_CONNECT) &&
	       !(model->state == CONNECTING && call == CALL_REJECT);
}

static void call(struct worker *w, struct slot *slot, enum model_call call)
{
	bool by_event;
	int error;

	if (!is_allowed(w, slot, call))
		return;
	worker_note(w, "%u: %s at %s%s", slot_number(w, slot), model_call_name(call),
		    model_state_name(slot->model.state), slot->model.has_qp ? ", QP" : "");
	error = make(w, slot, call) == 0 ? 0 : errno;
	worker_note(w, "%u: ... %s", slot_number(w, slot), error ? strerror(error) : "0");
	/* What failed by an event has worked as far as the state goes. */
	by_event = w->synchronous && slot->id->event;
	holds(w, model_take_result(&slot->model, call, by_event ? 0 : error), "id %u",
	      slot_number(w, slot));
	holds(w, !by_event || worker_take_synchronous(w, slot) == error, "another errno");
}

/* --- the threads ------------------------------------------------------------------------------ */

/* Ids that listen are for many connections, and others end where nothing more is tried. */
static bool is_to_be_destroyed(struct worker *w, const struct model *model)
{
	switch (model->state) {
	case LISTENING:
		return worker_random(w, 64) == 0;
	case FAILED:
	case DISCONNECTED:
	case SERVED:
	case LOOKED_UP:
		return worker_random(w, 3) == 0;
	default:
		return worker_random(w, 40) == 0;
	}
}

static void step(struct worker *w)
{
	struct slot *slot = &w->slots[worker_random(w, SLOTS)];

	if (!slot->id && worker_makes_endpoints(w))
		worker_create_endpoint(w, slot);
	else if (!slot->id)
		worker_create_id(w, slot);
	else if (is_to_be_destroyed(w, &slot->model))
		worker_destroy_id(w, slot);
	else if (!model_awaits(&slot->model) || worker_random(w, 4) == 0)
		call(w, slot, model_next_call(&slot->model, random_next(&w->random)));
	if (worker_random(w, 4) == 0)
		worker_await_events(w);
	else
		worker_take_events(w);
}

/* Brings an id to its end. Returns whether it is there. */
static bool finish(struct worker *w, struct slot *slot)
{
	switch (slot->model.state) {
	case REQUESTED:
		if (worker_random(w, 2))
			call(w, slot, CALL_ACCEPT);
		break;
	case RESPONDED:
		if (worker_random(w, 2))
			call(w, slot, CALL_ESTABLISH);
		break;
	case ESTABLISHED:
		call(w, slot, CALL_DISCONNECT);
		break;
	case DISCONNECTED:
		if (!slot->model.ends && worker_random(w, 16) == 0)
			call(w, slot, CALL_DISCONNECT);
		break;
	default:
		break;
	}
	if (model_awaits(&slot->model))
		return false;
	worker_destroy_id(w, slot);
	return true;
}

static void finish_all(struct worker *w)
{
	bool any;

	worker_note(w, "the end");
	do {
		any = false;
		for (unsigned int i = 0; i < SLOTS; i++)
			any |= w->slots[i].id && !finish(w, &w->slots[i]);
		worker_await_events(w);
		for (unsigned int i = 0; i < SLOTS; i++)
			any |= w->slots[i].id != NULL;
	} while (any);
	worker_ack_held(w);
}

static void *work(void *argument)
{
	struct worker *w = argument;

	worker_open(w);
	for (unsigned int i = 0; i < STEPS; i++)
		step(w);
	finish_all(w);
	worker_close(w);
	return NULL;
}

/* --- one seed ------------------------------------------------------------------------------- */

/* A socket for what is sent to one address: it is made when that is worth it. */
static bool is_of_destination(int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);

	return getpeername(fd, (struct sockaddr *)&address, &length) == 0;
}

static unsigned int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned int count = 0;

	ck_assert_ptr_nonnull(directory);
	while ((entry = readdir(directory)))
		count += !is_of_destination(atoi(entry->d_name));
	closedir(directory);
	return count;
}

static void run_seed(uint64_t number)
{
	any_world = (struct any_world){.seed = number, .has_ipv6 = any_world.has_ipv6};
	workers = calloc(WORKERS, sizeof(*workers));
	ck_assert_ptr_nonnull(workers);
	alarm(SEED_PATIENCE);
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct worker *w = &workers[i];

		w->number = i;
		w->random = number * WORKERS + i;
		w->synchronous = i == 4;
		w->waited_for = i % 2;
		pthread_mutex_init(&w->lock, NULL);
		ck_assert_int_eq(pthread_create(&w->thread, NULL, work, w), 0);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	alarm(0);
	free(workers);
}

/* What is kept from the first group on. */
static void join_once(void)
{
	struct rdma_event_channel *channel = open_channel();
	struct rdma_cm_id *id = open_bound_id(channel, RDMA_PS_UDP);

	ck_assert_int_eq(rdma_join_multicast(id, socket_address("239.1.2.3", 0), NULL), 0);
	expect(channel, id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	destroy(id);
	rdma_destroy_event_channel(channel);
}

START_TEST(any_calls)
{
	struct seeds seeds = {1, SANITIZED ? 6 : 12};
	const bool given = seeds_read(&seeds);
	unsigned int before;

	signal(SIGALRM, hangs);
	join_once();
	run_seed(0); /* what is opened once is open from now on */
	before = count_descriptors();
	for (int i = seeds.first; i <= seeds.last; i++) {
		run_seed(i);
		ck_assert_msg(count_descriptors() == before,
			      "seed %d: %u descriptors, %u before it", i, count_descriptors(),
			      before);
	}
	if (given)
		model_print_coverage();
}
END_TEST

static void environment(void)
{
	any_world.has_ipv6 = fixture_environment_both();
}

int main(void)
{
	Suite *suite = suite_create("any_calls");
	TCase *tests = tcase_create("any_calls");

	tcase_set_timeout(tests, 0);
	tcase_add_checked_fixture(tests, environment, NULL);
	tcase_add_test(tests, any_calls);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
