/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the environment is read: once, at the first call that needs it, and quietly.
 * Each scenario runs in a child, before any verbs call.
 */
#include <check.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/must.h"
#include "tests/run_suite.h"
#include "tests/verbs/fixture.h"

static void run_in_child(void (*scenario)(void))
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		scenario();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* The devices are one, called @name. */
static void must_list(const char *name)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);

	must(list);
	must(count == 1);
	must(strcmp(ibv_get_device_name(list[0]), name) == 0);
	ibv_free_device_list(list);
}

static void set_device(const char *name)
{
	char value[64];

	snprintf(value, sizeof(value), "%s=%s", name, fixture_address());
	must(unsetenv("URXE_NODE") == 0);
	must(setenv("URXE_DEVICES", value, 1) == 0);
}

static void set_after_start(void)
{
	set_device("first");
	must_list("first");
	set_device("second");
	must_list("first");
}

START_TEST(main_may_set_it)
{
	run_in_child(set_after_start);
}
END_TEST

/* In mode hw there is no event channel: no hardware, or not even a library for it. */
static void change_mode(void)
{
	struct rdma_event_channel *channel;

	must_list("urxe0");
	must(setenv("URXE_MODE", "hw", 1) == 0);
	channel = rdma_create_event_channel();
	must(channel);
	rdma_destroy_event_channel(channel);
	must(ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	must_list("urxe0");
}

START_TEST(mode_stays)
{
	run_in_child(change_mode);
}
END_TEST

/* What needs the mode alone has read everything. */
static void change_after_fork_init(void)
{
	set_device("first");
	must(ibv_fork_init() == 0);
	set_device("second");
	must_list("first");
}

START_TEST(any_call_reads_all)
{
	run_in_child(change_after_fork_init);
}
END_TEST

static void grandchild(void)
{
	must_list("first");
}

static void fork_after_start(void)
{
	set_device("first");
	must(ibv_fork_init() == 0);
	set_device("second");
	run_in_child(grandchild);
	must_list("first");
	run_in_child(grandchild);
}

START_TEST(forked_child_keeps_it)
{
	run_in_child(fork_after_start);
}
END_TEST

static off_t stderr_length(void)
{
	return lseek(STDERR_FILENO, 0, SEEK_END);
}

static void list_with_error(void)
{
	struct ibv_device **list;
	off_t length;
	int count = -1;

	must(setenv("URXE_MODE", "software", 1) == 0);
	must(dup2(memfd_create("stderr", 0), STDERR_FILENO) == STDERR_FILENO);
	must(ibv_fork_init() == 0);
	must(stderr_length() == 0);
	list = ibv_get_device_list(&count);
	must(list && count == 0);
	ibv_free_device_list(list);
	length = stderr_length();
	must(length > 0);
	list = ibv_get_device_list(&count);
	must(list && count == 0);
	ibv_free_device_list(list);
	must(!rdma_create_event_channel() && errno == ENODEV);
	must(stderr_length() == length);
}

/* An error is told when a program asks for devices, and once. */
START_TEST(errors_wait_for_a_list)
{
	run_in_child(list_with_error);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("configuration");
	TCase *tests = tcase_create("configuration");

	fixture_environment();
	tcase_add_test(tests, main_may_set_it);
	tcase_add_test(tests, mode_stays);
	tcase_add_test(tests, any_call_reads_all);
	tcase_add_test(tests, forked_child_keeps_it);
	tcase_add_test(tests, errors_wait_for_a_list);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
