/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that wait for completion events which don't come. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check/case.h"

static struct rig rig;

static void post_receive(void)
{
	struct ibv_recv_wr wr = {}, *bad;

	must(ibv_post_recv(rig.qp, &wr, &bad) == 0);
}

/* A receive completes, flushed. */
static void open_in_error(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	rig_open(&rig);
	rig_connect(&rig);
	must(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE) == 0);
}

static unsigned int poll_all(void)
{
	unsigned int count = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(rig.cq, 1, &wc) > 0)
		count++;
	return count;
}

static void wait_for_event(void)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_get_cq_event(rig.channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

/* What is reported goes to stderr, a file (tests/check/main.c). */
static void wait_for_report(void)
{
	struct stat said = {};

	while (said.st_size == 0) {
		usleep(10000);
		must(fstat(STDERR_FILENO, &said) == 0);
	}
}

/* --- unarmed -------------------------------------------------------------------------------- */

static void *arm_and_complete(void *unused)
{
	wait_for_report();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	post_receive();
	return NULL;
}

/* Forks don't wait for the thread that reports, nor it for them. */
static void *fork_and_complete(void *unused)
{
	struct stat said = {};
	int status;

	while (said.st_size == 0) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0)
			_exit(0);
		must(waitpid(pid, &status, 0) == pid && status == 0);
		must(fstat(STDERR_FILENO, &said) == 0);
	}
	return arm_and_complete(NULL);
}

/* While another thread does @other. */
static void wait_during(void *(*other)(void *))
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, other, NULL) == 0);
	wait_for_event();
	must(pthread_join(thread, NULL) == 0);
}

static void wait_unarmed_with(void *(*other)(void *))
{
	open_in_error();
	post_receive();
	wait_during(other);
	rig_close(&rig);
}

static void wait_unarmed(void)
{
	wait_unarmed_with(arm_and_complete);
}

static void wait_unarmed_beside_forks(void)
{
	must(ibv_fork_init() == 0);
	wait_unarmed_with(fork_and_complete);
}

static void *wait_for_next(void *unused)
{
	wait_for_event();
	return NULL;
}

/* The thread that had the event has ended, and didn't arm the queue. */
static void wait_after_taker(void)
{
	pthread_t thread;

	open_in_error();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	post_receive();
	must(pthread_create(&thread, NULL, wait_for_next, NULL) == 0);
	must(pthread_join(thread, NULL) == 0);
	wait_during(arm_and_complete);
	rig_close(&rig);
}

/* Longer than the checker waits before it says anything. */
#define LONG_ENOUGH 2500000 /* us */

static void *complete_late(void *unused)
{
	usleep(LONG_ENOUGH);
	post_receive();
	return NULL;
}

/* It has the event of another thread's wait, and arms the queue when it is through. */
static void *handle_for_long(void *taken)
{
	wait_for_event();
	must(sem_post(taken) == 0);
	usleep(LONG_ENOUGH);
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	must(poll_all() == 1);
	post_receive();
	return NULL;
}

static void wait_beside_taker(void)
{
	pthread_t thread;
	sem_t taken;

	open_in_error();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	must(sem_init(&taken, 0, 0) == 0);
	must(pthread_create(&thread, NULL, handle_for_long, &taken) == 0);
	post_receive();
	must(sem_wait(&taken) == 0);
	wait_for_event();
	must(pthread_join(thread, NULL) == 0);
	must(poll_all() == 1);
	must(sem_destroy(&taken) == 0);
	rig_close(&rig);
}

static void wait_armed(void)
{
	open_in_error();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	wait_during(complete_late);
	must(poll_all() == 1);
	rig_close(&rig);
}

static void *flush_late(void *unused)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	usleep(LONG_ENOUGH);
	must(ibv_modify_qp(rig.qp, &attr, IBV_QP_STATE) == 0);
	return NULL;
}

static void wait_armed_for_work(void)
{
	rig_open(&rig);
	rig_connect(&rig);
	post_receive();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	wait_during(flush_late);
	must(poll_all() == 1);
	rig_close(&rig);
}

static void *arm_late(void *unused)
{
	usleep(LONG_ENOUGH);
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	post_receive();
	return NULL;
}

/* A thread for events that is there before there is any work. */
static void wait_before_work(void)
{
	open_in_error();
	wait_during(arm_late);
	must(poll_all() == 1);
	rig_close(&rig);
}

/* This thread has got an event, and polls now and then for what comes; then it arms. */
static void wait_beside_handler(void)
{
	pthread_t thread;

	open_in_error();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	post_receive();
	wait_for_event();
	must(pthread_create(&thread, NULL, wait_for_next, NULL) == 0);
	for (unsigned int i = 0; i < 10; i++) {
		usleep(LONG_ENOUGH / 10);
		must(poll_all() == 1);
		post_receive();
	}
	must(poll_all() == 1);
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	post_receive();
	must(pthread_join(thread, NULL) == 0);
	must(poll_all() == 1);
	rig_close(&rig);
}

/* --- lost wake-ups ---------------------------------------------------------------------------- */

static void *complete_again(void *unused)
{
	wait_for_report();
	post_receive();
	return NULL;
}

static void wait_without_polling_again(void)
{
	open_in_error();
	must(poll_all() == 0);
	post_receive();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	wait_during(complete_again);
	must(poll_all() == 2);
	rig_close(&rig);
}

static void poll_again_and_wait(void)
{
	open_in_error();
	must(poll_all() == 0);
	post_receive();
	must(ibv_req_notify_cq(rig.cq, 0) == 0);
	must(poll_all() == 1);
	wait_during(complete_late);
	must(poll_all() == 1);
	rig_close(&rig);
}

static const struct check_case cases[] = {
	BAD(WAITS_UNARMED, wait_unarmed,
	    .said = "of 1 completion queues of the channel none is armed"),
	BAD(WAITS_UNARMED, wait_unarmed_beside_forks),
	BAD(WAITS_UNARMED, wait_after_taker),
	GOOD(WAITS_UNARMED, wait_armed),
	GOOD(WAITS_UNARMED, wait_armed_for_work),
	GOOD(WAITS_UNARMED, wait_before_work),
	GOOD(WAITS_UNARMED, wait_beside_handler),
	GOOD(WAITS_UNARMED, wait_beside_taker),
	BAD(WAKE_UP_LOST, wait_without_polling_again, .said = "holds 1 completions"),
	GOOD(WAKE_UP_LOST, poll_again_and_wait),
};

const struct check_table wait_cases = CHECK_TABLE(cases, 0x7120, 0x71ff);
