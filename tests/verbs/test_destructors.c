/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Destructors of other libraries post and poll, whatever the order is in which the dynamic linker
 * runs them and ours: one of two libraries has its turn after liburxe.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"
#include "tests/verbs/late.h"

#define PATIENCE 60 /* seconds */
#define STATUS 7

static struct pair pair;
static _Atomic int *calls; /* shared with the child */

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static void transfer(void)
{
	time_t end = now() + PATIENCE;
	struct ibv_wc wc;
	int count;

	for (int i = 0; i < 3; i++) {
		must(post_write(&pair, i) == 0);
		while ((count = ibv_poll_cq(pair.send_cq, 1, &wc)) == 0)
			must_msg(now() < end, "no completion in a destructor");
		must(count == 1 && wc.status == IBV_WC_SUCCESS);
	}
	atomic_fetch_add(calls, 1);
}

START_TEST(may_post_and_poll)
{
	int status;
	pid_t pid;

	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	must(calls != MAP_FAILED);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		pair_open(&pair, IBV_QPT_RC, 0);
		transfer();
		late_before(transfer);
		late_behind(transfer);
		exit(STATUS);
	}
	must(waitpid(pid, &status, 0) == pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
	ck_assert_int_eq(atomic_load(calls), 3);
	munmap(calls, sizeof(*calls));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("destructors");
	TCase *tests = tcase_create("destructors");

	fixture_environment();
	tcase_set_timeout(tests, 5 * PATIENCE);
	tcase_add_test(tests, may_post_and_poll);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
