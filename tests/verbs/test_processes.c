/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that lack what others have: the main thread, the standard descriptors. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

static void expect_exit(pid_t child)
{
	int status;

	must(child >= 0);
	must(waitpid(child, &status, 0) == child);
	ck_assert_int_eq(status, 0);
}

/* The files in /proc/self are empty once the main thread has ended, which TSan can't join. */
static void *go_on_alone(void *unused)
{
	static uint8_t bytes[64];
	char path[64];
	struct ibv_pd *pd;

	while (readlink("/proc/self/exe", path, sizeof(path)) >= 0)
		usleep(1000);
	pd = ibv_alloc_pd(fixture_open());
	must(pd);
	must(ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE));
	_exit(0);
}

START_TEST(main_thread_has_ended)
{
	pid_t child = fork();

	if (child == 0) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, go_on_alone, NULL) == 0);
		pthread_exit(NULL);
	}
	expect_exit(child);
}
END_TEST

/* What the program prints would be in a file that other processes read. */
START_TEST(standard_descriptors_are_closed)
{
	pid_t child = fork();

	if (child == 0) {
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		fixture_open();
		for (int fd = 0; fd < 3; fd++) {
			char name[32], target[256] = "";

			snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
			if (readlink(name, target, sizeof(target) - 1) > 0 &&
			    strncmp(target, "/dev/shm/", 9) == 0)
				_exit(1);
		}
		_exit(0);
	}
	expect_exit(child);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("processes");
	TCase *tests = tcase_create("processes");

	fixture_environment();
	tcase_add_test(tests, main_thread_has_ended);
	tcase_add_test(tests, standard_descriptors_are_closed);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
