/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a forked child may do with its parent's objects: every call returns, with an error or having
 * done nothing, whatever locks the parent's threads held at the fork; and the parent doesn't
 * notice.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/said.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/own_inbox.h"

/* Exported, but in no header. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

#define CHILDREN 12    /* for each call */
#define FIRST_CALLS 10 /* each of a process of its own */
#define PATIENCE 120   /* seconds, for a child on a busy machine */

static struct pair pair;
static struct ibv_cq_ex *cq_ex;
static struct ibv_qp *staged;
static struct ibv_ah *ah;
static struct ibv_srq *srq;
static struct ibv_td *td;
static _Atomic bool stopping;
static _Atomic uint64_t completions;

/* --- the calls ------------------------------------------------------------------------- */

static void post_send(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	must(post_write(&pair, 1) != 0);
	must(ibv_post_send(pair.sender, &wr, NULL) != 0);
}

static void post_recv(void)
{
	struct ibv_sge sge = send_sge(&pair, 64);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad = NULL;

	must(ibv_post_recv(pair.receiver, &wr, &bad) != 0 && bad == &wr);
	must(ibv_post_srq_recv(srq, &wr, &bad) != 0);
	must(ibv_post_recv(pair.receiver, &wr, NULL) != 0);
	must(ibv_post_srq_recv(srq, &wr, NULL) != 0);
}

static void poll(void)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc;

	must(ibv_poll_cq(pair.send_cq, 1, &wc) == 0);
	must(ibv_start_poll(cq_ex, &attr) == ENOENT);
}

static void stage(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(staged);

	must(!ex);
	ex = (struct ibv_qp_ex *)staged; /* as it was got before the fork */
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, pair.mr->rkey, (uintptr_t)pair.buffer);
	ibv_wr_set_sge(ex, pair.mr->lkey, (uintptr_t)pair.buffer, 8);
	must(ibv_wr_complete(ex) != 0);
	ibv_wr_start(ex);
	ibv_wr_abort(ex);
}

static void notifications(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;

	must(ibv_req_notify_cq(pair.recv_cq, 0) != 0);
	errno = 0;
	must(ibv_get_cq_event(pair.channel, &cq, &context) == -1 && errno);
	errno = 0;
	must(ibv_get_async_event(pair.context, &event) == -1 && errno);
	ibv_ack_cq_events(pair.recv_cq, 1);
	event = (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL,
					 .element.qp = pair.sender};
	ibv_ack_async_event(&event);
}

static void modify_and_query(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_srq_attr srq_attr = {};
	struct ibv_device_attr device;
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;
	union ibv_gid gid;

	must(ibv_modify_qp(pair.sender, &attr, IBV_QP_STATE) != 0);
	must(ibv_query_qp(pair.sender, &attr, IBV_QP_STATE, &init) != 0);
	must(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT) != 0);
	must(ibv_query_srq(srq, &srq_attr) != 0);
	must(ibv_resize_cq(pair.send_cq, 2 * DEPTH) != 0);
	must(ibv_query_device(pair.context, &device) != 0);
	must(ibv_query_port(pair.context, 1, &port) != 0);
	must(ibv_query_gid(pair.context, 1, 0, &gid) != 0);
	errno = 0;
	must(ibv_rereg_mr(pair.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ==
	     IBV_REREG_MR_ERR_INPUT);
	must(errno == EOPNOTSUPP);
}

static void create(void)
{
	struct ibv_qp_init_attr init = {.send_cq = pair.send_cq,
					.recv_cq = pair.recv_cq,
					.cap = {1, 1, 1, 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq_init = {.attr = {1, 1}};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	must(!ibv_alloc_pd(pair.context));
	must(!ibv_reg_mr(pair.pd, pair.buffer, 8, 0));
	must(!ibv_create_cq(pair.context, 1, NULL, NULL, 0));
	must(!ibv_create_qp(pair.pd, &init));
	must(!ibv_create_srq(pair.pd, &srq_init));
	must(!ibv_create_ah(pair.pd, &attr));
	must(!ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2));
	must(!ibv_create_comp_channel(pair.context));
}

static void destroy(void)
{
	must(ibv_destroy_ah(ah) == 0);
	must(ibv_destroy_qp(staged) == 0);
	must(ibv_destroy_qp(pair.sender) == 0);
	must(ibv_destroy_qp(pair.receiver) == 0);
	must(ibv_destroy_srq(srq) == 0);
	must(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0);
	must(ibv_destroy_cq(pair.send_cq) == 0);
	must(ibv_destroy_cq(pair.recv_cq) == 0);
	must(ibv_destroy_comp_channel(pair.channel) == 0);
	must(ibv_dereg_mr(pair.mr) == 0);
	must(ibv_dealloc_td(td) == 0);
	must(ibv_dealloc_pd(pair.pd) == 0);
	must(ibv_close_device(pair.context) == 0);
}

/* Calls of newer libraries than we build with aren't left to the real one either. */
static void newer(void)
{
	uint64_t speed;

	must(ibv_query_port_speed(pair.context, 1, &speed) == EOPNOTSUPP);
}

/* Nor are those that rdma-core has for itself and its inline functions. */
static void query_gid_ex(void)
{
	struct ibv_gid_entry entry;

	must(ibv_query_gid_ex(pair.context, 1, 0, &entry, 0) == EOPNOTSUPP);
}

static void query_gid_table(void)
{
	struct ibv_gid_entry entry;

	must(ibv_query_gid_table(pair.context, &entry, 1, 0) == -EOPNOTSUPP);
}

static void query_gid_type(void)
{
	int type;

	must(ibv_query_gid_type(pair.context, 1, 0, &type) == -1 && errno == EOPNOTSUPP);
}

/* Each in a process of its own, of which only the first error is said. */
static void call_said(void (*call)(void))
{
	static struct said said;

	if (SANITIZED)
		return;
	said_begin(&said);
	call();
	said_end(&said);
	must(said_count(&said, CAUSE_FORKED_CHILD) == 1);
}

/*
 * Devices of its own, with everything. TSan allows such a child no thread of its own, and of ASan's
 * allocator a thread of the parent may have had a lock.
 */
static void start_anew(void)
{
	struct ibv_wc wc;

	if (SANITIZED)
		return;
	pair_open(&pair, IBV_QPT_RC, 0);
	must(post_write(&pair, 1) == 0);
	wc = wait_completion(pair.send_cq);
	must(wc.status == IBV_WC_SUCCESS);
	pair_close(&pair);
}

/* LeakSanitizer takes locks of its allocator, which a thread of the parent may have had. */
static void just_exit(void)
{
	if (!SANITIZED)
		exit(0);
}

static const struct {
	void (*call)(void);
	bool said; /* that it is refused */
} calls[] = {
	{post_send},
	{post_recv},
	{poll},
	{stage},
	{notifications},
	{modify_and_query},
	{create},
	{newer, true},
	{query_gid_ex, true},
	{query_gid_table, true},
	{query_gid_type, true},
	{destroy},
	{destroy},
	{start_anew},
	{just_exit},
};

/* --- the parent, busy with all of it ----------------------------------------------------- */

static void *keep_busy(void *argument)
{
	struct ibv_wc wc;

	while (!stopping) {
		struct ibv_qp_attr attr = {.min_rnr_timer = 1};

		post_write(&pair, 1);
		while (ibv_poll_cq(pair.send_cq, 1, &wc) > 0) {
			must(wc.status == IBV_WC_SUCCESS);
			completions++;
		}
		ibv_modify_qp(pair.receiver, &attr, IBV_QP_MIN_RNR_TIMER);
		ibv_req_notify_cq(pair.recv_cq, 0);
	}
	return NULL;
}

static void create_others(void)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_srq_init_attr srq_init = {.attr = {4, 1}};
	struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1};
	struct ibv_td_init_attr td_init = {};
	struct ibv_qp_init_attr_ex init = {
		.send_cq = pair.send_cq,
		.recv_cq = pair.recv_cq,
		.cap = {4, 4, 1, 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pair.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};

	cq_ex = ibv_create_cq_ex(pair.context, &cq_init);
	srq = ibv_create_srq(pair.pd, &srq_init);
	staged = ibv_create_qp_ex(pair.context, &init);
	must(ibv_query_gid(pair.context, 1, 0, &ah_attr.grh.dgid) == 0);
	ah = ibv_create_ah(pair.pd, &ah_attr);
	td = ibv_alloc_td(pair.context, &td_init);
	must(cq_ex && srq && staged && ah && td);
}

static void destroy_others(void)
{
	must(ibv_destroy_ah(ah) == 0);
	must(ibv_destroy_qp(staged) == 0);
	must(ibv_destroy_srq(srq) == 0);
	must(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0);
	must(ibv_dealloc_td(td) == 0);
}

START_TEST(calls_in_a_child)
{
	pid_t children[CHILDREN];
	pthread_t threads[2];
	uint64_t before;
	int status;

	pair_open(&pair, IBV_QPT_RC, 0);
	create_others();
	for (int i = 0; i < 2; i++)
		must(pthread_create(&threads[i], NULL, keep_busy, NULL) == 0);
	for (int i = 0; i < CHILDREN; i++) {
		usleep(500 + 70 * i);
		children[i] = fork();
		must(children[i] >= 0);
		if (children[i] == 0) {
			alarm(PATIENCE);
			calls[_i].said ? call_said(calls[_i].call) : calls[_i].call();
			_exit(0);
		}
	}
	for (int i = 0; i < CHILDREN; i++) {
		must(waitpid(children[i], &status, 0) == children[i]);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
			      "child %d of call %d: status %#x", i, _i, status);
	}
	/* Nothing of the parent's was touched. */
	before = completions;
	while (completions < before + 100)
		usleep(1000);
	stopping = true;
	for (int i = 0; i < 2; i++)
		must(pthread_join(threads[i], NULL) == 0);
	destroy_others();
	pair_close(&pair);
}
END_TEST

/* What is left of a device that the parent has closed isn't the child's either. */
START_TEST(objects_of_a_closed_device)
{
	int status;
	pid_t child;

	pair_open(&pair, IBV_QPT_RC, 0);
	must(ibv_close_device(pair.context) == 0);
	child = fork();
	must(child >= 0);
	if (child == 0) {
		alarm(PATIENCE);
		errno = 0;
		must(!ibv_reg_mr(pair.pd, pair.buffer, 8, 0) && errno == EOPNOTSUPP);
		must(ibv_destroy_qp(pair.sender) == 0 && ibv_destroy_qp(pair.receiver) == 0);
		must(ibv_destroy_cq(pair.send_cq) == 0 && ibv_destroy_cq(pair.recv_cq) == 0);
		must(ibv_destroy_comp_channel(pair.channel) == 0);
		must(ibv_dereg_mr(pair.mr) == 0 && ibv_dealloc_pd(pair.pd) == 0);
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	must(ibv_destroy_qp(pair.sender) == 0 && ibv_destroy_qp(pair.receiver) == 0);
	must(ibv_destroy_cq(pair.send_cq) == 0 && ibv_destroy_cq(pair.recv_cq) == 0);
	must(ibv_destroy_comp_channel(pair.channel) == 0);
	must(ibv_dereg_mr(pair.mr) == 0 && ibv_dealloc_pd(pair.pd) == 0);
}
END_TEST

/* All threads but this one: none then has a lock of an allocator. */
static void wait_until_others_sleep(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;

	must(tasks);
	while ((entry = readdir(tasks))) {
		_Atomic pid_t tid = atoi(entry->d_name);

		if (tid && tid != getpid())
			wait_until_asleep(&tid);
	}
	closedir(tasks);
}

/*
 * What is the parent's, and never freed here, has to stay pointed to: LeakSanitizer would end the
 * child with a status of its own.
 */
START_TEST(exit_of_a_child)
{
	const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 0, 0, 1}};
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1}, .qp_type = IBV_QPT_UD};
	struct ibv_qp *member;
	int status;
	pid_t child;

	pair_open(&pair, IBV_QPT_RC, 0);
	create_others();
	init.send_cq = init.recv_cq = pair.send_cq;
	member = ibv_create_qp(pair.pd, &init);
	must(member);
	must(post_write(&pair, 1) == 0);
	must(wait_completion(pair.send_cq).status == IBV_WC_SUCCESS);
	wait_until_others_sleep();
	must(ibv_attach_mcast(member, &group, 0) == 0);
	child = fork();
	must(child >= 0);
	if (child == 0) {
		alarm(PATIENCE);
		exit(0);
	}
	must(waitpid(child, &status, 0) == child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	must(ibv_detach_mcast(member, &group, 0) == 0);
	must(ibv_destroy_qp(member) == 0);
	destroy_others();
	pair_close(&pair);
}
END_TEST

/* A lock that a thread of the parent's had is taken in the child for ever. */
START_TEST(acknowledgements_in_a_child)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_CQ_ERR};
	int status;
	pid_t child;

	pair_open(&pair, IBV_QPT_RC, 0);
	event.element.cq = pair.recv_cq;
	must(pthread_mutex_lock(&pair.recv_cq->mutex) == 0);
	child = fork();
	must(child >= 0);
	if (child == 0) {
		alarm(PATIENCE);
		ibv_ack_cq_events(pair.recv_cq, 1);
		ibv_ack_async_event(&event);
		_exit(0);
	}
	must(pthread_mutex_unlock(&pair.recv_cq->mutex) == 0);
	must(waitpid(child, &status, 0) == child);
	ck_assert_int_eq(status, 0);
	pair_close(&pair);
}
END_TEST

/* --- the first call of all --------------------------------------------------------------- */

static _Atomic bool forks; /* another thread does */
static _Atomic bool created;

static void *create_id(void *unused)
{
	struct rdma_cm_id *id;

	while (!forks)
		;
	must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	must(rdma_destroy_id(id) == 0);
	created = true;
	/* TSan takes a thread that has ended for a child's that wasn't joined. */
	while (!stopping)
		usleep(1000);
	return NULL;
}

/* While it finds the devices, others fork. */
START_TEST(forks_beside_the_first_call)
{
	pthread_t thread;
	int status;

	alarm(PATIENCE);
	must(pthread_create(&thread, NULL, create_id, NULL) == 0);
	while (!created) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0)
			_exit(0);
		must(waitpid(pid, &status, 0) == pid && status == 0);
		forks = true;
	}
	stopping = true;
	must(pthread_join(thread, NULL) == 0);
}
END_TEST

static void on_bus_error(int number)
{
	_exit(0);
}

/* An access beyond the end of a file of its own, which the kernel has mapped there. */
static void fault_at(void *address)
{
	long page = sysconf(_SC_PAGESIZE);
	int file = memfd_create("own", 0);

	must(signal(SIGBUS, on_bus_error) != SIG_ERR);
	must(mmap(address, page, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == address);
	must(*(volatile uint8_t *)address != 0);
}

START_TEST(faults_of_a_child_are_its_own)
{
	char name[PATH_MAX];
	void *address;
	int status;
	pid_t child;

	pair_open(&pair, IBV_QPT_RC, 0);
	address = own_inbox(name);
	child = fork();
	must(child >= 0);
	if (child == 0) {
		if (address)
			fault_at(address);
		_exit(0);
	}
	must(waitpid(child, &status, 0) == child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fork");
	TCase *tests = tcase_create("fork");

	fixture_environment();
	tcase_set_timeout(tests, 3 * PATIENCE);
	tcase_add_loop_test(tests, calls_in_a_child, 0, sizeof(calls) / sizeof(*calls));
	tcase_add_test(tests, objects_of_a_closed_device);
	tcase_add_test(tests, exit_of_a_child);
	tcase_add_test(tests, acknowledgements_in_a_child);
	tcase_add_loop_test(tests, forks_beside_the_first_call, 0, FIRST_CALLS);
	tcase_add_test(tests, faults_of_a_child_are_its_own);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
