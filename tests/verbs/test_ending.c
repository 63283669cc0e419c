/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hardware answers for a process: what a process has received, and seen the completion of, is
 * acknowledged, whichever way it ends then. And nothing of it stays in /dev/shm.
 */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/sanitizers.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/own_inbox.h"

#define ROUNDS 5

/* Between the two processes. */
static struct {
	_Atomic uint32_t sender, receiver; /* numbers of queue pairs, when there are */
	_Atomic bool ready;
	char inbox[PATH_MAX]; /* of the one; "": its link has none */
} * shared;

static struct pair pair;

/* --- a progress thread that gets no CPU ------------------------------------------------------ */

#define LATE 500000000 /* ns: more than a process waits for a thread that sleeps */

static bool starts_late;

#if !SANITIZED /* they have a pthread_create() of their own */
struct late_thread {
	void *(*main)(void *argument);
	void *argument;
};

/* As seen by others, a thread that runs without getting anywhere is one that waits for a CPU. */
static void *begin_late(void *argument)
{
	const struct late_thread *thread = argument;
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < LATE);
	return thread->main(thread->argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *created,
							  const pthread_attr_t *attr,
							  void *(*begin)(void *), void *argument)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	static struct late_thread late;

	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	if (!starts_late)
		return next(created, attr, begin, argument);
	late = (struct late_thread){begin, argument};
	return next(created, attr, begin_late, &late);
}
#endif

/* --- the two processes ----------------------------------------------------------------------- */

static void connect_to(struct ibv_qp *qp, const _Atomic uint32_t *number)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp peer = {};

	while (!*number)
		usleep(100);
	peer.qp_num = *number;
	ck_assert_int_eq(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	connect_qp(qp, &peer);
}

static void leave_in_handler(int signal)
{
	_exit(0);
}

static void leave_by_handler(int status)
{
	signal(SIGUSR1, leave_in_handler);
	raise(SIGUSR1);
}

/* LeakSanitizer would take the objects for leaked. */
static void leave_by_exit(int status)
{
	if (SANITIZED)
		_exit(status);
	exit(status);
}

static void *leave_at_once(void *unused)
{
	_exit(0);
}

static void leave_together(int status)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, leave_at_once, NULL) == 0);
	_exit(status);
}

/* None of these is a cancellation point (pthreads(7)). */
static void leave_cancelled(int status)
{
	must(pthread_cancel(pthread_self()) == 0);
	_exit(status);
}

static void leave_by_exit_cancelled(int status)
{
	must(pthread_cancel(pthread_self()) == 0);
	leave_by_exit(status);
}

static void (*const ways[])(int status) = {
	leave_by_exit,	  _exit,	  _Exit,	   quick_exit,
	leave_by_handler, leave_together, leave_cancelled, leave_by_exit_cancelled,
};

static void receive_and_leave(void (*leave)(int status))
{
	pair_open(&pair, IBV_QPT_RC, 0);
	shared->receiver = pair.receiver->qp_num;
	connect_to(pair.receiver, &shared->sender);
	post_receive(&pair, 1);
	shared->ready = true;
	ck_assert_int_eq(wait_completion(pair.recv_cq).status, IBV_WC_SUCCESS);
	leave(0);
}

static void send_one(void)
{
	struct ibv_sge sge = send_sge(&pair, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	ck_assert_int_eq(ibv_post_send(pair.sender, &wr, &bad), 0);
	ck_assert_int_eq(wait_completion(pair.send_cq).status, IBV_WC_SUCCESS);
}

static void acknowledges(void (*leave)(int status), bool late)
{
	pid_t receiver = fork();
	int status;

	must(receiver >= 0);
	if (receiver == 0) {
		starts_late = late;
		receive_and_leave(leave);
		_exit(1);
	}
	pair_open(&pair, IBV_QPT_RC, 0);
	shared->sender = pair.sender->qp_num;
	connect_to(pair.sender, &shared->receiver);
	while (!shared->ready)
		usleep(100);
	send_one();
	must(waitpid(receiver, &status, 0) == receiver);
	ck_assert_int_eq(status, 0);
	pair_close(&pair);
}

START_TEST(received_last)
{
	acknowledges(ways[_i / ROUNDS], false);
}
END_TEST

/* The thread that acknowledges waits for a CPU for longer than for one that sleeps is waited. */
START_TEST(received_last_without_a_cpu)
{
	acknowledges(_exit, true);
}
END_TEST

/* --- what is in /dev/shm --------------------------------------------------------------------- */

/* No handlers of pthread_atfork() run. */
static pid_t fork_unseen(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void check_that_it_stays(pid_t (*copy)(void))
{
	pid_t child = copy();

	if (child == 0)
		leave_by_exit(0);
	must(exit_status(child) == 0);
	must(!*shared->inbox || access(shared->inbox, F_OK) == 0);
}

static void open_and_leave(void (*leave)(int status))
{
	fixture_open();
	own_inbox(shared->inbox);
	check_that_it_stays(fork);
	check_that_it_stays(fork_unseen);
	leave(0);
}

START_TEST(inbox_is_removed)
{
	pid_t child = fork();

	must(child >= 0);
	if (child == 0) {
		open_and_leave(ways[_i]);
		_exit(1);
	}
	ck_assert_int_eq(exit_status(child), 0);
	ck_assert_int_ne(access(shared->inbox, F_OK), 0);
}
END_TEST

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	must(shared != MAP_FAILED);
}

static void unshare_all(void)
{
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	Suite *suite = suite_create("ending");
	TCase *tests = tcase_create("ending");

	fixture_environment();
	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, share, unshare_all);
	tcase_add_loop_test(tests, received_last, 0, ROUNDS * sizeof(ways) / sizeof(ways[0]));
	tcase_add_test(tests, received_last_without_a_cpu);
	tcase_add_loop_test(tests, inbox_is_removed, 0, sizeof(ways) / sizeof(ways[0]));
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
