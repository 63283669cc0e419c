/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that exit in the handler of a signal, as many tools do by SIGINT: the thread may be in
 * the middle of a call, with locks held.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check/case.h"

#define CALLS_ARE_MADE 42
#define PATIENCE 60 /* s */

static struct rig rig;
static _Thread_local unsigned int unlocks_left; /* 0: no signal comes */

/* What the library calls: a signal comes just before, and its handler exits. */
__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	if (unlocks_left && --unlocks_left == 0)
		exit(EXIT_SUCCESS);
	return real(mutex);
}

static void make_calls(unsigned int exit_at)
{
	struct ibv_sge sge = {(uintptr_t)rig.buffer, 1, 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	alarm(PATIENCE);
	rig_open(&rig);
	rig_connect(&rig);
	sge.lkey = rig.mr->lkey;
	unlocks_left = exit_at;
	must(ibv_post_send(rig.qp, &wr, &bad) == 0);
	while (ibv_poll_cq(rig.cq, 1, &wc) == 0)
		;
	unlocks_left = 0;
	_exit(CALLS_ARE_MADE);
}

/* At each place of the calls where a lock is held. The last process says something, too. */
static void exit_amid_calls(void)
{
	int status = 0;

	for (unsigned int exit_at = 1; WEXITSTATUS(status) != CALLS_ARE_MADE; exit_at++) {
		pid_t pid = fork();

		must(pid >= 0);
		if (pid == 0)
			make_calls(exit_at);
		must(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	}
	must(ibv_get_device_list(NULL));
}

static const struct check_case cases[] = {
	BAD(OBJECT_LEAKED, exit_amid_calls, .said = "in the middle of a call"),
};

const struct check_table exit_cases = CHECK_TABLE(cases, 0x7020, 0x7021);
