/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads and forks above the public ABI: this is linked with liburxe as an
 * application would be. Threads that sleep in ibv_get_cq_event(), events that
 * are acknowledged late, devices that are opened and closed by several threads,
 * children that are forked under traffic.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_address.h"
#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"

#define DEPTH 16

/* The third is for children. */
static const char *const device_names[] = {"one", "two", "three"};

/* Devices of this very process, one with two addresses; before anything lists them. */
static void make_environment(void)
{
	char addresses[4][OWN_ADDRESS_LENGTH], devices[128];

	for (unsigned int i = 0; i < 4; i++)
		own_address(addresses[i], i);
	snprintf(devices, sizeof(devices), "one=%s;two=%s,%s;three=%s", addresses[0], addresses[1],
		 addresses[2], addresses[3]);
	setenv("URXE_DEVICES", devices, 1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	must(list);
	for (unsigned int i = 0; list[i] && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

/* --- endpoints -------------------------------------------------------------------------- */

struct endpoint {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t memory[2]; /* received, sent */
	unsigned int sent, received, unacknowledged;
	bool begins;
	pthread_t thread;
};

static void post_receive(struct endpoint *endpoint)
{
	struct ibv_sge sge = {(uintptr_t)&endpoint->memory[0], 8, endpoint->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	must(ibv_post_srq_recv(endpoint->srq, &wr, &bad) == 0);
}

static void post_send(struct endpoint *endpoint, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)&endpoint->memory[1], 8, endpoint->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
				 };

	endpoint->memory[1] = number;
	must(ibv_post_send(endpoint->qp, &wr, &bad) == 0);
}

static void endpoint_open(struct endpoint *endpoint, const char *device)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	*endpoint = (struct endpoint){0};
	must((endpoint->context = open_device(device)));
	must((endpoint->channel = ibv_create_comp_channel(endpoint->context)));
	must((endpoint->pd = ibv_alloc_pd(endpoint->context)));
	must((endpoint->cq =
		      ibv_create_cq(endpoint->context, 2 * DEPTH, endpoint, endpoint->channel, 0)));
	must((endpoint->srq = ibv_create_srq(endpoint->pd, &srq)));
	init.send_cq = init.recv_cq = endpoint->cq;
	init.srq = endpoint->srq;
	must((endpoint->qp = ibv_create_qp(endpoint->pd, &init)));
	must((endpoint->mr = ibv_reg_mr(endpoint->pd, endpoint->memory, sizeof(endpoint->memory),
					IBV_ACCESS_LOCAL_WRITE)));
	post_receive(endpoint);
}

static void endpoint_close(struct endpoint *endpoint)
{
	if (endpoint->qp)
		must(ibv_destroy_qp(endpoint->qp) == 0);
	if (endpoint->srq)
		must(ibv_destroy_srq(endpoint->srq) == 0);
	if (endpoint->cq)
		must(ibv_destroy_cq(endpoint->cq) == 0);
	must(ibv_destroy_comp_channel(endpoint->channel) == 0);
	must(ibv_dereg_mr(endpoint->mr) == 0);
	must(ibv_dealloc_pd(endpoint->pd) == 0);
	must(ibv_close_device(endpoint->context) == 0);
}

static void connect_to(struct endpoint *endpoint, const struct endpoint *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	must(ibv_modify_qp(endpoint->qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr.qp_state = IBV_QPS_RTR;
	must(ibv_query_gid(peer->context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
	must(ibv_modify_qp(endpoint->qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(endpoint->qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void couple(struct endpoint *a, struct endpoint *b)
{
	connect_to(a, b);
	connect_to(b, a);
	a->begins = true;
}

/* --- completions ---------------------------------------------------------------------------- */

static bool take_completion(struct endpoint *endpoint)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(endpoint->cq, 1, &wc) != 1)
		return false;
	must(wc.status == IBV_WC_SUCCESS);
	if (wc.opcode & IBV_WC_RECV)
		endpoint->received++;
	else
		endpoint->sent++;
	return true;
}

/* Events are acknowledged a few at a time, as the manual advises. */
static void sleep_until(struct endpoint *endpoint, unsigned int sent, unsigned int received)
{
	while (endpoint->sent < sent || endpoint->received < received) {
		struct ibv_cq *cq;
		void *context;

		must(ibv_req_notify_cq(endpoint->cq, 0) == 0);
		if (take_completion(endpoint))
			continue;
		must(ibv_get_cq_event(endpoint->channel, &cq, &context) == 0);
		must(cq == endpoint->cq && context == endpoint);
		if (++endpoint->unacknowledged == 10) {
			ibv_ack_cq_events(cq, endpoint->unacknowledged);
			endpoint->unacknowledged = 0;
		}
	}
}

static void poll_until(struct endpoint *endpoint, unsigned int sent, unsigned int received)
{
	while (endpoint->sent < sent || endpoint->received < received)
		if (!take_completion(endpoint))
			sched_yield();
}

#define ECHOES 5000

static void *echo(void *argument)
{
	struct endpoint *endpoint = argument;

	for (unsigned int i = 0; i < ECHOES; i++) {
		if (endpoint->begins)
			post_send(endpoint, 2 * i);
		sleep_until(endpoint, endpoint->begins ? i + 1 : i, i + 1);
		must(endpoint->memory[0] == 2 * i + endpoint->begins);
		post_receive(endpoint);
		if (!endpoint->begins)
			post_send(endpoint, 2 * i + 1);
	}
	sleep_until(endpoint, ECHOES, ECHOES);
	ibv_ack_cq_events(endpoint->cq, endpoint->unacknowledged);
	return NULL;
}

#define COUPLES 3

static struct endpoint couples[COUPLES][2];

static void start_echoes(void)
{
	for (unsigned int i = 0; i < COUPLES; i++) {
		endpoint_open(&couples[i][0], device_names[0]);
		endpoint_open(&couples[i][1], device_names[1]);
		couple(&couples[i][0], &couples[i][1]);
		for (unsigned int k = 0; k < 2; k++)
			must(pthread_create(&couples[i][k].thread, NULL, echo, &couples[i][k]) ==
			     0);
	}
}

static void finish_echoes(void)
{
	for (unsigned int i = 0; i < COUPLES; i++) {
		for (unsigned int k = 0; k < 2; k++) {
			pthread_join(couples[i][k].thread, NULL);
			must(couples[i][k].received == ECHOES);
			endpoint_close(&couples[i][k]);
		}
	}
}

START_TEST(sleeping_in_channels)
{
	make_environment();
	start_echoes();
	finish_echoes();
}
END_TEST

/* --- events that are acknowledged late ------------------------------------------------------ */

struct destruction {
	pthread_t thread;
	void *(*destroy)(void *destruction);
	struct endpoint *endpoint;
	_Atomic bool done;
};

static void *destroy_cq(void *argument)
{
	struct destruction *destruction = argument;

	must(ibv_destroy_cq(destruction->endpoint->cq) == 0);
	atomic_store(&destruction->done, true);
	return NULL;
}

static void *destroy_qp(void *argument)
{
	struct destruction *destruction = argument;

	must(ibv_destroy_qp(destruction->endpoint->qp) == 0);
	atomic_store(&destruction->done, true);
	return NULL;
}

static void *destroy_srq(void *argument)
{
	struct destruction *destruction = argument;

	must(ibv_destroy_srq(destruction->endpoint->srq) == 0);
	atomic_store(&destruction->done, true);
	return NULL;
}

static void start_destruction(struct destruction *destruction)
{
	must(pthread_create(&destruction->thread, NULL, destruction->destroy, destruction) == 0);
	for (unsigned int i = 0; i < 1000; i++)
		sched_yield();
	must(!atomic_load(&destruction->done));
}

static void async_event(struct endpoint *endpoint, enum ibv_event_type type,
			struct ibv_async_event *event)
{
	must(ibv_get_async_event(endpoint->context, event) == 0);
	must(event->event_type == type);
}

START_TEST(late_acknowledgements)
{
	static struct endpoint a, b;
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct destruction qp = {.destroy = destroy_qp, .endpoint = &b};
	struct destruction srq = {.destroy = destroy_srq, .endpoint = &b};
	struct destruction cq = {.destroy = destroy_cq, .endpoint = &b};
	struct ibv_async_event limit_event, last_event;
	struct ibv_cq *event_cq;
	void *context;

	make_environment();
	endpoint_open(&a, device_names[0]);
	endpoint_open(&b, device_names[1]);
	couple(&a, &b);
	must(ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT) == 0);
	must(ibv_req_notify_cq(b.cq, 0) == 0);
	post_send(&a, 1);
	sleep_until(&a, 1, 0);
	ibv_ack_cq_events(a.cq, a.unacknowledged);
	must(ibv_get_cq_event(b.channel, &event_cq, &context) == 0);
	async_event(&b, IBV_EVENT_SRQ_LIMIT_REACHED, &limit_event);
	must(ibv_modify_qp(b.qp, &error, IBV_QP_STATE) == 0);
	async_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED, &last_event);

	start_destruction(&qp);
	ibv_ack_async_event(&last_event);
	pthread_join(qp.thread, NULL);
	start_destruction(&srq);
	ibv_ack_async_event(&limit_event);
	pthread_join(srq.thread, NULL);
	start_destruction(&cq);
	ibv_ack_cq_events(event_cq, 1);
	pthread_join(cq.thread, NULL);

	b.qp = NULL;
	b.srq = NULL;
	b.cq = NULL;
	endpoint_close(&a);
	endpoint_close(&b);
}
END_TEST

/* --- devices that come and go --------------------------------------------------------------- */

#define OPENERS 4
#define OPENINGS 200

/* Takes one event; then no thread waits for events any more. */
static void *take_async_event(void *argument)
{
	struct ibv_async_event event;

	async_event(argument, IBV_EVENT_QP_LAST_WQE_REACHED, &event);
	ibv_ack_async_event(&event);
	return NULL;
}

static void *open_and_close(void *argument)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	unsigned int index = (uintptr_t)argument;
	struct endpoint a, b;
	pthread_t watcher;

	for (unsigned int i = 0; i < OPENINGS; i++) {
		endpoint_open(&a, device_names[(index + i) & 1]);
		endpoint_open(&b, device_names[i / 2 & 1]);
		couple(&a, &b);
		post_send(&a, i);
		poll_until(&b, 0, 1);
		poll_until(&a, 1, 0);
		must(b.memory[0] == i);
		must(pthread_create(&watcher, NULL, take_async_event, &b) == 0);
		must(ibv_modify_qp(b.qp, &error, IBV_QP_STATE) == 0);
		pthread_join(watcher, NULL);
		/* With something under way. */
		post_send(&a, 0);
		endpoint_close(&b);
		endpoint_close(&a);
	}
	return NULL;
}

static pthread_t openers[OPENERS];

static void start_openers(void)
{
	for (uintptr_t i = 0; i < OPENERS; i++)
		must(pthread_create(&openers[i], NULL, open_and_close, (void *)i) == 0);
}

static void finish_openers(void)
{
	for (unsigned int i = 0; i < OPENERS; i++)
		pthread_join(openers[i], NULL);
}

START_TEST(opening_and_closing)
{
	make_environment();
	start_openers();
	finish_openers();
}
END_TEST

static _Atomic bool closings_end;

static void *make_queue_pairs(void *argument)
{
	struct ibv_pd *pd = argument;
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	must((init.send_cq = init.recv_cq = ibv_create_cq(pd->context, 1, NULL, NULL, 0)));
	while (!closings_end) {
		must((qp = ibv_create_qp(pd, &init)));
		must(ibv_destroy_qp(qp) == 0);
	}
	must(ibv_destroy_cq(init.send_cq) == 0);
	return NULL;
}

/* What is left of a closed context is looked for among all queue pairs, new ones included. */
START_TEST(closing_with_objects_left)
{
	struct ibv_context *context, *closed;
	struct ibv_pd *pd, *left;
	pthread_t thread;

	make_environment();
	must((context = open_device(device_names[0])));
	must((pd = ibv_alloc_pd(context)));
	must(pthread_create(&thread, NULL, make_queue_pairs, pd) == 0);
	for (unsigned int i = 0; i < OPENINGS; i++) {
		must((closed = open_device(device_names[0])));
		must((left = ibv_alloc_pd(closed)));
		must(ibv_close_device(closed) == 0);
		must(ibv_dealloc_pd(left) == 0);
	}
	closings_end = true;
	pthread_join(thread, NULL);
	must(ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(context) == 0);
}
END_TEST

/* --- fork ------------------------------------------------------------------------- */

#define CHILDREN 100

/* Goes away, with or without having opened what its parent has open, too. */
static void child(bool opens)
{
	if (opens && CHILD_ALLOCATES) {
		struct ibv_context *context = open_device(device_names[0]);

		must(context);
		if (getpid() & 1)
			must(ibv_close_device(context) == 0);
	}
	_exit(0);
}

static void reap(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) == pid);
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

START_TEST(forking_under_traffic)
{
	make_environment();
	start_echoes();
	for (unsigned int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0)
			child(i & 1);
		reap(pid);
	}
	finish_echoes();
}
END_TEST

static void child_opens_its_own(void)
{
	struct ibv_context *context;

	if (CHILD_ALLOCATES) {
		must((context = open_device(device_names[2])));
		must(ibv_close_device(context) == 0);
	}
	_exit(0);
}

/*
 * A child opens a device of its own, whatever the parent was about when it
 * forked. The parent's devices stay up: to open them anew would be to wait until a child lets go of
 * them.
 */
START_TEST(forking_while_opening)
{
	struct ibv_context *contexts[2];

	make_environment();
	for (unsigned int i = 0; i < 2; i++)
		must((contexts[i] = open_device(device_names[i])));
	start_openers();
	for (unsigned int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0)
			child_opens_its_own();
		reap(pid);
	}
	finish_openers();
	for (unsigned int i = 0; i < 2; i++)
		must(ibv_close_device(contexts[i]) == 0);
}
END_TEST

#define LOOKERS 5 /* each writes the files of all devices, which takes its time */

static _Atomic bool looking;

/* What a program looks at before it opens anything: lists, and the files of sysfs. */
static void look(void)
{
	must(access("/sys/class/infiniband/one/node_type", R_OK) == 0);
	ibv_free_device_list(ibv_get_device_list(NULL));
}

static void *look_again(void *argument)
{
	while (atomic_load(&looking))
		look();
	return NULL;
}

/* A child finds no lock taken by a thread that it doesn't have. */
START_TEST(forking_while_looking)
{
	pthread_t thread;

	make_environment();
	atomic_store(&looking, true);
	must(pthread_create(&thread, NULL, look_again, NULL) == 0);
	for (unsigned int i = 0; i < LOOKERS; i++) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0) {
			if (CHILD_ALLOCATES)
				look();
			_exit(0);
		}
		reap(pid);
	}
	atomic_store(&looking, false);
	pthread_join(thread, NULL);
}
END_TEST

/* What a child inherited keeps no process from the address, however long the child lives. */
START_TEST(reopening_beside_a_child)
{
	int to_child[2], to_parent[2];
	struct ibv_context *context;
	char byte = 0;
	pid_t pid;

	make_environment();
	must(pipe(to_child) == 0 && pipe(to_parent) == 0);
	must((context = open_device(device_names[1])));
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		close(to_child[1]);
		must(write(to_parent[1], &byte, 1) == 1);
		must(read(to_child[0], &byte, 1) == 0); /* until the parent is done */
		_exit(0);
	}
	must(read(to_parent[0], &byte, 1) == 1);
	must(ibv_close_device(context) == 0);
	must((context = open_device(device_names[1])));
	must(ibv_close_device(context) == 0);
	close(to_child[1]);
	reap(pid);
}
END_TEST

/* --- names of an object --------------------------------------------------------------------- */

#define NAMED 64 /* at a time, so that the two threads meet at some of them */
#define NAMED_ROUNDS (SANITIZED ? 40 : 400)

static struct named {
	struct ibv_pd *pd, *imported_pd, *used_pd;
	struct ibv_mr *mr, *imported_mr, *mr_in_used_pd;
	struct ibv_dm *dm, *imported_dm;
} named[NAMED];

static pthread_barrier_t named_barrier;

static void name_twice(struct named *object, struct ibv_pd *pd)
{
	static struct ibv_alloc_dm_attr dm = {.length = 4};
	static char memory[64];

	must((object->pd = ibv_alloc_pd(pd->context)));
	must((object->imported_pd = ibv_import_pd(pd->context, object->pd->handle)));
	must((object->mr = ibv_reg_mr(pd, memory, sizeof(memory), 0)));
	must((object->imported_mr = ibv_import_mr(pd, object->mr->handle)));
	must((object->dm = ibv_alloc_dm(pd->context, &dm)));
	must((object->imported_dm = ibv_import_dm(pd->context, object->dm->handle)));
	/* An import that outlives its name, for what was made in it. */
	must((object->used_pd = ibv_import_pd(pd->context, pd->handle)));
	must((object->mr_in_used_pd = ibv_reg_mr(object->used_pd, memory, sizeof(memory), 0)));
}

static void *end_imports(void *unused)
{
	for (unsigned int i = 0; i < NAMED_ROUNDS; i++) {
		pthread_barrier_wait(&named_barrier);
		for (struct named *object = named; object < named + NAMED; object++) {
			ibv_unimport_pd(object->imported_pd);
			ibv_unimport_mr(object->imported_mr);
			ibv_unimport_dm(object->imported_dm);
			ibv_unimport_pd(object->used_pd);
		}
		pthread_barrier_wait(&named_barrier);
	}
	return NULL;
}

/* One thread destroys objects by a name each while another one ends their other names. */
START_TEST(names_that_end_together)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	pthread_t thread;

	make_environment();
	must((context = open_device(device_names[0])));
	must((pd = ibv_alloc_pd(context)));
	must(pthread_barrier_init(&named_barrier, NULL, 2) == 0);
	must(pthread_create(&thread, NULL, end_imports, NULL) == 0);
	for (unsigned int i = 0; i < NAMED_ROUNDS; i++) {
		for (struct named *object = named; object < named + NAMED; object++)
			name_twice(object, pd);
		pthread_barrier_wait(&named_barrier);
		for (struct named *object = named; object < named + NAMED; object++) {
			must(ibv_dealloc_pd(object->pd) == 0);
			must(ibv_dereg_mr(object->mr) == 0);
			must(ibv_free_dm(object->dm) == 0);
			must(ibv_dereg_mr(object->mr_in_used_pd) == 0);
		}
		pthread_barrier_wait(&named_barrier);
	}
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&named_barrier);
	must(ibv_dealloc_pd(pd) == 0);
	must(ibv_close_device(context) == 0);
}
END_TEST

/* --- targets of XRC ----------------------------------------------------------------------- */

#define TARGET_OPENED 1000

static _Atomic bool all_opened;

static void *move_target(void *target)
{
	struct ibv_qp_attr attr = {.port_num = 1};

	while (!all_opened) {
		attr.qp_state = IBV_QPS_INIT;
		must(ibv_modify_qp(target, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS) == 0);
		attr.qp_state = IBV_QPS_RESET;
		must(ibv_modify_qp(target, &attr, IBV_QP_STATE) == 0);
	}
	return NULL;
}

/* A target gets handles while another thread moves it from state to state. */
START_TEST(opening_a_target_that_moves)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
							 IBV_XRCD_INIT_ATTR_OFLAGS,
					    .fd = -1,
					    .oflags = O_CREAT};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						     IBV_QP_OPEN_ATTR_TYPE,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_context *context;
	struct ibv_qp *target, *opened;
	pthread_t thread;

	make_environment();
	must((context = open_device(device_names[0])));
	must((attr.xrcd = init.xrcd = ibv_open_xrcd(context, &domain)));
	must((target = ibv_create_qp_ex(context, &init)));
	attr.qp_num = target->qp_num;
	must(pthread_create(&thread, NULL, move_target, target) == 0);
	for (unsigned int i = 0; i < TARGET_OPENED; i++) {
		must((opened = ibv_open_qp(context, &attr)));
		must(opened->state == IBV_QPS_RESET || opened->state == IBV_QPS_INIT);
		must(ibv_destroy_qp(opened) == 0);
	}
	all_opened = true;
	pthread_join(thread, NULL);
	must(ibv_destroy_qp(target) == 0);
	must(ibv_close_xrcd(attr.xrcd) == 0);
	must(ibv_close_device(context) == 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs");
	TCase *tcase = tcase_create("verbs");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, sleeping_in_channels);
	tcase_add_test(tcase, late_acknowledgements);
	tcase_add_test(tcase, opening_and_closing);
	tcase_add_test(tcase, closing_with_objects_left);
	tcase_add_test(tcase, forking_under_traffic);
	tcase_add_test(tcase, forking_while_opening);
	tcase_add_test(tcase, forking_while_looking);
	tcase_add_test(tcase, reopening_beside_a_child);
	tcase_add_test(tcase, names_that_end_together);
	tcase_add_test(tcase, opening_a_target_that_moves);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
